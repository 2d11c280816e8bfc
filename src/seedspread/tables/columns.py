"""Columns: their levels and numbers, their roles by name; and `RunTable`, checked rows."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.errors import did_you_mean, short
from seedspread.runs.levels import Levels, level_name
from seedspread.runs.metrics import Better, is_metric_name
from seedspread.tables.question import TableError, listed, row_numbers

Codes = NDArray[np.intp]
Names = NDArray[np.object_]

# Comparisons of all levels with each other: nobody reads more, and none would survive adjustment.
MOST_PAIRS = 2_000

# Names of the seed, from the surest to the least sure.
SEEDS = (
    "seed random_seed rng_seed manual_seed global_seed seed_everything run_seed torch_seed training_seed "
    "train_seed pl_seed base_seed np_seed numpy_seed model_seed init_seed random_state"
).split()


def coded(column: "pd.Series[Any]") -> tuple[Codes, Names]:
    """Return (rows,) the code of each cell's level, in the order of the table, and the levels as text.

    1 and 1.0 are one level; a missing value is an empty text.
    """
    codes, levels = pd.factorize(column, use_na_sentinel=False)
    texts = ["" if level is pd.NA else level_name(level) for level in levels]
    merged, names = pd.factorize(np.array(texts, dtype=object))
    return merged[codes].astype(np.intp), names


def labels(column: "pd.Series[Any]") -> "pd.Series[Any]":
    codes, names = coded(column)
    return pd.Series(names[codes], index=column.index, dtype=object)


def combined(frame: pd.DataFrame, names: Sequence[str]) -> Codes:
    """Return (rows,) the code of each combination of the columns' levels, in the order of the table."""
    codes = np.zeros(len(frame), np.intp)
    for name in names:
        own, levels = coded(frame[name])
        codes = pd.factorize(codes * len(levels) + own)[0].astype(np.intp)
    return codes


def levels_in(frame: pd.DataFrame, names: Sequence[str]) -> "pd.Series[Any]":
    """Return (rows,) the levels of several columns as a tuple of texts; `()` if there are no columns."""
    codes = combined(frame, names)
    first = frame.loc[~pd.Series(codes).duplicated().to_numpy(), list(names)]
    each = list(zip(*(labels(first[name]) for name in names), strict=True)) if names else [()]
    return pd.Series(pd.Series(each, dtype=object).to_numpy()[codes], index=frame.index, dtype=object)


EMPTY = {"", "nan", "na", "n/a", "n.a.", "#n/a", "null", "none", "<na>", "-", "--", "—", "–"}
# Squares of larger numbers, multiplied, overflow.
_LARGEST = 1e60
# A number in any notation.
WRITTEN = re.compile(r"[+\-−]?(?:[\d.,\s'’]*\d[\d.,]*(?:e[+-]?\d+)?|inf)\s*%?")
_END = r"(?:e[+-]?\d+)?"
NUMBER = re.compile(rf"[+-]?(?:\d+\.?\d*|\.\d+){_END}", re.IGNORECASE)
_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){_END}", re.IGNORECASE)
_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_COMMAS_AND_POINT = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+\.\d*")
_POINTS_AND_COMMA = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+,\d*")
_GAPS = re.compile(r"(?<=\d)[\u00a0\u202f '’](?=\d{3}(?!\d))")


@dataclass(frozen=True)
class Numbers:
    """A column's numbers, NaN where a cell is empty, and whether they had percent signs."""

    values: "pd.Series[float]"
    per_cent: bool = False
    notes: tuple[str, ...] = ()


def is_empty(value: object) -> bool:
    """Return whether a cell is empty, in any of the usual spellings."""
    return value is None or value is pd.NA or str(value).strip().lower() in EMPTY


def is_filled(column: "pd.Series[Any]") -> "pd.Series[bool]":
    filled = numeric(column).notna().to_numpy(copy=True)
    filled[~filled] = ~column[~filled].map(is_empty).to_numpy(bool)
    return pd.Series(filled, index=column.index)


def numeric(column: "pd.Series[Any]") -> "pd.Series[float]":
    """Return numbers as programs write them; NaN for everything else."""
    try:
        return pd.to_numeric(column, errors="coerce").astype(float)
    except OverflowError:  # an integer too large for a float
        return pd.to_numeric(column.astype(str), errors="coerce").astype(float)


