"""A command with placeholders, and the parameters that fill them."""

import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from seedspread.runners.contract import Level, RunnerError
from seedspread.runners.inputs import Digests

# Names that stand for something else than a parameter: placeholders, and columns of every table of runs.
RESERVED = ("seed", "folder", "python")
COLUMNS = ("seed", "folder", "collapsed", "majority", "study", "key")
# A doubled brace, a placeholder, or a brace that is neither.
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class Parameters:
    """What a run of a program or a function is, but for its seed.

    Attributes:
        values: of the parameters, by name.
        inputs: the content of the files that it depends on.
        environment: variables that it depends on; None for one that is not set.
    """

    values: tuple[tuple[str, Level], ...]
    inputs: Digests = ()
    environment: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class Command:
    """What is started for a run.

    Attributes:
        template: its words; `{seed}`, `{folder}`, `{python}` (the one that runs this) and
            `{PARAMETER}` are replaced in each, `{{` is a brace.
        folder: in which it is started.
        timeout: seconds that it may take.
    """

    template: tuple[str, ...]
    folder: str
    timeout: float | None = None

    @property
    def placeholders(self) -> list[str]:
        """What it names; `RunnerError` for a brace that is part of no placeholder."""
        matches = [match for word in self.template for match in _PLACEHOLDER.finditer(word)]
        for match in matches:
            if match[0] in ("{", "}"):
                raise RunnerError(
                    f"run.command has a single {match[0]} in {match.string!r}: write it twice, or put a "
                    "placeholder that has a blank in quotes"
                )
        return [match[1] for match in matches if match[1] is not None]

    def words(self, parameters: Parameters, seed: int, folder: str) -> list[str]:
        """With its placeholders replaced: each value is part of one argument, whatever it contains."""
        values = dict(parameters.values) | {"seed": seed, "folder": folder, "python": sys.executable}

        def value(match: re.Match[str]) -> str:
            return match[0][0] if match[1] is None else as_text(values[match[1]])

        words = [_PLACEHOLDER.sub(value, word) for word in self.template]
        return [self._find(words[0]) or words[0], *words[1:]]

    @property
    def is_there(self) -> bool:
        """Whether its program can be found, as far as that does not depend on a run."""
        program = self.template[0]
        return bool(_PLACEHOLDER.search(program)) or self._find(program) is not None

    def _find(self, program: str) -> str | None:
        if os.path.dirname(program):
            return shutil.which(os.path.join(self.folder, program))
        return shutil.which(program, path=search_path())


def check_parameter_name(name: str, metrics: Iterable[str]) -> None:
    """Refuses a name that stands for something else, a metric among that: tables of runs have both."""
    if name in (*RESERVED, *COLUMNS):
        raise RunnerError(f"{name!r} cannot be a parameter: it has a meaning of its own")
    if name in metrics:
        raise RunnerError(f"{name!r} is a parameter and a metric; call one of them otherwise")


def as_text(value: Level) -> str:
    """A value as a word of a command: `true` and `false` as TOML has them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def search_path() -> str:
    """Where programs are found: this Python's own folder last, so that `python` is there in any case."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)])
