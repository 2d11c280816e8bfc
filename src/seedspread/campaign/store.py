"""The store: one folder per run, safe with many writers, readable while they write. Needs no torch."""

import json
import secrets
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from seedspread.atomic import replacing
from seedspread.campaign.lease import LEASE_SECONDS, Lease, Watch, claim, newest
from seedspread.errors import SeedspreadError
from seedspread.stats.runs import is_collapsed, read_run, runs_and_problems

if TYPE_CHECKING:
    from seedspread.campaign.study import Study

State = Literal["done", "collapsed", "running", "failed", "interrupted", "waiting"]
STATES: tuple[State, ...] = ("done", "collapsed", "running", "failed", "interrupted", "waiting")


@dataclass(frozen=True)
class RunState:
    """Where a run is, and the last line of its failure if it has failed."""

    key: str
    state: State
    message: str = ""


class StoreError(SeedspreadError):
    """A store that cannot be used."""


class Store:
    """A folder of runs, `PATH/KEY/`."""

    def __init__(self, path: "Path | str") -> None:
        self.path = Path(path)

    def folder(self, key: str) -> Path:
        """The folder of a run."""
        return self.path / key

    def claim(self, key: str, watch: Watch) -> Lease | None:
        """The right to carry out a run; None if another has it."""
        return claim(self.folder(key), watch)

    def is_done(self, key: str) -> bool:
        """Whether a run has its result."""
        return (self.folder(key) / "result.json").exists()

    def has_failed(self, key: str) -> bool:
        """Whether a run has failed, and nobody is trying it again."""
        folder = self.folder(key)
        return (folder / "failure.json").exists() and not self.is_done(key) and not _is_running(folder)

    def damage(self, key: str) -> str:
        """What is wrong with a run's result; empty if nothing is, or if there is none."""
        found = is_collapsed(self.folder(key)) if self.is_done(key) else False
        return found if isinstance(found, str) else ""

    def forget_failure(self, key: str) -> None:
        """Lets a failed run be tried again; a damaged result is kept aside."""
        (self.folder(key) / "failure.json").unlink(missing_ok=True)
        if self.damage(key):
            result = self.folder(key) / "result.json"
            result.replace(result.with_suffix(".damaged"))

    def write_failure(self, key: str, failure: dict[str, Any]) -> None:
        """Keeps why a run failed."""
        with replacing(self.folder(key) / "failure.json") as part:
            part.write_text(json.dumps(failure, indent=2, sort_keys=True) + "\n")

    def state(self, key: str) -> RunState:
        """Where a run is."""
        folder = self.folder(key)
        if self.is_done(key):
            return RunState(key, *_finished(folder))
        if not folder.is_dir():
            return RunState(key, "waiting")
        if _is_running(folder):
            return RunState(key, "running")
        failure = folder / "failure.json"
        if failure.exists():
            return RunState(key, "failed", _message(failure))
        begun = (folder / "run.json").exists() or any(folder.glob("checkpoint-*"))
        return RunState(key, "interrupted" if begun else "waiting")

    def seconds(self, key: str) -> float | None:
        """How long a finished run took, since it was last started; None where that is not known."""
        try:
            provenance = json.loads((self.folder(key) / "provenance.json").read_text())
            return float(provenance["seconds_since_last_start"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def states(self, keys: Iterable[str]) -> dict[str, RunState]:
        """Where several runs are."""
        return {key: self.state(key) for key in keys}

    def keys(self) -> list[str]:
        """Every folder of the store that could be a run."""
        if not self.path.is_dir():
            return []
        return sorted(p.name for p in self.path.iterdir() if p.is_dir() and not p.name.startswith("."))

    def problems(self) -> list[str]:
        """Damaged and foreign files, by name."""
        foreign = [
            f"{path} is not a run's folder"
            for path in sorted(self.path.iterdir() if self.path.is_dir() else ())
            if not path.name.startswith((".", "report.")) and not _could_be_a_run(path)
        ]
        return runs_and_problems(self.path)[1] + foreign

    def check(self) -> None:
        """Raises `StoreError` if nothing can be written here."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            trial = self.path / f".trial-{secrets.token_hex(8)}"
            trial.touch()
            trial.unlink()
        except OSError as error:
            raise StoreError(f"the store {self.path} cannot be written: {error.strerror}") from None

    def counts(self) -> dict[State, int]:
        """How many runs are in each state."""
        found = Counter(self.state(key).state for key in self.keys())
        return {state: found[state] for state in STATES}

    def table(self, study: "Study | None" = None, data_dir: Path | None = None) -> pd.DataFrame:
        """One row per finished run; with a study its runs only, factors and `study` as columns."""
        if study is None:
            return runs_and_problems(self.path)[0]
        from seedspread.campaign.plan import Plan  # noqa: PLC0415 - a plan knows its store

        rows = []
        for planned in Plan.make(study, self, data_dir).runs:
            row = read_run(self.folder(planned.key)) if self.is_done(planned.key) else None
            if isinstance(row, dict):
                named = planned.named
                rows.append(
                    row | dict(named.cell) | {"study": named.study, "seed": named.seed, "key": planned.key}
                )
        table = pd.DataFrame(rows)
        table.attrs["store"] = str(self.path)  # an audit may look at the runs' predictions
        return table


def _could_be_a_run(path: Path) -> bool:
    names = ("config.toml", "result.json", "run.json", "failure.json")
    return path.is_dir() and (any((path / n).exists() for n in names) or any(path.glob("lease-*")))


def _finished(folder: Path) -> tuple[State, str]:
    found = is_collapsed(folder)
    if isinstance(found, str):
        return "failed", found
    return ("collapsed", "") if found else ("done", "")


def _is_running(folder: Path) -> bool:
    """For a person who looks: alive as far as a glance can tell. Who would take over waits and watches."""
    holder = newest(folder)
    if holder is None or holder.is_dead:
        return False
    return holder.is_here or time.time() - holder.beat / 1e9 < 2 * LEASE_SECONDS


def _message(path: Path) -> str:
    try:
        failure = json.loads(path.read_text())
        return str(failure["message"]).strip().splitlines()[-1]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return f"{path} is damaged"