def numbers_in(column: "pd.Series[Any]", name: str, decimal_comma: bool = False) -> Numbers:
    """Return the numbers of a column; refuse cells that are neither a number nor empty.

    The index counts rows, for messages. Cells are first read as programs write numbers, then as people do.
    With `decimal_comma`, `1,234` is 1.234 unless other cells disagree.
    """
    rows, column = column.index, column.reset_index(drop=True)  # a wide table's rows hold several runs
    values = numeric(column).replace([np.inf, -np.inf], np.nan)
    plain, notes = values.notna(), list[str]()
    left = ~plain & is_filled(column)
    text = column[left].astype(str).str.strip().str.replace("−", "-", regex=False)
    signed = text.str.endswith("%")
    if signed.any():
        unsigned = np.sort(np.r_[text.index[~signed], np.flatnonzero(plain)])
        if len(unsigned):
            raise TableError(
                f"{name!r} has a percent sign in {row_numbers(rows[text.index[signed]])} and none in "
                f"{row_numbers(rows[unsigned])}; write all of them in one unit"
            )
        notes.append(f"{name} has percent signs, so its values are percentages.")
    text = text.str.removesuffix("%").str.strip().str.replace(_GAPS, "", regex=True)
    commas = text.str.contains(",", regex=False)
    if commas.any():
        has_points = bool(column[plain].astype(str).str.contains(".", regex=False).any())
        text[commas], note = _without_commas(text[commas], has_points, name, decimal_comma, rows)
        notes += note
    numbers = text.where(text.str.fullmatch(NUMBER)).astype(float)
    bad = ~numbers.abs().lt(np.inf)
    if bad.any():
        cells = column[bad.index[bad]]
        some = zip(rows[cells.index[:3]], cells, strict=False)
        examples = ", ".join(f"row {row}: {short(cell)}" for row, cell in some)
        more = f" and {len(cells) - 3:,} more" if len(cells) > 3 else ""
        raise TableError(f"{name!r} must hold finite numbers; {examples}{more} (leave failed runs empty)")
    values[left] = numbers
    largest = values.abs().max()
    if largest > _LARGEST or 0 < largest < 1 / _LARGEST:
        raise TableError(f"{name!r} reaches {largest:g}; change its unit: squares of it cannot be computed")
    return Numbers(values.set_axis(rows), bool(signed.any()), tuple(notes))


def _without_commas(
    text: "pd.Series[str]", has_points: bool, name: str, decimal_comma: bool, rows: "pd.Index[Any]"
) -> tuple["pd.Series[str]", tuple[str, ...]]:
    """Rewrite cells with commas as a program would, once the meaning of a comma in the column is clear."""
    groups = text.str.fullmatch(_GROUPS)  # 1,234 may be either
    decimals = (text.str.fullmatch(_COMMA) & ~groups) | text.str.fullmatch(_POINTS_AND_COMMA)
    thousands = text.str.fullmatch(_COMMAS_AND_POINT) | (groups & (text.str.count(",") > 1))
    if not (groups | decimals | thousands).all():
        return text, ()  # some are not numbers in any notation
    if decimals.any() and (thousands.any() or has_points):
        raise TableError(
            f"{name!r} has a decimal comma in {row_numbers(rows[text.index[decimals]])} and decimal points "
            "elsewhere; write all numbers in one way"
        )
    if thousands.any() or has_points:
        return text.str.replace(",", "", regex=False), (f"Commas in {name} part thousands.",)
    if decimals.any() or decimal_comma:
        plain = text.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        return plain, (f"{name} is written with decimal commas.",)
    row, cell = rows[text.index[0]], text.iloc[0]
    raise TableError(
        f"{name!r} has {cell!r} in row {row}, which may be {cell.replace(',', '')} or "
        f"{cell.replace(',', '.')}; write it without the comma"
    )


