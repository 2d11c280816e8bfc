"""The options of several commands, each declared once, and how their results are printed."""

import inspect
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seedspread.errors import SeedspreadError, printable

if TYPE_CHECKING:
    from seedspread.tables.question import Question, Rows

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Form = Annotated[str, typer.Option("--format", help="text, markdown or latex.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="The data folder; by default SEEDSPREAD_DATA, or your cache folder.", show_default=False
    ),
]
SdIs = Annotated[
    str, typer.Option(help="What follows ±: sd (with n - 1), population (an sd with n) or se (of the mean).")
]
Review = Annotated[bool, typer.Option("--review", help="Four lines to paste into a review.")]
Level = Annotated[float, typer.Option(help="The level of the intervals.")]


def check_forms(form: str, plot: Path | None = None, values: Sequence[str] | None = None) -> None:
    """Refuses what cannot be printed or drawn, before the work."""
    forms = ("text", "markdown", "latex")
    if form not in forms:
        raise SeedspreadError(f"--format must be one of {', '.join(forms)}; got {form!r}")
    if plot:
        from seedspread.render.chart import check_picture

        check_picture(plot)
    if plot and values and len(values) > 1:
        raise SeedspreadError("a picture shows one value: give one --value with --plot")


Source = Annotated[
    str,
    typer.Argument(
        help="A .csv, .tsv, .txt, .md, .tex, .html, .json, .jsonl, .xlsx or .parquet file, - for standard "
        "input, a folder of runs, or what `collect` reads."
    ),
]
# For commands that take a single --value.
OneValue = Annotated[str | None, typer.Option(help="The column with one number per run.")]


