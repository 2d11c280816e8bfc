"""The order of a report: which tables and figures stand where, and what is missing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from seedspread.analysis.look_tables import looks_table, standing
from seedspread.analysis.show import explanations, test_tables
from seedspread.render.chart import Chart
from seedspread.render.table import Column, Table, without_empty
from seedspread.report.figures import dose, layers, looks, ratios, spread, trust
from seedspread.report.material.doses import dose_curves
from seedspread.report.material.settings import ReportData, Setting
from seedspread.report.tables import across, setting, setup
from seedspread.report.tables.dose import dose_table

# What a page shows: a table or a figure.
Exhibit = Table | Chart

# What the paper's other tables need, by number.
_NEEDS = {
    2: "a study", 3: "the CIFAR-10 factorial", 4: "the CIFAR-10 factorial, both stability modes",
    5: "the CIFAR-10 factorial", 10: "CIFAR-100", 13: "SVHN", 14: "Fashion-MNIST",
    16: "the CIFAR-10 factorial", 17: "the dose response", 19: "CIFAR-100", 20: "SVHN", 21: "Fashion-MNIST",
    22: "the SVHN difficulty sweep", **{number: needs for number, needs, _ in across.WHOLE},
}  # fmt: skip


@dataclass(frozen=True)
class Section:
    """A part of the page: some words, tables and figures, and more that is folded away.

    Attributes:
        id: its anchor.
        title: its heading.
        words: paragraphs; the first is the verdict.
        exhibits: tables and figures.
        groups: further ones under headings of their own, of which the first is open.
        folded: what only a thorough reader wants, under `fold`, with its own words.
    """

    id: str
    title: str
    words: tuple[str, ...]
    exhibits: tuple[Exhibit, ...]
    groups: tuple[tuple[str, tuple[Exhibit, ...]], ...] = ()
    fold: str = ""
    folded: tuple[Exhibit, ...] = ()
    folded_words: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[Exhibit, ...]:
        """Every table and figure in it."""
        return (*self.exhibits, *(e for _, group in self.groups for e in group), *self.folded)


def sections(material: ReportData) -> list[Section]:
    """All parts, in order; empty ones are left out."""
    tables = {number: make(material) for number, _, make in across.WHOLE}
    out = [_setting(material, s) for s in material.settings]
    out.append(_saturation(material, tables))
    out.append(_across(material, tables))
    out.append(_trust(material, tables))
    if material.is_published:
        out.append(_paper_check(material))
    out.append(_setup(material))
    return [s for s in out if s.words or s.all]


def _paper_check(material: ReportData) -> Section:
    legend = "Each printed number is recomputed from the published values; ✗ marks one that does not follow."
    bad, good = (setup.verdicts(material.findings, hold=hold) for hold in (False, True))
    words = (setup.counted(material.findings), legend)
    return Section("paper-check", "The paper, checked", words, (bad,), (), good.title, (good,))


def _available(exhibits: Iterable[Exhibit | None]) -> tuple[Exhibit, ...]:
    """Those that could be made; columns of the paper in which nothing stands are dropped."""
    return tuple(
        without_empty(e, only_groups=True) if isinstance(e, Table) else e for e in exhibits if e is not None
    )


def _setting(material: ReportData, s: Setting) -> Section:
    words = [c.verdict for c in s.comparisons] + ([f"{s.why[0].upper()}{s.why[1:]}."] if s.why else [])
    words += [warning for c in s.comparisons for warning in c.warnings]
    words += [f"The headline is the {c.headline.method}: {c.headline.why}." for c in s.comparisons[:1]]
    words += [c.collapse.sentence for c in s.comparisons if c.collapse.found]
    words += [found.sentence for c in s.comparisons if c.components for found in c.components.comparisons]
    words += [standing(s.growing)] if s.growing is not None else []
    seen = looks.looks_of(s)
    exhibits = (
        spread.spread_chart(s),
        looks.looks_chart(s),
        None if seen is None else replace(looks_table(seen, f"Looks: {s.name}"), id=f"{s.id}-looks-table"),
        setting.factorial(material, s),
        setting.pooled(material, s),
        setting.variance_tests(material, s),
        setting.per_seed(material, s),
    )
    why = tuple(line for c in s.comparisons for line in explanations(c))
    fold = "Every test, why it was used and what it assumes"
    return Section(s.id, s.title, tuple(words), _available(exhibits), (), fold, tuple(_audit_tables(s)), why)


def _audit_tables(s: Setting) -> Iterator[Table]:
    """The audit's tests; empty columns are dropped."""
    for i, c in enumerate(s.comparisons if s.audit else ()):
        for j, table in enumerate(map(without_empty, test_tables(c, full=True)), 1):
            columns = tuple(Column(column.text or "remark") for column in table.columns)
            name, title = f"{s.id}-{i}-{j}-tests", f"{table.title}: {s.name}"
            yield replace(table, id=name, title=title, columns=columns, scale=s.origin)


def _saturation(material: ReportData, made: dict[int, Table | None]) -> Section:
    groups = []
    for s in material.settings:
        charts = (
            layers.profile_chart(material, s),
            layers.curve_chart(s, "rate"),
            layers.curve_chart(s, "gradient"),
            layers.rate_accuracy_chart(s),
            layers.accuracy_chart(s),
        )
        if any(charts):
            groups.append((s.name, _available(charts)))
    tables = _available([made[6], made[7], made[8]])
    return Section("layers", "Saturation and gradients", (), tables, tuple(groups))


def _across(material: ReportData, made: dict[int, Table | None]) -> Section:
    curves = [e for curve in dose_curves(material) for e in (dose.chart(curve), dose_table(curve))]
    tables = [*curves, made[9], *ratios.forest_charts(material), made[11], made[12], made[18], made[15]]
    return Section("datasets", "Across settings", (), _available(tables))


def _trust(material: ReportData, made: dict[int, Table | None]) -> Section:
    charts = [trust.power_chart(material), trust.floor_chart(material), trust.twins_chart(material)]
    return Section("trust", "How far to trust this", (), _available([*charts, made[23]]))


def _setup(material: ReportData) -> Section:
    tables = [setup.runs_by_state(material), setup.failures(material), setup.hyperparameters(material)]
    return Section("setup", "What was run", (), _available(tables))


def missing(material: ReportData, made: list[Section]) -> list[str]:
    """The paper's tables that this report cannot have, and what they would need."""
    numbers = {b.number for s in made for b in s.all if isinstance(b, Table)}
    if not any(s.is_the_papers for s in material.settings):
        return []
    out = [f"Table {n} needs {needs}" for n, needs in sorted(_NEEDS.items()) if n not in numbers]
    charts = {b.id for s in made for b in s.all if isinstance(b, Chart)}
    if not any(name.endswith("rate-over-training") for name in charts):
        out.append("CAR and gradient norms over training need runs with two epochs or more")
    if not any(name.endswith("accuracy-by-layer") for name in charts):
        out.append("accuracy by layer needs runs with probe.layers = 'all'")
    for name, needs in (("forest", "two datasets"), ("twins", "seeds run in both stability modes")):
        if name not in charts:
            out.append(f"the figure “{name}” needs {needs}")
    if "floor" not in charts:
        out.append("the sampling floor needs stored predictions of two seeds or more")
    return out
