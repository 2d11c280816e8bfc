"""Sets of runs for the tests."""

from collections.abc import Mapping

import numpy as np
import pandas as pd


def runs(
    sds: Mapping[str, float],
    n: int = 8,
    datasets: tuple[str, ...] = ("",),
    first_seed: int = 0,
    random_seed: int = 0,
    mean: float = 0.8,
) -> pd.DataFrame:
    """Normal values, `sds` by arm, in every dataset."""
    rng = np.random.default_rng(random_seed)
    rows = [
        {"dataset": dataset, "arm": arm, "seed": first_seed + k, "score": mean + sd * rng.normal()}
        for dataset in datasets
        for arm, sd in sds.items()
        for k in range(n)
    ]
    table = pd.DataFrame(rows)
    return table if any(datasets) else table.drop(columns="dataset")


OLD = runs({"a": 0.01, "b": 0.02}, random_seed=1)
NEW = runs({"a": 0.01, "b": 0.05}, random_seed=2)
