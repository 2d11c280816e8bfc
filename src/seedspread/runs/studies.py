"""Which studies a store holds: written when a study starts to run, so that the store explains itself later.

A record names every cell with its parameters and every run by its key. It needs no study file, no data and
no runner to be read again, and it travels with the store.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from seedspread.atomic import replacing
from seedspread.runs.files import FORMAT, UNREADABLE, NewerFormatError, read_record
from seedspread.runs.folder import RunFolder
from seedspread.runs.identity import checked_key
from seedspread.runs.levels import level_name, setting_name
from seedspread.runs.metrics import Metric
from seedspread.runs.sequential import SequentialRecord, read_sequential, sequential_values
from seedspread.runs.store import RunState, Store, StoreError

STUDIES = ".studies"


def _as_text(value: object) -> object:
    """Levels are compared by their text, as a table of runs shows them."""
    return level_name(value) if isinstance(value, str | bool | int | float) else value


class AuditSpec(BaseModel):
    """Which comparison a study is about, by its factors' names.

    Attributes:
        group: the factor whose levels are compared.
        baseline: the level that the others are compared with; a number stands for its text.
        block: a factor in which the same seed is run again, or several.
        by: a factor whose levels are audited apart, or several; `study` in a collection.
        value: the metric, or several, the main one first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str
    baseline: Annotated[str, BeforeValidator(_as_text)]
    block: str | tuple[str, ...] = ()
    by: str | tuple[str, ...] | None = None
    value: str | Annotated[tuple[str, ...], Field(min_length=1)] = "accuracy"

    @property
    def blocks(self) -> tuple[str, ...]:
        """All of them."""
        return _several(self.block)

    @property
    def strata(self) -> tuple[str, ...]:
        """All that it is audited by."""
        return _several(self.by)

    @property
    def values(self) -> tuple[str, ...]:
        """All metrics."""
        return _several(self.value)

    @property
    def factors(self) -> tuple[str, ...]:
        """All that it names."""
        return (self.group, *self.blocks, *self.strata)


def _several(names: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names or ()


@dataclass(frozen=True)
class RecordedCell:
    """A cell of a study: the levels of its factors, its runs' parameters, and their keys by seed.

    Parameters are plain values, unless a reader that knows their runner has made more of them.
    """

    levels: Mapping[str, Any]
    parameters: Any
    runs: Mapping[int, str]

    @property
    def title(self) -> str:
        """`clamp, detach`."""
        return ", ".join(level_name(level) for level in self.levels.values())

    @property
    def name(self) -> str:
        """`margin_type = clamp, stability = detach`."""
        return setting_name(self.levels.items())

    def named(self, states: Mapping[str, RunState]) -> dict[str, RunState]:
        """The states of its runs, each with its cell and seed as its name."""
        names = {key: f"{self.name}, seed {seed}" for seed, key in self.runs.items()}
        return {key: replace(states[key], name=name) for key, name in names.items()}


@dataclass(frozen=True)
class RecordedStudy:
    """A single study as a store remembers it.

    Attributes:
        name: by which it is called.
        title: what it is about.
        note: what to know about it.
        audit: the comparison that it is about.
        runner: what ran it.
        cells: what is compared.
        threads: of each run, where its parameters leave them open.
        metrics: those that it declares.
        accepted: runs that are kept although they were made with other inputs, by what was planned instead.
        origin: whose code it runs; studies that differ in it are two, whatever their name.
        implementation: how its runs are computed, where a command has said so.
        sequential: its rule and its looks, if it grows.
        question: what it is to answer.
        prediction: what was expected of it before it ran.
    """

    name: str
    title: str
    note: str
    audit: AuditSpec | None
    runner: str
    cells: tuple[RecordedCell, ...]
    threads: int | None = None
    metrics: tuple[Metric, ...] = ()
    accepted: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    implementation: str | None = None
    sequential: SequentialRecord | None = None
    question: str = ""
    prediction: str = ""

    @property
    def asked(self) -> list[str]:
        """Its question and its prediction, in words, where it has them."""
        both = {"Question": self.question, "Prediction": self.prediction}
        return [f"{name}: {text}" for name, text in both.items() if text]

    @property
    def looked_at(self) -> "RecordedStudy":
        """With the runs of the last look alone, if it has been looked at: later ones wait for the next."""
        if self.sequential is None or not self.sequential.looks:
            return self
        seeds = self.sequential.looks[-1].seeds
        cells = (replace(cell, runs=dict(islice(cell.runs.items(), seeds))) for cell in self.cells)
        return replace(self, cells=tuple(cells))

    @property
    def keys(self) -> tuple[str, ...]:
        """Every run once."""
        return tuple(dict.fromkeys(key for cell in self.cells for key in cell.runs.values()))


def save_study(store: Store, study: RecordedStudy) -> None:
    """Writes a study down; it takes the place of an older one of the same name."""
    path = _path(store, study.name, study.origin)
    if path.parent.is_symlink():
        raise StoreError(f"{path.parent} is a link, which would lead out of the store: remove it")
    path.parent.mkdir(parents=True, exist_ok=True)
    if recorded_study(store, study.name, study.origin) != study:
        with replacing(path) as part:
            part.write_text(json.dumps(_values(study), indent=1) + "\n")


def recorded_study(store: Store, name: str, origin: str = "") -> RecordedStudy | None:
    """A study as the store remembers it; None if it does not, or if the record is damaged."""
    try:
        return _read(_path(store, name, origin))
    except NewerFormatError:
        raise
    except UNREADABLE:
        return None


def _path(store: Store, name: str, origin: str) -> Path:
    identity = f"{name} {origin}" if origin else name
    return store.path / STUDIES / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"


def _values(study: RecordedStudy) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "name": study.name,
        "title": study.title,
        "note": study.note,
        "question": study.question,
        "prediction": study.prediction,
        "runner": study.runner,
        "threads": study.threads,
        "metrics": [asdict(metric) for metric in study.metrics],
        "accepted": dict(study.accepted),
        "origin": study.origin,
        "implementation": study.implementation,
        "sequential": None if study.sequential is None else sequential_values(study.sequential),
        "audit": None if study.audit is None else study.audit.model_dump(mode="json"),
        "cells": [
            {
                "cell": dict(cell.levels),
                "config": dict(cell.parameters),
                "runs": {str(seed): key for seed, key in cell.runs.items()},
            }
            for cell in study.cells
        ],
    }


