"""Several small runs as one program: a step of a stack against the same runs one after another, by shape."""

from collections.abc import Callable
from typing import Any

import torch
from rich.table import Table

from seedspread.benchmarks.timing import interleaved, machine, show
from seedspread.benchmarks.train import random_batch
from seedspread.config import RunConfig
from seedspread.model import ViT
from seedspread.presets import check, preset_values
from seedspread.render.terminal import Terminal
from seedspread.stacking import worthwhile
from seedspread.training.allocator import keep_freed_memory
from seedspread.training.layerwise import LayerwiseModel
from seedspread.training.records import EpochSums
from seedspread.training.trainer import Trainer, trainer_of

RUNS = 8
# Settings of the quickstart preset, from small to large; the last is the paper's width.
SHAPES: dict[str, dict[str, dict[str, Any]]] = {
    "batch 8, 4 tokens, d 16": {
        "training": {"batch_size": 8}, "model": {"patch_size": 16, "dim": 16, "heads": 2}
    },
    "batch 16, 16 tokens, d 16": {
        "training": {"batch_size": 16}, "model": {"patch_size": 8, "dim": 16, "heads": 2}
    },
    "batch 32, 16 tokens, d 32": {"training": {"batch_size": 32}, "model": {"patch_size": 8}},
    "batch 128, 16 tokens, d 32": {"model": {"patch_size": 8}},
    "batch 32, 64 tokens, d 32": {"training": {"batch_size": 32}},
    "quickstart: batch 128, 64 tokens, d 32": {},
    "batch 128, 64 tokens, d 128": {"model": {"dim": 128}},
}  # fmt: skip


def shaped(changes: dict[str, dict[str, Any]], implementation: str = "fast") -> RunConfig:
    """The quickstart preset with fields changed."""
    values = preset_values("quickstart")
    for part, fields in changes.items():
        values[part] = values.get(part, {}) | fields
    values["runtime"] = {"implementation": implementation}
    return check(values)


def steps(config: RunConfig, runs: int, together: int) -> Callable[[], None]:
    """A step of so many runs, so many at a time."""
    model = config.model
    batch = random_batch(config.training.batch_size)

    def prepared(count: int) -> tuple[Trainer, list[EpochSums]]:
        models = [LayerwiseModel(config, ViT.from_config(model)) for _ in range(count)]
        return trainer_of(models), [EpochSums.empty(model.depth, torch.device("cpu")) for _ in models]

    trainers = [prepared(together) for _ in range(runs // together)]

    def step() -> None:
        for trainer, sums in trainers:
            trainer.step([batch] * len(sums), 0, sums)

    return step


def run(rounds: int, as_json: bool) -> None:
    """Measures and prints, as a table or as JSON."""
    torch.set_num_threads(1)  # as a worker beside others has it
    keep_freed_memory()
    rows = []
    for name, changes in SHAPES.items():
        fast = shaped(changes)
        times = interleaved(
            {
                "plain": steps(shaped(changes, "plain"), RUNS, 1),
                "alone": steps(fast, RUNS, 1),
                "by two": steps(fast, RUNS, 2),
                "by four": steps(fast, RUNS, 4),
                "by eight": steps(fast, RUNS, 8),
            },
            rounds,
            name,
        )
        against = {key: times["plain"].median / timing.median for key, timing in times.items()}
        rows.append({"shape": name, "plain_ms": 1e3 * times["plain"].median / RUNS, **against,
                     "auto": worthwhile(fast)})  # fmt: skip
    result = {"machine": machine(), "rounds": rounds, "runs": RUNS, "shapes": rows}
    show(result, as_json, _print)


def _print(result: dict[str, Any]) -> None:
    console = Terminal()
    table = Table(title=f"A stage-1 step of {result['runs']} runs on one core: speed against plain")
    for heading in ("shape (3 layers)", "plain, a run", "alone", "by two", "by four", "by eight", "auto"):
        table.add_column(heading, justify="left" if heading.startswith("shape") else "right")
    for row in result["shapes"]:
        ratios = (f"{row[key]:.2f}" for key in ("alone", "by two", "by four", "by eight"))
        table.add_row(row["shape"], f"{row['plain_ms']:.1f} ms", *ratios, str(row["auto"]))
    console.print(table)
    console.print(f"Medians of {result['rounds']} interleaved rounds. auto: runs that a worker stacks.")
    console.print(result["machine"], style="dim")
