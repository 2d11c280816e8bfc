"""The headline of a comparison: the variance ratio to report.

It is the Student-t model's (`variance_ratio.py`) if one shape describes both groups. If not, that ratio
compares the bulks of the groups, not their variances, and can even point the other way: the headline is then
the raw ratio, with the seed jackknife's interval, which needs no common shape.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log

import numpy as np

from seedspread.stats.classic import seed_jackknife
from seedspread.stats.distributions import t_sf
from seedspread.stats.failures import exact_interval
from seedspread.stats.groups import Group
from seedspread.stats.result import FarSeeds, Headline, InterimLook, Shrunken, TestResult, UnlikeShapes
from seedspread.stats.sequential import AtLook, nominal_level
from seedspread.stats.variance_ratio import (
    MOST_SEEDS,
    FromJackknife,
    LogRatioEstimate,
    RobustRatio,
    bulk_sd,
    from_medians,
    interval_of,
    ratio_at,
    robust_ratios,
    two_sided_p,
)

# The model takes milliseconds per comparison. If there are more comparisons, the seed jackknife replaces it.
MOST_MODELED = 500
MODEL = "robust variance ratio"
RAW = "raw variance ratio"
# With fewer seeds there is no verdict: an exact permutation test of 3 vs 3 cannot go below p = 0.1.
FEWEST_SEEDS = 5
# One shape describes both groups as long as the raw ratio and the model's differ by no more than this
# factor. With equal shapes they differ by more in at most 5% of experiments (docs/statistics.md).
MOST_APART = 2.5
# A headline with its estimate, which is None if there is no ratio.
Finding = tuple[Headline, LogRatioEstimate | None]
# A seed is far from the others if it deviates from the median by more than this many sds of the bulk.
_FAR = 5.0
# Grubbs' p below which a group's most extreme seed is an outlier.
_OUTLYING = 0.01


def headlines(
    pairs: Sequence[tuple[Group, Group]],
    level: float,
    equivalence: float,
    looks: InterimLook | None = None,
    fewest: int = FEWEST_SEEDS,
) -> list[Finding]:
    """Return the headline of each group and its baseline, and its estimate: None if there is no ratio.

    With `looks`, p and interval are adjusted for the interim looks. Groups with fewer seeds than `fewest`
    have a raw ratio only.
    """
    enough = [min(len(side.seed_codes) for side in pair) >= fewest for pair in pairs]
    affordable = len(pairs) <= MOST_MODELED
    modeled = [k for k, pair in enumerate(pairs) if affordable and enough[k] and not is_large(*pair)]
    at_level = level if looks is None else 1 - nominal_level(looks, 1 - level)
    ratios = dict(zip(modeled, robust_ratios([pairs[k] for k in modeled], at_level), strict=True))
    found = [
        _by_model(ratios[k], *pair, level, equivalence)
        if k in ratios
        else _by_jackknife(*pair, level, equivalence)
        if enough[k]
        else (without_estimate(RAW, f"it takes {fewest} seeds per group", _raw_ratio(*pair)), None)
        for k, pair in enumerate(pairs)
    ]
    return found if looks is None else [_adjusted(looks, *each, level) for each in found]


def _adjusted(
    looks: InterimLook, headline: Headline, estimate: LogRatioEstimate | None, level: float
) -> Finding:
    """Adjust p and interval for interim looks; probabilities stay the model's."""
    if estimate is None:
        return replace(headline, looks=looks), None
    at = AtLook(estimate, looks)
    adjusted = replace(
        headline,
        interval=interval_of(at, level),
        p=two_sided_p(at),
        why=f"{headline.why}; p and interval count the looks",
        looks=looks,
    )
    return adjusted, at


def is_large(group: Group, baseline: Group) -> bool:
    """Return whether there are too many seeds for the model, which is then not needed either."""
    return max(len(group.seed_codes), len(baseline.seed_codes)) > MOST_SEEDS


def _by_model(found: RobustRatio, group: Group, baseline: Group, level: float, equivalence: float) -> Finding:
    raw = _raw_ratio(group, baseline)
    if found.posterior is None or raw is None:
        return without_estimate(MODEL, found.note, raw), None
    if np.array_equal(np.sort(group.values), np.sort(baseline.values)):
        return without_estimate(MODEL, "the two groups have identical values", raw), None
    estimate = found.posterior
    if not one_shape(estimate, raw):
        headline, by_raw = _by_jackknife(group, baseline, level, equivalence)
        unlike = UnlikeShapes(ratio_at(estimate, 0.5), (far_seeds(group, level), far_seeds(baseline, level)))
        why = "one shape does not describe both groups, so this is the ratio of the sample variances"
        return replace(headline, method=RAW, why=why, unlike=unlike), by_raw
    headline = headline_from(estimate, MODEL, why_model(found), level, equivalence, raw)
    return replace(headline, pairs=found.pairs, tails=found.nu), estimate


