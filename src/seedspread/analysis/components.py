"""Variance components of a table of runs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any, Unpack

import numpy as np
import pandas as pd

from seedspread.analysis import words
from seedspread.analysis.display import Answer, Block, Heading, Note, Result, components_tables
from seedspread.analysis.samples import groups_by_stratum, noise_of_test_set
from seedspread.runs.levels import Levels, group_name, joined_levels, level_name, stratum_name
from seedspread.runs.metrics import metric_of
from seedspread.stats import components as model
from seedspread.stats.distributions import chi2_ppf, chi2_sf
from seedspread.stats.groups import Group, Ints
from seedspread.stats.result import Interval, TestSetNoise
from seedspread.tables.check import (
    check_number,
    check_runs,
    check_same_seed,
    check_step_roles,
    one_row_per_run,
    with_baseline,
)
from seedspread.tables.columns import Columns, RunTable, find_seed, is_filled, require
from seedspread.tables.question import Names, Question, Rows, TableError, check_options, with_known_arguments
from seedspread.tables.read import Source, read_table
from seedspread.tables.read import Table as ReadTable
from seedspread.tables.shape import shaped


@dataclass(frozen=True)
class Component:
    """One part of a group's variance."""

    key: str  # `seed`, `noise`, `together` (the joint effect of several sources), or a source's name
    name: str
    variance: float  # by restricted maximum likelihood; zero or more
    # From the profile of that likelihood; it begins at zero if the data allow that.
    interval: Interval | None
    share: float  # of the total, from 0 to 1
    unbiased: float | None = None  # from mean squares, which may be negative; None if the design has none
    p: float | None = None  # of the hypothesis that it is zero: an exact F test, or a likelihood ratio


@dataclass(frozen=True)
class GroupComponents:
    """The variance of one group's runs, block means removed, and its components."""

    group: str
    runs: int
    seeds: int  # how many of the runs differ in any seed
    components: tuple[Component, ...]  # empty if the design does not separate them
    total: float  # their sum; if they cannot be separated, the whole variance, with an interval
    interval: Interval | None = None
    test_set_noise: TestSetNoise | None = None  # the test-set noise in it
    note: str = ""  # what the design cannot separate, and why
    factor: str = ""  # the factor of which `group` is a level

    @property
    def title(self) -> str:
        return group_name(self.factor, self.group)

    @property
    def sentence(self) -> str:
        return words.group_sentence(self)

    def component(self, key: str) -> Component | None:
        return next((c for c in self.components if c.key == key), None)


@dataclass(frozen=True)
class ComponentContrast:
    """One component in a group and in its baseline."""

    key: str
    name: str
    variances: tuple[float, float]
    ratio: float | None  # None if both variances are zero, infinite if only the baseline's is
    ratio_interval: Interval  # `high` is infinite if the baseline's variance may be zero
    p: float  # of no difference (likelihood ratio)


@dataclass(frozen=True)
class GroupsCompared:
    group: str
    baseline: str
    components: tuple[ComponentContrast, ...]
    sentence: str
    factor: str = ""

    @property
    def title(self) -> str:
        return f"{group_name(self.factor, self.group)} vs {group_name(self.factor, self.baseline)}"


@dataclass(frozen=True)
class Components:
    """The groups of one dataset and their comparisons; `title` names the dataset and its factor."""

    stratum: Levels
    groups: tuple[GroupComponents, ...]
    comparisons: tuple[GroupsCompared, ...]
    title: str = ""

    @property
    def sentences(self) -> list[str]:
        """Return the answer: the comparisons, then the groups."""
        return [c.sentence for c in self.comparisons] + [group.sentence for group in self.groups]


MOST_RUNS = 1_500
NO_NOISE = "runs that differ only in what comes after training have no same-seed noise among them"
_NAMES = {model.SEED: "between seeds", model.NOISE: "same-seed noise", model.TOGETHER: "sources together"}


@dataclass(frozen=True)
class Split:
    """A group with its components, and the profile of each, in units of `unit`."""

    group: GroupComponents
    curves: Mapping[str, model.Curve] = field(default_factory=dict)
    unit: float = 1.0


