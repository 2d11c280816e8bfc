"""Time of the fast loss, forward and backward, compared with the plain one and pytorch-metric-learning's."""

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from benchmarks.script import AsJson, Rounds, main
from benchmarks.timing import Timing, in_own_process, interleaved, megabytes, show, table
from seedspread.cff.loss import SupConLoss
from seedspread.cff.margins import MARGIN_TYPES

DIM, CLASSES, MEMORY_N = 128, 10, 16384
SIZES = (256, 1024, 4096)

_PEAK = """
from benchmarks.loss import batch, step
from benchmarks.timing import peak_memory_above
from seedspread.cff.loss import SupConLoss
loss = SupConLoss(implementation="fast")
step(loss, *batch(64))  # what a first call loads is not the loss's memory
inputs = batch({n})
print(peak_memory_above(lambda: step(loss, *inputs)))
"""


def batch(n: int) -> tuple[Tensor, Tensor]:
    """Return features `(n, 128)` so similar that some pairs saturate, and labels of 10 classes."""
    generator = torch.Generator().manual_seed(0)
    common = 1.5 * torch.randn(1, DIM, generator=generator)
    features = torch.randn(n, DIM, generator=generator) + common
    return features.requires_grad_(), torch.randint(0, CLASSES, (n,), generator=generator)


def step(loss: Callable[[Tensor, Tensor], Tensor], features: Tensor, labels: Tensor) -> None:
    """Run the loss forward and backward."""
    features.grad = None
    loss(features, labels).backward()  # type: ignore[no-untyped-call]


def run(rounds: Rounds = 30, as_json: AsJson = False) -> None:
    """Compare the fast loss with the plain one and pytorch-metric-learning's; its memory at N = 16384."""
    rows = [row for n in SIZES for row in _compare(n, rounds if n <= 1024 else max(3, rounds // 6))]
    result = {
        "rounds": rounds,
        "d": DIM,
        "classes": CLASSES,
        "timings": rows,
        "memory": {"N": MEMORY_N, "peak_bytes_above_inputs": peak_memory(MEMORY_N)},
    }
    show(result, as_json, _lines)


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
        reference = import_module("pytorch_metric_learning.losses").SupConLoss
        jobs["metric_learning"] = _job(reference(temperature=0.15), features, labels)
    times = interleaved(jobs, rounds, f"N = {n}")
    return [_row(n, margin_type, times) for margin_type in MARGIN_TYPES]


def _job(loss: Callable[[Tensor, Tensor], Tensor], features: Tensor, labels: Tensor) -> Callable[[], None]:
    return lambda: step(loss, features, labels)


def _row(n: int, margin_type: str, times: dict[str, Timing]) -> dict[str, Any]:
    plain, fast = times[f"plain {margin_type}"], times[f"fast {margin_type}"]
    reference = times.get("metric_learning")
    return {
        "N": n,
        "margin_type": margin_type,
        "fast_ms": 1e3 * fast.median,
        "fast_quartiles_ms": [1e3 * fast.lower, 1e3 * fast.upper],
        "plain_ms": 1e3 * plain.median,
        "plain_over_fast": plain.median / fast.median,
        # It has no margin, so its time is the same in every row.
        "metric_learning_ms": 1e3 * reference.median if reference else None,
        "metric_learning_over_fast": reference.median / fast.median if reference else None,
    }


def peak_memory(n: int) -> Any:
    """Return the peak bytes of the fast loss above its inputs, `(n, 128)`; None if not measurable."""
    return in_own_process(_PEAK.format(n=n))


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    yield table(
        f"Forward + backward, d = {result['d']}, {result['classes']} classes",
        ("N", "margin", "fast", "plain", "plain / fast", "PML", "PML / fast"),
        [
            (
                str(row["N"]),
                row["margin_type"],
                f"{row['fast_ms']:.1f} ms",
                f"{row['plain_ms']:.1f} ms",
                f"{row['plain_over_fast']:.2f}x",
                f"{row['metric_learning_ms']:.1f} ms" if row["metric_learning_ms"] else "not installed",
                f"{row['metric_learning_over_fast']:.2f}x" if row["metric_learning_ms"] else "",
            )
            for row in result["timings"]
        ],
        names=1,
    )
    memory = result["memory"]
    amount = megabytes(memory["peak_bytes_above_inputs"])
    yield f"Fast loss at N = {memory['N']}: peak memory above the inputs {amount} (measured on Linux only)."
    yield "PML: SupConLoss of pytorch-metric-learning, which has no margin. Fewer rounds at N > 1024."


if __name__ == "__main__":
    main(run)
