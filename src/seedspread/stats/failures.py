"""How often runs fail, and how much the sound ones spread: two questions that one variance mixes."""

import numpy as np

from seedspread.stats.arms import Arm
from seedspread.stats.collapse import exact_interval, find_suspects, fisher_p
from seedspread.stats.outcomes import Better, Estimate, FailureModel
from seedspread.stats.result import Interval
from seedspread.stats.scale.ratio import scale_ratio


def failures(
    arm: Arm,
    baseline: Arm,
    better: Better,
    chance: float | None,
    level: float,
    full_scale: float | None = None,
    pairs: bool = True,
) -> FailureModel | None:
    """Failure rates and the spread of the sound runs; None where no run failed and no arm falls apart.

    Args:
        arm: one arm.
        baseline: the other.
        better: which direction of the values is better.
        chance: what a run that learnt nothing scores, if known.
        level: of the intervals.
        full_scale: see `collapse.no_better`.
        pairs: whether a seed of the same number is the same seed in both arms.
    """
    suspects, failed, clusters = find_suspects(arm, baseline, better, chance, full_scale)
    if not failed and not clusters:
        return None
    (x, n), (y, m) = ((len(s.all), s.seeds) for s in suspects)
    first, second = (side.without(s.all) for side, s in zip((arm, baseline), suspects, strict=True))
    sound = scale_ratio(first, second, level, pairs)
    return FailureModel(
        kind="both" if failed and clusters else "failed" if failed else "clusters",
        groups=(arm.name, baseline.name),
        failed=(x, y),
        crashed=(len(arm.crashed), len(baseline.crashed)),
        seeds=(n, m),
        rates=(Estimate(x / n, exact_interval(x, n, level)), Estimate(y / m, exact_interval(y, m, level))),
        difference=difference_of_rates((x, n), (y, m), level),
        p=fisher_p((x, n), (y, m)),
        sound_seeds=(n - x, m - y),
        sound_ratio=None if sound.ratio is None else Estimate(sound.ratio, sound.interval),
        sound_p=sound.p,
    )


def difference_of_rates(first: tuple[int, int], second: tuple[int, int], level: float) -> Estimate:
    """From (count, of): distances to the ends of two exact intervals, squared and added (Zou, Donner 2008).

    As they are, it is conservative: it agrees with Fisher's test nearly always, where Newcombe's does not.
    """
    (p, q), (a, b) = (
        (k / n for k, n in (first, second)),
        (exact_interval(*o, level) for o in (first, second)),
    )
    low = p - q - np.hypot(p - a.low, b.high - q)
    return Estimate(p - q, Interval(float(low), float(p - q + np.hypot(a.high - p, q - b.low)), level))
