"""The verdict: one rule for the word, the interval and the p value of every comparison.

Comparisons that are asked together are adjusted together (Bonferroni), word and interval alike, so that
words, tables and pictures cannot disagree and the intervals hold simultaneously.

- YES: the adjusted p is below 1 - level, so the interval excludes 1, and no doubt remains (`doubts`).
- NO: otherwise, if neither variance is more than k times the other, by both one-sided tests, adjusted alike.
- MAYBE: p is below 1 - level, but a doubt remains; or the adjusted p is below four times 1 - level.
- CAN'T TELL: everything else, and whenever a group has too few seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from math import exp, log

import numpy as np
from scipy.special import logit, ndtri

from seedspread.analysis.audit_result import Average, Comparison
from seedspread.analysis.samples import Pair, Strip
from seedspread.runs.levels import Levels, group_name
from seedspread.runs.metrics import Metric
from seedspread.stats.dispersion import FEWEST_IN_CELL, Dispersion, pooled_sd, sd_of
from seedspread.stats.distributions import chi2_sf
from seedspread.stats.failures import failures
from seedspread.stats.groups import Floats, Group
from seedspread.stats.headline import extreme_seed, headlines
from seedspread.stats.meta import random_effects
from seedspread.stats.result import Doubt, Headline, InterimLook, Interval, ManyGroups, Scale, Word
from seedspread.stats.variance_ratio import FromJackknife, LogRatioEstimate, interval_of

# How many times as large as 1 - level a p value may be for MAYBE.
_MAYBE = 4
# A scale bends a group's values if its slope differs by this factor among them, and two groups if it differs
# by this factor between their medians.
_BENT, _BENT_BETWEEN = 3.0, 1.5
# With fewer groups, every pair is readable.
_MANY = 4


@dataclass(frozen=True)
class Judged:
    """A headline with the interval that decides, its adjusted p value, and the verdict."""

    headline: Headline
    p_adjusted: float | None
    word: Word
    doubts: tuple[Doubt, ...] = ()


def judged(
    headlines: Sequence[Headline], estimates: Sequence[LogRatioEstimate | None], level: float
) -> list[Judged]:
    """Judge headlines that answer one question together; one without an estimate does not count."""
    family = sum(estimate is not None for estimate in estimates)
    return [_judge(h, e, family, 1 - level) for h, e in zip(headlines, estimates, strict=True)]


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p values multiplied by their number (Bonferroni); missing ones do not count."""
    family = sum(p is not None for p in p_values)
    return [None if p is None else min(family * p, 1.0) for p in p_values]


def word_of(p: float, alpha: float = 0.05) -> Word:
    """Return the verdict that follows from an adjusted p value alone."""
    return "YES" if p < alpha else "MAYBE" if p < _MAYBE * alpha else "CAN'T TELL"


def _judge(headline: Headline, estimate: LogRatioEstimate | None, family: int, alpha: float) -> Judged:
    if estimate is None or headline.p is None:
        return Judged(headline, None, "CAN'T TELL")
    p = min(family * headline.p, 1.0)
    word, tails = word_of(p, alpha), 1
    if word != "YES" and family * beyond(estimate, headline.equivalence) < alpha:
        word, tails = "NO", 2  # two one-sided tests at alpha: the interval that decides has level 1 - 2 alpha
    interval = replace(interval_of(estimate, 1 - tails * alpha / family), level=1 - tails * alpha)
    return Judged(replace(headline, adjusted_interval=interval), p, word)


def beyond(estimate: LogRatioEstimate, factor: float | None) -> float:
    """Return the p value of a difference by more than `factor`: the larger of two one-sided p values."""
    return 1.0 if factor is None else max(estimate.below(-log(factor)), estimate.above(log(factor)))


