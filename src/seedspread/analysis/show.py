"""An audit as text, Markdown and LaTeX: the same tables three ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING

from rich.text import Text

from seedspread.analysis.components.show import tables as components_tables
from seedspread.analysis.ladder_table import ladder_table
from seedspread.analysis.numbers import between, number, p_value
from seedspread.analysis.overview import MOST_ROWS, fitted, overview_table
from seedspread.analysis.words import explanations, foot, remarks, sentences, summary, test_name
from seedspread.errors import printable
from seedspread.render.latex import tex_text, to_latex
from seedspread.render.markdown import markdown_text, to_markdown
from seedspread.render.table import Column, Table
from seedspread.render.terminal import Terminal
from seedspread.render.text import strip_lines, to_rich
from seedspread.render.web import for_notebook
from seedspread.runs.levels import arm_name, block_name
from seedspread.stats.outcomes import Performance
from seedspread.stats.result import TestResult

if TYPE_CHECKING:
    from seedspread.analysis.comparison import AuditResult, Comparison


def _tables(audit: AuditResult, c: Comparison, full: bool) -> list[Table]:
    return [_cells_table(audit, c), *test_tables(c, full)]


def test_tables(c: Comparison, full: bool) -> list[Table]:
    """Of one comparison: every test, how often runs fail, the ladder, and the variance components."""
    subjects = (("Spread", "spread", "ratio"), ("Means", "means", "difference"), ("Shape", "shape", None))
    out = [_tests_table(title, c, about, estimate, full) for title, about, estimate in subjects]
    if c.collapse.test is not None:
        out.append(_failures_table(c))
    out += [_performance_table(c.performance, (c.arm_name, c.baseline_name))] if c.performance else []
    out += [ladder_table(c.ladder, full)] if c.ladder else []
    out += components_tables(c.components) if c.components else []
    return [table for table in out if table.rows]


def _table(title: str, headings: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    return Table("", title, tuple(Column(heading) for heading in headings), rows)


def _cells_table(audit: AuditResult, c: Comparison) -> Table:
    blocks = ", ".join(audit.blocks)
    rows = tuple(
        (
            arm_name(audit.group, s.group),
            *((block_name(audit.blocks, s.block) or "all",) if blocks else ()),
            str(s.n),
            *map(_digits, (s.mean, s.sd, s.variance)),
        )
        for s in (*c.cells, *(c.pooled if len(c.cells) > 2 else ()))
    )
    headings = (audit.group, *((blocks,) if blocks else ()), "n", "mean", "sd", "variance")
    return _table(f"{audit.value} by cell", headings, rows)


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:.6g}"


def _tests_table(title: str, c: Comparison, about: str, estimate: str | None, full: bool) -> Table:
    tests = [t for t in c.tests if t.about == about]
    estimate_headings = (estimate, "interval") if estimate else ()
    rows = tuple(_short_row(t, bool(estimate_headings)) for t in (tests if full else _folded(tests)))
    return _table(title, ("test", "p", *estimate_headings, "assumptions", ""), rows)


def _short_row(t: TestResult, has_estimate: bool) -> tuple[str, ...]:
    """What fits a terminal: a note only where it stands for something that is missing."""
    note = t.note if t.p is None and t.interval is None else ""
    estimate_cells = (number(t.estimate), between(t.interval)) if has_estimate else ()
    return (test_name(t), p_value(t.p), *estimate_cells, _met(t), note)


def _met(t: TestResult) -> str:
    """Whether its assumptions are met, if it has any."""
    untestable = "not testable" if t.assumes else "-"
    return {True: "met", False: "not met", None: untestable}[t.assumptions_met]


def _folded(tests: list[TestResult]) -> list[TestResult]:
    """Without the blocks and interactions of the two-way analyses, to save a screen."""
    return [t for t in tests if not t.key.startswith("two_way") or t.key.endswith("_group")]


def _performance_table(p: Performance, names: tuple[str, str]) -> Table:
    """Which arm's runs are better: on average, in their middle half, at their worst."""
    worst = "worst run" if p.worst_of <= 10 else "worst tenth"
    contrasts = (("mean", p.mean), ("interquartile mean", p.iqm), (worst, p.worst))
    rows = tuple(
        (name, number(x.arm.value), number(x.baseline.value), number(x.difference.value),
         between(x.difference.interval))
        for name, x in contrasts
    )  # fmt: skip
    chance = (
        "probability of improvement",
        "",
        "",
        number(p.improvement.value),
        between(p.improvement.interval),
    )
    title = f"Which is better ({p.better} is)"
    return _table(title, ("", *names, "difference", "interval"), (*rows, chance))


def _failures_table(c: Comparison) -> Table:
    rows = tuple(
        (arm_name(c.factor, a.group), f"{a.failed}/{a.seeds}", f"{a.rate:.0%}", between(a.interval))
        for a in c.collapse.arms
    )
    p = p_value(c.collapse.test.p) if c.collapse.test else "-"
    title = f"Failed seeds (Fisher's exact test: p {p})"
    return _table(title, ("arm", "failed", "rate", "exact interval"), rows)


