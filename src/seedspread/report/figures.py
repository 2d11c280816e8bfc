"""The figures of the page: every run, variance ratios, interim looks."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seedspread.analysis.audit_result import AuditResult, Comparison, Forest
from seedspread.analysis.charts import (
    QUOTED,
    Dots,
    Line,
    arm_marks,
    arms_axis,
    arms_of,
    lines_panel,
    methods_panel,
)
from seedspread.analysis.curves import MOST_GROUPS
from seedspread.analysis.sequential import interval_of_look, standing
from seedspread.analysis.words import (
    between,
    look_title,
    number,
    p_value,
    seed_counts,
)
from seedspread.render.chart import COLOURS, GREY, Axis, Chart, Mark, Panel, floats
from seedspread.report.extension import ReportData, Row, Setting, origins, questions, slug
from seedspread.runs.levels import joined_levels


def of_setting(s: Setting) -> list[Chart | None]:
    """Return the figures of a setting's own section."""
    return [spread_chart(s), training_chart(s), looks_chart(s)]


def spread_chart(s: Setting) -> Chart | None:
    """Draw every run, means and ±1 sd bands; beside it the ratio by every method."""
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
    panels = [Panel("every run", axis, Axis(s.metric.label), tuple(marks))]
    for c in s.comparisons:
        title = "ratio by method" if len(s.comparisons) == 1 else f"{c.arm_name}: ratio by method"
        panels += [panel for panel in [methods_panel(c, title)] if panel is not None]
    looks = next((c.headline.looks for c in s.comparisons if c.headline.looks), None)
    counted = (
        f" The headline counts the looks ({look_title(looks)}); the other methods do not." if looks else ""
    )
    return Chart(
        f"{s.id}-spread",
        f"Spread over seeds: {s.name}",
        "Each mark is one run; lines are means, bands ±1 standard deviation. Right: the variance ratio by "
        "method; green, each seed counted once (the first is the headline); grey, every run counted "
        f"as independent.{counted}",
        f"{s.metric.label} of every run by arm. {'; '.join(means)}.",
        tuple(panels),
        s.origin,
        s.beside.follows("spread"),
    )


def training_chart(s: Setting) -> Chart | None:
    """Draw the metric over training, if runs logged it with a step."""
    if s.training is None or len(s.arms) > MOST_GROUPS:
        return None
    chart = s.training.chart()
    return replace(chart, id=f"{s.id}-curves", title=f"{chart.title}: {s.name}", scale=s.origin)


def looks_chart(s: Setting) -> Chart | None:
    """Draw the ratio at every interim look, with the interval that counts the looks."""
    record = s.looks
    if record is None:
        return None
    several = len(s.comparisons) > 1
    lines = [
        Line(f"{look.seeds} seeds" + (f"\n{c.title}" if several else ""), c.ratio, interval_of_look(c))
        for look in record.looks
        for c in look.comparisons
    ]
    found = "; ".join(f"{line.name}: {number(line.ratio)} {between(line.interval)}" for line in lines)
    return Chart(
        f"{s.id}-looks",
        f"Look by look: {s.name}",
        f"The variance ratio at each look, with an interval that counts all looks, at most "
        f"{len(record.spec.sizes)}. {standing(record)}",
        f"Variance ratios look by look. {found}.",
        (lines_panel(lines, "variance ratio, 95% intervals that count the looks", ""),),
        s.origin,
        height=0.5 + 0.12 * len(lines),
    )


def answer_charts(data: ReportData) -> list[Chart]:
    """Draw every comparison's ratio, one figure per question, with the ratio of pooled runs beside it."""
    out: list[Chart] = []
    for rows in questions(data):
        drawn = [(s, c) for s, c in rows if c.headline.ratio and c.headline.shown_interval]
        # Comparisons in which runs fail cannot be judged by a ratio, and stand below the rest.
        drawn.sort(key=lambda row: row[1].failures is not None)
        if drawn:
            s, c = drawn[0]
            arm = c.group if len({c.group for _, c in drawn}) == 1 else ""
            ending = "-" + slug(" ".join([s.metric.name, s.group, arm, "over", c.baseline])) if out else ""
            out.append(_answer_chart(drawn, f"answer{ending}"))
    if len(out) < 2:
        return out
    about = [chart.panels[0].x.title.removeprefix("variance ratio, ") for chart in out]
    return [replace(chart, title=f"{chart.title}: {x}") for chart, x in zip(out, about, strict=True)]


