"""A runner of your own, complete: a run is a random walk, measured by how far it gets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from seedspread.runners.contract import Level, Runner, RunnerError, WorkItem
from seedspread.runs.files import FORMAT
from seedspread.runs.run import key_of
from seedspread.runs.stopping import StoppedError, StopRequest


@dataclass(frozen=True)
class WalkRunner(Runner):
    """Walks `steps` steps of length `stride`."""

    name = "walk"
    metrics = ("distance",)

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> dict[str, Any]:
        """Check the values of a cell, and add the defaults."""
        if unknown := set(values) - {"steps", "stride"}:
            raise RunnerError(f"a walk has steps and stride, no {min(unknown)!r}")
        return {"steps": 100, "stride": 1.0, **values}

    def keys(self, runs: Sequence[tuple[Any, int]], data_dir: Path | None) -> list[str]:
        """Hash all that can alter a result; raise the version whenever the code below does."""
        return [key_of({"walk": parameters, "seed": seed, "version": 1}) for parameters, seed in runs]

    def run(self, item: WorkItem, stop: StopRequest) -> float:
        """Walk, and leave the record; whatever is raised is the run's failure."""
        run, folder = item.run, item.folder()
        folder.open(tomli_w.dumps(run.parameters), resume=True)
        folder.begin(item.threads)
        rng, place = np.random.default_rng(run.seed), 0.0
        for _ in range(run.parameters["steps"]):
            place += int(rng.choice((-1, 1))) * run.parameters["stride"]
            if stop.number is not None:  # Ctrl-C: a longer run leaves a checkpoint here
                raise StoppedError("stopped on the way", stop.number)
        result = {"runner": self.name, "key": run.key, "metrics": {"distance": abs(place)}}
        facts = {"runner": self.name, "seed": run.seed, "config": run.parameters}
        folder.finish({"format": FORMAT, "collapsed": False} | result, facts)
        return abs(place)
