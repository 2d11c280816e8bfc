"""Who is whose positive, and what is seen of the positive pairs on the way."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from seedspread.runs.histogram import rate_from_histogram

# Similarities are counted in bins of 0.001, so that margins with three decimals fall on an edge.
HISTOGRAM_BINS = 2000


@dataclass(frozen=True)
class LabelGroups:
    """A batch sorted by label, so that an anchor's positives stand side by side.

    Attributes:
        permutation: `(N,)`, what sorts the batch.
        ids: `(N,)` int32, the class index of each sorted row.
        first: `(N,)`, where the class of each sorted row begins.
        end: `(N,)`, where it ends.
        positives: `(N,)`, how many positives each sorted row has, `|P_u|`.
        pairs: the number of ordered positive pairs.
        n_without_positive: the number of anchors that have no positive.
    """

    permutation: Tensor
    ids: Tensor
    first: Tensor
    end: Tensor
    positives: Tensor
    pairs: int
    n_without_positive: int

    @classmethod
    def of(cls, labels: Tensor) -> "LabelGroups":
        """Sorts `(N,)` labels."""
        ordered, permutation = labels.sort(stable=True)
        _, ids, counts = torch.unique_consecutive(ordered, return_inverse=True, return_counts=True)
        end = counts.cumsum(0)
        pairs, n_without_positive = torch.stack([(counts * (counts - 1)).sum(), (counts == 1).sum()]).tolist()
        return cls(
            permutation=permutation,
            ids=ids.to(torch.int32),  # narrower is faster to compare
            first=(end - counts)[ids],
            end=end[ids],
            positives=(counts - 1)[ids],
            pairs=pairs,
            n_without_positive=n_without_positive,
        )

    def tiles(self, rows: int) -> Iterator[tuple[slice, slice]]:
        """So many sorted anchors at a time, each with the span of columns that holds all their positives."""
        n = len(self.permutation)
        begins = range(0, n, rows)
        ends = [min(begin + rows, n) for begin in begins]
        spans = torch.stack([self.first[list(begins)], self.end[[stop - 1 for stop in ends]]], dim=1).tolist()
        for begin, stop, (left, right) in zip(begins, ends, spans, strict=True):
            yield slice(begin, stop), slice(left, right)

    def positive_mask(self, rows: slice, columns: slice) -> Tensor:
        """`M` of the paper for a tile: True where two different rows have one class."""
        mask = self.ids[rows, None] == self.ids[None, columns]
        mask.diagonal(offset=rows.start - columns.start).fill_(False)
        return mask


def count_positive_pairs(labels: Tensor) -> int:
    """The ordered pairs (u, v), u != v, of one class among `(N,)` labels: `sum_u |P_u|`."""
    return LabelGroups.of(labels).pairs


@dataclass(frozen=True)
class PairStatistics:
    """What one call of the loss saw of its positive pairs.

    Attributes:
        margin: the margin that the rate below is about.
        anchors: N, rows of the batch.
        positive_pairs: ordered pairs, `sum_u |P_u|`.
        anchors_without_positive: anchors left out of the loss.
        saturated_pairs: a scalar tensor, the ordered pairs with s + m > 1.
        histogram: `(2000,)` int64, positive pairs by similarity, in equal bins over [-1, 1].
    """

    margin: float
    anchors: int
    positive_pairs: int
    anchors_without_positive: int
    saturated_pairs: Tensor
    histogram: Tensor

    @property
    def clamp_activation_rate(self) -> float:
        """The share of positive pairs with s + m > 1 (Eq. car).

        NaN where there is no pair, or where a pair's similarity is not a number.

        In a loss with `margin_type="clamp"` this is the rate of saturation. In any other it is the
        *would-be* rate: what a clamp of this margin would have cut.
        """
        if self.positive_pairs == 0 or self.histogram.sum() < self.positive_pairs:
            return math.nan
        return self.saturated_pairs.item() / self.positive_pairs

    def rate_at(self, margin: float) -> float:
        """The (would-be) rate for any other margin, from the histogram; linear inside a bin."""
        return rate_from_histogram(self.histogram.cpu(), margin)


class PairCollector:
    """Adds up, tile by tile, what `PairStatistics` reports."""

    def __init__(self, margin: float, device: torch.device) -> None:
        self._margin = margin
        self._saturated = torch.zeros((), dtype=torch.int64, device=device)
        self._histogram = torch.zeros(HISTOGRAM_BINS, dtype=torch.int64, device=device)

    def add(self, similarities: Tensor, mask: Tensor, times: int = 1) -> None:
        """Takes `(r, c)` unmodified similarities and their positive mask; each pair counts `times`."""
        values = similarities.detach()[mask].clamp_(max=1)  # rounding can exceed 1
        values = values[~values.isnan()]
        self._saturated += times * (values + self._margin > 1).sum()
        bins = ((values + 1) * (HISTOGRAM_BINS / 2)).to(torch.int32).clamp_(0, HISTOGRAM_BINS - 1)
        self._histogram += times * torch.bincount(bins, minlength=HISTOGRAM_BINS)

    def result(self, groups: LabelGroups) -> PairStatistics:
        """The statistics of all tiles added so far."""
        return PairStatistics(
            margin=self._margin,
            anchors=len(groups.permutation),
            positive_pairs=groups.pairs,
            anchors_without_positive=groups.n_without_positive,
            saturated_pairs=self._saturated,
            histogram=self._histogram,
        )
