"""Several sets of runs as one table: what they have in common, in one unit, with one name for each seed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from seedspread.runs.levels import joined_levels, split_levels, stratum_name
from seedspread.runs.metrics import Metric
from seedspread.tables.columns import Columns
from seedspread.tables.errors import TableError
from seedspread.tables.labels import coded
from seedspread.tables.question import SET
from seedspread.tables.run_table import RunTable

_OF_A_STORE = ("folder", "chance")
_RUN = ["stratum", "group", "block", "seed_name"]
# Settings that a line names.
_MOST_NAMED = 4


@dataclass(frozen=True)
class RunSet:
    """One set.

    Attributes:
        name: what to call it.
        runs: checked; what its arms are called is the same in all sets.
        metric: what its values are.
    """

    name: str
    runs: RunTable
    metric: Metric


@dataclass(frozen=True)
class JoinedSets:
    """All sets in one table.

    Attributes:
        names: of the sets, the one that the others are compared with first.
        runs: of all; `frame` has the set's name as `source`.
        metric: what the values are.
        only: settings that are not in all sets, by set.
        copies: a line on runs that are the same in two sets.
        notes: on what was done to the values.
    """

    names: tuple[str, ...]
    runs: RunTable
    metric: Metric
    only: dict[str, tuple[str, ...]]
    copies: tuple[str, ...]
    notes: tuple[str, ...]

    def of(self, name: str) -> RunTable:
        """The runs of one set, its arms in the order of all."""
        frame, crashed = self.runs.frame, self.runs.crashed
        arms = coded(frame["group"])[0]
        own = frame.iloc[np.argsort(arms, kind="stable")]
        own = own.loc[own["source"] == name].reset_index(drop=True)
        return replace(self.runs, frame=own, crashed=crashed.loc[crashed["source"] == name])

    def by_setting(self) -> RunTable:
        """The sets as arms, their arms as strata: did an arm's spread change from one set to another?"""
        columns = self.runs.columns
        by = (*columns.by, *_arms_of(columns))
        shared = _settings(self.runs.frame, columns)
        first = set(shared[self.runs.frame["source"] == self.names[0]])
        others = set(shared[self.runs.frame["source"] != self.names[0]])
        kept = self.runs.frame.loc[shared.isin(first & others)].reset_index(drop=True)
        return replace(
            self.runs,
            frame=_with_sets_as_arms(kept, columns),
            crashed=_with_sets_as_arms(self.runs.crashed, columns),
            columns=replace(columns, group="source", baseline=self.names[0], by=by),
            notes=(),
        )


def _arms_of(columns: Columns) -> tuple[str, ...]:
    return () if columns.group == SET else (columns.group,)


def _settings(frame: pd.DataFrame, columns: Columns) -> "pd.Series[str]":
    """(rows,) what is compared from set to set: the stratum, the arm, or both, `dataset, arm`."""
    if not _arms_of(columns):
        return frame["stratum"]
    if not columns.by:
        return frame["group"]
    arms = frame.groupby(["stratum", "group"], sort=False).ngroup()
    first = frame.loc[~arms.duplicated(), ["stratum", "group"]]
    names = [
        joined_levels((*split_levels(stratum, len(columns.by)), arm))
        for stratum, arm in first.itertuples(index=False)
    ]
    return arms.map(dict(enumerate(names)))


