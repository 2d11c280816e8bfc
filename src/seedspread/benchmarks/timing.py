"""Interleaved timing, and the machine it was done on."""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from seedspread.render.terminal import Terminal

# Progress goes to stderr, so that `--json` on stdout stays clean.
_console = Terminal(stderr=True)


@dataclass(frozen=True)
class Timing:
    """Seconds: the median and the quartiles of interleaved rounds."""

    median: float
    lower: float
    upper: float


def interleaved(jobs: Mapping[str, Callable[[], object]], rounds: int, title: str) -> dict[str, Timing]:
    """Times each job once per round, round after round, so that a slow spell hits them all."""
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
    """Bytes of memory that `job` holds at its peak beyond what the process holds before.

    Only Linux lets a process reset its high-water mark; elsewhere the answer is None.
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


def show(result: dict[str, Any], as_json: bool, table: Callable[[dict[str, Any]], None]) -> None:
    """Prints what was measured: as JSON for machines, else as `table` prints it."""
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        table(result)


def machine() -> str:
    """One line: processor, threads that torch uses, versions."""
    python = f"Python {platform.python_version()}"
    if "torch" not in sys.modules:  # what was measured did without it
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
