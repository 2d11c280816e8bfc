"""Figures and tables of the page: runs, ratios and means, beside published values if there are any."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from seedspread.analysis import sequential, words
from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.charts import (
    Dots,
    Line,
    axis_title,
    group_marks,
    groups_axis,
    groups_of,
    lines_panel,
)
from seedspread.analysis.display import groups_table, mean_and_sd
from seedspread.analysis.words import between, ends, look_title, number, p_value, seed_counts, times, two
from seedspread.render.chart import GREY, NEUTRAL, Axis, Chart, Mark, Panel
from seedspread.render.table import Column, Table
from seedspread.report.extension import Point, ReportData, Row, Setting, origins, questions
from seedspread.runs.levels import joined_levels
from seedspread.runs.store import STATES
from seedspread.stats.result import Summary


def spread_chart(s: Setting) -> Chart | None:
    """Draw every run, means and ±1 sd bands beside the ratios and their intervals; None without runs."""
    if not s.runs:
        return None
    axis = replace(groups_axis([s.group_title(group) for group in s.in_order]), title=s.group)
    marks: list[Mark] = []
    means = []
    for i, (group, runs) in enumerate((group, s.of(group)) for group in s.in_order):
        if not runs:
            continue
        values = [r.value for r in runs]
        spread = f", from {min(values):.4g} to {max(values):.4g}" if len(values) > 1 else ""
        means.append(f"{s.group_title(group)}: {len(values)} runs, mean {np.mean(values):.4g}{spread}")
        summary = next((p for c in s.comparisons for p in c.pooled if p.group == group), None)
        mean, sd = (summary.mean, summary.sd) if summary else (float(np.mean(values)), None)
        dots = [
            Dots(s.block_title(block), [r.value for r in own], tuple(map(s.label, own)))
            for block, own in ((block, s.of(group, block)) for block in s.blocks)
        ]
        marks += group_marks(s.group_title(group), i, s.color(group), mean, sd, dots)
    panels = [Panel("Every run", axis, Axis(axis_title(s.metric)), tuple(marks))]
    caption = "Each mark is one run; lines are means, bands ±1 standard deviation."
    alt = f"{s.metric.label} of every run by group. {'; '.join(means)}."
    if drawn := [c for c in s.comparisons if c.headline.shown_interval]:
        intervals = [c.headline.shown_interval for c in drawn]
        alone = f"{groups_of(drawn[0])}\n{times(drawn[0].headline.ratio)} ({ends(intervals[0])})"
        lines = [Line.of(c.headline, groups_of(c) if len(drawn) > 1 else "") for c in drawn]
        title = "" if len(drawn) > 1 else alone
        panels.append(lines_panel(lines, f"Variance ratio ({words.levels_of(intervals)} CI)", title))
        adjusted = _adjusted(drawn)
        caption += (
            " Right: the variance ratio, each seed counted once, with the interval that decides the verdict"
            f"{adjusted and ', '}{adjusted}."
        )
        alt += f" Variance ratios: {'; '.join(map(_ratio_words, drawn))}."
    if looks := next((c.headline.looks for c in s.comparisons if c.headline.looks), None):
        caption += f" It accounts for the interim looks ({look_title(looks)})."
    return Chart(
        f"{s.id}-spread",
        f"Spread over seeds: {s.name}",
        caption,
        alt,
        tuple(panels),
        s.origin,
        s.beside.follows("spread"),
        height=max(1.0, 0.3 + 0.09 * len(drawn)),
    )


def answer_charts(data: ReportData) -> list[Chart]:
    """Draw every comparison's ratio, one figure per question."""
    out: list[Chart] = []
    for rows in questions(data):
        drawn = [(s, c) for s, c in rows if c.headline.ratio and c.headline.shown_interval]
        # Comparisons with failing runs cannot be judged by a ratio, and are listed last.
        drawn.sort(key=lambda row: row[1].failures is not None)
        if drawn:
            out.append(_answer_chart(drawn, f"answer-{len(out) + 1}" if out else "answer"))
    if len(out) < 2:
        return out
    about = [chart.panels[0].x.title.removeprefix("Variance ratio, ") for chart in out]
    return [replace(chart, title=f"{chart.title}: {x}") for chart, x in zip(out, about, strict=True)]


