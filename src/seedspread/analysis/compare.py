"""One arm against its baseline: every number that an audit has of them."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from seedspread.analysis.comparison import Comparison
from seedspread.analysis.components.split import components_of
from seedspread.analysis.judgement import Judged
from seedspread.analysis.words import unlike_sentence, warnings
from seedspread.runs.levels import arm_name
from seedspread.runs.metrics import Better, Metric
from seedspread.runs.table import correct_predictions
from seedspread.stats import bootstrap, classic, permutation, robust
from seedspread.stats.arms import Arm, Floats, common_seeds
from seedspread.stats.cells import unlike_cells
from seedspread.stats.collapse import detect_collapse
from seedspread.stats.dependence import are_dependent
from seedspread.stats.dependence import twins as find_twins
from seedspread.stats.failures import failures
from seedspread.stats.floor import floor_from_accuracies, floor_from_predictions
from seedspread.stats.headline import as_test
from seedspread.stats.ladder import ladder
from seedspread.stats.performance import performance
from seedspread.stats.power import BudgetError
from seedspread.stats.result import Floor, Headline, Summary, TestResult, Twins
from seedspread.stats.scale import planning
from seedspread.stats.sequential.looks import nominal


@dataclass(frozen=True)
class Pair:
    """Two arms of one stratum; `place` numbers it, so that what is drawn for it does not depend on others."""

    stratum: str
    arm: Arm
    baseline: Arm
    place: tuple[int, int]


@dataclass(frozen=True)
class Comparer:
    """What all comparisons of an audit share.

    Attributes:
        metric: what the values are.
        level: of the intervals.
        resamples: of bootstraps and sampled permutations.
        random_seed: from which they are drawn.
        chance: what a run that learnt nothing scores.
        test_size: the number of test examples.
        by: the columns whose levels are compared apart.
        deep: also the ladder of assumptions and the variance components: they take as long as all the rest.
        brief: leave out what is not in the overview: there are very many comparisons, or seeds.
    """

    metric: Metric
    level: float
    resamples: int
    random_seed: int
    chance: float | None
    test_size: int | None
    by: tuple[str, ...] = ()
    deep: bool = False
    brief: bool = False

    def compare(self, pair: Pair, judged: Judged, family: int) -> Comparison:
        """All of it; `judged` says what its headline amounts to among the `family` of all comparisons."""
        arm, baseline, headline = pair.arm, pair.baseline, judged.headline
        arms = arm, baseline
        twins = tuple(t for t in map(find_twins, arms) if t is not None)
        tests = self._tests(pair, headline, _independent(twins))
        return Comparison(
            stratum=pair.stratum,
            group=arm.name,
            baseline=baseline.name,
            cells=_cells(arm) + _cells(baseline),
            pooled=(summarise(arm.name, "", arm.values), summarise(baseline.name, "", baseline.values)),
            headline=headline,
            pooled_test=_pooled_test(tests),
            tests=tests,
            twins=twins,
            seeds=(len(arm.seed_codes), len(baseline.seed_codes)),
            paired_correlation=_paired_correlation(arm, baseline),
            collapse=detect_collapse(arm, baseline, *self._failing(baseline)),
            floors=() if self.brief else self._floors(arms),
            detectable=_detectable(arm, baseline, headline.pairs, twins, self._alpha(headline)),
            p_holm=judged.p_holm,
            word=judged.word,
            warnings=warnings(twins, tests, arm, baseline) + self._unlike(arm, baseline),
            ladder=ladder(arm, baseline, self.level) if self.deep else (),
            failures=failures(arm, baseline, *self._failing(baseline)),
            performance=None if self.brief else performance(arm, baseline, self.metric.better, self.level),
            components=components_of(arm, baseline, self.level) if self.deep else None,
            factor=arm.factor,
            by=self.by,
            family=family,
        )

    def _unlike(self, arm: Arm, baseline: Arm) -> tuple[str, ...]:
        unlike = None if self.brief else unlike_cells(arm, baseline)
        return (unlike_sentence(unlike, arm.factor),) if unlike else ()

    def _alpha(self, headline: Headline) -> float:
        """Of the headline's test by itself."""
        alpha = 1 - self.level
        return alpha if headline.looks is None else nominal(headline.looks, alpha)

    def _tests(self, pair: Pair, headline: Headline, independent: bool | None) -> tuple[TestResult, ...]:
        arm, baseline, level = pair.arm, pair.baseline, self.level
        if self.brief:
            return (as_test(headline),)
        shapes = [classic.shapiro(side, arm_name(side.factor, side.name)) for side in (arm, baseline)]
        normal = None if any(s.p is None for s in shapes) else all((s.p or 0) >= 0.05 for s in shapes)
        single = min(len(arm.seed_codes), len(baseline.seed_codes)) < 2
        spread = _NO_VARIANCE if single else self._spread_tests(pair, normal, independent)
        means = (
            robust.seed_means_test(arm, baseline, level),
            classic.welch(arm, baseline, level, independent),
        )
        return (as_test(headline), *spread, *means, *shapes)

    def _spread_tests(
        self, pair: Pair, normal: bool | None, independent: bool | None
    ) -> tuple[TestResult, ...]:
        arm, baseline, level, resamples = pair.arm, pair.baseline, self.level, self.resamples
        rng = np.random.default_rng([self.random_seed, *pair.place])
        return (
            robust.seed_jackknife(arm, baseline, level),
            bootstrap.clustered_bootstrap(arm, baseline, level, resamples, rng),
            permutation.seed_permutation(arm, baseline, resamples, rng),
            permutation.within_seed_permutation(arm, baseline, resamples, rng),
            robust.pitman_morgan(arm, baseline, level, normal),
            classic.f_test(arm, baseline, level, normal, independent),
            robust.bonett(arm, baseline, level, independent),
            *(classic.deviations_test(arm, baseline, c, independent) for c in ("mean", "median")),
            *bootstrap.bootstrap_tests(arm, baseline, level, resamples, rng, independent),
            *(t for c in ("mean", "median") for t in classic.two_way_tests(arm, baseline, c, independent)),
        )

    def _failing(self, baseline: Arm) -> tuple[Better, float | None, float, float | None]:
        """By what runs are judged to have failed: the direction, chance, the level and the unit's scale."""
        return self.metric.better, self._chance_of(baseline), self.level, self.metric.full_scale

    def _chance_of(self, arm: Arm) -> float | None:
        candidates = (self.chance, arm.chance, self.metric.chance)
        return next((chance for chance in candidates if chance is not None), None)

    def _floors(self, pair: tuple[Arm, Arm]) -> tuple[Floor, ...]:
        """Of accuracies alone: another metric is no mean of right and wrong answers."""
        scale = self.metric.full_scale
        if scale is None:
            return ()
        out = []
        for arm in pair:
            correct = self._predictions(arm)
            if correct is not None:
                out.append(floor_from_predictions(arm.name, correct, self.level, scale))
            elif self.test_size and len(arm.values) > 1 and _are_accuracies(arm.values, scale):
                out.append(floor_from_accuracies(arm.name, arm.values, self.test_size, scale))
        return tuple(out)

    def _predictions(self, arm: Arm) -> NDArray[np.bool_] | None:
        if not arm.folders or self.metric.name != "accuracy":
            return None
        # One run per seed: twins of a seed are not further samples of the seeds.
        _, first = np.unique(arm.seeds, return_index=True)
        return correct_predictions([arm.folders[i] for i in first]) if len(first) > 1 else None


