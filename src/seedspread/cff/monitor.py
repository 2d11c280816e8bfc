"""`ClampMonitor`: rates of saturation over time, counted in tensors, arrays and lists.

Needs no torch. Sums of tensors stay on their device until they are read, so that no call waits for it.
"""

import math
import sys
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np

from seedspread.cff.advice import Advice, advise, no_evidence
from seedspread.cff.margins import LossSpec
from seedspread.errors import SeedspreadError, did_you_mean, printable, require_extra
from seedspread.render.chart import COLORS, SYMBOLS, Axis, Chart, Mark, Panel, PlotError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from seedspread.cff.loss import PairStatistics

# torch.Tensor, not imported: arrays are counted without torch.
Tensor: TypeAlias = Any


@dataclass
class Tally:
    """The counts of one name in a window of time."""

    values: int = 0
    # Numbers of values `below` and `above` the bounds, or `cut` if the side is unknown, and `nan`, by device:
    # they are summed there until they are read.
    counts: dict[tuple[str, Any], Any] = field(default_factory=dict)
    # For a layer's pairs, the clamp activation rate of each batch; NaN for a batch without pairs.
    batch_rates: list[float] = field(default_factory=list)

    def merge(self, other: "Tally") -> None:
        self.values += other.values
        for place, number in other.counts.items():
            # Not in place: a tensor made in inference mode could not be changed outside it.
            self.counts[place] = self.counts.get(place, 0) + number
        self.batch_rates += other.batch_rates

    def count(self, *keys: str) -> int | None:
        """Return the sum of these counts, which waits for the devices; None if none of them is known."""
        known = [int(number) for (key, _), number in self.counts.items() if key in keys]
        return sum(known) if known else None

    @property
    def saturated(self) -> int:
        """Number of values that a clamp cuts."""
        return self.count("cut", "below", "above") or 0

    @property
    def rate(self) -> float:
        """Share of values that are cut, without NaNs; for pairs, the mean over batches, as in the paper."""
        finite = [rate for rate in self.batch_rates if not math.isnan(rate)]
        if self.batch_rates:
            return sum(finite) / len(finite) if finite else math.nan
        numbers = self.values - (self.count("nan") or 0)
        return self.saturated / numbers if numbers else math.nan


def _count_true(masks: dict[str, Any]) -> dict[tuple[str, Any], Any]:
    """Count the True elements of masks: tensors, on their device, or arrays."""
    return {(key, getattr(mask, "device", None)): mask.sum() for key, mask in masks.items()}


def count_mask(name: str, mask: Any) -> Tally:
    """Count the elements of a boolean mask of any shape, and those that are True."""
    mask, is_tensor = _tensor_or_array(name, mask, "mask")
    size = mask.numel() if is_tensor else mask.size
    if str(mask.dtype).removeprefix("torch.") != "bool" and (is_tensor or size):  # an empty list has no type
        raise TypeError(
            f"{name!r}: mask must be boolean, True where something was cut; got {mask.dtype}. "
            "For values and their bounds: watch_clamp(name, values, low, high)"
        )
    return Tally(size, _count_true({"cut": mask}))


def count_clamp(name: str, values: Any, low: float | None, high: float | None) -> Tally:
    """Count values, and those of them that are below `low`, above `high`, or NaN."""
    low, high = _bound(name, "low", low), _bound(name, "high", high)
    if low is None and high is None:
        raise ValueError(f"{name!r}: give low, high or both; without a bound nothing is cut")
    if low is not None and high is not None and low > high:
        raise ValueError(f"{name!r}: low must not exceed high; got {low!r} and {high!r}")
    values, is_tensor = _tensor_or_array(name, values, "values")
    kind = str(values.dtype).removeprefix("torch.")
    if not kind.startswith(("float", "bfloat", "int", "uint")):
        hint = "; give a mask to record(name, mask)" if kind == "bool" else ""
        raise TypeError(f"{name!r}: values must be real numbers; got {values.dtype}{hint}")
    with np.errstate(invalid="ignore", over="ignore"):
        masks = {"nan": values != values}  # noqa: PLR0124 - true of NaN alone, in any library
        if low is not None:
            masks["below"] = values < low
        if high is not None:
            masks["above"] = values > high
    return Tally(values.numel() if is_tensor else values.size, _count_true(masks))


def _tensor_or_array(name: str, values: Any, argument: str) -> tuple[Any, bool]:
    """Return a tensor without its graph, or an array; and whether it is a tensor."""
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
    """Return a plain float, which takes on the type of the values it is compared with, as in `clamp`."""
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


