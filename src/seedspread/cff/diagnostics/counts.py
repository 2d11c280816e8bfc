"""Counting what a clamp cuts, of tensors, arrays and lists. Needs no torch.

Sums of tensors stay on their device until they are read, so that no call waits for it.
"""

import math
import sys
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

# torch's, unnamed: arrays are counted without torch.
Tensor: TypeAlias = Any


class Sum:
    """Whole numbers added up where they are: one tensor for each device, and an int for what is on none."""

    def __init__(self, number: int | Tensor) -> None:
        self._by_device: dict[Any, Any] = {getattr(number, "device", None): number}

    def merge(self, other: "Sum") -> None:
        """Takes what another has added up."""
        for device, number in other._by_device.items():
            # Not in place: a tensor made in inference mode could not be changed outside it.
            self._by_device[device] = self._by_device.get(device, 0) + number

    def read(self) -> int:
        """The sum; waits for the devices."""
        return sum(int(number) for number in self._by_device.values())


@dataclass
class Tally:
    """What was counted under one name in a window of time.

    Attributes:
        values: how many values there were.
        counts: of them those `below` and `above` the bounds, or `cut` where only that is known; and `nan`.
    """

    values: int = 0
    counts: dict[str, Sum] = field(default_factory=dict)

    def merge(self, other: "Tally") -> None:
        """Takes what was counted after it."""
        self.values += other.values
        for key, number in other.counts.items():
            if key in self.counts:
                self.counts[key].merge(number)
            else:
                self.counts[key] = number

    def count(self, key: str) -> int | None:
        """One of the counts; None where it is not known."""
        return self.counts[key].read() if key in self.counts else None

    @property
    def saturated(self) -> int:
        """How many values a clamp cuts."""
        return sum(number.read() for key, number in self.counts.items() if key != "nan")

    @property
    def rate(self) -> float:
        """The share that is cut of the values that are numbers; NaN where there are none."""
        numbers = self.values - (self.count("nan") or 0)
        return self.saturated / numbers if numbers else math.nan


@dataclass
class PairTally(Tally):
    """The positive pairs of a layer; its rate is the mean over batches, as the paper has it.

    Attributes:
        batch_rates: clamp activation rates; NaN for batches that have none.
        possible_pairs: all ordered pairs of different rows.
    """

    batch_rates: list[float] = field(default_factory=list)
    possible_pairs: int = 0

    def merge(self, other: Tally) -> None:
        """Takes what was counted after it."""
        super().merge(other)
        if isinstance(other, PairTally):
            self.batch_rates += other.batch_rates
            self.possible_pairs += other.possible_pairs

    @property
    def rate(self) -> float:
        """The mean over batches that have a rate."""
        finite = [rate for rate in self.batch_rates if not math.isnan(rate)]
        return sum(finite) / len(finite) if finite else math.nan


def count_mask(name: str, mask: Any) -> Tally:
    """Counts the elements of a boolean mask of any shape, and those that are True."""
    mask, is_tensor = _on_its_device(name, mask, "mask")
    size = mask.numel() if is_tensor else mask.size
    if str(mask.dtype).removeprefix("torch.") != "bool" and (is_tensor or size):  # an empty list has no type
        raise TypeError(
            f"{name!r}: mask must be boolean, True where something was cut; got {mask.dtype}. "
            "For values and their bounds: watch_clamp(name, values, low, high)"
        )
    return Tally(size, {"cut": Sum(mask.sum() if is_tensor else int(np.count_nonzero(mask)))})


def count_clamp(name: str, values: Any, low: float | None, high: float | None) -> Tally:
    """Counts values, and those of them that lie below `low`, lie above `high` and are not numbers."""
    low, high = _bound(name, "low", low), _bound(name, "high", high)
    if low is None and high is None:
        raise ValueError(f"{name!r}: give low, high or both; without a bound nothing is cut")
    if low is not None and high is not None and low > high:
        raise ValueError(f"{name!r}: low must not exceed high; got {low!r} and {high!r}")
    values, is_tensor = _on_its_device(name, values, "values")
    kind = str(values.dtype).removeprefix("torch.")
    if not kind.startswith(("float", "bfloat", "int", "uint")):
        hint = "; give a mask to record(name, mask)" if kind == "bool" else ""
        raise TypeError(f"{name!r}: values must be real numbers; got {values.dtype}{hint}")
    with np.errstate(invalid="ignore", over="ignore"):
        masks = {"nan": values != values}  # noqa: PLR0124 - what only NaN is, in any library
        if low is not None:
            masks["below"] = values < low
        if high is not None:
            masks["above"] = values > high
    if is_tensor:
        return Tally(values.numel(), {key: Sum(mask.sum()) for key, mask in masks.items()})
    return Tally(values.size, {key: Sum(int(np.count_nonzero(mask))) for key, mask in masks.items()})


def _on_its_device(name: str, values: Any, argument: str) -> tuple[Any, bool]:
    """A tensor apart from its graph, or an array; and whether it is a tensor."""
    torch = sys.modules.get("torch")  # whoever has a tensor has imported it
    if torch is not None and isinstance(values, torch.Tensor):
        if values.is_meta:
            raise ValueError(f"{name!r}: {argument} is on the meta device, where tensors have no values")
        return values.detach(), True
    try:
        return np.asarray(values), False
    except ValueError:
        raise TypeError(
            f"{name!r}: {argument} must be a tensor, an array or nested lists of one shape"
        ) from None


def _bound(name: str, argument: str, bound: Any) -> float | None:
    """As a plain float, which takes on the type of the values that it is compared with, as in `clamp`."""
    if bound is None:
        return None
    if not isinstance(bound, Real) or isinstance(bound, bool):
        raise TypeError(
            f"{name!r}: {argument} must be a number or None; got {type(bound).__name__}. "
            "For bounds that are tensors: record(name, (values < low) | (values > high))"
        )
    if math.isnan(bound):
        raise ValueError(f"{name!r}: {argument} must be a number; got nan")
    return float(bound)
