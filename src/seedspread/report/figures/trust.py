"""The figures about trust: what this design can show, the sampling floor, the twins of a seed."""

from functools import cache

import numpy as np

from seedspread.analysis.charts import rule
from seedspread.analysis.numbers import number
from seedspread.analysis.words import floor_sentence
from seedspread.render.chart import COLOURS, Axis, Chart, Mark, Panel, floats, log_ticks
from seedspread.report.figures.spread import arm_colour
from seedspread.report.material.questions import short_name
from seedspread.report.material.settings import ReportData, Setting, origins
from seedspread.stats.power import BudgetError
from seedspread.stats.scale import planning

_RATIOS = tuple(float(f"{r:.3g}") for r in np.geomspace(1, 200, 30))


@cache
def _curve(seeds: tuple[int, int], paired: bool) -> tuple[float, ...]:
    """By the headline itself; pairs count as uncorrelated: nobody knows how they correlate before."""
    return tuple(planning.power(r, seeds, pairs=0.0 if paired else None) for r in _RATIOS)


def power_chart(material: ReportData) -> Chart | None:
    """What these designs can show: the chance to see a ratio, if it is there."""
    designs: dict[tuple[int, int, bool], list[str]] = {}
    for s in material.settings:
        for c in s.comparisons:
            if min(c.seeds) >= 2:
                designs.setdefault((*c.seeds, c.headline.pairs > 0), []).append(short_name(s, c))
    marks: list[Mark] = [rule((_RATIOS[0], _RATIOS[-1]), (0.8, 0.8))]
    phrases = []
    for i, ((*seeds, paired), names) in enumerate(sorted(designs.items(), reverse=True)[: len(COLOURS)]):
        try:
            power = _curve((seeds[0], seeds[1]), paired)
        except BudgetError:
            continue
        name = f"{seeds[0]} and {seeds[1]} seeds" + (", shared" if paired else "")
        settings = ", ".join(dict.fromkeys(names))
        labels = tuple(
            f"{name}\n({settings})\nratio {r:g}: power {p:.0%}" for r, p in zip(_RATIOS, power, strict=True)
        )
        marks.append(
            Mark("line", name, _RATIOS, power, labels=labels, colour=COLOURS[i], symbol=i, legend=True)
        )
        reached = next((r for r, p in zip(_RATIOS, power, strict=True) if p >= 0.8), None)
        detected = f"a ratio of {reached:g} or more" if reached else "no ratio below 200"
        phrases.append(f"with {name} ({settings}) {detected} is seen with power 0.8")
    if len(marks) == 1:
        return None
    x = Axis("true variance ratio", log=True, ticks=log_ticks(1, 200), range=(1, 200))
    panel = Panel("", x, Axis("power at the 5% level", range=(0, 1.02)), tuple(marks))
    return Chart(
        "power",
        "What this design can show",
        "The chance that the headline shows a ratio that is there (normal values, one run of a seed in each "
        "arm, simulated). The dashed line is the usual 80%.",
        f"Power curves: {'; '.join(phrases)}.",
        (panel,),
        "simulated normal values; the numbers of seeds are those of the comparisons above",
    )


def floor_chart(material: ReportData) -> Chart | None:
    """The variance over seeds beside what the test set makes by itself."""
    chosen = [s for s in material.settings if any(c.floors for c in s.comparisons)]
    if not chosen:
        return None
    sentences = "; ".join(floor_sentence(f) for s in chosen for c in s.comparisons for f in c.floors)
    return Chart(
        "floor",
        "Variance against the sampling floor",
        "A finite test set makes some variance by itself. What remains would be left on an infinite test set."
        " It can come out below zero, when runs differ by no more than chance makes.",
        sentences,
        tuple(_floor_panel(s) for s in chosen),
        origins(chosen),
        height=0.75,
    )


