"""An arm's variance split into its components, and two arms compared component by component."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy import stats

from seedspread.analysis.components.result import (
    ArmComponents,
    ArmsCompared,
    Component,
    ComponentContrast,
    Components,
)
from seedspread.analysis.words import (
    NO_VARIANCE,
    NOT_REPEATED,
    QUIET,
    arm_sentence,
    comparison_sentence,
    design_note,
    idle_note,
)
from seedspread.stats.arms import Arm
from seedspread.stats.components.design import (
    NOISE,
    SEED,
    TOGETHER,
    Design,
    Sample,
    design,
    idle,
    number_of_seeds,
)
from seedspread.stats.components.profile import Curve, contrast, fit, intervals, profiles
from seedspread.stats.result import Floor, Interval

MOST_RUNS = 1_500
_QUICKLY = 200  # runs of an arm that are split while an audit waits
_NAMES = {SEED: "between seeds", NOISE: "same-seed noise", TOGETHER: "streams together"}


@dataclass(frozen=True)
class Split:
    """An arm with its components, and the profile of each, in units of `unit`."""

    arm: ArmComponents
    curves: Mapping[str, Curve]
    unit: float


def components_of(
    arm: Arm, baseline: Arm, level: float = 0.95, floors: Sequence[Floor] = ()
) -> Components | None:
    """Two arms of an audit, split and compared; None where a seed is never repeated in one of them."""
    samples = Sample.of(arm), Sample.of(baseline)
    if max(len(s.values) for s in samples) > _QUICKLY:
        return None
    splits = [split(sample, level, _floor(sample, floors)) for sample in samples]
    if not all(s.arm.component(NOISE) for s in splits):
        return None
    return together("", splits, [(0, 1)], level)


def _floor(sample: Sample, floors: Sequence[Floor]) -> Floor | None:
    return next((floor for floor in floors if floor.group == sample.name), None)


def together(
    stratum: str,
    splits: Sequence[Split],
    pairs: Sequence[tuple[int, int]] | None,
    level: float,
    title: str = "",
) -> Components:
    """The arms of a stratum, each of these pairs compared; all pairs where none are given."""
    chosen = list(combinations(range(len(splits)), 2)) if pairs is None else pairs
    found = [compare(title, splits[i], splits[j], level) for i, j in chosen]
    compared = tuple(c for c in found if c is not None)
    return Components(stratum, tuple(s.arm for s in splits), compared, title)


def split(sample: Sample, level: float, floor: Floor | None = None) -> Split:
    """The components of a sample, or what can be said of it instead."""
    made = design(sample)
    blank = ArmComponents(
        sample.name, len(sample.values), number_of_seeds(sample), (), 0.0, floor=floor, factor=sample.factor
    )
    if made is None:
        return _told(replace(blank, note=NO_VARIANCE))
    names, rest = idle(sample, made)
    if rest is not sample:
        return _beside_idle(split(rest, level, floor), names, blank)
    if NOISE not in made.names and not made.copies and len(made.names) < 2:
        total, interval = _total(sample, level)
        note = QUIET if made.quiet else NOT_REPEATED
        return _told(replace(blank, total=total, interval=interval, note=note))
    estimates, top = fit(made.likelihood)
    curves = profiles(made.likelihood, estimates, top)
    unit = made.scale**2
    ends = intervals(made.likelihood, estimates, top, curves, level)
    total = float(estimates.sum())
    components = [
        _component(made, name, float(estimates[i]) * unit, float(estimates[i]) / total, curves[i])
        for i, name in enumerate(made.names)
    ]
    components = [
        replace(c, interval=Interval(low * unit, high * unit, level))
        for c, (low, high) in zip(components, ends, strict=True)
    ]
    if made.copies:
        components.append(Component(NOISE, _NAMES[NOISE], None, 0.0, None, 0.0, unbiased=0.0))
    arm = replace(blank, components=tuple(components), total=total * unit, note=design_note(made))
    return replace(_told(arm), curves=dict(zip(made.names, curves, strict=True)), unit=unit)


def _beside_idle(found: Split, names: tuple[str, ...], blank: ArmComponents) -> Split:
    """What is known of the other runs, and that these factors make no variance."""
    note = "; ".join(part for part in (found.arm.note, idle_note(names)) if part)
    none = tuple(Component(name, name, None, 0.0, None, 0.0) for name in names)
    components = (*found.arm.components, *none) if found.arm.components else ()
    arm = replace(found.arm, runs=blank.runs, seeds=blank.seeds, components=components, note=note)
    return replace(_told(arm), curves=found.curves, unit=found.unit)


def _told(arm: ArmComponents) -> Split:
    return Split(replace(arm, sentence=arm_sentence(arm)), {}, 1.0)


def _total(sample: Sample, level: float) -> tuple[float, Interval]:
    """The variance within cells, and its exact interval for normal values."""
    values = Arm(sample.name, sample.values, sample.cells, np.arange(len(sample.values)))
    tails = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], values.df)
    low, high = values.within_variance * values.df / tails
    return values.within_variance, Interval(float(low), float(high), level)


def _component(made: Design, name: str, variance: float, share: float, curve: Curve) -> Component:
    whole = Component(name, _NAMES.get(name, name), made.levels.get(name), variance, None, share)
    if name == NOISE:
        return replace(whole, unbiased=made.noise)
    squares = made.mean_squares.get(name)
    if squares is not None and not made.copies and np.isfinite(curve.drops[0]):
        return replace(whole, unbiased=squares.estimate, p=squares.p, test="exact F", df=squares.df)
    if NOISE not in made.names and not made.copies:
        return whole  # it has the noise in it: it cannot be zero
    # Zero is the end of what is possible: half of the likelihood ratios would be zero.
    drop = float(curve.drops[0])
    p = float(stats.chi2.sf(drop, 1)) / 2 if variance > 0 else 1.0
    return replace(whole, p=p, test="likelihood ratio")


def compare(stratum: str, first: Split, second: Split, level: float) -> ArmsCompared | None:
    """Two arms, component by component; None where they have none in common."""
    shared = [key for key in first.curves if key in second.curves]
    if not shared:
        return None
    contrasts = tuple(_contrast(key, first, second, level) for key in shared)
    pair = first.arm, second.arm
    return ArmsCompared(
        first.arm.group,
        second.arm.group,
        contrasts,
        comparison_sentence(stratum, pair, contrasts),
        first.arm.factor,
    )


def _contrast(key: str, first: Split, second: Split, level: float) -> ComponentContrast:
    a, b = first.arm.component(key), second.arm.component(key)
    assert a is not None  # noqa: S101 - curves are of components
    assert b is not None  # noqa: S101
    found = contrast(first.curves[key], second.curves[key], (first.unit, second.unit), level)
    ratio = a.variance / b.variance if b.variance else np.inf if a.variance else None
    return ComponentContrast(
        key,
        a.name,
        (a.variance, b.variance),
        ratio,
        Interval(*found.ratio, level),
        a.variance - b.variance,
        Interval(*found.difference, level),
        found.p,
    )