def _with_sets_as_arms(frame: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    return frame.assign(stratum=_settings(frame, columns), group=frame["source"])


def join(sets: Sequence[RunSet]) -> JoinedSets:
    """One table of all; refuses sets that have no setting in common with the first, or another unit."""
    sets, metric, notes = _in_one_unit(sets)
    columns = replace(sets[0].runs.columns, seed=_seed(sets))
    kept = [c for c in _OF_A_STORE if all(c in s.runs.frame for s in sets)]
    dropped = [c for c in _OF_A_STORE if c not in kept]
    frames = [s.runs.frame.drop(columns=dropped, errors="ignore").assign(source=s.name) for s in sets]
    crashed = [s.runs.crashed.assign(source=s.name) for s in sets]
    every = pd.concat([*frames, *(c for c in crashed if len(c))], ignore_index=True)
    seeds = every["seed_name"] if columns.seed else every["source"].str.cat(every["row"].astype(str), " row ")
    every["seed"] = coded(seeds)[0]
    rows = sum(map(len, frames))
    frame, lost = every.iloc[:rows], every.iloc[rows:]
    runs = RunTable(
        frame, columns, _names(list(dict.fromkeys(s.runs.source for s in sets))), (), crashed=lost
    )
    names = tuple(s.name for s in sets)
    only = _only(frame, columns, names)
    return JoinedSets(names, runs, metric, only, tuple(_copies(frame, names)), tuple(notes))


def _seed(sets: Sequence[RunSet]) -> str | None:
    """None unless all sets have one: runs of sets without seeds cannot be paired."""
    seeds = [s.runs.columns.seed for s in sets]
    return None if None in seeds else seeds[0]


def _in_one_unit(sets: Sequence[RunSet]) -> tuple[list[RunSet], Metric, list[str]]:
    """Shares and per cent are brought together; other units that differ are refused, as are directions."""
    value = sets[0].runs.columns.value
    if len({s.metric.better for s in sets}) > 1:
        told = " and ".join(f"{s.metric.better} in {s.name}" for s in sets)
        raise TableError(
            f"{value} is better when {told}; say which with --higher-is-better or --lower-is-better"
        )
    units = {s.metric.unit for s in sets} - {"none"}
    if units == {"share", "per cent"}:
        shares = [s.name for s in sets if s.metric.unit == "share"]
        note = f"{value} is a share in {_names(shares)}, else in per cent: shares were multiplied by 100."
        return (
            [_in_per_cent(s) for s in sets],
            next(s.metric for s in sets if s.metric.unit == "per cent"),
            [note],
        )
    if len(units) > 1:
        told = " and ".join(f"in {s.metric.unit} in {s.name}" for s in sets)
        raise TableError(f"{value} is {told}; bring the values to one unit first")
    metric = next((s.metric for s in sets if s.metric.unit in units), sets[0].metric)
    return list(sets), metric, []


def _in_per_cent(one: RunSet) -> RunSet:
    if one.metric.unit != "share":
        return one
    frame = one.runs.frame
    scaled = frame.assign(**{c: 100 * frame[c] for c in ("value", "chance") if c in frame})
    return replace(one, runs=replace(one.runs, frame=scaled), metric=one.metric.for_display[0])


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _copies(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """A line on settings of a later set whose runs are all those of the first: seed and value are the same.

    Single runs are not looked for: values that are rounded agree by chance.
    """
    known = pd.MultiIndex.from_frame(frame.loc[frame["source"] == names[0], [*_RUN, "value"]])
    out = []
    for name in names[1:]:
        own = frame.loc[frame["source"] == name]
        same = pd.Series(pd.MultiIndex.from_frame(own[[*_RUN, "value"]]).isin(known), own.index)
        by_setting = same.groupby([own["stratum"], own["group"]])
        copies = int(
            same[(by_setting.transform("all") & (by_setting.transform("size") > 1)).to_numpy()].sum()
        )
        if copies:
            which = f"All {copies:,}" if copies == len(own) else f"{copies:,} of {len(own):,}"
            out.append(
                f"{which} runs of {name} have the setting, seed and value of a run of {names[0]}: they are "
                "copies, or repeat it to the last digit, and are no further evidence."
            )
    return out


def _only(frame: pd.DataFrame, columns: Columns, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Settings that the first set lacks, and its own that no other has; none in common is an error."""
    settings = _settings(frame, columns)
    by = (*columns.by, *_arms_of(columns))
    of = {name: dict.fromkeys(settings[(frame["source"] == name).to_numpy()]) for name in names}
    others = {one for name in names[1:] for one in of[name]}
    for name in names[1:]:
        if not of[name].keys() & of[names[0]].keys():
            has = ". ".join(
                f"{one} has {few(stratum_name(by, s) for s in of[one])}" for one in (names[0], name)
            )
            raise TableError(f"{names[0]} and {name} have no setting in common. {has}")
    lacking = {
        name: [s for s in of[name] if s not in (others if name == names[0] else of[names[0]])]
        for name in names
    }
    return {name: tuple(stratum_name(by, s) for s in found) for name, found in lacking.items() if found}


def few(settings: Iterable[str]) -> str:
    """Settings one after the other; the first few of many."""
    every = list(settings)
    more = [f"and {len(every) - _MOST_NAMED} more"] if len(every) > _MOST_NAMED else []
    return "; ".join([*every[:_MOST_NAMED], *more])
