"""A study of small runs: runs per hour by way of training, and the time of each phase."""

import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import typer
from rich.table import Table

from benchmarks import programs
from benchmarks.script import AsJson, Workers, main
from benchmarks.timing import in_own_process, interleaved, show, table
from seedspread.cff.runner import CffRunner
from seedspread.cff.training import run as training
from seedspread.cff.training.native import why_not
from seedspread.cff.training.state import TrainingRun
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec

WAYS = ("plain", "fast", "native")

_START = """
import time
import typer  # by the benchmark below, not by a worker
begin = time.perf_counter()
from seedspread.cff.training.run import choose_device
from seedspread.cff.training.trainers import trainer_of
imported = time.perf_counter()
from seedspread.cff.data.dataset import load
from seedspread.cff.presets import read_config
config = read_config("quickstart", ["runtime.implementation={implementation}"])
dataset = load(config.data)
loaded = time.perf_counter()
from benchmarks.train import random_batch, step_of
step_of(config)(random_batch(128))
print((imported - begin, loaded - imported, time.perf_counter() - loaded))
"""


def study_of(preset: str, seeds: int, implementation: str) -> StudySpec:
    """Return a study of clamp and subtract with a few seeds, trained in one way."""
    values = {
        "title": preset,
        "runner": "cff",
        "preset": preset,
        "factors": {"margin_type": ["clamp", "subtract"]},
        "seeds": seeds,
        "settings": {"implementation": implementation},
    }
    return StudySpec.from_values(preset, values, lambda _: CffRunner())


def train_study(study: StudySpec, workers: int, cpu_seconds: list[float]) -> None:
    """Train a study in a new store; append the CPU seconds of its processes."""
    before = _cpu_of_children()
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan.make(study, folder)
        progress = run_plan(plan, LocalExecutor(workers=workers))
        if progress.left or progress.failed:
            raise RuntimeError(f"{len(progress.failed)} runs failed, {progress.left} were left")
    cpu_seconds.append(_cpu_of_children() - before)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start_up(implementation: str) -> dict[str, float]:
    """Return the seconds of a fresh process until its first step is done, by part."""
    seconds = in_own_process(_START.format(implementation=implementation))
    return dict(zip(("imports", "data", "first step"), seconds, strict=True))


@contextmanager
def _timed(seconds: dict[str, float], name: str, owner: Any, attribute: str) -> Iterator[None]:
    inner: Callable[..., Any] = getattr(owner, attribute)

    def outer(*arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        try:
            return inner(*arguments, **named)
        finally:
            seconds[name] = seconds.get(name, 0) + time.perf_counter() - begin

    with patch.object(owner, attribute, outer):
        yield


def phases(preset: str, implementation: str) -> dict[str, float]:
    """Return the seconds that a run in this process spends in each part."""
    seconds: dict[str, float] = {}
    study = study_of(preset, 1, implementation)
    config = CffRunner().seeded(study.cells[0].parameters, study.seeds[0])
    begin = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        _timed(seconds, "stage 1", training.TrainingLoop, "_train_encoder"),
        _timed(seconds, "probe", training.TrainingLoop, "_train_probes"),
        _timed(seconds, "final diagnostics", training, "final_diagnostics"),
        _timed(seconds, "writing the result", TrainingRun, "finish"),
    ):
        training.train(config, Path(folder) / "run")
    seconds["data, folders"] = time.perf_counter() - begin - sum(seconds.values())
    return seconds


def run(
    rounds: Annotated[int, typer.Option(min=2, help="Rounds of interleaved studies.")] = 3,
    workers: Workers = 2,
    preset: Annotated[str, typer.Option(help="Preset to train.")] = "quickstart",
    seeds: Annotated[int, typer.Option(min=1, help="Seeds, each with both margins.")] = 4,
    of_programs: Annotated[
        int | None,
        typer.Option("--programs", min=1, help="Instead: this many runs of a program that does nothing."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure runs per hour of a small study by way of training, and the time of each phase (minutes)."""
    if of_programs is not None:
        programs.run(runs=of_programs, workers=workers, as_json=as_json)
        return
    ways = [way for way in WAYS if way != "native" or why_not() is None]
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    jobs = {way: partial(train_study, study_of(preset, seeds, way), workers, cpu[way]) for way in ways}
    times = interleaved(jobs, rounds, "studies")
    runs, (first_way, *_) = 2 * seeds, ways
    first, first_cpu = times[first_way].median, statistics.median(cpu[first_way])
    result = {
        "runner": "cff",
        "preset": preset,
        "rounds": rounds,
        "workers": workers,
        "runs": runs,
        "ways": [
            {
                "way": name,
                "runs_per_hour": 3600 * runs / timing.median,
                "quartiles": [3600 * runs / timing.upper, 3600 * runs / timing.lower],
                "against_first": first / timing.median,
                "cpu_seconds_a_run": statistics.median(cpu[name]) / runs,
                "cpu_against_first": first_cpu / statistics.median(cpu[name]),
            }
            for name, timing in times.items()
        ],
        "start_up": {way: start_up(way) for way in ways},
        "phases": {way: phases(preset, way) for way in ways if way != first_way},
    }
    show(result, as_json, _lines)


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    yield table(
        f"{result['runs']} runs of {result['preset']}, {result['workers']} workers",
        ("", "runs an hour", "quartiles", "against the first", "CPU s a run", "against the first"),
        [
            (
                row["way"],
                f"{row['runs_per_hour']:,.0f}",
                f"{row['quartiles'][0]:,.0f} to {row['quartiles'][1]:,.0f}",
                f"{row['against_first']:.2f}",
                f"{row['cpu_seconds_a_run']:.1f}",
                f"{row['cpu_against_first']:.2f}",
            )
            for row in result["ways"]
        ],
    )
    parts = {f"A worker's start, {kind}": seconds for kind, seconds in result["start_up"].items()}
    parts |= {f"A run, {name}": seconds for name, seconds in result["phases"].items()}
    for title, of in parts.items():
        yield f"{title}: {', '.join(f'{name} {value:.2f} s' for name, value in of.items())}."


if __name__ == "__main__":
    main(run)