def _answer_chart(drawn: Sequence[Row], chart_id: str) -> Chart:
    s, c = drawn[0]
    failing = any(c.failures for _, c in drawn)
    lines = [
        Line.of(
            c.headline,
            f"{s.name}\n{groups_of(c)}, {seed_counts(c.seeds)}",
            GREY if c.failures else NEUTRAL,
            f"{s.title}\n{_ratio_words(c)}\np = {p_value(c.p_adjusted)}",
            ("runs fail or form two clusters" if c.failures else "all runs succeed") if failing else "",
        )
        for s, c in drawn
    ]
    groups = {c.group_name for _, c in drawn}
    one = len({c.group for _, c in drawn}) == 1
    compared = groups_of(c) if one else f"each {s.group} over {c.baseline_name}"
    metric = "" if s.metric.name == "accuracy" else f" ({s.metric.title or s.metric.name})"
    ratios = "; ".join(f"{s.name}, {_ratio_words(c)}" for s, c in drawn)
    level = words.levels_of(c.headline.shown_interval for _, c in drawn)
    adjusted = _adjusted([c for _, c in drawn])
    accounted = [f"Intervals are {adjusted}."] if adjusted else []
    accounted += ["They account for interim looks."] if any(c.headline.looks for _, c in drawn) else []
    return Chart(
        chart_id,
        "Variance ratios",
        f"Right of 1, {groups.pop() if len(groups) == 1 else f'the {s.group} named first'} spreads more than "
        f"{c.baseline_name}; left of 1, less. An interval ({level}) that contains 1 leaves the direction "
        f"{' '.join(['open.', *accounted])}",
        f"Variance ratios with their intervals ({level}). {ratios}.",
        (lines_panel(lines, f"Variance ratio, {compared}{metric}", ""),),
        origins([s for s, _ in drawn]),
        height=0.45 + 0.14 * len(drawn),
    )


def _adjusted(comparisons: Sequence[Comparison]) -> str:
    """Return `adjusted for 3 comparisons`; empty if each is judged by itself."""
    families = sorted({c.family for c in comparisons if c.family > 1})
    return f"adjusted for {' or '.join(map(str, families))} comparisons" if families else ""


def _ratio_words(c: Comparison) -> str:
    return f"{groups_of(c)}: {number(c.headline.ratio)} {between(c.headline.shown_interval)}"


def digits(value: float | None, places: int) -> str:
    """Format a number with this many decimals; None is a dash."""
    return "-" if value is None else f"{value:.{places}f}"


def columns_beside(names: Sequence[str], *settings: Setting) -> tuple[Column, ...]:
    """Return columns for the runs' own values and, if there are any, for published ones."""
    headings = list(dict.fromkeys(s.beside.heading for s in settings if s.beside.name))
    if not headings:
        return tuple(map(Column, names))
    heading = headings[0] if len(headings) == 1 else "published (scale differs by row)"
    return tuple(Column(name, group) for group in ("these runs", heading) for name in names)


def of_setting(s: Setting) -> list[Table | None]:
    """Return the tables of a setting's section; beside published values, in the publication's layout."""
    means = _as_published(s) if s.beside.name else [groups(s)]
    return [looks_table(s), *means, per_seed(s)]


def groups(s: Setting) -> Table | None:
    """Return seeds, runs, mean and sd of each group, and of each block if there are blocks."""
    if s.audit is None or not s.comparisons:
        return None
    title = s.comparisons[0].title if len(s.comparisons) == 1 else s.name
    table = groups_table(s.audit, *s.comparisons)
    return replace(table, id=f"{s.id}-groups", title=f"Means and sds: {title}")


def looks_table(s: Setting) -> Table | None:
    if s.sequential is None:
        return None
    titles = {c.title for c in s.comparisons}
    looks = tuple(
        replace(look, comparisons=tuple(c for c in look.comparisons if c.title in titles))
        for look in s.sequential.looks
    )
    table = sequential.looks_table(replace(s.sequential, looks=looks), f"Interim looks: {s.name}")
    return replace(table, id=f"{s.id}-looks-table") if table.rows else None


