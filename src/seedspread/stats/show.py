"""An audit as text, Markdown and LaTeX: the same tables three ways."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import StringIO

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seedspread.stats.result import AuditValues, Comparison, Test
from seedspread.stats.verdict import between, number, p_value

_STRIP = 60


@dataclass(frozen=True)
class Grid:
    """A table before it has a form."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def grids(audit: AuditValues, c: Comparison, full: bool) -> list[Grid]:
    """The tables of one comparison."""
    out = [_cells_grid(audit, c), _tests_grid("Spread", c, "spread", "ratio", full)]
    out.append(_tests_grid("Means", c, "means", "difference", full))
    out.append(_tests_grid("Shape", c, "shape", None, full))
    if c.collapse.test is not None:
        out.append(_failures_grid(c))
    return [grid for grid in out if grid.rows]


def _cells_grid(audit: AuditValues, c: Comparison) -> Grid:
    blocks = ", ".join(audit.blocks)
    summaries = [*c.cells, *(c.pooled if len(c.cells) > 2 else ())]
    rows = tuple(
        (
            s.group,
            *((s.block or "all",) if blocks else ()),
            str(s.n),
            *map(_digits, (s.mean, s.sd, s.variance)),
        )
        for s in summaries
    )
    headings = (audit.group, *((blocks,) if blocks else ()), "n", "mean", "sd", "variance")
    return Grid(f"{audit.value} by cell", headings, rows)


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:.6g}"


def _tests_grid(title: str, c: Comparison, about: str, estimate: str | None, full: bool) -> Grid:
    tests = [t for t in c.tests if t.about == about]
    shown = (estimate, "interval") if estimate else ()
    rows = tuple(_short_row(t, bool(shown)) for t in (tests if full else _folded(tests)))
    return Grid(title, ("test", "p", *shown, "data agree?", ""), rows)


def explanations(c: Comparison) -> list[str]:
    """Per test a paragraph: which it is, why it is used, what it assumes, whether the data agree."""
    return [f"{_name(t)}: {_explained(t)}" for t in c.tests]


def _explained(t: Test) -> str:
    df = f" ({', '.join(f'{d:.3g}' for d in t.df)} df)" if t.df else ""
    statistic = "" if t.statistic is None else f"statistic {t.statistic:.3g}{df}; "
    p = "" if t.p is None else f"p {p_value(t.p)}; "
    agree = {True: "the data agree", False: "the data do not agree", None: "the data cannot tell"}[t.holds]
    evidence = f" ({t.evidence})" if t.evidence else ""
    note = f" {t.note[0].upper()}{t.note[1:]}." if t.note else ""
    return f"{statistic}{p}{t.why}. Assumes {t.assumes}; {agree}{evidence}.{note}"


def _short_row(t: Test, has_estimate: bool) -> tuple[str, ...]:
    """What fits a terminal: a note only where it stands for something that is missing."""
    note = t.note if t.p is None and t.interval is None else ""
    shown = (number(t.estimate), between(t.interval)) if has_estimate else ()
    return (_name(t), p_value(t.p), *shown, _AGREE[t.holds], note)


_AGREE = {True: "yes", False: "no", None: "-"}


def _name(t: Test) -> str:
    return f"* {t.name}" if t.key == "seed_jackknife" else t.name


def _folded(tests: list[Test]) -> list[Test]:
    """Without the blocks and interactions of the two-way analyses, to save a screen."""
    return [t for t in tests if not t.key.startswith("two_way") or t.key.endswith("_group")]


def _failures_grid(c: Comparison) -> Grid:
    rows = tuple(
        (a.group, f"{a.failed}/{a.seeds}", f"{a.rate:.0%}", between(a.interval)) for a in c.collapse.arms
    )
    p = p_value(c.collapse.test.p) if c.collapse.test else "-"
    return Grid(
        f"Failed seeds (Fisher's exact test: p {p})", ("arm", "failed", "rate", "exact interval"), rows
    )


