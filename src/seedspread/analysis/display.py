"""What all results have in common (`Result`), and the tables that they show."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.text import Text

from seedspread.analysis import words
from seedspread.render.chart import Chart, PlotError
from seedspread.render.latex import tex_text, to_latex
from seedspread.render.table import Column, Table, markdown_text, to_markdown
from seedspread.render.terminal import Terminal, to_rich
from seedspread.runs.levels import arm_name, block_name, stratum_name
from seedspread.stats.result import FailureModel, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from seedspread.analysis.audit_result import AuditResult, Comparison
    from seedspread.analysis.components import ArmComponents, Components
    from seedspread.analysis.sets import Agreement

_Judged = TypeVar("_Judged", "Comparison", "Agreement")

# Rows that fit a screen; of more comparisons those with the smallest p values are shown.
MOST_ROWS = 30
# Letters of the longest verdict and label before a line, and of a group's name over its means.
_LABEL, _SHORT = 10, 15


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A result that prints itself, draws itself, and shows itself in a notebook."""

    def as_values(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return asdict(self)

    def to_text(self, width: int = 110) -> str:
        """For a terminal."""
        raise NotImplementedError

    def chart(self) -> Chart:
        """Its picture."""
        raise PlotError(f"{type(self).__name__} has no picture")

    def to_json(self) -> str:
        """Everything; a number that is not finite is null."""
        return json.dumps(_plain(self.as_values()), indent=2, allow_nan=False)

    def plot(self, ax: Axes | None = None) -> Figure:
        """A figure of its chart; on `ax` the chart's first panel alone."""
        from seedspread.render.with_matplotlib import draw, draw_panel  # noqa: PLC0415 - not in the base

        chart = self.chart()
        if ax is None:
            return draw(chart)
        draw_panel(ax, chart.panels[0])
        figure = ax.get_figure(root=True)
        assert figure is not None  # noqa: S101 - for the type checker
        return figure

    def draw(self, path: Path | str) -> None:
        """Write its picture; the format follows from the file's name."""
        from seedspread.render.with_matplotlib import write_picture  # noqa: PLC0415 - slow, not in the base

        write_picture(self.chart(), Path(path))

    def __str__(self) -> str:
        return self.to_text()

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Print the text in IPython, also beside the HTML."""
        printer.text(self.to_text())

    def __init_subclass__(cls) -> None:
        # IPython goes from class to class, and would take a subclass's __repr__ first.
        cls._repr_pretty_ = cls._repr_pretty_  # type: ignore[method-assign]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class TextPage:
    """Plain text of a width, line by line and table by table."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._file = StringIO()
        self.console = Terminal(file=self._file, width=width, color_system=None, legacy_windows=False)

    def title(self, text: str) -> None:
        self.console.rule(Text(text))

    def lines(self, lines: Iterable[str], style: str = "") -> None:
        for line in lines:
            self.console.print(Text(line, style=style))

    def labelled(self, label: str, text: str) -> None:
        """Print a text beside its label, further lines under the text; nothing if there is no text."""
        room = max(self.width - _LABEL - 4, 30)
        for k, line in enumerate(textwrap.wrap(text, room, break_on_hyphens=False)):
            self.console.print(Text(f"  {label if k == 0 else '':<{_LABEL}}  {line}"), soft_wrap=True)

    def tables(self, tables: Iterable[Table]) -> None:
        for table in tables:
            self.console.print(to_rich(table))

    def text(self, notes: Sequence[str] = ()) -> str:
        """All of it, with notes at its end."""
        self.lines(notes, "dim")
        return "\n".join(line.rstrip() for line in self._file.getvalue().splitlines())


class Listed(Result):
    """A result that is a title, an answer to each question, tables and notes."""

    notes: tuple[str, ...]

    def title(self) -> str:
        raise NotImplementedError

    def answers(self) -> list[tuple[str, str]]:
        """Return every verdict, and what it is about."""
        raise NotImplementedError

    def tables(self) -> list[Table]:
        raise NotImplementedError

    def to_text(self, width: int = 110) -> str:
        page = TextPage(width)
        page.lines([self.title(), ""])
        for label, text in self.answers():
            page.labelled(label, text)
        page.lines([""])
        page.tables(self.tables())
        return page.text(self.notes)

    def to_markdown(self) -> str:
        """For a README or an issue."""
        lines = "\n".join(f"- **{word}** {markdown_text(text)}" for word, text in self.answers())
        notes = "\n".join(f"- {markdown_text(note)}" for note in self.notes)
        return "\n\n".join([lines, *map(to_markdown, self.tables()), notes]) + "\n"

    def to_latex(self) -> str:
        """For a paper (booktabs)."""
        lines = [tex_text(f"{word}: {text}.") + "\n" for word, text in self.answers()]
        return "\n".join(["% needs \\usepackage{booktabs}", *lines, *map(to_latex, self.tables())])


def table_of(title: str, headings: Iterable[str], rows: Iterable[tuple[str, ...]], name: str = "") -> Table:
    return Table(name, title, tuple(map(Column, headings)), tuple(rows))


def _smallest_p(rows: Sequence[_Judged], most: int | None) -> list[_Judged]:
    """Return all rows in their order, or of too many those with the smallest p values."""
    if most is None or len(rows) <= most:
        return list(rows)
    return sorted(rows, key=lambda row: 2.0 if row.p_adjusted is None else row.p_adjusted)[:most]


def overview_table(audit: AuditResult, most: int | None = MOST_ROWS, p: bool = True) -> Table:
    """A row for each comparison: means and sds, the variance ratio, its interval, p, and the verdict.

    Args:
        audit: what was compared.
        most: rows at most, those with the smallest p values; None for all.
        p: whether there is room for the p values.
    """
    alone = len({(c.group, c.baseline) for c in audit.comparisons}) == 1
    first = audit.comparisons[0]
    rows = [
        (
            (stratum_name(c.by, c.stratum) if c.stratum else c.arm_name) if alone else c.title,
            *map(mean_and_sd, c.pooled),
            words.two(c.headline.ratio),
            words.ends(c.headline.shown_interval),
            *((words.p_value(c.p_adjusted),) if p else ()),
            c.word,
        )
        for c in _smallest_p(audit.comparisons, most)
    ]
    names = (first.arm_name, first.baseline_name)
    names = names if alone and max(map(len, names)) <= _SHORT else ("group", "baseline")
    headings = [", ".join(audit.by) or audit.group if alone else "comparison", *names]
    headings += ["ratio", f"{audit.level:.0%} CI", *(("p",) if p else ()), "verdict"]
    over = f", {first.arm_name} over {first.baseline_name}" if alone else ""
    adjusted = f"; adjusted for {first.family} comparisons" if first.family > 1 else ""
    title = f"{audit.value}: mean ± sd, and the variance ratio{over}{adjusted}"
    return table_of(title, headings, rows, "overview")


def summary_tables(audit: AuditResult) -> list[Table]:
    """The averages, if there are some, and all comparisons."""
    return [*([averages_table(audit)] if audit.forests else []), overview_table(audit, most=None)]


def averages_table(audit: AuditResult) -> Table:
    """The mean ratio over datasets of each group and its baseline."""
    rows = [
        (
            " vs ".join(words.forest_arms(forest, audit.group)),
            words.two(forest.pooled),
            words.ends(forest.interval),
            words.p_value(forest.pooled_p),
            words.ends(forest.prediction),
        )
        for forest in audit.forests
    ]
    count = max(len(forest.titles) for forest in audit.forests)
    alone = " (not adjusted)" if len(rows) > 1 else ""
    over = f"Average over {count} {words.plural(audit.by)}"
    headings = (over, "ratio", f"{audit.level:.0%} CI{alone}", "p", "prediction")
    return table_of("", headings, rows, "averages")


def matrix_table(audit: AuditResult, width: int, most: int) -> Table:
    """Ratios by dataset (row) and pair (column), with a star for YES; the first that fit."""
    pairs = list(dict.fromkeys((c.arm_name, c.baseline_name) for c in audit.comparisons))
    cells = {(c.stratum, (c.arm_name, c.baseline_name)): c for c in audit.comparisons}
    strata = list(dict.fromkeys(c.stratum for c in audit.comparisons))
    names = [stratum_name(audit.by, stratum) for stratum in strata]
    room = width - max(map(len, names)) - 6
    kept: list[tuple[str, str]] = []
    for pair in pairs:
        room -= max(map(len, pair)) + 5
        if kept and room < 0:
            break
        kept.append(pair)
    rows = []
    for stratum, name in list(zip(strata, names, strict=True))[:most]:
        found = [cells.get((stratum, pair)) for pair in kept]
        ratios = ["" if c is None else words.two(c.headline.ratio) + "*" * (c.word == "YES") for c in found]
        rows.append((name, *ratios))
    left = [(len(pairs) - len(kept), "pairs"), (len(strata) - len(rows), words.plural(audit.by))]
    more = "".join(f"; {count} more {what} in the details" for count, what in left if count > 0)
    headings = (", ".join(audit.by), *(f"{a} vs {b}" for a, b in kept))
    return table_of(f"Variance ratios (* YES, after adjustment){more}", headings, rows, "matrix")


def mean_and_sd(s: Summary) -> str:
    """As papers print it, to the second digit of the sd: `93.12 ± 0.41`."""
    if s.sd is None or s.sd == 0 or not math.isfinite(s.sd):
        return f"{s.mean:.4g}" + ("" if s.sd is None else " ± 0")
    places = 1 - math.floor(math.log10(s.sd))
    if places > 6 or s.sd >= 1e6:
        return f"{s.mean:.4g} ± {s.sd:.2g}"
    return f"{s.mean:.{max(places, 0)}f} ± {s.sd:.{max(places, 0)}f}"


def test_tables(c: Comparison) -> list[Table]:
    """Of one comparison: every test, and how often runs fail."""
    subjects = (("Spread", "spread", "ratio"), ("Means", "means", "difference"), ("Shape", "shape", None))
    out = [_tests_table(title, c, about, estimate) for title, about, estimate in subjects]
    out += [_failures_table(c.failures, (c.arm_name, c.baseline_name))] if c.failures else []
    return [table for table in out if table.rows]


def groups_table(audit: AuditResult, c: Comparison) -> Table:
    """Seeds, runs, mean and sd of the groups; by block as well if there are some."""
    within = len(c.cells) > 2
    rows = []
    for s, seeds, variance in zip(c.pooled, c.seeds, c.variances, strict=True):
        sd = None if variance is None else variance**0.5
        rows.append((arm_name(audit.group, s.group), str(seeds), str(s.n), *map(_digits, (s.mean, sd))))
        for cell in c.cells:
            if within and cell.group == s.group:
                name = f"  {block_name(audit.blocks, cell.block)}"
                rows.append((name, "", str(cell.n), *map(_digits, (cell.mean, cell.sd))))
    return table_of("", (audit.group, "seeds", "runs", "mean", "sd within blocks" if within else "sd"), rows)


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:.6g}"


