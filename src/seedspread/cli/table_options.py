"""The options that say what is asked of a table."""

from typing import Annotated

import typer

Source = Annotated[
    str,
    typer.Argument(
        help="A .csv, .tsv, .txt, .json, .jsonl, .xlsx or .parquet file, a folder of runs, or what `collect` "
        "reads."
    ),
]
Values = Annotated[
    list[str] | None, typer.Option(help="The column with one number per run; may be repeated.")
]
Group = Annotated[str | None, typer.Option(help="The column whose levels are compared.")]
Baseline = Annotated[
    str | None,
    typer.Option(help="The level to compare with; by default the first of two, or every pair."),
]
Block = Annotated[
    list[str] | None, typer.Option(help="A column that tells runs of one seed apart; may be repeated.")
]
Seed = Annotated[str, typer.Option(help="The column with the seed; its usual names are found too.")]
NoSeed = Annotated[bool, typer.Option("--no-seed", help="Every row is a run of its own.")]
By = Annotated[
    list[str] | None,
    typer.Option(help="A column, such as dataset, whose levels are audited separately; may be repeated."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Take rows such as 'step == 4000 and task in (a, b)'; may be repeated."),
]
Last = Annotated[
    str | None, typer.Option(help="Keep of each run the row where this column, the step, is largest.")
]
Best = Annotated[str | None, typer.Option(help="Keep of each run the row where this column is best.")]
Wide = Annotated[
    str | None, typer.Option(help="The columns that hold one seed each: 'seed_*'; alone it finds them.")
]
MetricColumn = Annotated[
    str | None, typer.Option(help="The column that names the metric, of which --value is one.")
]
Sheet = Annotated[str | None, typer.Option(help="The sheet of an Excel file; the first by default.")]
At = Annotated[str, typer.Option(help="For runs that another tool logged by step: last, best or step=N.")]
Higher = Annotated[bool, typer.Option("--higher-is-better", help="The value is better when higher.")]
Lower = Annotated[
    bool,
    typer.Option("--lower-is-better", help="The value is better when lower; by default its name decides."),
]
