"""What may be said: one rule for the word, the adjusted interval and the p value of every comparison.

With several comparisons, p values are Holm's and intervals are as wide as that makes them, so that words,
tables and pictures cannot disagree.

- *shown*: the adjusted p is below 1 - level; the interval leaves out 1.
- *shown to be small*: not that, but neither variance is more than k times the other, with p adjusted alike.
- *suggested*: neither, but the adjusted p is below four times that: ten to one for one direction, at least.
- *open*: the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from scipy import optimize, stats

from seedspread.analysis.audit_result import Comparison, Forest
from seedspread.analysis.samples import Strip
from seedspread.runs.levels import Levels
from seedspread.stats.groups import Floats
from seedspread.stats.result import Headline, Interval, Word
from seedspread.stats.variance_ratio import LogRatioEstimate, interval_of

# How many times the level a p value may be to suggest something.
_SUGGESTED = 4


@dataclass(frozen=True)
class Judged:
    """A headline with its adjusted interval, its adjusted p value, and the word."""

    headline: Headline
    p_holm: float | None
    word: Word | None


def judged(
    headlines: Sequence[Headline], estimates: Sequence[LogRatioEstimate | None], level: float
) -> list[Judged]:
    """What may be said of headlines that are asked for together, and what they rest on."""
    p_values = [h.p for h in headlines]
    small = [_too_large(e, h.equivalence) for h, e in zip(headlines, estimates, strict=True)]
    rows = zip(headlines, estimates, holm(p_values), holm(small), holm_factors(p_values), strict=True)
    return [
        Judged(_widened(h, estimate, factor, level), p, word(p, p_small, 1 - level))
        for h, estimate, p, p_small, factor in rows
    ]


def word(p: float | None, p_small: float | None, alpha: float) -> Word | None:
    """What p values, each adjusted over all comparisons, allow to say."""
    if p is None:
        return None
    if p < alpha:
        return "shown"
    if p_small is not None and p_small < alpha:
        return "shown to be small"
    return "suggested" if p < _SUGGESTED * alpha else "open"


def _too_large(estimate: LogRatioEstimate | None, factor: float | None) -> float | None:
    """The p value of a difference by more than `factor`: the larger of two one-sided ones."""
    if estimate is None or factor is None:
        return None
    return max(estimate.below(-log(factor)), estimate.above(log(factor)))


def _widened(headline: Headline, estimate: LogRatioEstimate | None, factor: float, level: float) -> Headline:
    """The interval at the level at which it meets 1 exactly where Holm's p meets 1 - level."""
    if estimate is None:
        return headline
    interval = interval_of(estimate, 1 - (1 - level) / factor)
    return replace(headline, adjusted_interval=replace(interval, level=level))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p values; a comparison without a p value is not one of the family."""
    factors = holm_factors(p_values)
    return [None if p is None else min(p * f, 1.0) for p, f in zip(p_values, factors, strict=True)]


def holm_factors(p_values: Sequence[float | None]) -> list[float]:
    """By how much Holm multiplies each p value, before it is cut off at 1; 1 where there is none."""
    tested = np.array([p for p in p_values if p is not None], dtype=float)
    order = np.argsort(tested, kind="stable")
    counts = np.arange(len(tested), 0, -1.0)
    adjusted = np.maximum.accumulate(counts * tested[order])
    factors = np.empty(len(tested))
    factors[order] = np.divide(adjusted, tested[order], out=counts, where=tested[order] > 0)
    found = iter(factors)
    return [1.0 if p is None else float(next(found)) for p in p_values]


def forests(
    comparisons: Sequence[Comparison], level: float, strips: Sequence[Strip] = ()
) -> tuple[Forest, ...]:
    """One for each arm and its baseline that meet in several strata: within one, comparisons share runs.

    Args:
        comparisons: of all strata.
        level: of the intervals.
        strips: the runs; a stratum that repeats those of an earlier one is left out.
    """
    repeated = repeated_runs(strips)
    pairs: dict[tuple[str, str], list[Comparison]] = {}
    for c in comparisons:
        if not {(c.stratum, c.group), (c.stratum, c.baseline)} & repeated.keys():
            pairs.setdefault((c.group, c.baseline), []).append(c)
    found = [_forest(strata, level) for strata in pairs.values()]
    return tuple(forest for forest in found if forest is not None)


def repeated_runs(strips: Sequence[Strip]) -> dict[tuple[Levels, str], Levels]:
    """Strata and groups whose runs are those of an earlier stratum, and which that is.

    Runs that a factor makes no difference to stand in each of its levels: their ratios are not independent.
    """
    first: dict[tuple[object, ...], Levels] = {}
    repeated = {}
    for strip in strips:
        runs = tuple(sorted(zip(strip.seeds, strip.blocks, strip.values, strict=True)))
        earlier = first.setdefault((strip.group, runs), strip.stratum)
        if earlier != strip.stratum and len(set(strip.values)) > 1:
            repeated[strip.stratum, strip.group] = earlier
    return repeated


def _forest(comparisons: list[Comparison], level: float) -> Forest | None:
    usable = [(c, log, error) for c in comparisons for log, error in _log_ratio(c)]
    if len(usable) < 2:
        return None
    logs, errors = (np.array([row[k] for row in usable]) for k in (1, 2))
    mean = random_effects(logs, errors, level)
    q, p = heterogeneity(logs, errors)
    df = len(logs) - 1
    first = usable[0][0]
    return Forest(
        group=first.group,
        baseline=first.baseline,
        titles=tuple(c.title for c, _, _ in usable),
        log_ratios=tuple(map(float, logs)),
        standard_errors=tuple(map(float, errors)),
        q=q,
        df=df,
        p=p,
        i_squared=max(0.0, 1 - df / q) if q > 0 else 0.0,
        pooled=float(np.exp(mean.mean)),
        interval=Interval(float(np.exp(mean.low)), float(np.exp(mean.high)), level),
        tau=mean.tau,
        pooled_p=mean.p,
    )


def _log_ratio(c: Comparison) -> list[tuple[float, float]]:
    """The headline's log ratio and its standard error, which a normal with the same interval would have."""
    ratio, interval = c.headline.ratio, c.headline.interval
    if ratio is None or interval is None or not 0 < interval.low < interval.high < np.inf:
        return []
    z = 2 * stats.norm.ppf((1 + interval.level) / 2)
    return [(float(np.log(ratio)), float(np.log(interval.high / interval.low) / z))]


