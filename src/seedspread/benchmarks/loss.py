"""Forward and backward of the fast loss against the plain one and pytorch-metric-learning's."""

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from seedspread.benchmarks.timing import Timing, interleaved, machine, show
from seedspread.objective import MARGIN_TYPES, SupConLoss
from seedspread.render.terminal import Terminal

DIM, CLASSES, MEMORY_N = 128, 10, 16384
SIZES = (256, 1024, 4096)

# Runs in a process of its own, because peak memory is a whole process's.
_PEAK = """
from seedspread.benchmarks.loss import batch, step
from seedspread.benchmarks.timing import peak_memory_above
from seedspread.objective import SupConLoss
loss = SupConLoss(implementation="fast")
step(loss, *batch(64))  # what a first call loads is not the loss's memory
inputs = batch({n})
print(peak_memory_above(lambda: step(loss, *inputs)))
"""


def batch(n: int) -> tuple[Tensor, Tensor]:
    """Features `(n, 128)` with enough in common that some pairs saturate, and labels of 10 classes."""
    generator = torch.Generator().manual_seed(0)
    common = 1.5 * torch.randn(1, DIM, generator=generator)
    features = torch.randn(n, DIM, generator=generator) + common
    return features.requires_grad_(), torch.randint(0, CLASSES, (n,), generator=generator)


def step(loss: Callable[[Tensor, Tensor], Tensor], features: Tensor, labels: Tensor) -> None:
    """Forward and backward."""
    features.grad = None
    loss(features, labels).backward()  # type: ignore[no-untyped-call]


def run(rounds: int, as_json: bool) -> None:
    """Measures and prints, as a table or as JSON."""
    rows = [row for n in SIZES for row in _compare(n, rounds if n <= 1024 else max(3, rounds // 6))]
    result = {
        "machine": machine(),
        "rounds": rounds,
        "d": DIM,
        "classes": CLASSES,
        "timings": rows,
        "memory": {"N": MEMORY_N, "peak_bytes_above_inputs": _peak_memory(MEMORY_N)},
    }
    show(result, as_json, _print)


def _compare(n: int, rounds: int) -> list[dict[str, Any]]:
    features, labels = batch(n)
    jobs = {
        f"{kind} {margin_type}": _job(
            SupConLoss(margin_type=margin_type, implementation=kind), features, labels
        )
        for margin_type in MARGIN_TYPES
        for kind in ("plain", "fast")
    }
    if find_spec("pytorch_metric_learning"):
        theirs = import_module("pytorch_metric_learning.losses").SupConLoss
        jobs["theirs"] = _job(theirs(temperature=0.15), features, labels)
    times = interleaved(jobs, rounds, f"N = {n}")
    return [_row(n, margin_type, times) for margin_type in MARGIN_TYPES]


def _job(loss: Callable[[Tensor, Tensor], Tensor], features: Tensor, labels: Tensor) -> Callable[[], None]:
    return lambda: step(loss, features, labels)


def _row(n: int, margin_type: str, times: dict[str, Timing]) -> dict[str, Any]:
    plain, fast, theirs = (
        times[f"plain {margin_type}"],
        times[f"fast {margin_type}"],
        times.get("theirs"),
    )
    return {
        "N": n,
        "margin_type": margin_type,
        "fast_ms": 1e3 * fast.median,
        "fast_quartiles_ms": [1e3 * fast.lower, 1e3 * fast.upper],
        "plain_ms": 1e3 * plain.median,
        "plain_over_fast": plain.median / fast.median,
        # Theirs knows no margin: its time is the same in every row.
        "metric_learning_ms": 1e3 * theirs.median if theirs else None,
        "metric_learning_over_fast": theirs.median / fast.median if theirs else None,
    }


def _peak_memory(n: int) -> int | None:
    done = subprocess.run(
        [sys.executable, "-c", _PEAK.format(n=n)], capture_output=True, text=True, check=True
    )
    return None if done.stdout.strip() == "None" else int(done.stdout)


def _print(result: dict[str, Any]) -> None:
    table = Table(title=f"Forward + backward, d = {result['d']}, {result['classes']} classes")
    for heading in ("N", "margin", "fast", "plain", "plain / fast", "PML", "PML / fast"):
        table.add_column(heading, justify="left" if heading == "margin" else "right")
    for row in result["timings"]:
        theirs = row["metric_learning_ms"]
        table.add_row(
            str(row["N"]),
            row["margin_type"],
            f"{row['fast_ms']:.1f} ms",
            f"{row['plain_ms']:.1f} ms",
            f"{row['plain_over_fast']:.2f}x",
            f"{theirs:.1f} ms" if theirs else "not installed",
            f"{row['metric_learning_over_fast']:.2f}x" if theirs else "",
        )
    console = Terminal()
    console.print(table)
    memory = result["memory"]["peak_bytes_above_inputs"]
    amount = "not measured (needs Linux)" if memory is None else f"{memory / 1e6:.0f} MB"
    console.print(f"Fast loss at N = {MEMORY_N}: peak memory above the inputs {amount}.")
    console.print("PML: SupConLoss of pytorch-metric-learning, which has no margin.")
    console.print(f"Medians of {result['rounds']} interleaved rounds (fewer at N > 1024).")
    console.print(result["machine"], style="dim")
