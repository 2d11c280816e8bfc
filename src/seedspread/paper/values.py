"""The published values with their rounding, and the methods by which the paper computes its numbers."""

import csv
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from seedspread.cff.datasets import expected_positive_pairs
from seedspread.stats.classic import f_p_value, two_way
from seedspread.stats.groups import Floats, Group

# A percentage with two decimals is exact for a test set of 10,000 images, but not for SVHN's 26,032.
_MORE_THAN_TWO_DECIMALS = ("svhn", "svhn-medium", "svhn-hard")


@cache
def paper_data(name: str) -> dict[str, Any]:
    """Return the content of one of this folder's TOML files."""
    return tomllib.loads((files(__package__) / name).read_text(encoding="utf-8"))


SETTINGS: dict[str, dict[str, Any]] = paper_data("settings.toml")
# The settings that the paper judges together, in the order of its tables.
MAIN = tuple(name for name, about in SETTINGS.items() if "pairs" in about)


@dataclass(frozen=True)
class Series:
    """Published numbers, and the largest rounding error of each (0 if exact)."""

    values: Floats
    half_widths: Floats

    def entry(self, i: int) -> "Series":
        return Series(self.values[i : i + 1], self.half_widths[i : i + 1])


def half_width(printed: str) -> float:
    """Return half a unit of the last printed digit: 78.52 is anything from 78.515 to 78.525."""
    digits = printed.lstrip("+-~< >")
    return 0.5 * 10.0 ** -(len(digits.split(".")[1]) if "." in digits else 0)


@cache
def published_runs() -> list[dict[str, str]]:
    """Return a row per published run: setting, margin_type, stability, seed, accuracy."""
    with (files(__package__) / "seeds.csv").open() as file:
        return list(csv.DictReader(file))


def published_table() -> pd.DataFrame:
    return pd.DataFrame(published_runs()).replace({"stability": {"": "unstated"}})


@cache
def series(name: str) -> Series:
    """Return published values by name: `cifar10/clamp/detach`, `cifar10/clamp`, `car/svhn`, `stated/...`."""
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
    measured = paper_data("measured.toml")
    if part in ("car", "gradient", "gradient_sd", "stated"):
        return _rounded(measured[part][rest].split())
    text = measured["classes"][rest] if part == "classes" else measured["exact"][name]
    stated = np.concatenate([_repeated(word) for word in text.split()])
    return Series(stated, np.zeros(len(stated)))


def values(name: str) -> Floats:
    """Return published values by name, without their rounding errors."""
    return series(name).values


@cache
def published_group(setting: str, margin_type: str) -> Group:
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


def mode_group(group: str, mode: str) -> Group:
    """Return the accuracies of a group, such as `cifar10/clamp`, in one stability mode, by seed."""
    accuracies = values(f"{group}/{mode}")
    return Group(mode, accuracies, np.zeros(len(accuracies), int), np.arange(len(accuracies)))


def _rounded(words: list[str]) -> Series:
    if not words:
        raise KeyError("no published value has this name")
    return Series(np.array([float(w) for w in words]), np.array([half_width(w) for w in words]))


def _repeated(word: str) -> Floats:
    value, _, times = word.partition("x")
    return np.full(int(times or 1), float(value))


Method = Callable[..., float]


def _first(method: Callable[[Floats], float]) -> Method:
    return lambda first, *_: float(method(first))


def _variance(x: Floats) -> float:
    return float(x.var(ddof=1))


def _ratio(x: Floats, y: Floats) -> float:
    return _variance(x) / _variance(y)


def _levene(center: str) -> Method:
    return lambda *groups: float(stats.levene(*groups, center=center).pvalue)


def _welch(part: Callable[[Any], float]) -> Method:
    return lambda x, y: float(part(stats.ttest_ind(x, y, equal_var=False)))


def _two_way(center: str, effect: int) -> Method:
    """Return an effect's p for the cells clamp/detach, clamp/direct, subtract/detach, subtract/direct."""

    def compute(*cells: Floats) -> float:
        middle = np.mean if center == "mean" else np.median
        levels = ((0, 0), (0, 1), (1, 0), (1, 1))
        effects = two_way([(a, b, np.abs(c - middle(c))) for (a, b), c in zip(levels, cells, strict=True)])
        if isinstance(effects, str):
            return float("nan")
        f, df = effects[effect]
        return float("nan") if f is None else float(stats.f.sf(f, *df))

    return compute


