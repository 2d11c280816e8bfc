"""The audit: from a table of runs to an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import isfinite, sqrt
from pathlib import Path
from typing import Unpack

import numpy as np
import pandas as pd

from seedspread.analysis import words
from seedspread.analysis.audit_result import AuditResult, Comparison
from seedspread.analysis.judgement import (
    Doubter,
    Judged,
    averages,
    judged,
    many_groups,
    on_scale,
    repeated_runs,
)
from seedspread.analysis.samples import Pair, compared_pairs, groups_by_stratum, noise_of_test_set, strips_of
from seedspread.analysis.sequential import factor_of, looks_at
from seedspread.runs import studies
from seedspread.runs.levels import Levels, group_name, joined_levels
from seedspread.runs.metrics import Better, Metric, direction_note, is_until, metric_of
from seedspread.runs.store import Store, devices
from seedspread.stats import classic, planning
from seedspread.stats.classic import mean_difference
from seedspread.stats.failures import failures, find_failed_seeds
from seedspread.stats.groups import Floats, Group, are_dependent, common_seeds, same_seed_runs, unequal_cells
from seedspread.stats.headline import FEWEST_SEEDS, MOST_MODELED, as_test, headlines, is_large
from seedspread.stats.planning import BudgetError
from seedspread.stats.result import Headline, InterimLook, SameSeedRuns, Scale, Summary, TestResult
from seedspread.stats.seed_summaries import net_ratio
from seedspread.stats.sequential import ALPHA, nominal_level
from seedspread.stats.variance_ratio import LogRatioEstimate
from seedspread.tables.check import check_table
from seedspread.tables.columns import RunTable
from seedspread.tables.question import Question, Rows, TableError, check_options, with_known_arguments
from seedspread.tables.read import Source


@dataclass(frozen=True)
class Comparer:
    """Settings that all comparisons of an audit share; see `audit`."""

    metric: Metric
    level: float
    chance: float | None = None
    test_size: int | None = None
    equivalence: float = 2.0
    looks: InterimLook | None = None
    by: tuple[str, ...] = ()
    brief: bool = False  # leave out everything beyond the overview, if comparisons or seeds are very many

    def failing(self, pair: Pair) -> tuple[Better, float | None, float | None]:
        """Return how to recognize failed runs: the better direction, the chance score, and the full scale."""
        chances = (c for c in (self.chance, pair.baseline.chance, self.metric.chance) if c is not None)
        return self.metric.better, next(chances, None), self.metric.full_scale

    def successful(self, pair: Pair) -> Pair:
        """Leave out seeds with a failed run: they count as failures, not as spread."""
        sides, failed, _ = find_failed_seeds(pair.group, pair.baseline, *self.failing(pair))
        if not failed:
            return pair
        group, baseline = (
            g.without(s.failed) for g, s in zip((pair.group, pair.baseline), sides, strict=True)
        )
        return (
            replace(pair, group=group, baseline=baseline)
            if len(group.values) and len(baseline.values)
            else pair
        )

    def compare(self, every: Pair, judged: Judged, family: int) -> Comparison:
        """Return the full comparison; `judged` is its headline's verdict, out of a `family` of that size."""
        pair, headline = self.successful(every), judged.headline
        group, baseline = groups = pair.group, pair.baseline
        same_seed = tuple(t for t in map(same_seed_runs, groups) if t is not None)
        measured = () if self.brief else (every.group, every.baseline)  # failed runs have test-set noise too
        noise = [noise_of_test_set(a, [a.seeds], self.metric, self.level, self.test_size) for a in measured]
        noises = tuple(n for n in noise if n is not None)
        unlike = () if self.brief else unequal_cells(group, baseline)
        alpha = 1 - self.level if headline.looks is None else nominal_level(headline.looks, 1 - self.level)
        better, chance, full_scale = self.failing(every)
        found = failures(every.group, every.baseline, better, chance, self.level, full_scale)
        is_censored = found is not None and found.kind == "failed" and is_until(self.metric.name)
        dependent = any(map(are_dependent, same_seed))
        independent = not same_seed or (False if dependent else None)
        f = self._pooled_test(group, baseline, None, independent)
        sd_ratio = None if f.estimate is None else f.estimate**0.5
        pooled_test = Headline(f.estimate, sd_ratio, f.interval, f.p, f.name, f.note or _POOLED)
        return Comparison(
            stratum=pair.stratum,
            group=group.name,
            baseline=baseline.name,
            cells=tuple(
                summarise(side.name, side.block_names[code], values)
                for side in groups
                for code, values in side.cells.items()
            ),
            pooled=(summarise(group.name, (), group.values), summarise(baseline.name, (), baseline.values)),
            headline=headline,
            pooled_test=pooled_test,
            testing=partial(self._tests, pair, headline, independent),
            same_seed_runs=same_seed,
            seeds=pair.seeds,
            paired_correlation=_paired_correlation(group, baseline),
            test_set_noise=noises,
            net=net_ratio(*noises, self.level) if len(noises) == 2 else None,
            detectable=_detectable(group, baseline, headline.pairs, same_seed, alpha / family),
            p_adjusted=judged.p_adjusted,
            word=judged.word,
            doubts=judged.doubts,
            warnings=words.warnings(same_seed, pooled_test, group, baseline, unlike),
            failures=None if found is None else replace(found, kind="censored") if is_censored else found,
            means=None if self.brief else mean_difference(group, baseline, self.level),
            better=self.metric.better,
            factor=group.factor,
            by=self.by,
            family=family,
        )

    def _tests(self, pair: Pair, headline: Headline, independent: bool | None) -> tuple[TestResult, ...]:
        group, baseline, level = pair.group, pair.baseline, self.level
        if self.brief:
            return (as_test(headline),)
        shapes = [classic.shapiro(side, group_name(side.factor, side.name)) for side in (group, baseline)]
        normal = classic.are_normal((group, baseline), shapes)
        pooled = self._pooled_test(group, baseline, normal, independent)
        spread: tuple[TestResult, ...] = (_NO_JACKKNIFE, pooled)
        if pooled is not _NO_F:
            spread = (
                classic.seed_jackknife(group, baseline, level),
                classic.pitman_morgan(group, baseline, level, normal),
                pooled,
                *(classic.deviations_test(group, baseline, c, independent) for c in ("mean", "median")),
            )
        of_seeds = classic.seed_means_test(group, baseline, level)
        of_runs = classic.welch(group, baseline, level, independent)
        return (as_test(headline), *spread, of_seeds, of_runs, *shapes)

    def _pooled_test(
        self, group: Group, baseline: Group, normal: bool | None, independent: bool | None
    ) -> TestResult:
        if self.brief:
            return _not_tested("f", "F test, pooled", "left out of a brief audit")
        if min(len(group.seed_codes), len(baseline.seed_codes)) < 2:
            return _NO_F
        return classic.f_test(group, baseline, self.level, normal, independent)


