"""Options that several commands share, and functions that print results."""

import inspect
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer
from typer.models import OptionInfo

from seedspread.errors import SeedspreadError, printable

if TYPE_CHECKING:
    from seedspread.study.executor import Executor
    from seedspread.tables.question import Question, Rows


def option(text: str, *names: str, **more: Any) -> Any:
    """Return an option with more than a help text, for which `Annotated[float, "Help."]` is enough."""
    return typer.Option(*names, help=text, **more)


def argument(text: str) -> Any:
    return typer.Argument(help=text)


Json = Annotated[bool, "Print JSON."]
Form = Annotated[str, option("Print text, markdown or latex.", "--format")]
DataDir = Annotated[
    Path | None,
    option("Data folder. Default: SEEDSPREAD_DATA, or your cache folder.", show_default=False),
]
SdIs = Annotated[str, "What follows ±: sd, population (an sd with n, not n - 1) or se (standard error)."]
Review = Annotated[bool, "Four lines to paste into a review."]
Level = Annotated[float, "Level of the intervals."]


def check_forms(form: str, plot: Path | None = None, values: Sequence[str] | None = None) -> None:
    """Refuse a form or a picture that cannot be made, before the work."""
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
        "A file (.csv, .tsv, .txt, .md, .tex, .html, .json, .jsonl, .xlsx, .parquet), - for standard "
        "input, a store of runs, or another tool's log (see collect)."
    ),
]
# For commands that take a single --value.
OneValue = Annotated[str | None, "Column with one number per run."]


@dataclass(frozen=True)
class TableOptions:
    """Options of a question about a table; `with_options` adds each field to a command."""

    value: Annotated[list[str] | None, "Column with one number per run. Repeat for several."] = None
    group: Annotated[str | None, "Column whose levels are compared, such as optimizer."] = None
    baseline: Annotated[
        str | None, "Level to compare the others with. Default: the first of two, else every pair."
    ] = None
    block: Annotated[
        list[str] | None,
        "Column varied within a seed (e.g. precision). Runs that share a seed count as one.",
    ] = None
    seed: Annotated[str, "Column with the seed. Its usual names are recognized."] = "seed"
    no_seed: Annotated[bool, "Every row is an independent run."] = False
    by: Annotated[
        list[str] | None, "Column, such as dataset, whose levels are analyzed separately. Repeat for several."
    ] = None
    where: Annotated[
        list[str] | None, "Rows to use, such as 'step == 4000 and task in (a, b)'. Repeat to narrow further."
    ] = None
    last: Annotated[str | None, "Column, such as step: keep each run's row with the largest value."] = None
    best: Annotated[str | None, "Column, such as val_acc: keep each run's best row."] = None
    wide: Annotated[
        str | None, "One column per seed: their pattern, such as 'seed_*'. Without one they are found."
    ] = None
    metric_column: Annotated[
        str | None, "Column with the metric's name, for tables with a row per metric."
    ] = None
    sheet: Annotated[str | None, "Sheet of an Excel file. Default: the first."] = None
    at: Annotated[str, "Which step of another tool's log: last, best or step=N."] = "last"
    unpaired: Annotated[bool, "Do not pair groups by seed, e.g. if they come from two codebases."] = False
    no_steps: Annotated[bool, "Columns such as epochs are settings, not steps."] = False
    higher: Annotated[
        bool, option("Higher values are better. Default: by the column's name.", "--higher-is-better")
    ] = False
    lower: Annotated[bool, option("Lower values are better.", "--lower-is-better")] = False

    def __post_init__(self) -> None:
        if self.no_seed and self.seed != "seed":
            raise SeedspreadError("give --seed or --no-seed, not both")
        direction(self.higher, self.lower)

    def refuse(self, *names: str, reason: str) -> None:
        for name in names:
            if getattr(self, name):
                raise SeedspreadError(
                    f"--{name.replace('_', '-')} does not go with {reason}; leave out one of them"
                )

    @property
    def one_value(self) -> str | None:
        return self.value[0] if self.value else None

    @property
    def seed_column(self) -> str | None:
        """The column with the seed; None if each row is an independent run."""
        return None if self.no_seed else self.seed

    @property
    def better(self) -> Literal["higher", "lower"] | None:
        return direction(self.higher, self.lower)

    @property
    def rows(self) -> "Rows":
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


# Placeholder of an option's value in the help: by its type, and for text by its name.
_WORDS = {int: "N", float: "X", Path: "PATH"}
_COLUMNS = "value group block by seed metric_column last best source step".split()
_NAMED = dict.fromkeys(_COLUMNS, "COLUMN") | {"baseline": "LEVEL", "wide": "PATTERN", "where": "CONDITION"}