def _as_published(s: Setting) -> Iterator[Table]:
    """Yield mean, sd and variance of each group, after those of each cell if seeds are run in several."""
    summaries = {(x.group, x.block): x for c in s.comparisons for x in (*c.cells, *c.pooled)}
    every = sorted(summaries.values(), key=lambda x: (s.in_order.index(x.group), x.block))
    cells, groups = [x for x in every if x.block], [x for x in every if not x.block]
    if len({x.block for x in cells}) > 1:
        yield _summaries(s, "factorial", "Every cell", (s.group, s.block), cells, "")
    if groups:
        note = f"Runs of all levels of {s.block} together: n counts runs, not seeds" if s.blocks[1:] else ""
        yield _summaries(s, "pooled", "Each group", (s.group,), groups, note)


def _summaries(
    s: Setting, kind: str, title: str, heads: Sequence[str], summaries: Sequence[Summary], note: str
) -> Table:
    """Return n, mean, sd and variance; published values are looked up as `clamp` or `clamp/detach`."""
    unit, shown = s.metric.unit_suffix, s.metric.digits
    rows = []
    for c in summaries:
        head = (s.group_title(c.group), s.block_title(c.block))[: len(heads)]
        name = "/".join(filter(None, (c.group, joined_levels(c.block))))
        own = (str(c.n), shown(c.mean, 2), shown(c.sd, 3), shown(c.variance, 4))
        rows.append((*head, *own, *s.beside.values(kind, ("size", "mean", "sd", "variance"), name)))
    columns = (*map(Column, heads), *columns_beside(("n", f"mean{unit}", f"sd{unit}", "variance"), s))
    return _of_setting(s, kind, title, columns, rows, note=note)


def _of_setting(
    s: Setting, kind: str, title: str, columns: Sequence[Column], rows: Sequence[tuple[str, ...]], **more: Any
) -> Table:
    """Return a table of one setting; it may correspond to a published table of that kind."""
    name, follows = f"{s.id}-{kind}", s.beside.follows(kind)
    return Table(name, f"{title}: {s.name}", tuple(columns), tuple(rows), follows, scale=s.origin, **more)


def per_seed(s: Setting) -> Table | None:
    """Return a row of runs per condition, each with its published row below it."""
    if not s.runs:
        return None
    seeds = sorted({r.seed for r in s.runs}, key=lambda x: (len(x), x))
    published = s.beside.runs()
    extra = max(0, max((len(values) for values in published.values()), default=0) - len(seeds))
    rows: list[tuple[str, ...]] = []
    muted = set()
    for group in s.in_order:
        for block in s.blocks:
            runs = {r.seed: r for r in s.of(group, block)}
            if not runs:
                continue
            name = s.condition(group, block)
            rows.append((name, *(_shown(s, runs.get(x)) for x in seeds), *["-"] * extra))
            printed = published.get((group, joined_levels(block)))
            if printed:
                muted.add(len(rows))
                values = [*printed, *["-"] * (len(seeds) + extra - len(printed))]
                rows.append((f"{name}: {s.beside.heading}", *values))
    columns = [Column("condition"), *(Column(f"S{x}" if x.isdigit() else x) for x in seeds)]
    columns += [Column(f"({len(seeds) + k + 1})") for k in range(extra)]
    failed = "† collapsed: no better than the largest class, or features of all images alike"
    more = {"note": failed if any(r.collapsed for r in s.runs) else "", "muted": frozenset(muted)}
    return _of_setting(s, "per-seed", f"Every run, {s.metric.label}", columns, rows, **more)


def folders(s: Setting) -> Table | None:
    """Return a row per run with the name of its folder in the store."""
    runs = [run for group in s.in_order for run in s.of(group) if run.key]
    rows = tuple((s.condition(r.group, r.block), r.seed, _shown(s, r), r.key) for r in runs)
    columns = tuple(map(Column, ("condition", "seed", s.metric.label, "folder")))
    return Table(f"{s.id}-folders", f"Folders: {s.name}", columns, rows) if rows else None


def _shown(s: Setting, run: Point | None) -> str:
    return "-" if run is None else f"{s.metric.digits(run.value, 2)}{' †' if run.collapsed else ''}"


