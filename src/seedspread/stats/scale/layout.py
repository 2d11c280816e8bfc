"""Which seed ran where: the seeds of two arms by the cells that they have runs in."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seedspread.stats.arms import Ints


@dataclass(frozen=True)
class Pattern:
    """Seeds that ran in the same cells.

    Attributes:
        seeds: (n,) their places.
        blocks: per arm, the blocks in which they ran.
    """

    seeds: Ints
    blocks: tuple[Ints, Ints]

    @property
    def runs(self) -> tuple[int, int]:
        """How many runs such a seed has in each arm."""
        return len(self.blocks[0]), len(self.blocks[1])

    @property
    def paired(self) -> bool:
        """Whether it has runs in both."""
        return min(self.runs) > 0

    @property
    def aligned(self) -> bool:
        """Whether it ran in the same blocks of both arms."""
        return np.array_equal(*self.blocks)


@dataclass(frozen=True)
class Layout:
    """Which seed ran where.

    Attributes:
        present: (n, 2, b) whether there is a run.
        paired: whether the two arms' runs of a seed belong together.
    """

    present: NDArray[np.bool_]
    paired: bool

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return int(self.present.shape[2])

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The seeds by the cells they ran in; unpaired, each arm's part of a seed is a seed of its own."""
        parts = [self.present]
        if not self.paired:
            parts = [self.present & np.array([[keep], [not keep]]) for keep in (True, False)]
        out = []
        for part in parts:
            rows, which = np.unique(part.reshape(len(part), -1), axis=0, return_inverse=True)
            for k, (first, second) in enumerate(rows.reshape(-1, 2, self.blocks)):
                if first.any() or second.any():
                    seeds = np.flatnonzero(which.ravel() == k)
                    out.append(Pattern(seeds, (np.flatnonzero(first), np.flatnonzero(second))))
        return tuple(out)

    @cached_property
    def is_complete(self) -> bool:
        """Whether a seed that is in an arm is in all its blocks, and either all seeds are pairs or none."""
        whole = all(k in (0, self.blocks) for p in self.patterns for k in p.runs)
        return whole and (len(self.patterns) == 1 or not any(p.paired for p in self.patterns))

    @cached_property
    def nuisance(self) -> tuple[str, ...]:
        """The parameters beside ratio, tails and means: log scale, twins (logit), pairs (Fisher's z)."""
        names = ["scale"]
        names += [f"twins_{arm}" for arm in (0, 1) if any(p.runs[arm] > 1 for p in self.patterns)]
        if any(p.paired for p in self.patterns):
            names.append("pairs")
        if any(p.paired and p.aligned and p.runs[0] > 1 for p in self.patterns):
            names.append("contrasts")
        return tuple(names)
