"""Dose response: what a numeric factor does, level by level, where a study has three levels of it or more."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from seedspread.analysis.comparison import Comparison
from seedspread.report.material.settings import ReportData, Setting, slug
from seedspread.runs.levels import as_number, setting_name
from seedspread.stats.arms import Arm
from seedspread.stats.dose import ArmSummary, summarise
from seedspread.stats.result import Interval

_FEWEST_LEVELS = 3


@dataclass(frozen=True)
class Dose:
    """One arm at one level.

    Attributes:
        level: the factor's.
        arm: whose runs these are.
        summary: mean, sd and failure rate.
        ratio: of its variance over the baseline's; None of the baseline itself, or where there is none.
        interval: of the ratio.
    """

    level: float
    arm: str
    summary: ArmSummary
    ratio: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True)
class DoseCurve:
    """A numeric factor and what was measured at each of its levels.

    Attributes:
        id: short and stable.
        factor: whose levels are the dose.
        name: of the settings that it goes through, without the factor.
        baseline: what ratios are over: an arm, or a level of the factor.
        lines: the arms, in the order of their colours; one without a name if the factor is what is compared.
        doses: by arm and level.
        settings: where they come from.
    """

    id: str
    factor: str
    name: str
    baseline: str
    lines: tuple[str, ...]
    doses: tuple[Dose, ...]
    settings: tuple[Setting, ...]

    @property
    def levels(self) -> tuple[float, ...]:
        """Every level once, from low to high."""
        return tuple(sorted({dose.level for dose in self.doses}))

    def title_of(self, arm: str) -> str:
        """Of one of its lines; empty if the factor is what is compared."""
        return self.settings[0].arm_title(arm) if arm else ""

    @property
    def baseline_title(self) -> str:
        """An arm, or a level of the factor."""
        several = self.lines != ("",)
        return self.title_of(self.baseline) if several else f"{self.factor} = {self.baseline}"

    def line(self, arm: str) -> list[Dose]:
        """The doses of an arm, from low to high."""
        return sorted((d for d in self.doses if d.arm == arm), key=lambda d: d.level)


def dose_curves(material: ReportData) -> list[DoseCurve]:
    """For each numeric factor that is audited by, or compared."""
    return [*_by_strata(material), *(curve for s in material.settings for curve in _by_group(s))]


def _by_strata(material: ReportData) -> Iterator[DoseCurve]:
    """Settings of one study that differ in one numeric factor only."""
    families: dict[tuple[str, str, str, tuple[tuple[str, str], ...]], list[Setting]] = {}
    for s in material.settings:
        for factor, _ in s.levels:
            rest = tuple((f, level) for f, level in s.levels if f != factor)
            families.setdefault((s.study, s.metric.name, factor, rest), []).append(s)
    several = len({s.metric.name for s in material.settings}) > 1
    for (study, metric, factor, rest), settings in families.items():
        levels = [as_number(dict(s.levels)[factor]) for s in settings]
        if None in levels or len(set(levels)) < _FEWEST_LEVELS:
            continue
        name = ", ".join(part for part in (study, setting_name(rest)) if part)
        doses = [d for s, x in zip(settings, levels, strict=True) for d in _at(s, x or 0.0)]
        yield DoseCurve(
            slug(" ".join([name, "by", factor, *([metric] if several else [])])),
            factor, name, settings[0].arms[-1], settings[0].arms, tuple(doses), tuple(settings),
        )  # fmt: skip


def _at(s: Setting, level: float) -> Iterator[Dose]:
    """Every arm of a setting, at its level of the factor."""
    for arm in s.arms:
        c = _comparison(s, arm)
        if s.of(arm) or s.crashed_seeds(arm):
            ratio, interval = _ratio(c) if c is not None and c.group == arm else (None, None)
            yield Dose(level, arm, _summary(s, arm, c), ratio, interval)


def _by_group(s: Setting) -> Iterator[DoseCurve]:
    """The factor that is compared: a level is an arm, and its ratio is over the baseline level."""
    levels = {arm: as_number(arm) for arm in s.arms if s.of(arm) or s.crashed_seeds(arm)}
    if not s.group or None in levels.values() or len(levels) < _FEWEST_LEVELS:
        return
    doses = []
    for arm, level in levels.items():
        c = _comparison(s, arm)
        ratio, interval = _ratio(c) if c is not None and c.group == arm else (None, None)
        is_baseline = arm == s.arms[-1]
        doses.append(
            Dose(level or 0.0, "", _summary(s, arm, c), 1.0 if is_baseline else ratio, interval)
        )  # by definition
    yield DoseCurve(slug(f"{s.id} by {s.group}"), s.group, s.name, s.arms[-1], ("",), tuple(doses), (s,))


def _comparison(s: Setting, arm: str) -> Comparison | None:
    return next((c for c in s.comparisons if arm in (c.group, c.baseline)), None)


def _ratio(c: Comparison) -> tuple[float | None, Interval | None]:
    return c.headline.ratio, c.headline.shown_interval


def _summary(s: Setting, arm: str, c: Comparison | None) -> ArmSummary:
    runs = s.of(arm)
    blocks, seeds = (
        list(dict.fromkeys(names)) for names in ([r.block for r in runs], [r.seed for r in runs])
    )
    values = Arm(
        name=arm,
        values=np.array([r.value for r in runs]),
        blocks=np.array([blocks.index(r.block) for r in runs], dtype=np.intp),
        seeds=np.array([seeds.index(r.seed) for r in runs], dtype=np.intp),
        block_names=tuple(blocks),
    )
    counted = next((a for a in c.collapse.arms if a.group == arm), None) if c is not None else None
    if counted is not None:
        return summarise(values, counted.failed, counted.seeds)
    crashed = s.crashed_seeds(arm)
    return summarise(values, len({r.seed for r in runs if r.collapsed} | crashed), len({*seeds, *crashed}))