def _bootstrap(end: int) -> Method:
    return lambda x, y: _bootstrap_ends(tuple(x), tuple(y))[end]


@cache
def _bootstrap_ends(x: tuple[float, ...], y: tuple[float, ...]) -> tuple[float, float]:
    """Return the interval by the method of the appendix, with numpy's legacy generator and seed 42."""
    generator = np.random.RandomState(42)
    # Each resample draws from one group, then from the other: the order decides on the draws.
    drawn = [[generator.randint(0, len(group), len(group)) for group in (x, y)] for _ in range(10_000)]
    first, second = (np.array(group)[[pair[k] for pair in drawn]] for k, group in enumerate((x, y)))
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample may repeat a single value
        ratios = first.var(axis=1, ddof=1) / second.var(axis=1, ddof=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)


def components(group: Group) -> tuple[float, float]:
    """Return the variances between seeds and between same-seed runs; every seed must be run in every block.

    They come from the two mean squares of a balanced analysis of variance, with block means removed. The
    first is unbiased, not truncated at zero, and negative if seeds differ less than same-seed runs do.
    """
    n, blocks = group.matrix.shape
    centered = group.matrix - group.matrix.mean(axis=0)
    seeds = centered.mean(axis=1)
    between = blocks * (seeds**2).sum() / (n - 1)
    noise = ((centered - seeds[:, None]) ** 2).sum() / ((n - 1) * (blocks - 1))
    return float((between - noise) / blocks), float(noise)


METHODS: dict[str, Method] = {
    "size": _first(len),
    "mean": _first(np.mean),
    "sd": _first(lambda x: x.std(ddof=1)),
    "variance": _first(_variance),
    "first_size": _first(len),
    "second_size": lambda _, y: float(len(y)),
    "first_mean": _first(np.mean),
    "first_variance": _first(_variance),
    "second_variance": lambda _, y: _variance(y),
    "ratio": _ratio,
    "f_p": lambda x, y: f_p_value(_ratio(x, y), (len(x) - 1, len(y) - 1)),
    "f_df_first": lambda x, _: len(x) - 1.0,
    "f_df_second": lambda _, y: len(y) - 1.0,
    "levene_p": _levene("mean"),
    "brown_forsythe_p": _levene("median"),
    **{
        f"two_way_{center}s_{effect}": _two_way(center, i)
        for center in ("mean", "median")
        for i, effect in enumerate(("margin", "stability", "interaction"))
    },
    "one_way_means_margin": lambda a, b, c, d: _levene("mean")([*a, *b], [*c, *d]),
    "one_way_means_stability": lambda a, b, c, d: _levene("mean")([*a, *c], [*b, *d]),
    "one_way_medians_margin": lambda a, b, c, d: _levene("median")([*a, *b], [*c, *d]),
    "one_way_medians_stability": lambda a, b, c, d: _levene("median")([*a, *c], [*b, *d]),
    "four_cells_means": _levene("mean"),
    "four_cells_medians": _levene("median"),
    "welch_t": _welch(lambda test: test.statistic),
    "minus_welch_t": _welch(lambda test: -test.statistic),
    "welch_df": _welch(lambda test: test.df),
    "welch_p": _welch(lambda test: test.pvalue),
    "welch_low": _welch(lambda test: test.confidence_interval(0.95).low),
    "welch_high": _welch(lambda test: test.confidence_interval(0.95).high),
    "shapiro_w": _first(lambda x: stats.shapiro(x).statistic),
    "shapiro_p": _first(lambda x: stats.shapiro(x).pvalue),
    "bootstrap_low": _bootstrap(0),
    "bootstrap_high": _bootstrap(1),
    "reduction": lambda x, y: float(100 * (1 - y[0] / x[0])),
    "quotient": lambda x, y: float(x[0] / y[0]),
    "difference": lambda x, y: float(x[0] - y[0]),
    "difference_of_means": lambda x, y: float(x.mean() - y.mean()),
    "first_entry": _first(lambda x: x[0]),
    "expected_pairs": lambda batch, classes: expected_positive_pairs(classes.tolist(), batch[0]),
    "balanced_pairs": lambda batch, classes: expected_positive_pairs(
        classes.tolist(), batch[0], balanced=True
    ),
    "tokens": _first(lambda x: (x[0] / x[1]) ** 2),
    "remainder": _first(lambda x: x[0] - x[1]),
    "product": _first(np.prod),
    "total": _first(np.sum),
    "total_without_dose_response": _first(lambda x: x.sum() - x[1]),
    "seeds": lambda sd, se: float((sd[0] / se[0]) ** 2),
    **{f"margin_{k}": lambda ends, layers, k=k: np.interp(k, [0, layers[0] - 1], ends) for k in range(8)},
}

