"""Rates and gradient norms by layer, at the end and over training, read from runs' folders without torch."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from seedspread.objective.histogram import rate_from_histogram, rates_from_histograms

Floats = NDArray[np.float64]

# More epochs than this cannot be told apart in a picture; every so many-th is kept.
_EPOCHS_DRAWN = 120


@dataclass(frozen=True)
class RunLayers:
    """What one run says of its L layers.

    Attributes:
        rate: `(L,)` clamp activation rates with the final weights.
        gradient: `(L,)` gradient norms, likewise.
        epochs: `(E,)` of the history, counted from 1.
        rates: `(E, L)` over training.
        gradients: `(E, L)` over training.
        probes: accuracy by layer, from 0 to 1, of the first probe of each.
        positive_pairs: ordered, per batch of two views.
        pair_share: the share of a batch's pairs that are positive.
    """

    rate: Floats
    gradient: Floats
    epochs: NDArray[np.int64]
    rates: Floats
    gradients: Floats
    probes: tuple[tuple[int, float], ...]
    positive_pairs: float
    pair_share: float


def read_layers(folder: Path, margins: tuple[float, ...]) -> RunLayers | str:
    """A finished run's layers under these margins, or what is wrong with its files.

    A run that clamps has its rates counted. In any other the rate is what these margins *would* cut, and
    follows from the stored similarities.
    """
    try:
        return _read(str(folder), margins, (folder / "result.json").stat().st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        return f"{folder}: its layers cannot be read: {str(error).splitlines()[0]}"


@lru_cache(maxsize=20_000)
def _read(folder: str, margins: tuple[float, ...], _: int) -> RunLayers:
    """A finished run never changes: a page that is made again and again reads it once."""
    where = Path(folder)
    result = json.loads((where / "result.json").read_bytes())
    layers = result["layers"]
    rate = [layer["clamp_activation_rate"] for layer in layers]
    if None in rate:
        with safe_open(where / "predictions.safetensors", framework="numpy") as file:
            histograms = file.get_tensor("similarity_histogram")
        rate = [rate_from_histogram(h, m) for h, m in zip(histograms, margins, strict=True)]
    epochs, rates, gradients = _history(where / "history.parquet", margins)
    return RunLayers(
        rate=np.array(rate, dtype=float),
        gradient=np.array([layer["gradient_norm"] for layer in layers], dtype=float),
        epochs=epochs,
        rates=rates,
        gradients=gradients,
        probes=tuple((p["layer"], p["test_accuracy"]) for p in result["probes"] if p["repeat"] == 0),
        positive_pairs=float(result["positive_pairs"]),
        pair_share=float(result["pair_share"]),
    )


def _history(path: Path, margins: tuple[float, ...]) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Epochs `(E,)`, rates and gradient norms `(E, L)`, thinned to what a picture can show."""
    columns = ["epoch", "layer", "clamp_activation_rate", "gradient_norm"]
    table = pq.read_table(path, columns=columns)
    depth = len(margins)
    shown = np.unique(
        np.linspace(0, table.num_rows // depth - 1, _EPOCHS_DRAWN).round().astype(int)
        if table.num_rows // depth > _EPOCHS_DRAWN
        else np.arange(table.num_rows // depth)
    )
    gradients = table["gradient_norm"].to_numpy().reshape(-1, depth)[shown]
    rates = table["clamp_activation_rate"].to_numpy().astype(float).reshape(-1, depth)[shown]
    if np.isnan(rates).all():
        counts = pq.read_table(path, columns=["similarity_histogram"])["similarity_histogram"]
        stacked = np.stack(counts.to_numpy()).reshape(-1, depth, len(counts[0]))[shown]
        rates = np.stack([rates_from_histograms(stacked[:, k], m) for k, m in enumerate(margins)], axis=1)
    return table["epoch"].to_numpy().reshape(-1, depth)[shown, 0] + 1, rates, gradients


@dataclass(frozen=True)
class Profile:
    """A quantity by layer over the runs of one arm: mean and, of two runs or more, sd; `(L,)` each."""

    mean: Floats
    sd: Floats | None
    runs: int
    would_be: bool = False


@dataclass(frozen=True)
class Course:
    """A quantity over training and layers: `(E,)` epochs, `(E, L)` mean and sd over runs."""

    epochs: NDArray[np.int64]
    mean: Floats
    sd: Floats | None
    runs: int
    would_be: bool = False


def profile(values: list[Floats], would_be: bool) -> Profile | None:
    """Of runs with one number of layers; None of no run."""
    same = [v for v in values if len(v) == len(values[0])]
    if not same:
        return None
    stacked = np.stack(same)
    return Profile(stacked.mean(axis=0), _sd(stacked), len(same), would_be)


def course(epochs: list[NDArray[np.int64]], values: list[Floats], would_be: bool) -> Course | None:
    """Of runs with the same epochs and layers as the first."""
    same = [v for e, v in zip(epochs, values, strict=True) if np.array_equal(e, epochs[0])]
    same = [v for v in same if v.shape == values[0].shape]
    if not same:
        return None
    stacked = np.stack(same)
    return Course(epochs[0], stacked.mean(axis=0), _sd(stacked), len(same), would_be)


def _sd(stacked: Floats) -> Floats | None:
    return stacked.std(axis=0, ddof=1) if len(stacked) > 1 else None
