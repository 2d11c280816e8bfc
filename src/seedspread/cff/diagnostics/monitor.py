"""`ClampMonitor`: the rates at which things saturate, over time. Needs torch only where it is given any."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seedspread.cff.advice import Advice, advise, no_evidence
from seedspread.cff.diagnostics import show
from seedspread.cff.diagnostics.counts import PairTally, Sum, Tally, count_clamp, count_mask
from seedspread.cff.objective.spec import LossSpec
from seedspread.errors import SeedspreadError, did_you_mean, require_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import Tensor

    from seedspread.cff.objective import PairStatistics

Loss = TypeVar("Loss")

# What the rate of a name is.
_CLAMPED, _WOULD_BE = "clamp activation rate", "would-be clamp rate"
_CUT, _OUT = "cut", "out of bounds"
# Windows that `step` leaves at most; beyond, neighbours are merged.
_MOST_WINDOWS = 512


class NotWatchableError(SeedspreadError, TypeError):
    """A loss does not tell what it cuts."""


@dataclass
class _Window:
    """A stretch of time: the step at which it ended, and what was counted by name."""

    step: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)

    def feed(self, name: str, tally: Tally) -> None:
        """Takes what was counted under a name."""
        if name in self.tallies:
            self.tallies[name].merge(tally)
        else:
            self.tallies[name] = tally

    def merge(self, other: "_Window") -> None:
        """Takes the window that follows."""
        self.step = other.step
        for name, tally in other.tallies.items():
            self.feed(name, tally)


class ClampMonitor:
    """Keeps the rates at which things saturate over time, and says what evidence there is about them.

    Give it what was cut (`record`) or values and their bounds (`watch_clamp`), of any loss; for the paper's
    margins let it listen to `SupConLoss` (`watch`) or feed it features (`update`). Time passes in windows,
    over which counts are added up: `step` ends one, and so does `end_epoch`. A process counts what it sees.

    Args:
        every: steps in a window that `step` ends. Memory is bounded: when there are more than 512 windows,
            neighbours are merged and `every` doubles.

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
        """Counts what was cut, for anything that saturates.

        Args:
            name: of what saturates, such as `"layer0"`.
            mask: booleans of any shape, True where something was cut: a tensor on any device, which is not
                waited for, an array, a list, or a single one.
        """
        self._feed(name, _CUT, count_mask(name, mask))

    def watch_clamp(
        self, name: str, values: Any, low: float | None = None, high: float | None = None
    ) -> None:
        """Counts the values below `low` or above `high`: those that `clamp(low, high)` changes.

        It only looks, and clamps nothing. Give it the values *before* they are clamped: one that lies on a
        bound is not counted. NaN is counted apart, and is no part of the rate.

        Args:
            name: of what saturates, such as `"ratio"`.
            values: real numbers of any shape, in any form that `record` takes.
            low: the lower bound, if there is one.
            high: the upper bound, if there is one.
        """
        self._feed(name, _OUT, count_clamp(name, values, low, high))

    def watch(self, loss: Loss, *, layer: int = 0) -> Loss:
        """Listens to every call of a `SupConLoss` in training mode, at no second pass; returns the loss."""
        spec = getattr(loss, "spec", None)
        if not isinstance(spec, LossSpec) or not hasattr(loss, "observe"):
            kind = loss if isinstance(loss, type) else type(loss)
            raise NotWatchableError(
                f"{'the class ' if kind is loss else ''}{kind.__module__}.{kind.__qualname__} cannot be "
                "watched: watch() takes instances of seedspread.SupConLoss, which tell what they cut; of "
                "anything else tell it what is cut, with monitor.record(name, mask) or "
                "monitor.watch_clamp(name, values, low, high)"
            )
        loss.observe(partial(self._add, layer=layer, clamp=spec.of_positives.saturates))
        return loss

    def update(
        self, features: "Tensor", labels: "Tensor", margin: float, *, layer: int = 0, clamp: bool = True
    ) -> float:
        """Adds a batch of `(N, d)` features and `(N,)` labels; returns its clamp activation rate.

        Args:
            features: what the layer's loss sees, before normalisation.
            labels: the classes.
            margin: the layer's margin.
            layer: which layer this is.
            clamp: whether the run is trained with the clamp; otherwise the rate is a would-be rate.
        """
        require_extra("train", "ClampMonitor.update")
        from seedspread.cff.diagnostics.measures import pair_statistics  # noqa: PLC0415 - needs torch

        statistics = pair_statistics(features, labels, margin)
        self._add(statistics, layer, clamp)
        return statistics.clamp_activation_rate

    def _add(self, statistics: "PairStatistics", layer: int, clamp: bool) -> None:
        pairs = statistics.positive_pairs
        counts = {"cut": Sum(statistics.saturated_pairs), "nan": Sum(pairs - statistics.histogram.sum())}
        possible = statistics.anchors * (statistics.anchors - 1)
        tally = PairTally(pairs, counts, [statistics.clamp_activation_rate], possible)
        self._feed(f"layer {layer}", _CLAMPED if clamp else _WOULD_BE, tally)
        self._layers.add(layer)

    def step(self) -> None:
        """Ends a training step, and with every `every`-th one a window."""
        self._steps += 1
        last = self._past[-1].step if self._past else 0
        if self._steps - last >= self.every:
            self.end_epoch()
        if len(self._past) > _MOST_WINDOWS:
            self._merge_neighbours()

    def end_epoch(self) -> None:
        """Ends a window of time; does nothing if nothing was fed since the last."""
        if self._now.tallies:
            self._now.step = self._steps
            self._past.append(self._now)
            self._now = _Window()

    @property
    def names(self) -> list[str]:
        """What was fed, in the order of its first appearance; a layer of pairs is `layer 0`."""
        return list(self._kinds)

    @property
    def layers(self) -> list[int]:
        """The layers of which pairs were fed, in order."""
        return sorted(self._layers)

    def rates(self, layer: int | str = 0) -> list[float]:
        """The rate of a layer or a name in each window, the open one last; NaN where it was not fed."""
        name = layer if isinstance(layer, str) else f"layer {layer}"
        if name not in self._kinds:
            if isinstance(layer, int):
                fed = ", ".join(map(str, self.layers)) or "none"
                raise ValueError(f"layer {layer} was never fed; layers seen: {fed}")
            fed = ", ".join(map(repr, self.names)) or "none"
            raise ValueError(f"{name!r} was never fed; names seen: {fed}{did_you_mean(name, self.names)}")
        return [window.tallies.get(name, Tally()).rate for window in self._windows()]

    def is_would_be(self, layer: int = 0) -> bool:
        """Whether the layer's rate is only what a clamp would have cut."""
        return self._kinds.get(f"layer {layer}") == _WOULD_BE

    def advice(self, accuracy: float | None = None) -> Advice:
        """The paper's advice from the last rate of layer 0 and, where known, the test accuracy (0 to 1).

        It is about margins on the similarities of pairs (`watch`, `update`). On anything else there is no
        evidence, and that is what it says.
        """
        others = [name for name, kind in self._kinds.items() if kind in (_CUT, _OUT)]
        if others and not self._layers:
            return no_evidence(others)
        tallies = [window.tallies.get("layer 0") for window in self._windows()]
        last = next((t for t in reversed(tallies) if isinstance(t, PairTally)), PairTally())
        share = last.values / last.possible_pairs if last.possible_pairs else None
        advice = advise(last.rate, clamp=not self.is_would_be(0), accuracy=accuracy, pair_share=share)
        return advice.silent_on(others) if others else advice

    def to_frame(self) -> "pd.DataFrame":
        """One row per window and name: its counts and its rate; `below` and `above` where they are known."""
        import pandas as pd  # noqa: PLC0415 - slow, and a training loop may never ask

        whole = dict.fromkeys(("window", "step", "values", "saturated", "below", "above", "nan"), "Int64")
        return pd.DataFrame(self._rows(), columns=list(show.COLUMNS)).astype(whole | {"rate": float})

    def to_json(self) -> str:
        """All of it; a number that is not finite is null."""
        return show.as_json(self._rows())

    def to_text(self, width: int = 110) -> str:
        """A table for a terminal, one row per name."""
        return show.as_text(self._rows(), width)

    def __str__(self) -> str:
        return self.to_text()

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Rates over time, as a matplotlib figure; written to `path` too (.png, .svg or .pdf), if given."""
        return show.as_figure(self._rows(), None if path is None else Path(path))

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

    def _merge_neighbours(self) -> None:
        for first, second in zip(self._past[::2], self._past[1::2], strict=False):
            first.merge(second)
        self._past = self._past[::2]
        self.every *= 2

    def _windows(self) -> list[_Window]:
        if not self._now.tallies:
            return self._past
        return [*self._past, _Window(self._steps, self._now.tallies)]

    def _rows(self) -> list[show.Row]:
        return [
            show.row(number, window.step, name, self._kinds[name], tally)
            for number, window in enumerate(self._windows(), start=1)
            for name, tally in window.tallies.items()
        ]
