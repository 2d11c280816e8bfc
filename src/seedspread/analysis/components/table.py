"""Variance components of a table of runs."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from seedspread.analysis.components.result import Components
from seedspread.analysis.components.show import ComponentsResult
from seedspread.analysis.components.split import MOST_RUNS, split, together
from seedspread.analysis.samples import arms_by_stratum
from seedspread.errors import did_you_mean
from seedspread.runs.levels import arm_name, level_name, stratum_name
from seedspread.runs.metrics import Metric, metric_of
from seedspread.runs.table import correct_predictions
from seedspread.stats.arms import Arm, Ints
from seedspread.stats.components.design import SEED, Bools, Sample
from seedspread.stats.floor import floor_from_accuracies, floor_from_predictions
from seedspread.stats.result import Floor
from seedspread.tables.check import check_runs, with_baseline
from seedspread.tables.errors import TableError
from seedspread.tables.question import Question
from seedspread.tables.read import Source, Table, read_table
from seedspread.tables.run_table import MOST_PAIRS, RunTable

# Columns of a store's runs: the seed of the whole run, and those of its streams that were set apart.
_RUN_SEED, _STREAM_SEEDS = "seeds.run", "seeds."
_STREAMS = ("init", "order", "augment", "probe")
# Its seed is drawn from when the encoder is trained: runs that drive it alone have one encoder, to the bit.
_AFTER_TRAINING = "probe"
# Columns that are added while a table is read.
_RUN, _GROUP, _EVERY, _SPARE = "__run__", "__group__", "all runs", "__spare__"

Names = str | Sequence[str] | None


def components(
    table: Source,
    value: str,
    group: str | None = None,
    block: Names = None,
    seed: str | None = None,
    stream: Names = None,
    by: Names = None,
    *,
    baseline: str | None = None,
    test_size: int | None = None,
    level: float = 0.95,
    at: str = "last",
) -> ComponentsResult:
    """Where does the variance of each arm come from: between seeds, by stream, or from same-seed noise?

    Args:
        table: one row per run; a file, a folder of runs, a DataFrame, what `seedspread.collect` reads, or
            what it returned.
        value: the column with the result of a run.
        group: the column whose levels are the arms; without it all runs are one.
        block: columns that tell the runs of one seed apart; their means are taken out.
        seed: the column with the seed; by default the one that is called so.
        stream: columns with seeds of single streams, crossed or not, instead of the one seed. Runs of a store
            know theirs.
        by: columns, such as the dataset, whose levels are split apart.
        baseline: the level that the others are compared with; by default all pairs are compared.
        test_size: the number of test examples, for the floor of accuracies.
        level: of the intervals.
        at: which step of a run that was logged by step: `last`, `best` or `step=N`.
    """
    if not 0.5 <= level < 1:
        raise TableError(f"the level must lie between 0.5 and 1; got {level:g}")
    if test_size is not None and test_size < 2:
        raise TableError(f"test_size must be at least 2; got {test_size}")
    read = read_table(table, Question(value, at=at))
    frame = read.frame.reset_index(drop=True)
    factors, patterns = _factors(frame, read.name, seed, _names(stream))
    runs = _checked(frame, read.store, value, group, _names(block), _names(by), baseline)
    strata = _split(runs, factors, patterns, baseline, level, test_size)
    return ComponentsResult(
        source=read.name,
        value=value,
        group=group,
        blocks=runs.columns.blocks,
        seed=seed,
        streams=tuple(name for name in factors if name != SEED),
        by=runs.columns.by,
        rows=sum(arm.runs for stratum in strata for arm in stratum.arms),
        level=level,
        strata=strata,
        notes=(*read.notes, *runs.notes),
    )


def _split(
    runs: RunTable,
    factors: "dict[str, pd.Series[str]]",
    patterns: "pd.Series[str]",
    baseline: str | None,
    level: float,
    test_size: int | None,
) -> tuple[Components, ...]:
    """Stratum by stratum."""
    values = runs.frame["value"].to_numpy(float)
    metric = metric_of(runs.columns.value, values, accuracies=test_size is not None)
    out = []
    for name, arms in arms_by_stratum(runs):
        # The baseline, which comes first in an audit, is named last in a comparison.
        kept = sorted((a for a in arms if a.name != _SPARE), key=lambda a: a.name == level_name(baseline))
        samples = [_sample(arm, runs, factors, patterns) for arm in kept]
        splits = [
            split(sample, level, _floor(arm, sample, metric, level, test_size))
            for arm, sample in zip(kept, samples, strict=True)
        ]
        last = len(kept) - 1
        is_there = baseline is not None and kept[last].name == level_name(baseline)
        pairs = [(i, last) for i in range(last)] if is_there else None
        title = stratum_name(runs.columns.by, name) if name else ""
        out.append(together(name, splits, pairs, level, title))
    return tuple(out)


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())


def _factors(
    frame: pd.DataFrame, source: str, seed: str | None, streams: tuple[str, ...]
) -> "tuple[dict[str, pd.Series[str]], pd.Series[str]]":
    """The labels of each random factor, and which streams of a store's run were driven apart."""
    none = pd.Series("", index=frame.index)
    if streams or seed is not None:
        chosen = {name: name for name in streams} | ({SEED: seed} if seed is not None else {})
        return {name: _labels(frame, source, column) for name, column in chosen.items()}, none
    if _RUN_SEED in frame.columns:
        return _stored_streams(frame)
    found = [column for column in frame.columns if column.lower() == "seed"]
    if not found:
        raise TableError(f"{source} has no column 'seed'; name it with --seed, or its streams with --stream")
    return {SEED: _labels(frame, source, found[0])}, none


