"""Rates and gradient norms by layer, at the end and over training, read from runs' folders without torch."""

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seedspread.runs.files import UNREADABLE
from seedspread.runs.folder import RunFolder
from seedspread.runs.histogram import rate_from_histogram, rates_from_histograms
from seedspread.stats.arms import Floats
from seedspread.stats.bands import Band, over_seeds

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
        return _read(str(folder), margins, RunFolder(folder).finished_at())
    except UNREADABLE as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return f"{folder}: its layers cannot be read: {reason}"


@lru_cache(maxsize=20_000)
def _read(folder: str, margins: tuple[float, ...], _: int) -> RunLayers:
    """A finished run never changes: a page that is made again and again reads it once."""
    run = RunFolder(Path(folder))
    result = run.result()
    layers = result["layers"]
    if len(layers) != len(margins):
        raise ValueError(f"it has {len(layers)} layers where its config has {len(margins)}")
    rate = [layer["clamp_activation_rate"] for layer in layers]
    if None in rate:
        histograms = run.predictions("similarity_histogram")["similarity_histogram"]
        rate = [rate_from_histogram(h, m) for h, m in zip(histograms, margins, strict=True)]
    epochs, rates, gradients = _history(run, margins)
    return RunLayers(
        rate=np.array(rate, dtype=float),
        gradient=np.array([layer["gradient_norm"] for layer in layers], dtype=float),
        epochs=epochs,
        rates=rates,
        gradients=gradients,
        probes=tuple((p["layer"], float(p["test_accuracy"])) for p in result["probes"] if p["repeat"] == 0),
        positive_pairs=float(result["positive_pairs"]),
        pair_share=float(result["pair_share"]),
    )


def _history(run: RunFolder, margins: tuple[float, ...]) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Epochs `(E,)`, rates and gradient norms `(E, L)`, thinned to what a picture can show."""
    columns = ["epoch", "layer", "clamp_activation_rate", "gradient_norm"]
    table = run.history(columns)
    depth = len(margins)
    epochs = np.unique(
        np.linspace(0, table.num_rows // depth - 1, _EPOCHS_DRAWN).round().astype(int)
        if table.num_rows // depth > _EPOCHS_DRAWN
        else np.arange(table.num_rows // depth)
    )
    gradients = table["gradient_norm"].to_numpy().reshape(-1, depth)[epochs]
    rates = table["clamp_activation_rate"].to_numpy().astype(float).reshape(-1, depth)[epochs]
    if np.isnan(rates).all():
        counts = run.history(["similarity_histogram"])["similarity_histogram"]
        stacked = np.stack(counts.to_numpy()).reshape(-1, depth, len(counts[0]))[epochs]
        rates = np.stack([rates_from_histograms(stacked[:, k], m) for k, m in enumerate(margins)], axis=1)
    return table["epoch"].to_numpy().reshape(-1, depth)[epochs, 0] + 1, rates, gradients


@dataclass(frozen=True)
class Profile(Band):
    """A quantity by layer in one arm: `(L,)` mean and sd over seeds; `would_be` if nothing was clamped."""

    would_be: bool = False


@dataclass(frozen=True)
class TrainingCurve(Band):
    """A quantity over training in one arm: `(E, L)` mean and sd over seeds, at the epochs `(E,)`."""

    epochs: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    would_be: bool = False


def profile(seeds: list[str], values: list[Floats], would_be: bool) -> Profile:
    """Of runs with as many layers as the first."""
    same = [(s, v) for s, v in zip(seeds, values, strict=True) if v.shape == values[0].shape]
    band = over_seeds([s for s, _ in same], [v for _, v in same])
    return Profile(band.mean, band.sd, band.seeds, would_be)


def training_curve(
    seeds: list[str], epochs: list[NDArray[np.int64]], values: list[Floats], would_be: bool
) -> TrainingCurve:
    """Of runs with the same epochs and layers as the first."""
    same = [
        (s, v)
        for s, e, v in zip(seeds, epochs, values, strict=True)
        if np.array_equal(e, epochs[0]) and v.shape == values[0].shape
    ]
    band = over_seeds([s for s, _ in same], [v for _, v in same])
    return TrainingCurve(band.mean, band.sd, band.seeds, epochs[0], would_be)
