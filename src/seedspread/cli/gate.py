"""The command `gate`: pass or fail by past runs, for a CI job."""

from pathlib import Path
from typing import Annotated

import typer

from seedspread.cli.options import (
    Form,
    Json,
    Source,
    TableOptions,
    check_forms,
    say_picture,
    say_result,
    with_table_options,
)
from seedspread.errors import SeedspreadError

_OPTIONS = (
    "value", "group", "seed", "no_seed", "by", "where", "last", "best", "wide", "metric_column", "sheet",
    "at", "no_steps", "higher", "lower",
)  # fmt: skip
_Group = Annotated[str | None, typer.Option(help="A column, such as test, whose levels are judged apart.")]


@with_table_options(_OPTIONS, group=_Group)
def gate(
    history: Source,
    new: Annotated[str | None, typer.Argument(help="The runs to judge; without them, a bound.")] = None,
    *,
    asked: TableOptions,
    alpha: Annotated[
        float, typer.Option("--alpha", "--false-alarms", help="Healthy runs that may fail, as a share.")
    ] = 0.05,
    confidence: Annotated[float, typer.Option(help="The confidence of the bound.")] = 0.95,
    margin: Annotated[
        float | None, typer.Option(help="An acceptable drop: pass if the mean is shown to drop by less.")
    ] = None,
    equivalence: Annotated[
        float | None, typer.Option(help="Pass only if the variance is shown to be below this many times.")
    ] = None,
    two_sided: Annotated[
        bool, typer.Option("--two-sided", help="Any change is bad, not only a drop.")
    ] = False,
    items: Annotated[int | None, typer.Option(help="Test items behind each accuracy.")] = None,
    chance: Annotated[float | None, typer.Option(help="The score of a run that has learned nothing.")] = None,
    order: Annotated[
        str | None, typer.Option(help="A column with date, commit or number: has the history drifted?")
    ] = None,
    study: Annotated[str | None, typer.Option(help="For stores: the study, by name.")] = None,
    details: Annotated[bool, typer.Option("--details", help="How each was judged.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw runs and bound: .png, .pdf or .svg.")] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Do new runs pass, judged by past ones? Exit status 0: pass, 1: fail, 2: error, 3: can't tell."""
    from seedspread.analysis.gate import gate as judge

    check_forms(form, plot)
    result = judge(
        history, new, asked.value, asked.group, asked.seed_column, asked.by, alpha=alpha,
        confidence=confidence, margin=margin, equivalence=equivalence, two_sided=two_sided, items=items,
        chance=chance, order=order, study=study, better=asked.better, **asked.rows,
    )  # fmt: skip
    try:
        say_result(result, form, as_json=json, details=details)
    except BrokenPipeError:  # which typer would end with the status of a failed gate
        raise SeedspreadError("the output was closed before all was written") from None
    if plot:
        result.draw(plot)
        say_picture(plot)
    raise typer.Exit(result.exit_code)
