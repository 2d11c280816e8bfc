"""One question about several sets of runs: did the spread change, and do their answers agree?

The first is an audit with the set as the group; the second compares the variance ratios of two sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from seedspread.analysis import audit, words
from seedspread.analysis.audit_result import AuditResult
from seedspread.analysis.charts import audit_chart
from seedspread.analysis.display import MOST_ROWS, Answer, Block, Heading, Note, Result, agreement_table
from seedspread.analysis.judgement import judged
from seedspread.analysis.samples import Versus, compared_pairs
from seedspread.render.chart import Chart
from seedspread.runs.levels import Levels, joined_levels, stratum_name
from seedspread.runs.metrics import Better, Metric
from seedspread.stats.headline import Finding, headline_from, without_estimate
from seedspread.stats.result import Headline, Word
from seedspread.stats.variance_ratio import LogRatioEstimate, difference
from seedspread.tables.check import check_runs, in_one_group, missing_seeds, with_baseline
from seedspread.tables.columns import RunTable, coded
from seedspread.tables.question import SET, Question, TableError, check_options
from seedspread.tables.read import Table as ReadTable

_METHOD = "ratio of variance ratios"
_WHY = (
    "the headlines of two sets of runs, taken as independent: the difference of their log ratios has the "
    "distribution that both together give it"
)
_OF_A_STORE = ("folder", "chance")
_RUN = ["stratum", "group", "block", "seed_name"]
# Stratum, group, baseline.
_Key = tuple[Levels, str, str]
_Answer = tuple["SetAnswer", LogRatioEstimate | None]


@dataclass(frozen=True)
class SetAnswer:
    """The answer of one set for a group and its baseline; `word` and `p_adjusted` are from its own audit."""

    source: str
    seeds: tuple[int, int]
    headline: Headline
    p_adjusted: float | None
    word: Word


@dataclass(frozen=True)
class Agreement(Versus):
    """The answers of two sets to the same question."""

    stratum: Levels  # the stratum in which the group is compared with its baseline
    group: str
    baseline: str
    source: str  # the second set; ratios of ratios are `source` over `first`
    first: str
    answers: tuple[SetAnswer, SetAnswer]  # the answers of `first` and `source`
    headline: Headline  # of the ratio of the two variance ratios
    p_adjusted: float | None  # p of the hypothesis that it is 1, adjusted over all agreements
    word: Word  # YES if the sets differ, NO if they agree, and so on
    verdict: str
    factor: str = ""  # the factor of which the group is a level; the stratum consists of levels of `by`
    by: tuple[str, ...] = ()

    def as_values(self) -> dict[str, Any]:
        return asdict(self) | {"stratum": joined_levels(self.stratum)}


@dataclass(frozen=True)
class CompareResult(Result):
    """The same question, asked of several sets of runs.

    Attributes:
        names: names of the sets, the one that the others are compared with first.
        sources: what was read for each set.
        value: the column with a number per run.
        metric: the metric of the values.
        group: the column that distinguishes the groups of a set; None if a set is one sample.
        baseline: the group that the others are compared with; empty if every pair is compared.
        spread: the audit with the set as the group: of each group, from the first set to the others.
        agreements: for each group and its baseline, whether the sets agree on their ratio.
        only: settings that occur in one set only, or not in the first, by set.
        copies: a line on runs that are identical in two sets, and so are no further evidence.
        notes: remarks on the data and the assumptions.
    """

    names: tuple[str, ...]
    sources: tuple[str, ...]
    value: str
    metric: Metric
    group: str | None
    baseline: str
    spread: AuditResult
    agreements: tuple[Agreement, ...]
    only: dict[str, tuple[str, ...]]
    copies: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def answer(self) -> str:
        """Return a few sentences: did the spread change, and do the sets agree?"""
        spread, agreement = (
            " ".join(f"{word}: {'; '.join(texts)}." for word, *texts in found)
            for found in (words.changed(self), words.agreeing(self))
        )
        agree = [f"Do the sets agree? {agreement}"] if agreement else []
        return " ".join([*self.copies, f"Did the spread change? {spread}", *agree])

    def as_values(self) -> dict[str, Any]:
        agreements = [a.as_values() for a in self.agreements]
        own = {"spread": self.spread.as_values(), "agreements": agreements}
        return {"answer": self.answer} | asdict(self) | own

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        """Yield both answers, then their tables; with `details` every test of the spread."""
        several, most = len(self.spread.comparisons) > 1, None if width is None else MOST_ROWS
        first, *others = self.names
        yield from (Answer.of("Caution", line) for line in self.copies)
        if several:
            yield Heading(f"{self.value} | {words.listed(others)} vs {first} | {self.spread.rows:,} runs")
            yield "Did the spread change?"
            yield from (Answer.of(*line) for line in words.changed(self))
        else:
            yield from self.spread.each(details)
        if self.agreements:
            yield from ["", "Do the sets agree on the variance ratio?"]
            yield from (Answer.of(*line) for line in words.agreeing(self))
        if several:
            yield from self.spread.overview_tables(width)
        if self.agreements:
            yield agreement_table(self.agreements, most)
            yield from words.left_out(len(self.agreements) - (most or len(self.agreements)))
        if several:
            yield from self.spread.each(details)
        yield from map(Note, self.notes)

    def chart(self) -> Chart:
        return audit_chart(self.spread)

    def __repr__(self) -> str:
        return f"<CompareResult of {' and '.join(self.names)}: {self.answer}>"


@dataclass(frozen=True)
class RunSet:
    name: str
    runs: RunTable
    metric: Metric
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class JoinedSets:
    """All sets in one table; see `CompareResult`.

    Its `frame` has the set's name as `source`, and the setting that is compared across sets as `setting`: the
    levels of `by`, first those of the stratum, then that of the group.
    """

    names: tuple[str, ...]
    runs: RunTable
    metric: Metric
    by: tuple[str, ...]
    only: dict[str, tuple[str, ...]]
    copies: tuple[str, ...]
    notes: tuple[str, ...]

    def of(self, name: str) -> RunTable:
        """Return the runs of one set, with its groups in the common order."""
        frame, crashed = self.runs.frame, self.runs.crashed
        groups = coded(frame["group"])[0]
        own = frame.iloc[np.argsort(groups, kind="stable")]
        own = own.loc[own["source"] == name].reset_index(drop=True)
        return replace(self.runs, frame=own, crashed=crashed.loc[crashed["source"] == name])

    def by_setting(self) -> RunTable:
        """Return the sets as groups and their groups as datasets: did the spread change?"""
        frame, is_first = self.runs.frame, self.runs.frame["source"] == self.names[0]
        shared = set(frame["setting"][is_first]) & set(frame["setting"][~is_first])
        kept = frame.loc[frame["setting"].isin(shared)].reset_index(drop=True)
        turned = [
            one.assign(stratum=one["setting"], group=one["source"]) for one in (kept, self.runs.crashed)
        ]
        columns = replace(self.runs.columns, group="source", baseline=self.names[0], by=self.by)
        return replace(self.runs, frame=turned[0], crashed=turned[1], columns=columns, notes=())


def join(sets: Sequence[RunSet]) -> JoinedSets:
    """Join all sets into one table; refuse sets with no setting in common with the first, or another unit."""
    sets, metric, notes = _in_one_unit(sets)
    named = [s.runs.columns.seed for s in sets]  # runs of sets without seeds cannot be paired
    columns = replace(sets[0].runs.columns, seed=None if None in named else named[0])
    kept = [c for c in _OF_A_STORE if all(c in s.runs.frame for s in sets)]
    dropped = [c for c in _OF_A_STORE if c not in kept]
    frames = [s.runs.frame.drop(columns=dropped, errors="ignore").assign(source=s.name) for s in sets]
    crashed = [s.runs.crashed.assign(source=s.name) for s in sets]
    every = pd.concat([*frames, *(c for c in crashed if len(c))], ignore_index=True)
    seeds = every["seed_name"] if columns.seed else "row " + every["row"].astype(str)
    seeds = seeds if columns.seed and columns.paired else every["source"].str.cat(seeds, " ")
    every["seed"], every["setting"], by = coded(seeds)[0], every["stratum"], columns.by
    if columns.group != SET:
        levels: list[Levels] = [
            (*s, group) for s, group in zip(every["stratum"], every["group"], strict=True)
        ]
        every["setting"], by = pd.Series(levels, dtype=object), (*columns.by, columns.group)
    rows = sum(map(len, frames))
    frame, lost = every.iloc[:rows], every.iloc[rows:]
    runs = RunTable(
        frame, columns, words.listed(list(dict.fromkeys(s.runs.source for s in sets))), (), crashed=lost
    )
    names = tuple(s.name for s in sets)
    only, copies = _only(frame, by, names), tuple(_copies(frame, names))
    return JoinedSets(names, runs, metric, by, only, copies, tuple(notes))


def _in_one_unit(sets: Sequence[RunSet]) -> tuple[list[RunSet], Metric, list[str]]:
    """Convert shares to per cent if sets mix them; refuse other differences in unit, or in direction."""
    value = sets[0].runs.columns.value
    if len({s.metric.better for s in sets}) > 1:
        told = " and ".join(f"{s.metric.better} in {s.name}" for s in sets)
        raise TableError(
            f"{value} is better when {told}; say which with --higher-is-better or --lower-is-better"
        )
    units = {s.metric.unit for s in sets} - {"none"}
    if units == {"share", "per cent"}:
        shares = [s.name for s in sets if s.metric.unit == "share"]
        metric = next(s.metric for s in sets if s.metric.unit == "per cent")
        note = (
            f"{value} is a share in {words.listed(shares)}, else a percentage: shares were multiplied by 100."
        )
        return [_in_per_cent(s) for s in sets], metric, [note]
    if len(units) > 1:
        told = " and ".join(f"in {s.metric.unit} in {s.name}" for s in sets)
        raise TableError(f"{value} is {told}; bring the values to one unit first")
    metric = next((s.metric for s in sets if s.metric.unit in units), sets[0].metric)
    return list(sets), metric, []


def _in_per_cent(one: RunSet) -> RunSet:
    if one.metric.unit != "share":
        return one
    frame = one.runs.frame
    scaled = frame.assign(**{c: 100 * frame[c] for c in ("value", "chance") if c in frame})
    return replace(one, runs=replace(one.runs, frame=scaled), metric=one.metric.for_display[0])


def _copies(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return a line on settings of a later set whose runs are identical to those of the first.

    Single runs are not compared: rounded values agree by chance.
    """
    known = pd.MultiIndex.from_frame(frame.loc[frame["source"] == names[0], [*_RUN, "value"]])
    out = []
    for name in names[1:]:
        own = frame.loc[frame["source"] == name]
        same = pd.Series(pd.MultiIndex.from_frame(own[[*_RUN, "value"]]).isin(known), own.index)
        by_setting = same.groupby([own["stratum"], own["group"]])
        all_same = (by_setting.transform("all") & (by_setting.transform("size") > 1)).to_numpy()
        if copies := int(same[all_same].sum()):
            out.append(words.copies_note(copies, len(own), name, names[0]))
    return out


