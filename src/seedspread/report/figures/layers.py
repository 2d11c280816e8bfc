"""The figures about layers: saturation and gradients, at the end and over training, and accuracy by layer."""

import math
from dataclasses import replace

import numpy as np

from seedspread.analysis.numbers import between
from seedspread.render.chart import COLOURS, Axis, Chart, Mark, Panel, floats, log_ticks, ordered_colour
from seedspread.report.figures.spread import arm_colour
from seedspread.report.material.layers import Profile, TrainingCurve, profile
from seedspread.report.material.settings import ReportData, Setting
from seedspread.runs.metrics import metric_of
from seedspread.stats.correlation import seed_correlation

_RATE = "clamp activation rate (%)"
_PER_CENT = 100
_GRADIENT = "gradient norm"


def profile_chart(material: ReportData, s: Setting) -> Chart | None:
    """Figure 2: (a) rates by layer, (b) gradient norms by layer."""
    rates, norms = s.profiles.get("rate", {}), s.profiles.get("gradient", {})
    lines = [
        _profile_marks(_rate_name(s.arm_title(arm), p), p, arm_colour(s, arm), i + 3 * p.would_be, _PER_CENT)
        for i, (arm, p) in enumerate(rates.items())
    ]
    beside: dict[str, tuple[str, str]] = {}
    for extension in material.extensions:
        beside |= extension.beside(material.settings)
    if s.id in beside:
        name, other = beside[s.id]
        further = next(x for x in material.settings if x.id == other).profiles["rate"]
        lines.append(_profile_marks(name, further[s.arms[0]], COLOURS[2], 2, _PER_CENT))
    if not norms and s.id in {other for _, other in beside.values()}:
        return None  # its rates stand beside another's
    panels = []
    if lines:
        marks = tuple(m for line in lines for m in line)
        panels.append(Panel("(a) clamp activation rate", _layers_axis(rates), Axis(_RATE), marks))
    if norms:
        marks = tuple(
            m
            for i, (arm, p) in enumerate(norms.items())
            for m in _profile_marks(s.arm_title(arm), p, arm_colour(s, arm), i, 1)
        )
        panels.append(Panel("(b) gradient norms", _layers_axis(norms), _norm_axis(marks), marks))
    if not panels:
        return None
    return Chart(
        f"{s.id}-profiles",
        f"Profiles by layer: {s.name}",
        "With the final weights; bands are ±1 sd over seeds. A would-be clamp rate is what these margins "
        "would cut of a run that does not clamp; only the clamp's own rate is saturation.",
        _profile_words(rates, norms),
        tuple(panels),
        s.origin,
        s.follows("profiles"),
    )


def _rate_name(arm: str, p: Profile | TrainingCurve) -> str:
    return f"{arm} (would-be)" if p.would_be else arm