@dataclass(frozen=True)
class Doubter:
    """Checks whether a verdict survives: without its extreme seed, apart from clusters, on another scale."""

    metric: Metric  # metric of the values; its unit determines their natural scale
    level: float  # of the intervals
    equivalence: float  # factor by which variances may differ and still count as alike
    looks: InterimLook | None  # the interim look that is judged, if any
    seed_names: Mapping[int, str]  # by code
    chance: float | None = None  # score of a run that learned nothing, if known

    def doubted(self, pairs: Sequence[Pair], answers: Sequence[Judged]) -> list[Judged]:
        """Return the answers with their doubts; a YES that does not survive one of them becomes MAYBE."""
        family = sum(a.p_adjusted is not None for a in answers)
        asked = [
            (k, doubt, groups)
            for k, (pair, answer) in enumerate(zip(pairs, answers, strict=True))
            if answer.p_adjusted is not None
            for doubt, groups in (*self._without_extreme(pair, answer), *self._on_natural_scale(pair, answer))
        ]
        groups = [groups for *_, groups in asked]
        found = headlines(groups, self.level, self.equivalence, self.looks, fewest=0)
        out = [list(self._clusters(p, a, family)) for p, a in zip(pairs, answers, strict=True)]
        for (k, doubt, _), (headline, estimate) in zip(asked, found, strict=True):
            again = _judge(headline, estimate, family, 1 - self.level)
            if _verdict(again) != _verdict(answers[k]):
                out[k].append(replace(doubt, ratio=headline.ratio, p=again.p_adjusted, word=again.word))
        return [
            replace(a, word="MAYBE" if a.word == "YES" and any(d.lowers for d in doubts) else a.word,
                    doubts=tuple(doubts))
            for a, doubts in zip(answers, out, strict=True)
        ]  # fmt: skip

    def _without_extreme(self, pair: Pair, answer: Judged) -> list[tuple[Doubt, tuple[Group, Group]]]:
        """Leave out the extreme seed of the wider group, if it is an outlier or the shapes differ."""
        if answer.word != "YES":
            return []
        wider = pair.group if (answer.headline.ratio or 1.0) > 1 else pair.baseline
        code, is_outlier = extreme_seed(wider)
        if not (is_outlier or answer.headline.unlike):
            return []
        sides = (pair.group, pair.baseline) if answer.headline.pairs else (wider,)
        first, second = (
            g.without(np.array([code])) if any(g is side for side in sides) else g
            for g in (pair.group, pair.baseline)
        )
        return [(Doubt("seed", self.seed_names.get(code, str(code)), wider.name), (first, second))]

    def _on_natural_scale(self, pair: Pair, answer: Judged) -> list[tuple[Doubt, tuple[Group, Group]]]:
        """Judge on the log or logit scale, if that would bend the values; values at a bound are left out."""
        values = np.concatenate([pair.group.values, pair.baseline.values])
        full = self.metric.full_scale
        bounded = full is not None and values.min() >= 0 and values.max() <= full
        if (not bounded and values.min() <= 0) or self.metric.name.startswith(("log(", "logit(")):
            return []
        scale: Scale = "logit" if bounded else "log"
        top = (full or 1.0) if bounded else np.inf
        groups = [
            g.without(g.seeds[(g.values <= 0) | (g.values >= top)]) for g in (pair.group, pair.baseline)
        ]
        if any(len(g.values) == 0 for g in groups):
            return [(Doubt("scale", scale), (groups[0], groups[1]))] if answer.word == "YES" else []
        slopes = [1 / (g.values * (1 - g.values / top)) for g in groups]
        bent = max(float(s.max() / s.min()) for s in slopes) > _BENT
        bent = bent or sum(len(g.values) for g in groups) < len(values)
        medians = sorted(float(np.median(s)) for s in slopes)
        if not bent and medians[1] / medians[0] < _BENT_BETWEEN:
            return []
        first, second = (replace(g, values=on_scale(g.values, scale, top)) for g in groups)
        return [(Doubt("scale", scale, lowers=bent), (first, second))]

    def _clusters(self, pair: Pair, answer: Judged, family: int) -> list[Doubt]:
        """Doubt a YES about two clusters if neither their rates nor the spread of the better one differ."""
        if answer.word != "YES":
            return []
        found = failures(
            pair.group, pair.baseline, self.metric.better, self.chance, self.level, self.metric.full_scale
        )
        if found is None or family * min(found.p, found.successful_p or 1.0) < 1 - self.level:
            return []
        return [Doubt("clusters", p=found.p)]


def _verdict(answer: Judged) -> tuple[bool, bool]:
    return answer.word == "YES", answer.word == "YES" and (answer.headline.ratio or 1.0) > 1


def on_scale(values: Floats, scale: Scale, full_scale: float = 1.0) -> Floats:
    """Return values on the log scale, or values between 0 and `full_scale` on the logit scale."""
    return np.log(values) if scale == "log" else np.asarray(logit(values / full_scale))