def _forest_grid(audit: AuditValues) -> Grid | None:
    forest = audit.forest
    if forest is None:
        return None
    by_title = {c.title: c for c in audit.comparisons}
    rows = []
    for title in forest.titles:
        c = by_title[title]
        rows.append(
            (
                title,
                number(c.headline.ratio),
                between(c.headline.interval),
                p_value(c.headline.p),
                p_value(c.p_holm),
            )
        )
    rows.append(("together (random effects)", number(forest.pooled), between(forest.interval), "", ""))
    title = (
        f"Variance ratios together: heterogeneity Q({forest.df}) = {forest.q:.3g}, p {p_value(forest.p)}, "
        f"I² = {forest.i_squared:.0%}"
    )
    return Grid(title, ("comparison", "ratio", "interval", "p", "p (Holm)"), tuple(rows))


def strip_lines(audit: AuditValues, stratum: str, groups: Iterable[str]) -> list[str]:
    """The values of each group on one axis; a digit counts values that fall on one place."""
    strips = [s for g in groups for s in audit.values if s.stratum == stratum and s.group == g]
    everything = np.concatenate([s.values for s in strips])
    low, high = float(everything.min()), float(everything.max())
    width = max(len(s.group) for s in strips)
    lines = []
    for s in strips:
        places = (
            np.zeros(len(s.values), int)
            if high == low
            else np.round((np.array(s.values) - low) / (high - low) * (_STRIP - 1)).astype(int)
        )
        counts = np.bincount(places, minlength=_STRIP)
        dots = "".join(" " if k == 0 else "•" if k == 1 else str(k) if k < 10 else "#" for k in counts)
        lines.append(f"{s.group:<{width}} |{dots}|")
    left, right = f"{low:.4g}", f"{high:.4g}"
    lines.append(f"{'':<{width}}  {left}{right:>{_STRIP - len(left)}}")
    return lines


