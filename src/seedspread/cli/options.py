"""The options of several commands, each declared once, and how their results are printed."""

import inspect
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from seedspread.errors import SeedspreadError, printable

if TYPE_CHECKING:
    from seedspread.study.executor import Executor
    from seedspread.tables.question import Question, Rows


def option(text: str, *names: str, **more: Any) -> Any:
    """An option that has more to it than its help, which `Annotated[float, "Its help."]` declares."""
    return typer.Option(*names, help=text, **more)


def argument(text: str) -> Any:
    return typer.Argument(help=text)


Json = Annotated[bool, "Print the result as JSON."]
Form = Annotated[str, option("text, markdown or latex.", "--format")]
DataDir = Annotated[
    Path | None,
    option("The data folder; by default SEEDSPREAD_DATA, or your cache folder.", show_default=False),
]
SdIs = Annotated[str, "What follows ±: sd (with n - 1), population (an sd with n) or se (of the mean)."]
Review = Annotated[bool, "Four lines to paste into a review."]
Level = Annotated[float, "The level of the intervals."]


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
    argument(
        "A .csv, .tsv, .txt, .md, .tex, .html, .json, .jsonl, .xlsx or .parquet file, - for standard "
        "input, a folder of runs, or what `collect` reads."
    ),
]
# For commands that take a single --value.
OneValue = Annotated[str | None, "The column with one number per run."]