def averages(
    comparisons: Sequence[Comparison],
    level: float,
    strips: Sequence[Strip] = (),
    estimates: Sequence[LogRatioEstimate | None] | None = None,
) -> tuple[Average, ...]:
    """Return an average per pair that occurs in several datasets: within one, comparisons share runs.

    A dataset that repeats runs (`strips`) of an earlier one is left out. Without `estimates` of the
    comparisons, normal ones with the headlines' intervals are used.
    """
    repeated = repeated_runs(strips)
    pairs: dict[tuple[str, str], list[tuple[Comparison, LogRatioEstimate | None]]] = {}
    for c, estimate in zip(comparisons, estimates or repeat(None), strict=estimates is not None):
        if not {(c.stratum, c.group), (c.stratum, c.baseline)} & repeated.keys():
            # Interim looks widen the headline's interval, not the distribution of its estimate.
            own = estimate if c.headline.looks is None else None
            pairs.setdefault((c.group, c.baseline), []).append((c, own))
    found = [_average(strata, level) for strata in pairs.values()]
    return tuple(average for average in found if average is not None)


def many_groups(groups: Sequence[Group], level: float, equivalence: float) -> ManyGroups | None:
    """Judge whether groups share one sd; None if fewer than `_MANY` have enough seeds and some spread."""
    able = [group for group in groups if group.has_sd(FEWEST_IN_CELL)]
    if len(able) < _MANY:
        return None
    fit = Dispersion(able)
    p = fit.p_left_over
    word = word_of(p, 1 - level)
    # 95% of a normal sample lie within 1.96 sds of their mean.
    if word != "YES" and 1.96 * fit.variation_between(level) < log(equivalence):
        word = "NO"
    found = ManyGroups(len(able), p, word, equivalence, sd_of(pooled_sd(able), level))
    apart = able[int(np.abs(np.log(fit.means / fit.fitted) * fit.counts**0.5).argmax())]
    others = [group for group in able if group is not apart]
    p_others = Dispersion(others).p_left_over
    if word != "YES" or p_others < 1 - level:
        return found
    name, own = group_name(apart.factor, apart.name), apart.within_variance**0.5
    sd = sd_of(pooled_sd(others), level)
    return replace(found, sd=sd, stands_out=name, stands_out_sd=own, p_others=p_others)


def repeated_runs(strips: Sequence[Strip]) -> dict[tuple[Levels, str], Levels]:
    """Return the strata and groups that reuse the runs of an earlier stratum, and which that is.

    A factor that makes no difference to runs repeats them in each of its levels: ratios are not independent.
    """
    first: dict[tuple[object, ...], Levels] = {}
    repeated = {}
    for strip in strips:
        runs = tuple(sorted(zip(strip.seeds, strip.blocks, strip.values, strict=True)))
        earlier = first.setdefault((strip.group, runs), strip.stratum)
        if earlier != strip.stratum and len(set(strip.values)) > 1:
            repeated[strip.stratum, strip.group] = earlier
    return repeated


def _average(
    comparisons: Sequence[tuple[Comparison, LogRatioEstimate | None]], level: float
) -> Average | None:
    usable = []
    for c, own in comparisons:
        ratio, i = c.headline.ratio, c.headline.interval
        if ratio is not None and i is not None and 0 < i.low < i.high < np.inf:
            # The standard error of a normal distribution with the same interval.
            error = np.log(i.high / i.low) / (2 * ndtri((1 + i.level) / 2))
            normal = FromJackknife(float(np.log(ratio)), float(error), np.inf)
            usable.append((c, normal.log_ratio, normal.std_error, own or normal))
    if len(usable) < 2:
        return None
    rated, logs, errors, estimates = zip(*usable, strict=True)
    mean, df = random_effects(estimates, level), len(logs) - 1
    q, p = heterogeneity(np.array(logs), np.array(errors))
    return Average(
        group=rated[0].group,
        baseline=rated[0].baseline,
        titles=tuple(c.title for c in rated),
        log_ratios=logs,
        standard_errors=errors,
        q=q,
        df=df,
        p=p,
        i_squared=max(0.0, 1 - df / q) if q > 0 else 0.0,
        pooled=exp(min(mean.log_ratio, 700.0)),
        interval=_of_ratio(mean.interval),
        tau=mean.tau,
        pooled_p=mean.p,
        prediction=_of_ratio(mean.prediction),
    )


def _of_ratio(logs: Interval) -> Interval:
    low, high = (exp(min(end, 700.0)) for end in (logs.low, logs.high))  # exp overflows beyond
    return Interval(low, high, logs.level)


def heterogeneity(effects: Floats, errors: Floats) -> tuple[float, float]:
    weights = 1 / errors**2
    q = float((weights * (effects - np.average(effects, weights=weights)) ** 2).sum())
    return q, float(chi2_sf(q, len(effects) - 1))
