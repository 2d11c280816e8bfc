"""A stage-1 step: what the diagnostics cost, and what memory it needs as the model grows deeper."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
from rich.table import Table

from seedspread.benchmarks.timing import interleaved, machine, show
from seedspread.config import ModelConfig, RunConfig, TrainingConfig
from seedspread.data.loader import Batch
from seedspread.model import ViT
from seedspread.render.terminal import Terminal
from seedspread.training.autograd import AutogradTrainer
from seedspread.training.layerwise import LayerwiseModel
from seedspread.training.records import EpochSums

DEPTHS = (2, 4, 8, 16)
BATCH, DIM = 64, 128

_PEAK = """
from seedspread.benchmarks.timing import peak_memory_above
from seedspread.benchmarks.train import BATCH, prepared, random_batch, step
trainer, few, sums = prepared({depth}, {rule!r}, images=2)
step(trainer, few, sums)  # makes gradients and optimiser state, which are not counted
batch = random_batch(BATCH)
print(peak_memory_above(lambda: step(trainer, batch, sums)))
"""


def random_batch(images: int) -> Batch:
    """Two views of random images."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(2 * images, *ModelConfig().image_shape, generator=generator)
    labels = torch.randint(0, 10, (images,), generator=generator)
    return Batch(pixels, labels.repeat(2), torch.arange(images))


def prepared(
    depth: int, rule: str = "layer_local", images: int = BATCH
) -> tuple[AutogradTrainer, Batch, EpochSums]:
    """A model of the paper's width in plain training, and a batch."""
    config = RunConfig(
        model=ModelConfig(dim=DIM, depth=depth),
        training=TrainingConfig(rule=rule, batch_size=BATCH),  # type: ignore[arg-type]
    )
    model = LayerwiseModel(config, ViT(dim=DIM, depth=depth))
    return AutogradTrainer(model), random_batch(images), EpochSums.empty(depth, torch.device("cpu"))


def step(trainer: AutogradTrainer, batch: Batch, sums: EpochSums) -> None:
    """As a plain run does it, with every diagnostic."""
    trainer.step([batch], 0, [sums])


def bare_step(trainer: AutogradTrainer, batch: Batch) -> None:
    """The same training, and nothing recorded."""
    tokens = batch.images
    for layer, block in enumerate(trainer.model.vit.layers):
        trainer.optimisers[layer].zero_grad()
        output = block(tokens)
        trainer.model.losses[layer](output.mean(dim=1), batch.labels).backward()
        trainer.optimisers[layer].step()
        tokens = output.detach()


def run(rounds: int, as_json: bool) -> None:
    """Measures and prints, as a table or as JSON."""
    trainer, batch, sums = prepared(depth=4)
    jobs: dict[str, Callable[[], object]] = {
        "with": lambda: step(trainer, batch, sums),
        "without": lambda: bare_step(trainer, batch),
    }
    times = interleaved(jobs, rounds, "diagnostics")
    with_, without = times["with"].median, times["without"].median
    result = {
        "machine": machine(),
        "rounds": rounds,
        "batch": BATCH,
        "dim": DIM,
        "images_per_second": BATCH / with_,
        "step_ms": 1e3 * with_,
        "bare_step_ms": 1e3 * without,
        "diagnostics_share": with_ / without - 1,
        "memory": [
            {
                "depth": depth,
                "layer_local": _peak(depth, "layer_local"),
                "end_to_end": _peak(depth, "end_to_end"),
            }
            for depth in DEPTHS
        ],
    }
    show(result, as_json, _print)


def _peak(depth: int, rule: str) -> int | None:
    # Larger blocks go back to the system as soon as they are freed: what the allocator hoards is not what the
    # step needs.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", _PEAK.format(depth=depth, rule=rule)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return None if done.stdout.strip() == "None" else int(done.stdout)


def _print(result: dict[str, Any]) -> None:
    console = Terminal()
    console.print(
        f"A stage-1 step, batch {result['batch']}, two views, d = {result['dim']}, 4 layers: "
        f"{result['step_ms']:.0f} ms with every diagnostic, {result['bare_step_ms']:.0f} ms without: "
        f"they cost {result['diagnostics_share']:.1%}."
    )
    table = Table(title="Peak memory of a step above weights, gradients and optimiser state")
    for heading in ("layers", "layer_local", "end_to_end"):
        table.add_column(heading, justify="right")
    for row in result["memory"]:
        amounts = (
            "not measured" if row[r] is None else f"{row[r] / 1e6:.0f} MB"
            for r in ("layer_local", "end_to_end")
        )
        table.add_row(str(row["depth"]), *amounts)
    console.print(table)
    console.print(f"Medians of {result['rounds']} interleaved rounds. Memory is measured on Linux only.")
    console.print(result["machine"], style="dim")
