"""The command line: one file per group of commands, no logic."""

import sys
import traceback
from contextvars import ContextVar
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from seedspread.cli import analyze, data, paper, study
from seedspread.cli import report as reporting
from seedspread.cli.options import described, option, say
from seedspread.errors import SeedspreadError, in_terminal
from seedspread.version import __version__

# An example of each command, as one would type it.
EXAMPLES = {
    "train": "seedspread train quickstart --seed 3 --out run3",
    "diagnose": "seedspread diagnose run3",
    "audit": "seedspread audit results.csv --value accuracy --group optimizer --baseline adam --by dataset",
    "check": "seedspread check 0.291±0.047 0.316±0.004 --n 10",
    "compare": "seedspread compare old.csv new.csv --value accuracy --group optimizer --baseline adam",
    "gate": "seedspread gate history.csv new.csv --value gsm8k --group test",
    "seeds": "seedspread seeds --ratio 4",
    "collect": "seedspread collect mlruns --metric accuracy --out results.csv",
    "components": "seedspread components results.csv --value accuracy",
    "curves": "seedspread curves store --metric val_acc --group optimizer --out curves.pdf",
    "verify-paper": "seedspread verify-paper",
    "report": "seedspread report store --out report.html",
    "serve": "seedspread serve store --port 0",
    "quickstart": "seedspread quickstart --store quickstart",
    "docs": "seedspread docs statistics",
    "plan": "seedspread plan study.toml --store runs",
    "run": "seedspread run study.toml --store runs --workers 2",
    "status": "seedspread status study.toml --store runs --watch",
    "data list": "seedspread data list",
    "data fetch": "seedspread data fetch cifar10",
    "data check": "seedspread data check cifar10",
}

# Panels of the help, by command: the options of each, in order.
_RUN_PANELS = {
    "Study": "seeds settings revisions metric setup data_dir accept_changed",
    "Where": "store backend workers threads cpus_per_run gpus_per_run address partition slurm minutes wait",
    "Failures": "retry_failed keep_going strict lease_seconds",
    "Output": "watch verify json help",
}
_TABLE_PANELS = {
    "Columns": "value metric group baseline block by seed no_seed source step metric_column wide",
    "Rows": "where last best at no_steps sheet study studies",
    "Statistics": "level confidence alpha equivalence margin two_sided unpaired higher lower chance "
    "test_size scale n sd_is factors interactions sigma sd_below",
    "Output": "review methods details explain oneline plot out figures tables everything data_dir form "
    "json help",
}
PANELS = {
    **dict.fromkeys(("audit", "compare", "gate", "components", "curves", "report"), _TABLE_PANELS),
    **dict.fromkeys(("plan", "run", "status"), _RUN_PANELS),
}


class Command(TyperCommand):
    """A command whose help lists its options in panels, flags without a type."""

    def get_params(self, ctx: Any) -> Any:
        params = without_type(super().get_params(ctx))
        chosen = PANELS.get(self.name or "", {})
        panels = {name: panel for panel, names in chosen.items() for name in names.split()}
        for param in params:
            if param.name in panels and param.param_type_name == "option":
                param.rich_help_panel = panels[param.name]
        order = list(panels)
        return sorted(params, key=lambda param: order.index(param.name) if param.name in panels else -1)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse to take an option with one value twice: the first value would be silently ignored."""
        args = with_implied(args)
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        once = [p for p in given if p.param_type_name == "option" and not p.multiple]
        for place, param in enumerate(once):
            if param in once[:place] and not getattr(param, "is_flag", False):
                name = param.opts[0]
                raise SeedspreadError(f"{name} is given twice, and takes one value; leave out one of them")
        return super().parse_args(ctx, args)


def with_implied(args: list[str]) -> list[str]:
    """Return the arguments with an option's implied value: `--wide` alone is `--wide auto`."""
    out: list[str] = []
    for word, after in pairwise([*args, "--"]):
        out += [word, "auto"] if word == "--wide" and after.startswith("--") else [word]
    return out


