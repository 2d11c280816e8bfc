"""A checked table as samples: the groups of each dataset, and all comparisons."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from seedspread.runs.levels import Levels, group_name, stratum_name
from seedspread.runs.metrics import Metric
from seedspread.runs.store import correct_predictions
from seedspread.stats.groups import Group
from seedspread.stats.result import TestSetNoise
from seedspread.stats.seed_summaries import noise_from_accuracies, noise_from_predictions
from seedspread.tables.columns import Codes, RunTable, coded


@dataclass(frozen=True)
class Strip:
    """The values of one group in one stratum, for drawing, with their seeds and blocks."""

    stratum: Levels
    group: str
    values: tuple[float, ...]
    blocks: tuple[Levels, ...]
    seeds: tuple[str, ...]


class Versus:
    """Displayed names of a comparison of a group with its baseline, levels of `factor`, in a stratum."""

    stratum: Levels
    group: str
    baseline: str
    factor: str
    by: tuple[str, ...]

    @property
    def group_name(self) -> str:
        """Return `clamp`, or `depth = 2`."""
        return group_name(self.factor, self.group)

    @property
    def baseline_name(self) -> str:
        return group_name(self.factor, self.baseline)

    @property
    def title(self) -> str:
        """Return `clamp vs subtract`, after the stratum if there is one: `depth = 2: clamp vs subtract`."""
        name = f"{self.group_name} vs {self.baseline_name}"
        return f"{stratum_name(self.by, self.stratum)}: {name}" if self.stratum else name


@dataclass(frozen=True)
class Pair:
    stratum: Levels
    group: Group
    baseline: Group

    @property
    def seeds(self) -> tuple[int, int]:
        return len(self.group.seed_codes), len(self.baseline.seed_codes)


def groups_by_stratum(runs: RunTable) -> list[tuple[Levels, list[Group]]]:
    """Return the groups of each dataset, in the order of the table; the baseline first, if there is one."""
    frame, columns = runs.frame, runs.columns
    of_stratum: dict[Levels, list[tuple[str, Codes]]] = {}
    for stratum, group, rows in runs.cells():
        of_stratum.setdefault(stratum, []).append((group, rows))
    values, seeds, failed = (frame[name].to_numpy() for name in ("value", "seed", "failed"))
    folders = None if runs.predictions is None else runs.predictions.to_numpy(object)
    chances = frame["chance"].to_numpy(float) if "chance" in frame else None
    crashed: dict[Hashable, Codes] = runs.crashed.groupby(["stratum", "group"])["seed"].unique().to_dict()
    codes, block_names = pd.factorize(frame["block"].to_numpy())
    # The baseline comes first; without one the order is that of the whole table.
    named = coded(frame["group"])[1] if columns.baseline is None else [columns.baseline]
    places = {name: place for place, name in enumerate(dict.fromkeys(named))}

    out = []
    for stratum, cells in of_stratum.items():
        every = np.sort(np.concatenate([rows for _, rows in cells]))
        blocks = pd.unique(codes[every])  # coded separately in each stratum
        own = np.zeros(len(block_names), np.intp)
        own[blocks] = np.arange(len(blocks))
        groups = [
            Group(
                name=name,
                values=values[rows].astype(float),
                blocks=own[codes[rows]],
                seeds=seeds[rows].astype(np.intp),
                block_names=tuple(block_names[block] for block in blocks),
                failed=failed[rows].astype(bool),
                folders=() if folders is None else tuple(folders[rows]),
                chance=None if chances is None else float(np.fmax.reduce(chances[every])),
                crashed=np.asarray(crashed.get((stratum, name), ()), np.intp),
                factor=columns.group,
            )
            for name, rows in cells
        ]
        out.append((stratum, sorted(groups, key=lambda group: places.get(group.name, len(places)))))
    return out


def compared_pairs(runs: RunTable) -> Iterator[Pair]:
    """Yield every comparison.

    Without a baseline, each level of the group is compared with every earlier one in the table.
    """
    for name, groups in groups_by_stratum(runs):
        for earlier, group in combinations(groups, 2):
            if runs.columns.baseline in (None, earlier.name):
                yield Pair(name, group, earlier)


def strips_of(runs: RunTable) -> tuple[Strip, ...]:
    """Return the values of each group in each stratum, in the order of the table."""
    values, blocks, seeds = (runs.frame[c].to_numpy() for c in ("value", "block", "seed_name"))
    return tuple(
        Strip(stratum, group, tuple(values[rows].tolist()), tuple(blocks[rows]), tuple(seeds[rows]))
        for stratum, group, rows in runs.cells()
    )


def noise_of_test_set(
    group: Group, seeds: Sequence[Codes], metric: Metric, level: float, test_size: int | None
) -> TestSetNoise | None:
    """Return the test-set noise of accuracies: from predictions, one run per seed, or else its upper bound.

    Other metrics are not means of right and wrong answers. `seeds` are the codes of each kind of seed.
    """
    scale = metric.full_scale
    if scale is None or len(group.values) < 2:
        return None
    if group.folders:
        _, first = np.unique(np.stack(seeds), axis=1, return_index=True)
        paths, correct = [str(group.folders[i]) for i in first], None
        if len(paths) > 1 and metric.name == "accuracy":
            correct = correct_predictions(paths)
        if correct is not None:  # (runs, N) which test examples each run got right
            return noise_from_predictions(group.name, correct, level, scale)
    inside = group.values.min() >= 0 and group.values.max() <= scale
    return noise_from_accuracies(group.name, group.values, test_size, scale) if test_size and inside else None
