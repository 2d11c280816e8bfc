"""Time to start commands: CPU seconds of a process, compared with the imports that it cannot avoid."""

import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.progress import track
from rich.table import Table

from benchmarks.script import AsJson, Rounds, main
from benchmarks.timing import show, table
from seedspread.render.terminal import Terminal

_TABLE = Path(__file__).parents[1] / "examples" / "paper-cifar10.csv"
_AUDIT = [str(_TABLE), "--value", "accuracy", "--group", "margin_type", "--block", "stability"]
_COMMAND = ["-m", "seedspread"]
STARTS = {
    "import pandas": ["-c", "import pandas"],
    "import pandas, scipy.stats": ["-c", "import pandas, scipy.stats"],
    "seedspread --help": [*_COMMAND, "--help"],
    "seedspread audit, a table of 28 runs": [*_COMMAND, "audit", *_AUDIT, "--baseline", "subtract"],
    "the same with --details": [*_COMMAND, "audit", *_AUDIT, "--baseline", "subtract", "--details"],
    "import torch": ["-c", "import torch"],
    "from seedspread import SupConLoss": ["-c", "from seedspread import SupConLoss"],
    "seedspread plan paper/all": [*_COMMAND, "plan", "paper/all"],
}


def run(rounds: Rounds = 5, as_json: AsJson = False) -> None:
    """Time the start of commands, compared with what they import."""
    seconds: dict[str, list[float]] = {name: [] for name in STARTS}
    for _ in track(range(rounds), "starts", console=Terminal(stderr=True), transient=True):
        for name, words in STARTS.items():
            seconds[name].append(_cpu_seconds(words))
    result = {"rounds": rounds, "starts": {name: statistics.median(all_) for name, all_ in seconds.items()}}
    show(result, as_json, _lines)


def _cpu_seconds(words: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    first = next(iter(result["starts"].values()))
    rows = [(name, f"{value:.2f}", f"{value / first:.2f}") for name, value in result["starts"].items()]
    yield table("Whole processes", ("", "CPU seconds", "against the first"), rows)


if __name__ == "__main__":
    main(run)
