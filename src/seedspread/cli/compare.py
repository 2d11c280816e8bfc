"""`seedspread compare`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedspread.cli.output import say
from seedspread.cli.output_options import Form, Json, Level, check_forms
from seedspread.cli.table_options import OneValue, TableOptions, with_table_options

if TYPE_CHECKING:
    from seedspread.analysis.sets.compared import CompareResult

_Sources = Annotated[
    list[str],
    typer.Argument(
        help="Two sets of runs or more, compared with the first: stores, tables, what `collect` reads."
    ),
]
_Studies = Annotated[
    list[str] | None,
    typer.Option(
        "--study", help="The study of each store: once for all, or once for each; of one store two."
    ),
]
_Group = Annotated[str | None, typer.Option(help="The column whose levels are a set's arms.")]
_Equivalence = Annotated[
    float, typer.Option(help="Variances, or ratios, that differ by no more than this factor count as alike.")
]


@with_table_options(value=OneValue, group=_Group)
def compare(
    sources: _Sources,
    studies: _Studies = None,
    *,
    asked: TableOptions,
    level: Level = 0.95,
    equivalence: _Equivalence = 2.0,
    details: Annotated[bool, typer.Option("--details", help="Every test of the spread.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the ratios: .png, .pdf or .svg.")] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """The same question of two sets of runs: did the spread change, and do their answers agree?"""
    from seedspread.render.terminal import Terminal
    from seedspread.study.comparing import compare_sources

    check_forms(form, plot)
    typed = (*sources, *(word for name in studies or () for word in ("--study", name)))
    question = replace(asked.question(), command="compare", sources=typed)
    with Terminal(stderr=True).status("comparing ..."):
        result = compare_sources(sources, studies or (), question, level, equivalence, asked.better)
    _say(result, form, details, json)
    if plot:
        from seedspread.analysis.sets.charts import draw_sets

        draw_sets(result, plot)
        Terminal(stderr=True).print(f"picture in {plot}", soft_wrap=True)


def _say(result: "CompareResult", form: str, details: bool, json: bool) -> None:
    from seedspread.render.terminal import Terminal

    if json:
        say(result.to_json())
    elif form == "text":
        say(result.to_text(width=Terminal().width, details=details))
        if not details:
            say("--details shows every test.")
    else:
        say(result.to_markdown() if form == "markdown" else result.to_latex(), end="")