def without_type(params: Any) -> Any:
    """Hide the type of flags in the help: no value follows them."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


_DEBUG = "--debug"


class _Commands(TyperGroup):
    """A group of commands whose help shows no type for flags."""

    def get_params(self, ctx: Any) -> Any:
        return without_type(super().get_params(ctx))


class _Root(_Commands):
    """The command `seedspread` itself, which takes `--debug` anywhere."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move `--debug` to the front, unless it is a name after `--`."""
        end = args.index("--") if "--" in args else len(args)
        if _DEBUG in args[:end]:
            args = [_DEBUG, *(word for word in args[:end] if word != _DEBUG), *args[end:]]
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)
        for param in params:
            param.hidden |= param.name == "show_completion"  # --install-completion is enough for most
        return params

    def invoke(self, ctx: Any) -> Any:
        token = in_terminal.set(True)
        try:
            return super().invoke(ctx)
        except (EOFError, KeyboardInterrupt) as error:  # typer would exit silently
            _fail(error)
        finally:
            in_terminal.reset(token)


app = typer.Typer(
    cls=_Root,
    name="seedspread",
    help="Did this change alter how much my results spread across seeds?",
    epilog="Start with: seedspread audit results.csv  (it suggests the options)",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PANELS = (
    ("Analyze", analyze, "audit check compare gate components curves seeds collect"),
    ("Run", study, "plan run status"),
    ("Run", reporting, "report serve docs"),
    ("Paper", paper, "quickstart train diagnose verify-paper"),
)
for _panel, _module, _names in _PANELS:
    for _name in _names.split():
        # A negative value, as in `check -0.3±0.1`, is not an option.
        _settings = {"ignore_unknown_options": True} if _name == "check" else None
        app.command(_name, rich_help_panel=_panel, context_settings=_settings)(
            described(getattr(_module, _name.replace("-", "_")))
        )
_start = "Start with: seedspread data list"
app.add_typer(data.app, name="data", cls=_Commands, rich_help_panel="Paper", epilog=_start)
for _path, _app in (("", app), ("data ", data.app)):
    for _registered in _app.registered_commands:
        _registered.cls, _registered.epilog = Command, f"Example: {EXAMPLES[f'{_path}{_registered.name}']}"


_debugging: ContextVar[bool] = ContextVar("debugging", default=False)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"seedspread {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, option("Show the version.", "--version", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, option("Show the traceback of an error.", _DEBUG, envvar="SEEDSPREAD_DEBUG")
    ] = False,
) -> None:
    _debugging.set(debug)


def main() -> None:
    """Run the command line; an error is one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot encode a dot gets a question mark, not a traceback.
            stream.reconfigure(errors="replace")
    try:
        sys.exit(app(prog_name="seedspread", standalone_mode=False))
    except (Exception, KeyboardInterrupt) as error:
        _fail(error)


def _fail(error: BaseException) -> NoReturn:
    """Exit with one line on the error, after its traceback with `--debug`."""
    if _debugging.get():
        say(_traceback(error), err=True, end="")
    if isinstance(error, KeyboardInterrupt):
        say("interrupted", err=True)
        sys.exit(130)
    if isinstance(error, SeedspreadError):
        message = str(error)
    elif isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        message = f"{error.filename}: {error.strerror}"
    elif hasattr(error, "format_message") and hasattr(error, "exit_code"):  # mistyped options and arguments
        if not (message := error.format_message()):  # without a command the help is printed already
            sys.exit(error.exit_code)
        ctx = getattr(error, "ctx", None)
        message = message.removesuffix(".")
        message += f" (see {ctx.command_path} --help)" if ctx else ""
    else:
        what = SeedspreadError(f"unexpected {type(error).__name__}{f': {error}' if str(error) else ''}")
        where = "" if _debugging.get() else f"; run again with {_DEBUG} to see where"
        message = f"{what}{where}"
    say(f"error: {message}", err=True)
    sys.exit(error.exit_code if isinstance(error, SeedspreadError) else SeedspreadError.exit_code)


def _traceback(error: BaseException) -> str:
    """Return the traceback of an error, with the errors that it replaced."""
    inner: BaseException | None = error
    while inner is not None:
        inner.__suppress_context__ = False
        inner = inner.__cause__ or inner.__context__
    return "".join(traceback.format_exception(error))
