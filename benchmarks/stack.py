"""Several small runs as one program: a step of a stack against the same runs one after another, by shape."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from rich.table import Table

from benchmarks.script import AsJson, Rounds, main
from benchmarks.timing import interleaved, show, table
from benchmarks.train import random_batch, step_of
from seedspread.cff.config import RunConfig
from seedspread.cff.implementations import worthwhile
from seedspread.cff.presets import check, preset_values
from seedspread.cff.training.native import why_not
from seedspread.cff.training.run import keep_freed_memory

RUNS = 8
STACKS = {"alone": 1, "by two": 2, "by four": 4, "by eight": 8}
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
    batch = random_batch(config.training.batch_size)
    programs = [step_of(config, together) for _ in range(runs // together)]

    def step() -> None:
        for program in programs:
            program(batch)

    return step


def run(rounds: Rounds = 5, as_json: AsJson = False) -> None:
    """Several small runs trained as one program, against one after another, by shape."""
    torch.set_num_threads(1)  # as a worker beside others has it
    keep_freed_memory()
    rows = []
    for name, changes in SHAPES.items():
        fast = shaped(changes)
        times = interleaved(
            {
                "plain": steps(shaped(changes, "plain"), RUNS, 1),
                **{name: steps(fast, RUNS, together) for name, together in STACKS.items()},
                **({} if why_not() else {"native": steps(shaped(changes, "native"), RUNS, 1)}),
            },
            rounds,
            name,
        )
        against = {key: times["plain"].median / timing.median for key, timing in times.items()}
        rows.append({"shape": name, "plain_ms": 1e3 * times["plain"].median / RUNS, **against,
                     "auto": worthwhile(fast)})  # fmt: skip
    show({"rounds": rounds, "runs": RUNS, "shapes": rows}, as_json, _lines)


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    yield table(
        f"A stage-1 step of {result['runs']} runs on one core: speed against plain",
        ("shape (3 layers)", "plain, a run", *STACKS, "auto", "native, alone"),
        [
            (
                row["shape"],
                f"{row['plain_ms']:.1f} ms",
                *(f"{row[name]:.2f}" for name in STACKS),
                str(row["auto"]),
                f"{row['native']:.2f}" if "native" in row else "–",
            )
            for row in result["shapes"]
        ],
    )
    yield "alone to by eight: fast, so many runs as one program; auto: runs that a worker stacks."


if __name__ == "__main__":
    main(run)