def one_shape(estimate: LogRatioEstimate, raw_ratio: float) -> bool:
    """Return whether one shape may describe both groups, judged by their raw variance ratio.

    It is a predictive check: under the fitted model the raw ratio rarely differs from the model's by more
    than `MOST_APART`, and never points the other way than a model's ratio that differs from 1 (p < 0.05).
    """
    raw = log(raw_ratio)
    if abs(raw - estimate.quantile(0.5)) > log(MOST_APART):
        return False
    other_side = estimate.above(0.0) if raw < 0 else estimate.below(0.0)
    return other_side < 0.975


def far_seeds(group: Group, level: float) -> FarSeeds:
    """Count the seeds that have a run far from the bulk of their group."""
    deviations, bulk = from_medians(group), bulk_sd(group)
    below, above = (
        len(np.unique(group.seeds[side])) for side in (deviations < -_FAR * bulk, deviations > _FAR * bulk)
    )
    seeds = len(group.seed_codes)
    rate = exact_interval(min(below + above, seeds), seeds, level)
    return FarSeeds(group.name, below, above, seeds, rate)


def extreme_seed(group: Group) -> tuple[int, bool]:
    """Return the code of the seed with the largest deviation, and whether it is an outlier.

    F. E. Grubbs, Sample criteria for testing outlying observations, Annals of Mathematical Statistics 21
    (1950) 27-58.
    """
    squares, _ = group.by_seed
    place, n = int(squares.argmax()), len(squares)
    rest = np.delete(group.seed_means, place)
    if n < 4 or np.ptp(rest) == 0:
        return int(group.seed_codes[place]), n > 1
    t = (group.seed_means[place] - rest.mean()) / (rest.std(ddof=1) * (1 + 1 / (n - 1)) ** 0.5)
    return int(group.seed_codes[place]), bool(2 * n * t_sf(abs(t), n - 2) < _OUTLYING)


def _by_jackknife(group: Group, baseline: Group, level: float, equivalence: float) -> Finding:
    test = seed_jackknife(group, baseline, level)
    if test.estimate is None or test.std_error is None:
        return without_estimate(test.name, test.note, _raw_ratio(group, baseline)), None
    estimate = FromJackknife(log(test.estimate), test.std_error, test.df[0])
    why = "it stands in for the model, which is for fewer comparisons or seeds; pairs are not used"
    return headline_from(estimate, test.name, why, level, equivalence, test.estimate), estimate


def without_estimate(method: str, note: str, raw: float | None) -> Headline:
    """Return a headline that has at most a raw ratio, and no interval."""
    return Headline(raw, None if raw is None else raw**0.5, None, None, method, note, raw_ratio=raw)


def headline_from(
    estimate: LogRatioEstimate, method: str, why: str, level: float, equivalence: float, raw: float | None
) -> Headline:
    """Return the headline of an estimate; `raw` is the raw variance ratio."""
    ratio = ratio_at(estimate, 0.5)
    return Headline(
        ratio=ratio,
        sd_ratio=ratio**0.5,
        interval=interval_of(estimate, level),
        p=two_sided_p(estimate),
        method=method,
        why=why,
        above_1=estimate.above(0.0),
        above_2=estimate.above(log(2.0)),
        equivalence=equivalence,
        raw_ratio=raw,
        shrunken=shrunken(estimate, level),
    )


def shrunken(estimate: LogRatioEstimate, level: float) -> Shrunken:
    """Return the ratio under a normal prior of its logarithm, with mean 0 and sd 1."""
    found = estimate.distribution().with_prior(1.0)
    ratio, above = ratio_at(found, 0.5), found.above
    return Shrunken(ratio, interval_of(found, level), above(0.0), above(log(2.0)))


def _raw_ratio(group: Group, baseline: Group) -> float | None:
    if not (group.has_spread and baseline.has_spread):
        return None
    return group.within_variance / baseline.within_variance


def why_model(found: RobustRatio) -> str:
    """Explain why the model is the headline, and how it used the design."""
    why = "heavy tails are modeled, seeds are counted; for its error rates, see seedspread docs statistics"
    if found.pairs:
        why += f"; the {found.pairs} shared seeds are used as pairs"
    elif found.note:
        why += f"; {found.note}"
    if found.blocks > 1:
        why += "; the ratio is within cells, so that block means do not count as spread"
    return why


def as_test(headline: Headline) -> TestResult:
    modeled = headline.method == MODEL
    return TestResult(
        key="headline",
        name=headline.method,
        about="spread",
        why=headline.why,
        assumes="independent seeds" + ("; one shape for both groups, near a Student t" if modeled else ""),
        p=headline.p,
        estimate=headline.ratio if headline.interval is not None else None,
        interval=headline.interval,
        note="" if headline.interval is not None else headline.why,
    )
