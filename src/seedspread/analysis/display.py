"""`Result`, the base class of all results, and the tables that results show."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rich.text import Text

from seedspread.analysis import words
from seedspread.render.chart import Chart, PlotError
from seedspread.render.table import Column, Table, markdown_text, tex_comment, tex_text, to_latex, to_markdown
from seedspread.render.terminal import Terminal, strip_lines, to_rich
from seedspread.render.web import for_notebook, notebook_picture
from seedspread.runs.levels import Levels, block_name, group_name, in_order, joined_levels, settings_in_order
from seedspread.stats.result import FailureModel, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from seedspread.analysis.audit_result import AuditResult, Comparison
    from seedspread.analysis.components import Components, GroupComponents
    from seedspread.analysis.sets import Agreement

_Judged = TypeVar("_Judged", "Comparison", "Agreement")
_Kind = TypeVar("_Kind")
ColorSystem = Literal["auto", "standard", "256", "truecolor", "windows"]  # as rich names them

# Rows that fit a screen; of more comparisons, those with the smallest p values are shown.
MOST_ROWS = 30
# Characters of the longest verdict or label before a line, and of a group's name over its means.
_LABEL, _SHORT = 10, 15
_FIGURE = re.compile(r"\b[pr] [=<] |\d% CI |(?<=\d) of (?=\d)")
# Characters per line of a notebook.
_WIDE = 110
_STYLES = {
    "YES": "bold green", "NO": "bold blue", "MAYBE": "bold yellow", "CAN'T TELL": "bold",
    "PASS": "bold green", "FAIL": "bold red", "BOUND": "bold", "differs": "bold red",
}  # fmt: skip


@dataclass(frozen=True)
class Heading:
    """The title of a page or of a part of it."""

    text: str


@dataclass(frozen=True)
class Answer:
    """A verdict with its claim and numbers, or a further line: `Means`, `Power`, `Caution`."""

    label: str
    texts: tuple[str, ...]

    @classmethod
    def of(cls, label: str, *texts: str) -> Answer:
        return cls(label, tuple(filter(None, texts)))


@dataclass(frozen=True)
class Dots:
    """Runs as dots on one axis; shown on a terminal only."""

    strips: Sequence[tuple[str, Sequence[float]]]


@dataclass(frozen=True)
class Note:
    """A remark on the data or the method; a comment in LaTeX."""

    text: str


# Parts of a page; a text is a paragraph.
Block = Heading | Answer | Dots | Note | Table | str


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A result that prints itself, draws itself, and displays itself in a notebook."""

    def as_values(self) -> dict[str, Any]:
        """Return all values, in types that JSON has."""
        return asdict(self)

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        """Yield the parts of its page; with `details` all of them, with `explain` also reasons.

        `width` is that of a terminal; None for a document, which has room for whole tables.
        """
        raise NotImplementedError

    def chart(self) -> Chart:
        raise PlotError(f"{type(self).__name__} has no picture")

    def to_json(self) -> str:
        """Return all values as JSON; a number that is not finite is null."""
        return json.dumps(_plain(self.as_values()), indent=2, allow_nan=False)

    def to_text(
        self, width: int = 80, details: bool = False, explain: bool = False, color: ColorSystem | None = None
    ) -> str:
        """Return the text for a terminal, plain unless `color` names the terminal's colors."""
        out = StringIO()
        own = {"force_terminal": True, "color_system": color} if color else {"color_system": None}
        console = Terminal(file=out, width=width, legacy_windows=False, **own)
        blocks = list(self.page(width, details, explain))
        for before, block in zip([None, *blocks], blocks, strict=False):
            if isinstance(block, Note) and isinstance(before, Answer):
                console.print()
            _print(console, block)
        text = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
        return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n")

    def to_markdown(self, details: bool = False) -> str:
        """Return Markdown for a README or an issue."""
        text = "\n".join(line for block in self.page(None, details, details) for line in _markdown(block))
        return re.sub(r"\n{3,}", "\n\n", text.strip("\n")) + "\n"

    def to_latex(self, details: bool = False) -> str:
        """Return LaTeX for a paper (needs booktabs)."""
        lines = [line for block in self.page(None, details, details) for line in _latex(block)]
        return "\n".join(["% needs \\usepackage{booktabs}", *lines]) + "\n"

    def _repr_html_(self) -> str:
        blocks = list(self.page(_WIDE))
        lines = [
            ": ".join((b.label, *b.texts)) if b.label else "; ".join(b.texts) for b in _of(Answer, blocks)
        ]
        lines = [*(b.text for b in _of(Heading, blocks)), *lines, *filter(None, _of(str, blocks))]
        notes = [b.text for b in _of(Note, blocks)]
        return for_notebook(lines, _of(Table, blocks), notes, notebook_picture(self.chart))

    def plot(self, ax: Axes | None = None) -> Figure:
        """Return a figure of all panels, or draw the first panel on `ax`."""
        from seedspread.render.with_matplotlib import draw, draw_panel  # noqa: PLC0415 - not in the base

        chart = self.chart()
        if ax is None:
            return draw(chart)
        draw_panel(ax, chart.panels[0])
        figure = ax.get_figure(root=True)
        assert figure is not None  # noqa: S101 - for the type checker
        return figure

    def draw(self, path: Path | str, **how: bool) -> None:
        """Write the picture; the format follows from the file's name, and the options `how` go to `chart`."""
        from seedspread.render.with_matplotlib import write_picture  # noqa: PLC0415 - slow, not in the base

        write_picture(self.chart(**how), Path(path))

    def __str__(self) -> str:
        return self.to_text()

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Print the text in IPython, in addition to the HTML."""
        printer.text(self.to_text())

    def __init_subclass__(cls) -> None:
        # IPython searches class by class, and would prefer a subclass's __repr__.
        cls._repr_pretty_ = cls._repr_pretty_  # type: ignore[method-assign]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _of(kind: type[_Kind], blocks: Iterable[Block]) -> list[_Kind]:
    return [block for block in blocks if isinstance(block, kind)]


def _print(console: Terminal, block: Block) -> None:
    match block:
        case Heading(text):
            console.print(Text(text, style="bold"))
            console.print()
        case Answer(label, texts):
            room, style = max(console.width - _LABEL - 4, 30), _STYLES.get(label, "")
            lines = [line for text in texts for line in _wrapped(text, room)]
            for k, line in enumerate(lines):
                before = f"  {label if k == 0 else '':<{_LABEL}}  "
                console.print(Text.assemble((before, style), line), soft_wrap=True)
        case Dots(strips):
            for line in strip_lines(strips, console.width):
                console.print(Text(line), soft_wrap=True)
        case Note(text):
            console.print(Text(text, style="dim"))
        case str():
            console.print(Text("\n".join(_wrapped(block, console.width))))
        case _:
            if block.title:
                console.print()
            console.print(to_rich(block, _STYLES))


def _wrapped(text: str, room: int) -> list[str]:
    """Return lines that break no number apart: `p < 0.001`, `95% CI`."""
    glued = _FIGURE.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    lines = wrap(glued, room, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _markdown(block: Block) -> list[str]:
    match block:
        case Heading(text):
            return [f"## {markdown_text(text)}", ""]
        case Answer(label, texts):
            return [f"- **{label}** {markdown_text('; '.join(texts))}" if texts else ""]
        case Dots():
            return []
        case Note(text) | str(text):
            return ["", markdown_text(text)] if text else [""]
        case _:
            return ["", to_markdown(block)]


def _latex(block: Block) -> list[str]:
    match block:
        case Heading(text):
            return [f"\\paragraph{{{tex_text(text)}}}"]
        case Answer(label, texts):
            return [f"\\textbf{{{tex_text(label)}}} {tex_text('; '.join(texts))}.\n"] if texts else []
        case Dots():
            return []
        case Note(text):
            return [tex_comment(text)]
        case str():
            return [tex_text(block) + "\n"] if block else []
        case _:
            return [to_latex(block)]


def table_of(title: str, headings: Iterable[str], rows: Iterable[tuple[str, ...]], name: str = "") -> Table:
    return Table(name, title, tuple(map(Column, headings)), tuple(rows))


def _smallest_p(rows: Sequence[_Judged], most: int | None) -> list[_Judged]:
    """Return all rows in their order, or if there are too many those with the smallest p values."""
    if most is None or len(rows) <= most:
        return list(rows)
    return sorted(rows, key=lambda row: 2.0 if row.p_adjusted is None else row.p_adjusted)[:most]


def _levels(audit: AuditResult) -> list[str]:
    return in_order(name for c in audit.comparisons for name in (c.baseline, c.group))


def _summaries(audit: AuditResult) -> dict[tuple[Levels, str], Summary]:
    return {(c.stratum, s.group): s for c in reversed(audit.comparisons) for s in c.pooled}


def _figures(audit: AuditResult, rows: Sequence[Comparison], p: bool) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells of ratios, their intervals, p values and verdicts."""
    level = words.levels_of(c.headline.shown_interval for c in rows) or f"{audit.level:.0%}"
    columns = {
        "ratio": words.aligned([words.two(c.headline.ratio) for c in rows]),
        f"{level} CI": [words.ends(c.headline.shown_interval) for c in rows],
        **({"p": [words.p_value(c.p_adjusted) for c in rows]} if p else {}),
        "verdict": [c.word for c in rows],
    }
    return list(columns), [list(cells) for cells in zip(*columns.values(), strict=True)]


