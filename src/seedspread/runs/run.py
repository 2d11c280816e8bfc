"""A run: planned by a study, found in a store, or both; the same type whatever ran it."""

import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from seedspread.runs.files import UNREADABLE, RecordError, read_record
from seedspread.runs.folder import PROVENANCE, RESULT, RunFolder
from seedspread.runs.levels import level_name, setting_name
from seedspread.runs.metrics import SCORED, scores

# Factors with their levels.
Cell = tuple[tuple[str, Any], ...]

_PLAIN = (str, int, float, bool)
_KEY = re.compile(r"[0-9a-f]{20}")


@dataclass(frozen=True, repr=False)
class Run:
    """A run: one that a study plans, one that is found in a store, or both.

    Attributes:
        key: its identity, and the name of its folder.
        seed: as its study counts it.
        runner: name of its runner.
        parameters: as its runner has them while it is planned; plain values, as its runner recorded them,
            when it is read.
        folder: where it is, or will be.
        study: name of the study, if it belongs to one.
        cell: factors of that study with their levels.
        metrics: values by name; like all that follow, empty until it is finished.
        chance: score of a run that learned nothing, by metric.
        dataset: the dataset it ran on; empty if its runner does not record one.
        collapsed: finished, but not comparable to the others.
        result: all fields of the result, including the runner's own diagnostics.
        provenance: environment, versions, times.
    """

    key: str
    seed: int
    runner: str
    parameters: Any
    folder: str
    study: str = ""
    cell: Cell = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    chance: Mapping[str, float] = field(default_factory=dict)
    dataset: str = ""
    collapsed: bool = False
    result: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: str, metrics: Sequence[str] = ()) -> "Run":
        """Read a finished run from its folder; any error describes what is wrong with it.

        Metrics that it did not report are computed from its predictions, if it stored them.

        Plain strings and bytes: with ten thousand runs, paths and decoding would take most of the time.
        """
        result, provenance = read_record(folder, RESULT), read_record(folder, PROVENANCE)
        files = RunFolder(Path(folder))
        if damage := files.damage():
            raise RecordError(damage)
        _check_names(RESULT, result, "runner", "metrics", "collapsed")
        _check_names(PROVENANCE, provenance, "seed", "config")
        name = os.path.basename(folder)
        if _KEY.fullmatch(name) and result.get("key") != name:
            raise ValueError(f"{RESULT} is that of run {result.get('key')}: it was copied or swapped")
        values = {name: _number(name, value) for name, value in result["metrics"].items()}
        chance, parameters = result.get("chance") or {}, provenance["config"]
        if not (isinstance(chance, dict) and isinstance(parameters, dict)):
            raise ValueError(f"{RESULT} has a chance, or {PROVENANCE} a config, that is no object")
        if any(name in SCORED and name not in values for name in metrics) and files.has_predictions:
            stored = files.predictions("logits", "labels")
            found, guessed = scores(stored["logits"][0], stored["labels"])
            values, chance = found | values, guessed | chance
        seed = int(provenance["seed"])
        files.check_digest(RESULT, provenance)
        return cls(
            key=name,
            seed=seed,
            runner=str(result["runner"]),
            parameters=parameters,
            folder=folder,
            metrics=values,
            chance=chance,
            dataset=str(result.get("dataset", "")),
            collapsed=bool(result["collapsed"]),
            result=result,
            provenance=provenance,
        )

    @property
    def cell_id(self) -> tuple[str, Cell]:
        """The study and the cell, which identify the cell among all others."""
        return self.study, self.cell

    @property
    def cell_name(self) -> str:
        """`margin_type = clamp, depth = 2`."""
        return setting_name(self.cell)

    @property
    def title(self) -> str:
        """`margin_type = clamp, depth = 2, seed 3`."""
        return f"{self.cell_name}, seed {self.seed}" if self.cell else f"seed {self.seed}"

    def __repr__(self) -> str:
        return f"<Run {self.key}: {self.title}>"

    @property
    def majority(self) -> float:
        """The accuracy of a constant guess; NaN if unknown."""
        return self.chance.get("accuracy", math.nan)

    def chance_columns(self, metrics: Sequence[str]) -> dict[str, float]:
        """Return the chance scores of these metrics, as `chance.NAME`."""
        return {f"chance.{name}": self.chance[name] for name in metrics if name in self.chance}

    def row(self, metrics: Sequence[str] = ()) -> dict[str, Any]:
        """Return the row of a finished run in a table: metrics, parameters, levels, seed, study and folder.

        Parameters have their full names and, if unambiguous in this run, also the last part alone. The chance
        scores of `metrics` are added as `chance.NAME`.
        """
        levels = {factor: level_name(level) for factor, level in self.cell}
        return (
            {"dataset": self.dataset}  # unless it is a parameter
            | dict(self.metrics)
            | parameter_columns(self.parameters)
            | dict(self.metrics)
            | self.chance_columns(metrics)
            | {"seed": self.seed, "collapsed": self.collapsed, "majority": self.majority}
            | {"folder": self.folder}
            | (levels | {"study": self.study, "seed": self.seed, "key": self.key} if self.study else {})
        )


def read_run(folder: Path, metrics: Sequence[str] = ()) -> Run | RecordError:
    """Return a finished run, or what is wrong with its files; arguments as in `Run.read`."""
    try:
        return Run.read(str(folder), metrics)
    except RecordError as error:
        return error
    except UNREADABLE as error:
        return RecordError(f"{folder} is not a readable run: {error}")


def key_of(canonical: Mapping[str, Any]) -> str:
    """Return the key of a run: 20 hexadecimal digits, a hash of exactly what can alter its result."""
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def checked_key(text: Any) -> str:
    """Return a key that was read from a file, once checked: it names a folder, so it must not be a path."""
    if not isinstance(text, str) or not text.isalnum():
        raise ValueError(f"{text!r} is not the key of a run")
    return text


def parameter_columns(parameters: Mapping[str, Any]) -> dict[str, Any]:
    full = full_names(parameters)
    return full | {name: full[whole] for name, whole in _short_names(tuple(full))}


def full_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as `part.field`; those that are None are left out, and lists become JSON."""
    full: dict[str, Any] = {}
    for part, fields in parameters.items():
        if isinstance(fields, dict):
            full |= {f"{part}.{name}": value for name, value in fields.items() if value is not None}
        elif fields is not None:
            full[part] = fields
    return {name: v if isinstance(v, _PLAIN) else json.dumps(v) for name, v in full.items()}


@cache
def _short_names(full: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the last part of each name that no other shares, with the whole name; most runs agree."""
    counts = Counter(name.rpartition(".")[2] for name in full)
    return tuple((name.rpartition(".")[2], name) for name in full if counts[name.rpartition(".")[2]] == 1)


def _number(name: str, value: object) -> float:
    """Return a metric of a record; refuse values that no run of this package writes."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{RESULT} has {value!r:.80} as {name}, which is not a number")
    return float(value)


def _check_names(file: str, values: Mapping[str, Any], *names: str) -> None:
    """Raise `ValueError` if a field that every record has is missing."""
    for name in names:
        if name not in values:
            raise ValueError(f"{file} has no {name!r}")
