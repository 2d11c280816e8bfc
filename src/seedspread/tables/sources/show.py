"""What was collected, in words for a terminal."""

from collections.abc import Sequence

from seedspread.tables.sources.collecting import Collected
from seedspread.tables.sources.run import Unread, clean, count

_MOST_LINES = 20
_MOST_LEVELS = 6


def summary(collected: Collected, metrics: Sequence[str], at: str) -> str:
    """How many runs, which seed, what varies, what could not be read."""
    rows = len(collected.table)
    what = f"{', '.join(metrics)} at {at}"
    lines = [f"{count(rows, 'run')} from {collected.title} ({collected.source}): {what}", _seed(collected)]
    if collected.varying:
        lines.append(
            "parameters that vary: " + "; ".join(_levels(collected, name) for name in collected.varying)
        )
    else:
        lines.append("no parameter varies")
    if collected.constant:
        kept = any(name in collected.table.columns for name in collected.constant)
        told = "kept as columns" if kept else "left out (--all-parameters keeps them)"
        lines.append(f"{count(len(collected.constant), 'parameter')} the same in every run: {told}")
    lines += collected.notes
    return clean_lines([*lines, *_unread(collected.unread)])


def clean_lines(lines: Sequence[str]) -> str:
    """Lines that are printed one below the other."""
    return "\n".join(clean(line) for line in lines)


def _seed(collected: Collected) -> str:
    if collected.seed is None:
        return "no parameter is a seed: the table has no column seed, and an audit takes each row for one"
    return f"seed: the parameter {collected.seed} ({count(collected.table['seed'].nunique(), 'value')})"


def _levels(collected: Collected, name: str) -> str:
    levels = list(dict.fromkeys(collected.table[name].dropna().astype(str)))
    shown = ", ".join(level if len(level) <= 40 else f"{level[:37]}..." for level in levels[:_MOST_LEVELS])
    more = f", ... {len(levels)} values" if len(levels) > _MOST_LEVELS else ""
    return f"{name} ({shown}{more})"


def _unread(unread: Sequence[Unread]) -> list[str]:
    if not unread:
        return []
    lines = [f"not in the table: {len(unread)}"]
    lines += [f"  {one.name}: {one.reason}" for one in unread[:_MOST_LINES]]
    if len(unread) > _MOST_LINES:
        lines.append(f"  ... and {len(unread) - _MOST_LINES} more; --json lists all")
    return lines


def in_a_note(collected: Collected) -> list[str]:
    """The same for an audit, in a few sentences."""
    notes = [f"Read {count(len(collected.table), 'run')} from {collected.title}."]
    if collected.seed not in (None, "seed"):
        notes.append(f"The seed is the parameter {collected.seed}.")
    notes += collected.notes
    if collected.unread:
        first = collected.unread[0]
        more = f" and {len(collected.unread) - 1} more" if len(collected.unread) > 1 else ""
        notes.append(f"Not read: {first.name} ({first.reason}){more}; `seedspread collect` lists them.")
    return [clean(note) for note in notes]