def split(sample: model.Sample, level: float, noise: TestSetNoise | None = None) -> Split:
    """Return the components of a sample, or a note if it cannot be split."""
    made = model.design(sample)
    blank = GroupComponents(
        sample.name,
        len(sample.values),
        model.number_of_seeds(sample),
        (),
        0.0,
        test_set_noise=noise,
        factor=sample.factor,
    )
    if made is None:
        return Split(replace(blank, note=words.NO_VARIANCE))
    names, rest = model.drop_idle_factors(sample, made)
    if rest is not sample:  # note what is known of the other runs, and that these factors add no variance
        found = split(rest, level, noise)
        group, idle = found.group, f"runs that vary {' or '.join(names)} alone hardly differ"
        none = [Component(name, name, 0.0, None, 0.0) for name in names if group.components]
        every, note = (*group.components, *none), "; ".join(filter(None, (group.note, idle)))
        group = replace(group, runs=blank.runs, seeds=blank.seeds, components=every, note=note)
        return replace(found, group=group)
    if model.NOISE not in made.names and not made.copies and len(made.names) < 2:
        # The variance within cells, and its exact interval for normal values.
        runs = Group(sample.name, sample.values, sample.cells, np.arange(len(sample.values)))
        total, tails = runs.within_variance, chi2_ppf([(1 + level) / 2, (1 - level) / 2], runs.df)
        low, high = map(float, total * runs.df / tails)
        note = NO_NOISE if made.has_shared_noise else words.NOT_REPEATED
        return Split(replace(blank, total=total, interval=Interval(low, high, level), note=note))
    estimates, top = model.fit(made.likelihood)
    curves = model.profiles(made.likelihood, estimates, top)
    unit = made.scale**2
    ends = model.intervals(made.likelihood, estimates, top, curves, level)
    total = float(estimates.sum())
    components = []
    for name, part, curve, (low, high) in zip(made.names, map(float, estimates), curves, ends, strict=True):
        interval = Interval(low * unit, high * unit, level)
        whole = Component(name, _NAMES.get(name, name), part * unit, interval, part / total)
        components.append(_tested(whole, made, curve))
    if made.copies:
        components.append(Component(model.NOISE, _NAMES[model.NOISE], 0.0, None, 0.0, unbiased=0.0))
    group = replace(blank, components=tuple(components), total=total * unit, note=_limits(made))
    return Split(group, dict(zip(made.names, curves, strict=True)), unit)


def _limits(made: model.Design) -> str:
    """Return what a design cannot separate; empty if it separates all components."""
    note = ""
    if made.copies:
        note = "runs of equal seeds are equal in all blocks: copies, without noise"
    elif model.NOISE not in made.names:
        each = "every other source's" if made.has_shared_noise else "every source's"
        note = f"no run is repeated, so {each} variance includes the same-seed noise"
    elif not made.repeated and len(made.names) > 3:
        note = (
            "no run is repeated: the noise is separated by assuming that the sources add up, and includes "
            "what they do only together"
        )
    elif len(made.names) > 2 and model.TOGETHER not in made.names:
        note = "what sources of randomness do only together counts as noise"
    return "; ".join(filter(None, (note, NO_NOISE if made.has_shared_noise else "")))


def _tested(whole: Component, made: model.Design, curve: model.Curve) -> Component:
    """Return a component with its unbiased estimate and p value, if the design provides them."""
    if whole.key == model.NOISE:
        return replace(whole, unbiased=made.noise)
    squares = made.mean_squares.get(whole.key)
    if squares is not None and not made.copies and np.isfinite(curve.drops[0]):
        return replace(whole, unbiased=squares.estimate, p=squares.p)
    if model.NOISE not in made.names and not made.copies:
        return whole  # it includes the noise, so it cannot be zero
    # Zero is on the boundary of the parameter space: half of the likelihood ratios would be zero.
    return replace(whole, p=float(chi2_sf(curve.drops[0], 1)) / 2 if whole.variance > 0 else 1.0)


def compare_splits(stratum: str, first: Split, second: Split, level: float) -> GroupsCompared | None:
    """Compare two groups component by component; None if they have no component in common."""
    contrasts, pair = [], (first.group, second.group)
    for key, curve in first.curves.items():
        a, b = (one.component(key) for one in pair)
        if key not in second.curves or a is None or b is None:
            continue
        interval, p = model.contrast(curve, second.curves[key], (first.unit, second.unit), level)
        ratio = a.variance / b.variance if b.variance else np.inf if a.variance else None
        contrasts.append(ComponentContrast(key, a.name, (a.variance, b.variance), ratio, interval, p))
    if not contrasts:
        return None
    title = f"{pair[0].title} vs {pair[1].title}"
    sentence = words.comparison_sentence(f"{stratum}: {title}" if stratum else title, contrasts)
    return GroupsCompared(pair[0].group, pair[1].group, tuple(contrasts), sentence, pair[0].factor)


