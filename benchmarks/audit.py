"""The audit's speed: the bootstrap against the drawing of its indices and scipy's, and a very large table."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.script import AsJson, Rounds, main
from benchmarks.timing import interleaved, show
from seedspread.analysis.audit import audit
from seedspread.render.terminal import Terminal
from seedspread.stats.classic import ratio_resamples

RESAMPLES, N = 10_000, 14
ROWS, CELLS = 100_000, 1_000


def run(rounds: Rounds = 30, as_json: AsJson = False) -> None:
    """The ratio bootstrap against drawing its indices and scipy's; an audit of 100,000 rows."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=N), rng.normal(size=N)

    def ratio(a: Any, b: Any, axis: int) -> Any:
        return np.var(a, axis=axis, ddof=1) / np.var(b, axis=axis, ddof=1)

    times = interleaved(
        {
            "indices": lambda: [rng.integers(0, N, size=(RESAMPLES, N)) for _ in range(2)],
            "ours": lambda: ratio_resamples(x, y, RESAMPLES, rng),
            "scipy": lambda: stats.bootstrap(
                (x, y), ratio, n_resamples=RESAMPLES, method="percentile", vectorized=True, rng=rng
            ),
        },
        rounds,
        "bootstrap",
    )
    result = {
        "rounds": rounds,
        "milliseconds": {name: 1e3 * t.median for name, t in times.items()},
        "over_indices": times["ours"].median / times["indices"].median,
        "scipy_over_ours": times["scipy"].median / times["ours"].median,
        "rows": ROWS,
        "cells": CELLS,
        "seconds_two_arms": _seconds(large_table(blocks=CELLS // 2, strata=1), ["block"], None),
        "seconds_many_strata": _seconds(large_table(blocks=2, strata=CELLS // 4), ["block"], "stratum"),
    }
    show(result, as_json, _lines)


def large_table(blocks: int, strata: int) -> pd.DataFrame:
    """100,000 runs in 1,000 cells: 2 groups x blocks x strata."""
    seeds = ROWS // (2 * blocks * strata)
    index = pd.MultiIndex.from_product(
        [range(strata), ["clamp", "subtract"], range(blocks), range(seeds)],
        names=["stratum", "group", "block", "seed"],
    )
    values = np.random.default_rng(1).normal(size=len(index))
    return pd.DataFrame({"value": values}, index=index).reset_index()


def _seconds(table: pd.DataFrame, block: list[str], by: str | None) -> float:
    with Terminal(stderr=True).status("a table of 100,000 rows"):
        start = time.perf_counter()
        audit(table, "value", "group", "subtract", block, by=by)
        return time.perf_counter() - start


def _lines(result: dict[str, Any]) -> Iterator[str]:
    ms = result["milliseconds"]
    yield (
        f"{RESAMPLES:,} resamples of a variance ratio, n = {N}: {ms['ours']:.2f} ms, "
        f"{result['over_indices']:.2f} times what drawing the indices takes ({ms['indices']:.2f} ms); "
        f"scipy.stats.bootstrap {ms['scipy']:.1f} ms, {result['scipy_over_ours']:.1f} times ours."
    )
    yield (
        f"Audit of {ROWS:,} rows in {CELLS:,} cells: {result['seconds_two_arms']:.1f} s as two arms "
        f"of {CELLS // 2} blocks, {result['seconds_many_strata']:.1f} s as {CELLS // 4} strata of four."
    )


if __name__ == "__main__":
    main(run)
