"""The page: its top in words, its sections, the one file that opens offline, and its parts for a paper."""

import base64
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.charts import arms_of
from seedspread.analysis.display import test_tables
from seedspread.analysis.sequential import standing
from seedspread.analysis.words import (
    asides,
    counted_verdicts,
    explanations,
    failure_signs,
    noise_lines,
    summary,
)
from seedspread.atomic import replacing
from seedspread.errors import reason
from seedspread.render.chart import DARK, FORMATS, Chart, caption_of, chart_csv
from seedspread.render.latex import to_latex
from seedspread.render.table import Column, Table, markdown_text, to_csv, to_markdown, without_empty
from seedspread.render.web import environment, for_notebook, notebook_picture, panel_values
from seedspread.report import figures, layers, tables
from seedspread.report.extension import Exhibit, ReportData, ReportError, Row, Section, Setting
from seedspread.runs.store import FINISHED
from seedspread.stats.planning import BudgetError, seeds_for, seeds_for_standard_error

_PACKAGE = "seedspread.report"
_FEW = 8  # settings
_VERDICTS = 6
# Nothing may be fetched, from anywhere; the live page asks its own server only. No script runs but the page's
# two, by their hashes. Styles cannot be named so: plotly makes rules and matplotlib's SVG has attributes.
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"
)


_FEWEST_SEEDS = 3


@dataclass(frozen=True)
class ReportSummary:
    """What a reader wants first; `details` has the title and the verdict of each comparison."""

    question: str
    short: str
    details: tuple[tuple[str, str], ...]
    advice: tuple[str, ...]
    caveats: tuple[str, ...]


def _question(pairs: list[Row]) -> str:
    groups = list(dict.fromkeys((c.arm_name, c.baseline_name) for _, c in pairs))
    factors = {s.group for s, _ in pairs}
    metrics = {s.metric.title or s.metric.name for s, _ in pairs if s.metric.name != "accuracy"}
    what = f"how much {f'{metrics.pop()} spreads' if len(metrics) == 1 else 'results spread'} over seeds?"
    if len(factors) != 1:
        return f"Does the change alter {what}"
    factor = factors.pop()
    arm, baseline = groups[0]
    if len(groups) == 1:
        about = "" if arm.startswith(f"{factor} = ") else f" ({factor})"
        return f"Does {arm} instead of {baseline}{about} change {what}"
    against = f", against {baseline}," if len({baseline for _, baseline in groups}) == 1 else ""
    return f"Does {factor}{against} change {what}"


def _short(pairs: list[Row]) -> str:
    if not pairs:
        return "Not enough runs have ended to say."
    if len(pairs) == 1:
        return pairs[0][1].verdict
    several = len({(s.group, c.group, c.baseline) for s, c in pairs}) > 1
    places = len({s.id for s, _ in pairs}) > 1
    audit = pairs[0][0].audit
    if audit is not None and audit.omnibus is not None and not places:
        return summary(audit)
    names = [
        ": ".join([*([s.name] if places else []), *([arms_of(c)] if several or not places else [])])
        for s, c in pairs
    ]
    counts = counted_verdicts([(name, c) for name, (_, c) in zip(names, pairs, strict=True)])
    return " ".join(f"{word}: {text}." for word, text in counts)


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
    shown = [(s, c) for s, c in pairs if c.word == "YES"]
    budgets = (_seeds_for_means(s, c) for s, c in shown) if shown else _seeds_for_ratios(pairs[0][1])
    yield from filter(None, budgets)
    for s, _ in pairs:
        for extension in data.extensions:
            yield from extension.advice(s)
    if any(c.failures for _, c in pairs):
        yield (
            "Compare how often runs fail, not their variance: the failure rates stand with each setting, "
            "with an exact test."
        )


def _seeds_for_ratios(c: Comparison) -> list[str]:
    try:
        two, five = (seeds_for(r)[0] for r in (2.0, 5.0))
    except BudgetError:
        return []
    return [
        f"To see a variance ratio of 5 takes about {five} seeds per arm, a ratio of 2 about {two} (power "
        f"0.8, normal values); here are {c.seeds[0]} and {c.seeds[1]}. Plan with: seedspread seeds --ratio 2."
    ]


def _seeds_for_means(s: Setting, c: Comparison) -> str:
    """Say how many seeds each arm needs for a mean known to a third of the larger sd."""
    sds = [p.sd for p in c.pooled if p.sd]
    if len(sds) < 2:
        return ""
    goal = float(f"{max(sds) / 3:.1g}")
    counts = [seeds_for_standard_error(sd, goal) for sd in sds]
    # A spread is known from several seeds only: fewer are never advised, however small it was here.
    first, second = (max(count, _FEWEST_SEEDS) for count in counts)
    return (
        f"{s.name}: for a mean {s.metric.label} with a standard error of {goal:g}, take {first} seeds of "
        f"{c.arm_name} or {second} of {c.baseline_name}."
    )


