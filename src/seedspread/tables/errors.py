"""What is said of a table that cannot be audited as requested."""

from collections.abc import Iterable

from seedspread.errors import SeedspreadError

_MOST_NAMES = 12


class TableError(SeedspreadError):
    """A table that cannot be audited as requested."""


def listed(names: Iterable[object], most: int = _MOST_NAMES) -> str:
    """Names one after the other; the first few of many."""
    every = [str(name) for name in names]
    return ", ".join(every[:most]) + (f", ... ({len(every):,})" if len(every) > most else "")


def row_numbers(rows: Iterable[int]) -> str:
    """`row 3, 7, 9`, as an editor counts them."""
    every = list(rows)
    return "row " + ", ".join(str(row) for row in every[:5]) + (", ..." if len(every) > 5 else "")
