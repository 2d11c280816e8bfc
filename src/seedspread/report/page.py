"""The page, one file that opens offline: its answer, its sections, and its tables and figures for a paper."""

import base64
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from seedspread.analysis.display import averages_table, test_tables
from seedspread.analysis.sequential import standing
from seedspread.analysis.words import (
    asides,
    counted,
    counted_verdicts,
    explanations,
    failure_signs,
    listed,
    next_steps,
    noise_lines,
    title_line,
    title_of,
    title_of_many,
)
from seedspread.atomic import replacing
from seedspread.errors import reason
from seedspread.render.chart import DARK, Chart, caption_of, chart_csv
from seedspread.render.table import Column, Table, markdown_text, to_csv, to_latex, without_empty
from seedspread.render.web import environment, for_notebook, notebook_picture, panel_values
from seedspread.report import exhibits, layers
from seedspread.report.extension import Exhibit, ReportData, ReportError, Row, Section, Setting, origins
from seedspread.runs.store import FINISHED

_PACKAGE = "seedspread.report"
# Nothing may be fetched, except by a live page from its own server. No script runs but the page's two, named
# by their hashes. Styles cannot be named by hash: plotly makes rules and matplotlib's SVG has attributes.
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"
)


# At most this many ratios of one setting are drawn beside its runs on the first screen.
_MOST_BESIDE = 16


def _advice(data: ReportData, pairs: list[Row]) -> Iterator[str]:
    if not pairs:
        states = [state.state for s in data.settings for state in s.states.values()]
        failed = states.count("failed")
        if any(state not in (*FINISHED, "failed") for state in states):
            yield "Let the study go on (rerun its command to resume it), and make the report again."
        elif failed:
            yield (
                f"{failed} of {len(states)} runs failed: see why under “What was run”, mend it, and rerun "
                "the study with --retry-failed."
            )
        return
    yield from next_steps([c for _, c in pairs])
    for s, _ in pairs:
        for extension in data.extensions:
            yield from extension.advice(s)


def _caveats(data: ReportData) -> Iterator[str]:
    for s in data.settings:
        counts = s.counts
        total, crashed = sum(counts.values()), len(s.crashed)
        open_ = sum(n for state, n in counts.items() if state not in (*FINISHED, "failed"))
        by_group = Counter(r.group for r in s.runs)
        finished = listed([f"{by_group[group]} of {s.group_title(group)}" for group in s.in_order])
        if s.why:
            yield f"{s.title}: {s.why}{f' ({open_} runs to go)' if open_ else ''}."
        elif open_:
            yield (
                f"{s.title}: {open_} of {total} runs are not finished; so far there are {finished}. Numbers "
                "will change."
            )
        if s.sequential is not None and not s.sequential.stopped:
            yield f"{s.title}: {standing(s.sequential)}"
        if crashed:
            yield (
                f"{s.title}: {crashed} of {total} runs ended with an error, counted as failed; spread and "
                f"means are those of the others, {finished}."
            )
        if (others := counts["failed"] - crashed) > 0:
            yield (
                f"{s.title}: {others} of {total} runs were stopped or refused and are left out; finished: "
                f"{finished}."
            )
    yield from data.problems


def _first_screen(data: ReportData, pairs: list[Row]) -> list[Exhibit | None]:
    """Return the runs and ratios of a single setting with its means and sds; of several, only the ratios."""
    if len(data.settings) == 1 and len(pairs) <= _MOST_BESIDE:
        (s,) = data.settings
        return [
            exhibits.spread_chart(s),
            exhibits.groups(s) if len(pairs) == 1 else exhibits.ratios_table(data),
        ]
    return [*exhibits.answer_charts(data), exhibits.ratios_table(data)]


def _counted(pairs: list[Row]) -> Sequence[tuple[str, str]]:
    """Return the number of comparisons with each verdict, and the names of a few."""
    audits = [s.audit for s, _ in pairs]
    if audits and audits[0] is not None and all(audit is audits[0] for audit in audits):
        return counted(audits[0])
    one = len({(c.group_name, c.baseline_name) for _, c in pairs}) == 1
    return counted_verdicts(
        [(s.name if one else f"{s.name}: {c.group_name} vs {c.baseline_name}", c) for s, c in pairs]
    )