def _not_tested(key: str, name: str, note: str) -> TestResult:
    return TestResult(key, name, "spread", "", "", note=note)


# Notes: no test of the spread, and only an F test.
_SINGLE = "a group has a single seed: it counts for the means, and has no variance over seeds"
_POOLED = "the classical figure: every run counted as independent"
_NO_JACKKNIFE = _not_tested("seed_jackknife", "seed jackknife (Miller)", _SINGLE)
_NO_F = _not_tested("f", "F test, pooled", _SINGLE)


def summarise(group: str, block: Levels, values: Floats) -> Summary:
    """Return mean and sd of a cell, or of a group."""
    if len(values) < 2:
        return Summary(group, block, len(values), float(values.mean()), None, None)
    variance = 0.0 if np.ptp(values) == 0 else float(values.var(ddof=1))
    return Summary(group, block, len(values), float(values.mean()), variance**0.5, variance)


def _paired_correlation(group: Group, baseline: Group) -> float | None:
    in_a, in_b = common_seeds(group, baseline)
    x, y = group.seed_means[in_a], baseline.seed_means[in_b]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _detectable(
    group: Group, baseline: Group, pairs: int, same_seed: tuple[SameSeedRuns, ...], alpha: float
) -> float | None:
    """Return the ratio that the headline detects for normal values, rounded since it is simulated.

    Pairs count as uncorrelated, as their correlation is unknown in advance; same-seed runs as they are.
    """
    seeds = max(len(group.seed_codes), FEWEST_SEEDS), max(len(baseline.seed_codes), FEWEST_SEEDS)
    blocks = max(len(group.cells), len(baseline.cells))
    alike = [t.correlation or 0.0 for t in same_seed]
    return _planned(seeds, blocks, pairs > 0, round(max([0.0, *alike]), 2), alpha)


