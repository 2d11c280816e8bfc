"""What bf16 changes in a run's results: the same seeds in both precisions, on real images in miniature."""

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from rich.progress import track
from rich.table import Table
from scipy import stats
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.script import AsJson, Workers, main
from benchmarks.timing import show, table
from seedspread.cff.presets import ConfigError, read_config
from seedspread.cff.training.run import keep_freed_memory, train
from seedspread.render.terminal import Terminal

PRECISIONS = ("fp32", "bf16")
_PRODUCTS = {
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.baddbmm.default,
}


class ProductsOfBf16(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Multiplies bf16 matrices as processors made for it do: sums in float32, then rounded to bf16.

    One without such instructions comes to the same numbers, at a hundredth of its speed in float32. A product
    of two bf16 numbers is exact in float32, so only the order of the sum can differ.
    """

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Every operation passes here."""
        if func in _PRODUCTS and args[-1].dtype == torch.bfloat16:
            return func(*(tensor.float() for tensor in args), **(kwargs or {})).to(torch.bfloat16)
        return func(*args, **(kwargs or {}))


def train_one(preset: str, precision: str, seed: int, data_dir: Path | None) -> dict[str, Any]:
    """A run's accuracy and rates, on one core."""
    keep_freed_memory()
    settings = [
        f"runtime.precision={precision}",
        f"seeds.run={seed}",
        "runtime.threads=1",
        "runtime.device=cpu",
    ]
    config = read_config(preset, settings)
    products = ProductsOfBf16() if precision == "bf16" else nullcontext()  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as folder, products:
        result = train(config, Path(folder) / "run", data_dir=data_dir)
    return {
        "precision": precision,
        "seed": seed,
        "data": result.dataset,
        "accuracy": result.test_accuracy,
        "rates": [layer.clamp_activation_rate for layer in result.layers],
        "gradient_norms": [layer.gradient_norm_mean for layer in result.layers],
    }


def run(
    preset: Annotated[str, typer.Option(help="What is trained.")] = "mini/cifar10",
    seeds: Annotated[int, typer.Option(min=2, help="Seeds, each in both precisions.")] = 5,
    workers: Workers = 2,
    data_dir: Annotated[Path | None, typer.Option(help="The data folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """What bf16 changes in accuracy and clamp activation rate, seed by seed (minutes)."""
    if read_config(preset).objective.margin_type != "clamp":
        raise ConfigError(f"{preset} does not clamp: there is no clamp activation rate to compare")
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        futures = [
            pool.submit(train_one, preset, precision, seed, data_dir)
            for seed in range(1, seeds + 1)
            for precision in PRECISIONS
        ]
        console = Terminal(stderr=True)
        rows = [future.result() for future in track(futures, "training", console=console, transient=True)]
    result = {"preset": preset, "data": rows[0]["data"], "runs": rows}
    result["differences"] = [
        {"what": what} | _difference(*(_values(rows, precision, what) for precision in PRECISIONS))
        for what in ("accuracy", *(f"rate, layer {layer}" for layer in range(len(rows[0]["rates"]))))
    ]
    show(result, as_json, _lines)


def _values(rows: list[dict[str, Any]], precision: str, what: str) -> NDArray[np.float64]:
    chosen = [row for row in rows if row["precision"] == precision]
    if what == "accuracy":
        return np.array([row["accuracy"] for row in chosen])
    return np.array([row["rates"][int(what.rsplit(maxsplit=1)[-1])] for row in chosen])


def _difference(fp32: NDArray[np.float64], bf16: NDArray[np.float64]) -> dict[str, Any]:
    """Of the same seeds: the mean, with its 95 % interval."""
    by_seed = bf16 - fp32
    mean, half = by_seed.mean(), stats.sem(by_seed) * stats.t.ppf(0.975, len(by_seed) - 1)
    return {
        "fp32": [fp32.mean(), fp32.std(ddof=1)],
        "bf16": [bf16.mean(), bf16.std(ddof=1)],
        "difference": [mean, mean - half, mean + half],
    }


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    rows = []
    for row in result["differences"]:
        cells = [f"{100 * row[p][0]:.2f} (sd {100 * row[p][1]:.2f})" for p in PRECISIONS]
        mean, low, high = (100 * value for value in row["difference"])
        rows.append((row["what"], *cells, f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"))
    seeds = len(result["runs"]) // 2
    yield table(
        f"{result['preset']} on {result['data']}, {seeds} seeds in both precisions, per cent",
        ("", *PRECISIONS, "bf16 − fp32 (95 %)"),
        rows,
    )
    yield "Not the paper's scale. Products of bf16 factors are summed in float32, as processors for it do."


if __name__ == "__main__":
    main(run)