@dataclass(frozen=True)
class TableOptions:
    """What a user asks of a table: every field is an option of the commands under `with_options`."""

    value: Annotated[list[str] | None, "The column with one number per run; may be repeated."] = None
    group: Annotated[str | None, "The column whose levels are compared."] = None
    baseline: Annotated[
        str | None, "The level to compare with; by default the first of two, or every pair."
    ] = None
    block: Annotated[list[str] | None, "A column that tells runs of one seed apart; may be repeated."] = None
    seed: Annotated[str, "The column with the seed; its usual names are found too."] = "seed"
    no_seed: Annotated[bool, "Every row is a run of its own."] = False
    by: Annotated[
        list[str] | None, "A column, such as dataset, whose levels are analyzed separately; may be repeated."
    ] = None
    where: Annotated[
        list[str] | None, "Take rows such as 'step == 4000 and task in (a, b)'; may be repeated."
    ] = None
    last: Annotated[str | None, "Keep of each run the row where this column, the step, is largest."] = None
    best: Annotated[str | None, "Keep of each run the row where this column is best."] = None
    wide: Annotated[str | None, "The columns that hold one seed each: 'seed_*'; alone it finds them."] = None
    metric_column: Annotated[str | None, "The column that names the metric, of which --value is one."] = None
    sheet: Annotated[str | None, "The sheet of an Excel file; the first by default."] = None
    at: Annotated[str, "For runs that another tool logged by step: last, best or step=N."] = "last"
    unpaired: Annotated[bool, "Equal seeds of two groups make no pair (two codebases)."] = False
    no_steps: Annotated[bool, "A column such as epochs is a setting of runs, not their step."] = False
    higher: Annotated[bool, option("The value is better when higher.", "--higher-is-better")] = False
    lower: Annotated[
        bool, option("The value is better when lower; by default its name decides.", "--lower-is-better")
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
        same = ("where", "last", "best", "wide", "metric_column", "sheet", "at")
        chosen = {name: getattr(self, name) for name in same}
        return cast("Rows", {**chosen, "paired": not self.unpaired, "steps": not self.no_steps})

    def question(self) -> "Question":
        from seedspread.tables.question import Question

        return Question.of(
            self.one_value, self.group, self.baseline, self.block, self.seed_column, self.by, **self.rows
        )


def with_options(
    only: Sequence[str] | None = None, **differing: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameters of a command that are dataclasses, such as `TableOptions`, with their options.

    Args:
        only: the table's options that the command has; all by default.
        differing: annotations of options that the command describes differently, by name.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        groups: dict[str, tuple[Any, list[str]]] = {}
        for parameter in inspect.signature(command).parameters.values():
            kind = parameter.annotation
            if not is_dataclass(kind):
                parameters.append(parameter)
                continue
            options = [
                one for one in fields(kind) if kind is not TableOptions or one.name in (only or [one.name])
            ]
            groups[parameter.name] = kind, [one.name for one in options]
            parameters += [
                parameter.replace(
                    name=one.name, default=one.default, annotation=differing.get(one.name, one.type)
                )
                for one in options
            ]

        @wraps(command)
        def run(**given: Any) -> None:
            for name, (kind, options) in groups.items():
                typed = {option_name: given.pop(option_name) for option_name in options}
                if isinstance(typed.get("value"), str):
                    typed["value"] = [typed["value"]]
                given[name] = kind(**typed)
            command(**given)

        return described(run, parameters)

    return decorate


def described(
    command: Callable[..., None], given: Iterable[inspect.Parameter] | None = None
) -> Callable[..., None]:
    """Give a command its parameters, as typer reads them: what has only a help becomes an option.

    A flag has one name, and no opposite.
    """
    parameters = list(inspect.signature(command).parameters.values() if given is None else given)
    for place, one in enumerate(parameters):
        text = getattr(one.annotation, "__metadata__", (None,))[0]
        if isinstance(text, str):
            kind = one.annotation.__origin__
            names = [f"--{one.name.replace('_', '-')}"] if kind is bool else []
            parameters[place] = one.replace(annotation=Annotated[kind, option(text, *names)])
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def direction(higher: bool, lower: bool) -> Literal["higher", "lower"] | None:
    """Return which direction the flags declare better, if either was given."""
    if higher and lower:
        raise SeedspreadError("give --higher-is-better or --lower-is-better, not both")
    return "higher" if higher else "lower" if lower else None


Implementation = Annotated[
    Literal["fast", "plain", "native"] | None,
    "All engines: how the paper's training is computed, part of a run's identity; native takes a "
    "C++ compiler. By default what the store's record says, or the study.",
]
Seeds = Annotated[
    str | None,
    option("Seeds in place of the study's: 5 for 1 to 5, or a list such as 3,7.", metavar="N|LIST"),
]
Settings = Annotated[
    list[str] | None,
    option("A setting in place of the study's; may be repeated.", "--set", metavar="FIELD=VALUE"),
]


@dataclass(frozen=True)
class EngineOptions:
    """Where and how runs are run: every field but the first is an option of some engines."""

    backend: Annotated[str, "Where: local, ray or slurm."] = "local"
    workers: Annotated[
        int | None, option("local, slurm: how many at once; on local one per core by default.", min=1)
    ] = None
    threads: Annotated[
        int | None, option("local: CPU threads per run; the study's by default, or 1.", min=1)
    ] = None
    cpus_per_run: Annotated[
        int | None, option("ray, slurm: CPUs per run, and its threads; the study's by default, or 1.", min=1)
    ] = None
    gpus_per_run: Annotated[
        float | None,
        option("local, ray, slurm: GPUs per run; on local and ray 0.25 lets four share one.", min=0),
    ] = None
    address: Annotated[str | None, "ray: an existing cluster, such as auto."] = None
    partition: Annotated[str | None, "slurm: the partition."] = None
    slurm: Annotated[
        str | None, option("slurm: more of sbatch's, such as account=x,mem=8G.", metavar="NAME=VALUE,...")
    ] = None
    minutes: Annotated[int | None, option("slurm: the time limit of a job; 720 by default.", min=1)] = None
    wait: Annotated[bool | None, option("slurm: wait for the jobs; the default.", show_default=False)] = None

    def executor(self) -> "Executor":
        from seedspread.study.study import executor_named

        given = {name: value for name, value in vars(self).items() if name not in ("backend", "slurm")}
        return executor_named(self.backend, given | {"extra": self._pairs()})

    def _pairs(self) -> dict[str, str] | None:
        """`account=x,mem=8G`."""
        if self.slurm is None:
            return None
        pairs = [pair.partition("=") for pair in self.slurm.split(",")]
        if not all(name.strip() and value.strip() for name, _, value in pairs):
            raise SeedspreadError(f"--slurm must be NAME=VALUE, with commas between them; got {self.slurm!r}")
        return {name.strip().replace("-", "_"): value.strip() for name, _, value in pairs}


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


def say_result(
    result: Any, form: str, *, as_json: bool = False, review: bool = False, **options: bool
) -> None:
    """Print a result object in one of its forms; `options` are those of its text."""
    from seedspread.render.terminal import Terminal

    if review:
        from seedspread.analysis.published import review as reviewed

        say(reviewed(result))
    elif as_json:
        say(result.to_json())
    elif form == "text":
        out = Terminal()
        # Its texts have no control characters of a file's any more, and its colors only on a terminal.
        print(result.to_text(width=out.width, color=out.color_system, **options), flush=True)
    else:
        write = result.to_markdown if form == "markdown" else result.to_latex
        say(write(details=any(options.values())), end="")


def draw(result: Any, path: Path | None) -> None:
    """Draw a result, if that is asked for, and tell people, but no pipe, where."""
    if path is None:
        return
    from seedspread.render.terminal import Terminal

    result.draw(path)
    Terminal(stderr=True).print(f"picture in {path}", soft_wrap=True)
