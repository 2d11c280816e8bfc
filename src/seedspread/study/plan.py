"""A plan: a study's runs, which of them are distinct or done, and how long the rest takes."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from seedspread.errors import reason
from seedspread.render.table import Column, Table
from seedspread.render.web import for_notebook
from seedspread.runners.contract import Runner
from seedspread.runs.levels import counted_runs, level_name
from seedspread.runs.run import Cell, Run
from seedspread.runs.store import FINISHED, STATES, RunState, Store, StoreError, by_state
from seedspread.runs.studies import RecordedCell, RecordedStudy, SequentialRecord, recorded_study
from seedspread.runs.time_left import TimeLeft
from seedspread.study.spec import StudyCell, StudyError, StudySpec

# A study's name, and the levels of its factors.
CellId = tuple[str, Cell]
# Most cells to list in a notebook.
_CELLS_SHOWN = 20


@dataclass(frozen=True)
class Plan:
    """The runs that a study asks for.

    Attributes:
        runs: every run of the study, in order; a run that two cells or studies share appears twice.
        accepted: runs that are kept although they were made with other inputs, by the planned keys.
        stale: runs to do, by key, with the store's version of them from other inputs.
        sequential: interim looks at sequential studies, by name; `runs` contains their runs up to the next
            interim look, or the last one.
        later: runs beyond that look.
    """

    study: StudySpec
    store: Store
    data_dir: Path | None
    runs: tuple[Run, ...]
    accepted: Mapping[str, str] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)
    sequential: Mapping[str, SequentialRecord] = field(default_factory=dict)
    later: tuple[Run, ...] = ()

    @classmethod
    def make(
        cls,
        study: "StudySpec | Path | str",
        store: "Store | Path | str",
        data_dir: "Path | str | None" = None,
        *,
        accept_changed: bool = False,
    ) -> "Plan":
        """Return the plan of a study; arguments as in `run_study`."""
        study = study if isinstance(study, StudySpec) else StudySpec.from_file(study)
        data_dir = None if data_dir is None else Path(data_dir)
        store = store if isinstance(store, Store) else Store(store)
        named: list[tuple[StudySpec, StudyCell, int, str]] = []
        bases: dict[str, str | None] = {}
        for part in study.parts:
            cells = [(cell, seed) for cell in part.cells for seed in part.seeds]
            pairs = [(cell.parameters, seed) for cell, seed in cells]
            keys = part.runner.keys(pairs, data_dir)
            named += [(part, *cell, key) for cell, key in zip(cells, keys, strict=True)]
            bases |= zip(keys, part.runner.base_keys(pairs), strict=True)
        accepted, stale = _with_other_inputs(study, store, bases, accept_changed)
        folder = str(store.path.absolute())
        runs = [
            Run(
                key=accepted.get(key, key),
                seed=seed,
                runner=part.runner.name,
                parameters=cell.parameters,
                folder=os.path.join(folder, accepted.get(key, key)),
                study=part.name,
                cell=cell.levels,
            )
            for part, cell, seed, key in named
        ]
        sequential = sequential_records(study, store, runs)
        now, later = _up_to_interim_look(study, runs, sequential)
        return cls(study, store, data_dir, now, accepted, stale, sequential, later)

    def at_interim_look(self, sequential: Mapping[str, SequentialRecord]) -> "Plan":
        """Return the plan with the runs of sequential studies up to the next interim look."""
        if not sequential:
            return self
        now, later = _up_to_interim_look(self.study, (*self.runs, *self.later), sequential)
        return replace(self, runs=now, later=later, sequential=sequential)

    @cached_property
    def runners(self) -> dict[str, Runner]:
        """Runners by name of the single study."""
        return {part.name: part.runner for part in self.study.parts}

    @property
    def distinct(self) -> dict[str, Run]:
        """Each run once, by key, as first named."""
        first: dict[str, Run] = {}
        for run in self.runs:
            first.setdefault(run.key, run)
        return first

    def by_seed(self, runs: Iterable[Run]) -> list[Run]:
        """Return runs in execution order: seed by seed, so that every cell can soon be compared.

        The studies of a collection come one after the other.
        """
        places = {
            (part.name, seed): (number, place)
            for number, part in enumerate(self.study.parts)
            for place, seed in enumerate(part.seeds)
        }
        return sorted(runs, key=lambda run: places[run.study, run.seed])

    def counts(self, states: Mapping[str, RunState]) -> str:
        """Return the number of runs by state: `96 runs: 93 done, 3 failed.`."""
        return f"{counted_runs(len(states))}: {by_state(states)}."

    def overview(self, states: Mapping[str, RunState], most: int) -> Table:
        """Return one row per study and cell, at most the first few: levels, runs, and runs by state."""
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
        rest = [*self.notes(), *(["Study.run(store) runs what is left."] if self.missing() else [])]
        return for_notebook([head, self.counts(states)], [self.overview(states, _CELLS_SHOWN)], rest)

    def states(self) -> dict[str, RunState]:
        try:  # once for all: checking run by run would take seconds
            there = frozenset(os.listdir(self.store.path))
        except (FileNotFoundError, NotADirectoryError):
            there = frozenset()
        except OSError as error:
            raise StoreError(f"the store {self.store.path} cannot be read: {reason(error)}") from None
        known = self.store.states(key for key in self.distinct if key in there)
        return {key: known.get(key) or RunState(key, "waiting") for key in self.distinct}

    def missing(self) -> dict[str, Run]:
        """Runs that have no result yet, or a damaged one."""
        states = self.states()
        return {key: run for key, run in self.distinct.items() if states[key].state not in FINISHED}

    def notes(self) -> list[str]:
        return [
            note
            for part in self.study.parts
            for note in part.runner.notes([cell.parameters for cell in part.cells])
        ]

    def check(self) -> None:
        """Raise, in one line, if something that the missing runs need is absent."""
        missing: dict[Runner, list[Any]] = {}
        for run in self.missing().values():
            missing.setdefault(self.runners[run.study], []).append(run.parameters)
        for runner, parameters in missing.items():
            runner.check(parameters, self.data_dir)

    def prepare(self) -> None:
        missing = self.missing().values()
        for part in self.study.parts:
            part.runner.prepare([run.parameters for run in missing if run.study == part.name], self.store)

    def recorded(self) -> list[RecordedStudy]:
        """Its single studies, for the store to record."""
        runs: dict[str, dict[Cell, dict[int, str]]] = {}
        for run in self.runs:
            runs.setdefault(run.study, {}).setdefault(run.cell, {})[run.seed] = run.key
        studies = []
        for part in self.study.parts:
            values = {cell.levels: part.runner.values(cell.parameters) for cell in part.cells}
            cells = tuple(RecordedCell(dict(c), values[c], keys) for c, keys in runs[part.name].items())
            own = {key for cell in cells for key in cell.runs.values()}
            studies.append(
                RecordedStudy(
                    name=part.name,
                    title=part.title,
                    note=part.file.note,
                    audit=part.audit,
                    runner=part.runner.name,
                    cells=cells,
                    metrics=part.metrics,
                    accepted={planned: kept for planned, kept in self.accepted.items() if kept in own},
                    origin=part.origin,
                    sequential=self.sequential.get(part.name),
                    question=part.file.question,
                    prediction=part.file.prediction,
                )
            )
        return studies


def _with_other_inputs(
    study: StudySpec, store: Store, bases: Mapping[str, str | None], accept: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Return runs of the store that differ from planned ones in their inputs only, by the planned keys.

    `bases` has the identity without inputs of each planned run that depends on any, by its key. Returned are
    the runs to keep in place of the planned ones, all if `accept`, and the stale ones.
    """
    accepted: dict[str, str] = {}
    stale: dict[str, str] = {}
    if not any(bases.values()):
        return accepted, stale
    made = store.finished_by_base_key()
    before: dict[str, str] = {}
    for part in study.parts:
        recorded = recorded_study(store, part.name, part.origin)
        before |= {} if recorded is None else recorded.accepted
    for key, base in bases.items():
        other = made.get(base or "")
        if other is None or other == key or store.is_done(key):
            continue
        if accept or before.get(key) == other:
            accepted[key] = other
        else:
            stale[key] = other
    return accepted, stale


