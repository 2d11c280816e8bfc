"""Variance components as plain typed values, no computation."""

from dataclasses import dataclass

from seedspread.runs.levels import arm_name
from seedspread.stats.result import Floor, Interval


@dataclass(frozen=True)
class Component:
    """One part of an arm's variance.

    Attributes:
        key: `seed`, `noise`, `together` (what streams do only together), or a stream's name.
        name: for people.
        levels: how many seeds of this kind the arm has; None for noise.
        variance: by restricted maximum likelihood; zero or more.
        interval: from the profile of that likelihood; it begins at zero where the data admit it.
        share: of the total, from 0 to 1.
        unbiased: from mean squares, which may be negative; None where the design has none.
        p: of the hypothesis that it is zero.
        test: where that comes from: `exact F` or `likelihood ratio`.
        df: of that F.
    """

    key: str
    name: str
    levels: int | None
    variance: float
    interval: Interval | None
    share: float
    unbiased: float | None = None
    p: float | None = None
    test: str = ""
    df: tuple[int, ...] = ()


@dataclass(frozen=True)
class ArmComponents:
    """The variance of one arm's runs, block means taken out, and its parts.

    Attributes:
        group: the arm.
        runs: how many.
        seeds: how many of them differ in a seed, whichever.
        components: its parts; empty where the design does not tell them apart.
        total: their sum, or all that is known.
        interval: of the total, where that is all there is.
        floor: what a finite test set makes of it.
        note: what the design does not tell, and why.
        sentence: all that in words.
        factor: what `group` is a level of.
    """

    group: str
    runs: int
    seeds: int
    components: tuple[Component, ...]
    total: float
    interval: Interval | None = None
    floor: Floor | None = None
    note: str = ""
    sentence: str = ""
    factor: str = ""

    @property
    def title(self) -> str:
        """In a sentence: `clamp`, `depth = 2`."""
        return arm_name(self.factor, self.group)

    def component(self, key: str) -> Component | None:
        """The component called `key`."""
        return next((c for c in self.components if c.key == key), None)


@dataclass(frozen=True)
class ComponentContrast:
    """One component in two arms.

    Attributes:
        key, name: of the component.
        variances: in the arm and in the baseline.
        ratio: of the first to the second; None where both are zero, infinite where the second is.
        ratio_interval: `high` is infinite where the second may be zero.
        difference: first less second.
        difference_interval: of that.
        p: of no difference (likelihood ratio).
    """

    key: str
    name: str
    variances: tuple[float, float]
    ratio: float | None
    ratio_interval: Interval
    difference: float
    difference_interval: Interval
    p: float


@dataclass(frozen=True)
class ArmsCompared:
    """Two arms, component by component."""

    group: str
    baseline: str
    components: tuple[ComponentContrast, ...]
    sentence: str
    factor: str = ""

    @property
    def title(self) -> str:
        """`clamp against subtract`, `depth = 2 against depth = 4`."""
        return f"{arm_name(self.factor, self.group)} against {arm_name(self.factor, self.baseline)}"


@dataclass(frozen=True)
class Components:
    """The arms of one stratum and their comparisons; `title` is the stratum with what it is a level of."""

    stratum: str
    arms: tuple[ArmComponents, ...]
    comparisons: tuple[ArmsCompared, ...]
    title: str = ""


@dataclass(frozen=True)
class ComponentsValues:
    """The variance components of a table.

    Attributes:
        source: what was read.
        value, group, blocks, seed, streams, by: the columns.
        rows: how many runs went in.
        level: of every interval.
        strata: one for each level of `by`.
        notes: what was left out of the table and why.
    """

    source: str
    value: str
    group: str | None
    blocks: tuple[str, ...]
    seed: str | None
    streams: tuple[str, ...]
    by: tuple[str, ...]
    rows: int
    level: float
    strata: tuple[Components, ...]
    notes: tuple[str, ...] = ()
