"""Groups and tables for the tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from seedspread.paper.values import published_table
from seedspread.stats.groups import Group


def group_of(*cells: "Sequence[float] | np.ndarray[Any, Any]", name: str = "a", first_seed: int = 0) -> Group:
    """A group from its cells; the i-th value of each is seed `first_seed` + i."""
    values = np.concatenate([np.asarray(c, dtype=float) for c in cells])
    blocks = np.concatenate([np.full(len(c), k) for k, c in enumerate(cells)])
    seeds = np.concatenate([np.arange(len(c)) for c in cells]) + first_seed
    return Group(name, values, blocks, seeds, tuple((str(k),) for k in range(len(cells))))


def paper_groups(setting: str = "cifar10") -> tuple[Group, Group]:
    """The published accuracies: clamp and subtract."""
    table = published_table()
    table = table[table["setting"] == setting]
    out = []
    for margin_type in ("clamp", "subtract"):
        rows = table[table["margin_type"] == margin_type]
        cells = [g["accuracy"].astype(float).to_numpy() for _, g in rows.groupby("stability")]
        out.append(group_of(*cells, name=margin_type))
    return out[0], out[1]


def frame(**columns: Sequence[object]) -> pd.DataFrame:
    """A table."""
    return pd.DataFrame(columns)