NOTHING = "Nothing was recorded yet: call record(name, mask) or watch_clamp(name, values, low, high)."

Loss = TypeVar("Loss")

# Kinds of rates.
_CLAMPED, _IF_CLAMPED = "clamp activation rate", "rate if clamped"
_CUT, _OUT = "cut", "out of bounds"
_SIDES = ("below", "above", "nan")
# Largest number of windows that `step` leaves; beyond it, neighbors are merged.
_MOST_WINDOWS = 512


class NotWatchableError(SeedspreadError, TypeError):
    """The loss does not report what it cuts."""


@dataclass
class _Window:
    """A window of time: the step at which it ended, and the counts by name."""

    step: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)

    def feed(self, name: str, tally: Tally) -> None:
        self.tallies.setdefault(name, Tally()).merge(tally)

    def merge(self, other: "_Window") -> None:
        self.step = other.step
        for name, tally in other.tallies.items():
            self.feed(name, tally)


def saturation_chart(frame: "pd.DataFrame") -> Chart:
    """Draw the rates of `ClampMonitor.to_frame` over steps, or over windows if no step was counted."""
    time = "step" if frame["step"].any() else "window"
    marks = []
    for number, (name, rows) in enumerate(frame.dropna(subset="rate").groupby("name", sort=False)):
        x, y = tuple(map(float, rows[time])), tuple(map(float, 100 * rows["rate"]))
        kind: Literal["line", "dots"] = "line" if len(x) > 1 else "dots"
        color, symbol = COLORS[number % len(COLORS)], number % SYMBOLS
        marks.append(Mark(kind, _one_line(str(name)), x, y, color=color, symbol=symbol, legend=True))
    top = max((y for mark in marks for y in mark.y), default=0.0)
    shares = Axis("Saturated (%)", range=(0.0, max(1.05 * top, 1.0)))
    panel = Panel("", Axis(time.capitalize()), shares, tuple(marks))
    title, caption = "Saturation over time", "The share that a clamp cuts, in each window of time."
    return Chart("saturation", title, caption, caption, (panel,))


