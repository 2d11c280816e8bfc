"""A question about a table: options of a command or arguments of a call; and its errors."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from inspect import signature
from math import inf, isfinite
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack

from seedspread.errors import AdviceError, did_you_mean, in_terminal
from seedspread.runs.levels import several

# The group if whole sets of runs are compared; no table has a column of this name.
SET = "set of runs"
P = ParamSpec("P")
R = TypeVar("R")


class TableError(AdviceError):
    """A table that cannot be audited as requested."""


class ArgumentError(TableError, TypeError):
    """An unknown keyword argument."""


def with_known_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """List the valid keyword arguments of a public function if it is called with a wrong one."""
    given = signature(function).parameters.values()
    known = [p.name for p in given if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if any(p.kind == p.VAR_KEYWORD for p in given):
        known += [name for name in Rows.__annotations__ if name != "command"]

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs.keys() - {*known, "command"}:
            raise ArgumentError(
                f"{function.__name__} has no argument {name!r}{did_you_mean(name, known)} "
                f"(it has {', '.join(known)})"
            )
        return function(*args, **kwargs)

    return called


def listed(names: Iterable[object], most: int = 12) -> str:
    """Return names separated by commas, at most the first `most`."""
    every = [str(name) for name in names if name != SET]
    return ", ".join(every[:most]) + (f", ... ({len(every):,})" if len(every) > most else "")


def row_numbers(rows: Iterable[int]) -> str:
    every = list(rows)
    named = ", ".join(map(str, every[:5])) + ", ..." * (len(every) > 5)
    return f"row{'s' * (len(every) > 1)} {named}"


def check_options(
    level: float, chance: float | None = None, test_size: int | None = None, equivalence: float = 2.0
) -> None:
    """Refuse numbers that make no sense in any question."""
    if not 1 < equivalence < inf:
        raise TableError(f"equivalence must be a factor above 1, such as 2; got {equivalence:g}")
    if not 0.5 <= level < 1:
        raise TableError(f"the level must lie between 0.5 and 1; got {level:g}")
    if chance is not None and not isfinite(chance):
        raise TableError(f"chance must be a finite number; got {chance}")
    if test_size is not None and test_size < 2:
        raise TableError(f"test_size must be at least 2; got {test_size}")


Names = str | Sequence[str] | None


class Rows(TypedDict, total=False):
    """Row selection in a table that has more than one row per run, or has its seeds as columns.

    Attributes:
        at: the step of a run that another tool has logged: `last`, `best` or `step=N`.
        where: conditions on rows, such as `step == 4000`; all must be true.
        last: a column such as `step`: take the row of each run where it is largest.
        best: a column: take the row of each run where it is best.
        wide: pattern of the columns that hold a seed each, as in `seed_*`; `auto` finds them.
        metric_column: the column of a long table that names the metric: `value` is one of its levels.
        sheet: of an Excel file, or the number of a table in a text; the first by default.
        paired: whether a seed that two groups share makes a pair; False between two codebases, say.
        steps: whether a column such as `epochs` may count steps of a run; False if it is a setting of runs.
        command: the command in use, for error messages that show what to type.
    """

    at: str
    where: Names
    last: str | None
    best: str | None
    wide: str | None
    metric_column: str | None
    sheet: str | None
    paired: bool
    steps: bool
    command: str


@dataclass(frozen=True)
class Question:
    """The roles of the columns, and the row selection (see `Rows`)."""

    value: str | None = None  # the column with one number per run
    group: str | None = None  # the column whose levels are compared
    baseline: str | None = None  # to compare the others with; None: the first of two levels, or all with all
    block: tuple[str, ...] = ()  # columns varied within a seed, such as the stability mode
    seed: str | None = "seed"  # `seed` finds it by its usual names; None: each row is a run
    by: tuple[str, ...] = ()  # columns, such as the dataset, audited apart and adjusted together
    where: tuple[str, ...] = ()
    last: str | None = None
    best: str | None = None
    wide: str | None = None
    metric_column: str | None = None
    sheet: str | None = None
    at: str = "last"
    paired: bool = True
    steps: bool = True
    command: str = "audit"
    sources: tuple[str, ...] = ()  # the words after the command, if they are more than the table

    @classmethod
    def of(
        cls,
        value: str | None,
        group: str | None,
        baseline: str | None = None,
        block: Names = None,
        seed: str | None = "seed",
        by: Names = None,
        **rows: Unpack[Rows],
    ) -> "Question":
        given: dict[str, Any] = {**rows, "where": several(rows.get("where"))}
        return cls(value, group, baseline, several(block), seed, several(by), **given)

    @property
    def shapes(self) -> bool:
        """True if rows or columns must be selected first."""
        return bool(self.where or self.last or self.best or self.wide or self.metric_column)

    def asked(self) -> list[tuple[str, str]]:
        """Return the name and value of everything that differs from its default."""
        found = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value in (field.default, SET) or field.name in ("command", "sources"):
                continue
            found += [(field.name, one) for one in (value if isinstance(value, tuple) else (value,))]
        return found

    def typed(self, source: str | None) -> str:
        """Return the command for the table in the file `source`; without a file, the call in Python."""
        if (source is None and not self.sources) or not in_terminal.get():
            files = self.sources or ((source,) if source else ())
            tables = ", ".join(map(repr, files)) or {"compare": "a, b"}.get(self.command, "table")
            given: dict[str, list[str | None]] = {}
            for name, value in self.asked():
                given.setdefault(name, []).append(value)
            arguments = (f", {k}={(v[0] if len(v) == 1 else v)!r}" for k, v in given.items())
            return f"{self.command}({tables}{''.join(arguments)})"
        words = ["seedspread", self.command, *(self.sources or (str(source),))]
        for name, value in self.asked():
            flag = {"seed": "--no-seed", "paired": "--unpaired", "steps": "--no-steps"}.get(name)
            words += [flag] if flag and not value else [f"--{name.replace('_', '-')}", value]
        return shlex.join(words)
