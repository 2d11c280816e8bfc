"""What to type: the question that a table can answer, from one that it cannot."""

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote

import pandas as pd

from seedspread.runs.metrics import is_metric_name
from seedspread.tables.columns import (
    Columns,
    find_seed,
    is_factor,
    is_numeric,
    is_step,
    plain_name,
    seed_names,
    telling_apart,
)
from seedspread.tables.errors import listed
from seedspread.tables.labels import coded
from seedspread.tables.question import SET, Question
from seedspread.tables.read import Table
from seedspread.tables.shape import is_metric_column, metric_columns, wide_stems

_VALUES = set("value score result reward return returns performance metric".split())
_GROUPS = set(
    "method methods model models algorithm algo agent optimizer optimiser arm group condition variant "
    "treatment system approach learner classifier architecture config setting name".split()
)
_STRATA = set("dataset datasets data task tasks env environment env_id game benchmark domain problem".split())
_MOST_LEVELS = 50


def unnamed(table: Table, question: Question) -> str:
    """Which of value and group is to be named, what there is, and the whole command."""
    options = [f"--{name}" for name in ("value", "group") if getattr(question, name) is None]
    what = {"--value": "the column with the results", "--group": "the column whose levels are compared"}
    said = " and ".join(f"{what[option]} with {option}" for option in options)
    there = f"{table.name} has {listed(table.frame.columns)}"
    found = proposal(table, question)
    return f"name {said} ({there})" + ("" if found is None else f": {found.typed(table.path)}")


def proposal(table: Table, question: Question) -> Question | None:
    """The question with the columns that it lacks, as their names and levels suggest; None if none do."""
    frame = table.frame
    numbers = [name for name in frame.columns if is_numeric(frame[name])]
    wide = None if question.value else wide_stems(frame, {question.group})
    free = [name for name in frame.columns if name not in _taken(question)]
    group = question.group or _group(frame, [name for name in free if name != question.value])
    if group is None:
        return None
    seeds, results = set(seed_names(free)), [n for n in numbers if n in free and n != group]
    results = [n for n in results if n not in seeds and not is_step(n) and not n.startswith("Unnamed:")]
    if wide and not [n for n in results if not any(n in names for names in wide.values())]:
        stem = next(iter(wide))
        return replace(question, group=group, value=stem or "value", wide="auto")
    value = question.value or _value(results)
    if value is None:
        return None
    found = replace(question, value=value, group=group)
    if value not in frame.columns:
        return found
    seed = find_seed(frame, [n for n in free if n not in (value, group)]) if question.seed else None
    columns = Columns(value, group, None, question.block, seed, question.by)
    return found if question.last or question.best else told_apart(table, found, columns)


def _taken(question: Question) -> set[str | None]:
    return {*question.block, *question.by, question.last, question.best, question.metric_column}


def _value(names: Sequence[str]) -> str | None:
    def rank(name: str) -> int:
        return 0 if is_metric_name(name) else 1 if plain_name(name) in _VALUES else 2

    return min(names, key=rank, default=None)


def _group(frame: pd.DataFrame, names: Sequence[str]) -> str | None:
    """Rather by name, rather words than numbers, rather few levels."""
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
    return min(fit, key=lambda name: _rank_as_group(frame, name), default=None)


def _rank_as_group(frame: pd.DataFrame, name: str) -> tuple[bool, bool, bool, int]:
    plain = plain_name(name)
    return plain not in _GROUPS, is_numeric(frame[name]), plain in _STRATA, frame[name].nunique()


def without_value(table: Table, question: Question) -> str | None:
    """What to type where the value is no column, but a metric of a long table, or of one that is wide."""
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
    """The question with what else tells rows of one run apart: strata, the last step, a metric's column."""
    frame = table.frame
    others = [name for name in frame.columns if name not in {*columns.run, columns.value}]
    if question.last is not None or question.best is not None:
        others = [name for name in others if not is_step(name)]
    run = [*columns.run, question.last] if question.last in frame.columns else columns.run
    for name in telling_apart(frame, [name for name in run if name is not None], others):
        if is_step(name):
            question = replace(question, last=name)
        elif is_metric_column(name):
            question = replace(question, metric_column=name, value=str(coded(frame[name])[1][0]))
        elif seed_names([name]) and (columns.seed is None or frame[columns.seed].nunique() == 1):
            question = replace(question, seed=name)
        elif seed_names([name]):
            question = replace(question, block=(*question.block, name))
        else:
            question = replace(question, by=(*question.by, name))
    return _with_arms(frame, question, columns) if question.group == SET else question


def _with_arms(frame: pd.DataFrame, question: Question, columns: Columns) -> Question:
    """Where sets of runs are compared, one of the columns that tell runs apart names the arms."""
    new = [name for name in question.by if name not in columns.by]
    if not new:
        return question
    group = min(new, key=lambda name: _rank_as_group(frame, name))
    return replace(question, group=group, by=tuple(name for name in question.by if name != group))


def added(before: Question, after: Question, frame: pd.DataFrame) -> str:
    """What a question has that another lacks, in a sentence: `Dataset has 8 levels; use --by Dataset`."""
    parts = []
    if after.group != before.group:
        parts.append(f"{_levels(frame, str(after.group))}; use {_option('--group', after.group)}")
    for name in (n for n in after.by if n not in before.by):
        by, block = _option("--by", name), _option("--block", name)
        parts.append(f"{_levels(frame, name)}; use {by} (audited apart) or {block} (twins of a seed)")
    for name in (n for n in after.block if n not in before.block):
        parts.append(f"{_levels(frame, name)}; use {_option('--block', name)} (twins of a seed)")
    if after.last != before.last:
        parts.append(f"{after.last} counts steps; use {_option('--last', after.last)}, --best or --where")
    if after.metric_column != before.metric_column:
        option = _option("--metric-column", after.metric_column)
        parts.append(f"{after.metric_column} names metrics; use {option}")
    if after.seed != before.seed:
        parts.append(f"{after.seed} may be the seed; use {_option('--seed', after.seed)}")
    return "; ".join(parts)


def _levels(frame: pd.DataFrame, name: str) -> str:
    return f"{name} has {frame[name].nunique():,} levels"


def _option(option: str, name: str | None) -> str:
    """As it is typed."""
    return f"{option} {quote(str(name))}"


def typed(table: Table, before: Question, after: Question) -> str:
    """The command to type, after a colon; nothing where it is the one that was typed."""
    return "" if after == before else f": {after.typed(table.path)}"
