"""A campaign of small runs: runs per hour by ways of training them, and where the time goes."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.table import Table

from seedspread.benchmarks.timing import in_own_process, interleaved, show, table
from seedspread.campaign.local import LocalExecutor
from seedspread.campaign.loop import run_campaign
from seedspread.campaign.plan import Plan
from seedspread.campaign.study import StudyCell, StudySpec
from seedspread.campaign.study_file import CampaignSpec
from seedspread.runners.cff import seeded
from seedspread.runs.request import RunRequest
from seedspread.stopping import StopRequest
from seedspread.training import loop
from seedspread.training.run import train_many
from seedspread.training.state import TrainingRun

SEEDS = 4
WAYS: dict[str, tuple[str, int]] = {
    "plain, one run a process": ("plain", 1),
    "fast, one run a process": ("fast", 1),
    "fast, stacked": ("fast", SEEDS),
}

_START = """
import time
begin = time.perf_counter()
from seedspread.training.run import choose_device
from seedspread.training.trainer import trainer_of
imported = time.perf_counter()
from seedspread.data.dataset import load
from seedspread.presets import read_config
config = read_config("quickstart")
dataset = load(config.data)
loaded = time.perf_counter()
from seedspread.benchmarks.train import random_batch, step_of
step_of(config)(random_batch(128))
print((imported - begin, loaded - imported, time.perf_counter() - loaded))
"""


def study_of(implementation: str, stack: int) -> StudySpec:
    """`quickstart` with a few seeds, trained in one way."""
    study = StudySpec.from_file("quickstart")

    def changed(cell: StudyCell) -> StudyCell:
        runtime = cell.parameters.runtime.model_copy(update={"implementation": implementation})
        return replace(cell, parameters=cell.parameters.model_copy(update={"runtime": runtime}))

    seeds = tuple(seed for seed in study.seeds if seed <= SEEDS)
    how = CampaignSpec(stack=stack)
    return replace(study, cells=tuple(map(changed, study.cells)), seeds=seeds, campaign=how)


def campaign(implementation: str, stack: int, workers: int) -> None:
    """Trains it in a store of its own."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan.make(study_of(implementation, stack), folder)
        progress = run_campaign(plan, LocalExecutor(workers=workers))
        if progress.left or progress.failed:
            raise RuntimeError(f"{len(progress.failed)} runs failed, {progress.left} were left")


def start_up() -> dict[str, float]:
    """Seconds of a fresh process until its first step is done."""
    return dict(zip(("imports", "data", "first step"), in_own_process(_START), strict=True))


@contextmanager
def _timed(seconds: dict[str, float], name: str, owner: Any, attribute: str) -> Iterator[None]:
    inner: Callable[..., Any] = getattr(owner, attribute)

    def outer(*arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        try:
            value = inner(*arguments, **named)
            return list(value) if isinstance(value, Iterator) else value  # a generator works when asked
        finally:
            seconds[name] = seconds.get(name, 0) + time.perf_counter() - begin

    with patch.object(owner, attribute, outer):
        yield


def phases(runs: int) -> dict[str, float]:
    """Seconds that a run of a stack spends in each part, in this process."""
    seconds: dict[str, float] = {}
    study = study_of("fast", runs)
    named = [(cell.parameters, seed) for cell in study.cells for seed in study.seeds]
    configs = [seeded(config, seed) for config, seed in named[:runs]]
    begin = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        _timed(seconds, "stage 1", loop._Loop, "_train"),
        _timed(seconds, "probe", loop._Loop, "_probe"),
        _timed(seconds, "final diagnostics", loop, "final_diagnostics"),
        _timed(seconds, "writing the result", TrainingRun, "finish"),
    ):
        requests = [RunRequest(config, Path(folder) / str(i)) for i, config in enumerate(configs)]
        for _, outcome in train_many(requests, StopRequest()):
            if isinstance(outcome, Exception):
                raise outcome
    seconds["data, folders"] = time.perf_counter() - begin - sum(seconds.values())
    return {name: value / runs for name, value in seconds.items()}


def run(rounds: int, workers: int, as_json: bool) -> None:
    """Measures and prints, as a table or as JSON."""
    jobs = {name: partial(campaign, *way, workers) for name, way in WAYS.items()}
    times = interleaved(jobs, rounds, "campaigns")
    first_study = study_of("fast", 1)
    runs = len(first_study.cells) * len(first_study.seeds)
    first = times[next(iter(WAYS))].median
    result = {
        "rounds": rounds,
        "workers": workers,
        "runs": runs,
        "ways": [
            {
                "way": name,
                "runs_per_hour": 3600 * runs / timing.median,
                "quartiles": [3600 * runs / timing.upper, 3600 * runs / timing.lower],
                "against_first": first / timing.median,
            }
            for name, timing in times.items()
        ],
        "start_up": start_up(),
        "phases": phases(SEEDS),
    }
    show(result, as_json, _lines)


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    yield table(
        f"{result['runs']} runs of quickstart, {result['workers']} workers",
        ("", "runs an hour", "quartiles", "against the first"),
        [
            (
                row["way"],
                f"{row['runs_per_hour']:,.0f}",
                f"{row['quartiles'][0]:,.0f} to {row['quartiles'][1]:,.0f}",
                f"{row['against_first']:.2f}",
            )
            for row in result["ways"]
        ],
    )
    for title, key in (("A worker's start", "start_up"), ("A run in a stack", "phases")):
        parts = ", ".join(f"{name} {value:.2f} s" for name, value in result[key].items())
        yield f"{title}: {parts}."
