"""The figures of the page: every run, and variance ratios."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.charts import (
    Dots,
    Line,
    arm_marks,
    arms_axis,
    arms_of,
    axis_title,
    lines_panel,
)
from seedspread.analysis.words import between, look_title, number, p_value, seed_counts
from seedspread.render.chart import GREY, NEUTRAL, Axis, Chart, Mark, Panel
from seedspread.report.extension import ReportData, Row, Setting, origins, questions


def spread_chart(s: Setting) -> Chart | None:
    """Draw every run, means and ±1 sd bands; beside them the ratios with their intervals."""
    if not s.runs:
        return None
    axis = replace(arms_axis([s.arm_title(arm) for arm in s.arms]), title=s.group)
    marks: list[Mark] = []
    means = []
    for i, (arm, runs) in enumerate((arm, s.of(arm)) for arm in s.arms):
        if not runs:
            continue
        values = [r.value for r in runs]
        spread = f", from {min(values):.4g} to {max(values):.4g}" if len(values) > 1 else ""
        means.append(f"{s.arm_title(arm)}: {len(values)} runs, mean {np.mean(values):.4g}{spread}")
        summary = next((p for c in s.comparisons for p in c.pooled if p.group == arm), None)
        mean, sd = (summary.mean, summary.sd) if summary else (float(np.mean(values)), None)
        dots = [
            Dots(s.block_title(block), [r.value for r in own], tuple(map(s.label, own)))
            for block, own in ((block, s.of(arm, block)) for block in s.blocks)
        ]
        marks += arm_marks(s.arm_title(arm), i, s.colour(arm), mean, sd, dots)
    panels = [Panel("every run", axis, Axis(axis_title(s.metric)), tuple(marks))]
    if lines := [Line.of(c.headline, arms_of(c)) for c in s.comparisons if c.headline.shown_interval]:
        panels.append(lines_panel(lines, "Variance ratio, 95% interval", ""))
    looks = next((c.headline.looks for c in s.comparisons if c.headline.looks), None)
    counted = f" It counts the looks ({look_title(looks)})." if looks else ""
    return Chart(
        f"{s.id}-spread",
        f"Spread over seeds: {s.name}",
        "Each mark is one run; lines are means, bands ±1 standard deviation. Right: the variance ratio, each "
        f"seed counted once, with the interval that decides the verdict.{counted}",
        f"{s.metric.label} of every run by group. {'; '.join(means)}.",
        tuple(panels),
        s.origin,
        s.beside.follows("spread"),
    )


def answer_charts(data: ReportData) -> list[Chart]:
    """Draw every comparison's ratio, one figure per question."""
    out: list[Chart] = []
    for rows in questions(data):
        drawn = [(s, c) for s, c in rows if c.headline.ratio and c.headline.shown_interval]
        # Comparisons in which runs fail cannot be judged by a ratio, and stand below the rest.
        drawn.sort(key=lambda row: row[1].failures is not None)
        if drawn:
            out.append(_answer_chart(drawn, f"answer-{len(out) + 1}" if out else "answer"))
    if len(out) < 2:
        return out
    about = [chart.panels[0].x.title.removeprefix("Variance ratio, ") for chart in out]
    return [replace(chart, title=f"{chart.title}: {x}") for chart, x in zip(out, about, strict=True)]


def _answer_chart(drawn: Sequence[Row], chart_id: str) -> Chart:
    s, c = drawn[0]
    lines = [
        Line.of(
            c.headline,
            f"{s.name}\n{arms_of(c)}, {seed_counts(c.seeds)}",
            GREY if c.failures else NEUTRAL,
            f"{s.title}\n{_ratio_words(c)}\np = {p_value(c.p_adjusted)}",
            "runs fail, or fall into two clusters: not to be judged so"
            if c.failures
            else "each seed counted once, 95% interval",
        )
        for s, c in drawn
    ]
    arms = {c.arm_name for _, c in drawn}
    one = len({c.group for _, c in drawn}) == 1
    compared = arms_of(c) if one else f"each {s.group} over {c.baseline_name}"
    metric = "" if s.metric.name == "accuracy" else f" ({s.metric.title or s.metric.name})"
    ratios = "; ".join(f"{s.name}, {_ratio_words(c)}" for s, c in drawn)
    looks = " Where a study was looked at while it grew, it counts the looks."
    return Chart(
        chart_id,
        "The variance ratio, and how sure it is",
        f"Right of 1, {arms.pop() if len(arms) == 1 else f'the first-named {s.group}'} spreads more than "
        f"{c.baseline_name}; left of 1, less. "
        "An interval that crosses 1 leaves the direction open. Where comparisons are judged together, it is "
        f"adjusted.{looks if any(c.headline.looks for _, c in drawn) else ''}",
        f"Variance ratios with 95% intervals. {ratios}.",
        (lines_panel(lines, f"Variance ratio, {compared}{metric}", ""),),
        origins([s for s, _ in drawn]),
        height=0.45 + 0.14 * len(drawn),
    )


def _ratio_words(c: Comparison) -> str:
    return f"{arms_of(c)}: {number(c.headline.ratio)} {between(c.headline.shown_interval)}"
