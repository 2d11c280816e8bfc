"""Which column is what: the seed by its usual names, steps, the baseline, what tells runs apart."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from seedspread.runs.metrics import is_metric_name
from seedspread.tables.labels import combined
from seedspread.tables.numbers import EMPTY, WRITTEN
from seedspread.tables.sources.parameters import is_seed

# From the surest to the least sure; all of these after what is called a seed.
_RUNS = (
    "run run_id run_number run_index run_idx run_name run_no run_nr trial trial_id trial_number rep reps "
    "replicate replication repetition repeat repeats fold cv_fold fold_id"
).split()
FOLDS = {"fold", "cv_fold", "fold_id"}
_STEPS = set(
    "step steps global_step env_step env_steps timestep timesteps iteration iterations iter epoch epochs "
    "update updates frame frames episode".split()
)
_BASELINES = set(
    "baseline base control reference ref none default vanilla standard original plain off false no without "
    "subtract old before".split()
)
# What may differ between runs without being part of the design.
_CIRCUMSTANCES = set(
    "host hostname node machine gpu gpus cpu device user date day time timestamp created commit git version "
    "status state job notes note comment comments tags tag".split()
)
_FEW = 1000


@dataclass(frozen=True)
class Columns:
    """Which column is what; `baseline` is None where all levels are compared with each other."""

    value: str
    group: str
    baseline: str | None
    blocks: tuple[str, ...]
    seed: str | None
    by: tuple[str, ...]

    @property
    def run(self) -> tuple[str, ...]:
        """The columns that make a run."""
        return (*self.by, self.group, *self.blocks, *((self.seed,) if self.seed else ()))


def plain_name(name: str) -> str:
    """`RandomSeed`, `random-seed` and `Random Seed` are one name."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


def seed_names(names: Iterable[str]) -> list[str]:
    """Columns that may be the seed by their names, the surest first."""

    def rank(name: str) -> tuple[int, int]:
        plain = plain_name(name)
        if name == "seed" or plain in ("seed", "seeds", "seed_id", "seed_idx", "seed_number"):
            return (0, name != "seed")
        if is_seed(plain):
            return (1, plain != "random_seed")
        return (2, _RUNS.index(plain)) if plain in _RUNS else (3, 0)

    return [name for name in sorted(names, key=rank) if rank(name)[0] < 3]


def is_step(name: str) -> bool:
    """Whether a column counts steps, by its name."""
    return plain_name(name) in _STEPS or plain_name(name).endswith(("_step", "_steps", "_epoch"))


def find_seed(frame: pd.DataFrame, names: Sequence[str]) -> str | None:
    """The seed among the columns `names`; rather one that varies."""
    candidates = seed_names(names)
    if "seed" in candidates:
        return "seed"
    varying = [name for name in candidates if frame[name].nunique() > 1]
    return next(iter(varying or candidates), None)


def is_shared(frame: pd.DataFrame, seed: str, group: str) -> bool:
    """Whether any seed was run in two groups."""
    seeds, both = combined(frame, [seed]), combined(frame, [seed, group])
    return bool(both.max() > seeds.max())


def baseline_of(levels: Sequence[str]) -> str:
    """Of two levels the one with a word such as baseline or control in it, else the first."""
    named = [level for level in levels if set(plain_name(level).split("_")) & _BASELINES]
    return named[0] if len(named) == 1 else levels[0]


def is_numeric(column: "pd.Series[Any]") -> bool:
    """Whether a column holds numbers, as its first cells tell."""
    if pd.api.types.is_bool_dtype(column):
        return False
    first = column.iloc[:_FEW].astype(str).str.strip().str.lower()
    filled = first[~first.isin(EMPTY)]
    return len(filled) > 0 and bool(filled.str.fullmatch(WRITTEN).all())


def is_factor(column: "pd.Series[Any]") -> bool:
    """Whether a column has levels that recur, as those of a design do; numbers must be whole or few."""
    levels = column.nunique()
    if not 2 <= levels <= len(column) // 2:
        return False
    if not is_numeric(column):
        return True
    counts = column.value_counts()
    return bool(levels <= len(column) // 4 and counts.min() > 1)


def telling_apart(frame: pd.DataFrame, run: Sequence[str], others: Sequence[str]) -> list[str]:
    """Columns among `others` that tell rows of one run apart, as few as it takes; none if they cannot.

    A run that was logged twice may leave a tenth of the rows that share their run with another.
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


def pooled(frame: pd.DataFrame, cell: Sequence[str], others: Sequence[str]) -> str | None:
    """A column that parts every cell into the same levels of several rows each, if there is one.

    Such as the dataset: its levels would be pooled as if they were seeds. Numbers are levels of a design only
    if each stands equally often in every cell.
    """
    cells = combined(frame, cell)
    for name in others:
        words = set(plain_name(name).split("_"))
        if words & _CIRCUMSTANCES or is_metric_name(name) or not is_factor(frame[name]):
            continue
        own = combined(frame, [name])
        levels = int(own.max()) + 1
        each = (
            np.bincount(cells * levels + own, minlength=levels) if levels <= len(frame) // 4 else np.ones(1)
        )
        is_crossed = len(each) == levels * (cells.max() + 1) and each.min() > 1
        if is_crossed and (each.min() == each.max() or not is_numeric(frame[name])):
            return name
    return None
