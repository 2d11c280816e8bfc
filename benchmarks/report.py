"""Time to make the report of a store with 1,000 runs, and to open its page in a browser."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.progress import track

from benchmarks.script import AsJson, main
from benchmarks.timing import show
from seedspread.cff.config import RunConfig
from seedspread.cff.identity import RUNNER, margin_of
from seedspread.cff.margins import layer_margins
from seedspread.cff.presets import read_config, to_toml
from seedspread.cff.runner import CffRunner
from seedspread.render.terminal import Terminal
from seedspread.report.load import load_store
from seedspread.report.page import Report, write_page
from seedspread.runs.files import FORMAT
from seedspread.runs.folder import RunFolder
from seedspread.runs.studies import AuditSpec, save_study
from seedspread.study.plan import Plan
from seedspread.study.spec import StudyCell, StudySpec

RUNS = 1000
_TEST_IMAGES = 1000


def run(
    runs: Annotated[int, typer.Option(min=8, help="Finished runs in the store.")] = RUNS,
    as_json: AsJson = False,
) -> None:
    """Time the report of a store of 1,000 runs, and opening its page; medians of several rounds."""
    with tempfile.TemporaryDirectory() as folder:
        store, page = Path(folder) / "store", Path(folder) / "report.html"
        fill(Plan.make(study(max(2, runs // 4)), store))
        made = [_make(store, page) for _ in range(3)]
        opened = [seconds for _ in range(5) if (seconds := _opened(page)) is not None]
        size = page.stat().st_size / 1e6
    result: dict[str, Any] = {
        "runs": 4 * max(2, runs // 4),
        "report_seconds": sorted(made)[1],
        "page_megabytes": size,
        "page_readable_seconds": _median([readable for readable, _ in opened]),
        "first_figure_interactive_seconds": _median([ready for _, ready in opened]),
    }
    show(result, as_json, _lines)


def _lines(result: dict[str, Any]) -> Iterator[str]:
    yield (
        f"A store of {result['runs']:,} runs: report in {result['report_seconds']:.1f} s, "
        f"{result['page_megabytes']:.1f} MB."
    )
    if result["page_readable_seconds"] is None:
        yield "The page was not opened: that needs chromium, its driver and selenium."
    else:
        yield (
            "The page can be read, with its answer and picture, after "
            f"{result['page_readable_seconds']:.2f} s; its first figure is interactive after "
            f"{result['first_figure_interactive_seconds']:.2f} s."
        )


def study(seeds: int) -> StudySpec:
    """Return the CIFAR-10 factorial in miniature with this many seeds."""
    base = read_config("mini/cifar10")
    cells = []
    for margin_type in ("clamp", "subtract"):
        for stability in ("detach", "direct"):
            objective = base.objective.model_copy(update={"margin_type": margin_type, "stability": stability})
            levels = (("margin_type", margin_type), ("stability", stability))
            cells.append(StudyCell(levels, base.model_copy(update={"objective": objective})))
    spec = AuditSpec(group="margin_type", baseline="subtract", block=("stability",))
    title = "Made-up runs, to measure speed"
    return StudySpec("bench", title, CffRunner(), tuple(cells), tuple(range(1, seeds + 1)), spec)


def fill(plan: Plan) -> None:
    """Write finished runs with every file that a report reads, as large as real ones, with made-up values."""
    for recorded in plan.recorded():
        save_study(plan.store, recorded)
    labels = np.random.default_rng(0).integers(0, 10, _TEST_IMAGES)
    for run in track(plan.runs, "filling", console=Terminal(stderr=True), transient=True):
        _fill_run(plan.store.run(run.key), CffRunner().seeded(run.parameters, run.seed), labels)


def _fill_run(folder: RunFolder, config: RunConfig, labels: "np.ndarray[Any, Any]") -> None:
    # Same-seed runs get the same values, as real ones nearly do.
    kind = {"subtract": 0, "clamp": 1}.get(config.objective.margin_type, 2)
    rng = np.random.default_rng([config.seeds.run, kind + 3 * (config.training.rule != "layer_local")])
    margins, inert = layer_margins(config), margin_of(config).is_inert
    epochs, depth = config.training.epochs, config.model.depth
    rates = np.linspace(0.6, 0.3, depth) + rng.normal(0, 0.02, (epochs, depth))
    norms = np.exp(rng.normal(0, 0.1, (epochs, depth))) * np.linspace(2, 0.2, depth)
    wide = rng.integers(0, 50, (depth, 2000))
    history: dict[str, Any] = {
        "epoch": np.repeat(np.arange(epochs), depth),
        "layer": np.tile(np.arange(depth), epochs),
        "loss": np.full(epochs * depth, 5.0),
        "clamp_activation_rate": pa.nulls(epochs * depth, pa.float64()) if inert else rates.ravel(),
        "gradient_norm": norms.ravel(),
        "positive_pairs": np.full(epochs * depth, 6000.0),
        "similarity_histogram": rng.integers(0, 500, (epochs * depth, 200)).tolist(),
    }
    folder.open(to_toml(config), resume=True)
    folder.keep_history(pa.table(history))
    logits = rng.normal(size=(1, len(labels), 10)).astype(np.float32)
    right = rng.random(len(labels)) < 0.4 + rng.normal(0, 0.02)
    logits[0, right, labels[right]] += 9
    tensors = {
        "logits": logits,
        "labels": labels,
        "ids": np.arange(len(labels)),
        "similarity_histogram": wide,
    }
    folder.keep_predictions(tensors)
    accuracy = float((logits[0].argmax(1) == labels).mean())
    layers = [
        {"layer": k, "margin": None if inert else margins[k], "loss": 5.0,
         "clamp_activation_rate": None if inert else float(rates[-1, k]),
         "gradient_norm": float(norms[-1, k]), "gradient_norm_mean": float(norms[-1, k])}
        for k in range(depth)
    ]  # fmt: skip
    probe = {
        "repeat": 0,
        "layer": depth - 1,
        "test_accuracy": accuracy,
        "validation_accuracy": accuracy,
        "epoch": 3,
    }
    result = {
        "format": FORMAT, "runner": RUNNER,
        "key": folder.key, "dataset": "made up", "fingerprint": "made-up", "rule": config.training.rule,
        "margin_type": config.objective.margin_type, "test_accuracy": accuracy,
        "validation_accuracy": accuracy, "probes": [probe], "layers": layers, "positive_pairs": 6000.0,
        "pair_share": 0.1, "majority_share": 0.1, "feature_similarity": 0.5, "collapsed": False,
        "metrics": {"accuracy": accuracy}, "chance": {"accuracy": 0.1},
    }  # fmt: skip
    provenance = {
        "runner": RUNNER, "seed": config.seeds.run,
        "config": config.model_dump(mode="json"), "ended": "2000-01-01T00:00:00+00:00", "platform": "none",
        "python": "none", "threads": 1, "versions": {}, "seconds_since_last_start": 1.0,
        "worker_seconds": 1.0,
    }  # fmt: skip
    folder.finish(result, provenance)


def _make(store: Path, page: Path) -> float:
    from seedspread.report import layers  # noqa: PLC0415 - empty its cache: every report is a first one

    layers._read.cache_clear()
    start = time.perf_counter()
    write_page(Report(load_store(store, (), None, lambda _: None)), page)
    return time.perf_counter() - start


def _median(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def _opened(page: Path) -> tuple[float, float] | None:
    """Return the seconds until the page is readable and a figure is interactive; None without a browser."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        return None
    with suppress(ImportError):
        from selenium import webdriver  # noqa: PLC0415 - only if there is a browser

        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        service = webdriver.ChromeService(driver)
        with webdriver.Chrome(options=options, service=service) as browser:
            browser.get(page.as_uri())
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                marks = browser.execute_script(
                    "return performance.getEntriesByType('mark').map(m => [m.name, m.startTime / 1000])"
                )
                seconds = dict(marks)
                if "seedspread-ready" in seconds:
                    return seconds["seedspread-readable"], seconds["seedspread-ready"]
                time.sleep(0.05)
    return None


if __name__ == "__main__":
    main(run)
