"""The tables of one setting, in the paper's form: cells, arms, variance tests, every run."""

from seedspread.analysis.verdict import p_value
from seedspread.paper.values import published_runs
from seedspread.render.table import Column, Table
from seedspread.report.material.settings import ReportData, Run, Setting
from seedspread.report.tables.paper_columns import PaperColumns
from seedspread.stats.result import Summary

# The paper's number of each kind of table, by setting.
_POOLED = {"cifar10": 5, "cifar100": 10, "svhn": 13, "fashion-mnist": 14}
_PER_SEED = {
    "cifar10": 16, "cifar10-low": 17, "cifar100": 19, "svhn": 20, "fashion-mnist": 21, "svhn-medium": 22,
    "svhn-hard": 22,
}  # fmt: skip
_SUMMARY = ("size", "mean", "sd", "variance")


def _number(s: Setting, numbers: dict[str, int]) -> int | None:
    return numbers.get(str(s.paper)) if s.is_the_papers else None


def _headings(s: Setting) -> tuple[str, ...]:
    unit = s.metric.unit_suffix
    return ("n", f"mean{unit}", f"sd{unit}", "variance")


def _summary(s: Setting, c: Summary) -> tuple[str, ...]:
    digits = s.metric.digits
    return (str(c.n), digits(c.mean, 2), digits(c.sd, 3), digits(c.variance, 4))


def factorial(material: ReportData, s: Setting) -> Table | None:
    """Table 3: mean, sd and variance of every cell."""
    summaries = {(c.group, c.block): c for comparison in s.comparisons for c in comparison.cells}
    cells = sorted(summaries.values(), key=lambda c: (s.arms.index(c.group), c.block))
    if len({c.block for c in cells}) < 2:
        return None
    paper_columns, number = PaperColumns(material, s), _number(s, {"cifar10": 3})
    rows = tuple(
        paper_columns.row(
            (s.arm_title(c.group), s.block_title(c.block)),
            _summary(s, c),
            paper_columns.values(number, _SUMMARY, f"{c.group}/{c.block}"),
        )
        for c in cells
    )
    columns = (Column(s.group), Column(s.block), *paper_columns.columns(_headings(s)))
    return Table(f"{s.id}-factorial", f"Every cell: {s.name}", columns, rows, number, scale=s.origin)


def pooled(material: ReportData, s: Setting) -> Table | None:
    """Tables 5, 10, 13 and 14: each arm over all blocks."""
    summaries = {summary.group: summary for c in s.comparisons for summary in c.pooled}
    if not summaries:
        return None
    paper_columns, number = PaperColumns(material, s), _number(s, _POOLED)
    rows = tuple(
        paper_columns.row(
            (s.arm_title(arm),), _summary(s, summaries[arm]), paper_columns.values(number, _SUMMARY, arm)
        )
        for arm in s.arms
        if arm in summaries
    )
    columns = (Column(s.group), *paper_columns.columns(_headings(s)))
    note = ""
    if len(s.blocks) > 1:
        papers = ", as the paper pools them" if s.is_the_papers else ""
        note = f"Runs of all levels of {s.block} together{papers}: n counts runs, not seeds"
    return Table(f"{s.id}-pooled", f"Each arm: {s.name}", columns, rows, number, note, scale=s.origin)


def variance_tests(material: ReportData, s: Setting) -> Table | None:
    """Table 4: the two-way analyses of absolute deviations."""
    rows = []
    paper_columns, number = PaperColumns(material, s), _number(s, {"cifar10": 4})
    four = [f"{arm}/{block}" for arm in s.arms for block in ("detach", "direct")]
    for c in s.comparisons:
        tests = {t.key: t for t in c.tests}
        for name, centre in (("Levene", "mean"), ("Brown-Forsythe", "median")):
            keys = [f"two_way_{centre}_{effect}" for effect in ("group", "block", "interaction")]
            if keys[0] not in tests:
                continue
            methods = [f"two_way_{centre}s_{effect}" for effect in ("margin", "stability", "interaction")]
            head = (name if len(s.comparisons) == 1 else f"{c.arm_name}: {name}",)
            p_values = [p_value(tests[k].p) if k in tests else "-" for k in keys]
            rows.append(paper_columns.row(head, p_values, paper_columns.values(number, methods, *four)))
    if not rows:
        return None
    columns = (Column("test"), *paper_columns.columns((f"{s.group}, p", f"{s.block}, p", "interaction, p")))
    note = "Two-way analysis of absolute deviations, every run counted as independent"
    if number:
        note += ". The paper's printed p values are one-way tests, though its text describes these"
    title = f"Variance tests: {s.name}"
    return Table(f"{s.id}-variance-tests", title, columns, tuple(rows), number, note, scale=s.origin)


def per_seed(material: ReportData, s: Setting) -> Table | None:
    """Tables 16, 17 and 19 to 22: every run; the paper's rows beneath one's own."""
    if not s.runs:
        return None
    seeds = sorted({r.seed for r in s.runs}, key=lambda x: (len(x), x))
    paper = _published(s) if s.is_the_papers and not material.is_published else {}
    extra = max((len(values) for values in paper.values()), default=0) - len(seeds)
    rows: list[tuple[str, ...]] = []
    muted = set()
    for arm in s.arms:
        for block in s.blocks:
            runs = {r.seed: r for r in s.of(arm, block)}
            if not runs:
                continue
            name = s.condition(arm, block)
            rows.append((name, *(_shown(s, runs.get(x)) for x in seeds), *["-"] * max(extra, 0)))
            paper_runs = paper.get((arm, block)) or (paper.get((arm, "")) if not block else None)
            if paper_runs:
                muted.add(len(rows))
                accuracies = [*paper_runs, *["-"] * len(seeds)][: len(seeds) + max(extra, 0)]
                rows.append((f"{name}: {s.scale.mark}", *accuracies))
    columns = [Column("condition"), *(Column(f"S{x}" if x.isdigit() else x) for x in seeds)]
    columns += [Column(f"({len(seeds) + k + 1})") for k in range(extra)]
    notes = ["† collapsed: no better than the largest class, or features of all images alike"]
    notes = notes if any(r.collapsed for r in s.runs) else []
    if paper:
        notes.append("The paper's runs stand in the order of its seeds")
    return Table(
        f"{s.id}-per-seed", f"Every run, {s.value}: {s.name}", tuple(columns), tuple(rows),
        _number(s, _PER_SEED), ". ".join(notes), frozenset(muted), s.origin,
    )  # fmt: skip


def _shown(s: Setting, run: Run | None) -> str:
    return "-" if run is None else f"{s.metric.digits(run.value, 2)}{' †' if run.collapsed else ''}"


def _published(s: Setting) -> dict[tuple[str, str], list[str]]:
    """The paper's accuracies by arm and block; under no block, those of the first block that it has."""
    out: dict[tuple[str, str], list[str]] = {}
    rows = [row for row in published_runs() if row["setting"] == s.paper]
    first = rows[0]["stability"] if rows else ""
    for row in rows:
        names = {row["stability"], ""} if row["stability"] == first else {row["stability"]}
        for block in names:
            out.setdefault((row["margin_type"], block), []).append(row["accuracy"])
    return out