def _only(frame: pd.DataFrame, by: Sequence[str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return settings that the first set lacks, and its own that no other has; refuse disjoint sets."""
    of = {name: dict.fromkeys(frame["setting"][frame["source"] == name]) for name in names}
    others = {one for name in names[1:] for one in of[name]}
    for name in names[1:]:
        if not of[name].keys() & of[names[0]].keys():
            has = ". ".join(
                f"{one} has {words.few(stratum_name(by, s) for s in of[one])}" for one in (names[0], name)
            )
            raise TableError(f"{names[0]} and {name} have no setting in common. {has}")
    lacking = {
        name: [s for s in of[name] if s not in (others if name == names[0] else of[names[0]])]
        for name in names
    }
    return {name: tuple(stratum_name(by, s) for s in found) for name, found in lacking.items() if found}


def agreements(joined: JoinedSets, comparer: audit.Comparer) -> tuple[Agreement, ...]:
    """Return, for every question of the first set and another, whether they agree; adjusted together."""
    level = comparer.level
    first, *others = (_answers(joined.of(name), name, comparer) for name in joined.names)
    both = [(key, first[key], other[key]) for other in others for key in first if key in other]
    found = [_ratio_of(a, b, level, comparer.equivalence) for _, a, b in both]
    results = judged([h for h, _ in found], [e for _, e in found], level)
    columns = joined.runs.columns
    out = []
    for (key, (a, _), (b, _)), j in zip(both, results, strict=True):
        h, p, interval = j.headline, j.p_adjusted, j.headline.shown_interval
        verdict = h.why
        if h.ratio is not None and interval is not None and p is not None:
            adjusted = f", adjusted for {len(both)} comparisons" if len(both) > 1 else ""
            verdict = (
                f"the ratio in {b.source} is {words.two(h.ratio)} times that in {a.source} "
                f"({words.ci(interval)}), {words.p_phrase(p)}{adjusted}"
            )
        sets = b.source, a.source, (a, b)
        out.append(Agreement(*key, *sets, h, p, j.word, verdict, columns.group, columns.by))
    return tuple(out)


def _answers(runs: RunTable, name: str, comparer: audit.Comparer) -> dict[_Key, _Answer]:
    """Return the answers of a set alone, as in its own audit."""
    pairs, out = list(compared_pairs(runs)), {}
    for pair, (j, estimate) in zip(pairs, audit.judge_pairs(runs, pairs, comparer), strict=True):
        answer = SetAnswer(name, pair.seeds, j.headline, j.p_adjusted, j.word)
        out[pair.stratum, pair.group.name, pair.baseline.name] = (answer, estimate)
    return out


def _ratio_of(first: _Answer, second: _Answer, level: float, equivalence: float) -> Finding:
    plain = [answer.headline.raw_ratio for answer, _ in (first, second)]
    ratio = plain[1] / plain[0] if plain[0] and plain[1] else None
    if first[1] is None or second[1] is None:
        without = [answer.source for answer, estimate in (first, second) if estimate is None]
        return without_estimate(_METHOD, f"no ratio with an interval in {' and '.join(without)}", ratio), None
    estimate = difference(second[1], first[1])
    return headline_from(estimate, _METHOD, _WHY, level, equivalence, ratio), estimate


def compare_tables(
    tables: Sequence[tuple[str, ReadTable]],
    question: Question,
    level: float,
    equivalence: float,
    better: Better | None = None,
    recorded: Sequence[str] = (),
) -> CompareResult:
    """Ask the same question of named tables; the others are compared with the first.

    Without a group, each table is one sample. `recorded` are notes from the records of the sets' studies.
    """
    check_options(level, equivalence=equivalence)
    sets = [_set_of(name, table, question, better) for name, table in tables]
    joined = _with_baseline(join(sets), question)
    comparer = audit.Comparer(joined.metric, level, equivalence=equivalence)
    by_setting = joined.by_setting()
    spread = audit.audit_runs(by_setting, comparer, over_strata=False)
    columns, one_sample = joined.runs.columns, joined.runs.columns.group == SET
    found = () if one_sample else agreements(joined, comparer)
    assumed = {
        "Each set is one sample; --group names a column whose levels are compared within each.": one_sample,
        "Seeds that two sets share were used as pairs.": any(c.headline.pairs for c in spread.comparisons),
        "Whether sets agree is judged as if they were independent, so shared seeds make the intervals wider "
        "than necessary.": bool(found),
    }
    return CompareResult(
        names=joined.names,
        sources=tuple(one.runs.source for one in sets),
        value=columns.value,
        metric=joined.metric,
        group=None if one_sample else columns.group,
        baseline=columns.baseline or "",
        spread=spread,
        agreements=found,
        only=joined.only,
        copies=joined.copies,
        notes=(
            *joined.notes,
            *(f"Only in {name}: {words.few(settings)}." for name, settings in joined.only.items()),
            *(note for note, is_so in assumed.items() if is_so),
            *spread.notes,
            *joined.runs.notes,
            *(missing_seeds(by_setting) if one_sample else ()),
            *dict.fromkeys(note for one in sets for note in one.notes),
            *recorded,
        ),
    )


def _set_of(name: str, table: ReadTable, question: Question, better: Better | None) -> RunSet:
    """Return a table's runs, and notes with its name."""
    runs = check_runs(*in_one_group(table, question, name), better)
    metric, told = audit.metric_of_runs(runs, None, better, accuracies=False)
    return RunSet(name, runs, metric, (*(f"{name}: {note}" for note in runs.notes), *told))


def _with_baseline(joined: JoinedSets, question: Question) -> JoinedSets:
    """Return it with the baseline that a table of all sets would have."""
    if joined.runs.columns.group == SET:
        if question.baseline is not None:
            raise TableError("--baseline is a level of the group; name the column with --group")
        return joined
    if question.baseline is None and len(coded(joined.runs.frame["group"])[1]) < 2:
        return joined
    return replace(joined, runs=with_baseline(joined.runs, question))