def sections(data: ReportData, shown: Set[str] = frozenset(), *, alone: bool = False) -> list[Section]:
    """Return all sections in order, without empty ones.

    Args:
        data: the data of the page.
        shown: ids of exhibits on the first screen, which are not repeated.
        alone: whether there is a single comparison, whose verdict is on the first screen too.
    """
    profiles = (Section(s.id, s.name, exhibits=_available(layers.charts(data, s))) for s in data.settings)
    parameters = Section("parameters", "Every parameter", exhibits=_available([exhibits.parameters(data)]))
    planned = _available([exhibits.runs_by_state(data), exhibits.failures(data)])
    out = [
        *(_about_setting(s, alone, len(data.settings) == 1) for s in data.settings),
        Section("layers", "Saturation and gradients", folds=tuple(fold for fold in profiles if fold.all)),
        Section("datasets", "Across settings", exhibits=tuple(_averages(data))),
        Section("setup", "What was run", (), planned, (parameters,) if parameters.all else ()),
    ]
    for extension in data.extensions:
        further = extension.exhibits(data)
        out = [replace(s, exhibits=(*s.exhibits, *_available(further.get(s.id, ())))) for s in out]
    out = [replace(s, exhibits=tuple(e for e in s.exhibits if e.id not in shown)) for s in out]
    return [s for s in out if s.words or s.all]


def _available(exhibits: Iterable[Exhibit | None]) -> tuple[Exhibit, ...]:
    """Drop exhibits that could not be made, and empty columns of published values."""
    return tuple(
        without_empty(e, only_groups=True) if isinstance(e, Table) else e for e in exhibits if e is not None
    )


def _averages(data: ReportData) -> Iterator[Table]:
    """Yield the mean ratio over settings that were audited together."""
    audits = {id(audit): audit for audit in (data.across, *(s.audit for s in data.settings)) if audit}
    for number, audit in enumerate((audit for audit in audits.values() if audit.averages), 1):
        ending = f"-{number}" if number > 1 else ""
        yield replace(averages_table(audit), id=f"averages{ending}", title=f"Averages of {audit.value}")


def _about_setting(s: Setting, alone: bool, only: bool) -> Section:
    several = len(s.comparisons) > 1
    words = [f"{title_of_many(s.comparisons)}."] if several and not only else []
    words += [f"{s.why[0].upper()}{s.why[1:]}."] if s.why else []
    beside = [[f"{label}: {text.rstrip('.')}." for label, text in asides(c)] for c in s.comparisons]
    shared = [line for line in beside[0] if all(line in lines for lines in beside)] if several else []
    for c, lines in zip(s.comparisons, beside, strict=True):
        own = [line for line in lines if line not in shared]
        words += [] if alone else [" ".join([c.verdict, *own])] if several else [c.verdict, *own]
        words += [*failure_signs(c), *noise_lines(c)]
    words += shared
    words += [standing(s.sequential)] if s.sequential is not None else []
    why = [f"The headline is the {c.headline.method}: {c.headline.why}." for c in s.comparisons[:1]]
    why += [line for c in s.comparisons for line in explanations(c)]
    folds = (
        Section(s.id, "Every test, why it was used and what it assumes", tuple(why), tuple(_audit_tables(s))),
        Section(s.id, "The folder of each run", exhibits=_available([exhibits.folders(s)])),
    )
    return Section(
        s.id,
        "Every run and test" if only else s.title,
        tuple(words),
        _available([exhibits.spread_chart(s), *exhibits.of_setting(s)]),
        tuple(fold for fold in folds if fold.all),
    )


def _audit_tables(s: Setting) -> Iterator[Table]:
    for i, c in enumerate(s.comparisons if s.audit else ()):
        pair = f", {c.group_name} vs {c.baseline_name}" if len(s.comparisons) > 1 else ""
        for j, table in enumerate(map(without_empty, test_tables(c)), 1):
            columns = tuple(Column(column.text or "remark") for column in table.columns)
            name, title = f"{s.id}-{i}-{j}-tests", f"{table.title}{pair}: {s.name}"
            yield replace(table, id=name, title=title, columns=columns, scale=s.origin)


