"""Overhead of a study per run, measured with a program that does nothing."""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.timing import show, table

# All ways run the same program: `echo`, which prints a number on a single line.
_STUDY = """
seeds = {runs}
[run]
command = ["echo", '{{{{"score": {{seed}}}}}}']
[factors]
nothing = [0]
[metrics]
score = {{}}
"""
_BY_JOBLIB = """
import subprocess, sys
from joblib import Parallel, delayed
runs, workers = map(int, sys.argv[1:])
one = delayed(lambda seed: subprocess.run(["echo", f'{{"score": {seed}}}'], capture_output=True, check=True))
Parallel(n_jobs=workers)(one(seed) for seed in range(runs))
"""


def _by_seedspread(runs: int, workers: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study.toml"
        study.write_text(_STUDY.format(runs=runs))
        command = [sys.executable, "-c", "from seedspread.cli import main; main()", "run"]
        options = ["--store", f"{folder}/store", "--workers", str(workers)]
        subprocess.run([*command, str(study), *options], check=True, capture_output=True)


def _by_xargs(runs: int, workers: int) -> None:
    seeds = "\n".join(map(str, range(runs)))
    command = ["xargs", f"-P{workers}", "-I{}", "echo", '{"score": {}}']
    subprocess.run(command, input=seeds, text=True, check=True, capture_output=True)


def _by_joblib(runs: int, workers: int) -> None:
    subprocess.run([sys.executable, "-c", _BY_JOBLIB, str(runs), str(workers)], check=True)


def _cost(job: Callable[[int, int], None], runs: int, workers: int) -> dict[str, float]:
    before, begin = _cpu(), time.perf_counter()
    job(runs, workers)
    return {"seconds": time.perf_counter() - begin, "cpu_per_run": (_cpu() - before) / runs}


def _cpu() -> float:
    """Return the CPU seconds of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(runs: int, workers: int, as_json: bool) -> None:
    """Measure each way once, one after the other, and print a table or JSON."""
    ways = {"seedspread run": _by_seedspread, f"xargs -P{workers}": _by_xargs}
    if find_spec("joblib"):
        ways["joblib"] = _by_joblib
    measured = [{"way": name, **_cost(way, runs, workers)} for name, way in ways.items()]
    show({"runs": runs, "workers": workers, "ways": measured}, as_json, _lines)


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    yield table(
        f"{result['runs']} runs of a program that does nothing, {result['workers']} at once",
        ("", "seconds in all", "CPU seconds a run"),
        [(way["way"], f"{way['seconds']:.1f}", f"{way['cpu_per_run']:.3f}") for way in result["ways"]],
    )
    yield "Only the first keeps a record of each run, resumes, and notices what fails."
