"""The published values: accuracies, measurements by layer, stated sizes; each knows how it was rounded."""

import csv
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from seedspread.stats.groups import Floats, Group

# Test sets of 10,000 images: a percentage with two decimals is the accuracy itself. SVHN's has 26,032.
_MORE_THAN_TWO_DECIMALS = ("svhn", "svhn-medium", "svhn-hard")

SETTINGS = ("cifar10", "cifar10-low", "cifar100", "svhn", "fashion-mnist", "svhn-medium", "svhn-hard")


@dataclass(frozen=True)
class Series:
    """Published numbers, and by how much rounding may have moved each (0 for exact ones)."""

    values: Floats
    half_widths: Floats

    def entry(self, i: int) -> "Series":
        return Series(self.values[i : i + 1], self.half_widths[i : i + 1])


def half_width(printed: str) -> float:
    """Return half of the last printed digit: 78.52 stands for anything from 78.515 to 78.525."""
    digits = printed.lstrip("+-~< >")
    return 0.5 * 10.0 ** -(len(digits.split(".")[1]) if "." in digits else 0)


@cache
def published_runs() -> list[dict[str, str]]:
    """Return rows of setting, margin_type, stability, seed, accuracy."""
    with (files(__package__) / "seeds.csv").open() as file:
        return list(csv.DictReader(file))


def published_table() -> pd.DataFrame:
    """Return every per-seed accuracy of the appendices as a table."""
    return pd.DataFrame(published_runs()).replace({"stability": {"": "unstated"}})


@cache
def _measured() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "measured.toml").read_text())


@cache
def series(name: str) -> Series:
    """Return values by name: `cifar10/clamp/detach`, `cifar10/clamp`, `car/svhn`, or a stated size."""
    part, _, rest = name.partition("/")
    if part in SETTINGS:
        margin_type, _, stability = rest.partition("/")
        rows = [
            r["accuracy"]
            for r in published_runs()
            if (r["setting"], r["margin_type"]) == (part, margin_type) and stability in ("", r["stability"])
        ]
        exact = part not in _MORE_THAN_TWO_DECIMALS
        accuracies = _rounded(rows)
        return Series(accuracies.values, np.zeros(len(rows))) if exact else accuracies
    if part in ("car", "gradient", "gradient_sd", "stated"):
        return _rounded(_measured()[part][rest].split())
    text = _measured()["classes"][rest] if part == "classes" else _measured()["exact"][name]
    stated = np.concatenate([_repeated(word) for word in text.split()])
    return Series(stated, np.zeros(len(stated)))


def values(name: str) -> Floats:
    """Return published values by name, without their rounding."""
    return series(name).values


@cache
def published_arm(setting: str, margin_type: str) -> Group:
    """Return the accuracies of a margin type; stability modes are blocks."""
    rows = [r for r in published_runs() if (r["setting"], r["margin_type"]) == (setting, margin_type)]
    modes = sorted({r["stability"] for r in rows})
    return Group(
        name=margin_type,
        values=np.array([float(r["accuracy"]) for r in rows]),
        blocks=np.array([modes.index(r["stability"]) for r in rows]),
        seeds=np.array([int(r["seed"]) for r in rows]),
        block_names=tuple((mode,) for mode in modes),
    )


def mode_arm(setting: str, margin_type: str, mode: str) -> Group:
    """Return the accuracies of a margin type in one stability mode, by seed."""
    accuracies = values(f"{setting}/{margin_type}/{mode}")
    return Group(mode, accuracies, np.zeros(len(accuracies), int), np.arange(len(accuracies)))


def _rounded(words: list[str]) -> Series:
    if not words:
        raise KeyError("no published value has this name")
    return Series(np.array([float(w) for w in words]), np.array([half_width(w) for w in words]))


def _repeated(word: str) -> Floats:
    value, _, times = word.partition("x")
    return np.full(int(times or 1), float(value))
