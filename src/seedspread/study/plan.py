"""A plan: which runs a study names, which are distinct, which the store already has."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from seedspread.errors import reason
from seedspread.render.table import Column, Table
from seedspread.render.web import for_notebook
from seedspread.runners.contract import Level, Runner
from seedspread.runs.levels import level_name, setting_name
from seedspread.runs.sequential import SequentialRecord
from seedspread.runs.store import FINISHED, STATES, RunState, Store, StoreError, by_state
from seedspread.runs.studies import RecordedCell, RecordedStudy, recorded_study
from seedspread.study.implementation import implemented
from seedspread.study.spec import StudyError, StudySpec
from seedspread.tables.from_store import read_runs

# A study's name, and the levels of its factors.
CellId = tuple[str, tuple[tuple[str, Level], ...]]
# A run by its study, the levels of its cell and its seed.
RunName = tuple[str, frozenset[tuple[str, Any]], int]
# Of cells, in a notebook.
_CELLS_SHOWN = 20


@dataclass(frozen=True)
class PlannedRun:
    """A run that a study names: in which cell, with which seed, what it is, and its key."""

    study: str
    cell: tuple[tuple[str, Level], ...]
    seed: int
    runner: Runner
    parameters: Any
    key: str

    @property
    def cell_id(self) -> CellId:
        """What tells its cell apart from all others."""
        return self.study, self.cell

    @property
    def cell_name(self) -> str:
        """`margin_type = clamp, depth = 2`."""
        return setting_name(self.cell)

    @property
    def title(self) -> str:
        """`margin_type = clamp, depth = 2, seed 3`."""
        return f"{self.cell_name}, seed {self.seed}"

    def __repr__(self) -> str:
        return f"<PlannedRun {self.key}: {self.title}>"


@dataclass(frozen=True)
class Plan:
    """What a study asks for.

    Attributes:
        study: the study.
        store: where its results are, and go.
        data_dir: the data folder.
        runs: every run that the study names, in order; a run that two cells or studies share appears twice.
        accepted: runs that are kept although they were made with other inputs, by what was planned instead.
        stale: runs to do, by key, and what the store has of them from other inputs.
        growing: the looks at studies that grow, by name; their runs are those of the next look, or the last.
        later: runs of theirs beyond that look.
    """

    study: StudySpec
    store: Store
    data_dir: Path | None
    runs: tuple[PlannedRun, ...]
    accepted: Mapping[str, str] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)
    growing: Mapping[str, SequentialRecord] = field(default_factory=dict)
    later: tuple[PlannedRun, ...] = ()

    @classmethod
    def make(
        cls,
        study: StudySpec,
        store: "Store | Path | str",
        data_dir: "Path | str | None" = None,
        *,
        accept_changed: bool = False,
        implementation: str | None = None,
    ) -> "Plan":
        """Names every run by its key.

        Args:
            study: the study.
            store: where its results are, and go.
            data_dir: the data folder.
            accept_changed: keep runs whose inputs have changed since they were made.
            implementation: how its runs are computed; by default as the store or the study says.
        """
        data_dir = None if data_dir is None else Path(data_dir)
        store = store if isinstance(store, Store) else Store(store)
        study = implemented(study, store, implementation)
        runs: list[PlannedRun] = []
        bases: list[str | None] = []
        for part in study.parts:
            named = [(cell, seed) for cell in part.cells for seed in part.seeds]
            pairs = [(cell.parameters, seed) for cell, seed in named]
            runs += [
                PlannedRun(part.name, cell.levels, seed, part.runner, cell.parameters, key)
                for (cell, seed), key in zip(named, part.runner.keys(pairs, data_dir), strict=True)
            ]
            bases += part.runner.base_keys(pairs)
        plan = cls(study, store, data_dir, tuple(runs))
        plan = plan._with_changed(bases, accept_changed) if any(bases) else plan
        return plan.grown(growth(study, store, plan.keys))

    def grown(self, growing: Mapping[str, SequentialRecord]) -> "Plan":
        """With the runs of studies that grow up to the look that is to come."""
        if not growing:
            return self
        seeds = {part.name: part.seeds for part in self.study.parts}
        now = {name: frozenset(seeds[name][: record.seeds]) for name, record in growing.items()}
        every = (*self.runs, *self.later)
        is_now = [run.study not in now or run.seed in now[run.study] for run in every]
        return replace(
            self,
            runs=tuple(run for run, now in zip(every, is_now, strict=True) if now),
            later=tuple(run for run, now in zip(every, is_now, strict=True) if not now),
            growing=growing,
        )

    def _with_changed(self, bases: list[str | None], accept: bool) -> "Plan":
        """Looks for runs of the store that differ from planned ones in their inputs only."""
        made = self.store.finished_by_base_key()
        before: dict[str, str] = {}
        for part in self.study.parts:
            recorded = recorded_study(self.store, part.name, part.origin)
            before |= {} if recorded is None else recorded.accepted
        runs, accepted, stale = [], {}, {}
        for run, base in zip(self.runs, bases, strict=True):
            other = made.get(base or "")
            if other is None or other == run.key or self.store.is_done(run.key):
                runs.append(run)
            elif accept or before.get(run.key) == other:
                runs.append(replace(run, key=other))
                accepted[run.key] = other
            else:
                runs.append(run)
                stale[run.key] = other
        return replace(self, runs=tuple(runs), accepted=accepted, stale=stale)

    def keys(self) -> dict[RunName, str]:
        """Of every run that it names, now or later."""
        return {(run.study, frozenset(run.cell), run.seed): run.key for run in (*self.runs, *self.later)}

    @property
    def distinct(self) -> dict[str, PlannedRun]:
        """Each run once, by its key: as it is first named."""
        first: dict[str, PlannedRun] = {}
        for run in self.runs:
            first.setdefault(run.key, run)
        return first

    def by_seed(self, runs: Iterable[PlannedRun]) -> list[PlannedRun]:
        """Runs in the order in which they are run: seed by seed, so that every cell can soon be compared.

        The studies of a collection come one after the other.
        """
        places = {
            (part.name, seed): (number, place)
            for number, part in enumerate(self.study.parts)
            for place, seed in enumerate(part.seeds)
        }
        return sorted(runs, key=lambda run: places[run.study, run.seed])

    @property
    def shared(self) -> dict[str, list[PlannedRun]]:
        """Runs that are named more than once, with all their names."""
        named: dict[str, list[PlannedRun]] = {}
        for run in self.runs:
            named.setdefault(run.key, []).append(run)
        return {key: runs for key, runs in named.items() if len(runs) > 1}

    def counts(self, states: Mapping[str, RunState]) -> str:
        """How many runs are where: `96 distinct runs: 93 done, 3 failed.`."""
        return f"{len(states)} distinct run{'s' * (len(states) != 1)}: {by_state(states)}."

    def overview(self, states: Mapping[str, RunState], most: int) -> Table:
        """One row per study and cell, the first few: its levels, its runs, and how many of them are where."""
        factors = list(dict.fromkeys(factor for run in self.runs for factor, _ in run.cell))
        shown = [s for s in STATES if any(state.state == s for state in states.values())] or ["waiting"]
        several = len(self.study.parts) > 1
        cells: dict[CellId, Counter[str]] = {}
        for run in self.runs:
            cells.setdefault(run.cell_id, Counter())[states[run.key].state] += 1
        rows = tuple(
            (
                *((study,) if several else ()),
                *(level_name(dict(cell).get(factor)) for factor in factors),
                str(counts.total()),
                *(str(counts[s]) if counts[s] else "-" for s in shown),
            )
            for (study, cell), counts in list(cells.items())[:most]
        )
        headings = (*(("study",) if several else ()), *factors, "runs", *shown)
        more = f"{len(cells) - most:,} more cells" if len(cells) > most else ""
        return Table("", self.study.title, tuple(map(Column, headings)), rows, note=more)

    def __repr__(self) -> str:
        return f"<Plan of {self.study.name}: {self.counts(self.states()).rstrip('.')}>"

    def _repr_html_(self) -> str:
        states = self.states()
        head = f"{self.study.name}, in {self.store.path}"
        rest = "Study.run(store) runs what is left."
        return for_notebook([head, self.counts(states)], [self.overview(states, _CELLS_SHOWN)], [rest])

    def states(self) -> dict[str, RunState]:
        """Where each distinct run is."""
        there = self._folders()
        return {
            key: self.store.state(key) if key in there else RunState(key, "waiting") for key in self.distinct
        }

    def missing(self) -> dict[str, PlannedRun]:
        """The runs that have no result yet, or a damaged one."""
        states = self.states()
        return {key: run for key, run in self.distinct.items() if states[key].state not in FINISHED}

    def _folders(self) -> frozenset[str]:
        """What the store's folder lists: one look, where a look for each run would take seconds."""
        try:
            return frozenset(os.listdir(self.store.path))
        except (FileNotFoundError, NotADirectoryError):
            return frozenset()
        except OSError as error:
            raise StoreError(f"the store {self.store.path} cannot be read: {reason(error)}") from None

    def lacking(self) -> dict[str, int]:
        """Metrics that are declared, and how many finished runs were made before they were."""
        declared = [metric.name for part in self.study.parts for metric in part.metrics]
        table = self.table() if declared else pd.DataFrame()
        counts = {name: len(table) - int(table[name].notna().sum()) if name in table else len(table)
                  for name in declared}  # fmt: skip
        return {name: count for name, count in counts.items() if count}

    def notes(self) -> list[str]:
        """What the runners say of these runs, for people."""
        return [
            note
            for part in self.study.parts
            for note in part.runner.notes([cell.parameters for cell in part.cells])
        ]

    def check(self) -> None:
        """Raises at once, in one line, if what the missing runs need is not there."""
        for runner, runs in self._missing_by_runner().items():
            runner.check([run.parameters for run in runs], self.data_dir)

    def _missing_by_runner(self) -> dict[Runner, list[PlannedRun]]:
        grouped: dict[Runner, list[PlannedRun]] = {}
        for run in self.missing().values():
            grouped.setdefault(run.runner, []).append(run)
        return grouped

    def recorded(self) -> list[RecordedStudy]:
        """Its single studies, as a store remembers them."""
        runs: dict[str, dict[tuple[tuple[str, Level], ...], dict[int, str]]] = {}
        for run in self.runs:
            runs.setdefault(run.study, {}).setdefault(run.cell, {})[run.seed] = run.key
        studies = []
        for part in self.study.parts:
            values = {cell.levels: part.runner.values(cell.parameters) for cell in part.cells}
            cells = tuple(RecordedCell(dict(c), values[c], keys) for c, keys in runs[part.name].items())
            studies.append(
                RecordedStudy(
                    name=part.name,
                    title=part.title,
                    note=part.note,
                    audit=part.audit,
                    runner=part.runner.name,
                    cells=cells,
                    metrics=part.metrics,
                    accepted={
                        planned: kept
                        for planned, kept in self.accepted.items()
                        if any(kept in cell.runs.values() for cell in cells)
                    },
                    origin=part.origin,
                    implementation=part.implementation,
                    sequential=self.growing.get(part.name),
                    question=part.question,
                    prediction=part.prediction,
                )
            )
        return studies

    def table(self, metrics: Sequence[str] = ()) -> pd.DataFrame:
        """One row per finished run that the study names, factors and `study` as columns."""
        runs = read_runs(self.store, self.recorded(), metrics)[0]
        return pd.DataFrame([run.row() | dict(run.cell.levels) for run in runs])


