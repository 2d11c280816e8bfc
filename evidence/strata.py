"""Change of a variance ratio from one stratum of a study to another: the ratio of ratios."""

import math
from dataclasses import dataclass

import pandas as pd
from scipy import stats

from evidence.estimates import LEVEL, estimated, net_change, net_of
from evidence.findings import Finding, findings
from seedspread.analysis.audit import audit
from seedspread.analysis.audit_result import Average, Comparison
from seedspread.analysis.words import ends, p_phrase, two
from seedspread.runs.levels import setting_name
from seedspread.stats.result import Estimate, Interval
from seedspread.stats.variance_ratio import difference, interval_of, ratio_at, two_sided_p


@dataclass(frozen=True)
class Change:
    """Change of a variance ratio from one stratum to another.

    Attributes:
        group: the group whose ratio changes.
        first, second: names of the strata.
        ratio: the second stratum's ratio over the first's.
        interval: interval of this ratio.
        p: p value of no change.
        net: the change net of the test set, or None if predictions are missing.
    """

    group: str
    first: str
    second: str
    ratio: float
    interval: Interval
    p: float
    net: Estimate | None

    @property
    def values(self) -> dict[str, str]:
        """Numbers for the prose of the page."""
        low, high = two(self.interval.low), two(self.interval.high)
        gross = {"ratio": two(self.ratio), "low": low, "high": high, "p": p_phrase(self.p)}
        return gross | {"net": times(self.net)}

    def __str__(self) -> str:
        return (
            f"From {self.first} to {self.second} the ratio of {self.group} changes by a factor of "
            f"{two(self.ratio)} ({self.interval.level:.0%} interval {ends(self.interval)}, "
            f"{p_phrase(self.p)}), net of the test set by {times(self.net)}."
        )


def times(estimate: Estimate | None) -> str:
    """Return `0.30 (0.05 to 1.1)`."""
    if estimate is None:
        return "-"
    return two(estimate.value) + (f" ({ends(estimate.interval)})" if estimate.interval else "")


def change(found: Finding) -> Change | None:
    """Return the change between strata of a study with two strata and two groups; None for any other study.

    If both strata share the runs of one baseline, the change is the ratio of the group's own variances, which
    the headline compares. Otherwise the two log ratios are assumed to be independent and normal.
    """
    spec = found.study.audit
    if found.audit is None or spec is None or len(spec.strata) != 1 or len(found.audit.comparisons) != 2:
        return None
    (first,), (second,) = (c.stratum for c in found.audit.comparisons)
    group, factor = found.audit.comparisons[0].group, spec.strata[0]
    if found.audit.averages:
        ratio, interval, p = _of_average(found.audit.averages[0])
        before, after = found.audit.comparisons
        net: Estimate | None = net_change((found, before), (found, after))
    else:
        own = found.runs[found.runs[spec.group] == group]
        ratio, interval, p = _of_group(own, factor, first)
        net = net_of(own[own[factor] == second], own[own[factor] == first])
    names = [setting_name([(factor, level)]) for level in (first, second)]
    return Change(group, names[0], names[1], ratio, interval, p, net)


def _of_average(average: Average) -> tuple[float, Interval, float]:
    step = average.log_ratios[1] - average.log_ratios[0]
    error = math.hypot(*average.standard_errors)
    half = error * float(stats.norm.ppf((1 + average.interval.level) / 2))
    ends = Interval(math.exp(step - half), math.exp(step + half), average.interval.level)
    return math.exp(step), ends, 2 * float(stats.norm.sf(abs(step) / error))


def _of_group(runs: pd.DataFrame, factor: str, first: str) -> tuple[float, Interval, float]:
    columns = runs[[factor, "seed", "accuracy"]].assign(accuracy=100 * runs["accuracy"])
    headline = audit(columns, "accuracy", factor, first).comparisons[0].headline
    if headline.ratio is None or headline.interval is None or headline.p is None:
        raise ValueError(f"{factor} has no ratio")
    return headline.ratio, headline.interval, headline.p


def further(found: Finding) -> tuple[str, dict[str, str]] | None:
    """Return a study's planned second answer and its numbers for prose; None if it has none or lacks runs."""
    if not found.is_whole or found.audit is None:
        return None
    earlier = {one.name: one for one in findings()}
    if found.name == "longer":
        changed = _from_4_to_16_epochs(earlier["margin"], found)
        return str(changed), changed.values
    if found.name == "dose-again":
        c, net = _together(earlier["dose"], found)
        headline, ends_of = c.headline, c.headline.shown_interval
        if headline.ratio is None or ends_of is None or headline.p is None:
            raise ValueError("all 48 seeds have no ratio")
        numbers = {"ratio": two(headline.ratio), "low": two(ends_of.low), "high": two(ends_of.high)}
        text = f"All 48 seeds, not independent of the hint: {c.verdict}"
        return text, numbers | {"p": p_phrase(headline.p), "net": times(net)}
    return None


def _from_4_to_16_epochs(short: Finding, long: Finding) -> Change:
    """Return the change of the ratio of clamp over subtract from 4 to 16 epochs."""
    first, second = (
        (one, next(c for c in one.audit.comparisons if c.group == "clamp"))
        for one in (short, long)
        if one.audit is not None
    )
    step = difference(estimated(*second)[1], estimated(*first)[1])
    ratio, interval, p = ratio_at(step, 0.5), interval_of(step, LEVEL), two_sided_p(step)
    return Change("clamp", "4 epochs", "16 epochs", ratio, interval, p, net_change(first, second))


def _together(before: Finding, again: Finding) -> tuple[Comparison, Estimate | None]:
    """Compare the clamp at both margins over the seeds of both studies; also net of the test set."""
    runs = pd.concat([before.runs[before.runs["margin_type"] == "clamp"], again.runs])
    columns = runs[["margin_first", "seed", "accuracy"]].assign(accuracy=100 * runs["accuracy"])
    net = net_of(runs[runs["margin_first"] == "0.8"], runs[runs["margin_first"] == "0.4"])
    return audit(columns, "accuracy", "margin_first", "0.4").comparisons[0], net