_NO_VARIANCE = tuple(
    TestResult(
        key=key,
        name=name,
        about="spread",
        why="",
        assumes="",
        note="an arm has a single seed: it counts for the means, and has no variance over seeds",
    )
    for key, name in (("seed_jackknife", "seed jackknife (Miller)"), ("f", "F test, pooled"))
)


def _independent(twins: tuple[Twins, ...]) -> bool | None:
    if not twins:
        return True
    return False if any(map(are_dependent, twins)) else None


def summarise(group: str, block: str, values: Floats) -> Summary:
    """Mean and sd of a cell, or of an arm."""
    if len(values) < 2:
        return Summary(group, block, len(values), float(values.mean()), None, None)
    variance = 0.0 if np.ptp(values) == 0 else float(values.var(ddof=1))
    return Summary(group, block, len(values), float(values.mean()), variance**0.5, variance)


def _cells(arm: Arm) -> tuple[Summary, ...]:
    return tuple(summarise(arm.name, arm.block_names[code], values) for code, values in arm.cells.items())


def _pooled_test(tests: tuple[TestResult, ...]) -> Headline:
    f = next((t for t in tests if t.key == "f"), _NOT_TESTED)
    ratio = f.estimate
    return Headline(
        ratio=ratio,
        sd_ratio=None if ratio is None else ratio**0.5,
        interval=f.interval,
        p=f.p,
        method=f.name,
        why=f.note or "the classical figure: every run counted as independent",
    )


_NOT_TESTED = TestResult("f", "F test, pooled", "spread", "", "", note="left out of a brief audit")


def _paired_correlation(arm: Arm, baseline: Arm) -> float | None:
    in_a, in_b = common_seeds(arm, baseline)
    x, y = arm.seed_means[in_a], baseline.seed_means[in_b]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _detectable(arm: Arm, baseline: Arm, pairs: int, twins: tuple[Twins, ...], alpha: float) -> float | None:
    """By the headline itself, on normal values; rounded, since it is simulated.

    Pairs count as uncorrelated, since nobody knew their correlation beforehand; twins as alike as they are.
    """
    seeds = len(arm.seed_codes), len(baseline.seed_codes)
    blocks = max(len(arm.cells), len(baseline.cells))
    alike = [t.correlation or 0.0 for t in twins]
    return _planned(seeds, blocks, pairs > 0, round(max([0.0, *alike]), 2), alpha)


@cache
def _planned(seeds: tuple[int, int], blocks: int, paired: bool, twins: float, alpha: float) -> float | None:
    try:
        found = planning.detectable(seeds, 0.8, blocks, 0.0 if paired else None, twins, alpha)
    except BudgetError:
        return None
    return float(f"{found:.2g}")


def _are_accuracies(values: Floats, scale: float) -> bool:
    return bool(values.min() >= 0 and values.max() <= scale)