@cache
def _planned(
    seeds: tuple[int, int], blocks: int, paired: bool, same_seed: float, alpha: float
) -> float | None:
    try:
        found = planning.detectable(
            seeds, 0.8, planning.Design(blocks, 0.0 if paired else None, same_seed, alpha)
        )
    except BudgetError:
        return None
    return float(f"{found:.2g}")


@with_known_arguments
def audit(
    table: Source,
    value: str | None = None,
    group: str | None = None,
    baseline: str | None = None,
    block: "str | Sequence[str] | None" = None,
    seed: str | None = "seed",
    by: "str | Sequence[str] | None" = None,
    *,
    level: float = 0.95,
    chance: float | None = None,
    test_size: int | None = None,
    metric: Metric | None = None,
    better: Better | None = None,
    equivalence: float = 2.0,
    scale: Scale | None = None,
    look: InterimLook | None = None,
    judged_with: Mapping[Levels, Comparison] | None = None,
    **rows: Unpack[Rows],
) -> AuditResult:
    """Audit whether groups differ in how much their values spread across seeds.

    Args:
        table: a file, a folder of runs, a DataFrame, what `seedspread.collect` reads, or what it returned.
            Runs of a store are found by a DataFrame's column `folder`, and with them their predictions.
        value: the column with the result of a run.
        group: the column whose levels are compared.
        baseline: the level to compare with; by default the first of two levels, or one called a baseline;
            with three or more levels every pair is compared.
        block: columns varied within a seed, such as the precision; runs that share a seed count as one.
        seed: the column with the seed, also found by its usual names; None if every row is an independent
            run.
        by: columns, such as the dataset, whose levels are audited separately and adjusted together.
        level: confidence level of the intervals.
        chance: score of a run that has learned nothing, in the values' units.
        test_size: the number of test examples, for the test-set noise of accuracies.
        metric: the metric; by default what a store's study declares, or inferred from the column's name and
            values.
        better: which direction is better; by default that of the metric, or inferred from the column's name.
        equivalence: variances that differ by no more than this factor count as equal.
        scale: judge `log` or `logit` of the values instead: losses and times differ by factors, and shares
            near 0 or 1 are squeezed by their bound.
        look: the interim look at a growing study; looks recorded in a store are counted anyway.
        judged_with: comparisons of a larger audit by level of `by`; their verdicts, adjusted there, are used.
        rows: where, last, best, wide, metric_column, sheet, at: row selection; see `Rows`.

    Returns:
        The result: `comparisons`, each with its verdict (`word`), `headline` and tests; it prints itself and
        has `to_text`, `to_markdown`, `to_latex`, `to_json`, `to_frame` and `plot`.

    Example:
        >>> found = audit("examples/paper-cifar10.csv", "accuracy", "margin_type", "subtract", "stability")
        >>> found.comparisons[0].word, round(found.comparisons[0].headline.ratio, 1)
        ('YES', 6.8)
    """
    check_options(level, chance, test_size, equivalence)
    question = Question.of(value, group, baseline, block, seed, by, **rows)
    runs = check_table(table, question, better or (metric.better if metric else None))
    metric, told = metric_of_runs(runs, metric, better, accuracies=test_size is not None)
    runs = replace(runs, notes=(*runs.notes, *told))
    if scale is not None:
        top = metric.full_scale or 1.0
        chance = None if chance is None else float(on_scale(np.array(chance), scale, top))
        runs, metric = rescaled(runs, metric, scale)
    if runs.store is not None and runs.predictions is not None:  # the store may record more looks
        look, told = looks_at(Path(runs.store), runs.predictions.astype(str), look)
        runs = replace(runs, notes=(*runs.notes, *told))
    return audit_runs(runs, Comparer(metric, level, chance, test_size, equivalence, look), judged_with)


