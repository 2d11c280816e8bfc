"""A runner that is not the paper's: it throws dice. What it can do in a study, any runner can."""

import os
import random
import signal
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from seedspread.runners.contract import Level, Runner, RunnerError, WorkItem
from seedspread.runs.files import FORMAT
from seedspread.runs.folder import Heartbeat, RunFailedError
from seedspread.runs.run import key_of
from seedspread.runs.stopping import StoppedError, StopRequest
from seedspread.runs.studies import AuditSpec
from seedspread.study.spec import StudyCell, StudySpec


@dataclass(frozen=True)
class Dice(Runner):
    """A run is the mean of so many throws of a die with so many sides.

    `fail` is a seed that fails, `deadly` one that ends its process (by a signal or with an exit status, its
    `death`), `seconds_each` is how long a run takes.
    """

    name: str = "dice"
    fail: int | None = None
    seconds_each: float = 0.0
    deadly: int | None = None
    death: str = "SIGKILL"
    metrics = ("score",)

    def full_name(self, name: str) -> str:
        if name not in ("sides", "throws"):
            raise RunnerError(f"dice have no {name!r}")
        return name

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> dict[str, Any]:
        return {"throws": 10, **values}

    def keys(self, runs: Sequence[tuple[Any, int]], data_dir: Path | None) -> list[str]:
        return [key_of({"dice": parameters, "seed": seed}) for parameters, seed in runs]

    def check(self, parameters: Iterable[Any], data_dir: Path | None) -> None:
        for one in parameters:
            if one["sides"] < 1:
                raise RunnerError("a die has a side at least")

    def seconds(self, parameters: Sequence[Any]) -> float | None:
        return 0.001 * len(parameters)

    def run(self, item: WorkItem, stop: StopRequest) -> float:
        run, folder = item.run, item.folder()
        folder.open(tomli_w.dumps(run.parameters), resume=True)
        assert tomllib.loads(folder.config_path().read_text()) == run.parameters
        folder.begin(1)
        folder.beat(lambda: Heartbeat(0.5, "half thrown"))
        end = time.monotonic() + self.seconds_each
        while stop.number is None and time.monotonic() < end:
            time.sleep(0.02)
        if stop.number is not None:
            raise StoppedError("stopped in mid-throw", stop.number)
        if run.seed == self.deadly:
            if self.death.isdigit():
                os._exit(int(self.death))
            os.kill(os.getpid(), signal.Signals[self.death])
            raise StoppedError("stopped by itself", signal.SIGTERM)
        if run.seed == self.fail:
            raise RunFailedError("the die fell off the table", table="round", throw=3)
        rng = random.Random(run.seed)  # noqa: S311 - a die
        throws = [rng.randint(1, run.parameters["sides"]) for _ in range(run.parameters["throws"])]
        value = sum(throws) / len(throws)
        folder.finish(
            {
                "format": FORMAT,
                "runner": self.name,
                "key": run.key,
                "metrics": {"score": value},
                "collapsed": False,
            },
            {"runner": self.name, "seed": run.seed, "config": run.parameters},
        )
        return value


def dice_study(
    seeds: int = 8,
    fail: int | None = None,
    seconds_each: float = 0.0,
    deadly: int | None = None,
    death: str = "SIGKILL",
) -> StudySpec:
    """Six sides against twenty."""
    runner = Dice(fail=fail, seconds_each=seconds_each, deadly=deadly, death=death)
    cells = tuple(StudyCell((("sides", s),), runner.parameters(None, {"sides": s})) for s in (6, 20))
    spec = AuditSpec(group="sides", baseline="6", value="score")
    return StudySpec("dice", "Do more sides spread more?", runner, cells, tuple(range(1, seeds + 1)), spec)