def overview_tables(audit: AuditResult, most: int | None = None, p: bool = True) -> list[Table]:
    """Return mean ± sd of every group, and the variance ratio of every comparison, with or without p values.

    Of more than `most` comparisons, those with the smallest p values are shown.
    """
    first, pairs = audit.comparisons[0], {(c.group, c.baseline) for c in audit.comparisons}
    rows = _smallest_p(audit.in_order, most)
    headings, cells = _figures(audit, rows, p)
    adjusted = f", adjusted for {first.family} comparisons" if first.family > 1 else ""
    if len(pairs) == 1:  # a row for each dataset
        over = f"{first.group_name} over {first.baseline_name}"
        names = [first.group_name, first.baseline_name]
        names = names if max(map(len, names)) <= _SHORT else ["group", "baseline"]
        lines = [
            (joined_levels(c.stratum) or c.group, *map(mean_and_sd, c.pooled), *figures)
            for c, figures in zip(rows, cells, strict=True)
        ]
        title = f"{audit.value}: mean ± sd, and the variance ratio, {over}{adjusted}"
        return [table_of(title, (", ".join(audit.by) or audit.group, *names, *headings), lines, "overview")]
    one_baseline = len({c.baseline for c in audit.comparisons}) == 1
    if one_baseline and len({c.stratum for c in audit.comparisons}) == 1:  # a row for each group
        shown = dict(zip([c.group for c in rows], cells, strict=True))
        shown[first.baseline] = ["", "", *([""] if p else []), "baseline"]
        found = {name: s for (_, name), s in _summaries(audit).items()}
        kept = [name for name in _levels(audit) if name in shown]
        means = words.aligned([mean_and_sd(found[name]) for name in kept])
        lines = [(name, mean, *shown[name]) for name, mean in zip(kept, means, strict=True)]
        title = f"{audit.value}: the variance ratio over {first.baseline_name}{adjusted}"
        return [table_of(title, (audit.group, "mean ± sd", *headings), lines, "overview")]
    lines = [(c.title, *figures) for c, figures in zip(rows, cells, strict=True)]
    ratios = table_of(f"Variance ratios{adjusted}", ("comparison", *headings), lines, "overview")
    return [means_table(audit, most), ratios]