def load_studies(store: Store) -> tuple[list[RecordedStudy], list[str]]:
    """All studies of a store, by name, and a line on each record that cannot be read."""
    studies, problems = [], []
    for path in _paths(store.path):
        try:
            studies.append(_read(path))
        except UNREADABLE as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            problems.append(f"{path} is not a readable record of a study: {reason}")
    return sorted(studies, key=lambda study: study.name), problems


def stale_runs(store: Store) -> set[str]:
    """Finished runs that no study names any more, beside one that differs in its input files only."""
    named = {key for study in load_studies(store)[0] for key in study.keys}
    bases = {key: base for key in store.keys() if (base := store.run(key).base_key()) is not None}  # noqa: SIM118
    current = {base for key, base in bases.items() if key in named}
    return {key for key, base in bases.items() if key not in named and base in current}


def declared_metric(store: Store, name: str) -> Metric | None:
    """A metric as a study of the store declares it."""
    declared = (metric for study in load_studies(store)[0] for metric in study.metrics)
    return next((metric for metric in declared if metric.name == name), None)


def _read(path: Path) -> RecordedStudy:
    values = read_record(str(path.parent), path.name)
    cells = tuple(
        RecordedCell(
            dict(cell["cell"]),
            dict(cell["config"]),
            {int(seed): checked_key(key) for seed, key in cell["runs"].items()},
        )
        for cell in values["cells"]
    )
    audit = None if values["audit"] is None else AuditSpec.model_validate_json(json.dumps(values["audit"]))
    factors = {factor for cell in cells for factor in cell.levels}
    if audit is not None and not set(audit.factors) <= factors:
        raise ValueError("its audit names what is no factor")
    threads, implementation, growing = values["threads"], values["implementation"], values["sequential"]
    return RecordedStudy(
        name=str(values["name"]),
        title=str(values["title"]),
        note=str(values["note"]),
        audit=audit,
        runner=str(values["runner"]),
        cells=cells,
        threads=None if threads is None else int(threads),
        metrics=tuple(Metric(**metric) for metric in values["metrics"]),
        accepted={checked_key(a): checked_key(b) for a, b in values["accepted"].items()},
        origin=str(values["origin"]),
        implementation=None if implementation is None else str(implementation),
        sequential=None if growing is None else read_sequential(growing),
        question=str(values["question"]),
        prediction=str(values["prediction"]),
    )


def store_marks(store: Path) -> tuple[list[str], bool]:
    """What changes whenever a run begins, ends or fails, or a study is added, and whether any is under way.

    Reads no file.
    """
    seen, under_way = [], False
    try:
        with os.scandir(store) as entries:
            names = sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
        for name in names:
            marks, at_work = RunFolder(store / name).marks()
            seen += [f"{name}/{mark}" for mark in marks]
            under_way |= at_work
        seen += [f"{path.name} {path.stat().st_mtime_ns}" for path in _paths(store)]
    except OSError:
        pass  # files come and go while runs are at work; the next look will do
    return seen, under_way


def _paths(store: Path) -> list[Path]:
    """Hidden ones are what was being written when a study was killed."""
    return sorted(path for path in (store / STUDIES).glob("*.json") if not path.name.startswith("."))
