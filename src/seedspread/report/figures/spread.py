"""The figures about spread: the answer, the seeds, the ratios together."""

import math

import numpy as np

from seedspread.render.chart import COLOURS, GREY, Axis, Chart, Mark, Panel, floats
from seedspread.report.material.scale import TITLES
from seedspread.report.material.settings import ReportData, Setting, origins
from seedspread.stats.charts import (
    QUOTED,
    Dots,
    arm_marks,
    arms_axis,
    arms_of,
    methods_panel,
    ratio_axis,
    rule,
)
from seedspread.stats.comparison import Comparison
from seedspread.stats.verdict import between, number, p_value, seed_counts


def arm_colour(setting: Setting, arm: str) -> str:
    """The same for an arm throughout: subtract is always the first."""
    return COLOURS[setting.arms[::-1].index(arm) % len(COLOURS)]


def answer_chart(material: ReportData) -> Chart | None:
    """Every comparison's variance ratio, the seed as the unit, with the pooled one beside."""
    pairs = [(s, c) for s in material.settings for c in s.comparisons]
    drawn = [(s, c) for s, c in pairs if c.headline.ratio and c.headline.shown_interval]
    drawn.sort(key=lambda pair: pair[1].collapse.found)  # what cannot be judged so stands below the rest
    if not drawn:
        return None
    intervals = [c.headline.shown_interval for _, c in drawn if c.headline.shown_interval is not None]
    axis = ratio_axis(intervals, f"variance ratio, {arms_of(drawn[0][1])}")
    positions = list(range(len(drawn) - 1, -1, -1))
    marks = []
    for failing, name, colour in (
        (False, "each seed counted once, 95% interval", QUOTED),
        (True, "runs fail, or fall into two clusters: not to be judged so", GREY),
    ):
        rows = [(p, s, c) for p, (s, c) in zip(positions, drawn, strict=True) if c.collapse.found == failing]
        if rows:
            ends = [c.headline.shown_interval for _, _, c in rows if c.headline.shown_interval is not None]
            marks.append(Mark(
                "interval", name, floats([c.headline.ratio or math.nan for *_, c in rows]),
                floats([p for p, *_ in rows]), floats([i.low for i in ends]), floats([i.high for i in ends]),
                tuple(_ratio_label(s, c) for _, s, c in rows), colour, legend=True,
            ))  # fmt: skip
    pooled = [(p, c.paper.ratio) for p, (_, c) in zip(positions, drawn, strict=True) if c.paper.ratio]
    naive = Mark(
        "dots", "every run counted, as the paper does", floats([r for _, r in pooled]),
        floats([p - 0.22 for p, _ in pooled]), labels=tuple(f"pooled ratio {number(r)}" for _, r in pooled),
        colour=COLOURS[3], symbol=2, legend=True,
    )  # fmt: skip
    names = [f"{short_name(s, c)}, {seed_counts(c)}" for s, c in drawn]
    ticks = tuple((float(p), name) for p, name in zip(positions, names, strict=True))
    y = Axis(ticks=ticks, range=(-0.6, len(drawn) - 0.4))
    panel = Panel("", axis, y, (rule((1, 1), (-0.6, len(drawn) - 0.4)), *marks, naive))
    ratios = "; ".join(
        f"{short_name(s, c)}: {number(c.headline.ratio)} {between(c.headline.shown_interval)}"
        for s, c in drawn
    )
    return Chart(
        "answer",
        "The variance ratio, and how sure it is",
        f"Right of 1, the first arm ({arms_of(drawn[0][1])}) spreads more; left of 1, less. An interval that "
        "crosses 1 leaves the direction open. Where comparisons are judged together, it is adjusted (Holm).",
        f"Variance ratios with 95% intervals. {ratios}.",
        (panel,),
        origins([s for s, _ in drawn]),
        height=0.45 + 0.14 * len(drawn),
    )


def short_name(s: Setting, c: Comparison) -> str:
    """A comparison in a word or two."""
    return s.name if len(s.comparisons) == 1 else f"{s.name}: {c.group}"


def _ratio_label(s: Setting, c: Comparison) -> str:
    h = c.headline
    return f"{s.title}\n{arms_of(c)}: {number(h.ratio)} {between(h.shown_interval)}\np = {p_value(c.p_holm)}"


