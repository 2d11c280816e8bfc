"""A step at the paper's size on a GPU, by settings: `python benchmarks/step.py --device cuda`.

It was written without a GPU at hand; its output is what its authors would like to receive.
"""

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from rich.table import Table

from benchmarks.operations import OperationCounter, random_step
from benchmarks.step import count_flops
from benchmarks.timing import megabytes, show, table
from seedspread.cff.config import PIPELINES, RunConfig
from seedspread.cff.data.augment import draws
from seedspread.cff.data.dataset import Split
from seedspread.cff.data.fused import parameters
from seedspread.cff.data.loader import Loader
from seedspread.cff.presets import read_config
from seedspread.cff.training.run import without_tf32
from seedspread.errors import SeedspreadError

_BF16 = "runtime.precision=bf16"
# The variants to compare, as settings of `paper/cifar10`.
SETTINGS: dict[str, tuple[str, ...]] = {
    "plain": ("runtime.implementation=plain",),
    "fast, in slices of 128 views": ("runtime.micro_batch_size=128",),
    "fast, whole batch": (),
    "the same, bf16": (_BF16,),
}
_ROWS = 8192  # of the matrices whose product measures the device's limit


def run(rounds: int, as_json: bool) -> None:
    """Measure, and print a table or JSON."""
    if not torch.cuda.is_available():
        raise SeedspreadError(
            f"--device cuda: torch {torch.__version__} finds no CUDA device here; "
            "give the command on a machine that has one"
        )
    device = torch.device("cuda")
    result = {
        "timed_steps": rounds,
        "device": describe_device(device),
        "steps": [
            {"name": name, "settings": list(settings)}
            | measure(read_config("paper/cifar10", settings), device, rounds, _ROWS)
            for name, settings in SETTINGS.items()
        ],
        "views": measure_views("svhn-hard", device, rounds, images=512),
    }
    show(result, as_json, _lines)


def describe_device(device: torch.device) -> dict[str, Any]:
    """Return the properties of the GPU, its driver and its libraries."""
    properties = torch.cuda.get_device_properties(device)
    return {
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "driver": _driver(),
        "tf32_before": torch.backends.cuda.matmul.allow_tf32,
    }


def _driver() -> str | None:
    """Return the driver's version; None without nvidia-smi."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().split("\n")[0] or None


def measure(config: RunConfig, device: torch.device, rounds: int, rows: int) -> dict[str, Any]:
    """Measure a step of a config: time, memory, operations, and the speed of a product in its precision.

    Args:
        config: the run's config.
        device: the device to measure; the tests use a CPU.
        rounds: steps to time, after a few that are not timed.
        rows: size of the square matrices whose product is the limit.
    """
    with without_tf32():
        step = random_step(config, device)
        seconds = [_seconds(step, device) for _ in range(rounds + 3)][3:]
        median = statistics.median(seconds)
        flops = count_flops(step)
        limit = _product_speed(config, device, rounds, rows)
        counter = OperationCounter(device)
        with counter:
            step()
        return {
            "ms": 1e3 * median,
            "quickest_ms": 1e3 * min(seconds),
            "images_per_second": config.training.batch_size / median,
            "operations": counter.operations.total(),
            "kernels": counter.kernels,
            "copies": counter.elsewhere,
            "waits": _waits(step, device),
            "peak_bytes": _peak(step, device),
            "gflop": flops / 1e9,
            "limit_gflops": limit / 1e9,
            "share_of_limit": flops / median / limit,
        }


def measure_views(pipeline: str, device: torch.device, rounds: int, images: int) -> dict[str, Any]:
    """Measure a batch of two augmented views, from images on the device."""
    steps, order = PIPELINES[pipeline], torch.arange(images)
    pixels = torch.randint(0, 256, (images, 3, 32, 32), dtype=torch.uint8)
    loader = Loader(Split(pixels, order, order).to(device), steps, (0.5,) * 3, (0.5,) * 3, images, views=2)
    chosen = torch.stack([parameters(steps, draws(steps, 0, 0, view, images), 32, 32) for view in range(2)])
    index, chosen = order.to(device), chosen.to(device)
    seconds = [_seconds(lambda: loader.fused_batch(index, chosen), device) for _ in range(rounds + 3)][3:]
    counter = OperationCounter(device)
    with counter:
        loader.fused_batch(index, chosen)
    return {
        "pipeline": pipeline,
        "ms": 1e3 * statistics.median(seconds),
        "operations": counter.operations.total(),
        "copies": counter.elsewhere,
    }


def _seconds(job: Callable[[], object], device: torch.device) -> float:
    """Return the seconds until the device has finished the job."""
    _synchronise(device)
    start = time.perf_counter()
    job()
    _synchronise(device)
    return time.perf_counter() - start


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _product_speed(config: RunConfig, device: torch.device, rounds: int, rows: int) -> float:
    """Return floating-point operations per second of a large product, in the run's precision."""
    dtype = torch.bfloat16 if config.runtime.precision == "bf16" else torch.float32
    left, right = torch.ones(2, rows, rows, dtype=dtype, device=device)
    seconds = [_seconds(lambda: left @ right, device) for _ in range(rounds + 1)][1:]
    return float(2 * rows**3 / statistics.median(seconds))


def _waits(step: Callable[[], object], device: torch.device) -> str | None:
    """Return torch's message on what in a step waits for the device; None if nothing does."""
    if device.type != "cuda":
        return None
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    except RuntimeError as error:
        return str(error).split("\n")[0]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return None


def _peak(step: Callable[[], object], device: torch.device) -> int | None:
    """Return the peak memory of a step in bytes, above what was allocated before; None without CUDA."""
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    step()
    return torch.cuda.max_memory_allocated(device) - before


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    device = result["device"]
    yield (
        f"{device['name']}, capability {device['capability']}, {megabytes(device['memory_bytes'])}, "
        f"{device['multiprocessors']} multiprocessors; torch {device['torch']}, CUDA {device['cuda']}, "
        f"cuDNN {device['cudnn']}, driver {device['driver'] or 'unknown'}; "
        f"TF32 was {'on' if device['tf32_before'] else 'off'}, and is off below."
    )
    yield table(
        "A stage-1 step: d = 128, 8 layers, batch 512, two views",
        ("", "ms", "quickest", "images/s", "operations", "kernels", "copies", "waits", "GFLOP/s",
         "of a large product", "peak memory"),
        [
            (row["name"], f"{row['ms']:.1f}", f"{row['quickest_ms']:.1f}", f"{row['images_per_second']:,.0f}",
             f"{row['operations']:,}", f"{row['kernels']:,}", str(len(row["copies"])),
             "yes" if row["waits"] else "no", f"{row['gflop'] / row['ms'] * 1e3:,.0f}",
             f"{row['share_of_limit']:.0%}", megabytes(row["peak_bytes"]))
            for row in result["steps"]
        ],
    )  # fmt: skip
    for row in result["steps"]:
        if row["waits"]:
            yield f"{row['name']} waits for the device: {row['waits']}"
    views = result["views"]
    yield (
        f"A batch of two views of {views['pipeline']}, 512 images: {views['ms']:.1f} ms, "
        f"{views['operations']} operations."
    )
    yield (
        f"Medians of {result['timed_steps']} steps. Operations are what torch dispatches, kernels those of "
        "them that compute; the large product has the row's precision."
    )
