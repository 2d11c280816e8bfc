"""Simulate the error rates and coverage of the audit's tests and intervals, for docs/calibration.md."""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import track

from benchmarks import secondary_statistics
from benchmarks.conditions import DESIGNS, draw, groups_of
from benchmarks.script import AsJson, Workers, main
from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError, reason
from seedspread.render.terminal import Terminal
from seedspread.stats import classic
from seedspread.stats.groups import Group
from seedspread.stats.result import TestResult
from seedspread.stats.variance_ratio import posterior_of, two_sided_p

SIZES = (5, 7, 10, 20)
RATIO = 6.0
HEADLINE = "robust variance ratio (headline)"
_MARKS = "<!-- calibration: begin -->", "<!-- calibration: end -->"


class CalibrationError(SeedspreadError):
    """The page for the results cannot be read, or has no place for them."""


def tests_of(group: Group, baseline: Group) -> list[TestResult]:
    """Return every test and interval of spread in an audit, except the headline."""
    return [
        classic.seed_jackknife(group, baseline, 0.95),
        classic.pitman_morgan(group, baseline, 0.95),
        classic.f_test(group, baseline, 0.95, None, None),
        *(classic.deviations_test(group, baseline, center, None) for center in ("mean", "median")),
    ]


Task = tuple[int, int, int, int, int]


def measure(task: Task) -> dict[str, Any]:
    """Return the rate of rejection at level 0.05 without and with a difference, by test.

    A task is the index of the design, that of the shape, the number of seeds in the first group, and the
    numbers of experiments for the headline and for the other tests (half as many for power).
    """
    place, kind, n, _, _ = task
    design = DESIGNS[place]
    counts = {HEADLINE: headline(task), **other_tests(task)}
    return {"design": design.title, "shape": design.shapes[kind].title, "n": n, "tests": counts}


def headline(task: Task) -> dict[str, float]:
    """Return the headline's rates of rejection; a ratio only shifts its posterior."""
    place, kind, n, draws, _ = task
    design = DESIGNS[place]
    draws = draws // 2 if design.is_slow else draws
    rng = np.random.default_rng([place, kind, n, 17])
    found = posterior_of(*draw(design, design.shapes[kind], n, 1.0, draws, rng), design.shared)
    return {
        "type_1": float(np.mean([two_sided_p(one) <= 0.05 for one in found])),
        "power": float(np.mean([two_sided_p(one.shifted(np.log(RATIO))) <= 0.05 for one in found])),
    }


def other_tests(task: Task) -> dict[str, dict[str, float]]:
    """Return the rates of rejection by every other test."""
    place, kind, n, _, draws = task
    design, rng = DESIGNS[place], np.random.default_rng([place, kind, n, 18])
    draws = draws // 2 if design.is_slow else draws
    counts: dict[str, dict[str, float]] = {}
    for ratio, rejected, count in ((1.0, "type_1", draws), (RATIO, "power", draws // 2)):
        values, present = draw(design, design.shapes[kind], n, ratio, count, rng)
        for experiment in values:
            for test in tests_of(*groups_of(design, experiment, present)):
                _count(counts.setdefault(test.name, {}), test, rejected, count)
    return counts


def _count(seen: dict[str, float], test: TestResult, rejected: str, draws: int) -> None:
    if test.p is not None:
        seen[rejected] = seen.get(rejected, 0) + (test.p <= 0.05) / draws


def tasks(draws: int, others: int) -> list[Task]:
    """Return every condition with every size."""
    return [
        (place, kind, n, draws, others)
        for place, design in enumerate(DESIGNS)
        for kind, n in product(range(len(design.shapes)), SIZES)
    ]


def run(
    draws: Annotated[int, typer.Option(min=10, help="Simulated experiments per condition.")] = 3000,
    others: Annotated[int, typer.Option(min=0, help="Experiments per condition for the other tests.")] = 500,
    write: Annotated[Path | None, typer.Option(help="The page to write the tables into.")] = None,
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Simulate type-I error, power and coverage of every test of spread (minutes)."""
    page = None if write is None else _page(write)
    work = tasks(draws, others)
    console = Terminal(stderr=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # the workers are the threads
    with ProcessPoolExecutor(workers) as pool:
        done = list(track(pool.map(measure, work), "calibrating", len(work), console=console))
        beside = list(pool.map(secondary_statistics.measure, secondary_statistics.tasks(draws)))
    if as_json:
        print(json.dumps(done + beside, indent=2))
    text = tables(done, draws, others) + "\n" + secondary_statistics.tables(beside, draws)
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


def tables(done: list[dict[str, Any]], draws: int, others: int) -> str:
    """Return Markdown: one table per design; a cell has the four sizes."""
    measures = {
        "type_1": "Type-I error, % (nominal 5)",
        "power": f"Power at a variance ratio of {RATIO:g}, %",
    }
    error, rough = (100 * (0.05 * 0.95 / max(count, 1)) ** 0.5 for count in (draws, others))
    lines = [
        f"Each cell: n = {' / '.join(map(str, SIZES))} seeds in the first group. Experiments per cell: "
        f"{draws:,} for the headline, {others:,} for the other tests ({others // 2:,} for their power); half "
        "of that in unbalanced designs and those with two blocks and own seeds. A nominal 5 has a standard "
        f"error of {error:.1f} in {draws:,} experiments, {rough:.1f} in {others:,}. The random numbers are "
        "fixed.",
        "",
        "Coverage of the 95% intervals needs no table: an interval misses the true ratio exactly when its "
        "test rejects it, so coverage is 100 minus the type-I error.",
        "",
    ]
    for design in DESIGNS:
        rows = [d for d in done if d["design"] == design.title]
        names = list(dict.fromkeys(name for row in rows for name in row["tests"]))
        shapes = [shape.title for shape in design.shapes]
        lines += [f"## {design.title[0].upper()}{design.title[1:]}", ""]
        lines += ["| | " + " | ".join(shapes) + " |", "|---|" + "---|" * len(shapes)]
        for measure_, title in measures.items():
            lines.append(f"| **{title}** |" + " |" * len(shapes))
            for name in names:
                cells = [_cell(rows, name, shape, measure_) for shape in shapes]
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
    digits = 1 if name == HEADLINE and measure_ != "power" else 0
    return " / ".join("-" if value is None else f"{100 * value:.{digits}f}" for value in values)


if __name__ == "__main__":
    main(run)