def audit_runs(
    runs: RunTable,
    comparer: Comparer,
    judged_with: Mapping[Levels, Comparison] | None = None,
    *,
    over_strata: bool = True,
) -> AuditResult:
    """Return the audit of checked runs, with averages over datasets if these are a sample of datasets."""
    comparisons, estimates, notes = _comparisons(runs, comparer, judged_with or {})
    strips, columns = strips_of(runs), runs.columns
    means = averages(comparisons, comparer.level, strips, estimates) if over_strata else ()
    strata = groups_by_stratum(runs)
    groups = [group.successful() for group in (strata[0][1] if len(strata) == 1 else ())]
    notes += words.repeated_notes(repeated_runs(strips), columns.group, columns.by)
    if runs.predictions is not None:
        notes += words.devices_note(devices(runs.predictions.dropna().astype(str)))
    return AuditResult(
        source=runs.source,
        value=columns.value,
        group=columns.group,
        baseline=columns.baseline or "",
        blocks=columns.blocks,
        seed=columns.seed,
        by=columns.by,
        rows=len(runs.frame),
        level=comparer.level,
        comparisons=tuple(comparisons),
        averages=means,
        notes=(*runs.notes, *notes),
        values=strips,
        metric=comparer.metric,
        looks=comparer.looks,
        omnibus=many_groups(groups, comparer.level, comparer.equivalence),
    )


def metric_of_runs(
    runs: RunTable, metric: Metric | None, better: Better | None, *, accuracies: bool
) -> tuple[Metric, list[str]]:
    """Return the metric, and a note if its direction was inferred from its name."""
    better, value = better or runs.better, runs.columns.value
    if metric is None and runs.store is not None:
        metric = studies.declared_metric(Store(runs.store), value)
    note = None if metric or better else direction_note(value)
    if metric is None:
        metric = metric_of(value, runs.frame["value"].to_numpy(float), accuracies=accuracies)
        metric = replace(metric, unit="per cent") if runs.per_cent else metric
    return replace(metric, better=better or metric.better), [note] if note else []


def rescaled(runs: RunTable, metric: Metric, scale: Scale) -> tuple[RunTable, Metric]:
    """Return the runs with their values on another scale, and the metric of those values."""
    values, top = runs.frame["value"].to_numpy(float), metric.full_scale
    if scale == "logit" and top is None:
        raise TableError(
            f"scale 'logit' is for shares and percentages, and {metric.name!r} is neither; try 'log'"
        )
    inside = values > 0 if scale == "log" else (values > 0) & (values < (top or 1.0))
    if not inside.all():
        expected = "positive values" if scale == "log" else f"values between 0 and {top:g}, bounds excluded"
        raise TableError(
            f"scale {scale!r} needs {expected}; {metric.name!r} has {values[~inside][0]:g} "
            f"({np.sum(~inside)} of {len(values)} runs)"
        )
    frame = runs.frame.drop(columns="chance", errors="ignore")
    frame = frame.assign(value=on_scale(values, scale, top or 1.0))
    name = f"{scale}({metric.name})"
    columns = replace(runs.columns, value=name)
    return replace(runs, frame=frame, columns=columns), Metric(name, unit="none", better=metric.better)