@dataclass(frozen=True)
class TableOptions:
    """What a user asks of a table: every field is an option of the commands under `with_table_options`."""

    value: Annotated[
        list[str] | None, typer.Option(help="The column with one number per run; may be repeated.")
    ] = None
    group: Annotated[str | None, typer.Option(help="The column whose levels are compared.")] = None
    baseline: Annotated[
        str | None,
        typer.Option(help="The level to compare with; by default the first of two, or every pair."),
    ] = None
    block: Annotated[
        list[str] | None, typer.Option(help="A column that tells runs of one seed apart; may be repeated.")
    ] = None
    seed: Annotated[str, typer.Option(help="The column with the seed; its usual names are found too.")] = (
        "seed"
    )
    no_seed: Annotated[bool, typer.Option("--no-seed", help="Every row is a run of its own.")] = False
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="A column, such as dataset, whose levels are analyzed separately; may be repeated."
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(help="Take rows such as 'step == 4000 and task in (a, b)'; may be repeated."),
    ] = None
    last: Annotated[
        str | None, typer.Option(help="Keep of each run the row where this column, the step, is largest.")
    ] = None
    best: Annotated[str | None, typer.Option(help="Keep of each run the row where this column is best.")] = (
        None
    )
    wide: Annotated[
        str | None, typer.Option(help="The columns that hold one seed each: 'seed_*'; alone it finds them.")
    ] = None
    metric_column: Annotated[
        str | None, typer.Option(help="The column that names the metric, of which --value is one.")
    ] = None
    sheet: Annotated[str | None, typer.Option(help="The sheet of an Excel file; the first by default.")] = (
        None
    )
    at: Annotated[
        str, typer.Option(help="For runs that another tool logged by step: last, best or step=N.")
    ] = "last"
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Equal seeds of two groups make no pair (two codebases).")
    ] = False
    no_steps: Annotated[
        bool, typer.Option("--no-steps", help="A column such as epochs is a setting of runs, not their step.")
    ] = False
    higher: Annotated[bool, typer.Option("--higher-is-better", help="The value is better when higher.")] = (
        False
    )
    lower: Annotated[
        bool,
        typer.Option(
            "--lower-is-better", help="The value is better when lower; by default its name decides."
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.no_seed and self.seed != "seed":
            raise SeedspreadError("give --seed or --no-seed, not both")
        direction(self.higher, self.lower)

    def refuse(self, *names: str, reason: str) -> None:
        """Refuse options that would be ignored."""
        for name in names:
            if getattr(self, name):
                raise SeedspreadError(
                    f"--{name.replace('_', '-')} does not go with {reason}; leave out one of them"
                )

    @property
    def one_value(self) -> str | None:
        """The value, or the first of several."""
        return self.value[0] if self.value else None

    @property
    def seed_column(self) -> str | None:
        """The column with the seed; None if each row is a run of its own."""
        return None if self.no_seed else self.seed

    @property
    def better(self) -> Literal["higher", "lower"] | None:
        return direction(self.higher, self.lower)

    @property
    def rows(self) -> "Rows":
        """Row selection."""
        return {
            "where": self.where,
            "last": self.last,
            "best": self.best,
            "wide": self.wide,
            "metric_column": self.metric_column,
            "sheet": self.sheet,
            "at": self.at,
            "paired": not self.unpaired,
            "steps": not self.no_steps,
        }

    def question(self) -> "Question":
        from seedspread.tables.question import Question

        return Question.of(
            self.one_value, self.group, self.baseline, self.block, self.seed_column, self.by, **self.rows
        )


def with_table_options(
    only: Sequence[str] | None = None, **differing: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `asked: TableOptions` of a command with the options themselves.

    Args:
        only: the options that the command has; all by default.
        differing: annotations of options that the command describes differently, by name.
    """
    options = [field for field in fields(TableOptions) if only is None or field.name in only]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name != "asked":
                parameters.append(parameter)
                continue
            parameters += [
                inspect.Parameter(
                    option.name,
                    parameter.kind,
                    default=option.default,
                    annotation=differing.get(option.name, option.type),
                )
                for option in options
            ]

        @wraps(command)
        def run(**given: Any) -> None:
            typed = {option.name: given.pop(option.name) for option in options}
            if isinstance(typed.get("value"), str):
                typed["value"] = [typed["value"]]
            command(asked=TableOptions(**typed), **given)

        # What typer reads a command's options from.
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def direction(higher: bool, lower: bool) -> Literal["higher", "lower"] | None:
    """Return which direction the flags declare better, if either was given."""
    if higher and lower:
        raise SeedspreadError("give --higher-is-better or --lower-is-better, not both")
    return "higher" if higher else "lower" if lower else None


Backend = Annotated[str, typer.Option(help="Where: local, ray or slurm.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="local, slurm: how many at once; on local one per core by default."),
]
Implementation = Annotated[
    Literal["fast", "plain", "native"] | None,
    typer.Option(
        help="All engines: how the paper's training is computed, part of a run's identity; native takes a "
        "C++ compiler. By default what the store's record says, or the study."
    ),
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="local: CPU threads per run; the study's by default, or 1.")
]
CpusPerRun = Annotated[
    int | None,
    typer.Option(min=1, help="ray, slurm: CPUs per run, and its threads; the study's by default, or 1."),
]
GpusPerRun = Annotated[
    float | None,
    typer.Option(min=0, help="local, ray, slurm: GPUs per run; on local and ray 0.25 lets four share one."),
]
Address = Annotated[str | None, typer.Option(help="ray: an existing cluster, such as auto.")]
Partition = Annotated[str | None, typer.Option(help="slurm: the partition.")]
Slurm = Annotated[
    str | None,
    typer.Option(metavar="NAME=VALUE,...", help="slurm: more of sbatch's, such as account=x,mem=8G."),
]
Minutes = Annotated[int | None, typer.Option(min=1, help="slurm: the time limit of a job; 720 by default.")]
Wait = Annotated[bool | None, typer.Option(help="slurm: wait for the jobs; the default.", show_default=False)]
MaxFailures = Annotated[
    int | None, typer.Option(min=1, help="All engines: stop once this many runs have failed.")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="All engines: try failed runs again.")]
KeepGoing = Annotated[
    bool,
    typer.Option("--keep-going", help="All engines: run the rest even if the first runs all fail alike."),
]
Strict = Annotated[bool, typer.Option("--strict", help="All engines: exit with status 3 if a run failed.")]
Reread = Annotated[
    bool,
    typer.Option("--reread", help="Run nothing: take metrics from what runs have printed and left."),
]
RevisionNames = Annotated[
    str | None,
    typer.Option("--revisions", help="Git revisions to compare, such as main..my-branch; . is as it lies."),
]
Seeds = Annotated[int | None, typer.Option(min=1, help="With --revisions: how many.")]
MetricName = Annotated[
    str | None,
    typer.Option(metavar="NAME[=REGEX]", help="With --revisions: the metric, and how its output shows it."),
]
Setup = Annotated[str, typer.Option(help="With --revisions: a shell line, run once per checkout.")]
CleanRevisions = Annotated[
    bool, typer.Option("--clean-revisions", help="Run nothing: remove the checkouts of the store.")
]
LeaseSeconds = Annotated[
    float,
    typer.Option(min=1, help="All engines: take over a run whose worker has been silent for this long."),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="All engines: allow other threads or another implementation than the study began with.",
    ),
]


def say(text: object, *, err: bool = False, end: str = "\n") -> None:
    """Prints plain text to stdout, or to stderr, without the control characters that files bring."""
    print(printable(str(text)), file=sys.stderr if err else sys.stdout, end=end, flush=True)


def say_prose(text: str) -> None:
    """Prints sentences, on a terminal in lines that end between words; a pipe gets them whole."""
    width = shutil.get_terminal_size().columns
    say(textwrap.fill(text, width, break_on_hyphens=False) if sys.stdout.isatty() else text)


def say_json(values: Any) -> None:
    """Prints JSON; what is no printable ASCII character is escaped in it."""
    print(json.dumps(values, indent=2).replace("\x7f", "\\u007f"), flush=True)


def say_result(result: Any, form: str, *, as_json: bool = False, **options: bool) -> None:
    """Print a result object in one of its forms; `options` are those of its text."""
    from seedspread.render.terminal import Terminal

    if as_json:
        say(result.to_json())
    elif form == "text":
        say(result.to_text(width=Terminal().width, **options))
    else:
        write = result.to_markdown if form == "markdown" else result.to_latex
        more = {"details": True} if any(options.values()) and "explain" in options else {}
        say(write(**more), end="")


def say_picture(path: Path) -> None:
    """Tell people, but no pipe, where a picture was written."""
    from seedspread.render.terminal import Terminal

    Terminal(stderr=True).print(f"picture in {path}", soft_wrap=True)
