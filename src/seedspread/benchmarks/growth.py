"""How time and memory of a stage-1 step grow with the batch, the depth, the tokens and the classes."""

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from rich.progress import track
from rich.table import Table

from seedspread.atomic import replacing
from seedspread.benchmarks.step import our_step
from seedspread.benchmarks.timing import machine, peak_memory_above, show
from seedspread.benchmarks.train import random_batch
from seedspread.config import ModelConfig
from seedspread.data.loader import Batch
from seedspread.render.terminal import Terminal

# What is varied, over which values; all else is the paper's, but for the depth, which only multiplies.
AXES: dict[str, tuple[int, ...]] = {
    "batch": (256, 512, 1024, 2048, 4096, 8192),
    "depth": (1, 2, 4, 8),
    "tokens": (16, 64, 256),
    "classes": (2, 10, 100, 1000),
}
_DEFAULTS = {"batch": 256, "depth": 1, "tokens": 64, "classes": 10}


def prepared(batch: int, depth: int, tokens: int, classes: int) -> Callable[[], None]:
    """A fast step, of the paper's width."""
    images = random_batch(batch)
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, classes, (batch,), generator=generator).repeat(2)
    model = ModelConfig(depth=depth, patch_size=ModelConfig().image_size // math.isqrt(tokens))
    return our_step(Batch(images.images, labels, images.index), model, {})


def measure(values: dict[str, int]) -> dict[str, Any]:
    """The quickest of three steps, and the peak of the first; in the process that calls it."""
    step = prepared(**values)
    peak = peak_memory_above(step)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return values | {"seconds": min(seconds), "peak_bytes": peak}


def run(as_json: bool, plot: Path | None) -> None:
    """Each size in a process of its own, so that none inherits the other's memory."""
    sizes = [(axis, _DEFAULTS | {axis: value}) for axis, values in AXES.items() for value in values]
    rows = []
    for axis, values in track(sizes, "growing", console=Terminal(stderr=True), transient=True):
        code = (
            "import json; from seedspread.benchmarks.growth import measure; "
            f"print(json.dumps(measure({values})))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        rows.append({"axis": axis} | json.loads(done.stdout))
    result = {"machine": machine(), "rows": rows}
    if plot is not None:
        draw(rows, plot)
    show(result, as_json, _print)


def _print(result: dict[str, Any]) -> None:
    console = Terminal()
    table = Table(
        title="A fast stage-1 step: d = 128, two views; unless varied batch 256, one layer, "
        "64 tokens, 10 classes"
    )
    for heading in ("varied", "", "seconds", "peak memory"):
        table.add_column(heading, justify="left" if heading == "varied" else "right")
    for row in result["rows"]:
        memory = "-" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:,.0f} MB"
        table.add_row(row["axis"], f"{row[row['axis']]:,}", f"{row['seconds']:.2f}", memory)
    console.print(table)
    console.print(result["machine"], style="dim")


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and memory against each size, on logarithmic axes; a dashed line grows in proportion."""
    with mpl.rc_context({"font.size": 8}):
        figure = Figure(figsize=(9, 2.6), layout="constrained")
        for axes, axis in zip(figure.subplots(1, len(AXES)), AXES, strict=True):
            here = [row for row in rows if row["axis"] == axis]
            x = [row[axis] for row in here]
            axes.loglog(x, [row["seconds"] for row in here], "o-", color="#0072B2", label="seconds")
            memory = [row["peak_bytes"] / 1e9 for row in here if row["peak_bytes"] is not None]
            if len(memory) == len(x):
                axes.loglog(x, memory, "s-", color="#D55E00", label="peak memory, GB")
            line = [here[0]["seconds"] * v / x[0] for v in x]
            axes.loglog(x, line, "--", color="#888888", label="in proportion")
            axes.set_xlabel(axis)
            axes.set_xticks(x, [str(v) for v in x], minor=False)
            axes.minorticks_off()
        axes.legend(frameon=False, fontsize=7)
        with replacing(path) as part:
            figure.savefig(part, dpi=150, metadata={"Software": None})