def described(
    command: Callable[..., None], given: Iterable[inspect.Parameter] | None = None
) -> Callable[..., None]:
    """Declare a command's parameters to typer; one that is annotated with only a help text becomes an option.

    A flag has no opposite, such as `--no-json`.
    """
    parameters = list(inspect.signature(command).parameters.values() if given is None else given)
    for place, one in enumerate(parameters):
        text = getattr(one.annotation, "__metadata__", (None,))[0]
        if text is None:
            continue
        kind = one.annotation.__origin__
        if isinstance(text, str):
            names = [f"--{one.name.replace('_', '-')}"] if kind is bool else []
            text = option(text, *names)
            parameters[place] = one.replace(annotation=Annotated[kind, text])
        if isinstance(text, OptionInfo) and text.metavar is None:
            while get_args(kind):  # of `list[str] | None`
                kind = get_args(kind)[0]
            text.metavar = _NAMED.get(one.name, "TEXT") if kind is str else _WORDS.get(kind)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def direction(higher: bool, lower: bool) -> Literal["higher", "lower"] | None:
    """Return the direction that a flag declares as better, if one was given."""
    if higher and lower:
        raise SeedspreadError("give --higher-is-better or --lower-is-better, not both")
    return "higher" if higher else "lower" if lower else None


Seeds = Annotated[
    str | None,
    option("Seeds to use instead of the study's: 5 means 1 to 5; or a list such as 3,7.", metavar="N|LIST"),
]
Settings = Annotated[
    list[str] | None,
    option("Change a setting of the study. Repeat for several.", "--set", metavar="FIELD=VALUE"),
]


@dataclass(frozen=True)
class EngineOptions:
    """Options of the engines; each field but `backend` applies to the engines that its help names."""

    backend: Annotated[str, "Where to run: local, ray or slurm."] = "local"
    workers: Annotated[
        int | None, option("local, slurm: runs at once. Default on local: one per core.", min=1)
    ] = None
    threads: Annotated[
        int | None, option("local: CPU threads per run. Default: the study's, or 1.", min=1)
    ] = None
    cpus_per_run: Annotated[
        int | None, option("ray, slurm: CPUs and threads per run. Default: the study's, or 1.", min=1)
    ] = None
    gpus_per_run: Annotated[
        float | None,
        option("GPUs per run. On local and ray, 0.25 lets four runs share one.", min=0),
    ] = None
    address: Annotated[str | None, "ray: address of a running cluster, such as auto."] = None
    partition: Annotated[str | None, "slurm: partition."] = None
    slurm: Annotated[
        str | None,
        option("slurm: further sbatch options, such as account=x,mem=8G.", metavar="NAME=VALUE,..."),
    ] = None
    minutes: Annotated[int | None, option("slurm: time limit of a job. Default: 720.", min=1)] = None
    wait: Annotated[
        bool | None, option("slurm: wait for the jobs (default), or submit and return.", show_default=False)
    ] = None

    def executor(self) -> "Executor":
        from seedspread.study.study import executor_named

        given = {name: value for name, value in vars(self).items() if name not in ("backend", "slurm")}
        return executor_named(self.backend, given | {"extra": self._pairs()})

    def _pairs(self) -> dict[str, str] | None:
        """Parse `account=x,mem=8G`."""
        if self.slurm is None:
            return None
        pairs = [pair.partition("=") for pair in self.slurm.split(",")]
        if not all(name.strip() and value.strip() for name, _, value in pairs):
            raise SeedspreadError(f"--slurm must be NAME=VALUE, with commas between them; got {self.slurm!r}")
        return {name.strip().replace("-", "_"): value.strip() for name, _, value in pairs}


def say(text: object, *, err: bool = False, end: str = "\n") -> None:
    """Print plain text to stdout or stderr, without control characters, which text from files may have."""
    print(printable(str(text)), file=sys.stderr if err else sys.stdout, end=end, flush=True)


def say_prose(text: str) -> None:
    """Print sentences, wrapped between words on a terminal but not in a pipe."""
    width = shutil.get_terminal_size().columns
    lines = (textwrap.fill(line, width, break_on_hyphens=False) for line in text.splitlines())
    say("\n".join(lines) if sys.stdout.isatty() else text)


def say_json(values: Any) -> None:
    """Print JSON in which every character but printable ASCII is escaped."""
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
        # Control characters from files are already removed; those of colors are there only on a terminal.
        print(result.to_text(width=out.width, color=out.color_system, **options), flush=True)
    else:
        write = result.to_markdown if form == "markdown" else result.to_latex
        say(write(details=any(options.values())), end="")


def draw(result: Any, path: Path | None, **how: bool) -> None:
    """Draw a result if a path is given, and print the path to stderr."""
    if path is None:
        return
    from seedspread.render.terminal import Terminal

    result.draw(path, **how)
    Terminal(stderr=True).print(f"picture in {path}", soft_wrap=True)