# Names of a seed that do not contain that word, the surest first.
_RUNS = (
    "run run_id run_number run_index run_idx run_name run_no run_nr trial trial_id trial_number rep reps "
    "replicate replication repetition repeat repeats fold cv_fold fold_id"
).split()
FOLDS = {"fold", "cv_fold", "fold_id"}
_STEPS = set(
    "step steps timestep timesteps iteration iterations iter iters epoch epochs update updates frame frames "
    "episode episodes seen".split()
)
# What may follow a step's name, and what makes it a setting instead: `env_frames_M`, `warmup_steps`.
_UNITS = set("m k mio million millions thousand thousands idx index number no nr num count 1e6 1e3".split())
_SETTINGS = set("n num max warmup per decay every accumulation best final early stop stopped".split())
STRATA = set("dataset datasets data task tasks env environment env_id game benchmark domain problem".split())
_BASELINES = set(
    "baseline base control reference ref none default vanilla standard original plain off false no without "
    "subtract old before".split()
)
# Columns that may differ between runs without being part of the design.
_CIRCUMSTANCES = set(
    "host hostname node machine gpu gpus cpu device user date day time timestamp created commit git version "
    "status state job notes note comment comments tags tag".split()
)
_FEW = 1000


@dataclass(frozen=True)
class Columns:
    """The role of each column; `baseline` is None if all levels are compared with each other."""

    value: str
    group: str
    baseline: str | None
    blocks: tuple[str, ...]
    seed: str | None
    by: tuple[str, ...]
    paired: bool = True

    @property
    def run(self) -> tuple[str, ...]:
        return (*self.by, self.group, *self.blocks, *((self.seed,) if self.seed else ()))


@dataclass(frozen=True)
class RunTable:
    """A checked table: columns value, group, block, seed, seed_name, stratum, failed, row; one row per run.

    A stratum, and a block, is a tuple of levels, one for each of its factors.
    """

    # Runs of a store also have the columns folder and chance; logged items have a file as folder.
    frame: pd.DataFrame
    columns: Columns  # the roles of the source's columns
    source: str
    notes: tuple[str, ...]  # on what was found, and what was left out
    store: str | None = None  # the folder of the runs, if they come from a store
    per_cent: bool = False  # whether the values had percent signs
    better: Better | None = None  # the better direction, if the source records it
    # The rows of runs without a value, which are not in `frame`.
    crashed: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["stratum", "group", "seed"]))

    @property
    def predictions(self) -> "pd.Series[str] | None":
        """(rows,) the folder of each run with its predictions, or its file of outcomes; None if unknown."""
        return self.frame.get("folder")

    def cells(self) -> Iterator[tuple[Levels, str, Codes]]:
        """Yield stratum, group and the rows of each cell; rows are sorted once."""
        cells = self.frame.groupby(["stratum", "group"], sort=False).ngroup().to_numpy()
        order = np.argsort(cells, kind="stable").astype(np.intp)
        strata, groups = (self.frame[name].to_numpy() for name in ("stratum", "group"))
        for rows in np.split(order, np.cumsum(np.bincount(cells))[:-1]):
            yield strata[rows[0]], str(groups[rows[0]]), rows


