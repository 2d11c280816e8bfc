"""Time to list a store of 10,000 runs."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import track

from benchmarks.script import AsJson, main
from benchmarks.timing import show
from seedspread.cff.identity import RUNNER
from seedspread.cff.presets import read_config, to_toml
from seedspread.render.terminal import Terminal
from seedspread.runs.files import FORMAT
from seedspread.runs.metrics import scores
from seedspread.runs.store import Store

RUNS = 10_000


def run(
    runs: Annotated[int, typer.Option(min=1, help="Finished runs in the store.")] = RUNS,
    as_json: AsJson = False,
) -> None:
    """Time listing a store of 10,000 runs; the median of three rounds."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        fill(store, runs)
        states = sorted(_seconds(store.counts) for _ in range(3))[1]
        table = sorted(_seconds(store.table) for _ in range(3))[1]
    text = f"A store of {runs:,} finished runs: states in {states:.2f} s, the whole table in {table:.2f} s."
    show({"runs": runs, "states_seconds": states, "table_seconds": table}, as_json, lambda _: [text])


def fill(store: Store, runs: int) -> None:
    """Write runs with every file that listing reads, as large as real ones."""
    config = read_config("mini/cifar10")
    norms = {"gradient_norm": 1.0, "gradient_norm_mean": 1.0, "loss": 5.0}
    layers = [{"layer": k, "margin": 0.4, "clamp_activation_rate": 0.6, **norms} for k in range(4)]
    metrics, chance = scores(np.zeros((10, 10)), np.arange(10))
    result: dict[str, Any] = {"format": FORMAT, "runner": RUNNER}
    result |= {"dataset": "CIFAR-10", "test_accuracy": 0.5, "majority_share": 0.1}
    result |= {"collapsed": False, "layers": layers, "metrics": metrics, "chance": chance}
    first = store.run(f"{0:020x}")
    first.open(to_toml(config), resume=False)
    first.finish(result, {"runner": RUNNER, "seed": 0, "config": config.model_dump(mode="json")})
    for number in track(range(1, runs), "filling", console=Terminal(stderr=True), transient=True):
        shutil.copytree(first.path, store.folder(f"{number:020x}"))


def _seconds(job: Any) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(run)
