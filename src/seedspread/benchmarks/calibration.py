"""Do the audit's tests and intervals keep their promises? Simulated, and written into docs/statistics.md."""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError, reason
from seedspread.render.terminal import Terminal
from seedspread.stats import bootstrap, classic, permutation, robust
from seedspread.stats.arms import Arm, Floats
from seedspread.stats.power import SHAPES, sample
from seedspread.stats.result import TestResult

SIZES = (5, 7, 10, 14)
RATIO = 6.0
_RESAMPLES = 1000
_MARKS = "<!-- calibration: begin -->", "<!-- calibration: end -->"


class CalibrationError(SeedspreadError):
    """The page for the results is not as expected."""


@dataclass(frozen=True)
class Design:
    """How the runs of an experiment hang together.

    Attributes:
        title: in words.
        blocks: runs per seed in each arm.
        twins: the correlation of those.
        pairs: the correlation of the two arms' runs of one seed.
        extra: how many times as many seeds the reference has.
    """

    title: str
    blocks: int = 1
    twins: float = 0.0
    pairs: float = 0.0
    extra: int = 1


DESIGNS = (
    Design("independent runs"),
    Design("unbalanced: the reference has twice the seeds", extra=2),
    Design("pairs: the arms' runs of one seed correlate by 0.6", pairs=0.6),
    Design("two blocks, twins uncorrelated", blocks=2),
    Design("two blocks, twins correlate by 0.85", blocks=2, twins=0.85),
)


def simulate(design: Design, shape: str, n: int, ratio: float, rng: np.random.Generator) -> tuple[Arm, Arm]:
    """Two arms whose variances have the given ratio; seeds of the same number are the same seed."""
    sizes = n, n * design.extra
    shared = sample(shape, (max(sizes), 1), rng)
    arms = []
    for name, size, scale in zip(("a", "b"), sizes, (ratio**0.5, 1.0), strict=True):
        seed_part, own = sample(shape, (size, 1), rng), sample(shape, (size, design.blocks), rng)
        values = design.pairs**0.5 * shared[:size] + design.twins**0.5 * seed_part
        values = values + (1 - design.pairs - design.twins) ** 0.5 * own
        arms.append(_arm(name, values * scale))
    return arms[0], arms[1]


def _arm(name: str, values: Floats) -> Arm:
    n, k = values.shape
    blocks = tuple(str(b) for b in range(k))
    return Arm(name, values.ravel(), np.tile(np.arange(k), n), np.repeat(np.arange(n), k), blocks)


def tests_of(arm: Arm, reference: Arm, rng: np.random.Generator) -> list[TestResult]:
    """Every test and interval of spread that the audit gives."""
    return [
        robust.seed_jackknife(arm, reference, 0.95),
        bootstrap.clustered_bootstrap(arm, reference, 0.95, _RESAMPLES, rng),
        permutation.seed_permutation(arm, reference, _RESAMPLES, rng),
        permutation.within_seed_permutation(arm, reference, _RESAMPLES, rng),
        robust.pitman_morgan(arm, reference, 0.95),
        classic.f_test(arm, reference, 0.95, None, None),
        robust.bonett(arm, reference, 0.95, None),
        *(classic.deviations_test(arm, reference, center, None) for center in ("mean", "median")),
        *bootstrap.bootstrap_tests(arm, reference, 0.95, _RESAMPLES, rng),
        *(classic.two_way_tests(arm, reference, center)[0] for center in _centers(arm)),
    ]


def _centers(arm: Arm) -> tuple[str, ...]:
    return ("mean", "median") if len(arm.cells) > 1 else ()


def measure(task: tuple[int, str, int, int]) -> dict[str, Any]:
    """Rejection at level 0.05 without and with a difference, and coverage of 95 % intervals, test by test."""
    place, shape, n, draws = task
    counts: dict[str, dict[str, float]] = {}
    for ratio, rejected in ((1.0, "type_1"), (RATIO, "power")):
        rng = np.random.default_rng([place, SHAPES.index(shape), n, int(ratio)])
        for _ in range(draws):
            for test in tests_of(*simulate(DESIGNS[place], shape, n, ratio, rng), rng):
                seen = counts.setdefault(test.name, {})
                if test.p is not None:
                    seen[rejected] = seen.get(rejected, 0) + (test.p <= 0.05) / draws
                if test.interval is not None:
                    inside = test.interval.low <= ratio <= test.interval.high
                    seen["coverage"] = seen.get("coverage", 0) + inside / (2 * draws)
    return {"design": DESIGNS[place].title, "shape": shape, "n": n, "tests": counts}


def run(draws: int, as_json: bool, write: Path | None, workers: int) -> None:
    """Simulates every condition and prints, or writes into the page."""
    page = None if write is None else _page(write)
    tasks = [(place, shape, n, draws) for place, shape, n in product(range(len(DESIGNS)), SHAPES, SIZES)]
    console = Terminal(stderr=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # the workers are the threads
    with ProcessPoolExecutor(workers) as pool:
        done = list(track(pool.map(measure, tasks), "calibrating", len(tasks), console=console))
    if as_json:
        print(json.dumps(done, indent=2))
    text = tables(done, draws)
    if write is not None and page is not None:
        before, after = page
        with replacing(write) as part:
            part.write_text(f"{before}{_MARKS[0]}\n{text}{_MARKS[1]}{after}")
        console.print(f"written into {write}")
    elif not as_json:
        print(text)


def _page(path: Path) -> tuple[str, str]:
    try:
        text = path.read_text()
    except OSError as error:
        raise CalibrationError(f"{path} cannot be read: {reason(error)}") from None
    if not all(mark in text for mark in _MARKS):
        raise CalibrationError(
            f"{path} has no place for the results: it needs the lines {' and '.join(_MARKS)}"
        )
    return text.split(_MARKS[0])[0], text.split(_MARKS[1])[1]


def tables(done: list[dict[str, Any]], draws: int) -> str:
    """Markdown: one table per design and measure; a cell has the four sizes."""
    measures = {
        "type_1": "Type-I error, % (nominal 5)",
        "power": f"Power at a variance ratio of {RATIO:g}, %",
        "coverage": f"Coverage of the 95 % interval, % (mean over ratios 1 and {RATIO:g})",
    }
    error = 100 * (0.05 * 0.95 / draws) ** 0.5
    lines = [
        f"Each cell: n = {' / '.join(map(str, SIZES))} seeds in the first arm. {draws:,} simulated "
        f"experiments per cell and ratio, so that a nominal 5 has a standard error of {error:.1f}.",
        "",
    ]
    for design in DESIGNS:
        rows = [d for d in done if d["design"] == design.title]
        names = list(dict.fromkeys(name for row in rows for name in row["tests"]))
        lines += [f"### {design.title[0].upper()}{design.title[1:]}", ""]
        for measure_, title in measures.items():
            lines += [f"{title}:", "", "| | " + " | ".join(SHAPES) + " |", "|---|" + "---|" * len(SHAPES)]
            for name in names:
                cells = [_cell(rows, name, shape, measure_) for shape in SHAPES]
                if any(cell.strip("- /") for cell in cells):
                    lines.append(f"| {name} | " + " | ".join(cells) + " |")
            lines.append("")
    return "\n".join(lines)


def _cell(rows: list[dict[str, Any]], name: str, shape: str, measure_: str) -> str:
    values = [
        row["tests"].get(name, {}).get(measure_)
        for n in SIZES
        for row in rows
        if (row["shape"], row["n"]) == (shape, n)
    ]
    return " / ".join("-" if value is None else f"{100 * value:.0f}" for value in values)