def ratios_table(data: ReportData) -> Table | None:
    """Return every comparison in a row: the variance ratio, its interval, p, the verdict, means and sds."""
    pairs = [(s, c) for s in data.settings for c in s.comparisons]
    if not pairs:
        return None
    rows = [
        (s.name, f"{c.group_name} vs {c.baseline_name}", two(c.headline.ratio),
         ends(c.headline.shown_interval), p_value(c.p_adjusted), c.word,
         " and ".join(dict.fromkeys(map(str, c.seeds))), *map(mean_and_sd, c.pooled))
        for s, c in pairs
    ]  # fmt: skip
    level = words.levels_of(c.headline.shown_interval for _, c in pairs)
    heads = ("setting", "comparison", "ratio", f"{level} CI".lstrip(), "p", "verdict", "seeds")
    note = "Mean ± sd over runs; the variance ratio counts each seed once"
    if adjusted := _adjusted([c for _, c in pairs]):
        note += f"; p and interval are {adjusted}"
    if any(c.headline.looks for _, c in pairs):
        note += "; p and interval account for interim looks"
    columns = (*map(Column, heads), Column("group", "mean ± sd"), Column("baseline", "mean ± sd"))
    if len({s.id for s, _ in pairs}) == 1:  # one name in every row is no information
        columns, rows = columns[1:], [row[1:] for row in rows]
    where = origins([s for s, _ in pairs])
    return Table("ratios", "Variance ratios over seeds", columns, tuple(rows), note=note, scale=where)


def parameters(data: ReportData) -> Table | None:
    """Return the parameters of every setting beside those that a publication prints."""
    own = {s.name: [_flat(p) for p in s.parameters] for s in data.settings if s.parameters}
    published = {s.name: [_flat(s.beside.parameters())] for s in data.settings if s.beside.name}
    names = dict.fromkeys(name for cells in own.values() for cell in cells for name in cell)
    rows = [(name, _listed(own, name), *([_listed(published, name)] if published else [])) for name in names]
    columns = [Column("parameter"), *columns_beside(["value"], *data.settings)]
    return Table("parameters", "Parameters", tuple(columns), tuple(rows)) if rows else None


def _flat(parameters: Any, before: str = "") -> dict[str, str]:
    """Return parameters by dotted name; a package's own object must have `model_dump`."""
    values = parameters.model_dump(mode="json") if hasattr(parameters, "model_dump") else parameters
    if not isinstance(values, Mapping):
        return {before: str(values)}
    parts = (_flat(value, f"{before}.{name}" if before else str(name)) for name, value in values.items())
    return {name: value for part in parts for name, value in part.items()}


def _listed(settings: Mapping[str, Sequence[Mapping[str, str]]], name: str) -> str:
    """Return the value that all settings share, or each value with its settings."""
    titles: dict[str, list[str]] = {}
    for title, cells in settings.items():
        values = dict.fromkeys(cell.get(name, "-") for cell in cells)
        titles.setdefault(" | ".join(values), []).append(title)
    if len(titles) == 1:
        return next(iter(titles))
    return "; ".join(f"{value} ({', '.join(some)})" for value, some in titles.items())


def runs_by_state(data: ReportData) -> Table | None:
    planned = [s for s in data.settings if s.states]
    if not planned:
        return None
    states = [x for x in STATES if any(s.counts[x] for s in planned)]
    rows = [
        (s.title, str(sum(s.counts.values())), *(str(s.counts[x]) if s.counts[x] else "-" for x in states))
        for s in planned
    ]
    return Table("runs", "Runs", tuple(map(Column, ("setting", "planned", *states))), tuple(rows))


def failures(data: ReportData) -> Table | None:
    """Return a row per failed run: cell and seed, the last line of its error, and its folder."""
    rows = {
        key: (state.name or key, s.title, state.message, key)
        for s in data.settings
        for key, state in s.states.items()
        if state.state == "failed"
    }
    if not rows:
        return None
    columns = tuple(map(Column, ("run", "setting", "what happened", "folder")))
    return Table("failures", "Failed runs", columns, tuple(rows.values()))