def _stored_streams(frame: pd.DataFrame) -> "tuple[dict[str, pd.Series[str]], pd.Series[str]]":
    """A stream has a seed of its own, or the run's; which of them were set is a fixed effect."""
    whole = frame[_RUN_SEED].fillna(frame["seed"])
    others = [c.removeprefix(_STREAM_SEEDS) for c in frame.columns if c.startswith(_STREAM_SEEDS)]
    names = dict.fromkeys([*_STREAMS, *(name for name in others if name != "run")])
    out, patterns = {}, pd.Series("", index=frame.index)
    for name in names:
        column = frame.get(f"{_STREAM_SEEDS}{name}", pd.Series(np.nan, index=frame.index))
        out[name] = column.fillna(whole).map(level_name)
        patterns = patterns + np.where(column.notna(), f"{name} ", "")
    return out, patterns.str.rstrip()


def _labels(frame: pd.DataFrame, source: str, column: str) -> "pd.Series[str]":
    if column not in frame.columns:
        hint = did_you_mean(column, list(frame.columns))
        raise TableError(f"{source} has no column {column!r}{hint} (it has {', '.join(frame.columns[:12])})")
    return frame[column].map(level_name)


def _checked(
    frame: pd.DataFrame,
    store: str | None,
    value: str,
    group: str | None,
    blocks: tuple[str, ...],
    by: tuple[str, ...],
    baseline: str | None,
) -> RunTable:
    """The table as an audit checks it, every row a run of its own."""
    frame = frame.assign(**{_RUN: np.arange(len(frame))})
    if group is None:
        # A checked table has two groups: one run more, which is left out again, is the other one.
        numbers = pd.to_numeric(frame[value], errors="coerce") if value in frame.columns else pd.Series()
        spare = (
            frame.loc[numbers.notna().to_numpy().nonzero()[0][:1]]
            .assign(**{_GROUP: _SPARE})
            .assign(**{_RUN: -1})
        )
        frame = pd.concat([frame.assign(**{_GROUP: _EVERY}), spare], ignore_index=True)
        group, baseline = _GROUP, _EVERY
    elif baseline is None and group in frame.columns:
        _check_number(frame[group])
        baseline = next((level for level in frame[group].map(level_name) if level), "")
    question = Question(value, group, baseline or "", blocks, _RUN, by)
    numbered = frame.set_axis(pd.RangeIndex(2, 2 + len(frame)), axis=0)
    table = Table(numbered, store or "a DataFrame", store=store)
    return with_baseline(check_runs(table, question, pool=True), question)


def _check_number(column: "pd.Series[str]") -> None:
    """Refuses more pairs of arms than anyone can read, before any work."""
    levels = column.map(level_name).nunique()
    pairs = levels * (levels - 1) // 2
    if pairs > MOST_PAIRS:
        raise TableError(
            f"{column.name} has {levels:,} levels, {pairs:,} comparisons of all with all, and at most "
            f"{MOST_PAIRS:,} are made; name the level to compare with: --baseline {column.iloc[0]}"
        )


def _sample(
    arm: Arm, runs: RunTable, factors: "dict[str, pd.Series[str]]", patterns: "pd.Series[str]"
) -> Sample:
    title = arm_name(arm.factor, arm.name)
    if len(arm.values) > MOST_RUNS:
        raise TableError(
            f"{title} has {len(arm.values):,} runs; components are estimated for {MOST_RUNS:,} at most: "
            "split them with --by"
        )
    places = dict(zip(runs.frame["seed"], runs.frame["seed_name"].astype(int), strict=True))
    rows = [places[code] for code in arm.seeds]
    codes = {}
    for name, labels in factors.items():
        chosen = labels.iloc[rows]
        if (chosen == "").any():
            raise TableError(f"a run of {title} has no {name}; fill it in, or drop the row")
        codes[name] = pd.factorize(chosen)[0].astype(np.intp)
    driven = patterns.iloc[rows].to_numpy()
    cells = pd.factorize(pd.Series(arm.blocks).astype(str) + "/" + driven)[0]
    quiet = _of_one_encoder(cells, codes, driven == _AFTER_TRAINING)
    return Sample(arm.name, arm.values, cells.astype(np.intp), codes, arm.factor, quiet)


def _of_one_encoder(cells: Ints, codes: dict[str, Ints], chosen: Bools) -> Bools | None:
    """The runs of a cell that differ in what comes after training alone; None if there are no such cells.

    Where their seeds recur on a second encoder, what they do there may be another thing: noise stands for it.
    """
    if not chosen.any() or len(np.unique(codes[_AFTER_TRAINING][chosen])) < np.count_nonzero(chosen):
        return None
    for cell in np.unique(cells[chosen]):
        rows = cells == cell
        others = (of_stream[rows] for name, of_stream in codes.items() if name != _AFTER_TRAINING)
        if np.count_nonzero(rows) < 2 or any(np.ptp(seeds) for seeds in others):
            chosen = chosen & ~rows
    return chosen if chosen.any() else None


def _floor(arm: Arm, sample: Sample, metric: Metric, level: float, test_size: int | None) -> Floor | None:
    """Of accuracies alone: from stored predictions, one run of each seed, or the bound."""
    scale = metric.full_scale
    if scale is None or len(arm.values) < 2:
        return None
    if arm.folders and metric.name == "accuracy":
        seeds = np.stack(list(sample.factors.values()))
        _, first = np.unique(seeds, axis=1, return_index=True)
        correct = correct_predictions([arm.folders[i] for i in first]) if len(first) > 1 else None
        if correct is not None:
            return floor_from_predictions(arm.name, correct, level, scale)
    inside = arm.values.min() >= 0 and arm.values.max() <= scale
    return floor_from_accuracies(arm.name, arm.values, test_size, scale) if test_size and inside else None
