"""A stage-1 step at the paper's or a preset's size, compared with the public code and the machine's limit."""

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from rich.table import Table
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.reference import reference_step
from benchmarks.script import AsJson, Rounds, main
from benchmarks.timing import interleaved, megabytes, show, table
from benchmarks.train import random_batch, step_of
from seedspread.cff.config import ModelConfig, RunConfig, RuntimeConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.presets import read_config
from seedspread.cff.training.native import why_not
from seedspread.cff.training.run import keep_freed_memory
from seedspread.errors import SeedspreadError

PAPER = "paper/cifar10"
PRODUCT = "a large product"
_ROWS = 2048  # of the matrices whose product measures the machine's limit

# The variants to compare, as settings of `runtime`.
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"implementation": "plain"},
    "fast": {},
    "native": {"implementation": "native"},
    "fast, recomputed": {"activation_checkpointing": True},
    "plain, bf16": {"implementation": "plain", "precision": "bf16"},
    "fast, bf16": {"precision": "bf16"},
    "native, bf16": {"implementation": "native", "precision": "bf16"},
}

# Each variant has its own process, with the same allocator as a run, and takes steps on request.
_CHILD = """
import sys, time
from benchmarks.step import count_flops, job
from benchmarks.timing import peak_memory_above
job({name!r}, {reference!r}, {preset!r}, 8)()  # imports, threads
step = job({name!r}, {reference!r}, {preset!r})
print(peak_memory_above(step), flush=True)
print(count_flops(job({counted!r}, {reference!r}, {preset!r})), flush=True)
for _ in sys.stdin:
    start = time.process_time()
    for _ in range({steps}):
        step()
    print((time.process_time() - start) / {steps}, flush=True)
"""


def our_step(batch: Batch, model: ModelConfig, runtime: dict[str, Any]) -> Callable[[], None]:
    """Return a step as in a run, with every diagnostic."""
    step = step_of(RunConfig(model=model, runtime=RuntimeConfig(**runtime)))
    return lambda: step(batch)


def job(
    name: str, reference: str | None, preset: str = PAPER, images: int | None = None
) -> Callable[[], object]:
    """Return a step of `SETTINGS` or the public code on a preset's batch or `images`, or a large product."""
    if name == PRODUCT:
        left, right = torch.randn(2, _ROWS, _ROWS)
        return lambda: left @ right
    config = read_config(preset)
    batch = random_batch(images or config.training.batch_size, config.model)
    if name.startswith("public code"):
        precision = "bf16" if name.endswith("bf16") else "fp32"
        return reference_step(Path(str(reference)), batch.images, batch.labels, config.model.depth, precision)
    keep_freed_memory()
    return our_step(batch, config.model, SETTINGS[name])


