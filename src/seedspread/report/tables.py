"""The tables of the page, with published values beside its own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from seedspread.analysis import sequential
from seedspread.analysis.audit import summarise
from seedspread.analysis.display import mean_and_sd
from seedspread.analysis.words import ends, p_value, two
from seedspread.render.table import Column, Table
from seedspread.report.extension import Point, ReportData, Setting, origins
from seedspread.runs.levels import joined_levels
from seedspread.runs.store import STATES
from seedspread.stats.result import Summary

# Settings that stand side by side; of more, each is a row.
_MOST_COLUMNS = 6


def digits(value: float | None, places: int) -> str:
    """Return a number with so many places; a dash if there is none."""
    return "-" if value is None else f"{value:.{places}f}"


def columns_beside(names: Sequence[str], *settings: Setting) -> tuple[Column, ...]:
    """Return columns for the settings' own values and, if there are any, for published ones."""
    published = [s.beside for s in settings if s.beside.name]
    if not published:
        return tuple(map(Column, names))
    headings = {p.heading for p in published}
    heading = headings.pop() if len(headings) == 1 else published[0].mixed_heading
    return tuple(Column(name, group) for group in (published[0].own_heading, heading) for name in names)


def values_beside(s: Setting, kind: str, methods: Sequence[str], *arms: str) -> list[str]:
    """Return the published values for such columns."""
    return s.beside.values(kind, methods, *arms) if s.beside.name else []


def of_setting(s: Setting) -> list[Table | None]:
    """Return the tables of a setting's own section."""
    return [looks_table(s), factorial(s), pooled(s), variance_tests(s), per_seed(s)]


def looks_table(s: Setting) -> Table | None:
    if s.looks is None:
        return None
    return replace(sequential.looks_table(s.looks, f"Looks: {s.name}"), id=f"{s.id}-looks-table")


def _summaries(
    s: Setting, kind: str, title: str, heads: Sequence[str], cells: Sequence[tuple[str, Summary]], note: str
) -> Table:
    """Return n, mean, sd and variance of cells by their published name: `clamp`, `clamp/detach`."""
    unit, shown = s.metric.unit_suffix, s.metric.digits
    rows = []
    for name, c in cells:
        head = (s.arm_title(c.group), s.block_title(c.block))[: len(heads)]
        own = (str(c.n), shown(c.mean, 2), shown(c.sd, 3), shown(c.variance, 4))
        rows.append((*head, *own, *values_beside(s, kind, ("size", "mean", "sd", "variance"), name)))
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
    """Return mean, sd and variance of each arm over all blocks."""
    summaries = {summary.group: summary for c in s.comparisons for summary in c.pooled}
    if not summaries:
        return None
    note = ""
    if len(s.blocks) > 1:
        how = s.beside.note("pooled")
        note = f"Runs of all levels of {s.block} together{how}: n counts runs, not seeds"
    named = [(arm, summaries[arm]) for arm in s.arms if arm in summaries]
    return _summaries(s, "pooled", "Each arm", (s.group,), named, note)


def variance_tests(s: Setting) -> Table | None:
    """Return the two-way analyses of absolute deviations."""
    rows = []
    for c in s.comparisons:
        tests = {t.key: t for t in c.tests}
        for name, centre in (("Levene", "mean"), ("Brown-Forsythe", "median")):
            keys = [f"two_way_{centre}_{effect}" for effect in ("group", "block", "interaction")]
            if keys[0] not in tests:
                continue
            head = name if len(s.comparisons) == 1 else f"{c.arm_name}: {name}"
            p_values = [p_value(tests[k].p) if k in tests else "-" for k in keys]
            rows.append((head, *p_values, *values_beside(s, "variance-tests", keys, *s.arms)))
    if not rows:
        return None
    columns = (Column("test"), *columns_beside((f"{s.group}, p", f"{s.block}, p", "interaction, p"), s))
    note = "Two-way analysis of absolute deviations, every run counted as independent"
    note += s.beside.note("variance-tests")
    return _of_setting(s, "variance-tests", "Variance tests", columns, rows, note=note)


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
    notes = ["† collapsed: no better than the largest class, or features of all images alike"]
    notes = notes if any(r.collapsed for r in s.runs) else []
    if published:
        notes.append(s.beside.note("per-seed"))
    more = {"note": ". ".join(notes), "muted": frozenset(muted)}
    return _of_setting(s, "per-seed", f"Every run, {s.metric.label}", columns, rows, **more)


def _shown(s: Setting, run: Point | None) -> str:
    return "-" if run is None else f"{s.metric.digits(run.value, 2)}{' †' if run.collapsed else ''}"


