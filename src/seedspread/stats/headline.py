"""The headline of a comparison: which estimate it is, and all that it says."""

from collections.abc import Sequence
from dataclasses import replace
from math import log

from seedspread.stats.arms import Arm
from seedspread.stats.estimate import Estimate, FromJackknife, FromPosterior, interval_of, ratio_at
from seedspread.stats.result import Headline, Looks, TestResult
from seedspread.stats.robust import seed_jackknife
from seedspread.stats.scale.ratio import MOST_SEEDS, ScaleRatio, scale_ratios
from seedspread.stats.sequential.looks import AtLook, nominal

# The model takes milliseconds a comparison; with more of them the seed jackknife stands in.
MOST_MODELLED = 500
MODEL = "scale ratio (Student t)"


def headlines(
    pairs: Sequence[tuple[Arm, Arm]], level: float, equivalence: float, looks: Looks | None = None
) -> list[tuple[Headline, Estimate | None]]:
    """Of each arm and its baseline; the estimate behind it is None where there is no ratio.

    Args:
        pairs: arms with their baselines.
        level: of the intervals.
        equivalence: by which factor variances may differ and count as alike.
        looks: to count, where the arms grow and are judged again and again.
    """
    if len(pairs) > MOST_MODELLED:
        found = [_by_jackknife(arm, baseline, level, equivalence) for arm, baseline in pairs]
        return [_counting(looks, *each, level) for each in found]
    small = [pair for pair in pairs if not is_large(*pair)]
    modelled = iter(scale_ratios(small, level if looks is None else 1 - nominal(looks, 1 - level)))
    found = [
        _by_jackknife(*pair, level, equivalence)
        if is_large(*pair)
        else _by_model(next(modelled), *pair, level, equivalence)
        for pair in pairs
    ]
    return [_counting(looks, *each, level) for each in found]


def _counting(
    looks: Looks | None, headline: Headline, estimate: Estimate | None, level: float
) -> tuple[Headline, Estimate | None]:
    """With p, interval and bounds that count the looks; probabilities are the model's, whoever looks."""
    if looks is None:
        return headline, estimate
    if estimate is None:
        return replace(headline, looks=looks), None
    at = AtLook(estimate, looks)
    counted = replace(
        headline,
        interval=interval_of(at, level),
        p=two_sided_p(at),
        at_least=ratio_at(at, 1 - level),
        at_most=ratio_at(at, level),
        why=f"{headline.why}; p, interval and bounds count the looks",
        looks=looks,
    )
    return counted, at


def is_large(arm: Arm, baseline: Arm) -> bool:
    """Whether there are so many seeds that no model is needed, nor affordable."""
    return max(len(arm.seed_codes), len(baseline.seed_codes)) > MOST_SEEDS


def _by_model(
    found: ScaleRatio, arm: Arm, baseline: Arm, level: float, equivalence: float
) -> tuple[Headline, Estimate | None]:
    plain = _plain_ratio(arm, baseline)
    if found.posterior is None:
        return without_estimate(MODEL, found.note, plain), None
    estimate = FromPosterior(found.posterior)
    headline = headline_from(estimate, MODEL, why_model(found), level, equivalence, plain)
    unpaired = None if found.unpaired is None else replace(found.unpaired, level=level)
    return replace(headline, pairs=found.pairs, unpaired=unpaired, tails=found.nu), estimate


def _by_jackknife(
    arm: Arm, baseline: Arm, level: float, equivalence: float
) -> tuple[Headline, Estimate | None]:
    test = seed_jackknife(arm, baseline, level)
    if test.estimate is None or test.std_error is None:
        return without_estimate(test.name, test.note, _plain_ratio(arm, baseline)), None
    estimate = FromJackknife(log(test.estimate), test.std_error, test.df[0])
    why = "it stands in for the model, which is for fewer comparisons or seeds; pairs are not used"
    return headline_from(estimate, test.name, why, level, equivalence, test.estimate), estimate


def without_estimate(method: str, note: str, plain: float | None) -> Headline:
    """There may be a ratio where nothing can be said of its error."""
    return Headline(plain, None if plain is None else plain**0.5, None, None, method, note, plain_ratio=plain)


def headline_from(
    estimate: Estimate, method: str, why: str, level: float, equivalence: float, plain: float | None
) -> Headline:
    """All that is said of an estimate; `plain` is the ratio of the plain variances."""
    ratio, above_1 = ratio_at(estimate, 0.5), estimate.above(0.0)
    beyond = estimate.below(-log(equivalence)) + estimate.above(log(equivalence))
    return Headline(
        ratio=ratio,
        sd_ratio=ratio**0.5,
        interval=interval_of(estimate, level),
        p=two_sided_p(estimate),
        method=method,
        why=why,
        above_1=above_1,
        above_2=estimate.above(log(2.0)),
        below_half=estimate.below(-log(2.0)),
        at_least=ratio_at(estimate, 1 - level),
        at_most=ratio_at(estimate, level),
        equivalence=equivalence,
        within=1 - beyond,
        plain_ratio=plain,
    )


def two_sided_p(estimate: Estimate) -> float:
    """Twice the smaller tail about a ratio of 1."""
    return min(2 * min(estimate.above(0.0), estimate.below(0.0)), 1.0)


def _plain_ratio(arm: Arm, baseline: Arm) -> float | None:
    if not (arm.has_spread and baseline.has_spread):
        return None
    return arm.within_variance / baseline.within_variance


def why_model(found: ScaleRatio) -> str:
    """Why the model is the headline, and what it made of the design."""
    why = "tails are modelled, the seed is the unit, error rates are known (seedspread docs statistics)"
    if found.pairs:
        why += f"; the {found.pairs} seeds that both arms have are used as pairs"
    elif found.note:
        why += f"; {found.note}"
    if found.blocks > 1:
        why += "; the ratio is within cells, so that block means do not count as spread"
    return why


def as_test(headline: Headline) -> TestResult:
    """The headline as a line among the tests."""
    modelled = headline.method == MODEL
    return TestResult(
        key="scale_ratio" if modelled else "seed_jackknife",
        name=headline.method,
        about="spread",
        why=headline.why,
        assumes="independent seeds; arms of one shape"
        + (", which a Student t describes" if modelled else ""),
        p=headline.p,
        estimate=headline.ratio if headline.interval is not None else None,
        interval=headline.interval,
        note="" if headline.interval is not None else headline.why,
    )