def run(
    rounds: Rounds = 5,
    preset: Annotated[str, typer.Option(help="Preset of model and batch, such as small/cifar10.")] = PAPER,
    steps: Annotated[int, typer.Option(min=1, help="Steps per round: several of a small model.")] = 1,
    reference: Annotated[
        Path | None, typer.Option(help="A checkout of HosseinAghagol/ContrastiveFF to measure against.")
    ] = None,
    bf16: Annotated[
        bool, typer.Option("--bf16", help="Also in bf16: very slow without hardware for it.")
    ] = False,
    busy: Annotated[int, typer.Option(min=0, help="Processes that each keep a core busy meanwhile.")] = 0,
    device: Annotated[
        Literal["cpu", "cuda"],
        typer.Option(help="cuda: on a GPU instead, by settings, with everything worth reporting."),
    ] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Measure a stage-1 step at the paper's or a preset's size; compare the public code and the machine."""
    if reference is not None and preset != PAPER:
        raise SeedspreadError("--reference has the paper's size: leave --preset out")
    if device == "cuda":
        if reference is not None or preset != PAPER or steps != 1:
            raise SeedspreadError("--device cuda takes no --preset, --steps or --reference: leave them out")
        from benchmarks import gpu  # noqa: PLC0415 - it imports this module

        gpu.run(rounds=rounds, as_json=as_json)
        return
    folder = None if reference is None else str(reference.absolute())
    if folder:
        few = random_batch(2)
        reference_step(Path(folder), few.images, few.labels)  # refuses a wrong folder at once
    settings = [
        name
        for name, runtime in SETTINGS.items()
        if runtime.get("implementation") != "native" or why_not(bf16="precision" in runtime) is None
    ]
    names = [*(["public code"] if folder else []), *settings]
    names += ["public code, bf16"] if folder else []
    names = [*(name for name in names if bf16 or not name.endswith("bf16")), PRODUCT]
    config = read_config(preset)
    batch = config.training.batch_size
    with ExitStack() as stack:
        children = {name: stack.enter_context(_Child(name, folder, preset, steps)) for name in names}
        for _ in range(busy):
            stack.enter_context(_busy())
        times = interleaved({name: child.step for name, child in children.items()}, rounds, "steps")
    limit = 2 * _ROWS**3 * steps / times[PRODUCT].median / 1e9
    rows = [
        {
            "name": name,
            "images_per_second": steps * batch / times[name].median,
            "quartiles": [steps * batch / times[name].upper, steps * batch / times[name].lower],
            "flops": children[name].flops,
            "gflops": steps * children[name].flops / times[name].median / 1e9,
            "share_of_limit": steps * children[name].flops / times[name].median / 1e9 / limit,
            "speed_against_first": times[names[0]].median / times[name].median,
            "cpu_seconds": statistics.median(children[name].cpu_seconds),
            "peak_bytes": children[name].peak,
        }
        for name in names
        if name != PRODUCT
    ]
    result = {
        "rounds": rounds, "batch": batch, "dim": config.model.dim, "depth": config.model.depth,
        "limit_gflops": limit, "busy": busy, "steps": rows,
    }  # fmt: skip
    show(result, as_json, _lines)


class _Child:
    """A process that takes a step on request, and idles in between."""

    def __init__(self, name: str, reference: str | None, preset: str, steps: int) -> None:
        # torch cannot count the kernel's products; what it recomputes in the backward pass is left out.
        counted = name.replace("native", "fast")
        code = _CHILD.format(name=name, counted=counted, reference=reference, preset=preset, steps=steps)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.peak: int | None = self._answer(int)
        self.flops: int = self._answer(int)
        self.cpu_seconds: list[float] = []

    def _answer(self, kind: "type[int] | type[float]") -> Any:
        line = self._process.stdout.readline().strip() if self._process.stdout else ""
        if not line:
            raise SeedspreadError("a step to be measured has died; is the memory too small?")
        return None if line == "None" else kind(line)

    def step(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        self.cpu_seconds.append(self._answer(float))

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def _busy() -> Iterator[None]:
    """Keep a core busy inside the context."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def count_flops(step: Callable[[], object]) -> int:
    """Return the floating-point operations of the matrix products in a step."""
    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    yield table(
        f"A stage-1 step: d = {result['dim']}, {result['depth']} layers, batch {result['batch']}, two views"
        + (f", beside {result['busy']} busy processes" if result["busy"] else ""),
        ("", "images/s", "quartiles", f"against {result['steps'][0]['name']}", "CPU s", "GFLOP", "GFLOP/s",
         "of the limit", "peak memory"),
        [
            (row["name"], f"{row['images_per_second']:.1f}",
             f"{row['quartiles'][0]:.1f} to {row['quartiles'][1]:.1f}", f"{row['speed_against_first']:.2f}",
             f"{row['cpu_seconds']:.1f}", f"{row['flops'] / 1e9:.0f}", f"{row['gflops']:.0f}",
             f"{row['share_of_limit']:.0%}", megabytes(row["peak_bytes"]))
            for row in result["steps"]
        ],
    )  # fmt: skip
    yield (
        f"GFLOP are those of the products that a step really makes; a product of {_ROWS} x {_ROWS} matrices "
        f"reaches {result['limit_gflops']:.0f} GFLOP/s on this machine, in float32. "
        "Each step is in a process of its own. Native: the products of fast, which it makes and more."
    )


if __name__ == "__main__":
    main(run)