# Names of methods for display.
NAMES: dict[str, str] = paper_data("methods.toml")


@dataclass(frozen=True)
class PrintedNumber:
    """A printed number of a claim in `numbers.toml`: its text, its method and the method's inputs."""

    claim: dict[str, Any]
    method: str
    text: str
    inputs: list[Series]
    layer: int | None = None


@cache
def printed_numbers() -> list[PrintedNumber]:
    """Return every printed number, in the order of `numbers.toml`."""
    data = paper_data("numbers.toml")
    out = []
    for claim in ({"section": data["section"]} | claim for claim in data["claim"]):
        inputs = [series(name) for name in claim.get("on", ())]
        if "by_layer" in claim:
            for layer, text in enumerate(claim["printed"]):
                entries = [s.entry(layer) for s in inputs]
                out.append(PrintedNumber(claim, claim["by_layer"], text, entries, layer))
        else:
            out += [PrintedNumber(claim, method, text, inputs) for method, text in claim["printed"].items()]
    return out


def recompute(method: str, printed: str, inputs: list[Series]) -> tuple[float, bool]:
    """Return the value from the published inputs, and whether it can round to the printed number.

    The inputs are rounded themselves. The extreme values that they admit are approximated by those at the two
    corners to which the derivative points; both could have come from the true inputs.
    """
    value = METHODS[method](*(s.values for s in inputs))
    tolerance = _tolerance(printed)
    target = float(printed.lstrip("~+"))
    low, high = (value, value) if method.startswith("bootstrap") else _reach(method, inputs, value)
    return value, low - tolerance <= target <= high + tolerance


def _tolerance(printed: str) -> float:
    """Return half a unit of the last digit; after "~", of the last digit that is not a trailing zero."""
    slack = 1e-9
    if not printed.startswith("~"):
        return half_width(printed) * (1 + slack)
    digits = printed.lstrip("~")
    return 0.5 * 10.0 ** (len(digits) - len(digits.rstrip("0"))) * (1 + slack)


def _reach(method: str, inputs: list[Series], value: float) -> tuple[float, float]:
    ends = np.cumsum([len(s.values) for s in inputs])[:-1]
    start = np.concatenate([s.values for s in inputs])
    widths = np.concatenate([s.half_widths for s in inputs])
    if not widths.any():
        return value, value

    def at(point: Floats) -> float:
        return METHODS[method](*np.split(point, ends))

    signs = np.zeros(len(start))
    for i in np.flatnonzero(widths):
        step = np.where(np.arange(len(start)) == i, widths, 0.0)
        signs[i] = np.sign(at(start + step) - at(start - step))
    corners = (at(start - signs * widths), at(start + signs * widths))
    return min(value, *corners), max(value, *corners)


@cache
def _index() -> dict[tuple[str, tuple[str, ...], str], PrintedNumber]:
    """Return printed numbers by table, inputs and method; a layer's number is appended to the method."""
    index: dict[tuple[str, tuple[str, ...], str], PrintedNumber] = {}
    for n in printed_numbers():
        table = n.claim["where"].partition(",")[0]
        method = n.method if n.layer is None else f"{n.method} {n.layer}"
        index.setdefault((table, tuple(n.claim.get("on", ())), method), n)
    return index


def printed(table: int, on: tuple[str, ...], method: str) -> str:
    """Return the number that a table prints for a method and its inputs; a dash if there is none."""
    number = _index().get((f"Table {table}", on, method))
    return "-" if number is None else number.text
