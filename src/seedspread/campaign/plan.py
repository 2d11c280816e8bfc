"""A plan: which runs a study names, which are distinct, which the store already has."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from seedspread.campaign.store import RunState, Store
from seedspread.campaign.study import NamedRun, Study
from seedspread.config import DataConfig, RunConfig
from seedspread.data.catalogue import source_named
from seedspread.data.files import official_fingerprint
from seedspread.data.presence import presence
from seedspread.errors import DataError, require_extra
from seedspread.identity import run_key

if TYPE_CHECKING:
    from seedspread.campaign.executor import Executor, Report


# Finished runs whose durations are looked up for an estimate.
_SAMPLE = 50


@dataclass(frozen=True)
class PlannedRun:
    """A run that a study names, and its key."""

    named: NamedRun
    key: str


@dataclass(frozen=True)
class Plan:
    """What a study asks for.

    Attributes:
        study: the study.
        store: where its results are, and go.
        data_dir: the data folder.
        runs: every run that the study names, in order; a run that two cells or studies share appears twice.
    """

    study: Study
    store: Store
    data_dir: Path | None
    runs: tuple[PlannedRun, ...]

    @classmethod
    def make(cls, study: Study, store: Store, data_dir: Path | None = None) -> "Plan":
        """Names every run by its key; without data, by that of the whole official dataset."""
        prints = {data: fingerprint(data, data_dir) for data in {_dataset(r.config.data) for r in study.runs}}
        runs = tuple(PlannedRun(r, run_key(r.config, prints[_dataset(r.config.data)])) for r in study.runs)
        return cls(study, store, data_dir, runs)

    @property
    def distinct(self) -> dict[str, RunConfig]:
        """Each run once, by its key."""
        first: dict[str, RunConfig] = {}
        for run in self.runs:
            first.setdefault(run.key, run.named.config)
        return first

    @property
    def shared(self) -> dict[str, list[PlannedRun]]:
        """Runs that are named more than once, with all their names."""
        times = Counter(run.key for run in self.runs)
        return {key: [r for r in self.runs if r.key == key] for key, n in times.items() if n > 1}

    def states(self) -> dict[str, RunState]:
        """Where each distinct run is."""
        return self.store.states(self.distinct)

    def seconds_left(self, states: dict[str, RunState]) -> float | None:
        """From what finished runs took and how many run at once; None if nothing is known."""
        done = [key for key, state in states.items() if state.state in ("done", "collapsed")]
        took = [seconds for key in done[-_SAMPLE:] if (seconds := self.store.seconds(key)) is not None]
        running = sum(state.state == "running" for state in states.values())
        left = sum(state.state in ("running", "waiting", "interrupted") for state in states.values())
        return mean(took) * left / max(running, 1) if took and left else None

    def missing(self) -> dict[str, RunConfig]:
        """The runs that have no result yet."""
        return {key: config for key, config in self.distinct.items() if not self.store.is_done(key)}

    def check_data(self) -> None:
        """Raises `DataError` at once if a dataset that a missing run needs is not there."""
        for config in {c.data.name: c.data for c in self.missing().values()}.values():
            there = presence(source_named(config.name), self.data_dir)
            if there.found == 0:
                raise DataError(
                    f"{config.name} is not in {there.folder}; get it with: seedspread data fetch "
                    f"{config.name} (or name another folder with --data-dir or SEEDSPREAD_DATA)"
                )

    def run(self, executor: "Executor", report: "Callable[[Report], None] | None" = None) -> "Report":
        """Carries out what is missing; returns what became of it."""
        from seedspread.campaign.record import remember  # noqa: PLC0415 - a record knows its plan

        require_extra("train", "a campaign")
        self.check_data()
        self.store.check()
        remember(self)
        return executor.run(self, report or (lambda _: None))


def _dataset(data: DataConfig) -> tuple[str, str, bool]:
    return data.name, data.labels, data.allow_partial


@cache
def fingerprint(dataset: tuple[str, str, bool], data_dir: Path | None) -> str:
    """The fingerprint of the data that a run will find: the official one unless they are there in part."""
    name, labels, allow_partial = dataset
    source = source_named(name)
    there = presence(source, data_dir)
    whole = there.found == there.expected and there.short == 0 and there.packed == 0
    if there.found == 0 or whole or not allow_partial:
        return official_fingerprint(source)
    require_extra("train", f"the key of a run on partial {name}")
    from seedspread.data.dataset import read_official  # noqa: PLC0415 - only partial data need be read

    return read_official(source, labels, data_dir).fingerprint