def _layers_axis(profiles: dict[str, Profile]) -> Axis:
    depth = max((len(p.mean) for p in profiles.values()), default=1)
    step = max(1, depth // 12)
    return Axis("layer", ticks=tuple((float(i), str(i)) for i in range(0, depth, step)))


def _norm_axis(marks: tuple[Mark, ...]) -> Axis:
    """Logarithmic, with round numbers over the range of what is drawn."""
    ends = [v for m in marks for v in (*m.y, *m.low, *m.high) if 0 < v < math.inf]
    low, high = (min(ends) / 1.2, max(ends) * 1.2) if ends else (0.1, 1.0)
    return Axis(_GRADIENT, log=True, ticks=log_ticks(low, high), range=(low, high))


def _profile_marks(name: str, p: Profile, colour: str, symbol: int, times: float) -> list[Mark]:
    x = floats(range(len(p.mean)))
    mean = floats(times * p.mean)
    labels = tuple(f"{name}\nlayer {i:.0f}: {m:.4g}" for i, m in zip(x, mean, strict=True))
    line = Mark("line", name, x, mean, labels=labels, colour=colour, symbol=symbol, legend=True)
    if p.sd is None:
        return [line]
    return [_band(name, x, times * p.mean, times * p.sd, colour, times == 1), line]


def _band(
    name: str, x: tuple[float, ...], mean: np.ndarray, sd: np.ndarray, colour: str, positive: bool
) -> Mark:
    """A norm is positive: a band ends at a tenth of its mean, on a logarithmic axis; a share ends at 100%."""
    low = np.maximum(mean - sd, mean / 10 if positive else 0)
    high = mean + sd if positive else np.minimum(mean + sd, _PER_CENT)
    return Mark("band", name, x, floats(mean), floats(low), floats(high), colour=colour)


def _profile_words(rates: dict[str, Profile], norms: dict[str, Profile]) -> str:
    phrases = [
        f"{_rate_name(arm, p)} rate from {p.mean[0]:.1%} at layer 0 to {p.mean[-1]:.1%} at "
        f"layer {len(p.mean) - 1}"
        for arm, p in rates.items()
    ]
    phrases += [
        f"{arm} gradient norm {p.mean[0]:.3g} at layer 0, {p.mean[-1]:.3g} at the last"
        for arm, p in norms.items()
    ]
    return "By layer: " + "; ".join(phrases) + "."


def curve_chart(s: Setting, quantity: str) -> Chart | None:
    """Rates or gradient norms over training, a line per layer, with the band over seeds."""
    curves = s.curves.get(quantity, {})
    if not curves or max(len(c.epochs) for c in curves.values()) < 2:
        return None
    rate = quantity == "rate"
    panels = []
    for arm, c in curves.items():
        marks = _curve_marks(c, _PER_CENT if rate else 1)
        panels.append(
            Panel(_rate_name(s.arm_title(arm), c) if rate else s.arm_title(arm), Axis("epoch"), Axis(), marks)
        )
    # One scale for all panels, so that they can be compared by eye.
    marks = tuple(mark for panel in panels for mark in panel.marks)
    axis = Axis(_RATE, range=(0, 102)) if rate else _norm_axis(marks)
    panels = [replace(panel, y=axis) for panel in panels]
    quantity_name = "Clamp activation rate" if rate else "Gradient norms"
    return Chart(
        f"{s.id}-{quantity}-over-training",
        f"{quantity_name} over training: {s.name}",
        "Means over each epoch's batches, as they were trained; a line per layer, bands ±1 sd over seeds.",
        _curve_words(curves, _PER_CENT if rate else 1),
        tuple(panels),
        s.origin,
    )


def _curve_marks(c: TrainingCurve, times: float) -> tuple[Mark, ...]:
    x, depth = floats(c.epochs), c.mean.shape[1]
    bands, lines = [], []
    for layer in range(depth):
        name, colour = f"layer {layer}", ordered_colour(layer, depth)
        mean = times * c.mean[:, layer]
        if c.sd is not None:
            bands.append(_band(name, x, mean, times * c.sd[:, layer], colour, times == 1))
        labels = tuple(f"{name}, epoch {e:.0f}\n{m:.4g}" for e, m in zip(x, mean, strict=True))
        lines.append(
            Mark("line", name, x, floats(mean), labels=labels, colour=colour, symbol=layer, legend=True)
        )
    return (*bands, *lines)


def _curve_words(curves: dict[str, TrainingCurve], times: float) -> str:
    return "; ".join(
        f"{arm}, layer 0: {times * c.mean[0, 0]:.3g} in epoch {c.epochs[0]}, {times * c.mean[-1, 0]:.3g} in "
        f"epoch {c.epochs[-1]}"
        for arm, c in curves.items()
    )


def rate_accuracy_chart(s: Setting) -> Chart | None:
    """Per seed: the rate at layer 0 against what is measured at the end, with the correlation."""
    marks, correlations = [], []
    for i, arm in enumerate(s.arms):
        runs = [r for r in s.of(arm) if r.layers is not None]
        if not runs:
            continue
        rates = [_PER_CENT * r.layers.rate[0] for r in runs if r.layers is not None]
        name = s.arm_title(arm) + ("" if all(r.clamps for r in runs) else " (would-be)")
        labels = tuple(f"{s.label(r)}\nrate {x:.1f}%" for r, x in zip(runs, rates, strict=True))
        marks.append(
            Mark("dots", name, floats(rates), floats([r.value for r in runs]), labels=labels,
                 colour=arm_colour(s, arm), symbol=i, legend=True)
        )  # fmt: skip
        correlation = seed_correlation([r.seed for r in runs], rates, [r.value for r in runs])
        if correlation is not None:
            interval, seeds = between(correlation.interval), correlation.seeds
            correlations.append(f"{name}: r = {correlation.r:.2f} {interval} over {seeds} seeds")
    if not marks:
        return None
    words = "; ".join(correlations) or "too few seeds for a correlation"
    panel = Panel("", Axis(f"{_RATE} at layer 0"), Axis(s.value), tuple(marks))
    return Chart(
        f"{s.id}-rate-and-accuracy",
        f"Rate and {s.metric.name}, seed by seed: {s.name}",
        "Does a seed whose clamp cuts more end elsewhere? Correlations, 95% intervals, the seed as the unit: "
        f"{words}.",
        f"Layer-0 rate against final value. {words}.",
        (panel,),
        s.origin,
    )


def accuracy_chart(s: Setting) -> Chart | None:
    """Accuracy of a probe on every layer, where runs have them, whatever the report is about."""
    metric, factor = metric_of("accuracy").for_display
    marks: list[Mark] = []
    phrases = []
    for i, arm in enumerate(s.arms):
        runs = [r for r in s.of(arm) if r.layers is not None and len(r.layers.probes) > 1]
        probes = [r.layers.probes for r in runs if r.layers is not None]
        if not probes:
            continue
        layers = [k for k, _ in probes[0]]
        band = profile(
            [r.seed for r in runs], [factor * np.array([a for _, a in p]) for p in probes], would_be=False
        )
        name, mean, colour = s.arm_title(arm), band.mean, arm_colour(s, arm)
        if band.sd is not None:
            marks.append(_band(name, floats(layers), mean, band.sd, colour, False))
        labels = tuple(f"{name}, layer {k}\n{m:.4g}%" for k, m in zip(layers, mean, strict=True))
        marks.append(
            Mark(
                "line",
                name,
                floats(layers),
                floats(mean),
                labels=labels,
                colour=colour,
                symbol=i,
                legend=True,
            )
        )
        phrases.append(
            f"{name} from {mean[0]:.1f}% at layer {layers[0]} to {mean[-1]:.1f}% at layer {layers[-1]}"
        )
    if not marks:
        return None
    ticks = tuple((float(k), str(k)) for k in sorted({int(x) for m in marks for x in m.x}))
    panel = Panel("", Axis("layer", ticks=ticks), Axis(metric.label), tuple(marks))
    return Chart(
        f"{s.id}-accuracy-by-layer",
        f"Accuracy by layer: {s.name}",
        "A linear probe on each layer's features; mean and ±1 sd over seeds.",
        "; ".join(phrases) + ".",
        (panel,),
        s.origin,
    )
