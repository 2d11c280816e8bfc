"""The sections of the page, in order. Tables and figures register themselves for a section by `@exhibit`."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from seedspread.analysis.display import test_tables
from seedspread.analysis.sequential import standing
from seedspread.analysis.words import asides, explanations, failure_signs, noise_lines
from seedspread.render.chart import Chart
from seedspread.render.table import Column, Table, without_empty

if TYPE_CHECKING:
    from seedspread.report.extension import ReportData, Setting

Exhibit = Table | Chart
_Maker = TypeVar("_Maker", bound=Callable[..., Exhibit | Iterable[Exhibit] | None])
_makers: dict[str, list[Callable[..., Any]]] = defaultdict(list)


def exhibit(section: str) -> Callable[[_Maker], _Maker]:
    """Register a function for a section of the page: it returns a table or figure, several of them, or None.

    It is called with the `ReportData` for `datasets`, `trust` and `setup`, with each `Setting` for `setting`,
    and with both for `layers`. A section shows them by module, and within one in the order of definition.
    """

    def register(make: _Maker) -> _Maker:
        _makers[section].append(make)
        return make

    return register


def _exhibits(section: str, *about: "ReportData | Setting") -> tuple[Exhibit, ...]:
    made = [make(*about) for make in sorted(_makers[section], key=lambda make: make.__module__)]
    several = ([one] if isinstance(one, Table | Chart) else one or () for one in made)
    return _without_empty(e for some in several for e in some)


def _without_empty(exhibits: Iterable[Exhibit | None]) -> tuple[Exhibit, ...]:
    """Drop exhibits that could not be made, and columns of a publication that are empty."""
    return tuple(
        without_empty(e, only_groups=True) if isinstance(e, Table) else e for e in exhibits if e is not None
    )


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        id: anchor on the page.
        words: paragraphs; the first is the verdict.
        groups: further exhibits under headings of their own, the first of which is open.
        fold: heading of what only a thorough reader wants: `folded`, and `folded_words`.
    """

    id: str
    title: str
    words: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    groups: tuple[tuple[str, tuple[Exhibit, ...]], ...] = ()
    fold: str = ""
    folded: tuple[Exhibit, ...] = ()
    folded_words: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[Exhibit, ...]:
        return (*self.exhibits, *(e for _, group in self.groups for e in group), *self.folded)


def sections(data: "ReportData") -> list[Section]:
    """Return all sections, in order; empty ones are left out."""
    out = [_about_setting(s) for s in data.settings]
    by_setting = [(s.name, _exhibits("layers", data, s)) for s in data.settings]
    groups = tuple((name, exhibits) for name, exhibits in by_setting if exhibits)
    out += [
        Section("layers", "Saturation and gradients", groups=groups),
        Section("datasets", "Across settings", exhibits=_exhibits("datasets", data)),
        Section("trust", "How far to trust this", exhibits=_exhibits("trust", data)),
        *(section for extension in data.extensions for section in extension.sections(data)),
        Section("setup", "What was run", exhibits=_exhibits("setup", data)),
    ]
    for extension in data.extensions:
        further = extension.exhibits(data)
        out = [replace(s, exhibits=(*s.exhibits, *_without_empty(further.get(s.id, ())))) for s in out]
    return [s for s in out if s.words or s.all]


def _about_setting(s: "Setting") -> Section:
    words = [c.verdict for c in s.comparisons] + ([f"{s.why[0].upper()}{s.why[1:]}."] if s.why else [])
    words += [f"The headline is the {c.headline.method}: {c.headline.why}." for c in s.comparisons[:1]]
    for c in s.comparisons:
        words += [f"{label}: {text.rstrip('.')}." for label, text in asides(c)]
        words += [*failure_signs(c), *noise_lines(c)]
    words += [f"Churn: {c.claim}; {c.figures}." for c in s.churn.comparisons] if s.churn is not None else []
    words += [standing(s.sequential)] if s.sequential is not None else []
    return Section(
        s.id,
        s.title,
        tuple(words),
        _exhibits("setting", s),
        fold="Every test, why it was used and what it assumes",
        folded=tuple(_audit_tables(s)),
        folded_words=tuple(line for c in s.comparisons for line in explanations(c)),
    )


def _audit_tables(s: "Setting") -> Iterator[Table]:
    for i, c in enumerate(s.comparisons if s.audit else ()):
        for j, table in enumerate(map(without_empty, test_tables(c, full=True)), 1):
            columns = tuple(Column(column.text or "remark") for column in table.columns)
            name, title = f"{s.id}-{i}-{j}-tests", f"{table.title}: {s.name}"
            yield replace(table, id=name, title=title, columns=columns, scale=s.origin)
