"""The command line: one file per group of commands, no logic."""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from seedspread.cli import analyze, data, paper, study
from seedspread.cli import report as reporting
from seedspread.cli.docs import docs
from seedspread.cli.help import explain, without_type
from seedspread.cli.output import say
from seedspread.errors import SeedspreadError, printable
from seedspread.version import __version__

_DEBUG = "--debug"


@contextmanager
def _printable_usage_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = printable(message)  # type: ignore[attr-defined]
        raise


class _Commands(TyperGroup):
    """Explains mistyped arguments, which may be names of files, without their control characters."""

    def get_params(self, ctx: Any) -> Any:
        """All of them, flags without a type."""
        return without_type(super().get_params(ctx))

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _printable_usage_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _printable_usage_errors():
            return super().invoke(ctx)


class _SwallowedError(Exception):
    """Carries what typer would end in silence: an interruption, or the unexpected end of a file."""


class _Root(_Commands):
    """The command `seedspread` itself: takes `--debug` anywhere, and tells the new names of old commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As if `--debug` stood first, unless it follows a `--` and so is a name."""
        end = args.index("--") if "--" in args else len(args)
        if _DEBUG in args[:end]:
            args = [_DEBUG, *(word for word in args[:end] if word != _DEBUG), *args[end:]]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] == "campaign":
            raise SeedspreadError(_renamed(args[1:]))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (EOFError, KeyboardInterrupt) as error:
            raise _SwallowedError from error


def _renamed(words: list[str]) -> str:
    """What has become of `seedspread campaign`."""
    if words and words[0] in ("plan", "run", "status"):
        return f"seedspread campaign {words[0]} is now seedspread {words[0]}"
    return "seedspread campaign is now seedspread plan, seedspread run and seedspread status"


app = typer.Typer(
    cls=_Root,
    name="seedspread",
    help="Did this implementation detail change how much my results spread across seeds?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Analyze": (analyze.audit, analyze.compare, analyze.components, analyze.seeds, analyze.collect),
    "Run": (study.plan, study.run, study.status, reporting.report, reporting.serve, docs),
    "Paper": (paper.quickstart, paper.train, paper.diagnose, paper.verify_paper),
}
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
app.add_typer(data.app, name="data", cls=_Commands, rich_help_panel="Paper")
explain(app)


_debugging: ContextVar[bool] = ContextVar("debugging", default=False)


def _debug(wanted: bool) -> None:
    _debugging.set(wanted)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"seedspread {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            _DEBUG,
            envvar="SEEDSPREAD_DEBUG",
            callback=_debug,
            is_eager=True,
            help="Show the traceback of an error.",
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line; an error is one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that knows no dots gets question marks, not a traceback.
            stream.reconfigure(errors="replace")
    try:
        app()
    except _SwallowedError as carrier:
        _fail(carrier.__cause__ or carrier)
    except (Exception, KeyboardInterrupt) as error:
        _fail(error)


def _fail(error: BaseException) -> NoReturn:
    """Ends the program with one line that says what happened, and with `--debug` where."""
    if _debugging.get():
        say(_traceback(error), err=True, end="")
    if isinstance(error, KeyboardInterrupt):
        say("interrupted", err=True)
        sys.exit(130)
    if isinstance(error, SeedspreadError):
        message = str(error)
    elif isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        message = f"{error.filename}: {error.strerror}"
    else:
        what = SeedspreadError(f"unexpected {type(error).__name__}{f': {error}' if str(error) else ''}")
        message = f"{what}" if _debugging.get() else f"{what}; run again with {_DEBUG} to see where"
    say(f"error: {message}", err=True)
    sys.exit(error.exit_code if isinstance(error, SeedspreadError) else SeedspreadError.exit_code)


def _traceback(error: BaseException) -> str:
    """Where an error comes from, with the errors that it took the place of."""
    inner: BaseException | None = error
    while inner is not None:
        inner.__suppress_context__ = False
        inner = inner.__cause__ or inner.__context__
    return "".join(traceback.format_exception(error))