def growth(
    study: StudySpec, store: Store, keys: Callable[[], Mapping[RunName, str]]
) -> dict[str, SequentialRecord]:
    """The looks at each part that grows, by name; a rule or question that was changed since is refused.

    Args:
        study: one, or a collection.
        store: that remembers.
        keys: of all its runs. Where those that were looked at are others now (of a changed program, say),
            it begins anew.
    """
    out = {}
    for part in study.parts:
        recorded = recorded_study(store, part.name, part.origin)
        begun = None if recorded is None else recorded.sequential
        if recorded is None or begun is None or _are_others(recorded, keys()):
            begun = None
        elif begun.looks:
            _check_same(part, recorded, begun)
        if part.sequential is not None:
            same = begun is not None and begun.spec == part.sequential
            out[part.name] = begun if begun is not None and same else SequentialRecord(part.sequential)
    return out


def _are_others(recorded: RecordedStudy, keys: Mapping[RunName, str]) -> bool:
    """Whether a run that was looked at has another key by now."""
    return any(
        keys.get((recorded.name, frozenset(cell.levels.items()), seed), key) != key
        for cell in recorded.looked_at.cells
        for seed, key in cell.runs.items()
    )


def _check_same(part: StudySpec, recorded: RecordedStudy, begun: SequentialRecord) -> None:
    """Refuses what its looks were not taken for."""
    looked, now = recorded.looked_at.cells, [dict(cell.levels) for cell in part.cells]
    changed = ""
    if begun.spec != part.sequential:
        changed = f"by another rule ({begun.spec.title})"
    elif recorded.audit != part.audit or [dict(cell.levels) for cell in looked] != now:
        changed = "with another comparison (cells or [audit])"
    elif any(tuple(cell.runs) != part.seeds[: len(cell.runs)] for cell in looked):
        changed = "with other seeds"
    if changed:
        times = f"{len(begun.looks)} time{'s' * (len(begun.looks) != 1)}"
        raise StudyError(
            f"{part.name} has been looked at {times} {changed}, and its levels hold for that alone: put it "
            "back, or name another store"
        )
