"""The headline of a comparison: the variance ratio to report, by the model or by the seed jackknife."""

from collections.abc import Sequence
from dataclasses import replace
from math import log

from seedspread.stats.classic import seed_jackknife
from seedspread.stats.groups import Group
from seedspread.stats.result import Headline, InterimLook, TestResult
from seedspread.stats.sequential import AtLook, nominal_level
from seedspread.stats.variance_ratio import (
    MOST_SEEDS,
    FromJackknife,
    FromPosterior,
    LogRatioEstimate,
    RobustRatio,
    interval_of,
    ratio_at,
    robust_ratios,
)

# The model takes milliseconds per comparison; with more of them the seed jackknife stands in.
MOST_MODELLED = 500
MODEL = "scale ratio (Student t)"


def headlines(
    pairs: Sequence[tuple[Group, Group]], level: float, equivalence: float, looks: InterimLook | None = None
) -> list[tuple[Headline, LogRatioEstimate | None]]:
    """Return the headline of each group and its baseline, and its estimate: None if there is no ratio.

    Args:
        pairs: groups with their baselines.
        level: of the intervals.
        equivalence: factor by which variances may differ and still count as alike.
        looks: the interim look at a growing study, for which p, interval and bounds are adjusted.
    """
    few = len(pairs) <= MOST_MODELLED
    modelled = [few and not is_large(*pair) for pair in pairs]
    at_level = level if looks is None else 1 - nominal_level(looks, 1 - level)
    small = [pair for pair, is_modelled in zip(pairs, modelled, strict=True) if is_modelled]
    ratios = iter(robust_ratios(small, at_level))
    found = [
        _by_model(next(ratios), *pair, level, equivalence)
        if is_modelled
        else _by_jackknife(*pair, level, equivalence)
        for pair, is_modelled in zip(pairs, modelled, strict=True)
    ]
    return found if looks is None else [_adjusted(looks, *each, level) for each in found]


def _adjusted(
    looks: InterimLook, headline: Headline, estimate: LogRatioEstimate | None, level: float
) -> tuple[Headline, LogRatioEstimate | None]:
    """Adjust p, interval and bounds for interim looks; probabilities stay the model's."""
    if estimate is None:
        return replace(headline, looks=looks), None
    at = AtLook(estimate, looks)
    adjusted = replace(
        headline,
        interval=interval_of(at, level),
        p=two_sided_p(at),
        at_least=ratio_at(at, 1 - level),
        at_most=ratio_at(at, level),
        why=f"{headline.why}; p, interval and bounds count the looks",
        looks=looks,
    )
    return adjusted, at


def is_large(group: Group, baseline: Group) -> bool:
    """Return whether there are so many seeds that the model is neither needed nor affordable."""
    return max(len(group.seed_codes), len(baseline.seed_codes)) > MOST_SEEDS


def _by_model(
    found: RobustRatio, group: Group, baseline: Group, level: float, equivalence: float
) -> tuple[Headline, LogRatioEstimate | None]:
    plain = _plain_ratio(group, baseline)
    if found.posterior is None:
        return without_estimate(MODEL, found.note, plain), None
    estimate = FromPosterior(found.posterior)
    headline = headline_from(estimate, MODEL, why_model(found), level, equivalence, plain)
    unpaired = None if found.unpaired is None else replace(found.unpaired, level=level)
    return replace(headline, pairs=found.pairs, unpaired=unpaired, tails=found.nu), estimate


def _by_jackknife(
    group: Group, baseline: Group, level: float, equivalence: float
) -> tuple[Headline, LogRatioEstimate | None]:
    test = seed_jackknife(group, baseline, level)
    if test.estimate is None or test.std_error is None:
        return without_estimate(test.name, test.note, _plain_ratio(group, baseline)), None
    estimate = FromJackknife(log(test.estimate), test.std_error, test.df[0])
    why = "it stands in for the model, which is for fewer comparisons or seeds; pairs are not used"
    return headline_from(estimate, test.name, why, level, equivalence, test.estimate), estimate


def without_estimate(method: str, note: str, plain: float | None) -> Headline:
    """Return a headline that has at most a raw ratio, and no interval."""
    return Headline(plain, None if plain is None else plain**0.5, None, None, method, note, plain_ratio=plain)


def headline_from(
    estimate: LogRatioEstimate, method: str, why: str, level: float, equivalence: float, plain: float | None
) -> Headline:
    """Return the headline of an estimate; `plain` is the raw variance ratio."""
    ratio = ratio_at(estimate, 0.5)
    beyond = estimate.below(-log(equivalence)) + estimate.above(log(equivalence))
    return Headline(
        ratio=ratio,
        sd_ratio=ratio**0.5,
        interval=interval_of(estimate, level),
        p=two_sided_p(estimate),
        method=method,
        why=why,
        above_1=estimate.above(0.0),
        above_2=estimate.above(log(2.0)),
        below_half=estimate.below(-log(2.0)),
        at_least=ratio_at(estimate, 1 - level),
        at_most=ratio_at(estimate, level),
        equivalence=equivalence,
        within=1 - beyond,
        plain_ratio=plain,
    )


def two_sided_p(estimate: LogRatioEstimate) -> float:
    """Return twice the smaller tail about a ratio of 1."""
    return min(2 * min(estimate.above(0.0), estimate.below(0.0)), 1.0)


def _plain_ratio(group: Group, baseline: Group) -> float | None:
    if not (group.has_spread and baseline.has_spread):
        return None
    return group.within_variance / baseline.within_variance


def why_model(found: RobustRatio) -> str:
    """Explain why the model is the headline, and how it used the design."""
    why = "tails are modelled, the seed is the unit, error rates are known (seedspread docs statistics)"
    if found.pairs:
        why += f"; the {found.pairs} seeds that both arms have are used as pairs"
    elif found.note:
        why += f"; {found.note}"
    if found.blocks > 1:
        why += "; the ratio is within cells, so that block means do not count as spread"
    return why


def as_test(headline: Headline) -> TestResult:
    """Return the headline as one of the tests."""
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
