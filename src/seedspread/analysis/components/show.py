"""Variance components as text, Markdown, LaTeX and JSON: the same tables and sentences."""

import json
import math
from dataclasses import asdict, dataclass, replace
from io import StringIO
from typing import Any

from rich.text import Text

from seedspread.analysis.components.result import ArmComponents, ArmsCompared, Components, ComponentsValues
from seedspread.analysis.numbers import between, number, p_value
from seedspread.analysis.words import floor_sentence
from seedspread.render.latex import tex_text, to_latex
from seedspread.render.markdown import markdown_text, to_markdown
from seedspread.render.table import Column, Table
from seedspread.render.terminal import Terminal
from seedspread.render.text import to_rich
from seedspread.render.web import for_notebook

_UNBIASED = "unbiased"


@dataclass(frozen=True)
class ComponentsResult(ComponentsValues):
    """The variance components of a table, with their forms."""

    def to_json(self) -> str:
        """Everything; a number that is not finite is null."""
        values = asdict(self)
        for stratum, told in zip(self.strata, values["strata"], strict=True):
            for arm, arm_values in zip(stratum.arms, told["arms"], strict=True):
                if arm.floor is not None:
                    arm_values["floor"]["sentence"] = floor_sentence(arm.floor)
        return json.dumps(_plain(values), indent=2, allow_nan=False)

    def to_text(self, width: int = 110) -> str:
        """For a terminal."""
        console = Terminal(file=StringIO(), width=width, color_system=None, legacy_windows=False)
        for stratum in self.strata:
            if stratum.title:
                console.rule(Text(stratum.title))
            for line in sentences(stratum):
                console.print(Text(line, style="bold"))
            for table in tables(stratum):
                console.print(to_rich(table))
        for note in self._remarks():
            console.print(Text(note, style="dim"))
        assert isinstance(console.file, StringIO)  # noqa: S101 - for the type checker
        return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())

    def to_markdown(self) -> str:
        """Tables for a README or an issue."""
        out = []
        for stratum in self.strata:
            out += [f"## {markdown_text(stratum.title)}", ""] if stratum.title else []
            out += [f"- {markdown_text(line)}" for line in sentences(stratum)]
            for table in tables(stratum):
                out += ["", *to_markdown(table).splitlines()]
            out.append("")
        return "\n".join([*out, *(markdown_text(note) for note in self._remarks())]) + "\n"

    def to_latex(self) -> str:
        """Tables for a paper (booktabs)."""
        out = ["% needs \\usepackage{booktabs}"]
        for stratum in self.strata:
            out += [f"{tex_text(line)}\n" for line in sentences(stratum)]
            before = f"{stratum.title}. " if stratum.title else ""
            out += [to_latex(replace(table, title=before + table.title)) for table in tables(stratum)]
        return "\n".join([*out, *(f"{tex_text(note)}\n" for note in self._remarks())])

    def __repr__(self) -> str:
        arms = len({arm.group for stratum in self.strata for arm in stratum.arms})
        return f"<ComponentsResult of {self.source}: {self.value}, {arms} arm{'s' * (arms != 1)}>"

    def __str__(self) -> str:
        return self.to_text()

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """IPython's text, also beside the HTML."""
        printer.text(self.to_text())

    def _repr_html_(self) -> str:
        lines, shown = [], []
        for stratum in self.strata:
            before = f"{stratum.title}: " if stratum.title else ""
            lines += [before + line for line in sentences(stratum)]
            shown += [replace(table, title=before + table.title) for table in tables(stratum)]
        return for_notebook(lines, shown, self._remarks())

    def _remarks(self) -> list[str]:
        arms = [arm for stratum in self.strata for arm in stratum.arms]
        at_zero = any(c.variance == 0 and c.unbiased is not None for arm in arms for c in arm.components)
        explained = (
            f"A component that comes out as zero counts as noise there; '{_UNBIASED}' has the mean squares, "
            "which sentences quote for the noise."
        )
        foot = (
            f"{self.rows:,} runs from {self.source}; restricted maximum likelihood (REML), {self.level:.0%} "
            "profile intervals; normal values are assumed."
        )
        return [*self.notes, *([explained] if at_zero else []), foot]


def sentences(stratum: Components) -> list[str]:
    """The answer: the comparisons, then the arms."""
    return [c.sentence for c in stratum.comparisons] + [arm.sentence for arm in stratum.arms]


def tables(stratum: Components) -> list[Table]:
    """The arms' components, then each comparison."""
    return [_arms_table(stratum), *map(_comparison_table, stratum.comparisons)]


def _arms_table(stratum: Components) -> Table:
    headings = ("component", "variance", "interval", "share", "p", _UNBIASED)
    rows = tuple(row for arm in stratum.arms for row in _arm_rows(arm))
    return Table("", "Variance components", tuple(map(Column, headings)), rows)


def _arm_rows(arm: ArmComponents) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            f"{arm.title}: {c.name}",
            number(c.variance),
            between(c.interval),
            f"{c.share:.0%}",
            p_value(c.p),
            number(c.unbiased),
        )
        for c in arm.components
    ]
    rows.append((f"{arm.title}: total", number(arm.total), between(arm.interval), "-", "-", "-"))
    if arm.floor is not None:
        name = f"{arm.title}: test set{', at most' if arm.floor.is_bound else ''}"
        share = f"{arm.floor.floor / arm.total:.0%}" if arm.total > 0 else "-"
        rows.append((name, number(arm.floor.floor), "-", share, "-", "-"))
    return rows


def _comparison_table(found: ArmsCompared) -> Table:
    headings = ("component", "ratio", "interval", "difference", "interval", "p")
    rows = tuple(
        (
            c.name,
            number(c.ratio),
            between(c.ratio_interval),
            number(c.difference),
            between(c.difference_interval),
            p_value(c.p),
        )
        for c in found.components
    )
    return Table("", found.title, tuple(map(Column, headings)), rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
