"""What is asked of a table, and how one types it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict, Unpack

Names = str | Sequence[str] | None
# What stands for a group where whole sets of runs are compared: no table has such a column.
SET = "set of runs"
_NOT_ASKED = ("command", "sources")


class Rows(TypedDict, total=False):
    """How one row per run is had from a table that has more, or has its seeds as columns.

    Attributes:
        at: which step of a run that another tool has logged: `last`, `best` or `step=N`.
        where: conditions on rows, such as `step == 4000`; all must be true.
        last: a column such as `step`: of each run the row where it is largest.
        best: a column: of each run the row where it is best.
        wide: which columns hold a seed each, as in `seed_*`; `auto` finds them.
        metric_column: the column of a long table that names the metric: `value` is one of its levels.
        sheet: of an Excel file; the first by default.
        command: which command asks, for the line that says what to type.
    """

    at: str
    where: Names
    last: str | None
    best: str | None
    wide: str | None
    metric_column: str | None
    sheet: str | None
    command: str


@dataclass(frozen=True)
class Question:
    """Which column is what, and how one row per run is had.

    Attributes:
        value: the column with one number per run.
        group: the column whose levels are compared.
        baseline: the level with which the others are compared; None: the first of two, or all with all.
        block: columns whose levels hold runs of the same seed, such as the stability mode.
        seed: the column with the seed; `seed` finds it by its usual names. None: each row is a run.
        by: columns, such as the dataset, whose levels are audited apart and adjusted together.
        where, last, best, wide, metric_column, sheet, at: see `Rows`.
        command: which command asks it.
        sources: what stands after the command, where that is more than the table.
    """

    value: str | None = None
    group: str | None = None
    baseline: str | None = None
    block: tuple[str, ...] = ()
    seed: str | None = "seed"
    by: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    last: str | None = None
    best: str | None = None
    wide: str | None = None
    metric_column: str | None = None
    sheet: str | None = None
    at: str = "last"
    command: str = "audit"
    sources: tuple[str, ...] = ()

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
        """The same from names, one or several."""
        where = _several(rows.get("where"))
        given: dict[str, Any] = {**rows, "where": where}
        return cls(value, group, baseline, _several(block), seed, _several(by), **given)

    @property
    def shapes(self) -> bool:
        """Whether it asks for rows to be chosen or turned."""
        return bool(self.where or self.last or self.best or self.wide or self.metric_column)

    def asked(self) -> list[tuple[str, str]]:
        """The name and value of everything that differs from its default, in the order of the fields."""
        found = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value in (field.default, SET) or field.name in _NOT_ASKED:
                continue
            found += [(field.name, one) for one in (value if isinstance(value, tuple) else (value,))]
        return found

    def typed(self, source: str | None) -> str:
        """As a command for the table in the file `source`; as a call in Python where there is no file."""
        if source is None and not self.sources:
            tables = {"compare": "a, b"}.get(self.command, "table")
            return f"{self.command}({tables}{''.join(f', {k}={v}' for k, v in self._arguments().items())})"
        words = ["seedspread", self.command, *(self.sources or (str(source),))]
        for name, value in self.asked():
            words += ["--no-seed"] if value is None else [f"--{name.replace('_', '-')}", value]
        return shlex.join(words)

    def _arguments(self) -> dict[str, str]:
        lists: dict[str, list[str | None]] = {}
        for name, value in self.asked():
            lists.setdefault(name, []).append(value)
        return {name: repr(values[0] if len(values) == 1 else values) for name, values in lists.items()}


def _several(given: Names) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())