def heterogeneity(effects: Floats, errors: Floats) -> tuple[float, float]:
    """Cochran's Q and its p value."""
    weights = 1 / errors**2
    q = float((weights * (effects - np.average(effects, weights=weights)) ** 2).sum())
    return q, float(stats.chi2.sf(q, len(effects) - 1))


@dataclass(frozen=True)
class RandomEffects:
    """The mean of effects that differ among themselves, its interval and p value, and their spread `tau`."""

    mean: float
    low: float
    high: float
    p: float
    tau: float


def random_effects(effects: Floats, errors: Floats, level: float) -> RandomEffects:
    """By restricted maximum likelihood; the wider of Hartung and Knapp's interval and the usual normal one.

    The first alone can be narrower than if all effects were known to be equal, when a few happen to agree.

    J. Hartung and G. Knapp, On tests of the overall treatment effect in meta-analysis with normally
    distributed responses, Statistics in Medicine 20 (2001) 1771-1782.
    S. Wiksten, G. Ruecker and G. Schwarzer, Hartung-Knapp method is not always conservative compared with
    fixed-effect meta-analysis, Statistics in Medicine 35 (2016) 2503-2515.
    """
    tau2 = _restricted_ml(effects, errors**2)
    weights = 1 / (errors**2 + tau2)
    mean = float(np.average(effects, weights=weights))
    df = len(effects) - 1
    usual = float(weights.sum() ** -0.5)
    scatter = float(((weights * (effects - mean) ** 2).sum() / df) ** 0.5)
    t, z = float(stats.t.ppf((1 + level) / 2, df)), float(stats.norm.ppf((1 + level) / 2))
    half = usual * max(t * scatter, z)
    p = 2 * float(stats.norm.sf(abs(mean) / usual))
    if scatter > 0:
        p = max(p, 2 * float(stats.t.sf(abs(mean) / (usual * scatter), df)))
    return RandomEffects(mean, mean - half, mean + half, p, float(np.sqrt(tau2)))


def _restricted_ml(effects: Floats, variances: Floats) -> float:
    """The variance over strata that maximises the restricted likelihood; 0 is allowed."""

    def lacking(root: float) -> float:
        weights = 1 / (variances + root**2)
        residuals = effects - np.average(effects, weights=weights)
        return float((weights * residuals**2).sum() - np.log(weights).sum() + np.log(weights.sum())) / 2

    # It may have several maxima: a grid finds the highest, a search within its cell the place.
    grid = np.linspace(0, 2 * np.ptp(effects), 101)
    best = int(np.argmin([lacking(root) for root in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, 100)]
    if ends[0] == ends[1]:
        return 0.0
    found = optimize.minimize_scalar(lacking, bounds=ends, method="bounded", options={"xatol": 1e-9})
    return 0.0 if lacking(0.0) <= found.fun else float(found.x**2)
