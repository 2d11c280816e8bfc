"""Rates and gradient norms by layer: read from run folders (without torch), averaged over seeds, drawn."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seedspread.render.chart import COLORS, Axis, Chart, Mark, Panel, floats, log_ticks, ordered_color
from seedspread.runs.files import UNREADABLE
from seedspread.runs.folder import RunFolder
from seedspread.runs.metrics import rate_from_histogram, rates_from_histograms
from seedspread.stats.groups import Floats
from seedspread.stats.seed_summaries import MeanAndSd, mean_and_sd

if TYPE_CHECKING:
    from seedspread.report.extension import Point, ReportData, Setting

# More epochs than this cannot be told apart in a picture; longer runs are thinned to this many.
_EPOCHS_DRAWN = 120
_RATE = "Clamp activation rate (%)"
_PER_CENT = 100
_LOGGED = ("clamp_activation_rate", "gradient_norm")


@dataclass(frozen=True)
class RunLayers:
    """Records of one run's L layers; an array is empty unless every layer has the quantity.

    Attributes:
        rate: `(L,)` clamp activation rates with the final weights.
        gradient: `(L,)` gradient norms with the final weights.
        epochs: `(E,)`, starting at 1.
        rates: `(E, L)` clamp activation rates over training.
        gradients: `(E, L)` gradient norms over training.
        probes: accuracy, from 0 to 1, of the first probe of each layer with a probe.
        positive_pairs: ordered pairs of views per batch; NaN if not counted.
        image_pairs: ordered pairs of different images per batch; NaN if not counted, as in older runs.
        clamps: whether rates are of saturation; if not, they are what the margins would cut.
    """

    rate: Floats
    gradient: Floats
    epochs: NDArray[np.int64]
    rates: Floats
    gradients: Floats
    probes: tuple[float, ...]
    positive_pairs: float
    image_pairs: float
    clamps: bool = True


def read_layers(
    folder: Path, margins: tuple[float, ...] | None = None, *, clamps: bool = True
) -> RunLayers | str | None:
    """Return the layers of a finished run, or an error message.

    The rates of a run that clamps were counted; those of any other are what these margins *would* cut, from
    the stored similarities. Without margins, return the layers that the run's own code logged, if any.
    """
    try:
        return _read(str(folder), margins, clamps, RunFolder(folder).finished_at())
    except UNREADABLE as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return f"{folder}: its layers cannot be read: {reason}"


@lru_cache(maxsize=20_000)
def _read(folder: str, margins: tuple[float, ...] | None, clamps: bool, _: int) -> RunLayers | None:
    """Read a run, cached because a finished run never changes; the last argument is the time it finished."""
    run = RunFolder(Path(folder))
    result = run.result()
    if margins is None:
        return _logged(run, result.get("layers"))
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
        probes=tuple(float(p["test_accuracy"]) for p in result["probes"] if p["repeat"] == 0),
        positive_pairs=float(result["positive_pairs"]),
        image_pairs=float(result.get("positive_image_pairs", math.nan)),
        clamps=clamps,
    )


def _logged(run: RunFolder, layers: object) -> RunLayers | None:
    """Return the layers that a run's own code logged; None if `layers` is not a list of their numbers."""
    if not isinstance(layers, list) or not all(isinstance(layer, int) for layer in layers):
        return None
    table = run.history(["epoch", "layer", *_LOGGED]).to_pandas().dropna(subset=["layer"])
    table = table.reindex(columns=["epoch", "layer", *_LOGGED])
    grid = table.groupby(["epoch", "layer"])[list(_LOGGED)].last().unstack().sort_index()
    every = np.arange(max(layers) + 1)
    places, arrays = _thinned(len(grid)), list[Floats]()
    for name in _LOGGED:
        values = grid[name].reindex(columns=every)
        for measured in (values.ffill().to_numpy()[-1], values.to_numpy()[places]):
            arrays.append(measured if np.isfinite(measured).all() else measured[:0])
    rate, rates, gradient, gradients = arrays
    return RunLayers(rate, gradient, grid.index.to_numpy()[places], rates, gradients, (), math.nan, math.nan)


def _thinned(epochs: int) -> NDArray[np.int64]:
    """Return the indices of the epochs that a picture shows."""
    return np.unique(np.linspace(0, epochs - 1, min(epochs, _EPOCHS_DRAWN)).round().astype(int))


