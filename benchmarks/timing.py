"""Helpers for benchmarks: interleaved timing, peak memory, and printing results with the machine."""

import ast
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from rich.table import Table

from seedspread.render.terminal import Terminal

# Progress goes to stderr, so that stdout has nothing but the result.
_console = Terminal(stderr=True)


@dataclass(frozen=True)
class Timing:
    """Median and quartiles of interleaved rounds, in seconds."""

    median: float
    lower: float
    upper: float


def interleaved(jobs: Mapping[str, Callable[[], object]], rounds: int, title: str) -> dict[str, Timing]:
    """Time each job once per round, so that a slow spell affects all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():  # warm caches and allocators
        job()
    for _ in track(range(rounds), description=title, console=_console, transient=True):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return {name: _summary(values) for name, values in seconds.items()}


def _summary(values: list[float]) -> Timing:
    lower, median, upper = statistics.quantiles(values, n=4)
    return Timing(median, lower, upper)


def peak_memory_above(job: Callable[[], object]) -> int | None:
    """Return the peak memory of a job in bytes, above what the process held before.

    Only Linux lets a process reset its high-water mark; elsewhere, return None.
    """
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    reset.write_text("5")
    before = _status_bytes("VmRSS")
    job()
    return _status_bytes("VmHWM") - before


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def in_own_process(code: str, **environment: str) -> Any:
    """Run code in a fresh process, with its own memory and imports; return the value that it prints."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment)
    return ast.literal_eval(done.stdout)


def show(
    result: dict[str, Any], as_json: bool, lines: Callable[[dict[str, Any]], Iterable[str | Table]]
) -> None:
    """Print a result and the machine: as JSON, or as the tables and sentences that `lines` returns."""
    result = {"machine": machine()} | result
    if as_json:
        print(json.dumps(result, indent=2))
        return
    console = Terminal()
    for line in lines(result):
        console.print(line, soft_wrap=isinstance(line, str))
    if "rounds" in result:
        console.print(f"Medians of {result['rounds']} interleaved rounds.")
    console.print(result["machine"], style="dim", soft_wrap=True)


def table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], names: int = 0) -> Table:
    """Return a table of numbers; `names` is the index of the one column of names."""
    out = Table(title=title)
    for place, heading in enumerate(headings):
        out.add_column(heading, justify="left" if place == names else "right")
    for row in rows:
        out.add_row(*row)
    return out


def megabytes(count: int | None) -> str:
    """Format bytes for a table; None, if they could not be measured, is a dash."""
    return "-" if count is None else f"{count / 1e6:,.0f} MB"


def machine() -> str:
    """Return one line: processor, torch threads, versions."""
    python = f"Python {platform.python_version()}"
    if "torch" not in sys.modules:  # the benchmark does not use it
        return f"{_processor()}, {os.cpu_count()} cores, numpy {np.__version__}, {python}"
    torch = sys.modules["torch"]
    threads = f"{torch.get_num_threads()} torch threads, torch {torch.__version__}"
    return f"{_processor()}, {os.cpu_count()} cores, {threads}, {python}"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
