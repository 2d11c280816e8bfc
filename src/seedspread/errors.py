"""Errors for people: one line on what was wrong and what to do."""

import errno
import os
import re
import reprlib
from collections.abc import Iterable
from contextvars import ContextVar
from difflib import get_close_matches
from importlib.util import find_spec

# The modules that an extra must provide.
_MODULES = {
    "train": ("torch", "pyarrow"),
    "report": ("plotly", "matplotlib", "pyarrow"),
    "parquet": ("pyarrow",),
    "tensorboard": ("tensorboard",),
    "ray": ("ray",),
    "slurm": ("submitit",),
    "mlflow": ("mlflow",),
    "optuna": ("optuna",),
    "excel": ("openpyxl",),
    "html": ("lxml",),
}
# C0 and C1 controls, which a terminal obeys, and those that reverse text, which can disguise a name.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MAX_MESSAGE = 2000
# Whether a command was typed: if so, advice names its options, otherwise the arguments of a call.
in_terminal: ContextVar[bool] = ContextVar("in_terminal", default=False)
_FLAGS = {
    "no-seed": "seed=None", "unpaired": "paired=False", "no-steps": "steps=False", "metric": "metric",
    "retry-failed": "retry_failed=True", "keep-going": "keep_going=True",
    "higher-is-better": "better='higher'", "lower-is-better": "better='lower'",
}  # fmt: skip
_OPTION = re.compile(
    r"(?<![\w-])--(?P<name>[a-z]+(?:-[a-z]+)*)"
    r"(?P<value> '[^']*'| (?!(?:is|or|and|must|says|takes|needs|finds|has|lists|compares|for|of|audits"
    r"|matches|with|to|alone)\b)"
    r"[\w=*][^\s,;:()]*)?"
)
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def printable(text: str) -> str:
    """Return text from a file without the characters that control a terminal; newline and tab stay."""
    return _CONTROLS.sub("", text)


class SeedspreadError(Exception):
    """A mistake that the user can fix; the command line prints it as one line, without a traceback."""

    exit_code = 2

    def __str__(self) -> str:
        """Return the message on one line, bounded and harmless in a terminal: it may quote a file."""
        message = " ".join(printable(super().__str__()).split("\n"))
        return message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]} ..."


class MissingExtraError(SeedspreadError, ImportError):
    """A feature needs an extra that is not installed."""


class AdviceError(SeedspreadError):
    """A mistake whose advice names options on a terminal, and arguments in Python."""

    def __init__(self, message: str) -> None:
        super().__init__(spoken(message))


class DataError(SeedspreadError):
    """A dataset is missing, incomplete, or not what it should be."""


class RunnerError(SeedspreadError):
    """A study requests something that its runner cannot run; the message names the parameter."""


def spoken(text: str) -> str:
    """Return advice in a form that the user can type: `--seed run` in a terminal, `seed='run'` in Python."""
    if in_terminal.get():
        return text
    return _OPTION.sub(_as_argument, text)


def _as_argument(option: re.Match[str]) -> str:
    name, value = option["name"], option["value"]
    if name in _FLAGS:
        return _FLAGS[name] + (value or "")
    given = "..." if value is None else repr(value.strip().strip("'"))
    if re.fullmatch(r" \d+(\.\d+)?", value or ""):
        given = given.strip("'")
    return f"{name.replace('-', '_')}={given}"


def short(value: object) -> str:
    """Return a value for a message, shortened if it is long."""
    return _SHORT.repr(value)


def reason(error: OSError) -> str:
    """Return the system's words, such as `Permission denied`; some libraries raise without a number."""
    if isinstance(error, FileExistsError):  # raised by making a folder in the place of a file
        return os.strerror(errno.ENOTDIR)
    return error.strerror or str(error) or type(error).__name__


def described(error: BaseException) -> str:
    """Return an error from other people's code in one line: its type and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def abridged(line: str, width: int) -> str:
    """Return a line for a message or a list, shortened if it is long."""
    line = printable(line.strip())
    return line if len(line) <= width else f"{line[: width - 4]} ..."


def require_extra(extra: str, what: str, *modules: str) -> None:
    """Raise `MissingExtraError` unless `extra` is installed.

    Args:
        extra: its name in pyproject.toml.
        what: what needs it, for the message.
        modules: the modules of the extra that are needed; all by default.
    """
    missing = [module for module in modules or _MODULES[extra] if not is_installed(module)]
    if missing:
        raise MissingExtraError(
            f"{what} needs {missing[0]}, which the base install leaves out: {install_command(extra)}"
        )


def install_command(extra: str) -> str:
    return f"pip install 'seedspread[{extra}]'"


def is_installed(module: str) -> bool:
    """Whether a module can be imported; it is not imported."""
    try:
        return find_spec(module) is not None
    except (ValueError, ImportError):  # the module is blocked
        return False


def one_of(argument: str, value: str, choices: Iterable[str]) -> None:
    """Raise a `ValueError` with the choices and the nearest one, unless `value` is among them."""
    names = list(choices)
    if value in names:
        return
    raise ValueError(
        f"{argument} must be one of {', '.join(names)}; got {value!r}{did_you_mean(value, names)}"
    )


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'accuracy'?`, or an empty text if no name is close."""
    choices = list(names)
    starting = [choice for choice in choices if name and choice.startswith(name)]
    near = get_close_matches(str(name), choices, n=1) or starting
    return f"; did you mean {near[0]!r}?" if near else ""


def there_are(name: str, names: Iterable[str]) -> str:
    """Return `did you mean 'mini/all'? There are ...`, or only the list."""
    choices = list(names)
    hint = did_you_mean(name, choices).removeprefix("; ")
    return f"{f'{hint} There' if hint else 'there'} are {', '.join(choices)}"
