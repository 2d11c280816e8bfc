"""The tables of the page, with published values beside its own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from seedspread.analysis import sequential
from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.display import groups_table, mean_and_sd
from seedspread.analysis.words import ends, p_value, two
from seedspread.render.table import Column, Table
from seedspread.report.extension import Point, ReportData, Setting, origins
from seedspread.runs.levels import joined_levels
from seedspread.runs.store import STATES
from seedspread.stats.result import Summary


def digits(value: float | None, places: int) -> str:
    """Return a number with so many places; a dash if there is none."""
    return "-" if value is None else f"{value:.{places}f}"


def columns_beside(names: Sequence[str], *settings: Setting) -> tuple[Column, ...]:
    """Return columns for the settings' own values and, if there are any, for published ones."""
    headings = list(dict.fromkeys(s.beside.heading for s in settings if s.beside.name))
    if not headings:
        return tuple(map(Column, names))
    heading = headings[0] if len(headings) == 1 else "published (scale differs by row)"
    return tuple(Column(name, group) for group in ("these runs", heading) for name in names)


def of_setting(s: Setting) -> list[Table | None]:
    """Return the tables of a setting's own section; with a publication's, in its form."""
    published = [factorial(s), pooled(s)] if s.beside.name else []
    own = [groups(s, c) for c in s.comparisons] if not s.beside.name else []
    return [looks_table(s), *own, *published, per_seed(s)]


def groups(s: Setting, c: Comparison) -> Table | None:
    """Return seeds, runs, mean and sd of a comparison's groups, by block too if there are some."""
    if s.audit is None:
        return None
    name = f"{s.id}-groups-{s.comparisons.index(c)}"
    return replace(groups_table(s.audit, c), id=name, title=f"Means and sds: {c.title}")


def looks_table(s: Setting) -> Table | None:
    """Return the interim looks at what the setting compares."""
    if s.sequential is None:
        return None
    titles = {c.title for c in s.comparisons}
    looks = tuple(
        replace(look, comparisons=tuple(c for c in look.comparisons if c.title in titles))
        for look in s.sequential.looks
    )
    table = sequential.looks_table(replace(s.sequential, looks=looks), f"Interim looks: {s.name}")
    return replace(table, id=f"{s.id}-looks-table") if table.rows else None


def _summaries(
    s: Setting, kind: str, title: str, heads: Sequence[str], cells: Sequence[tuple[str, Summary]], note: str
) -> Table:
    """Return n, mean, sd and variance of cells by their published name: `clamp`, `clamp/detach`."""
    unit, shown = s.metric.unit_suffix, s.metric.digits
    rows = []
    for name, c in cells:
        head = (s.arm_title(c.group), s.block_title(c.block))[: len(heads)]
        own = (str(c.n), shown(c.mean, 2), shown(c.sd, 3), shown(c.variance, 4))
        beside = s.beside.values(kind, ("size", "mean", "sd", "variance"), name) if s.beside.name else []
        rows.append((*head, *own, *beside))
    columns = (*map(Column, heads), *columns_beside(("n", f"mean{unit}", f"sd{unit}", "variance"), s))
    return _of_setting(s, kind, title, columns, rows, note=note)


def _of_setting(
    s: Setting, kind: str, title: str, columns: Sequence[Column], rows: Sequence[tuple[str, ...]], **more: Any
) -> Table:
    """Return a table of one setting, which may follow a published one of that kind."""
    name, follows = f"{s.id}-{kind}", s.beside.follows(kind)
    return Table(name, f"{title}: {s.name}", tuple(columns), tuple(rows), follows, scale=s.origin, **more)


def factorial(s: Setting) -> Table | None:
    """Return mean, sd and variance of every cell."""
    summaries = {(c.group, c.block): c for comparison in s.comparisons for c in comparison.cells}
    cells = sorted(summaries.values(), key=lambda c: (s.arms.index(c.group), c.block))
    if len({c.block for c in cells}) < 2:
        return None
    named = [(f"{c.group}/{joined_levels(c.block)}", c) for c in cells]
    return _summaries(s, "factorial", "Every cell", (s.group, s.block), named, "")


def pooled(s: Setting) -> Table | None:
    """Return mean, sd and variance of each group over all blocks."""
    summaries = {summary.group: summary for c in s.comparisons for summary in c.pooled}
    if not summaries:
        return None
    note = f"Runs of all levels of {s.block} together: n counts runs, not seeds" if len(s.blocks) > 1 else ""
    named = [(arm, summaries[arm]) for arm in s.arms if arm in summaries]
    return _summaries(s, "pooled", "Each group", (s.group,), named, note)