def _comparisons(
    runs: RunTable, comparer: Comparer, judged_with: Mapping[Levels, Comparison]
) -> tuple[list[Comparison], list[LogRatioEstimate | None], list[str]]:
    """Return the comparisons, judged together, their estimates, and a line on each stratum without any."""
    pairs, columns = list(compared_pairs(runs)), runs.columns
    versus = columns.baseline or "other"
    if not pairs:
        both = f"both {versus!r} and another level of {columns.group!r}"
        raise TableError(f"no stratum of {', '.join(columns.by)!r} has {both}")
    compared = {pair.stratum for pair in pairs}
    why = f"has no {versus} run to compare with, or nothing else; it was left out."
    strata = dict.fromkeys(runs.frame["stratum"])
    notes = [f"{joined_levels(stratum)} {why}" for stratum in strata if stratum not in compared]
    brief = len(pairs) > MOST_MODELED or any(is_large(pair.group, pair.baseline) for pair in pairs)
    if brief:
        notes.append(
            f"{len(pairs):,} comparisons of {len(runs.frame):,} runs: the seed jackknife stands in for the "
            "headline's model, and the other tests are left out."
        )
    if comparer.looks is not None:
        notes.append(words.looks_note(comparer.looks))
    comparer = replace(comparer, by=columns.by, brief=brief or comparer.brief)
    answers, estimates = zip(*judge_pairs(runs, pairs, comparer), strict=True)
    family = max(sum(answer.p_adjusted is not None for answer in answers), 1)
    there = {
        stratum: (Judged(c.headline, c.p_adjusted, c.word, c.doubts), c.family)
        for stratum, c in judged_with.items()
    }
    here = zip(pairs, answers, strict=True)
    out = [comparer.compare(pair, *there.get(pair.stratum, (answer, family))) for pair, answer in here]
    return out, list(estimates), notes


def judge_pairs(
    runs: RunTable, pairs: Sequence[Pair], comparer: Comparer
) -> list[tuple[Judged, LogRatioEstimate | None]]:
    """Judge comparisons that are asked together, on successful runs, with doubts; return estimates too."""
    kept, level = [comparer.successful(pair) for pair in pairs], comparer.level
    shared = comparer.equivalence, comparer.looks
    found = headlines([(pair.group, pair.baseline) for pair in kept], level, *shared)
    answers = judged([h for h, _ in found], [estimate for _, estimate in found], level)
    if len(pairs) <= MOST_MODELED:
        names = dict(zip(runs.frame["seed"], runs.frame["seed_name"], strict=True))
        answers = Doubter(comparer.metric, level, *shared, names, comparer.chance).doubted(kept, answers)
    return [(answer, estimate) for answer, (_, estimate) in zip(answers, found, strict=True)]


def take_look(
    table: pd.DataFrame,
    spec: studies.AuditSpec,
    record: studies.SequentialRecord,
    metrics: tuple[Metric, ...] = (),
) -> studies.LookRecord:
    """Take the next look: the headline of every comparison on the first metric, and whether the study stops.

    `record` contains the looks so far; `metrics` are those that the study declares.
    """
    number, value = len(record.looks) + 1, spec.values[0]
    sizes = record.spec.sizes
    question = Question.of(value, spec.group, spec.baseline, spec.blocks or None, "seed", spec.strata)
    runs = check_table(table, question, None)
    declared = next((metric for metric in metrics if metric.name == value), None)
    metric, _ = metric_of_runs(runs, declared, None, accuracies=False)
    looks = InterimLook(sizes, number, record.factor or factor_of(sizes))
    comparer = Comparer(metric, 1 - ALPHA, looks=looks, brief=True)
    found = audit_runs(runs, comparer).comparisons
    seeds = sizes[number - 1]
    return studies.LookRecord(seeds, tuple(map(_looked, found)), why_stop(record.spec, found, seeds))


def why_stop(spec: studies.SequentialSpec, found: tuple[Comparison, ...], seeds: int) -> str:
    """Return why a study ends at a look with this number of seeds; empty if it goes on."""
    if spec.precision is not None:
        ends = [c.headline.shown_interval for c in found]
        if all(i is not None and i.low > 0 and sqrt(i.high / i.low) <= spec.precision for i in ends):
            return f"known to a factor of {spec.precision:g}"
    elif all(c.word in ("YES", "NO") for c in found):
        return "decided"
    return f"limit of {seeds} seeds reached" if seeds == spec.limit else ""


def _looked(c: Comparison) -> studies.LookComparison:
    interval = c.headline.shown_interval
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    numbers = (c.headline.ratio, low, high, c.p_adjusted, c.paired_correlation)
    ratio, low, high, p, correlation = (  # as JSON allows them
        None if x is None or not isfinite(x) else float(x) for x in numbers
    )
    return studies.LookComparison(c.title, ratio, low, high, p, word=c.word, correlation=correlation)
