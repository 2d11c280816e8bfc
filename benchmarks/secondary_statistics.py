"""Calibration of secondary statistics: heterogeneity, clusters, same-seed runs and test-set noise."""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit

from benchmarks.conditions import IDLE_TWINS, INDEPENDENT, QUANTILES, alike, draw
from seedspread.analysis.judgement import heterogeneity
from seedspread.stats.failures import two_clusters
from seedspread.stats.groups import intraclass_correlation
from seedspread.stats.seed_summaries import noise_from_predictions
from seedspread.stats.variance_ratio import posterior_of

SIZES = (5, 7, 10, 20)
_SHAPES = ("normal", "t5", "contaminated", "skewed")
# Number of datasets combined.
_DATASETS = 6
# Number of test examples, and the sds of the runs' logits.
_EXAMPLES, _LOGITS = 1000, (0.0, 0.05, 0.2)
# Simulating datasets or test sets is slow: this many times fewer experiments.
_COSTLY = 6

Rates = dict[str, float]


def gap(shape: str, n: int, draws: int, rng: np.random.Generator) -> Rates:
    """Return how often one cluster is taken for two."""
    found = [two_clusters(QUANTILES[shape](rng.random(n))) for _ in range(draws)]
    return {f"two clusters (gap test), {shape}: false alarms": _share(f is not None for f in found)}


def twins(shape: str, n: int, draws: int, rng: np.random.Generator) -> Rates:
    """Return how often uncorrelated same-seed runs are found to correlate."""
    values, _ = draw(IDLE_TWINS, alike(shape), n, 1.0, draws, rng)
    p_values = [intraclass_correlation(table[:, 0])[1] for table in values]
    rejected = _share(p is not None and p < 0.05 for p in p_values)
    return {f"same-seed runs (ICC, F test), {shape}: false alarms": rejected}


def datasets(shape: str, n: int, draws: int, rng: np.random.Generator) -> Rates:
    """Return how often Cochran's Q rejects if all ratios are 1."""
    count = draws // _COSTLY
    values, present = draw(INDEPENDENT, alike(shape), n, 1.0, count * _DATASETS, rng)
    found = posterior_of(values, present, False)
    ends = np.array([[one.quantile(q) for one in found] for q in (0.025, 0.5, 0.975)])
    low, middle, high = ends.reshape(3, count, _DATASETS)
    errors = (high - low) / (2 * stats.norm.ppf(0.975))  # of a normal with the headline's interval
    rejected = [heterogeneity(x, e)[1] < 0.05 for x, e in zip(middle, errors, strict=True)]
    return {f"{_DATASETS} datasets, Cochran's Q, {shape}: false alarms": _share(rejected)}


def floor(spread: float, n: int, draws: int, rng: np.random.Generator) -> Rates:
    """Return the coverage of the variance net of the test set, if examples differ in difficulty."""
    abilities = 1.0 + spread * rng.standard_normal(20_000)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    true = (expit(abilities[:, None] + 2.0 * nodes) @ weights / weights.sum()).var()
    covered = []
    for _ in range(draws // _COSTLY):
        logits = 1.0 + spread * rng.standard_normal((n, 1)) + 2.0 * rng.standard_normal(_EXAMPLES)
        found = noise_from_predictions("", rng.random((n, _EXAMPLES)) < expit(logits))
        covered.append(found.interval is not None and true in found.interval)
    return {f"test-set noise, {_EXAMPLES} examples, logits differ by {spread:g}: coverage": _share(covered)}


def tasks(draws: int) -> list[tuple[str, str | float, int, int]]:
    """Return every test with every condition and size."""
    shapes = [
        (name, shape, n, draws) for name, shape, n in product(("gap", "twins", "datasets"), _SHAPES, SIZES)
    ]
    return [*shapes, *(("floor", spread, n, draws) for spread, n in product(_LOGITS, SIZES))]


def measure(task: tuple[str, Any, int, int]) -> dict[str, Any]:
    """Return the rates of one task."""
    name, condition, n, draws = task
    makers: dict[str, Callable[..., Rates]] = {
        "gap": gap,
        "twins": twins,
        "datasets": datasets,
        "floor": floor,
    }
    rng = np.random.default_rng([*name.encode(), *str(condition).encode(), n])
    return {"test": name, "n": n, "rates": makers[name](condition, n, draws, rng)}


def tables(done: list[dict[str, Any]], draws: int) -> str:
    """Return Markdown: a row per test and condition, a column per size."""
    rows: dict[str, list[str]] = {}
    for result in done:
        for name, rate in result["rates"].items():
            rows.setdefault(name, []).append(f"{100 * rate:.1f}")
    lines = [
        "## Beside the ratio",
        "",
        f"False alarms (nominal 5) and coverage (nominal 95), %, of {draws:,} experiments; for several "
        f"datasets and the noise {draws // _COSTLY:,}.",
        "",
        "| | " + " | ".join(f"n = {n}" for n in SIZES) + " |",
        "|---|" + "---|" * len(SIZES),
        *(f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items()),
        "",
    ]
    return "\n".join(lines)


def _share(outcomes: Iterable[bool]) -> float:
    return float(np.mean(list(outcomes)))
