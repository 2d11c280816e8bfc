"""The tables of one setting: cells, arms, variance tests, every run; and the shape of all of them."""

from seedspread.analysis.numbers import p_value
from seedspread.render.table import Column, Table
from seedspread.report.material.settings import ReportData, Run, Setting, origins
from seedspread.report.tables.beside import Beside, digits, heading
from seedspread.stats.result import Summary

_SUMMARY = ("size", "mean", "sd", "variance")


def _headings(s: Setting) -> tuple[str, ...]:
    unit = s.metric.unit_suffix
    return ("n", f"mean{unit}", f"sd{unit}", "variance")


def _summary(s: Setting, c: Summary) -> tuple[str, ...]:
    shown = s.metric.digits
    return (str(c.n), shown(c.mean, 2), shown(c.sd, 3), shown(c.variance, 4))


def factorial(s: Setting) -> Table | None:
    """Mean, sd and variance of every cell."""
    summaries = {(c.group, c.block): c for comparison in s.comparisons for c in comparison.cells}
    cells = sorted(summaries.values(), key=lambda c: (s.arms.index(c.group), c.block))
    if len({c.block for c in cells}) < 2:
        return None
    beside = Beside(s)
    rows = tuple(
        beside.row(
            (s.arm_title(c.group), s.block_title(c.block)),
            _summary(s, c),
            beside.values("factorial", _SUMMARY, f"{c.group}/{c.block}"),
        )
        for c in cells
    )
    columns = (Column(s.group), Column(s.block), *beside.columns(_headings(s)))
    return Table(
        f"{s.id}-factorial", f"Every cell: {s.name}", columns, rows, s.follows("factorial"), scale=s.origin
    )


def pooled(s: Setting) -> Table | None:
    """Each arm over all blocks."""
    summaries = {summary.group: summary for c in s.comparisons for summary in c.pooled}
    if not summaries:
        return None
    beside = Beside(s)
    rows = tuple(
        beside.row((s.arm_title(arm),), _summary(s, summaries[arm]), beside.values("pooled", _SUMMARY, arm))
        for arm in s.arms
        if arm in summaries
    )
    columns = (Column(s.group), *beside.columns(_headings(s)))
    note = ""
    if len(s.blocks) > 1:
        how = s.beside.note("pooled") if s.beside is not None else ""
        note = f"Runs of all levels of {s.block} together{how}: n counts runs, not seeds"
    return Table(
        f"{s.id}-pooled", f"Each arm: {s.name}", columns, rows, s.follows("pooled"), note, scale=s.origin
    )


def variance_tests(s: Setting) -> Table | None:
    """The two-way analyses of absolute deviations."""
    rows = []
    beside = Beside(s)
    for c in s.comparisons:
        tests = {t.key: t for t in c.tests}
        for name, centre in (("Levene", "mean"), ("Brown-Forsythe", "median")):
            keys = [f"two_way_{centre}_{effect}" for effect in ("group", "block", "interaction")]
            if keys[0] not in tests:
                continue
            head = (name if len(s.comparisons) == 1 else f"{c.arm_name}: {name}",)
            p_values = [p_value(tests[k].p) if k in tests else "-" for k in keys]
            rows.append(beside.row(head, p_values, beside.values("variance-tests", keys, *s.arms)))
    if not rows:
        return None
    columns = (Column("test"), *beside.columns((f"{s.group}, p", f"{s.block}, p", "interaction, p")))
    note = "Two-way analysis of absolute deviations, every run counted as independent"
    if s.beside is not None:
        note += s.beside.note("variance-tests")
    title = f"Variance tests: {s.name}"
    follows = s.follows("variance-tests")
    return Table(f"{s.id}-variance-tests", title, columns, tuple(rows), follows, note, scale=s.origin)


def per_seed(s: Setting) -> Table | None:
    """Every run; published rows beneath one's own."""
    if not s.runs:
        return None
    seeds = sorted({r.seed for r in s.runs}, key=lambda x: (len(x), x))
    published = s.beside.runs() if s.beside is not None else {}
    extra = max((len(values) for values in published.values()), default=0) - len(seeds)
    rows: list[tuple[str, ...]] = []
    muted = set()
    for arm in s.arms:
        for block in s.blocks:
            runs = {r.seed: r for r in s.of(arm, block)}
            if not runs:
                continue
            name = s.condition(arm, block)
            rows.append((name, *(_shown(s, runs.get(x)) for x in seeds), *["-"] * max(extra, 0)))
            printed = published.get((arm, block))
            if printed and s.beside is not None:
                muted.add(len(rows))
                values = [*printed, *["-"] * len(seeds)][: len(seeds) + max(extra, 0)]
                rows.append((f"{name}: {s.beside.heading}", *values))
    columns = [Column("condition"), *(Column(f"S{x}" if x.isdigit() else x) for x in seeds)]
    columns += [Column(f"({len(seeds) + k + 1})") for k in range(extra)]
    notes = ["† collapsed: no better than the largest class, or features of all images alike"]
    notes = notes if any(r.collapsed for r in s.runs) else []
    if published and s.beside is not None:
        notes.append(s.beside.note("per-seed"))
    return Table(
        f"{s.id}-per-seed", f"Every run, {s.value}: {s.name}", tuple(columns), tuple(rows),
        s.follows("per-seed"), ". ".join(notes), frozenset(muted), s.origin,
    )  # fmt: skip


def _shown(s: Setting, run: Run | None) -> str:
    return "-" if run is None else f"{s.metric.digits(run.value, 2)}{' †' if run.collapsed else ''}"


def normality(material: ReportData) -> Table | None:
    """Shapiro-Wilk of each arm, over all settings."""
    audited = [s for s in material.settings if s.comparisons]
    published = [s.beside for s in audited if s.beside is not None]
    rows = []
    for s in audited:
        tests = {
            t.key.removeprefix("shapiro_"): t for c in s.comparisons for t in c.tests if t.about == "shape"
        }
        sizes = {x.group: str(x.n) for c in s.comparisons for x in c.pooled}
        for arm in (a for a in s.arms if a in tests):
            methods = ("size", "shapiro_w", "shapiro_p") if published else ()
            t, printed = tests[arm], Beside(s).values("normality", methods, arm)
            rows.append(
                (f"{s.arm_title(arm)}: {s.name}", sizes[arm], digits(t.statistic, 4), p_value(t.p), *printed)
            )
    if not rows:
        return None
    groups = [published[0].own_heading, heading(published)] if published else [""]
    columns = [Column(name, group) for group in groups for name in ("n", "W", "p")]
    follows = published[0].follows("normality") if published else ""
    return Table(
        "normality", "Normality of each arm (Shapiro-Wilk)", (Column("group"), *columns), tuple(rows),
        follows, "Runs of an arm over all blocks", scale=origins(audited),
    )  # fmt: skip
