"""Interim looks of a growing study: their levels, the last one, and the number of seeds to expect."""

import json
import os
from collections.abc import Iterable
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import platformdirs

from seedspread.analysis import words
from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError
from seedspread.render.table import Column, Table
from seedspread.runs import studies
from seedspread.runs.store import Store
from seedspread.stats import sequential
from seedspread.stats.result import InterimLook, Interval
from seedspread.stats.sequential import Progress, expected


def factor_of(sizes: tuple[int, ...], progress: Progress = lambda _: None) -> float:
    """Return the factor for looks at these sizes: tabulated, or simulated (minutes) and then cached."""
    known = known_factor(sizes)
    if known is not None:
        return known
    factor = sequential.simulated_factor(sizes, progress)
    values = {"looks": sequential.key(sizes), "draws": sequential.DRAWS, "factor": factor}
    try:
        path = _file(sizes)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(json.dumps(values) + "\n")
    except OSError:
        pass  # simulated again the next time
    return factor


def known_factor(sizes: tuple[int, ...]) -> float | None:
    """Return the factor without simulating it, else None. An unreadable cache file is replaced."""
    tabled = sequential.tabled_factor(sizes)
    if tabled:
        return tabled
    try:
        values = json.loads(_file(sizes).read_text())
        factor = float(values["factor"]) if values["looks"] == sequential.key(sizes) else 0.0
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return factor if 1 <= factor < 2 else None


def _file(sizes: tuple[int, ...]) -> Path:
    name = sha256(sequential.key(sizes).encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("seedspread") / "looks" / f"{name}.json"


def looks_of(record: studies.SequentialRecord | None) -> InterimLook | None:
    """Return the interim looks that a study's headlines account for now; None if the study does not grow."""
    if record is None:
        return None
    sizes = record.spec.sizes
    return InterimLook(sizes, record.number, factor_of(sizes))  # the record's own factor is ignored


def looks_at(
    store: Path, folders: Iterable[str], asked: InterimLook | None
) -> tuple[InterimLook | None, list[str]]:
    """Return the interim looks to count for runs of a store, and a note if these are not those asked for.

    The store records which runs were looked at. A look at most of these runs counts, whichever study took it:
    auditing the same runs under another name is not a first look.
    """
    keys = {os.path.basename(folder) for folder in folders}
    notes, found, counted = [], asked, ""
    for study in studies.load_studies(Store(store))[0]:
        seen = keys.intersection(study.at_last_look.keys)
        if study.sequential is None or not study.sequential.looks or not seen:
            continue
        if 2 * len(seen) < len(keys):
            if found is None or found.sizes != study.sequential.spec.sizes:
                notes.append(
                    f"{study.name} is looked at while it grows, and these figures of all runs do not count "
                    f"the looks: those of its own audit do (--study {study.name})."
                )
        elif found is None or found.number < study.sequential.number:
            found, counted = looks_of(study.sequential), study.name
    if found is not None and counted:
        times = "once" if found.number == 1 else f"{found.number} times"
        notes.append(f"{counted} has looked at these runs {times} while it grew; its looks are counted here.")
    return found, notes


# Groups rarely correlate more strongly: a rule that even these do not meet is never met.
_MOST_ALIKE, _NEVER = 0.9, 0.01


def factor_for(spec: studies.SequentialSpec, comparisons: int, progress: Progress) -> float:
    """Return `factor_of` a schedule; refuse a rule that is never met."""
    factor = factor_of(spec.sizes, progress)
    met = expected(
        spec.sizes, factor, 1.0, precision=spec.precision, correlation=_MOST_ALIKE, comparisons=comparisons
    ).met
    if spec.precision is not None and met < _NEVER:
        raise SeedspreadError(
            f"sequential.precision = {spec.precision:g} is never met with {spec.limit} seeds, even by groups "
            f"with r = {_MOST_ALIKE:g}: raise precision or limit"
        )
    return factor


def last_look(record: studies.SequentialRecord) -> str:
    """`Look 2 of at most 9, 12 seeds: clamp vs subtract ×3.1 [0.9, 11], CAN'T TELL; at most 28 more`."""
    if not record.looks:
        return f"No look yet: the first is at {record.seeds} seeds."
    look, most = record.looks[-1], len(record.spec.sizes)
    found = "; ".join(
        f"{c.title} ×{words.number(c.ratio)} {words.between(interval_of_look(c))}".removesuffix(" -")
        + f", {c.word}"
        for c in look.comparisons
    )
    return f"Look {len(record.looks)} of at most {most}, {look.seeds} seeds: {found}; {_what_next(record)}."


def standing(record: studies.SequentialRecord) -> str:
    if record.stopped:
        return f"The study stopped at {record.seeds} seeds per group: {record.stopped}."
    seen = f"its first look is at {record.seeds} seeds, and what is seen before decides nothing"
    if record.looks:
        seen = f"this is its last look; the next is at {record.seeds} seeds"
    return f"The study goes on ({_what_next(record)}): {seen}."


def _what_next(record: studies.SequentialRecord) -> str:
    """Return `stopped: decided`, or how many more seeds there may be."""
    if record.stopped:
        return f"stopped: {record.stopped}"
    most = record.spec.limit - (record.looks[-1].seeds if record.looks else 0)
    return f"at most {most} more seeds per group"


def interval_of_look(c: studies.LookComparison) -> Interval | None:
    if c.ratio is None or c.p is None:
        return None
    return Interval(c.low or 0.0, inf if c.high is None else c.high, 0.95)


def sequential_facts(record: studies.SequentialRecord, comparisons: int, cells: int) -> dict[str, Any]:
    """Return a growing study for programs: its rule, its looks, and its number of runs, whatever was seen.

    Runs on average, for normal values, if variances are equal or differ by a ratio of 4; and at most.
    """
    spec, factor = record.spec, record.factor or factor_of(record.spec.sizes)
    alike, four = (
        expected(spec.sizes, factor, ratio, precision=spec.precision, comparisons=comparisons)
        for ratio in (1.0, 4.0)
    )
    return studies.sequential_values(record) | {
        "sizes": list(spec.sizes),
        "stopped": record.stopped,
        "expected_runs": {
            "ratio_1": alike.seeds * cells,
            "ratio_4": four.seeds * cells,
            "most": spec.limit * cells,
        },
        "rule_met": {"ratio_1": alike.met, "ratio_4": four.met},
    }


def looks_table(record: studies.SequentialRecord, title: str) -> Table:
    several = any(len(look.comparisons) > 1 for look in record.looks)
    rows = tuple(
        (
            str(place),
            str(look.seeds),
            *((c.title,) if several else ()),
            words.number(c.ratio),
            words.between(interval_of_look(c)),
            words.p_value(c.p),
            c.word or "not tested",
        )
        for place, look in enumerate(record.looks, 1)
        for c in look.comparisons
    )
    compared = ("comparison",) if several else ()
    headings = ("look", "seeds", *compared, "ratio", "interval", "p", "difference")
    most = f"Intervals and p values count the looks, at most {len(record.spec.sizes)}."
    note = f"{most} {standing(record)}".removesuffix(".")  # tables add the period
    return Table("", title, tuple(map(Column, headings)), rows, note=note)
