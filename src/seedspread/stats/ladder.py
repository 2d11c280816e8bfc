"""The ladder: one ratio of variances tested again and again, one assumption changed at each rung.

From the F test of all runs pooled to the headline: a reader sees which assumption buys which p value.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from seedspread.stats.arms import Arm
from seedspread.stats.classic import f_interval, f_p_value
from seedspread.stats.dependence import effective_df, has_twins, runs_per_seed, twins
from seedspread.stats.result import Rung, TestResult
from seedspread.stats.robust import pitman_morgan, seed_jackknife
from seedspread.stats.scale.ratio import ScaleRatio, scale_ratio

# The key, name, estimand, assumption and change of a rung.
_Words = tuple[str, str, str, str, str]

_POOLED, _WITHIN, _SINGLE = "variances of all runs", "variances within cells", "variances over seeds"
_F, _F_WITHIN = "F test, runs pooled", "F test, within cells"
_BY_RUN, _BY_SEED = "jackknife by run", "jackknife by seed"
_UNPAIRED, _PAIRS = "scale ratio, unpaired", "scale ratio, with pairs"


def ladder(arm: Arm, baseline: Arm, level: float = 0.95) -> tuple[Rung, ...]:
    """Every rung that the design has and the data allow, in order; none where an arm has no spread.

    Without blocks nothing differs within cells; without twins every run is a seed; without shared seeds there
    are no pairs: rungs that would only repeat the one before are left out.
    """
    if not (arm.has_spread and baseline.has_spread):
        return ()
    of = _WITHIN if max(len(arm.cells), len(baseline.cells)) > 1 else _SINGLE
    return (
        *_f_rungs(arm, baseline, level, of),
        *_jackknife_rungs(arm, baseline, level, of),
        *_paired_rungs(arm, baseline, level, of),
        *_scale_rungs(arm, baseline, level, of),
    )


def _f_rungs(arm: Arm, baseline: Arm, level: float, of: str) -> Iterator[Rung]:
    pair, normal = (arm, baseline), "normal values, independent runs"
    pooled = [float(a.values.var(ddof=1)) for a in pair]
    runs = [len(a.values) - 1.0 for a in pair]
    if of == _SINGLE:
        yield _f_rung(("pooled_f", "F test", of, normal, ""), pooled, runs, level)
        return
    yield _f_rung(("pooled_f", _F, _POOLED, f"{normal}, equal block means", ""), pooled, runs, level)
    within = [a.within_variance for a in pair]
    words = ("within_f", _F_WITHIN, of, normal, "block means taken out")
    yield _f_rung(words, within, [float(a.df) for a in pair], level)
    if not any(map(has_twins, pair)):
        return
    assumes = "normal values; runs of a seed correlate as they do here"
    words = (
        "effective_f",
        "F test, effective df",
        of,
        assumes,
        "runs of a seed counted by their correlation",
    )
    yield _f_rung(words, within, [_effective_df(a) for a in pair], level)
    assumes = "normal values; runs of a seed copy each other"
    words = ("copies_f", "F test, twins as copies", of, assumes, "runs of a seed counted as one")
    yield _f_rung(words, within, [effective_df(a.df, runs_per_seed(a), 1.0) for a in pair], level)


def _f_rung(words: _Words, variances: list[float], df: list[float], level: float) -> Rung:
    ratio, degrees = variances[0] / variances[1], (df[0], df[1])
    return Rung(*words, ratio, f_p_value(ratio, degrees), degrees, f_interval(ratio, degrees, level))


def _effective_df(arm: Arm) -> float:
    found = twins(arm)
    return float(arm.df) if found is None else found.effective_df


def _jackknife_rungs(arm: Arm, baseline: Arm, level: float, of: str) -> Iterator[Rung]:
    assumes, changes = "independent seeds, arms of like shape", "normal values given up"
    if any(map(has_twins, (arm, baseline))):
        by_run = seed_jackknife(_each_run_a_seed(arm), _each_run_a_seed(baseline), level)
        words = (
            "run_jackknife",
            _BY_RUN,
            of,
            assumes.replace("seeds", "runs"),
            f"from {_F_WITHIN}: {changes}",
        )
        yield from _tested(words, by_run)
        changes = "whole seeds left out, not runs"
    elif of == _WITHIN:
        changes = f"from {_F_WITHIN}: {changes}"
    by_seed = seed_jackknife(arm, baseline, level)
    yield from _tested(("seed_jackknife", _BY_SEED, of, assumes, changes), by_seed)


def _each_run_a_seed(arm: Arm) -> Arm:
    return replace(arm, seeds=np.arange(len(arm.values)))


def _paired_rungs(arm: Arm, baseline: Arm, level: float, of: str) -> Iterator[Rung]:
    assumes, changes = "independent normal pairs", "normal values again; seeds as pairs"
    if of == _WITHIN:
        of, changes = "variances of seed means", f"{changes}, their runs averaged"
        assumes += "; runs of a seed as alike in both arms"
    words = ("pitman_morgan", "Pitman-Morgan", of, assumes, changes)
    yield from _tested(words, pitman_morgan(arm, baseline, level))


def _scale_rungs(arm: Arm, baseline: Arm, level: float, of: str) -> Iterator[Rung]:
    of, shape = f"{of}, of the bulk", "one t shape for both arms"
    words = ("unpaired", _UNPAIRED, of, f"independent seeds, {shape}", f"from {_BY_SEED}: tails modelled")
    yield from _modelled(words, scale_ratio(arm, baseline, level, pairs=False))
    together = scale_ratio(arm, baseline, level)
    if together.pairs:
        words = ("pairs", _PAIRS, of, f"independent pairs of seeds, {shape}", "seeds as pairs")
        yield from _modelled(words, together)


def _tested(words: _Words, test: TestResult) -> Iterator[Rung]:
    if test.estimate is not None and test.p is not None:
        yield Rung(*words, test.estimate, test.p, test.df, test.interval)


def _modelled(words: _Words, found: ScaleRatio) -> Iterator[Rung]:
    if found.ratio is not None and found.p is not None:
        yield Rung(*words, found.ratio, found.p, (), found.interval)