def _up_to_interim_look(
    study: StudySpec, runs: Sequence[Run], sequential: Mapping[str, SequentialRecord]
) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """Return the runs up to the next interim look at each sequential study, or its last; and those beyond."""
    counts = {name: record.seeds for name, record in sequential.items()}
    seeds = {part.name: frozenset(part.seeds[: counts.get(part.name)]) for part in study.parts}
    now = tuple(run for run in runs if run.seed in seeds[run.study])
    return now, tuple(run for run in runs if run.seed not in seeds[run.study])


def sequential_records(study: StudySpec, store: Store, runs: Sequence[Run]) -> dict[str, SequentialRecord]:
    """Return the interim looks of each sequential part, by name; refuse a rule or question that was changed.

    If the `runs` of an interim look have other keys now (of a changed program, say), the study starts over.
    """
    out = {}
    for part in study.parts:
        recorded = recorded_study(store, part.name, part.origin)
        begun = recorded.sequential if recorded and not _have_other_keys(recorded, runs) else None
        if recorded and begun and begun.looks:
            _check_same(part, recorded, begun)
        if part.sequential is not None:
            is_same = begun is not None and begun.spec == part.sequential
            out[part.name] = begun if begun and is_same else SequentialRecord(part.sequential)
    return out


def _have_other_keys(recorded: RecordedStudy, runs: Sequence[Run]) -> bool:
    """Return whether a run of the last interim look has another key now."""
    keys = {(frozenset(run.cell), run.seed): run.key for run in runs if run.study == recorded.name}
    return any(
        keys.get((frozenset(cell.levels.items()), seed), key) != key
        for cell in recorded.at_last_look.cells
        for seed, key in cell.runs.items()
    )