def _left_out(*left: tuple[int, str]) -> str:
    """Return what a table has no room for: `; 29 more tasks in the details`."""
    named = ((count, what if count > 1 else f"of the {what}") for count, what in left)
    return "".join(f"; {count} more {what} in the details" for count, what in named if count > 0)


def means_table(audit: AuditResult, most: int | None = None) -> Table:
    """Return mean ± sd: a row for each dataset and a column for each group, or a row for each group."""
    found, levels = _summaries(audit), _levels(audit)
    strata, title = settings_in_order(stratum for stratum, _ in reversed(found)), f"{audit.value}: mean ± sd"
    if len(strata) == 1:
        rows = [(name, mean_and_sd(found[strata[0], name])) for name in levels]
        title += _left_out((len(rows[most:]), "groups")) if most else ""
        return table_of(title, (audit.group, "mean ± sd"), rows[:most], "means")
    title += _left_out((len(strata[most:]), words.plural(audit.by))) if most else ""
    lines = [
        (joined_levels(s), *(mean_and_sd(found[s, n]) if (s, n) in found else "" for n in levels))
        for s in strata[:most]
    ]
    names = [group_name(audit.group, name) for name in levels]
    return table_of(title, (", ".join(audit.by), *names), lines, "means")


def means_and_ratios(audit: AuditResult, width: int, most: int) -> list[Table]:
    """Return mean ± sd and variance ratios of several datasets, in one table if there is room."""
    means, ratios = means_table(audit, most), matrix_table(audit, width, most)
    over = audit.comparisons[0].baseline_name
    of_pairs = zip(ratios.columns, zip(*ratios.rows, strict=True), strict=True)
    by_pair = {column.text: cells for column, cells in of_pairs}
    columns = []
    for column, cells in zip(means.columns, zip(*means.rows, strict=True), strict=True):
        columns.append((column.text, *cells))
        if found := by_pair.get(f"{column.text} vs {over}"):
            columns.append(("ratio", *found))
    fits = sum(max(map(len, column)) + 3 for column in columns) - 1 <= width
    baselines = {c.baseline for c in audit.comparisons}
    if not fits or len(baselines) > 1 or len(columns) < 2 * len(means.columns) - 2:
        return [means, ratios]
    more = _left_out((len({c.stratum for c in audit.comparisons}) - most, words.plural(audit.by)))
    title = f"{audit.value}: mean ± sd, and the variance ratio over {over} (* YES, after adjustment){more}"
    headings, *rows = zip(*columns, strict=True)
    return [table_of(title, headings, rows, "means")]


