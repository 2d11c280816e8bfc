"""A step of each training rule of docs/local-rules.md: time and memory, as ratios to backpropagation."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from rich.table import Table

from benchmarks.script import AsJson, Rounds, main
from benchmarks.timing import in_own_process, interleaved, megabytes, show, table
from seedspread.cff.data.loader import Batch
from seedspread.cff.presets import read_config
from seedspread.cff.training.layerwise import EpochSums, LayerwiseModel, model_of
from seedspread.cff.training.trainers import trainer_of

BASELINE = "backpropagation"
RULES = {
    BASELINE: ("rule=cross_entropy",),
    "SupCon, end to end": ("rule=end_to_end",),
    "SupCon, layer by layer": ("implementation=plain",),
    "SupCon, layer by layer (native)": ("implementation=native",),
    "goodness": ("loss=goodness", "threshold=0.5"),
    "local cross entropy": ("loss=local_cross_entropy",),
}
CLASSES, FEW = 10, 4

_PEAK = """
from benchmarks.local_rules import FEW, step_of
from benchmarks.timing import peak_memory_above
step = step_of({rule!r})
step(FEW)  # makes gradients and optimizer state, which are not counted
print(peak_memory_above(step))
"""


def step_of(rule: str) -> Callable[..., None]:
    """Return a step of a rule as in small/cifar10, on a batch of random images or a given number of them."""
    torch.set_num_threads(1)
    config = read_config("small/cifar10", [*RULES[rule], "runtime.threads=1"])
    torch.manual_seed(0)
    model = LayerwiseModel(config, model_of(config, CLASSES))
    trainer, sums = trainer_of(model), EpochSums.empty(config.model.depth, torch.device("cpu"))
    whole = config.training.batch_size
    pixels = torch.randn(model.views * whole, *config.model.image_shape)

    def step(images: int = whole) -> None:
        labels = torch.arange(images).remainder(CLASSES).repeat(model.views)
        trainer.step(Batch(pixels[: len(labels)], labels, torch.arange(images)), 0, sums)

    return step


def run(rounds: Rounds = 10, as_json: AsJson = False) -> None:
    """Measure time and peak memory of a step of each rule, with every diagnostic, on one thread."""
    jobs = {rule: step_of(rule) for rule in RULES}
    times = interleaved(jobs, rounds, "rules")
    # Larger blocks are returned to the system at once: memory that the allocator keeps is not the step's.
    peaks = {rule: in_own_process(_PEAK.format(rule=rule), MALLOC_MMAP_THRESHOLD_="65536") for rule in RULES}
    result = {
        "rounds": rounds,
        "rules": [
            {
                "rule": rule,
                "step_ms": 1e3 * times[rule].median,
                "time_ratio": times[rule].median / times[BASELINE].median,
                "memory": peaks[rule],
                "memory_ratio": None if peaks[rule] is None else peaks[rule] / peaks[BASELINE],
            }
            for rule in RULES
        ],
    }
    show(result, as_json, _lines)


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    rows = [
        (
            row["rule"],
            f"{row['step_ms']:.0f} ms",
            f"{row['time_ratio']:.2f}",
            megabytes(row["memory"]),
            "-" if row["memory_ratio"] is None else f"{row['memory_ratio']:.2f}",
        )
        for row in result["rules"]
    ]
    heads = ("rule", "step", f"of {BASELINE}", "peak memory", f"of {BASELINE}")
    yield table("A step of 256 images, small/cifar10, one thread", heads, rows)
    yield "Memory is above weights, gradients and optimizer state, and measured on Linux only."


if __name__ == "__main__":
    main(run)