def as_text(audit: AuditResult, width: int, details: bool, explain: bool) -> str:
    """For a terminal of `width` columns: the answer first, tests behind `details`, reasons on `explain`."""
    page = TextPage(width)
    if len(audit.comparisons) > 1:
        page.console.print(Text(summary(audit), style="bold"))
        print_overview(page.console, audit, width)
    print_comparisons(page.console, audit, details, explain)
    return page.text((*audit.notes, foot(audit)))


class TextPage:
    """What is printed on it as plain text of a width."""

    def __init__(self, width: int) -> None:
        self._file = StringIO()
        self.console = Terminal(file=self._file, width=width, color_system=None, legacy_windows=False)

    def text(self, notes: Sequence[str]) -> str:
        """All of it, with notes at its end."""
        for note in notes:
            self.console.print(Text(note, style="dim"))
        return "\n".join(line.rstrip() for line in self._file.getvalue().splitlines())


def print_comparisons(console: Terminal, audit: AuditResult, details: bool, explain: bool) -> None:
    """The only comparison of an audit, or on request each of them."""
    if len(audit.comparisons) == 1 or details or explain:
        for c in audit.comparisons:
            _print_comparison(console, audit, c, details, explain)


def print_overview(console: Terminal, audit: AuditResult, width: int) -> None:
    """The table of all comparisons, and how many it leaves out."""
    console.print(to_rich(fitted(overview_table(audit, bars=True), width)))
    if len(audit.comparisons) > MOST_ROWS:
        left = len(audit.comparisons) - MOST_ROWS
        console.print(Text(f"{left:,} more comparisons, with larger p values, are not in this table."))


def _print_comparison(
    console: Terminal, audit: AuditResult, c: Comparison, details: bool, explain: bool
) -> None:
    console.rule(Text(c.title))
    answer, *rest = sentences(c)
    console.print(Text(answer, style="bold"))
    console.print(Text(" ".join(rest)))
    for line in _strip_lines(audit, c, console.width):
        console.print(Text(line), soft_wrap=True)
    full = details or explain
    for table in _tables(audit, c, explain) if full else [_cells_table(audit, c)]:
        console.print(to_rich(table))
    for line in [*(explanations(c) if explain else []), *remarks(c)]:
        console.print(Text(line))
    if full:
        console.print(Text(f"* the headline: {c.headline.why}.", style="dim"))


def _strip_lines(audit: AuditResult, c: Comparison, width: int) -> list[str]:
    strips = reversed(audit.strips(c))
    return strip_lines([(arm_name(c.factor, strip.group), strip.values) for strip in strips], width)


def as_html(audit: AuditResult, picture: str) -> str:
    """For a notebook: the answer, the overview, a picture."""
    several = len(audit.comparisons) > 1
    first = audit.comparisons[0]
    lines = [summary(audit)] if several else sentences(first)
    said = [] if several else remarks(first)
    return for_notebook(lines, [overview_table(audit)], [*said, *audit.notes, foot(audit)], picture)


def comparison_as_html(c: Comparison) -> str:
    """One comparison for a notebook: its sentences, every test, what to know of it."""
    return for_notebook([c.title, c.verdict], test_tables(c, full=False), remarks(c))


def comparison_as_text(c: Comparison, width: int, explain: bool) -> str:
    """The same for a terminal; with `explain` why each test was used and what it assumes."""
    page = TextPage(width)
    page.console.print(Text(f"{c.title}: {c.verdict}", style="bold"))
    for table in test_tables(c, explain):
        page.console.print(to_rich(table))
    return page.text([*(explanations(c) if explain else []), *remarks(c)])


def as_markdown(audit: AuditResult) -> str:
    """Tables and sentences in Markdown; every test with its reason and assumptions."""
    out = _markdown_overview(audit)
    for c in audit.comparisons:
        out += [f"## {markdown_text(c.title)}", "", markdown_text(c.verdict), ""]
        out += [f"- {markdown_text(line.removeprefix('! '))}" for line in remarks(c)]
        for table in _tables(audit, c, full=True):
            out += ["", *to_markdown(table).splitlines()]
        out += ["", *(f"- {markdown_text(line)}" for line in explanations(c)), ""]
    out += [markdown_text(note) for note in (*audit.notes, foot(audit))]
    return "\n".join(out) + "\n"


def _markdown_overview(audit: AuditResult) -> list[str]:
    if len(audit.comparisons) < 2:
        return []
    table = to_markdown(overview_table(audit, most=None))
    return [markdown_text(summary(audit)), "", *table.splitlines(), ""]


def as_latex(audit: AuditResult) -> str:
    """Tables for a paper: `booktabs` only."""
    out = ["% needs \\usepackage{booktabs}"]
    if len(audit.comparisons) > 1:
        out += [f"{tex_text(summary(audit))}\n", to_latex(overview_table(audit, most=None))]
    out += [f"\\paragraph{{{tex_text(c.title)}}} {tex_text(c.verdict)}\n" for c in audit.comparisons]
    for c in audit.comparisons:
        out += [to_latex(replace(t, title=f"{c.title}. {t.title}")) for t in _tables(audit, c, full=True)]
    for c in audit.comparisons:
        out += [_tex_comment(line) for line in explanations(c)]
    out.append(_tex_comment(foot(audit)))
    return "\n".join(out) + "\n"


def _tex_comment(line: str) -> str:
    return "% " + printable(line).replace("\n", " ")