def _caveats(data: ReportData) -> Iterator[str]:
    for s in data.settings:
        counts = s.counts
        total, crashed = sum(counts.values()), len(s.crashed)
        open_ = sum(n for state, n in counts.items() if state not in (*FINISHED, "failed"))
        by_arm = Counter(r.arm for r in s.runs)
        finished = ", ".join(f"{s.arm_title(arm)}: {by_arm[arm]}" for arm in s.arms)
        if s.why:
            yield f"{s.title}: {s.why}{f' ({open_} runs to go)' if open_ else ''}."
        elif open_:
            yield (
                f"{s.title}: {open_} of {total} runs are not finished ({finished} are); numbers will change."
            )
        if s.sequential is not None and not s.sequential.stopped:
            yield f"{s.title}: {standing(s.sequential)}"
        if crashed:
            yield (
                f"{s.title}: {crashed} of {total} runs ended with an error and count as failed; spread and "
                f"means are of the others ({finished})."
            )
        if (others := counts["failed"] - crashed) > 0:
            yield (
                f"{s.title}: {others} of {total} runs were ended or refused, which says nothing of them, and "
                f"are left out ({finished} finished)."
            )
    yield from data.problems


def sections(data: ReportData) -> list[Section]:
    """Return all sections, in order; empty ones are left out."""
    by_setting = {s.name: _shown(layers.charts(data, s)) for s in data.settings}
    planned = (tables.runs_by_state(data), tables.failures(data))
    out = [
        *map(_about_setting, data.settings),
        Section("layers", "Saturation and gradients", groups=tuple(x for x in by_setting.items() if x[1])),
        Section("datasets", "Across settings", exhibits=_shown(figures.forest_charts(data))),
        Section("trust", "How far to trust this", exhibits=_shown([tables.normality(data)])),
        *(section for extension in data.extensions for section in extension.sections(data)),
        Section("setup", "What was run", exhibits=_shown(planned)),
    ]
    for extension in data.extensions:
        further = extension.exhibits(data)
        out = [replace(s, exhibits=(*s.exhibits, *_shown(further.get(s.id, ())))) for s in out]
    return [s for s in out if s.words or s.all]


def _shown(exhibits: Iterable[Exhibit | None]) -> tuple[Exhibit, ...]:
    """Drop exhibits that could not be made, and columns of a publication that are empty."""
    return tuple(
        without_empty(e, only_groups=True) if isinstance(e, Table) else e for e in exhibits if e is not None
    )


def _about_setting(s: Setting) -> Section:
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
        _shown([*figures.of_setting(s), *tables.of_setting(s)]),
        fold="Every test, why it was used and what it assumes",
        folded=tuple(_audit_tables(s)),
        folded_words=tuple(line for c in s.comparisons for line in explanations(c)),
    )


def _audit_tables(s: Setting) -> Iterator[Table]:
    for i, c in enumerate(s.comparisons if s.audit else ()):
        for j, table in enumerate(map(without_empty, test_tables(c)), 1):
            columns = tuple(Column(column.text or "remark") for column in table.columns)
            name, title = f"{s.id}-{i}-{j}-tests", f"{table.title}: {s.name}"
            yield replace(table, id=name, title=title, columns=columns, scale=s.origin)


