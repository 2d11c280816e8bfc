"""Sensitivity of a variance ratio's p value: a series of tests, each changing one assumption of another.

From the F test of all runs pooled to the headline: a reader sees how much each assumption matters.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from seedspread.stats.classic import f_interval, f_p_value, pitman_morgan, seed_jackknife
from seedspread.stats.groups import Group
from seedspread.stats.pooling import effective_df, has_same_seed_runs, runs_per_seed, same_seed_runs
from seedspread.stats.result import SensitivityTest, TestResult
from seedspread.stats.variance_ratio import RobustRatio, robust_ratio

# Key, name, estimand, assumption and change of a test.
_Words = tuple[str, str, str, str, str]

_POOLED, _WITHIN, _SINGLE = "variances of all runs", "variances within cells", "variances over seeds"
_F, _F_WITHIN = "F test, runs pooled", "F test, within cells"
_BY_RUN, _BY_SEED = "jackknife by run", "jackknife by seed"
_UNPAIRED, _PAIRS = "scale ratio, unpaired", "scale ratio, with pairs"


def sensitivity(group: Group, baseline: Group, level: float = 0.95) -> tuple[SensitivityTest, ...]:
    """Return every test that the design has and the data allow, in order; none if a group has no spread.

    Tests that would only repeat another are left out: those within cells without blocks, those by seed if
    every run is a seed, those of pairs without shared seeds.
    """
    if not (group.has_spread and baseline.has_spread):
        return ()
    of = _WITHIN if max(len(group.cells), len(baseline.cells)) > 1 else _SINGLE
    return (
        *_f_tests(group, baseline, level, of),
        *_jackknife_tests(group, baseline, level, of),
        *_paired_tests(group, baseline, level, of),
        *_scale_tests(group, baseline, level, of),
    )


def _f_tests(group: Group, baseline: Group, level: float, of: str) -> Iterator[SensitivityTest]:
    pair, normal = (group, baseline), "normal values, independent runs"
    pooled = [float(a.values.var(ddof=1)) for a in pair]
    runs = [len(a.values) - 1.0 for a in pair]
    if of == _SINGLE:
        yield _f_result(("pooled_f", "F test", of, normal, ""), pooled, runs, level)
        return
    yield _f_result(("pooled_f", _F, _POOLED, f"{normal}, equal block means", ""), pooled, runs, level)
    within = [a.within_variance for a in pair]
    words = ("within_f", _F_WITHIN, of, normal, "block means taken out")
    yield _f_result(words, within, [float(a.df) for a in pair], level)
    if not any(map(has_same_seed_runs, pair)):
        return
    assumes = "normal values; runs of a seed correlate as they do here"
    changes = "runs of a seed counted by their correlation"
    words = ("effective_f", "F test, effective df", of, assumes, changes)
    found = [(a, same_seed_runs(a)) for a in pair]
    yield _f_result(words, within, [s.effective_df if s else float(a.df) for a, s in found], level)
    assumes = "normal values; runs of a seed copy each other"
    words = ("copies_f", "F test, twins as copies", of, assumes, "runs of a seed counted as one")
    yield _f_result(words, within, [effective_df(a.df, runs_per_seed(a), 1.0) for a in pair], level)


def _f_result(words: _Words, variances: list[float], df: list[float], level: float) -> SensitivityTest:
    ratio, degrees = variances[0] / variances[1], (df[0], df[1])
    return SensitivityTest(
        *words, ratio, f_p_value(ratio, degrees), degrees, f_interval(ratio, degrees, level)
    )


def _jackknife_tests(group: Group, baseline: Group, level: float, of: str) -> Iterator[SensitivityTest]:
    assumes, changes = "independent seeds, arms of like shape", "normal values given up"
    if any(map(has_same_seed_runs, (group, baseline))):
        first, second = (replace(g, seeds=np.arange(len(g.values))) for g in (group, baseline))
        by_run = seed_jackknife(first, second, level)
        changes = f"from {_F_WITHIN}: {changes}"
        yield from _tested(("run_jackknife", _BY_RUN, of, assumes.replace("seeds", "runs"), changes), by_run)
        changes = "whole seeds left out, not runs"
    elif of == _WITHIN:
        changes = f"from {_F_WITHIN}: {changes}"
    by_seed = seed_jackknife(group, baseline, level)
    yield from _tested(("seed_jackknife", _BY_SEED, of, assumes, changes), by_seed)


def _paired_tests(group: Group, baseline: Group, level: float, of: str) -> Iterator[SensitivityTest]:
    assumes, changes = "independent normal pairs", "normal values again; seeds as pairs"
    if of == _WITHIN:
        of, changes = "variances of seed means", f"{changes}, their runs averaged"
        assumes += "; runs of a seed as alike in both arms"
    words = ("pitman_morgan", "Pitman-Morgan", of, assumes, changes)
    yield from _tested(words, pitman_morgan(group, baseline, level))


def _scale_tests(group: Group, baseline: Group, level: float, of: str) -> Iterator[SensitivityTest]:
    of, shape = f"{of}, of the bulk", "one t shape for both arms"
    words = ("unpaired", _UNPAIRED, of, f"independent seeds, {shape}", f"from {_BY_SEED}: tails modelled")
    yield from _tested(words, robust_ratio(group, baseline, level, pairs=False))
    together = robust_ratio(group, baseline, level)
    if together.pairs:
        words = ("pairs", _PAIRS, of, f"independent pairs of seeds, {shape}", "seeds as pairs")
        yield from _tested(words, together)


def _tested(words: _Words, test: TestResult | RobustRatio) -> Iterator[SensitivityTest]:
    ratio, df = (test.estimate, test.df) if isinstance(test, TestResult) else (test.ratio, ())
    if ratio is not None and test.p is not None:
        yield SensitivityTest(*words, ratio, test.p, df, test.interval)