class Report:
    """A report: the page, and its tables and figures for a paper.

    Attributes:
        answer: the verdict and its numbers, as a title.
        about: what was compared, with the number of seeds and runs.
        beside: labeled lines: means, power and cautions of one comparison, or counts of many verdicts.
        verdicts: title and verdict of each comparison.
        advice: what to do next.
        caveats: missing runs, and problems with files.
        first: figures and tables of the first screen.
    """

    def __init__(self, data: ReportData) -> None:
        self.data = data
        pairs = [(s, c) for s in data.settings for c in s.comparisons]
        self.first = tuple(e for e in _first_screen(data, pairs) if e is not None)
        alone = len(pairs) == len(data.settings) == 1
        self.sections = sections(data, {e.id for e in self.first}, alone=alone)
        self.beside = asides(pairs[0][1]) if alone else _counted(pairs)
        comparisons = [c for _, c in pairs]
        asked = any(s.group for s in data.settings) or not data.settings
        self.answer = "Not enough runs have ended to say" if asked else "The study names no comparison"
        runs = sum(len(s.runs) for s in data.settings)
        self.about = f"{data.title} | {len(pairs)} comparisons, {runs:,} run{'s' * (runs != 1)}"
        if pairs:
            self.answer = title_of_many(comparisons) if len(pairs) > 1 else title_of(comparisons[0])
        if len(pairs) == 1 and pairs[0][0].audit is not None:
            self.about = title_line(pairs[0][0].audit, comparisons[0])
        self.verdicts = [(s.title, c.verdict) for s, c in pairs]
        self.advice = list(_advice(data, pairs))
        self.caveats = list(_caveats(data))
        every = [*self.first, *(e for s in self.sections for e in s.all)]
        self.charts = [e for e in every if isinstance(e, Chart)]
        self.tables = [e for e in every if isinstance(e, Table)]

    def page(self, version: str = "") -> str:
        """Return the whole page; with a version, a live page that asks its server for newer ones."""
        values = {
            "version": version,
            "report": self,
            "json": self._json(),
            "origin": origins(self.data.settings),
            "live": bool(version),
            "policy": Markup(content_policy(live=bool(version))),  # noqa: S704 - ours
            "style": _template("report.css"),
            "script": _template("report.js"),
            "plotly": _packed_plotly(),
        }
        return environment(_PACKAGE).get_template("page.html").render(**values)

    def __repr__(self) -> str:
        return f"<Report: {len(self.tables)} tables, {len(self.charts)} figures>"

    def _repr_html_(self) -> str:
        """Return the answer and its picture for a notebook; the rest is on the page."""
        rest = f"The page has {len(self.tables)} tables and {len(self.charts)} figures."
        picture = notebook_picture(lambda: self.charts[0]) if self.charts else ""
        return for_notebook([self.answer, self.about, *self.advice], [], [rest], picture)

    def _json(self) -> Markup:
        """Return figures and the text forms of tables as JSON in which no tag can begin or end."""
        values = {
            "charts": {
                c.id: {"panels": [panel_values(p, c.height) for p in c.panels], "csv": chart_csv(c)}
                for c in self.charts
            },
            "tables": {table.id: {"csv": to_csv(table), "latex": to_latex(table)} for table in self.tables},
            "dark": DARK,
        }
        text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        for char in "<>&\u2028\u2029":
            text = text.replace(char, f"\\u{ord(char):04x}")
        return Markup(text)  # noqa: S704 - every character that HTML could read is escaped


@cache
def content_policy(live: bool) -> str:
    """Return the page's Content-Security-Policy: what a browser may load and run."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - slow, and only a page needs it

    digests = [hashlib.sha256(text.encode()).digest() for text in (_template("report.js"), get_plotlyjs())]
    scripts = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return _POLICY.format(scripts=scripts, connect="'self'" if live else "'none'")


@cache
def _template(name: str) -> Markup:
    return Markup((files(_PACKAGE) / "templates" / name).read_text())  # noqa: S704 - ours


@cache
def _packed_plotly() -> Markup:
    """Return plotly.js, compressed to a quarter, as it is most of the page."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - slow, and only a page needs it

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return Markup(base64.b64encode(packed).decode())  # noqa: S704 - letters and digits only


def check_page(path: Path | None) -> None:
    """Refuse a file name that does not end in .html, before anything is computed."""
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"the page {path} must end in .html")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Make the folder of a file; raise a one-line `ReportError` for any error of the file system."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {reason(error)}") from None


def write_page(report: Report, path: "Path | str") -> None:
    """Write the page to a file, which appears whole or not at all."""
    _write(Path(path), report.page())


def write_figures(report: Report, folder: Path, tell: Callable[[str], None]) -> list[Path]:
    """Write every figure as PDF and PNG, and their captions; return the files."""
    from seedspread.render.with_matplotlib import save_chart  # noqa: PLC0415 - slow, and not in the base

    out: list[Path] = []
    for place, chart in enumerate(report.charts, 1):
        tell(f"drawing {chart.id}, {place} of {len(report.charts)}")
        paths = [folder / f"{chart.id}.{form}" for form in ("pdf", "png")]
        with _writing(paths[0]):
            save_chart(chart, *paths)
        out += paths
    captions = [f"**{chart.id}**: {markdown_text(caption_of(chart))}\n" for chart in report.charts]
    return [*out, _write(folder / "captions.md", "\n".join(captions))]


def write_tables(report: Report, folder: Path) -> list[Path]:
    """Write every table as LaTeX and CSV; return the files."""
    return [
        _write(folder / f"{table.id}.{ending}", form(table))
        for table in report.tables
        for ending, form in (("tex", to_latex), ("csv", to_csv))
    ]


def _write(path: Path, text: str) -> Path:
    with _writing(path), replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return path
