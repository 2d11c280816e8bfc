"""The looks at a study that grows: where it stands, as facts and as a table."""

from typing import Any

from seedspread.analysis.look_levels import factor_of
from seedspread.analysis.numbers import between, interval_of_look, number, p_value
from seedspread.analysis.sequential import seeds_to_come
from seedspread.analysis.words import look_sentence, standing_sentence
from seedspread.render.table import Column, Table
from seedspread.runs.sequential import SequentialRecord, sequential_values
from seedspread.stats.sequential.expected import expected


def last_look(record: SequentialRecord) -> str:
    """The last look in a sentence, with how many seeds are expected."""
    return look_sentence(record, seeds_to_come(record) if record.looks else None)


def standing(record: SequentialRecord) -> str:
    """How a study stands, in a sentence."""
    return standing_sentence(record, seeds_to_come(record))


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