def averages_table(audit: AuditResult) -> Table:
    rows = [
        (
            " vs ".join(words.average_groups(average, audit.group)),
            words.two(average.pooled),
            words.ends(average.interval),
            words.p_value(average.pooled_p),
            words.ends(average.prediction),
        )
        for average in audit.averages
    ]
    count = max(len(average.titles) for average in audit.averages)
    alone = " (not adjusted)" if len(rows) > 1 else ""
    over = f"Average over {count} {words.plural(audit.by)}"
    headings = (over, "ratio", f"{audit.level:.0%} CI{alone}", "p", "prediction")
    return table_of("", headings, rows, "averages")


def matrix_table(audit: AuditResult, width: int, most: int) -> Table:
    """Return ratios of all pairs: datasets by pairs, with a star for YES; as many pairs as fit."""
    pairs = list(dict.fromkeys((c.group_name, c.baseline_name) for c in audit.comparisons))
    cells = {(c.stratum, (c.group_name, c.baseline_name)): c for c in audit.comparisons}
    strata = settings_in_order(c.stratum for c in audit.comparisons)
    names = list(map(joined_levels, strata))
    room = width - max(map(len, names)) - 6
    kept: list[tuple[str, str]] = []
    for pair in pairs:
        room -= max(map(len, pair)) + 5
        if kept and room < 0:
            break
        kept.append(pair)
    columns = []
    for pair in kept:
        found = [cells.get((stratum, pair)) for stratum in strata[:most]]
        starred = [c and words.two(c.headline.ratio) + "*" * (c.word == "YES") for c in found]
        columns.append(words.aligned([cell or "" for cell in starred]))
    more = _left_out((len(pairs) - len(kept), "pairs"), (len(strata[most:]), words.plural(audit.by)))
    headings = (", ".join(audit.by), *(f"{a} vs {b}" for a, b in kept))
    rows = zip(names[:most], *columns, strict=True)
    return table_of(f"Variance ratios (* YES, after adjustment){more}", headings, rows, "matrix")


def mean_and_sd(s: Summary) -> str:
    """Format as papers do, to the second digit of the sd: `93.12 ± 0.41`."""
    if s.sd is None or s.sd == 0 or not math.isfinite(s.sd):
        return f"{s.mean:.4g}" + ("" if s.sd is None else " ± 0")
    places = _places(s.sd)
    if places is None:
        return f"{s.mean:.4g} ± {s.sd:.2g}"
    return f"{s.mean:.{places}f} ± {s.sd:.{places}f}"


def test_tables(c: Comparison) -> list[Table]:
    subjects = (("Spread", "spread", "ratio"), ("Means", "means", "difference"), ("Shape", "shape", None))
    out = [_tests_table(title, c, about, estimate) for title, about, estimate in subjects]
    out += [_failures_table(c.failures, (c.group_name, c.baseline_name))] if c.failures else []
    return [table for table in out if table.rows]


def groups_table(audit: AuditResult, *comparisons: Comparison) -> Table:
    """Return seeds, runs, mean and sd of the groups of one stratum, and by block if there are blocks."""
    within = any(len(c.cells) > 2 for c in comparisons)
    groups = {
        s.group: (s, seeds, variance, [cell for cell in c.cells if within and cell.group == s.group])
        for c in comparisons
        for s, seeds, variance in zip(c.pooled, c.seeds, c.variances, strict=True)
    }
    names = [*(c.group for c in comparisons), *(c.baseline for c in comparisons)]
    rows: list[tuple[str, str, int, float, float | None]] = []
    for s, seeds, variance, blocks in map(groups.__getitem__, in_order(names) if names[2:] else names):
        sd = None if variance is None else variance**0.5
        rows.append((s.group, str(seeds), s.n, s.mean, sd))
        rows += [(f"  {block_name(audit.blocks, b.block)}", "", b.n, b.mean, b.sd) for b in blocks]
    places = _places(min([sd for *_, sd in rows if sd], default=0.0))
    shown = [(name, k, str(n), _fixed(mean, places), _fixed(sd, places)) for name, k, n, mean, sd in rows]
    return table_of("", (audit.group, "seeds", "runs", "mean", "sd within blocks" if within else "sd"), shown)


