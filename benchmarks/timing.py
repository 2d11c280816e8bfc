"""What benchmarks share: interleaved timing, peak memory, and how results and the machine are printed."""

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


def in_own_process(code: str, **environment: str) -> Any:
    """Runs code in a fresh process, whose memory and imports are its own; returns what it prints."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment)
    return ast.literal_eval(done.stdout)


def show(
    result: dict[str, Any], as_json: bool, lines: Callable[[dict[str, Any]], Iterable[str | Table]]
) -> None:
    """Prints what was measured and where: as JSON for machines, else the tables and sentences of `lines`."""
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
    """A table of numbers, and one column, by its place, of names."""
    out = Table(title=title)
    for place, heading in enumerate(headings):
        out.add_column(heading, justify="left" if place == names else "right")
    for row in rows:
        out.add_row(*row)
    return out


def megabytes(count: int | None) -> str:
    """Bytes as they stand in a table; None where they could not be measured."""
    return "-" if count is None else f"{count / 1e6:,.0f} MB"


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
