"""The audit: from a table of runs to an answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.metrics import Metric, metric_of
from seedspread.runs.store import Store
from seedspread.runs.studies import declared_metric
from seedspread.runs.table import correct_predictions
from seedspread.stats import bootstrap, classic, permutation, robust
from seedspread.stats.arms import Arm, Floats, common_seeds
from seedspread.stats.audited import AuditResult
from seedspread.stats.collapse import detect_collapse
from seedspread.stats.dependence import are_dependent
from seedspread.stats.dependence import twins as find_twins
from seedspread.stats.floor import floor_from_accuracies, floor_from_predictions
from seedspread.stats.forest import forest, holm
from seedspread.stats.power import MOST_SIMULATED_SEEDS, BudgetError, detectable_ratio
from seedspread.stats.result import Comparison, Floor, Forest, Headline, Summary, TestResult, Twins
from seedspread.stats.tables.check import check_table
from seedspread.stats.tables.errors import TableError
from seedspread.stats.tables.question import Question, Rows
from seedspread.stats.tables.runs import Runs
from seedspread.stats.verdict import headline_why, verdict, warnings

# Values drawn in all bootstraps of an audit together; a table that would need more gets fewer resamples.
_DRAWS = 40_000_000
_FEWEST_RESAMPLES = 499


def audit(
    table: "str | Path | pd.DataFrame",
    value: str | None = None,
    group: str | None = None,
    reference: str | None = None,
    block: "str | Sequence[str] | None" = None,
    seed: str | None = "seed",
    by: "str | Sequence[str] | None" = None,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    random_seed: int = 0,
    chance: float | None = None,
    test_size: int | None = None,
    metric: Metric | None = None,
    **rows: Unpack[Rows],
) -> AuditResult:
    """Did the group change how much the values spread over seeds?

    Args:
        table: a file, a folder of runs, a DataFrame, or what `seedspread.collect` reads.
        value: the column with the result of a run.
        group: the column whose levels are compared.
        reference: the level with which each other one is compared; without it the first of two levels, or
            its like (`baseline`, `control`), and of three or more each with every other.
        block: columns that tell the runs of one seed in one group apart, such as the stability mode.
        seed: the column with the seed, which is found by its usual names too; None if every row is a run
            of its own.
        by: columns, such as the dataset, whose levels are audited apart and adjusted together.
        level: of the intervals.
        resamples: of bootstraps and sampled permutations; fewer where the table is very large.
        random_seed: the same seed gives the same result to the bit.
        chance: what a run that learnt nothing scores, in the values' units.
        test_size: the number of test examples, for the sampling floor of accuracies.
        metric: what the values are; by default what a store's study declares, or what the column's name and
            values tell.
        rows: where, last, best, wide, metric_column, sheet, at: how one row per run is had; see `Rows`.
    """
    _check_options(level, resamples, chance, test_size)
    question = Question.of(value, group, reference, block, seed, by, **rows)
    runs = check_table(table, question, metric.better if metric and question.best == value else None)
    resamples = min(resamples, max(_FEWEST_RESAMPLES, _DRAWS // len(runs.frame)))
    metric = metric or _metric(runs, accuracies=test_size is not None)
    return _answer(runs, _Options(metric, level, resamples, random_seed, chance, test_size))


def _answer(runs: Runs, options: "_Options") -> AuditResult:
    comparisons, notes = _comparisons(runs, options)
    return AuditResult(
        source=runs.source,
        value=runs.columns.value,
        group=runs.columns.group,
        reference=runs.columns.reference or "",
        blocks=runs.columns.blocks,
        seed=runs.columns.seed,
        by=", ".join(runs.columns.by) or None,
        rows=len(runs.frame),
        level=options.level,
        resamples=options.resamples,
        random_seed=options.random_seed,
        comparisons=tuple(comparisons),
        forest=_forest(comparisons, options.level),
        notes=(*runs.notes, *notes),
        values=runs.strips(),
        metric=options.metric,
    )


def _metric(runs: Runs, *, accuracies: bool) -> Metric:
    value = runs.columns.value
    declared = declared_metric(Store(runs.store), value) if runs.store is not None else None
    found = declared or metric_of(value, runs.frame["value"].to_numpy(float), accuracies=accuracies)
    return replace(found, unit="per cent") if runs.per_cent else found


def _check_options(level: float, resamples: int, chance: float | None, test_size: int | None) -> None:
    if not 0.5 <= level < 1:
        raise TableError(f"the level must lie between 0.5 and 1; got {level:g}")
    if resamples < 100:
        raise TableError(f"resamples must be at least 100; got {resamples}")
    if chance is not None and not np.isfinite(chance):
        raise TableError(f"chance must be a finite number; got {chance}")
    if test_size is not None and test_size < 2:
        raise TableError(f"test_size must be at least 2; got {test_size}")


def _comparisons(runs: Runs, options: "_Options") -> tuple[list[Comparison], list[str]]:
    """Every comparison, adjusted over all of them, and a line on each stratum that has none."""
    comparisons = [options.compare(stratum, arm, other, place) for place, stratum, arm, other in runs.pairs()]
    columns = runs.columns
    versus = columns.reference or "other"
    compared = {c.stratum for c in comparisons}
    notes = [
        f"{name} has no {versus} run to compare with, or nothing else; it was left out."
        for name in dict.fromkeys(runs.frame["stratum"])
        if name not in compared
    ]
    if not comparisons:
        both = f"both {versus!r} and another level of {columns.group!r}"
        raise TableError(f"no stratum of {', '.join(columns.by)!r} has {both}")
    adjusted = holm([c.headline.p for c in comparisons])
    comparisons = [replace(c, p_holm=p) for c, p in zip(comparisons, adjusted, strict=True)]
    return [replace(c, verdict=verdict(c, len(comparisons))) for c in comparisons], notes


def _forest(comparisons: list[Comparison], level: float) -> Forest | None:
    """Over strata only: comparisons that share a reference arm are not independent."""
    if len({c.stratum for c in comparisons}) < len(comparisons):
        return None
    return forest([c.title for c in comparisons], [c.test("seed_jackknife") for c in comparisons], level)


@dataclass(frozen=True)
class _Options:
    """What all comparisons of an audit share."""

    metric: Metric
    level: float
    resamples: int
    random_seed: int
    chance: float | None
    test_size: int | None

    def compare(self, stratum: str, arm: Arm, reference: Arm, place: tuple[int, int]) -> Comparison:
        rng = np.random.default_rng([self.random_seed, *place])
        pair = arm, reference
        twins = tuple(t for t in map(find_twins, pair) if t is not None)
        tests = self._tests(arm, reference, _independent(twins), rng)
        by_key = {test.key: test for test in tests}
        comparison = Comparison(
            stratum=stratum,
            group=arm.name,
            reference=reference.name,
            cells=_cells(arm) + _cells(reference),
            pooled=(_summary(arm.name, "", arm.values), _summary(reference.name, "", reference.values)),
            headline=_headline(by_key["seed_jackknife"], arm, reference),
            paper=_as_headline(by_key["f"], "what the paper reports: every run counted as independent"),
            tests=tests,
            twins=twins,
            seeds=(len(arm.seed_codes), len(reference.seed_codes)),
            paired_correlation=_paired_correlation(arm, reference),
            collapse=detect_collapse(arm, reference, self.metric, self._chance_of(reference), self.level),
            floors=self._floors(pair),
            detectable=_detectable(len(arm.seed_codes), len(reference.seed_codes)),
            p_holm=None,
            warnings=(),
            verdict="",
        )
        return replace(comparison, warnings=warnings(comparison, arm, reference))

    def _tests(
        self, arm: Arm, reference: Arm, independent: bool | None, rng: np.random.Generator
    ) -> tuple[TestResult, ...]:
        level, resamples = self.level, self.resamples
        shapes = classic.shapiro(arm), classic.shapiro(reference)
        normal = None if any(s.p is None for s in shapes) else all((s.p or 0) >= 0.05 for s in shapes)
        if min(len(arm.seed_codes), len(reference.seed_codes)) < 2:
            spread: tuple[TestResult, ...] = _NO_VARIANCE
        else:
            spread = (
                robust.seed_jackknife(arm, reference, level),
                bootstrap.clustered_bootstrap(arm, reference, level, resamples, rng),
                permutation.seed_permutation(arm, reference, resamples, rng),
                permutation.within_seed_permutation(arm, reference, resamples, rng),
                robust.pitman_morgan(arm, reference, level, normal),
                classic.f_test(arm, reference, level, normal, independent),
                robust.bonett(arm, reference, level, independent),
                *(classic.deviations_test(arm, reference, c, independent) for c in ("mean", "median")),
                *bootstrap.bootstrap_tests(arm, reference, level, resamples, rng, independent),
                *(
                    t
                    for c in ("mean", "median")
                    for t in classic.two_way_tests(arm, reference, c, independent)
                ),
            )
        means = (
            robust.seed_means_test(arm, reference, level),
            classic.welch(arm, reference, level, independent),
        )
        return spread + means + shapes

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


def _summary(group: str, block: str, values: Floats) -> Summary:
    if len(values) < 2:
        return Summary(group, block, len(values), float(values.mean()), None, None)
    variance = 0.0 if np.ptp(values) == 0 else float(values.var(ddof=1))
    return Summary(group, block, len(values), float(values.mean()), variance**0.5, variance)


def _cells(arm: Arm) -> tuple[Summary, ...]:
    return tuple(_summary(arm.name, arm.block_names[code], values) for code, values in arm.cells.items())


def _headline(jackknife: TestResult, arm: Arm, reference: Arm) -> Headline:
    if jackknife.estimate is None and arm.has_spread and reference.has_spread:
        jackknife = replace(jackknife, estimate=arm.within_variance / reference.within_variance)
    return _as_headline(jackknife, headline_why(len(arm.cells) > 1 or len(reference.cells) > 1))


def _as_headline(test: TestResult, why: str) -> Headline:
    ratio = test.estimate
    return Headline(
        ratio=ratio,
        sd_ratio=None if ratio is None else ratio**0.5,
        interval=test.interval,
        p=test.p,
        method=test.name,
        why=test.note or why,
    )


def _paired_correlation(arm: Arm, reference: Arm) -> float | None:
    in_a, in_b = common_seeds(arm, reference)
    x, y = arm.seed_means[in_a], reference.seed_means[in_b]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


@cache
def _detectable(first: int, second: int) -> float | None:
    """By the headline's test, on normal values; rounded, since it is simulated."""
    if max(first, second) > MOST_SIMULATED_SEEDS:
        return detectable_ratio((first, second))  # with so many the two tests agree
    try:
        return float(f"{detectable_ratio((first, second), shape='normal'):.2g}")
    except BudgetError:
        return None


def _are_accuracies(values: Floats, scale: float) -> bool:
    return bool(values.min() >= 0 and values.max() <= scale)
