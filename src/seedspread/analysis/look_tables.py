"""The looks at a study that grows, in words and as a table."""

from typing import Any

from seedspread.analysis.look_levels import factor_of
from seedspread.analysis.numbers import between, number, p_value
from seedspread.analysis.sequential import seeds_to_come
from seedspread.render.table import Column, Table
from seedspread.runs.sequential import LookedComparison, SequentialRecord, sequential_values
from seedspread.stats.result import Interval
from seedspread.stats.sequential.expected import expected


def last_look(record: SequentialRecord) -> str:
    """`Look 2 of at most 9, 12 seeds: clamp against subtract 3.1 [0.9, 11], open; about 8 more seeds`."""
    if not record.looks:
        return f"No look yet: the first is at {record.seeds} seeds."
    look, most = record.looks[-1], len(record.spec.sizes)
    found = "; ".join(
        f"{c.title} {number(c.ratio)} {between(interval_of_look(c))}, {c.word or 'not tested'}"
        for c in look.comparisons
    )
    return f"Look {len(record.looks)} of at most {most}, {look.seeds} seeds: {found}; {what_next(record)}."


def what_next(record: SequentialRecord) -> str:
    """`stopped: decided`, or how many seeds are expected."""
    if record.stopped:
        return f"stopped: {record.stopped}"
    more = seeds_to_come(record)
    if more is None:
        return "it goes on"
    return f"about {max(round(more), 1)} more seeds per arm expected, at most {_most(record)}"


def standing(record: SequentialRecord) -> str:
    """How a study stands, in a sentence."""
    if record.stopped:
        return f"The study stopped at {record.seeds} seeds per arm: {record.stopped}."
    if record.looks:
        seen = f"this is its last look; the next is at {record.seeds} seeds"
    else:
        seen = f"its first look is at {record.seeds} seeds, and what is seen before decides nothing"
    return f"The study goes on ({what_next(record)}): {seen}."


def _most(record: SequentialRecord) -> int:
    return record.spec.limit - (record.looks[-1].seeds if record.looks else 0)


def sequential_facts(record: SequentialRecord, comparisons: int, cells: int) -> dict[str, Any]:
    """A growing study for programs: its rule, its looks, and how many runs it takes, whatever was seen.

    On average on normal values, of variances that are alike and that differ by a ratio of 4; and at most.
    """
    spec, factor = record.spec, record.factor or factor_of(record.spec.sizes)
    alike, four = (
        expected(spec.sizes, factor, ratio, precision=spec.precision, comparisons=comparisons)
        for ratio in (1.0, 4.0)
    )
    return sequential_values(record) | {
        "sizes": list(spec.sizes),
        "stopped": record.stopped,
        "expected_runs": {
            "ratio_1": alike.seeds * cells,
            "ratio_4": four.seeds * cells,
            "most": spec.limit * cells,
        },
        "rule_met": {"ratio_1": alike.met, "ratio_4": four.met},
        "seeds_to_come": seeds_to_come(record),
    }


def expectation(facts: dict[str, Any]) -> str:
    """How many runs a growing study will take, from its facts."""
    runs, sizes = facts["expected_runs"], facts["sizes"]
    cells = runs["most"] // sizes[-1]
    one, four = (
        f"{runs[name]:.0f} runs ({runs[name] / cells:.0f} seeds; the rule is met by {share:.0%})"
        for name, share in facts["rule_met"].items()
    )
    return (
        f"Looks at {', '.join(map(str, sizes))} seeds. Expected in all, on average over such studies: {one} "
        f"if variances are alike, {four} at a ratio of 4; at most {runs['most']} ({sizes[-1]} seeds)."
    )


def looks_table(record: SequentialRecord, title: str) -> Table:
    """One row per look and comparison."""
    several = any(len(look.comparisons) > 1 for look in record.looks)
    rows = tuple(
        (
            str(place),
            str(look.seeds),
            *((c.title,) if several else ()),
            number(c.ratio),
            between(interval_of_look(c)),
            p_value(c.p),
            c.word or "not tested",
        )
        for place, look in enumerate(record.looks, 1)
        for c in look.comparisons
    )
    headings = (
        "look",
        "seeds",
        *(("comparison",) if several else ()),
        "ratio",
        "interval",
        "p",
        "difference",
    )
    most = f"Intervals and p values count the looks, at most {len(record.spec.sizes)}."
    note = f"{most} {standing(record)}".removesuffix(".")  # tables end it themselves
    return Table("", title, tuple(map(Column, headings)), rows, note=note)


def interval_of_look(c: LookedComparison) -> Interval | None:
    """Of the ratio; None where there was none."""
    if c.ratio is None or c.p is None:
        return None
    return Interval(c.low or 0.0, float("inf") if c.high is None else c.high, 0.95)
