"""Speed of an audit of a very large table."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.script import AsJson, main
from benchmarks.timing import show
from seedspread.analysis.audit import audit
from seedspread.render.terminal import Terminal

ROWS, CELLS = 100_000, 1_000


def run(as_json: AsJson = False) -> None:
    """Time an audit of 100,000 rows."""
    result = {
        "rows": ROWS,
        "cells": CELLS,
        "seconds_two_groups": _seconds(large_table(blocks=CELLS // 2, strata=1), ["block"], None),
        "seconds_many_strata": _seconds(large_table(blocks=2, strata=CELLS // 4), ["block"], "stratum"),
    }
    show(result, as_json, _lines)


def large_table(blocks: int, strata: int) -> pd.DataFrame:
    """Return 100,000 runs in cells of 2 groups x blocks x strata."""
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
    yield (
        f"Audit of {ROWS:,} rows in {CELLS:,} cells: {result['seconds_two_groups']:.1f} s as two groups "
        f"of {CELLS // 2} blocks, {result['seconds_many_strata']:.1f} s as {CELLS // 4} datasets of four."
    )


if __name__ == "__main__":
    main(run)