def _tests_table(title: str, c: Comparison, about: str, estimate: str | None) -> Table:
    """What fits a terminal: a note only where it stands for something that is missing."""
    rows = []
    for t in c.tests:
        if t.about != about:
            continue
        met = {True: "met", False: "not met", None: "not testable" if t.assumes else "-"}[t.assumptions_met]
        note = t.note if t.p is None and t.interval is None else ""
        cells = (words.number(t.estimate), words.between(t.interval)) if estimate else ()
        rows.append((words.test_name(t), words.p_value(t.p), *cells, met, note))
    return table_of(
        title, ("test", "p", *((estimate, "interval") if estimate else ()), "assumptions", ""), rows
    )


def _failures_table(f: FailureModel, names: tuple[str, str]) -> Table:
    rows = (
        (name, f"{failed}/{seeds}", f"{rate.value:.0%}", words.between(rate.interval))
        for name, failed, seeds, rate in zip(names, f.failed, f.seeds, f.rates, strict=True)
    )
    title = f"Failed seeds (Fisher's exact test: p {words.p_value(f.p)})"
    return table_of(title, ("arm", "failed", "rate", "exact interval"), rows)


def components_tables(stratum: Components) -> list[Table]:
    """The arms' components, then each comparison."""
    headings = ("component", "variance", "interval", "share", "p", "unbiased")
    tables = [
        table_of("Variance components", headings, (row for arm in stratum.arms for row in _arm_rows(arm)))
    ]
    headings = ("component", "ratio", "interval", "difference", "interval", "p")
    for found in stratum.comparisons:
        rows = []
        for c in found.components:
            ratio = words.number(c.ratio), words.between(c.ratio_interval)
            difference = words.number(c.difference), words.between(c.difference_interval)
            rows.append((c.name, *ratio, *difference, words.p_value(c.p)))
        tables.append(table_of(found.title, headings, rows))
    return tables


