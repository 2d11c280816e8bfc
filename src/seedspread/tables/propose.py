"""What to type instead: the question that a table can answer, from one that it cannot."""

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote

import pandas as pd

from seedspread.runs.levels import several
from seedspread.runs.metrics import is_metric_name
from seedspread.tables.columns import (
    STRATA,
    Columns,
    coded,
    distinguishing,
    find_seed,
    is_aside,
    is_factor,
    is_numeric,
    is_step,
    nesting_factor,
    plain_name,
    seed_names,
)
from seedspread.tables.question import SET, Question, listed
from seedspread.tables.read import Table
from seedspread.tables.shape import is_metric_column, metric_columns, wide_stems

_VALUES = set("value score result reward return returns performance metric".split())
_GROUPS = set(
    "method methods model models algorithm algo agent optimizer optimiser arm group condition variant "
    "treatment system approach learner classifier architecture config setting name".split()
)
_MOST_LEVELS = 50


def unnamed(table: Table, question: Question) -> str:
    """Say which of value and group is to be named, what there is, and the whole command."""
    what = {"value": "the column with the results", "group": "the column whose levels are compared"}
    lacking = [f"{what[name]} with --{name}" for name in what if getattr(question, name) is None]
    there = f"{table.name} has {listed(table.frame.columns)}"
    found = _proposal(table, question)
    typed = "" if found is None else f": {found.typed(table.path)}"
    return f"name {' and '.join(lacking)} ({there}){typed}"


def _proposal(table: Table, question: Question) -> Question | None:
    """Return the question with the columns that it lacks, by their names and levels; None if none fit."""
    frame = table.frame
    taken = {*question.block, *question.by, question.last, question.best, question.metric_column}
    free = [name for name in frame.columns if name not in taken]
    groups = groups_in(frame, [name for name in free if name != question.value])
    group = question.group or next(iter(groups), None)
    if group is None:
        return None
    seeds = set(seed_names(free))
    results = [n for n in free if n != group and n not in seeds and is_numeric(frame[n]) and not is_step(n)]
    results = [n for n in results if not n.startswith("Unnamed:")]
    wide = {} if question.value else wide_stems(frame, {question.group})
    if wide and {*results} <= {name for names in wide.values() for name in names}:
        return replace(question, group=group, value=next(iter(wide)) or "value", wide="auto")
    results.sort(key=lambda n: (not is_metric_name(n), plain_name(n) not in _VALUES))
    value = question.value or next(iter(results), None)
    if value is None:
        return None
    found = replace(question, value=value, group=group)
    if value not in frame.columns or question.last or question.best:
        return found
    seed = find_seed(frame, [n for n in free if n not in (value, group)]) if question.seed else None
    found = told_apart(table, found, Columns(value, group, None, question.block, seed, question.by))
    nesting = nesting_factor(frame, str(found.group), [name for name in free if name not in found.by])
    return replace(found, by=(*found.by, nesting)) if nesting else found


def groups_in(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return columns for the group, the best first: by its name, words before numbers, then few levels."""
    seeds = set(seed_names(names))
    fit = [
        name
        for name in names
        if name not in seeds
        and not is_step(name)
        and not is_metric_column(name)
        and 2 <= frame[name].nunique() <= _MOST_LEVELS
        and (is_factor(frame[name]) or (len(frame) < 2 * _MOST_LEVELS and not is_numeric(frame[name])))
    ]
    return sorted(fit, key=lambda name: _rank_as_group(frame, name))


def _rank_as_group(frame: pd.DataFrame, name: str) -> tuple[bool, bool, bool, bool, int]:
    plain = plain_name(name)
    return (
        is_aside(name),
        plain not in _GROUPS,
        is_numeric(frame[name]),
        plain in STRATA,
        frame[name].nunique(),
    )


def without_value(table: Table, question: Question) -> str | None:
    """Say what to type if the value is no column, but a metric of a long or a wide table."""
    frame, value = table.frame, str(question.value)
    if named := metric_columns(frame, value):
        after = replace(question, metric_column=named[0])
        said = f"{value!r} is no column, but a level of {named[0]}; use --metric-column {named[0]}"
    elif value in (stems := wide_stems(frame, {question.group})) or list(stems) == [""]:
        after = replace(question, wide="auto")
        said = f"{value!r} is no column; if there is a column for each seed, use --wide auto"
    else:
        return None
    return f"{said}: {after.typed(table.path)}"


def told_apart(table: Table, question: Question, columns: Columns) -> Question:
    """Add what else distinguishes rows of one run to the question: `by`, `last`, a metric's column."""
    frame = table.frame
    others = [name for name in frame.columns if name not in {*columns.run, columns.value}]
    if question.last is not None or question.best is not None:
        others = [name for name in others if not is_step(name)]
    run = [*columns.run, question.last] if question.last in frame.columns else columns.run
    for name in distinguishing(frame, [name for name in run if name is not None], others):
        if is_step(name):
            question = replace(question, last=name)
        elif is_metric_column(name):
            question = replace(question, metric_column=name, value=str(coded(frame[name])[1][0]))
        elif seed_names([name]) and (columns.seed is None or frame[columns.seed].nunique() == 1):
            question = replace(question, seed=name)
        elif seed_names([name]):
            question = replace(question, block=(*question.block, name))
        elif (
            question.group != SET
            and question.group in frame.columns
            and frame.groupby(name)[str(question.group)].nunique().max() == 1
        ):
            question = replace(question, group=name, baseline=None)  # each level belongs to one group
        else:
            question = replace(question, by=(*question.by, name))
    if question.group in others and (nesting := nesting_factor(frame, str(question.group), others)):
        question = replace(question, by=(*question.by, nesting))
    new = [name for name in question.by if name not in columns.by]
    if question.group != SET or not new:
        return question
    # Sets of runs are compared: one of the columns names their groups.
    group = min(new, key=lambda name: _rank_as_group(frame, name))
    return replace(question, group=group, by=tuple(name for name in question.by if name != group))


_ADVICE = {
    "group": "has {levels}; use --group {0}",
    "by": "has {levels}; use --by {0} (audited apart) or --block {0} (same-seed runs)",
    "block": "has {levels}; use --block {0} (same-seed runs)",
    "last": "counts steps; use --last {0}, --best or --where (--by {0} and --no-steps if it is a setting)",
    "metric_column": "names metrics; use --metric-column {0}",
    "seed": "may be the seed; use --seed {0}",
}


def advice(table: Table, before: Question, after: Question) -> str:
    """Say what one question has that another lacks, and the command: `Dataset has 8 levels; use --by ...`."""
    if after == before:
        return ""
    parts = []
    for option, said in _ADVICE.items():
        told = several(getattr(before, option))
        for name in (n for n in several(getattr(after, option)) if n not in told):
            levels = f"{table.frame[name].nunique():,} levels"
            parts.append(f"{name} {said.format(quote(name), levels=levels)}")
    return f"{'; '.join(parts)}: {after.typed(table.path)}"
