"""Variance ratios together: one figure for each question, that is for each arm against its baseline."""

import math
from collections.abc import Sequence
from dataclasses import replace

from seedspread.analysis.charts import QUOTED, arms_of, ratio_axis, rule
from seedspread.analysis.comparison import AuditResult, Comparison, Forest
from seedspread.analysis.numbers import between, number, p_value
from seedspread.analysis.words import seed_counts
from seedspread.render.chart import COLOURS, GREY, Axis, Chart, Mark, Panel, floats
from seedspread.report.material.questions import Row, questions
from seedspread.report.material.settings import ReportData, Setting, origins, slug
from seedspread.stats.result import Interval


def answer_charts(material: ReportData) -> list[Chart]:
    """For each question every comparison's variance ratio, the seed as the unit, the pooled one beside."""
    out: list[Chart] = []
    for rows in questions(material):
        drawn = [(s, c) for s, c in rows if c.headline.ratio and c.headline.shown_interval]
        # What cannot be judged so stands below the rest.
        drawn.sort(key=lambda row: row[1].collapse.found)
        if drawn:
            out.append(_answer_chart(drawn, f"answer{_ending(drawn) if out else ''}"))
    return out if len(out) < 2 else [_titled(chart) for chart in out]


def _ending(rows: Sequence[Row]) -> str:
    s, c = rows[0]
    arm = c.group if len({c.group for _, c in rows}) == 1 else ""
    return "-" + slug(" ".join([s.metric.name, s.group, arm, "over", c.baseline]))


def _titled(chart: Chart) -> Chart:
    """With its question, where there are several."""
    about = chart.panels[0].x.title.removeprefix("variance ratio, ")
    return replace(chart, title=f"{chart.title}: {about}")


def _answer_chart(drawn: Sequence[Row], chart_id: str) -> Chart:
    intervals = [_ends(c) for _, c in drawn]
    positions = list(range(len(drawn) - 1, -1, -1))
    sides = (-0.6, len(drawn) - 0.4)
    marks = [_row_marks(drawn, positions, failing=failing) for failing in (False, True)]
    ticks = tuple(
        (float(p), f"{s.name}\n{arms_of(c)}, {seed_counts(c)}")
        for p, (s, c) in zip(positions, drawn, strict=True)
    )
    panel = Panel(
        "", ratio_axis(intervals, f"variance ratio, {_compared(drawn)}"), Axis(ticks=ticks, range=sides),
        (rule((1, 1), sides), *(mark for mark in marks if mark.x), _pooled(drawn, positions)),
    )  # fmt: skip
    ratios = "; ".join(
        f"{s.name}, {arms_of(c)}: {number(c.headline.ratio)} {between(c.headline.shown_interval)}"
        for s, c in drawn
    )
    return Chart(
        chart_id,
        "The variance ratio, and how sure it is",
        f"Right of 1, {_first_arm(drawn)} spreads more than {drawn[0][1].baseline_name}; left of 1, less. "
        "An interval that crosses 1 leaves the direction open. Where comparisons are judged together, it is "
        f"adjusted (Holm).{_on_looks(drawn)}",
        f"Variance ratios with 95% intervals. {ratios}.",
        (panel,),
        origins([s for s, _ in drawn]),
        height=0.45 + 0.14 * len(drawn),
    )


def _on_looks(drawn: Sequence[Row]) -> str:
    looked = any(c.headline.looks for _, c in drawn)
    return " Where a study was looked at while it grew, it counts the looks." if looked else ""


def _ends(c: Comparison) -> Interval:
    return c.headline.shown_interval or Interval(0.0, math.inf, math.nan)


def _first_arm(drawn: Sequence[Row]) -> str:
    arms = {c.arm_name for _, c in drawn}
    return arms.pop() if len(arms) == 1 else f"the first-named {drawn[0][0].group}"


def _compared(drawn: Sequence[Row]) -> str:
    """`clamp over subtract`, or of several arms what they are compared with."""
    s, c = drawn[0]
    metrics = "" if s.metric.name == "accuracy" else f" ({s.metric.title or s.metric.name})"
    arms = {c.group for _, c in drawn}
    return f"{arms_of(c) if len(arms) == 1 else f'each {s.group} over {c.baseline_name}'}{metrics}"


