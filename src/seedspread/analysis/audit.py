"""The audit: from a table of runs to an answer."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np

from seedspread.analysis.compare import Comparer, Pair
from seedspread.analysis.comparison import AuditResult, Comparison
from seedspread.analysis.forest import forests, repeated_runs
from seedspread.analysis.judgement import judged
from seedspread.analysis.looks import Look, looks_of_store
from seedspread.analysis.samples import Strip, compared_arms, strips_of
from seedspread.analysis.words import looks_note
from seedspread.runs.levels import arm_name, stratum_name
from seedspread.runs.metrics import Better, Metric, direction_note, metric_of
from seedspread.runs.store import Store
from seedspread.runs.studies import declared_metric
from seedspread.stats.headline import MOST_MODELLED, headlines, is_large
from seedspread.stats.result import Looks
from seedspread.tables.check import check_table
from seedspread.tables.columns import Columns
from seedspread.tables.errors import TableError
from seedspread.tables.question import Question, Rows
from seedspread.tables.read import Source
from seedspread.tables.run_table import RunTable

# Values drawn in all bootstraps of an audit together; a table that would need more gets fewer resamples.
_DRAWS = 40_000_000
_FEWEST_RESAMPLES = 499
# Comparisons whose assumptions and variance components are laid out one by one.
_MOST_DEEP = 12


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
    resamples: int = 10_000,
    random_seed: int = 0,
    chance: float | None = None,
    test_size: int | None = None,
    metric: Metric | None = None,
    better: Better | None = None,
    equivalence: float = 2.0,
    look: Looks | Look | None = None,
    **rows: Unpack[Rows],
) -> AuditResult:
    """Did the group change how much the values spread over seeds?

    Args:
        table: a file, a folder of runs, a DataFrame, what `seedspread.collect` reads, or what it returned.
            Runs of a store are found by a DataFrame's column `folder`, and with them their predictions.
        value: the column with the result of a run.
        group: the column whose levels are compared.
        baseline: the level with which each other one is compared; by default the first of two levels, or
            what is called a baseline, and of three or more each is compared with every other.
        block: columns that tell the runs of one seed in one group apart, such as the stability mode.
        seed: the column with the seed, also found by its usual names; None if every row is a run of its own.
        by: columns, such as the dataset, whose levels are audited apart and adjusted together.
        level: of the intervals.
        resamples: of bootstraps and sampled permutations; fewer where the table is very large.
        random_seed: the same seed gives the same result to the bit.
        chance: what a run that learnt nothing scores, in the values' units.
        test_size: the number of test examples, for the sampling floor of accuracies.
        metric: what the values are; by default what a store's study declares, or what the column's name and
            values tell.
        better: which direction is better; by default as the metric says, or the column's name.
        equivalence: variances that differ by no more than this factor count as alike.
        look: which of how many, where the table grows and is judged again and again; of a store, as its
            study remembers.
        rows: where, last, best, wide, metric_column, sheet, at: how one row per run is had; see `Rows`.
    """
    check_options(level, resamples, chance, test_size, equivalence)
    question = Question.of(value, group, baseline, block, seed, by, **rows)
    runs = check_table(table, question, better or (metric.better if metric else None))
    resamples = affordable(resamples, len(runs.frame))
    metric, told = metric_of_runs(runs, metric, better, accuracies=test_size is not None)
    runs = replace(runs, notes=(*runs.notes, *told))
    comparer = Comparer(metric, level, resamples, random_seed, chance, test_size)
    looks, uncounted = _looks(look, runs, table)
    return audit_runs(replace(runs, notes=(*runs.notes, *uncounted)), comparer, equivalence, looks)


def _looks(look: Looks | Look | None, runs: RunTable, table: Source) -> tuple[Looks | None, list[str]]:
    """Those to count: as asked, else as the store remembers them; and a warning if some are not counted."""
    if isinstance(look, Look):
        return look.on(runs), []
    if look is None and runs.store is not None and isinstance(table, str | Path):
        return looks_of_store(Path(runs.store))
    return look, []


def affordable(resamples: int, rows: int) -> int:
    """As many resamples, or fewer where the table is very large."""
    return min(resamples, max(_FEWEST_RESAMPLES, _DRAWS // rows))


def audit_runs(
    runs: RunTable, comparer: Comparer, equivalence: float, looks: Looks | None = None
) -> AuditResult:
    """The audit of runs that were checked."""
    comparisons, notes = _comparisons(runs, comparer, equivalence, looks)
    strips, columns = strips_of(runs), runs.columns
    over_strata = forests(comparisons, comparer.level, strips)
    return AuditResult(
        source=runs.source,
        value=columns.value,
        group=columns.group,
        baseline=columns.baseline or "",
        blocks=columns.blocks,
        seed=columns.seed,
        by=", ".join(columns.by) or None,
        rows=len(runs.frame),
        level=comparer.level,
        resamples=comparer.resamples,
        random_seed=comparer.random_seed,
        comparisons=tuple(comparisons),
        forest=over_strata[0] if len(over_strata) == 1 else None,
        forests=over_strata,
        notes=(*runs.notes, *notes, *_on_repeated(strips, columns)),
        values=strips,
        metric=comparer.metric,
        looks=looks,
    )


def metric_of_runs(
    runs: RunTable, metric: Metric | None, better: Better | None, *, accuracies: bool
) -> tuple[Metric, list[str]]:
    """The metric, and a note if its direction was told from its name."""
    better, value = better or runs.better, runs.columns.value
    if metric is None and runs.store is not None:
        metric = declared_metric(Store(runs.store), value)
    note = None if metric or better else direction_note(value)
    if metric is None:
        metric = metric_of(value, runs.frame["value"].to_numpy(float), accuracies=accuracies)
        metric = replace(metric, unit="per cent") if runs.per_cent else metric
    return replace(metric, better=better or metric.better), [note] if note else []


def check_options(
    level: float, resamples: int, chance: float | None, test_size: int | None, equivalence: float
) -> None:
    """Refuses what cannot be meant."""
    if not 1 < equivalence < np.inf:
        raise TableError(f"equivalence must be a factor above 1, such as 2; got {equivalence:g}")
    if not 0.5 <= level < 1:
        raise TableError(f"the level must lie between 0.5 and 1; got {level:g}")
    if resamples < 100:
        raise TableError(f"resamples must be at least 100; got {resamples}")
    if chance is not None and not np.isfinite(chance):
        raise TableError(f"chance must be a finite number; got {chance}")
    if test_size is not None and test_size < 2:
        raise TableError(f"test_size must be at least 2; got {test_size}")


def _comparisons(
    runs: RunTable, comparer: Comparer, equivalence: float, looks: Looks | None
) -> tuple[list[Comparison], list[str]]:
    """Every comparison, judged together, and a line on each stratum that has none."""
    pairs, notes = _pairs(runs)
    comparer = replace(comparer, deep=len(pairs) <= _MOST_DEEP and not comparer.brief)
    if len(pairs) > MOST_MODELLED or any(is_large(pair.arm, pair.baseline) for pair in pairs):
        comparer = replace(comparer, brief=True, deep=False)
        notes.append(
            f"{len(pairs):,} comparisons of {len(runs.frame):,} runs: the seed jackknife stands in for the "
            "headline's model, and the other tests are left out."
        )
    if looks is not None:
        notes.append(looks_note(looks))
    found = headlines([(pair.arm, pair.baseline) for pair in pairs], comparer.level, equivalence, looks)
    answers = judged([h for h, _ in found], [estimate for _, estimate in found], comparer.level)
    comparer = replace(comparer, by=runs.columns.by)
    return [comparer.compare(*both, len(pairs)) for both in zip(pairs, answers, strict=True)], notes


def _on_repeated(strips: Sequence[Strip], columns: Columns) -> list[str]:
    """Why a mean over strata has fewer of them, or is not there."""
    repeated = repeated_runs(strips)
    if not repeated:
        return []
    (stratum, group), earlier = next(iter(repeated.items()))
    more = f" (and {len(repeated) - 1} more such)" if len(repeated) > 1 else ""
    return [
        f"{stratum_name(columns.by, stratum)} has the runs of {arm_name(columns.group, group)} that "
        f"{stratum_name(columns.by, earlier)} has{more}: the ratios are not independent, and no mean over "
        "strata counts both."
    ]


def _pairs(runs: RunTable) -> tuple[list[Pair], list[str]]:
    pairs = [Pair(stratum, arm, other, place) for place, stratum, arm, other in compared_arms(runs)]
    columns, compared = runs.columns, {pair.stratum for pair in pairs}
    versus = columns.baseline or "other"
    notes = [
        f"{name} has no {versus} run to compare with, or nothing else; it was left out."
        for name in dict.fromkeys(runs.frame["stratum"])
        if name not in compared
    ]
    if not pairs:
        both = f"both {versus!r} and another level of {columns.group!r}"
        raise TableError(f"no stratum of {', '.join(columns.by)!r} has {both}")
    return pairs, notes
