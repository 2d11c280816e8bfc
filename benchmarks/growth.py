"""Growth of time and memory of a stage-1 step with the batch, the depth, the tokens and the classes."""

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.progress import track
from rich.table import Table

from benchmarks.script import AsJson, main
from benchmarks.step import our_step
from benchmarks.timing import in_own_process, megabytes, peak_memory_above, show, table
from benchmarks.train import random_batch
from seedspread.cff.config import ModelConfig
from seedspread.cff.data.loader import Batch
from seedspread.errors import SeedspreadError
from seedspread.render.chart import COLORS, FORMATS, Axis, Chart, Mark, Panel, floats, log_ticks
from seedspread.render.terminal import Terminal
from seedspread.render.with_matplotlib import save_chart

# Values of each varied quantity; everything else is the paper's, except the depth, which only multiplies.
AXES: dict[str, tuple[int, ...]] = {
    "batch": (256, 512, 1024, 2048, 4096, 8192),
    "depth": (1, 2, 4, 8),
    "tokens": (16, 64, 256),
    "classes": (2, 10, 100, 1000),
}
_DEFAULTS = {"batch": 256, "depth": 1, "tokens": 64, "classes": 10}


def prepared(batch: int, depth: int, tokens: int, classes: int) -> Callable[[], None]:
    """Return a fast step with the paper's width."""
    images = random_batch(batch)
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, classes, (batch,), generator=generator).repeat(2)
    model = ModelConfig(depth=depth, patch_size=ModelConfig().image_shape[1] // math.isqrt(tokens))
    return our_step(Batch(images.images, labels, images.index), model, {})


def measure(values: dict[str, int]) -> dict[str, Any]:
    """Return the time of the fastest of three steps, and the peak memory of the first, in this process."""
    step = prepared(**values)
    peak = peak_memory_above(step)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return values | {"seconds": min(seconds), "peak_bytes": peak}


def run(
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .pdf or .svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how time and memory of a stage-1 step grow with batch, depth, tokens and classes."""
    if plot is not None and plot.suffix[1:].lower() not in FORMATS:
        raise SeedspreadError(f"--plot {plot} must end in {', '.join(f'.{form}' for form in FORMATS)}")
    sizes = [(axis, _DEFAULTS | {axis: value}) for axis, values in AXES.items() for value in values]
    rows = []
    for axis, values in track(sizes, "growing", console=Terminal(stderr=True), transient=True):
        # Each is measured in its own process, so that none inherits another's memory.
        code = f"from benchmarks.growth import measure; print(measure({values}))"
        rows.append({"axis": axis} | in_own_process(code))
    if plot is not None:
        save_chart(growth_chart(rows), plot)
    show({"rows": rows}, as_json, _lines)


def _lines(result: dict[str, Any]) -> Iterator[Table]:
    yield table(
        "A fast stage-1 step: d = 128, two views; unless varied batch 256, one layer, 64 tokens, 10 classes",
        ("varied", "", "seconds", "peak memory"),
        [
            (row["axis"], f"{row[row['axis']]:,}", f"{row['seconds']:.2f}", megabytes(row["peak_bytes"]))
            for row in result["rows"]
        ],
    )


def growth_chart(rows: list[dict[str, Any]]) -> Chart:
    """Draw time and memory against each size on logarithmic axes; a dashed line grows in proportion."""
    return Chart(
        id="growth",
        title="How a stage-1 step grows",
        caption="Time and memory against each size, on logarithmic axes.",
        alt="Lines of time and memory against batch, depth, tokens and classes.",
        panels=tuple(_panel(axis, [row for row in rows if row["axis"] == axis]) for axis in AXES),
        scale="Dashed: time in proportion to the size, from the smallest on.",
    )


def _panel(axis: str, rows: list[dict[str, Any]]) -> Panel:
    x, seconds = floats([row[axis] for row in rows]), floats([row["seconds"] for row in rows])
    marks = [
        Mark("rule", "in proportion", x, tuple(seconds[0] * size / x[0] for size in x), legend=True),
        Mark("line", "time (s)", x, seconds, color=COLORS[0], legend=True),
    ]
    if all(row["peak_bytes"] is not None for row in rows):
        memory = floats([row["peak_bytes"] / 1e9 for row in rows])
        marks.append(Mark("line", "peak memory (GB)", x, memory, color=COLORS[1], symbol=1, legend=True))
    values = [value for mark in marks for value in mark.y]
    sizes = tuple((size, f"{size:g}") for size in x)
    y = Axis("Seconds, gigabytes", log=True, ticks=log_ticks(min(values), max(values)))
    return Panel("", Axis(axis.capitalize(), log=True, ticks=sizes), y, tuple(marks))


if __name__ == "__main__":
    main(run)