def _history(run: RunFolder, margins: tuple[float, ...]) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return epochs `(E,)`, rates and gradient norms `(E, L)`, thinned to what a picture can show."""
    depth = len(margins)
    table = run.history(["epoch", "layer", "clamp_activation_rate", "gradient_norm"])
    epochs = _thinned(table.num_rows // depth)
    gradients = table["gradient_norm"].to_numpy().reshape(-1, depth)[epochs]
    rates = table["clamp_activation_rate"].to_numpy().astype(float).reshape(-1, depth)[epochs]
    if np.isnan(rates).all():
        counts = run.history(["similarity_histogram"])["similarity_histogram"]
        stacked = np.stack(counts.to_numpy()).reshape(-1, depth, len(counts[0]))[epochs]
        rates = np.stack([rates_from_histograms(stacked[:, k], m) for k, m in enumerate(margins)], axis=1)
    return table["epoch"].to_numpy().reshape(-1, depth)[epochs, 0] + 1, rates, gradients


@dataclass(frozen=True)
class LayerBand(MeanAndSd):
    """Mean and sd over seeds of a quantity of one group: `(L,)` by layer, or `(E, L)` at the epochs `(E,)`.

    `would_be` is whether nothing was clamped, so that its rates are what the margins would cut.
    """

    would_be: bool = False
    epochs: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


# By quantity, `rate` or `gradient`, and group.
LayerBands = dict[str, dict[str, LayerBand]]


def layer_bands(runs: "Sequence[Point]", groups: Sequence[str]) -> tuple[LayerBands, LayerBands]:
    """Return the bands with the final weights, and those over training.

    A run whose number of layers or epochs differs from the first run of its group is left out.
    """
    final: LayerBands = {"rate": {}, "gradient": {}}
    training: LayerBands = {"rate": {}, "gradient": {}}
    for group in groups:
        measured = [(r.seed, r.layers) for r in runs if r.group == group and r.layers is not None]
        if not measured:
            continue
        would_be = not all(x.clamps for _, x in measured)
        epochs = measured[0][1].epochs
        alike = [(seed, x) for seed, x in measured if np.array_equal(x.epochs, epochs)]
        final["rate"][group] = _band([(seed, x.rate) for seed, x in measured], would_be)
        final["gradient"][group] = _band([(seed, x.gradient) for seed, x in measured], would_be)
        training["rate"][group] = _band([(seed, x.rates) for seed, x in alike], would_be, epochs)
        training["gradient"][group] = _band([(seed, x.gradients) for seed, x in alike], would_be, epochs)
    for by_group in (*final.values(), *training.values()):
        for group in [group for group, band in by_group.items() if not band.mean.size]:  # it was not logged
            del by_group[group]
    return final, training


_NO_EPOCHS = np.zeros(0, dtype=np.int64)


def _band(
    by_seed: list[tuple[str, Floats]], would_be: bool, epochs: NDArray[np.int64] = _NO_EPOCHS
) -> LayerBand:
    shape = next((values.shape for _, values in by_seed if values.size), by_seed[0][1].shape)
    same = [(seed, values) for seed, values in by_seed if values.shape == shape]
    band = mean_and_sd([seed for seed, _ in same], [values for _, values in same])
    return LayerBand(band.mean, band.sd, band.seeds, would_be, epochs)


def charts(data: "ReportData", s: "Setting") -> "list[Chart | None]":
    over_training = [
        _curve_chart(s, quantity, curves)
        for quantity, curves in s.curves.items()
        if curves and max(len(c.epochs) for c in curves.values()) >= 2
    ]
    return [profile_chart(data, s), *over_training]


def profile_chart(data: "ReportData", s: "Setting") -> Chart | None:
    """Draw rates, gradient norms and probe accuracy by layer, with the final weights; None without any."""
    rates, norms, probes = s.profiles.get("rate", {}), s.profiles.get("gradient", {}), _probe_bands(s)
    lines = [
        _profile_marks(_rate_name(s.group_title(group), p), p, s.color(group), i + 3 * p.would_be, _PER_CENT)
        for i, (group, p) in enumerate(rates.items())
    ]
    for extension in data.extensions:
        for name, band in extension.further_rates(s, data.settings).items():
            lines.append(_profile_marks(name, band, COLORS[2], 2, _PER_CENT))
    norm_lines, probe_lines = (
        [_profile_marks(s.group_title(a), p, s.color(a), i, times) for i, (a, p) in enumerate(bands.items())]
        for bands, times in ((norms, 1), (probes, _PER_CENT))
    )
    drawn = (
        ("(a) clamp activation rate", lines, Axis(_RATE)),
        ("(b) gradient norms", norm_lines, _norm_axis(norm_lines)),
        ("(c) accuracy of a probe", probe_lines, Axis("Test accuracy (%)")),
    )
    depth = max((len(p.mean) for bands in (rates, norms, probes) for p in bands.values()), default=1)
    layers = Axis("Layer", ticks=tuple((float(i), str(i)) for i in range(0, depth, max(1, depth // 12))))
    panels = [
        Panel(title, layers, axis, tuple(m for line in lines for m in line))
        for title, lines, axis in drawn
        if lines
    ]
    if not panels:
        return None
    return Chart(
        f"{s.id}-profiles",
        f"Profiles by layer: {s.name}",
        "With the final weights; bands are ±1 sd over seeds. A rate if clamped is what these margins "
        "would cut of a run that does not clamp; only the clamp's own rate is saturation.",
        _in_words(panels),
        tuple(panels),
        s.origin,
        s.beside.follows("profiles"),
    )


def _probe_bands(s: "Setting") -> dict[str, LayerBand]:
    """Return the accuracy of linear probes by layer, for each group in which every run has several."""
    out = {}
    for group in s.groups:
        probed = [(r.seed, np.array(r.layers.probes)) for r in s.of(group) if r.layers]
        if probed and min(len(accuracies) for _, accuracies in probed) > 1:
            out[group] = _band(probed, would_be=False)
    return out


def _rate_name(group: str, band: LayerBand) -> str:
    return f"{group} (if clamped)" if band.would_be else group


def _norm_axis(lines: Sequence[Sequence[Mark]]) -> Axis:
    ends = [v for line in lines for m in line for v in (*m.y, *m.low, *m.high) if 0 < v < math.inf]
    low, high = (min(ends) / 1.2, max(ends) * 1.2) if ends else (0.1, 1.0)
    return Axis("Gradient norm", log=True, ticks=log_ticks(low, high), range=(low, high))


def _marks(
    name: str, x: Sequence[float], mean: Floats, sd: Floats | None, labels: Iterable[str], color: str,
    symbol: int, *, positive: bool,
) -> list[Mark]:  # fmt: skip
    """Return a line, and its band of ±1 sd if there is an sd.

    The band of a positive quantity, on a logarithmic axis, ends at a tenth of the mean. That of a percentage
    ends at 0 and 100.
    """
    at, ys = floats(x), floats(mean)
    line = Mark("line", name, at, ys, labels=tuple(labels), color=color, symbol=symbol, legend=True)
    if sd is None:
        return [line]
    low = np.maximum(mean - sd, mean / 10 if positive else 0)
    high = mean + sd if positive else np.minimum(mean + sd, _PER_CENT)
    return [Mark("band", name, at, ys, floats(low), floats(high), color=color), line]


def _profile_marks(name: str, p: LayerBand, color: str, symbol: int, times: float) -> list[Mark]:
    mean, sd = times * p.mean, None if p.sd is None else times * p.sd
    labels = (f"{name}\nlayer {i}: {m:.4g}" for i, m in enumerate(mean))
    return _marks(name, range(len(mean)), mean, sd, labels, color, symbol, positive=times == 1)


def _in_words(panels: Sequence[Panel]) -> str:
    """Return the ends of each line in words, for a reader who cannot see the figure."""
    return "; ".join(
        f"{panel.title}, {m.name}: {m.y[0]:.3g} at {at} {m.x[0]:g}, {m.y[-1]:.3g} at {at} {m.x[-1]:g}"
        for panel, at in ((panel, panel.x.title.lower()) for panel in panels)
        for m in panel.marks
        if m.kind == "line"
    )


def _curve_chart(s: "Setting", quantity: str, curves: Mapping[str, LayerBand]) -> Chart:
    """Draw rates or gradient norms over training: a line and a band over seeds per layer."""
    rate = quantity == "rate"
    times = _PER_CENT if rate else 1
    marks = {group: _curve_marks(c, times) for group, c in curves.items()}
    # All panels share a scale, so that they can be compared by eye.
    axis = Axis(_RATE, range=(0, 102)) if rate else _norm_axis(list(marks.values()))
    names = {
        group: _rate_name(s.group_title(group), c) if rate else s.group_title(group)
        for group, c in curves.items()
    }
    panels = [Panel(names[group], Axis("Epoch"), axis, own) for group, own in marks.items()]
    return Chart(
        f"{s.id}-{quantity}-over-training",
        f"{'Clamp activation rate' if rate else 'Gradient norms'} over training: {s.name}",
        "Means over each epoch's batches, as they were trained; a line per layer, bands ±1 sd over seeds.",
        _in_words(panels),
        tuple(panels),
        s.origin,
    )


def _curve_marks(c: LayerBand, times: float) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    depth = c.mean.shape[1]
    for layer in range(depth):
        name, color = f"layer {layer}", ordered_color(layer, depth)
        mean, sd = times * c.mean[:, layer], None if c.sd is None else times * c.sd[:, layer]
        labels = (f"{name}, epoch {e}\n{m:.4g}" for e, m in zip(c.epochs, mean, strict=True))
        marks += _marks(name, list(c.epochs), mean, sd, labels, color, layer, positive=times == 1)
    return tuple(sorted(marks, key=lambda mark: mark.kind == "line"))  # bands behind all lines
