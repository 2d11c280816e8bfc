"""`seedspread components`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedspread.cli.output import say
from seedspread.cli.output_options import Form, Json, Level, check_forms
from seedspread.cli.table_options import OneValue, TableOptions, with_table_options

if TYPE_CHECKING:
    import pandas as pd

    from seedspread.study.recorded import RecordedQuestion

_OPTIONS = ("value", "group", "baseline", "block", "by", "at")
_Baseline = Annotated[
    str | None, typer.Option(help="The level to compare the others with; by default every pair.")
]


@with_table_options(_OPTIONS, value=OneValue, baseline=_Baseline)
def components(
    table: Annotated[
        str,
        typer.Argument(help="A .csv, .tsv or .parquet file, a folder of runs, or what `collect` reads."),
    ],
    asked: TableOptions,
    seed: Annotated[str | None, typer.Option(help="The column with the seed.")] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="A column with the seed of one stream; may be repeated.")
    ] = None,
    test_size: Annotated[int | None, typer.Option(help="Test examples, for the test set's floor.")] = None,
    level: Level = 0.95,
    study: Annotated[
        str | None,
        typer.Option(help="For a store: the study, or the collection of studies, by name or .toml."),
    ] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Does the variance sit between seeds, in one of their streams, or in same-seed noise? Per arm."""
    from seedspread.analysis.components.table import components as split
    from seedspread.render.terminal import Terminal

    check_forms(form)
    value, group, baseline, block, by = asked.one_value, asked.group, asked.baseline, asked.block, asked.by
    recorded = _recorded(table, study, value, group)
    runs: str | pd.DataFrame = table
    if recorded is not None:  # what the study of a store is about
        spec = recorded.spec
        group, baseline, value = spec.group, baseline or spec.baseline, value or spec.values[0]
        block, by = block or list(spec.blocks), by or [name for name in spec.strata if name != "study"]
        # A run that several studies name is one run of its arm.
        runs = recorded.table.drop_duplicates(["key", group, *block, *by])
    result = split(
        runs, value or _default_value(table), group, block, seed, stream, by,
        baseline=baseline, test_size=test_size, level=level, at=asked.at,
    )  # fmt: skip
    if json:
        say(result.to_json())
    elif form == "text":
        say(result.to_text(width=Terminal().width))
    else:
        say(result.to_markdown() if form == "markdown" else result.to_latex(), end="")


def _recorded(
    source: str, study: str | None, value: str | None, group: str | None
) -> "RecordedQuestion | None":
    """What the studies of a store are about: the one that is named, or all that ask the same."""
    if study is None and (group is not None or not Path(source).is_dir()):
        return None
    from seedspread.study.recorded import recorded_question

    return recorded_question(source, study, None if value is None else [value], group, [], together=True)


def _default_value(table: str) -> str:
    """Of a store the accuracy; what is not there is found out by whoever reads it."""
    from seedspread.runs.table import is_store
    from seedspread.tables.errors import TableError

    path = Path(table)
    if is_store(path) or not (path.exists() or ":" in table):
        return "accuracy"
    raise TableError(f"which column of {table} has the results? Name it with --value")