def as_text(audit: AuditValues, width: int, explain: bool) -> str:
    """For a terminal of `width` columns."""
    console = Console(file=StringIO(), width=width, color_system=None, legacy_windows=False)
    for c in audit.comparisons:
        console.rule(Text(c.title))
        for line in strip_lines(audit, c.stratum, (c.group, c.reference)):
            console.print(Text(line), soft_wrap=True)
        for grid in grids(audit, c, full=explain):
            console.print(_rich(grid))
        for line in [*(explanations(c) if explain else []), *_said(c)]:
            console.print(Text(line))
        console.print(Text(f"* the figure to quote: {c.headline.why}.", style="dim"))
        console.print(Text(c.verdict, style="bold"))
    together = _forest_grid(audit)
    if together is not None:
        console.rule()
        console.print(_rich(together))
    for note in (*audit.notes, _foot(audit)):
        console.print(Text(note, style="dim"))
    assert isinstance(console.file, StringIO)  # noqa: S101 - for the type checker
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def _rich(grid: Grid) -> Table:
    table = Table(title=Text(grid.title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    empty = [all(row[i] in ("", "-") for row in grid.rows) for i in range(len(grid.headings))]
    for i, heading in enumerate(grid.headings):
        if not empty[i]:
            justify = "right" if _is_numeric(grid, i) else "left"
            # Numbers are never broken; names and sentences are, where they must.
            table.add_column(Text(heading), justify=justify, no_wrap=justify == "right" or i == 0)  # type: ignore[arg-type]
    for row in grid.rows:
        table.add_row(*(Text(cell) for cell, drop in zip(row, empty, strict=True) if not drop))
    return table


def _is_numeric(grid: Grid, column: int) -> bool:
    return all(not row[column] or row[column][0] in "-0123456789[<∞" for row in grid.rows)


def _said(c: Comparison) -> list[str]:
    lines = [f"! {warning}" for warning in c.warnings]
    if c.collapse.found:
        lines.append(f"! {c.collapse.sentence}")
    if c.paired_correlation is not None:
        lines.append(f"The arms' seed means correlate by {c.paired_correlation:.2f} over the shared seeds.")
    lines += [f"Sampling floor: {floor.sentence}." for floor in c.floors]
    return lines


def _foot(audit: AuditValues) -> str:
    return (
        f"{audit.rows:,} runs from {audit.source}; {audit.level:.0%} intervals; {audit.resamples:,} "
        f"resamples, random seed {audit.random_seed}."
    )


def as_markdown(audit: AuditValues) -> str:
    """Tables and sentences in Markdown; every test with its reason and assumptions."""
    out = []
    for c in audit.comparisons:
        out += [f"## {markdown_text(c.title)}", "", markdown_text(c.verdict), ""]
        out += [f"- {markdown_text(line.removeprefix('! '))}" for line in _said(c)]
        for grid in grids(audit, c, full=True):
            out += [
                "",
                f"**{markdown_text(grid.title)}**",
                "",
                *_lines(grid, markdown_text, "| {} |", " | ", markdown=True),
            ]
        out += ["", *(f"- {markdown_text(line)}" for line in explanations(c)), ""]
    together = _forest_grid(audit)
    if together is not None:
        out += [
            f"**{markdown_text(together.title)}**",
            "",
            *_lines(together, markdown_text, "| {} |", " | ", markdown=True),
            "",
        ]
    out += [markdown_text(note) for note in (*audit.notes, _foot(audit))]
    return "\n".join(out) + "\n"


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is."""
    for char in ("\\", "|", "<", ">", "*", "_", "`", "["):
        text = (
            text.replace(char, "\\" + char)
            if char not in "<>"
            else text.replace(char, f"&{'lt' if char == '<' else 'gt'};")
        )
    return text.replace("\n", " ")


def as_latex(audit: AuditValues) -> str:
    """Tables for a paper: `booktabs` only."""
    out = ["% needs \\usepackage{booktabs}"]
    tables = [(c.title, grid) for c in audit.comparisons for grid in grids(audit, c, full=True)]
    together = _forest_grid(audit)
    if together is not None:
        tables.append((together.title, together))
    out += [f"\\paragraph{{{tex_text(c.title)}}} {tex_text(c.verdict)}\n" for c in audit.comparisons]
    for title, grid in tables:
        caption = title if title == grid.title else f"{title}. {grid.title}"
        columns = "".join("r" if _is_numeric(grid, i) else "l" for i in range(len(grid.headings)))
        out += [
            "\\begin{table}[t]",
            "\\centering",
            f"\\caption{{{tex_text(caption)}}}",
            f"\\begin{{tabular}}{{{columns}}}",
            "\\toprule",
            *_lines(grid, tex_text, "{} \\\\", " & ", markdown=False),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    for c in audit.comparisons:
        out += [f"% {line}".replace("\n", " ") for line in explanations(c)]
    out += [f"% {line}" for line in _foot(audit).splitlines()]
    return "\n".join(out) + "\n"


_TEX = {
    "\\": "\\textbackslash{}",
    "{": "\\{",
    "}": "\\}",
    "&": "\\&",
    "%": "\\%",
    "$": "\\$",
    "#": "\\#",
    "_": "\\_",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "∞": "$\\infty$",
    "²": "$^2$",
    "±": "$\\pm$",
    "×": "$\\times$",
    "✗": "$\\times$",
    "†": "$\\dagger$",
    "→": "$\\to$",
    "≥": "$\\ge$",
    "≤": "$\\le$",
    "\n": " ",
}


def tex_text(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_TEX.get(char, char) for char in text)


def _lines(
    grid: Grid, escape: Callable[[str], str], frame: str, between_cells: str, markdown: bool
) -> list[str]:
    head = frame.replace("{}", between_cells.join(escape(h) for h in grid.headings), 1)
    rule = "|" + "|".join("---" for _ in grid.headings) + "|" if markdown else "\\midrule"
    rows = [frame.replace("{}", between_cells.join(escape(cell) for cell in row), 1) for row in grid.rows]
    return [head, rule, *rows]
