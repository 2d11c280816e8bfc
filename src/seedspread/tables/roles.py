"""The column for each role: named, found by its name, or asked for."""

from seedspread.errors import did_you_mean
from seedspread.tables.columns import FOLDS, Columns, find_seed, is_shared, plain_name, seed_names
from seedspread.tables.errors import TableError, listed
from seedspread.tables.propose import unnamed, without_value
from seedspread.tables.question import SET, Question
from seedspread.tables.read import Table


def columns_of(table: Table, question: Question) -> tuple[Columns, list[str]]:
    """Which column is what, and a note on the seed."""
    value, group = question.value, question.group
    if value is None or group is None:
        for name in (value, group):
            if name is not None:
                require(name, table)
        raise TableError(unnamed(table, question))
    if value not in table.frame.columns and (said := without_value(table, question)):
        raise TableError(said)
    for name in (value, group, *question.block, *question.by):
        require(name, table)
    seed, notes = _seed(table, question)
    _check_roles([
        ("--value", value), ("--group", group), *(("--block", name) for name in question.block),
        *([("--seed", seed)] if seed else []), *(("--by", name) for name in question.by),
    ])  # fmt: skip
    return Columns(value, group, None, question.block, seed, question.by), notes


def _check_roles(roles: list[tuple[str, str]]) -> None:
    """Refuses a column that is asked for twice."""
    for _, column in roles:
        options = [option for option, name in roles if name == column]
        if len(options) > 1:
            raise TableError(
                f"each column can have one role only: {column!r} is {' and '.join(options)}; "
                f"leave out one of them"
            )


def require(column: str, table: Table) -> None:
    """Refuses a column that is not there."""
    names = list(table.frame.columns)
    if column in names:
        return
    same = [name for name in names if name.lower() == column.lower()]
    hint = f"; did you mean {same[0]!r}?" if same else did_you_mean(column, names)
    raise TableError(f"{table.name} has no column {column!r}{hint} (it has {listed(names)})")


def _seed(table: Table, question: Question) -> tuple[str | None, list[str]]:
    """The column with the seed and what is to be known of it; `seed` stands for its other names too."""
    if question.seed is None:
        return None, ["No seed: every row counts as an independent run."]
    frame = table.frame
    if question.seed != "seed":
        require(question.seed, table)
        return question.seed, _folds(question.seed)
    taken = {question.value, question.group, question.last, question.best, *question.block, *question.by}
    free = [name for name in frame.columns if name not in taken]
    seed = find_seed(frame, free)
    if seed is None:
        return None, ["No seed column: every row counts as an independent run."]
    others = [name for name in seed_names(free) if name != seed and frame[name].nunique() > 1]
    if seed == "seed" and (not others or table.store is not None):
        return seed, []  # a store's seed is its own; what else it has is a program's
    more = f" ({listed(others, 3)} could be it too: --seed {others[0]})" if others else ""
    notes = [f"The seed is {seed}{more}."]
    is_plain = plain_name(seed) in ("seed", "seeds") or question.group == SET
    if not is_plain and not is_shared(frame, seed, str(question.group)):
        notes = [f"{seed} names each run by itself: no seed is shared between levels of {question.group}."]
    return seed, notes + _folds(seed)


def _folds(seed: str) -> list[str]:
    if plain_name(seed) not in FOLDS:
        return []
    return [f"{seed} is taken as the seed: folds share training data, so that runs are not independent."]