def _floor_panel(s: Setting) -> Panel:
    floors = {f.group: f for c in s.comparisons for f in c.floors}
    arms = [arm for arm in s.arms if arm in floors]
    marks: list[Mark] = [rule((0, 0), (-0.6, len(arms) - 0.4))]
    for position, arm in enumerate(reversed(arms)):
        f, y = floors[arm], float(position)
        bound = " (at most)" if f.is_bound else ""
        label = f"{s.arm_title(arm)}: variance over seeds {number(f.observed)}"
        marks.append(Mark("dots", "over seeds", (f.observed,), (y + 0.2,), labels=(label,), colour=COLOURS[0],
            legend=True))  # fmt: skip
        marks.append(Mark("dots", "variance of the test set alone", (f.floor,), (y,), labels=(
            f"{s.arm_title(arm)}: the test set's own{bound} {number(f.floor)}",), colour=COLOURS[4], symbol=1,
            legend=True))  # fmt: skip
        if f.remaining is not None and f.interval is not None:
            marks.append(Mark("interval", "variance that remains, 95% interval", (f.remaining,), (y - 0.2,),
                (f.interval.low,), (f.interval.high,), (f"{s.arm_title(arm)}: {floor_sentence(f)}",),
                COLOURS[2], 2, legend=True))  # fmt: skip
    ticks = tuple((float(i), s.arm_title(arm)) for i, arm in enumerate(reversed(arms)))
    y_axis = Axis(ticks=ticks, range=(-0.6, len(arms) - 0.4))
    return Panel(s.name, Axis(s.metric.variance_label), y_axis, tuple(marks))


def twins_chart(material: ReportData) -> Chart | None:
    """How alike the runs of one seed in two blocks are."""
    chosen = [s for s in material.settings if len(s.blocks) > 1 and any(c.twins for c in s.comparisons)]
    if not chosen:
        return None
    correlations = []
    for s in chosen:
        for t in {t.group: t for c in s.comparisons for t in c.twins}.values():
            alike = "not known" if t.correlation is None else f"{t.correlation:.2f}"
            copies = f", {t.identical} of {t.seeds} seeds equal to the digit" if t.identical else ""
            correlations.append(f"{s.name}, {s.arm_title(t.group)}: {alike}{copies}")
    return Chart(
        "twins",
        "How alike the twins of one seed are",
        "Each mark is a seed, run in both modes, which have the same gradient; on the dashed line the twins "
        f"are equal. Intraclass correlation: {'; '.join(correlations)}.",
        f"Runs of one seed in two modes. Correlations: {'; '.join(correlations)}.",
        tuple(_twins_panel(s) for s in chosen),
        origins(chosen),
    )


def _twins_panel(s: Setting) -> Panel:
    first, second = s.blocks[:2]
    modes = [s.block_title(block) for block in (first, second)]
    marks, drawn = [], []
    for arm in s.arms:
        left, right = ({r.seed: r for r in s.of(arm, b)} for b in (first, second))
        seeds = [x for x in left if x in right]
        if not seeds:
            continue
        drawn += [r.value for x in seeds for r in (left[x], right[x])]
        name = s.arm_title(arm)
        labels = tuple(
            f"{name}, seed {x}\n{modes[0]} {left[x].value:.4g}, {modes[1]} {right[x].value:.4g}"
            for x in seeds
        )
        marks.append(
            Mark("dots", name, floats([left[x].value for x in seeds]),
                 floats([right[x].value for x in seeds]), labels=labels, colour=arm_colour(s, arm),
                 symbol=s.arms.index(arm), legend=True)
        )  # fmt: skip
    low, high = (min(drawn), max(drawn)) if drawn else (0.0, 1.0)
    pad = 0.06 * (high - low) or 1.0
    limits = (low - pad, high + pad)
    x, y = (Axis(f"{mode}: {s.value}", range=limits) for mode in modes)
    return Panel(s.name, x, y, (rule(limits, limits), *marks))