def _arm_rows(arm: ArmComponents) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            f"{arm.title}: {c.name}",
            words.number(c.variance),
            words.between(c.interval),
            f"{c.share:.0%}",
            words.p_value(c.p),
            words.number(c.unbiased),
        )
        for c in arm.components
    ]
    rows.append((f"{arm.title}: total", words.number(arm.total), words.between(arm.interval), "-", "-", "-"))
    if arm.floor is not None:
        name = f"{arm.title}: test set{', at most' if arm.floor.is_bound else ''}"
        share = f"{arm.floor.floor / arm.total:.0%}" if arm.total > 0 else "-"
        rows.append((name, words.number(arm.floor.floor), "-", share, "-", "-"))
    return rows


def agreement_table(found: tuple[Agreement, ...], most: int | None = None, width: int | None = None) -> Table:
    """A row for each question: the ratio in either set, the ratio of these, and whether they agree.

    Args:
        found: the questions.
        most: rows to show at most; those with the smallest p values.
        width: of a terminal: the intervals of each set are left out where there is no room for them.
    """
    shown, first = _smallest_p(found, most), found[0]
    several, over = len({(a.source, a.first) for a in found}) > 1, f"over {first.first}"
    sets = (
        ("set", first.first, "ratio", over)
        if several
        else (first.first, first.source, f"{first.source} {over}")
    )
    interval = first.headline.shown_interval
    level = f"{interval.level:.0%} " if interval else ""
    headings = ("comparison", *sets, f"{level}interval", "p", "the sets")
    for intervals in (True, False):
        rows = []
        for a in shown:
            ratios = (
                words.two(h.ratio)
                + (f" ({words.ends(h.shown_interval)})" if intervals and h.shown_interval else "")
                for h in (answer.headline for answer in a.answers)
            )
            both = words.two(a.headline.ratio), words.ends(a.headline.shown_interval)
            said = words.p_value(a.p_adjusted), words.AGREEMENT[a.word]
            rows.append((a.title, *((a.source,) if several else ()), *ratios, *both, *said))
        widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
        if width is None or sum(widths) + 3 * len(widths) <= width:
            break
    return table_of("Variance ratios in each set", headings, rows, "agreement")