def _answer_chart(drawn: Sequence[Row], chart_id: str) -> Chart:
    s, c = drawn[0]
    lines = [
        Line.of(
            c.headline,
            f"{s.name}\n{arms_of(c)}, {seed_counts(c.seeds)}",
            GREY if c.failures else QUOTED,
            f"{s.title}\n{_ratio_words(c)}\np = {p_value(c.p_adjusted)}",
            "runs fail, or fall into two clusters: not to be judged so"
            if c.failures
            else "each seed counted once, 95% interval",
        )
        for s, c in drawn
    ]
    places = range(len(drawn) - 1, -1, -1)
    pooled = [
        (p, c.pooled_test.ratio) for p, (_, c) in zip(places, drawn, strict=True) if c.pooled_test.ratio
    ]
    independent = Mark(
        "dots", "every run counted as independent",
        floats([r for _, r in pooled]), floats([p - 0.22 for p, _ in pooled]),
        labels=tuple(f"pooled ratio {number(r)}" for _, r in pooled), colour=COLOURS[3], symbol=2,
        legend=True,
    )  # fmt: skip
    arms = {c.arm_name for _, c in drawn}
    one = len({c.group for _, c in drawn}) == 1
    compared = arms_of(c) if one else f"each {s.group} over {c.baseline_name}"
    metric = "" if s.metric.name == "accuracy" else f" ({s.metric.title or s.metric.name})"
    panel = lines_panel(lines, f"variance ratio, {compared}{metric}", "")
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
        (replace(panel, marks=(*panel.marks, independent)),),
        origins([s for s, _ in drawn]),
        height=0.45 + 0.14 * len(drawn),
    )


def _ratio_words(c: Comparison) -> str:
    return f"{arms_of(c)}: {number(c.headline.ratio)} {between(c.headline.shown_interval)}"


def forest_charts(data: ReportData) -> list[Chart]:
    """Draw, for each arm and baseline, the ratios of several settings and their mean."""
    audits = [data.across, *(s.audit for s in data.settings)]
    unique = {id(audit): audit for audit in audits if audit is not None}
    out: dict[str, Chart] = {}
    for audit, forest in [(one, forest) for one in unique.values() for forest in one.forests]:
        by = [f"by {', '.join(audit.by)}"] if audit.by else []
        ending = "-" + slug(" ".join([audit.value, audit.group, forest.group, *by])) if out else ""
        name = f"forest{ending}"
        name = name if name not in out else f"{name}-{len(out)}"
        out[name] = _forest_chart(data, audit, forest, name)
    return list(out.values())


def _forest_chart(data: ReportData, audit: AuditResult, forest: Forest, chart_id: str) -> Chart:
    by_title = {c.title: c for c in audit.comparisons}
    rows = [by_title[title] for title in forest.titles]
    names = {c.stratum: s.name for s in data.settings if s.audit is audit for c in s.comparisons}
    arms = arms_of(rows[0])
    lines = [
        Line.of(
            c.headline,
            f"{names.get(c.stratum, joined_levels(c.stratum))}\n{arms}",
            label=f"{c.title}\n{number(c.headline.ratio)} {between(c.headline.shown_interval)}\n"
            f"p = {p_value(c.p_adjusted)}",
        )
        for c in rows
    ]
    lines.append(Line(f"together\n{arms}", forest.pooled, forest.interval, COLOURS[3]))
    strata = {joined_levels(c.stratum) for c in rows}
    chosen = [
        s
        for s in data.settings
        if s.audit is audit or {s.name, s.published.title if s.published else s.name} & strata
    ]
    return Chart(
        chart_id,
        f"Variance ratios together: {arms}",
        "Each seed counted once; each ratio is adjusted, the last is their mean (random effects). "
        f"Do the ratios differ among themselves? Q({forest.df}) = {forest.q:.3g}, "
        f"p = {p_value(forest.p)}, I² = {forest.i_squared:.0%}; with so few ratios this test is weak.",
        f"Together {number(forest.pooled)} {between(forest.interval)}; heterogeneity p {p_value(forest.p)}.",
        (lines_panel(lines, f"variance ratio, {arms}", ""),),
        origins(chosen),
        height=0.5 + 0.14 * len(rows),
    )
