"""Errors that are for people: one line that says what was wrong and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec

# One module that an extra brings and nothing else does.
_MARKER = {
    "train": "torch",
    "tensorboard": "tensorboard",
    "ray": "ray",
    "slurm": "submitit",
    "mlflow": "mlflow",
    "optuna": "optuna",
}


class SeedspreadError(Exception):
    """A mistake that the user can mend; the command line prints it as one line, without a traceback."""

    exit_code = 1


class MissingExtraError(SeedspreadError, ImportError):
    """Something was asked for that the base install does not bring."""


class DataError(SeedspreadError):
    """A dataset is not there, not whole, or not what it should be."""


def require_extra(extra: str, what: str) -> None:
    """Raises `MissingExtraError` unless `extra` is installed; `what` is the thing that needs it."""
    marker = _MARKER[extra]
    if not _installed(marker):
        raise MissingExtraError(
            f"{what} needs {marker}, which the base install leaves out: pip install 'seedspread[{extra}]'"
        )


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ValueError, ImportError):  # the module is blocked
        return False


def one_of(argument: str, value: str, choices: Iterable[str]) -> None:
    """Raises a `ValueError` that names `argument`, its choices and the nearest one."""
    names = list(choices)
    if value in names:
        return
    raise ValueError(
        f"{argument} must be one of {', '.join(names)}; got {value!r}{did_you_mean(value, names)}"
    )


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'accuracy'?`, or nothing where nothing is near."""
    choices = list(names)
    starting = [choice for choice in choices if name and choice.startswith(name)]
    near = get_close_matches(str(name), choices, n=1) or starting
    return f"; did you mean {near[0]!r}?" if near else ""