class ClampMonitor:
    """Count how often values saturate over time, in any loss.

    Give it a mask of what was cut (`record`) or values and their bounds (`watch_clamp`), of any loss. For the
    paper's margins, let it listen to a `SupConLoss` (`watch`) or feed it features (`update`). Counts are
    summed over windows of time, which `step` and `end_epoch` end. Each process counts what it sees.

    Args:
        every: steps in a window that `step` ends. Memory is bounded: when there are more than 512 windows,
            neighbors are merged and `every` doubles.

    Example:
        >>> monitor = ClampMonitor()
        >>> for ratio in ([0.9, 1.0, 1.3, 1.1], [0.7, 1.0, 1.5, 1.3]):
        ...     monitor.watch_clamp("ratio", ratio, low=0.8, high=1.2)
        ...     monitor.step()
        >>> monitor.rates("ratio")
        [0.25, 0.75]
    """

    def __init__(self, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1 step; got {every!r}")
        self.every = every
        self._steps = 0
        self._now = _Window()
        self._past: list[_Window] = []
        self._kinds: dict[str, str] = {}
        self._layers: set[int] = set()

    def record(self, name: str, mask: Any) -> None:
        """Count what was cut.

        Args:
            name: what saturates, such as `"layer0"`.
            mask: booleans of any shape, True if something was cut: a tensor on any device, an array, a list
                or a single one. No call waits for the device.

        Example:
            >>> monitor = ClampMonitor()
            >>> monitor.record("gradient norm", [True, False, False, False])
            >>> monitor.rates("gradient norm")
            [0.25]
        """
        self._feed(name, _CUT, count_mask(name, mask))

    def watch_clamp(
        self, name: str, values: Any, low: float | None = None, high: float | None = None
    ) -> None:
        """Count the values below `low` or above `high`: those that `clamp(low, high)` changes.

        It changes nothing. Give it the values *before* they are clamped: a value on a bound is not counted.
        NaN is counted separately and is not part of the rate.

        Args:
            name: what saturates, such as `"ratio"`.
            values: real numbers of any shape, in any form that `record` takes.
            low: the lower bound, if there is one.
            high: the upper bound, if there is one.

        Example:
            >>> monitor = ClampMonitor()
            >>> monitor.watch_clamp("ratio", [0.5, 1.0, 1.5], low=0.8, high=1.2)
            >>> monitor.to_frame()[["below", "above"]].values.tolist()
            [[1, 1]]
        """
        self._feed(name, _OUT, count_clamp(name, values, low, high))

    def watch(self, loss: Loss, *, layer: int = 0) -> Loss:
        """Listen to every call of a loss in training mode, without a second pass.

        Args:
            loss: a `SupConLoss`; other losses don't report what they cut, and are refused.
            layer: which layer this loss belongs to.

        Returns:
            The loss itself.

        Example:
            >>> from seedspread import SupConLoss
            >>> monitor = ClampMonitor()
            >>> loss = monitor.watch(SupConLoss(margin=0.4, margin_type="clamp"))
        """
        spec = getattr(loss, "spec", None)
        if not isinstance(spec, LossSpec) or not hasattr(loss, "observe"):
            kind = loss if isinstance(loss, type) else type(loss)
            raise NotWatchableError(
                f"{'the class ' if kind is loss else ''}{kind.__module__}.{kind.__qualname__} cannot be "
                "watched: watch() takes instances of seedspread.SupConLoss, which report what they cut; for "
                "anything else: monitor.record(name, mask) or monitor.watch_clamp(name, values, low, high)"
            )
        loss.observe(partial(self._add, layer=layer, clamp=spec.of_positives.saturates))
        return loss

    def update(
        self, features: "Tensor", labels: "Tensor", margin: float, *, layer: int = 0, clamp: bool = True
    ) -> float:
        """Add a batch of features and labels.

        Args:
            features: `(N, d)`, what the layer's loss sees, before normalization.
            labels: `(N,)`, the classes.
            margin: the layer's margin.
            layer: which layer this is.
            clamp: whether the run is trained with the clamp; otherwise the rate is the rate if clamped.

        Returns:
            The batch's clamp activation rate.

        Example:
            >>> import torch
            >>> ClampMonitor().update(torch.ones(4, 8), torch.tensor([0, 0, 1, 1]), margin=0.4)
            1.0
        """
        require_extra("train", "ClampMonitor.update")
        from seedspread.cff.loss import pair_statistics  # noqa: PLC0415 - needs torch

        statistics = pair_statistics(features, labels, margin)
        self._add(statistics, layer, clamp)
        return statistics.clamp_activation_rate

    def _add(self, statistics: "PairStatistics", layer: int, clamp: bool) -> None:
        pairs = statistics.positive_pairs
        numbers = {"cut": statistics.saturated_pairs, "nan": pairs - statistics.histogram.sum()}
        counts = {(key, number.device): number for key, number in numbers.items()}
        tally = Tally(pairs, counts, [statistics.clamp_activation_rate])
        self._feed(f"layer {layer}", _CLAMPED if clamp else _IF_CLAMPED, tally)
        self._layers.add(layer)

    def step(self) -> None:
        """End a training step, and with every `every`-th one a window."""
        self._steps += 1
        last = self._past[-1].step if self._past else 0
        if self._steps - last >= self.every:
            self.end_epoch()
        if len(self._past) > _MOST_WINDOWS:
            self._merge_neighbors()

    def end_epoch(self) -> None:
        """End a window of time, unless nothing was counted since the last."""
        if self._now.tallies:
            self._now.step = self._steps
            self._past.append(self._now)
            self._now = _Window()

    @property
    def names(self) -> list[str]:
        """Everything that was counted, in order of first appearance; a layer of pairs is `layer 0`."""
        return list(self._kinds)

    @property
    def layers(self) -> list[int]:
        """The layers whose pairs were counted, in order."""
        return sorted(self._layers)

    def rates(self, layer: int | str = 0) -> list[float]:
        """Return the rate of a layer or a name in each window.

        Args:
            layer: a layer's number, or a name.

        Returns:
            One rate per window, the open one last; NaN if nothing was counted in it.
        """
        name = layer if isinstance(layer, str) else f"layer {layer}"
        if name not in self._kinds:
            if isinstance(layer, int):
                fed = ", ".join(map(str, self.layers)) or "none"
                raise ValueError(f"layer {layer} was never fed; layers seen: {fed}")
            fed = ", ".join(map(repr, self.names)) or "none"
            raise ValueError(f"{name!r} was never fed; names seen: {fed}{did_you_mean(name, self.names)}")
        return [window.tallies.get(name, Tally()).rate for window in self._windows()]

    def rate_name(self, layer: int = 0) -> str:
        """Return the kind of a layer's rate: the clamp activation rate, or the rate if clamped."""
        return self._kinds[f"layer {layer}"]

    def advice(self) -> Advice:
        """Return advice on the margin, from the last rate of layer 0.

        Returns:
            For a run that clamps (`watch`, `update`): try both margins, and how many seeds that takes. There
            is no evidence on anything else, and the advice says so.

        Example:
            >>> monitor = ClampMonitor()
            >>> monitor.record("ratio", [True])
            >>> monitor.advice().verdict
            'not enough to say'
        """
        others = [name for name, kind in self._kinds.items() if kind in (_CUT, _OUT)]
        if others and not self._layers:
            return no_evidence(others)
        tallies = [window.tallies.get("layer 0") for window in self._windows()]
        last = next((t for t in reversed(tallies) if t is not None and t.batch_rates), Tally())
        advice = advise(last.rate, clamp=self._kinds.get("layer 0") != _IF_CLAMPED)
        return advice.silent_on(others) if others else advice

    def to_frame(self) -> "pd.DataFrame":
        """Return the counts as a table; this waits for the devices.

        Returns:
            A row per window and name: `window`, the `step` at its end, `name`, `rate_is` (the kind of rate),
            `values`, `saturated`, `below` and `above` if they are known, `nan` and `rate`.

        Example:
            >>> monitor = ClampMonitor()
            >>> monitor.record("layer0", [True, False])
            >>> monitor.to_frame()["rate"].tolist()
            [0.5]
        """
        import pandas as pd  # noqa: PLC0415 - slow, and a training loop may never need it

        rows = [
            (
                number,
                window.step,
                name,
                self._kinds[name],
                tally.values,
                tally.saturated,
                *map(tally.count, _SIDES),
                tally.rate,
            )
            for number, window in enumerate(self._windows(), start=1)
            for name, tally in window.tallies.items()
        ]
        columns = ["window", "step", "name", "rate_is", "values", "saturated", *_SIDES, "rate"]
        whole = dict.fromkeys(("window", "step", "values", "saturated", *_SIDES), "Int64")
        return pd.DataFrame(rows, columns=columns).astype(whole | {"rate": float})

    def __str__(self) -> str:
        """Return a table, one row per name."""
        frame = self.to_frame()
        if frame.empty:
            return NOTHING
        by_name = frame.groupby("name", sort=False)
        table = by_name["rate_is"].first().to_frame("rate is")
        table["values"] = by_name["values"].sum()
        table["first"] = by_name["rate"].agg(lambda rates: rates.iloc[0])
        table["last"] = by_name["rate"].agg(lambda rates: rates.iloc[-1])
        table["highest"] = by_name["rate"].max()
        for side in _SIDES:
            counts = by_name[side].sum(min_count=1).astype(object)
            table[side] = counts.where(counts.notna(), "-")
        table.index = [_one_line(name) for name in table.index]
        windows = frame["window"].nunique()
        title = f"Saturation over {windows} {'window' if windows == 1 else 'windows'} of time"
        return f"{title}\n{table.to_string(float_format='{:.2%}'.format, na_rep='-')}"

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Plot rates over steps, or over windows if no step was counted.

        Args:
            path: also write the picture to this file (.png, .svg or .pdf).

        Returns:
            The matplotlib figure.
        """
        from seedspread.render.with_matplotlib import draw, write_picture  # noqa: PLC0415 - slow, not in the base

        frame = self.to_frame()
        if frame.empty:
            raise PlotError(NOTHING)
        chart = saturation_chart(frame)
        if path is not None:
            write_picture(chart, Path(path))
        return draw(chart)

    def _feed(self, name: str, kind: str, tally: Tally) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"name must be a text that is not empty; got {name!r}")
        known = self._kinds.setdefault(name, kind)
        if known != kind:
            raise ValueError(
                f"{name!r} was counted as {known!r} before, and now as {kind!r}; use a monitor for each run, "
                "and a name for each thing that saturates"
            )
        self._now.feed(name, tally)

    def _merge_neighbors(self) -> None:
        for first, second in zip(self._past[::2], self._past[1::2], strict=False):
            first.merge(second)
        self._past = self._past[::2]
        self.every *= 2

    def _windows(self) -> list[_Window]:
        if not self._now.tallies:
            return self._past
        return [*self._past, _Window(self._steps, self._now.tallies)]


def _one_line(name: str) -> str:
    return " ".join(printable(name).split())