@dataclass(frozen=True)
class ComponentsResult(Result):
    """The variance components of a table.

    Attributes:
        source: the table that was read.
        value, group, blocks, seed, sources, by: the columns.
        rows: number of runs.
        level: of every interval.
        strata: one for each level of `by`.
        notes: what was left out of the table and why.
    """

    source: str
    value: str
    group: str | None
    blocks: tuple[str, ...]
    seed: str | None
    sources: tuple[str, ...]
    by: tuple[str, ...]
    rows: int
    level: float
    strata: tuple[Components, ...]
    notes: tuple[str, ...] = ()

    def as_values(self) -> dict[str, Any]:
        values = asdict(self)
        for stratum, own in zip(self.strata, values["strata"], strict=True):
            own["stratum"] = joined_levels(stratum.stratum)
            for group, group_values in zip(stratum.groups, own["groups"], strict=True):
                group_values.update(sentence=group.sentence, factor=group_values.pop("factor"))
                if group.test_set_noise is not None:
                    group_values["test_set_noise"]["sentence"] = words.noise_sentence(group.test_set_noise)
        return values

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        """Yield what each variance consists of; with `details`, by dataset, every component."""
        yield Heading(f"{self.value} | where its variance across seeds comes from | {self.rows:,} runs")
        every = [group for stratum in self.strata for group in stratum.groups]
        notes = {group.note for group in every}
        alike = len(notes) == 1 and len(every) > 1 and not any(group.components for group in every)
        if alike:
            yield Answer.of("CAN'T TELL", notes.pop())
        for stratum in self.strata:
            yield ""
            yield from [Heading(stratum.title)] if stratum.title else []
            yield from [] if alike else stratum.sentences
            yield from components_tables(stratum, self.level)
        yield from map(Note, self.notes)
        yield Note(
            f"Restricted maximum likelihood, {self.level:.0%} profile intervals; normal values are assumed. "
            "The p value of a component is one-sided, since no variance is negative."
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per component of a group, as numbers."""
        rows = [
            {"stratum": joined_levels(stratum.stratum), "group": group.group, "runs": group.runs,
             "seeds": group.seeds, "component": c.key, "variance": c.variance, "share": c.share,
             "low": c.interval.low if c.interval else None, "high": c.interval.high if c.interval else None,
             "p": c.p, "unbiased": c.unbiased, "total": group.total}
            for stratum in self.strata
            for group in stratum.groups
            for c in group.components
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        groups = len({group.group for stratum in self.strata for group in stratum.groups})
        return f"<ComponentsResult of {self.source}: {self.value}, {groups} group{'s' * (groups != 1)}>"


# Columns of a store's runs: the seed of the whole run, and seeds that were set for single sources.
_RUN_SEED, _STREAM_SEEDS = "seeds.run", "seeds."
# The sources of randomness that a run's own code declares.
_SOURCES = "seeds.sources"
_STREAMS = ("init", "order", "augment", "probe")
# A source that the run's seed does not control, and the column with its seed if it has none of its own.
_SPLIT, _SPLIT_SEED = "split", "split_seed"
# Its seed is used after the encoder is trained: runs that differ in it alone share one encoder, bit for bit.
_AFTER_TRAINING = "probe"
# Columns that are added while a table is read.
_RUN, _GROUP, _EVERY = "__run__", "__group__", "all runs"


@with_known_arguments
def components(
    table: Source,
    value: str,
    group: str | None = None,
    block: Names = None,
    seed: str | None = None,
    source: Names = None,
    by: Names = None,
    *,
    baseline: str | None = None,
    test_size: int | None = None,
    level: float = 0.95,
    **rows: Unpack[Rows],
) -> ComponentsResult:
    """Split the variance of each group: between seeds, by source of randomness, same-seed noise.

    Args:
        table: one row per run; a file, a folder of runs, a DataFrame, what `seedspread.collect` reads, or
            what it returned.
        value: the column with the result of a run.
        group: the column whose levels are compared; without it all runs are one group.
        block: columns varied within a seed; their means are removed.
        seed: the column with the seed, also found by its usual names.
        source: columns with seeds of single sources of randomness, crossed or not, instead of one seed. Runs
            of a store record theirs.
        by: columns, such as the dataset, whose levels are analyzed separately.
        baseline: the level that the others are compared with; by default all pairs are compared.
        test_size: the number of test examples, for the test-set noise of accuracies.
        level: confidence level of the intervals.
        rows: where, last, best, wide, metric_column, sheet, at: row selection; see `Rows`.

    Returns:
        The result: `strata`, each with the components of its groups and their comparisons.

    Example:
        >>> found = components("examples/paper-cifar10.csv", "accuracy", "margin_type", "stability")
        >>> [part.name for part in found.strata[0].groups[0].components]
        ['between seeds', 'same-seed noise']
    """
    check_options(level, test_size=test_size)
    question = Question.of(
        value, group, baseline, block, seed or "seed", by, **{"command": "components"} | rows
    )
    read, question = shaped(read_table(table, question), question)
    seeds = _seed_columns(read, question, seed, (source,) if isinstance(source, str) else tuple(source or ()))
    columns = Columns(value, group or value, None, (*question.block, *seeds[1:]), seeds[0], question.by)
    check_step_roles(read, question, columns)
    read, row_notes = one_row_per_run(read, question, columns, None)
    if _RUN_SEED not in read.frame.columns:
        check_same_seed(read, question, columns)
    frame = read.frame.reset_index(drop=True)
    factors = {model.SEED if source is None else name: frame[name].map(level_name) for name in seeds}
    patterns = pd.Series("", index=frame.index)
    if _RUN_SEED in frame.columns and seeds == ["seed"] and source is None:
        factors, patterns = _stored_streams(frame)
    runs = _checked(replace(read, frame=frame), group, question, baseline)
    strata = _split(runs, factors, patterns, baseline, level, test_size)
    return ComponentsResult(
        source=read.name,
        value=value,
        group=group,
        blocks=runs.columns.blocks,
        seed=seed,
        sources=tuple(name for name in factors if name != model.SEED),
        by=runs.columns.by,
        rows=sum(group.runs for stratum in strata for group in stratum.groups),
        level=level,
        strata=strata,
        notes=(*read.notes, *row_notes, *runs.notes),
    )


def _split(
    runs: RunTable,
    factors: "dict[str, pd.Series[str]]",
    patterns: "pd.Series[str]",
    baseline: str | None,
    level: float,
    test_size: int | None,
) -> tuple[Components, ...]:
    values = runs.frame["value"].to_numpy(float)
    metric = metric_of(runs.columns.value, values, accuracies=test_size is not None)
    out = []
    for name, groups in groups_by_stratum(runs):
        # The baseline comes first in an audit, but last in a comparison.
        kept = sorted(groups, key=lambda a: a.name == level_name(baseline))
        samples = [_sample(group, runs, factors, patterns) for group in kept]
        splits = [
            split(
                sample, level, noise_of_test_set(group, [*sample.factors.values()], metric, level, test_size)
            )
            for group, sample in zip(kept, samples, strict=True)
        ]
        *others, last = splits
        is_there = baseline is not None and kept[-1].name == level_name(baseline)
        pairs = [(one, last) for one in others] if is_there else [(b, a) for a, b in combinations(splits, 2)]
        title = stratum_name(runs.columns.by, name) if name else ""
        found = (compare_splits(title, *pair, level) for pair in pairs)
        out.append(Components(name, tuple(s.group for s in splits), tuple(filter(None, found)), title))
    return tuple(out)


def _seed_columns(
    read: ReadTable, question: Question, seed: str | None, sources: tuple[str, ...]
) -> list[str]:
    """Return the column or columns with seeds, as an audit finds them."""
    named = [*sources, *([seed] if seed is not None else [])]
    roles = (question.value, question.group, *question.block, *question.by)
    for name in (*named, *(name for name in roles if name is not None)):
        require(name, read.frame.columns, read.name)
    if named:
        return named
    taken = {question.value, question.group, question.last, *question.block, *question.by}
    found = find_seed(read.frame, [name for name in read.frame.columns if name not in taken])
    if found is None:
        raise TableError(
            f"{read.name} has no column 'seed'; name it with --seed, or the columns of single sources of "
            "randomness with --source"
        )
    return [found]


def _stored_streams(frame: pd.DataFrame) -> "tuple[dict[str, pd.Series[str]], pd.Series[str]]":
    """Return the labels of each source of randomness, and, as a fixed effect, the sources with own seeds.

    A source of randomness has its own seed, or the run's.
    """
    seeds = frame[[column for column in frame.columns if column.startswith(_STREAM_SEEDS)]]
    seeds = seeds.apply(lambda cells: cells.astype(object).where(is_filled(cells)))  # a file has empty texts
    whole = seeds[_RUN_SEED].fillna(frame["seed"])
    others = [column.removeprefix(_STREAM_SEEDS) for column in seeds.columns]
    told = seeds.get(_SOURCES, pd.Series(dtype=object)).dropna().map(str)
    known = dict.fromkeys(name for names in told.unique() for name in names.split()) or _STREAMS
    names = dict.fromkeys([*known, *(name for name in others if name not in ("run", "sources"))])
    out, patterns = {}, pd.Series("", index=frame.index)
    for name in names:
        column = seeds.get(f"{_STREAM_SEEDS}{name}", pd.Series(np.nan, index=frame.index, dtype=object))
        is_split = name == _SPLIT and told.empty  # of the paper's training
        if is_split and column.isna().all():
            continue
        rest = frame.get(_SPLIT_SEED, pd.Series(0, index=frame.index)) if is_split else whole
        out[name] = column.fillna(rest).map(level_name)
        patterns = patterns + np.where(column.notna(), f"{name} ", "")
    return out, patterns.str.rstrip()


def _checked(read: ReadTable, group: str | None, asked: Question, baseline: str | None) -> RunTable:
    """Return the table as an audit checks it, with every row as a separate run."""
    frame, value = read.frame, str(asked.value)
    frame = frame.assign(**{_RUN: np.arange(len(frame))})
    if group is None:
        frame, group, baseline = frame.assign(**{_GROUP: _EVERY}), _GROUP, _EVERY
    elif baseline is None and group in frame.columns:
        check_number(read, asked)
        baseline = next((level for level in frame[group].map(level_name) if level), "")
    question = Question(value, group, baseline or "", asked.block, _RUN, asked.by)
    numbered = frame.set_axis(pd.RangeIndex(2, 2 + len(frame)), axis=0)
    table = replace(read, frame=numbered, notes=())
    runs = check_runs(table, question, pool=True)
    return runs if group == _GROUP and len(runs.frame) else with_baseline(runs, question)


def _sample(
    group: Group, runs: RunTable, factors: "dict[str, pd.Series[str]]", patterns: "pd.Series[str]"
) -> model.Sample:
    title = group_name(group.factor, group.name)
    if len(group.values) > MOST_RUNS:
        raise TableError(
            f"{title} has {len(group.values):,} runs; components are estimated for {MOST_RUNS:,} at most: "
            "split them with --by"
        )
    places = dict(zip(runs.frame["seed"], runs.frame["seed_name"].astype(int), strict=True))
    rows = [places[code] for code in group.seeds]
    codes = {}
    for name, labels in factors.items():
        chosen = labels.iloc[rows]
        if (chosen == "").any():
            raise TableError(f"a run of {title} has no {name}; fill it in, or drop the row")
        codes[name] = pd.factorize(chosen)[0].astype(np.intp)
    driven = patterns.iloc[rows].to_numpy()
    cells = pd.factorize(pd.Series(group.blocks).astype(str) + "/" + driven)[0]
    shared_noise = _of_one_encoder(cells, codes, driven == _AFTER_TRAINING)
    return model.Sample(group.name, group.values, cells.astype(np.intp), codes, group.factor, shared_noise)


def _of_one_encoder(cells: Ints, codes: dict[str, Ints], chosen: model.Bools) -> model.Bools | None:
    """Return the runs of a cell that differ only in a source used after training; None if there are none.

    If their seeds recur on a second encoder, they may have another effect there, which noise represents.
    """
    if not chosen.any() or len(np.unique(codes[_AFTER_TRAINING][chosen])) < np.count_nonzero(chosen):
        return None
    for cell in np.unique(cells[chosen]):
        rows = cells == cell
        others = (of_stream[rows] for name, of_stream in codes.items() if name != _AFTER_TRAINING)
        if np.count_nonzero(rows) < 2 or any(np.ptp(seeds) for seeds in others):
            chosen = chosen & ~rows
    return chosen if chosen.any() else None