def _row_marks(drawn: Sequence[Row], positions: Sequence[int], *, failing: bool) -> Mark:
    rows = [(p, s, c) for p, (s, c) in zip(positions, drawn, strict=True) if c.collapse.found == failing]
    ends = [_ends(c) for *_, c in rows]
    failed = "runs fail, or fall into two clusters: not to be judged so"
    name = failed if failing else "each seed counted once, 95% interval"
    return Mark(
        "interval", name, floats([c.headline.ratio or math.nan for *_, c in rows]),
        floats([p for p, *_ in rows]), floats([i.low for i in ends]), floats([i.high for i in ends]),
        tuple(_label(s, c) for _, s, c in rows), GREY if failing else QUOTED, legend=True,
    )  # fmt: skip


def _label(s: Setting, c: Comparison) -> str:
    h = c.headline
    return f"{s.title}\n{arms_of(c)}: {number(h.ratio)} {between(h.shown_interval)}\np = {p_value(c.p_holm)}"


def _pooled(drawn: Sequence[Row], positions: Sequence[int]) -> Mark:
    """Every run counted as if it were independent."""
    rows = [
        (p, c.pooled_test.ratio) for p, (_, c) in zip(positions, drawn, strict=True) if c.pooled_test.ratio
    ]
    return Mark(
        "dots", "every run counted as independent",
        floats([r for _, r in rows]), floats([p - 0.22 for p, _ in rows]),
        labels=tuple(f"pooled ratio {number(r)}" for _, r in rows), colour=COLOURS[3], symbol=2, legend=True,
    )  # fmt: skip


def forest_charts(material: ReportData) -> list[Chart]:
    """For each arm and baseline its ratios over several settings, and all together."""
    audits = [material.across, *(s.audit for s in material.settings)]
    unique = {id(audit): audit for audit in audits if audit is not None}.values()
    pairs = [(audit, forest) for audit in unique for forest in audit.forests]
    out: list[Chart] = []
    for audit, forest in pairs:
        ending = (
            "" if not out else "-" + slug(" ".join([audit.value, audit.group, forest.group, *_by(audit)]))
        )
        ids = {chart.id for chart in out}
        name = f"forest{ending}"
        out.append(_forest_chart(material, audit, forest, name if name not in ids else f"{name}-{len(out)}"))
    return out


def _by(audit: AuditResult) -> list[str]:
    return [f"by {audit.by}"] if audit.by else []


def _forest_chart(material: ReportData, audit: AuditResult, forest: Forest, chart_id: str) -> Chart:
    by_title = {c.title: c for c in audit.comparisons}
    rows = [by_title[title] for title in forest.titles]
    names = {c.stratum: s.name for s in material.settings if s.audit is audit for c in s.comparisons}
    intervals = [_ends(c) for c in rows]
    arms = arms_of(rows[0])
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
    named = [f"{names.get(c.stratum, c.stratum)}\n{arms}" for c in rows]
    ticks = (*zip(positions, named, strict=True), (0.0, f"together\n{arms}"))
    sides = (-0.6, len(rows) + 0.6)
    axis = ratio_axis([*intervals, forest.interval], f"variance ratio, {arms}")
    panel = Panel("", axis, Axis(ticks=ticks, range=sides), (rule((1, 1), sides), each, together))
    strata = {c.stratum for c in rows}
    chosen = [
        s
        for s in material.settings
        if s.audit is audit or {s.name, s.published.title if s.published else s.name} & strata
    ]
    return Chart(
        chart_id,
        f"Variance ratios together: {arms}",
        f"Each seed counted once. Do the ratios differ among themselves? Q({forest.df}) = {forest.q:.3g}, "
        f"p = {p_value(forest.p)}, I² = {forest.i_squared:.0%}; with so few ratios this test is weak.",
        f"Together {number(forest.pooled)} {between(forest.interval)}; heterogeneity p {p_value(forest.p)}.",
        (panel,),
        origins(chosen),
        height=0.5 + 0.14 * len(rows),
    )