def _check_same(part: StudySpec, recorded: RecordedStudy, begun: SequentialRecord) -> None:
    """Refuse a study that differs from the one that its interim looks are about."""
    looked, now = recorded.at_last_look.cells, [dict(cell.levels) for cell in part.cells]
    changed = ""
    if begun.spec != part.sequential:
        changed = f"by another rule ({begun.spec.title})"
    elif recorded.audit != part.audit or [dict(cell.levels) for cell in looked] != now:
        changed = "with another comparison (cells or [audit])"
    elif any(tuple(cell.runs) != part.seeds[: len(cell.runs)] for cell in looked):
        changed = "with other seeds"
    if changed:
        looks = f"{len(begun.looks)} interim look{'s' * (len(begun.looks) != 1)}"
        raise StudyError(
            f"{part.name} has had {looks} {changed}, and its error rates hold for that alone: restore it, or "
            "use another store"
        )


class Estimate(TimeLeft):
    """Expected seconds of a plan's runs; `source` explains the last estimate."""

    def __init__(self, plan: Plan) -> None:
        self._runs, self._runners = plan.distinct, plan.runners
        super().__init__(plan.store, {key: run.cell_id for key, run in self._runs.items()})
        self.source = "from what other runs took"

    def work_left(self, states: Mapping[str, RunState], *, measure: bool = True) -> float | None:
        """Return one worker's seconds for everything without a result; None if unknown.

        With `measure`, if nothing has been run yet, runners are asked, which can take seconds:
        `MissingExtraError` if they could answer with more installed.
        """
        by_cell = self.by_cell(states)
        missing = [self._runs[key] for key, state in states.items() if state.state not in FINISHED]
        if measure and not by_cell:
            cells = {run.cell_id: run for run in missing}
            measured = {
                cell: self._runners[run.study].seconds([run.parameters]) for cell, run in cells.items()
            }
            by_cell = {cell: seconds for cell, seconds in measured.items() if seconds is not None}
            self.source = "from a measured step"
        left = self.rests((run.key for run in missing), states, by_cell)
        return sum(left.values()) if len(left) == len(missing) else None
