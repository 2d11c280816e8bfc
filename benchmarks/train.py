"""Cost of the diagnostics in a stage-1 step, and its memory by depth of the model."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from rich.table import Table

from benchmarks.script import AsJson, Rounds, main
from benchmarks.timing import in_own_process, interleaved, megabytes, show, table
from seedspread.cff.config import ModelConfig, RunConfig, TrainingConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.implementations import features_of
from seedspread.cff.model import ViT
from seedspread.cff.training.layerwise import EpochSums, LayerwiseModel
from seedspread.cff.training.run import cpu_threads
from seedspread.cff.training.trainers import AutogradTrainer, trainer_of

DEPTHS = (2, 4, 8, 16)
RULES = ("layer_local", "end_to_end")
BATCH, DIM = 64, 128

_PEAK = """
from benchmarks.timing import peak_memory_above
from benchmarks.train import BATCH, autograd_trainer, random_batch
trainer, sums = autograd_trainer({depth}, {rule!r})
few, many = random_batch(2), random_batch(BATCH)
trainer.step(few, 0, sums)  # makes gradients and optimizer state, which are not counted
print(peak_memory_above(lambda: trainer.step(many, 0, sums)))
"""


def random_batch(images: int, model: ModelConfig | None = None) -> Batch:
    """Return two views of random images with the shape of the paper's images or a model's."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(2 * images, *(model or ModelConfig()).image_shape, generator=generator)
    labels = torch.randint(0, 10, (images,), generator=generator)
    return Batch(pixels, labels.repeat(2), torch.arange(images))


def step_of(config: RunConfig) -> Callable[[Batch], None]:
    """Return a step with every diagnostic."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    trainer = trainer_of(LayerwiseModel(config, ViT.from_config(config.model), threads))
    sums = EpochSums.empty(config.model.depth, torch.device("cpu"))

    def step(batch: Batch) -> None:
        with cpu_threads(1 if features_of(config).has_own_threads else threads):
            trainer.step(batch, 0, sums)

    return step


def autograd_trainer(depth: int, rule: str = "layer_local") -> tuple[AutogradTrainer, EpochSums]:
    """Return a trainer through autograd, with a model of the paper's width, and sums for its epoch."""
    config = RunConfig(
        model=ModelConfig(dim=DIM, depth=depth),
        training=TrainingConfig(rule=rule, batch_size=BATCH),  # type: ignore[arg-type]
    )
    model = LayerwiseModel(config, ViT.from_config(config.model))
    return AutogradTrainer(model), EpochSums.empty(depth, torch.device("cpu"))


def bare_step(trainer: AutogradTrainer, batch: Batch) -> None:
    """Take the same step as the trainer, without any diagnostic."""
    tokens = batch.images
    for layer, module in enumerate(trainer.model.vit.layers):
        trainer.optimizers[layer].zero_grad()
        output = module(tokens)
        trainer.model.losses[layer](output.mean(dim=1), batch.labels).backward()
        trainer.optimizers[layer].step()
        tokens = output.detach()


def run(rounds: Rounds = 10, as_json: AsJson = False) -> None:
    """Measure the cost of the diagnostics in a stage-1 step, and its memory by depth of the model."""
    (trainer, sums), batch = autograd_trainer(depth=4), random_batch(BATCH)
    jobs = {
        "with": lambda: trainer.step(batch, 0, sums),
        "without": lambda: bare_step(trainer, batch),
    }
    times = interleaved(jobs, rounds, "diagnostics")
    with_, without = times["with"].median, times["without"].median
    result = {
        "rounds": rounds,
        "batch": BATCH,
        "dim": DIM,
        "images_per_second": BATCH / with_,
        "step_ms": 1e3 * with_,
        "bare_step_ms": 1e3 * without,
        "diagnostics_share": with_ / without - 1,
        "memory": [{"depth": depth} | {rule: _peak(depth, rule) for rule in RULES} for depth in DEPTHS],
    }
    show(result, as_json, _lines)


def _peak(depth: int, rule: str) -> Any:
    # Larger blocks are returned to the system at once: memory that the allocator keeps is not the step's.
    return in_own_process(_PEAK.format(depth=depth, rule=rule), MALLOC_MMAP_THRESHOLD_="65536")


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    yield (
        f"A stage-1 step, batch {result['batch']}, two views, d = {result['dim']}, 4 layers: "
        f"{result['step_ms']:.0f} ms with every diagnostic, {result['bare_step_ms']:.0f} ms without: "
        f"they cost {result['diagnostics_share']:.1%}."
    )
    yield table(
        "Peak memory of a step above weights, gradients and optimizer state",
        ("layers", *RULES),
        [(str(row["depth"]), *(megabytes(row[rule]) for rule in RULES)) for row in result["memory"]],
    )
    yield "Memory is measured on Linux only."


if __name__ == "__main__":
    main(run)