def per_seed(s: Setting) -> Table | None:
    """Return every run, with published rows beneath one's own."""
    if not s.runs:
        return None
    seeds = sorted({r.seed for r in s.runs}, key=lambda x: (len(x), x))
    published = s.beside.runs()
    extra = max(0, max((len(values) for values in published.values()), default=0) - len(seeds))
    rows: list[tuple[str, ...]] = []
    muted = set()
    for arm in s.arms:
        for block in s.blocks:
            runs = {r.seed: r for r in s.of(arm, block)}
            if not runs:
                continue
            name = s.condition(arm, block)
            rows.append((name, *(_shown(s, runs.get(x)) for x in seeds), *["-"] * extra))
            printed = published.get((arm, joined_levels(block)))
            if printed:
                muted.add(len(rows))
                values = [*printed, *["-"] * len(seeds)][: len(seeds) + extra]
                rows.append((f"{name}: {s.beside.heading}", *values))
    columns = [Column("condition"), *(Column(f"S{x}" if x.isdigit() else x) for x in seeds)]
    columns += [Column(f"({len(seeds) + k + 1})") for k in range(extra)]
    failed = "† collapsed: no better than the largest class, or features of all images alike"
    more = {"note": failed if any(r.collapsed for r in s.runs) else "", "muted": frozenset(muted)}
    return _of_setting(s, "per-seed", f"Every run, {s.metric.label}", columns, rows, **more)


def folders(s: Setting) -> Table | None:
    """Return a line per run with the name of its folder in the store."""
    runs = [run for arm in s.arms for run in s.of(arm) if run.key]
    rows = tuple((s.condition(r.arm, r.block), r.seed, _shown(s, r), r.key) for r in runs)
    columns = tuple(map(Column, ("condition", "seed", s.metric.label, "folder")))
    return Table(f"{s.id}-folders", f"Folders: {s.name}", columns, rows) if rows else None


def _shown(s: Setting, run: Point | None) -> str:
    return "-" if run is None else f"{s.metric.digits(run.value, 2)}{' †' if run.collapsed else ''}"


def ratios_table(data: ReportData) -> Table | None:
    """Return every comparison in a row: means and sds, the variance ratio, its interval, p, the verdict."""
    pairs = [(s, c) for s in data.settings for c in s.comparisons]
    if not pairs:
        return None
    rows = [
        (s.name, f"{c.arm_name} vs {c.baseline_name}", " and ".join(dict.fromkeys(map(str, c.seeds))),
         *map(mean_and_sd, c.pooled), two(c.headline.ratio), ends(c.headline.shown_interval),
         p_value(c.p_adjusted), c.word)
        for s, c in pairs
    ]  # fmt: skip
    level = next((s.audit.level for s, _ in pairs if s.audit is not None), 0.95)
    heads = ["setting", "comparison", "seeds", "group", "baseline", "ratio", f"{level:.0%} CI", "p"]
    note = "Mean ± sd over runs; the variance ratio counts each seed once"
    note += "; p and interval adjusted where several are judged together" if len(pairs) > 1 else ""
    if any(c.headline.looks for _, c in pairs):
        note += "; where a study was looked at while it grew, p and interval count the looks"
    columns = tuple(map(Column, [*heads, "verdict"]))
    if len({s.id for s, _ in pairs}) == 1:  # a column of one name says nothing
        columns, rows = columns[1:], [row[1:] for row in rows]
    where = origins([s for s, _ in pairs])
    return Table("ratios", "Variance ratios over seeds", columns, tuple(rows), note=note, scale=where)


def parameters(data: ReportData) -> Table | None:
    """Return the parameters of every setting, and those that a publication prints."""
    own = {s.name: [_flat(p) for p in s.parameters] for s in data.settings if s.parameters}
    published = {s.name: [_flat(s.published.parameters())] for s in data.settings if s.published}
    names = dict.fromkeys(name for cells in own.values() for cell in cells for name in cell)
    rows = [(name, _listed(own, name), *([_listed(published, name)] if published else [])) for name in names]
    columns = [Column("parameter"), *columns_beside(["value"], *(s for s in data.settings if s.published))]
    return Table("parameters", "Parameters", tuple(columns), tuple(rows)) if rows else None


def _flat(parameters: Any, before: str = "") -> dict[str, str]:
    """Return parameters by their dotted names; a package's own object has `model_dump` for that."""
    values = parameters.model_dump(mode="json") if hasattr(parameters, "model_dump") else parameters
    if not isinstance(values, Mapping):
        return {before: str(values)}
    parts = (_flat(value, f"{before}.{name}" if before else str(name)) for name, value in values.items())
    return {name: value for part in parts for name, value in part.items()}


def _listed(settings: Mapping[str, Sequence[Mapping[str, str]]], name: str) -> str:
    """Return the value that all settings have; otherwise each value with the settings that have it."""
    titles: dict[str, list[str]] = {}
    for title, cells in settings.items():
        values = dict.fromkeys(cell.get(name, "-") for cell in cells)
        titles.setdefault(" | ".join(values), []).append(title)
    if len(titles) == 1:
        return next(iter(titles))
    return "; ".join(f"{value} ({', '.join(some)})" for value, some in titles.items())


def runs_by_state(data: ReportData) -> Table | None:
    """Return the number of planned runs of each setting in each state."""
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
    """Return the last line of each failed run, by cell and seed; its folder is named by its key."""
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
