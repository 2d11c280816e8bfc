"""The order of a report: which tables and figures stand where, and what is missing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from seedspread.analysis.look_tables import looks_table, standing
from seedspread.analysis.show import test_tables
from seedspread.analysis.words import collapse_sentence, explanations
from seedspread.render.chart import Chart
from seedspread.render.table import Column, Table, without_empty
from seedspread.report.figures import dose, layers, looks, ratios, spread, trust
from seedspread.report.material.doses import dose_curves
from seedspread.report.material.settings import ReportData, Setting
from seedspread.report.tables import setting, setup
from seedspread.report.tables.dose import dose_table

# What a page shows: a table or a figure.
Exhibit = Table | Chart


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
    out = [_setting(s) for s in material.settings]
    out += [_saturation(material), _across(material), _trust(material)]
    out += [section for extension in material.extensions for section in extension.sections(material)]
    out.append(_setup(material))
    for extension in material.extensions:
        further = extension.exhibits(material)
        out = [replace(s, exhibits=(*s.exhibits, *_available(further.get(s.id, ())))) for s in out]
    return [s for s in out if s.words or s.all]


def _available(exhibits: Iterable[Exhibit | None]) -> tuple[Exhibit, ...]:
    """Those that could be made; columns of a publication in which nothing stands are dropped."""
    return tuple(
        without_empty(e, only_groups=True) if isinstance(e, Table) else e for e in exhibits if e is not None
    )


def _setting(s: Setting) -> Section:
    words = [c.verdict for c in s.comparisons] + ([f"{s.why[0].upper()}{s.why[1:]}."] if s.why else [])
    words += [warning for c in s.comparisons for warning in c.warnings]
    words += [f"The headline is the {c.headline.method}: {c.headline.why}." for c in s.comparisons[:1]]
    words += [collapse_sentence(c.collapse, c.factor) for c in s.comparisons if c.collapse.found]
    words += [found.sentence for c in s.comparisons if c.components for found in c.components.comparisons]
    words += [standing(s.growing)] if s.growing is not None else []
    seen = looks.looks_of(s)
    exhibits = (
        spread.spread_chart(s),
        looks.looks_chart(s),
        None if seen is None else replace(looks_table(seen, f"Looks: {s.name}"), id=f"{s.id}-looks-table"),
        setting.factorial(s),
        setting.pooled(s),
        setting.variance_tests(s),
        setting.per_seed(s),
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


def _saturation(material: ReportData) -> Section:
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
    return Section("layers", "Saturation and gradients", (), (), tuple(groups))


def _across(material: ReportData) -> Section:
    curves = [e for curve in dose_curves(material) for e in (dose.chart(curve), dose_table(curve))]
    return Section("datasets", "Across settings", (), _available([*curves, *ratios.forest_charts(material)]))


def _trust(material: ReportData) -> Section:
    charts = [trust.power_chart(material), trust.floor_chart(material), trust.twins_chart(material)]
    return Section("trust", "How far to trust this", (), _available([*charts, setting.normality(material)]))


def _setup(material: ReportData) -> Section:
    tables = [setup.runs_by_state(material), setup.failures(material)]
    return Section("setup", "What was run", (), _available(tables))
