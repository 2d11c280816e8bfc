"""Tables as they are published: made, not copied."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from seedspread.tables.check import check_table
from seedspread.tables.columns import RunTable
from seedspread.tables.question import Question, TableError

METHODS = ("tree", "net", "mix")
DATASETS = ("wine", "digits", "a b")


def scores(seeds: int = 5, seed: str = "Seed") -> pd.DataFrame:
    """Methods x datasets x shared seeds, with two metrics."""
    rng = np.random.default_rng(0)
    rows = [
        (data, method, number, 0.8 + 0.05 * rng.normal(), 0.7 + 0.05 * rng.normal())
        for data in DATASETS
        for method in METHODS
        for number in range(40, 40 + seeds)
    ]
    return pd.DataFrame(rows, columns=["Dataset", "Model", seed, "AUC", "F1"])


def curves(steps: int = 4) -> pd.DataFrame:
    """Methods x tasks x seeds x steps."""
    rng = np.random.default_rng(1)
    rows = [
        (1000 * step, 10.0 * step + rng.normal(), number, method, task)
        for method in METHODS[:2]
        for task in ("walk", "run")
        for number in (1, 2, 3)
        for step in range(steps)
    ]
    return pd.DataFrame(rows, columns=["step", "reward", "seed", "method", "task"])


def check(source: "str | Path | pd.DataFrame", *roles: str, **asked: Any) -> RunTable:
    return check_table(source, Question.of(*(roles or (None, None)), **asked))


def refused(source: "str | Path | pd.DataFrame", *roles: str, **asked: Any) -> str:
    """The line that is said against it."""
    with pytest.raises(TableError) as caught:
        check(source, *roles, **asked)
    assert "\n" not in str(caught.value)
    return str(caught.value)