def plain_name(name: str) -> str:
    """Return one spelling, `random_seed`, for `RandomSeed`, `random-seed` and `Random Seed`."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


def require(column: str, names: Iterable[str], table: str) -> None:
    names = list(names)
    if column in names:
        return
    same = [name for name in names if name.lower() == column.lower()]
    hint = f"; did you mean {same[0]!r}?" if same else did_you_mean(column, names)
    raise TableError(f"{table} has no column {column!r}{hint} (it has {listed(names)})")


def is_seed(name: str) -> bool:
    """Return whether a parameter is a seed by the last part of its name."""
    last = last_part(name)
    return last in SEEDS or last.endswith("_seed")


def last_part(name: str) -> str:
    return re.split(r"[./@]", name.lower().replace("-", "_").replace(" ", "_"))[-1]


def seed_names(names: Iterable[str]) -> list[str]:
    """Return the columns that may be the seed by their names, the surest first."""

    def rank(name: str) -> tuple[int, int]:
        plain = plain_name(name)
        if name == "seed" or plain in ("seed", "seeds", "seed_id", "seed_idx", "seed_number"):
            return (0, name != "seed")
        if is_seed(plain):
            return (1, plain != "random_seed")
        return (2, _RUNS.index(plain)) if plain in _RUNS else (3, 0)

    return [name for name in sorted(names, key=rank) if rank(name)[0] < 3]


def is_step(name: str) -> bool:
    words = plain_name(name).split("_")
    while len(words) > 1 and words[-1] in _UNITS:
        words.pop()
    return words[-1] in _STEPS and (words[-1].startswith("timestep") or not _SETTINGS & {*words})


def find_seed(frame: pd.DataFrame, names: Sequence[str]) -> str | None:
    """Return the seed among the columns `names`; prefer one that varies."""
    candidates = seed_names(names)
    if "seed" in candidates:
        return "seed"
    varying = [name for name in candidates if frame[name].nunique() > 1]
    return next(iter(varying or candidates), None)


def baseline_of(levels: Sequence[str]) -> str:
    """Return the level whose name contains a word such as baseline or control, else the first."""
    named = [level for level in levels if set(plain_name(level).split("_")) & _BASELINES]
    return named[0] if len(named) == 1 else levels[0]


def is_numeric(column: "pd.Series[Any]") -> bool:
    """Return whether the first cells of a column are numbers."""
    if pd.api.types.is_bool_dtype(column):
        return False
    first = column.iloc[:_FEW].astype(str).str.strip().str.lower()
    filled = first[~first.isin(EMPTY)]
    return len(filled) > 0 and bool(filled.str.fullmatch(WRITTEN).all())


def is_factor(column: "pd.Series[Any]") -> bool:
    """Return whether a column has recurring levels, as a factor of a design does."""
    levels = column.nunique()
    if not 2 <= levels <= len(column) // 2:
        return False
    return not is_numeric(column) or bool(levels <= len(column) // 4 and column.value_counts().min() > 1)


def distinguishing(frame: pd.DataFrame, run: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the fewest columns of `others` that distinguish rows of one run; none if they cannot.

    Runs that were logged twice are tolerated: up to a tenth of the rows may still share their run.
    """
    found: list[str] = []
    enough: list[str] = []
    first = apart = int(combined(frame, run).max()) + 1
    factors = [name for name in others if is_factor(frame[name])]
    while apart < len(frame) and factors:
        reach = {name: int(combined(frame, [*run, *found, name]).max()) + 1 for name in factors}
        best = max(factors, key=lambda name: (reach[name], not is_step(name)))
        if reach[best] == apart:
            return enough
        found.append(best)
        factors.remove(best)
        apart = reach[best]
        if not enough and len(frame) - apart <= 0.1 * (len(frame) - first):
            enough = list(found)
    return found if apart == len(frame) else enough


def pooled_factor(frame: pd.DataFrame, cell: Sequence[str], others: Sequence[str]) -> str | None:
    """Return a column, such as the dataset, whose levels would be pooled as if they were seeds, if any.

    It splits every cell into the same levels, with several rows each. Numbers are levels of a design only
    if each occurs equally often in every cell.
    """
    cells = combined(frame, cell)
    for name in others:
        if is_aside(name) or not is_factor(frame[name]):
            continue
        own = combined(frame, [name])
        levels = int(own.max()) + 1
        if levels > len(frame) // 4:
            continue
        each = np.bincount(cells * levels + own, minlength=levels)
        is_crossed = len(each) == levels * (cells.max() + 1) and each.min() > 1
        if is_crossed and (each.min() == each.max() or not is_numeric(frame[name])):
            return name
    return None


def nesting_factor(frame: pd.DataFrame, group: str, others: Sequence[str]) -> str | None:
    """Return a column, such as the dataset, in whose levels the groups are nested, several in one."""
    groups = int(combined(frame, [group]).max()) + 1
    for name in others:
        levels = int(combined(frame, [name]).max()) + 1
        if plain_name(name) in STRATA and 1 < levels < groups == combined(frame, [group, name]).max() + 1:
            return name
    return None


def single_row_factor(frame: pd.DataFrame, cell: Sequence[str], others: Sequence[str]) -> str | None:
    """Return a column of which each cell has nearly every level, and each of these once, if any.

    It is the seed under another name, or a dataset that would be taken for one.
    """
    cells = combined(frame, cell)
    many = int(cells.max()) + 1
    for name in others:
        own = combined(frame, [name])
        levels = int(own.max()) + 1
        is_free = many > 1 or plain_name(name) in STRATA
        if is_aside(name) or levels < 2 or not is_free or len(frame) < 0.8 * levels * many:
            continue
        if len(np.unique(cells * levels + own)) == len(frame):
            return name
    return None


def is_aside(name: str) -> bool:
    """Return whether a column is a result, or incidental to the run."""
    return bool(set(plain_name(name).split("_")) & _CIRCUMSTANCES) or is_metric_name(name)
