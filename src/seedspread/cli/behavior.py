"""The commands about what runs did beside their final metric: `churn` and `curves`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedspread.cli.analyze import Study, audit_question, comparison_asked
from seedspread.cli.options import Json, Level, Source, TableOptions, say_result, with_table_options

if TYPE_CHECKING:
    import pandas as pd

_CHURN = ("value", "group", "baseline", "block", "seed", "by", "where", "wide", "sheet", "unpaired")
_CURVES = ("group", "block", "seed", "by", "where", "metric_column", "sheet")
_Predictions = Annotated[
    str | None, typer.Option(help="The column with the predictions; of lm-eval samples, the metric.")
]


@with_table_options(_CHURN, value=_Predictions)
def churn(
    table: Source,
    asked: TableOptions,
    item: Annotated[str | None, typer.Option(help="The column that names the test example.")] = None,
    top: Annotated[int, typer.Option(min=0, help="Examples to list.")] = 10,
    study: Study = None,
    level: Level = 0.95,
    json: Json = False,
) -> None:
    """How often do two seeds disagree on a test example? From predictions of a store, lm-eval, or a table."""
    from seedspread.analysis.churn import churn as run_churn

    runs, compared = _compared(table, study, replace(asked, value=asked.value or ["accuracy"]))
    result = run_churn(
        runs, asked.one_value, seed=asked.seed, **compared, item=item, level=level, top=top,
        where=asked.where, wide=asked.wide, sheet=asked.sheet, paired=not asked.unpaired,
    )  # fmt: skip
    say_result(result, "text", as_json=json)


@with_table_options(_CURVES)
def curves(
    table: Source,
    metric: Annotated[str, typer.Option(help="What was logged over training.")],
    asked: TableOptions,
    step: Annotated[str | None, typer.Option(help="The column that counts steps.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the curves: .pdf, .png, .svg or .csv.")] = None,
    study: Study = None,
    level: Level = 0.95,
    json: Json = False,
) -> None:
    """Mean and spread across seeds over training, for runs of unequal length and unequal steps."""
    from seedspread.analysis.curves import curves as run_curves
    from seedspread.analysis.curves import is_csv

    if out:
        is_csv(out)  # refuses what cannot be written, before the work
    runs, compared = _compared(table, study, asked)
    result = run_curves(
        runs, metric, compared["group"], compared["block"], asked.seed, compared["by"], step=step,
        level=level, where=asked.where, metric_column=asked.metric_column, sheet=asked.sheet,
    )  # fmt: skip
    if out:
        result.write(out)
    say_result(result, "text", as_json=json)


def _compared(
    table: str, study: str | None, asked: TableOptions
) -> "tuple[str | pd.DataFrame, dict[str, Any]]":
    """Return the runs and what is compared; what was left out is taken from the study of a store."""
    recorded = audit_question(table, study, asked)
    _, compared = comparison_asked(table, recorded.spec if recorded else None, asked)
    return recorded.table if recorded else table, compared