def _places(sd: float) -> int | None:
    """Return the decimals that show two digits of an sd; None if they would be too many or too few."""
    places = 1 - math.floor(math.log10(sd)) if 0 < sd < math.inf else 99
    return max(places, 0) if -4 < places <= 6 else None


def _fixed(value: float | None, places: int | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if places is None else f"{value:,.{places}f}".replace("-", "−")


def _tests_table(title: str, c: Comparison, about: str, estimate: str | None) -> Table:
    """Return columns that fit a terminal; a note is shown only in place of a missing number."""
    tests = [t for t in c.tests if t.about == about]
    if estimate == "ratio":
        estimates, intervals = words.aligned([words.two(t.estimate) for t in tests]), words.ends
    else:
        estimates = ["-" if t.estimate is None else words.minus(words.three(t.estimate)) for t in tests]
        intervals = partial(words.span, shown=words.three)
    rows = []
    for t, value in zip(tests, estimates, strict=True):
        met = {True: "met", False: "not met", None: "not testable" if t.assumes else "-"}[t.assumptions_met]
        note = t.note if t.p is None and t.interval is None else ""
        cells = (value, intervals(t.interval)) if estimate else ()
        rows.append((words.test_name(t), words.p_value(t.p), *cells, met, note))
    level = next((t.interval.level for t in c.tests if t.interval), 0.95)
    columns = (estimate, f"{level:.0%} CI") if estimate else ()
    return table_of(title, ("test", "p", *columns, "assumptions", ""), rows)


def _failures_table(f: FailureModel, names: tuple[str, str]) -> Table:
    rows = (
        (name, f"{failed} of {seeds}", f"{rate.value:.0%}", words.span(rate.interval, "{:.0%}".format))
        for name, failed, seeds, rate in zip(names, f.failed, f.seeds, f.rates, strict=True)
    )
    title = f"Failed seeds (Fisher's exact test, {words.p_phrase(f.p)})"
    return table_of(title, ("group", "failed", "rate", "exact CI"), rows)


def components_tables(stratum: Components, level: float) -> list[Table]:
    rows = (row for group in stratum.groups for row in _group_rows(group))
    tables = [table_of("Variances", ("component", "variance", f"{level:.0%} CI", "sd", "share", "p"), rows)]
    for found in stratum.comparisons:
        ratios = words.aligned([words.two(c.ratio) for c in found.components])
        lines = [
            (c.name, ratio, words.ends(c.ratio_interval), words.p_value(c.p))
            for c, ratio in zip(found.components, ratios, strict=True)
        ]
        headings = ("component", "variance ratio", f"{level:.0%} CI", "p")
        tables.append(table_of(found.title, headings, lines))
    return tables


def _group_rows(group: GroupComponents) -> list[tuple[str, ...]]:
    parts = [(c.name, c.variance, c.interval, f"{c.share:.0%}", words.p_value(c.p)) for c in group.components]
    parts.append(("total", group.total, group.interval, "-", "-"))
    rows: list[tuple[str, ...]] = [
        (f"{group.title}: {name}", words.number(size), words.span(interval), words.number(size**0.5), *rest)
        for name, size, interval, *rest in parts
    ]
    if group.test_set_noise is not None:
        name = f"{group.title}: test set{', at most' if group.test_set_noise.is_bound else ''}"
        share = f"{group.test_set_noise.explained / group.total:.0%}" if group.total > 0 else "-"
        rows.append((name, words.number(group.test_set_noise.explained), "-", "-", share, "-"))
    return rows


def agreement_table(found: tuple[Agreement, ...], most: int | None = None) -> Table:
    """Return a row for each question: the ratio in either set, the ratio of these, and whether they agree.

    Of more than `most`, those with the smallest p values are shown.
    """
    first = found[0]
    several, over = len({(a.source, a.first) for a in found}) > 1, f"over {first.first}"
    sets = [first.first, *(["ratio", over] if several else [first.source, f"{first.source} {over}"])]
    level = words.levels_of(a.headline.shown_interval for a in found)
    rows = [
        (
            a.title,
            *((a.source,) if several else ()),
            *(words.two(answer.headline.ratio) for answer in a.answers),
            words.two(a.headline.ratio),
            words.ends(a.headline.shown_interval),
            words.p_value(a.p_adjusted),
            words.AGREEMENT[a.word],
        )
        for a in _smallest_p(found, most)
    ]
    headings = ("comparison", *(["set"] if several else []), *sets, f"{level} CI".strip(), "p", "the sets")
    return table_of("Variance ratios in each set", headings, rows, "agreement")