class Report:
    """A report with all its parts: the page, and its tables and figures for a paper."""

    def __init__(self, data: ReportData) -> None:
        self.data = data
        self.sections = sections(data)
        pairs = [(s, c) for s in data.settings for c in s.comparisons]
        self.summary = ReportSummary(
            question=_question(pairs),
            short=_short(pairs),
            details=tuple((s.title, c.verdict) for s, c in pairs),
            advice=tuple(_advice(data, pairs)),
            caveats=tuple(_caveats(data)),
        )
        self.pictures = figures.answer_charts(data)
        self.means = tables.means_tables(data)
        self.ratios = tables.ratios_table(data)

    @property
    def charts(self) -> list[Chart]:
        """Return every figure, the answer's first."""
        charts = [b for s in self.sections for b in s.all if isinstance(b, Chart)]
        return [*self.pictures, *charts]

    @property
    def tables(self) -> list[Table]:
        """Return every table, means and ratios first."""
        tables = [b for s in self.sections for b in s.all if isinstance(b, Table)]
        return [*self._first_tables, *tables]

    @property
    def for_a_paper(self) -> "tuple[list[Chart], list[Table]]":
        """Return the figures and tables that a paper would take; of few settings, the runs of each too."""
        across = [b for s in self.sections if s.id == "datasets" for b in s.exhibits]
        few = len(self.data.settings) <= _FEW
        names = ("spread", "looks")
        ids = {f"{s.id}-{name}" for s in self.data.settings for name in names} if few else set()
        charts = [*self.pictures, *(c for c in self.charts if c.id in ids)]
        charts += [b for b in across if isinstance(b, Chart)]
        return charts, [*self._first_tables, *(b for b in across if isinstance(b, Table))]

    @property
    def _first_tables(self) -> list[Table]:
        return [*self.means, *([self.ratios] if self.ratios else [])]

    def page(self, version: str = "") -> str:
        """Return the whole page; with a version it is a live one that asks its server for a newer one."""
        values = self._values(version) | {
            "live": bool(version),
            "policy": Markup(content_policy(live=bool(version))),  # noqa: S704 - ours
            "style": _own("report.css"),
            "script": _own("report.js"),
            "plotly": _plotly(),
        }
        return environment(_PACKAGE).get_template("page.html").render(**values)

    def __repr__(self) -> str:
        return f"<Report: {len(self.tables)} tables, {len(self.charts)} figures>"

    def _repr_html_(self) -> str:
        """Return the answer and its picture; the page has the rest."""
        verdicts = [f"{title}: {verdict}" for title, verdict in self.summary.details[:_VERDICTS]]
        more = len(self.summary.details) - _VERDICTS
        rest = f"The page has {len(self.tables)} tables and {len(self.charts)} figures."
        notes = [*([f"{more} more verdicts are on the page."] if more > 0 else []), rest]
        picture = notebook_picture(lambda: self.pictures[0]) if self.pictures else ""
        return for_notebook([self.summary.question, self.summary.short, *verdicts], [], notes, picture)

    def main(self, version: str = "") -> str:
        """Return the part of the page that changes when runs end."""
        return environment(_PACKAGE).get_template("main.html").render(**self._values(version))

    def _values(self, version: str) -> dict[str, Any]:
        data = self.data
        return {
            "version": version,
            "badge": " · ".join(filter(None, (e.badge(data) for e in data.extensions))),
            "glossary": [line for e in data.extensions for line in e.glossary(data)],
            "report": self,
            "json": self._json(),
        }

    def _json(self) -> Markup:
        """Return figures and copies of tables as JSON in which no tag can begin or end."""
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
    """Return the page's Content-Security-Policy: what a browser may do with it."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - slow, and only a page needs it

    digests = [hashlib.sha256(text.encode()).digest() for text in (_own("report.js"), get_plotlyjs())]
    scripts = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return _POLICY.format(scripts=scripts, connect="'self'" if live else "'none'")


@cache
def _own(name: str) -> Markup:
    return Markup((files(_PACKAGE) / "templates" / name).read_text())  # noqa: S704 - ours


@cache
def _plotly() -> Markup:
    """Return plotly.js, compressed: it is most of the page, and three quarters of it are saved."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - slow, and only a page needs it

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return Markup(base64.b64encode(packed).decode())  # noqa: S704 - letters and digits only


_FORMS: dict[str, Callable[[Table], str]] = {"tex": to_latex, "csv": to_csv, "md": to_markdown}
# What a paper takes; all else on request.
_PICTURES, _TABLES = ("pdf", "png"), ("tex", "csv")


def check_page(path: Path | None) -> None:
    """Check the file name before anything is computed."""
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"the page {path} must end in .html")


@contextmanager
def _may_fail(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ReportError(f"{path} cannot be {done}: {reason(error)}") from None


def write_page(report: Report, path: "Path | str") -> None:
    """Write the page, whole or not at all."""
    path = Path(path)
    with _may_fail(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(report.page(), encoding="utf-8")


def write_figures(
    report: Report, folder: Path, tell: Callable[[str], None], everything: bool = False
) -> list[Path]:
    """Write a paper's figures as PDF and PNG, or every one and SVG too; and their captions."""
    from seedspread.render.with_matplotlib import save_chart  # noqa: PLC0415 - slow, and not in the base

    _make(folder)
    charts = report.charts if everything else report.for_a_paper[0]
    out: list[Path] = []
    for place, chart in enumerate(charts, 1):
        tell(f"drawing {chart.id}, {place} of {len(charts)}")
        with _may_fail(folder, "written"):
            paths = [folder / f"{chart.id}.{form}" for form in (FORMATS if everything else _PICTURES)]
            save_chart(chart, *paths)
        out += paths
    captions = [f"**{chart.id}**: {markdown_text(caption_of(chart))}\n" for chart in charts]
    return [*out, _write(folder / "captions.md", "\n".join(captions))]


def write_tables(report: Report, folder: Path, everything: bool = False) -> list[Path]:
    """Write a paper's tables as LaTeX and CSV, or every one and Markdown too."""
    _make(folder)
    return [
        _write(folder / f"{table.id}.{ending}", _FORMS[ending](table))
        for table in (report.tables if everything else report.for_a_paper[1])
        for ending in (_FORMS if everything else _TABLES)
    ]


def _write(path: Path, text: str) -> Path:
    with _may_fail(path, "written"), replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def _make(folder: Path) -> None:
    with _may_fail(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