def spread_chart(s: Setting) -> Chart | None:
    """Figure 1: every run, means and +-1 sd bands; beside it the ratio by every method."""
    if not s.runs:
        return None
    marks = tuple(mark for i, arm in enumerate(s.arms) for mark in _arm_marks(s, arm, i))
    panels = [Panel("every run", arms_axis(s.arms), Axis(s.value), marks)]
    for c in s.comparisons:
        title = "ratio by method" if len(s.comparisons) == 1 else f"{c.group}: ratio by method"
        panels += [panel for panel in [methods_panel(c, title)] if panel is not None]
    means = "; ".join(_arm_words(s, arm) for arm in s.arms if s.of(arm))
    return Chart(
        f"{s.id}-spread",
        f"Spread over seeds: {s.name}",
        "Each mark is one run; lines are means, bands ±1 standard deviation. Right: the variance ratio by "
        "method; green, each seed counted once (the first is the headline); grey, every run counted "
        "as independent.",
        f"{s.value} of every run by arm. {means}.",
        tuple(panels),
        s.origin,
        1 if s.paper == "cifar10" and s.is_the_papers else None,
    )


def _arm_words(s: Setting, arm: str) -> str:
    values = [r.value for r in s.of(arm)]
    spread = f", from {min(values):.4g} to {max(values):.4g}" if len(values) > 1 else ""
    return f"{arm}: {len(values)} runs, mean {np.mean(values):.4g}{spread}"


def _arm_marks(s: Setting, arm: str, position: int) -> list[Mark]:
    runs = s.of(arm)
    if not runs:
        return []
    summary = next((p for c in s.comparisons for p in c.pooled if p.group == arm), None)
    mean, sd = (summary.mean, summary.sd) if summary else (float(np.mean([r.value for r in runs])), None)
    blocks = [
        Dots(block, [r.value for r in in_block], tuple(r.label for r in in_block))
        for block in s.blocks
        for in_block in [[r for r in runs if r.block == block]]
    ]
    return arm_marks(arm, position, arm_colour(s, arm), mean, sd, blocks)


def forest_chart(material: ReportData) -> Chart | None:
    """Ratios across datasets, and all together."""
    across = material.across
    if across is None or across.forest is None:
        return None
    forest = across.forest
    by_title = {c.title: c for c in across.comparisons}
    rows = [by_title[title] for title in forest.titles]
    intervals = [c.headline.shown_interval for c in rows if c.headline.shown_interval is not None]
    axis = ratio_axis([*intervals, forest.interval], f"variance ratio, {arms_of(rows[0])}")
    positions = floats(range(len(rows), 0, -1))
    each = Mark(
        "interval", "each by itself, adjusted (Holm)", floats([c.headline.ratio or math.nan for c in rows]),
        positions, floats([i.low for i in intervals]), floats([i.high for i in intervals]),
        tuple(f"{c.title}\n{number(c.headline.ratio)} {between(c.headline.shown_interval)}\n"
              f"p (Holm) = {p_value(c.p_holm)}" for c in rows),
        QUOTED, legend=True,
    )  # fmt: skip
    together = Mark(
        "interval", "together (random effects)", (forest.pooled,), (0.0,), (forest.interval.low,),
        (forest.interval.high,), (f"together: {number(forest.pooled)} {between(forest.interval)}",),
        COLOURS[3], 2, legend=True,
    )  # fmt: skip
    ticks = (*((p, _dataset(c)) for p, c in zip(positions, rows, strict=True)), (0.0, "together"))
    y = Axis(ticks=ticks, range=(-0.6, len(rows) + 0.6))
    panel = Panel("", axis, y, (rule((1, 1), (-0.6, len(rows) + 0.6)), each, together))
    chosen = [s for s in material.settings if {s.name, str(s.paper)} & {c.stratum for c in rows}]
    return Chart(
        "forest",
        "Variance ratios together",
        f"Each seed counted once. Do the ratios differ among themselves? Q({forest.df}) = {forest.q:.3g}, "
        f"p = {p_value(forest.p)}, I² = {forest.i_squared:.0%}; with so few ratios this test is weak.",
        f"Together {number(forest.pooled)} {between(forest.interval)}; heterogeneity p {p_value(forest.p)}.",
        (panel,),
        origins(chosen),
        height=0.5 + 0.12 * len(rows),
    )


def _dataset(c: Comparison) -> str:
    """The published audit has keys, a store titles."""
    return TITLES.get(c.stratum, c.stratum)
