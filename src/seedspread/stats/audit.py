"""The audit: from a table of runs to an answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.metrics import Better, Metric, direction_note, metric_of
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
from seedspread.stats.result import Comparison, Floor, Forest, Headline, Strip, Summary, TestResult, Twins
from seedspread.stats.table import Runs, TableError, check_table
from seedspread.stats.verdict import headline_why, verdict, warnings

# Values drawn in all bootstraps of an audit together; a table that would need more gets fewer resamples.
_DRAWS = 40_000_000
_FEWEST_RESAMPLES = 499


def audit(
    table: "str | Path | pd.DataFrame",
    value: str,
    group: str,
    reference: str,
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
    better: Better | None = None,
    at: str = "last",
) -> AuditResult:
    """Did the group change how much the values spread over seeds?

    Args:
        table: one row per run: a file, a folder of runs, a DataFrame, or what `seedspread.collect` reads.
        value: the column with the result of a run.
        group: the column whose levels are compared.
        reference: the level with which each other one is compared.
        block: columns that tell the runs of one seed in one group apart, such as the stability mode.
        seed: the column with the seed; None if every row is a seed of its own.
        by: columns, such as the dataset, whose levels are audited apart and adjusted together.
        level: of the intervals.
        resamples: of bootstraps and sampled permutations; fewer where the table is very large.
        random_seed: the same seed gives the same result to the bit.
        chance: what a run that learnt nothing scores, in the values' units.
        test_size: the number of test examples, for the sampling floor of accuracies.
        metric: what the values are; by default what a store's study declares, or what the column's name and
            values tell.
        better: which direction is better; by default as the metric says, or the column's name.
        at: which step of a run that was logged by step: `last`, `best` or `step=N`.
    """
    _check_options(level, resamples, chance, test_size)
    runs = check_table(table, value, group, reference, block, seed, by, at, better)
    resamples = min(resamples, max(_FEWEST_RESAMPLES, _DRAWS // len(runs.frame)))
    metric, told = _metric(runs, value, metric, better, accuracies=test_size is not None)
    options = _Options(metric, level, resamples, random_seed, chance, test_size)
    comparisons, notes = _comparisons(runs, options)
    return AuditResult(
        source=runs.source,
        value=value,
        group=group,
        reference=runs.columns.reference,
        blocks=runs.columns.blocks,
        seed=runs.columns.seed,
        by=", ".join(runs.columns.by) or None,
        rows=len(runs.frame),
        level=level,
        resamples=resamples,
        random_seed=random_seed,
        comparisons=tuple(comparisons),
        forest=_forest(comparisons, level),
        notes=(*runs.notes, *told, *notes),
        values=_strips(runs),
        metric=metric,
    )


def _metric(
    runs: Runs, value: str, metric: Metric | None, better: Better | None, *, accuracies: bool
) -> tuple[Metric, list[str]]:
    """The metric, and a note if its direction was told from its name."""
    better = better or runs.better
    if metric is None and runs.store is not None:
        metric = declared_metric(Store(runs.store), value)
    note = None if metric or better else direction_note(value)
    if metric is None:
        metric = metric_of(value, runs.frame["value"].to_numpy(float), accuracies=accuracies)
    return replace(metric, better=better or metric.better), [note] if note else []


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
    columns = runs.columns
    comparisons, notes = [], []
    for number, (name, arms) in enumerate(runs.strata()):
        if arms[0].name != columns.reference or len(arms) < 2:
            notes.append(
                f"{name} has no {columns.reference} run to compare with, or nothing else; it was left out."
            )
            continue
        for place, arm in enumerate(arms[1:]):
            comparisons.append(options.compare(name, arm, arms[0], (number, place)))
    if not comparisons:
        both = f"both {columns.reference!r} and another level of {columns.group!r}"
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


def _strips(runs: Runs) -> tuple[Strip, ...]:
    return tuple(
        Strip(
            stratum=str(stratum),
            group=str(group),
            values=tuple(map(float, rows["value"])),
            blocks=tuple(rows["block"]),
            seeds=tuple(rows["seed_name"]),
        )
        for (stratum, group), rows in runs.frame.groupby(["stratum", "group"], sort=False)
    )