def normality(data: ReportData) -> Table | None:
    """Return the Shapiro-Wilk test of each arm, over all settings."""
    audited = [s for s in data.settings if s.comparisons]
    published = [s.beside for s in audited if s.beside.name]
    rows = []
    for s in audited:
        tests = {
            t.key.removeprefix("shapiro_"): t for c in s.comparisons for t in c.tests if t.about == "shape"
        }
        sizes = {x.group: str(x.n) for c in s.comparisons for x in c.pooled}
        for arm in (a for a in s.arms if a in tests):
            methods = ("size", "shapiro_w", "shapiro_p") if published else ()
            t, printed = tests[arm], s.beside.values("normality", methods, arm)
            rows.append(
                (f"{s.arm_title(arm)}: {s.name}", sizes[arm], digits(t.statistic, 4), p_value(t.p), *printed)
            )
    if not rows:
        return None
    columns = columns_beside(("n", "W", "p"), *audited)
    follows = published[0].follows("normality") if published else ""
    return Table(
        "normality", "Normality of each arm (Shapiro-Wilk)", (Column("group"), *columns), tuple(rows),
        follows, "Runs of an arm over all blocks", scale=origins(audited),
    )  # fmt: skip


# Name and runs of every arm, for each setting or cell.
_Cells = list[tuple[str, list[list[Point]]]]


def means_tables(data: ReportData) -> list[Table]:
    """Return mean ± sd of methods by settings, one table per question; of one setting, methods by its cells.

    Nothing is marked as best: which means differ is for the tests to say.
    """
    questions: dict[tuple[str, str, str], list[Setting]] = {}
    for s in data.settings:
        if s.runs:
            questions.setdefault((s.metric.label, s.group, s.block), []).append(s)
    return [_means(settings, number) for number, settings in enumerate(questions.values(), 1)]


def _means(settings: Sequence[Setting], number: int) -> Table:
    s = settings[0]
    arms = list(dict.fromkeys(arm for s in settings for arm in s.arms))
    cells: _Cells = [(s.name, [s.of(arm) for arm in arms]) for s in settings]
    if len(settings) == 1:
        cells = [(s.block_title(b) or s.metric.label, [s.of(arm, b) for arm in arms]) for b in s.blocks]
    if len(cells) > max(_MOST_COLUMNS, len(arms)):
        heads = [s.block if len(settings) == 1 else "setting", *map(s.arm_title, arms)]
        rows = [(name, *map(_mean, by_arm)) for name, by_arm in cells]
    else:
        heads = [s.group or "condition", *(name for name, _ in cells)]
        rows = [(s.arm_title(arm), *(_mean(by_arm[i]) for _, by_arm in cells)) for i, arm in enumerate(arms)]
    return Table(
        "means" if number == 1 else f"means-{number}", f"{s.metric.label}, mean ± sd over runs",
        tuple(map(Column, heads)), tuple(rows), note=_means_note(settings, cells), scale=origins(settings),
    )  # fmt: skip


def _mean(runs: Sequence[Point]) -> str:
    if not runs:
        return "-"
    found = mean_and_sd(summarise("", (), np.array([r.value for r in runs])))
    return f"{found} †" if any(r.collapsed for r in runs) else found


def _means_note(settings: Sequence[Setting], cells: _Cells) -> str:
    s, counts = settings[0], sorted({len(runs) for _, by_arm in cells for runs in by_arm if runs})
    runs = " to ".join(dict.fromkeys(f"{n}" for n in (counts[0], counts[-1])))
    pooled = len(settings) > 1 and any(len(s.blocks) > 1 for s in settings)
    over = f", all levels of {s.block} together" if pooled else ""
    note = f"{runs} runs per mean{over}; {s.metric.better} is better"
    failed = any(r.collapsed for s in settings for r in s.runs)
    note += ". † with runs that failed to train" if failed else ""
    crashed = sum(len(s.crashed) for s in settings)
    runs = "1 run is" if crashed == 1 else f"{crashed} runs are"
    return f"{note}. {runs} in no mean: ended with an error" if crashed else note


def ratios_table(data: ReportData) -> Table | None:
    """Return every comparison in a row."""
    pairs = [(s, c) for s in data.settings for c in s.comparisons]
    if not pairs:
        return None
    one = len({s.id for s, _ in pairs}) == 1  # a column of one name says nothing
    rows = tuple(
        (*(() if one else (s.name,)), f"{c.arm_name} / {c.baseline_name}",
         " and ".join(dict.fromkeys(map(str, c.seeds))), two(c.headline.ratio),
         ends(c.headline.shown_interval), p_value(c.p_adjusted), c.word)
        for s, c in pairs
    )  # fmt: skip
    level = next((s.audit.level for s, _ in pairs if s.audit is not None), 0.95)
    heads = ["variances", "seeds", "ratio", f"{level:.0%} CI", "p", "verdict"]
    heads = heads if one else ["setting", *heads]
    note = "Each seed counted once"
    note += "; p and interval adjusted where several are judged together" if len(pairs) > 1 else ""
    if any(c.headline.looks for _, c in pairs):
        note += "; where a study was looked at while it grew, p and interval count the looks"
    return Table(
        "ratios", "Ratios of variances over seeds", tuple(map(Column, heads)), rows, note=note,
        scale=origins([s for s, _ in pairs]),
    )  # fmt: skip


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
