"""The gate: a bound from past runs, and whether new runs pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import floor, inf, log10
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd

from seedspread.analysis.audit import metric_of_runs
from seedspread.analysis.display import Answer, Block, Note, Result
from seedspread.analysis.sets import RunSet, join
from seedspread.analysis.words import p_phrase, p_value, two
from seedspread.render.table import Column, Table
from seedspread.runs.levels import counted_runs, group_name, several, stratum_name
from seedspread.runs.metrics import Better, Metric, direction_of
from seedspread.runs.store import Store, is_store
from seedspread.runs.studies import declared_metric, load_studies
from seedspread.stats import tolerance
from seedspread.stats.failures import fisher_p, no_better
from seedspread.stats.groups import Floats, Group
from seedspread.stats.headline import FEWEST_SEEDS, headlines
from seedspread.stats.tolerance import Bound, MeanTest
from seedspread.tables.check import check_runs, in_one_group
from seedspread.tables.from_store import study_runs
from seedspread.tables.question import SET, Names, Question, Rows, TableError, listed, with_known_arguments
from seedspread.tables.read import Source, read_table
from seedspread.tables.read import Table as ReadTable

Verdict = Literal["FAIL", "CAN'T TELL", "PASS", "BOUND"]
_EXITS: dict[Verdict, int] = {"FAIL": 1, "CAN'T TELL": 3, "PASS": 0, "BOUND": 0}
_FEWEST_PAST = 3
# A single run among several is far off if its own p value is this many times smaller than alpha.
_FAR = 500
# If there are no new runs, details are printed by default for up to this many gates.
_FEW = 3


@dataclass(frozen=True)
class Rules:
    alpha: float = 0.05
    confidence: float = 0.95
    margin: float | None = None
    two_sided: bool = False
    chance: float | None = None

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("--alpha", self.alpha, 0, 0.5), ("--confidence", self.confidence, 0, 1),
            ("--margin", self.margin, 0, inf),
        ):  # fmt: skip
            if value is not None and not low < value < high:
                beyond = f"above {low}" if high == inf else f"between {low} and {high}"
                raise TableError(f"{name} must be a number {beyond}; got {value:g}")


@dataclass(frozen=True)
class Sample:
    """Successful runs, and the number of failed ones."""

    values: tuple[float, ...]
    mean: float | None = None
    sd: float | None = None
    failed: int = 0

    @property
    def failures(self) -> tuple[int, int]:
        return self.failed, self.failed + len(self.values)


@dataclass(frozen=True)
class Gate:
    """One metric of one group: its past runs, their bounds, and the judgment of new runs."""

    metric: str
    name: str
    past: Sample
    new: Sample | None
    # On the side where runs are worse; on both sides if the gate is two-sided.
    bounds: tuple[Bound, ...] = ()
    difference: float | None = None  # of the means, new minus past; its interval has the level 1 - 2 alpha
    interval: tuple[float, float] | None = None
    test: str = ""
    # P values of what can fail (mean, spread, failures), and of the mean being within the margin.
    p: dict[str, float | None] = field(default_factory=dict)
    # The smallest p value of those that can fail, weighted, and adjusted over all gates by Holm.
    p_adjusted: float | None = None
    # Variance of new runs over that of past ones, with a 95% interval.
    spread: tuple[float, float, float] | None = None
    cause: str = ""  # reason for FAIL: mean, spread or failures
    why: str = ""  # reason for CAN'T TELL
    better: Better | None = None
    word: Verdict = "BOUND"

    @property
    def title(self) -> str:
        return f"{self.metric} ({self.name})" if self.name else self.metric

    def digits(self, value: float | None) -> str:
        """Return a value with the decimals that show two digits of the sd."""
        if value is None:
            return "-"
        places = 1 - floor(log10(self.past.sd or abs(value) / 100 or 1.0))
        return f"{value:.{min(max(places, 0), 10)}f}".replace("-", "−")

    def change(self, value: float | None) -> str:
        return f"{'+' * (value is not None and value > 0)}{self.digits(value)}"

    @property
    def bound(self) -> str:
        return " to ".join(self.digits(one.value) for one in self.bounds) or "-"


@dataclass(frozen=True)
class GateResult(Result):
    """Every metric and group with its verdict; the worst of them is the overall verdict."""

    gates: tuple[Gate, ...]
    rules: Rules
    notes: tuple[str, ...]

    @property
    def word(self) -> Verdict:
        """FAIL if any gate fails, else CAN'T TELL if any is undecided; BOUND if there are no new runs."""
        return next(word for word in _EXITS if any(g.word == word for g in self.gates))

    @property
    def exit_code(self) -> int:
        """0 for PASS and BOUND, 1 for FAIL, 3 for CAN'T TELL."""
        return _EXITS[self.word]

    @property
    def passed(self) -> bool:
        """True if every gate passes or, without new runs, has a bound."""
        return self.exit_code == 0

    def as_values(self) -> dict[str, Any]:
        gates = [asdict(g) | {"claim": self.claim(g), "cautions": self.cautions(g)} for g in self.gates]
        return {"verdict": self.word, "passed": self.passed} | asdict(self) | {"gates": gates}

    def claim(self, g: Gate) -> str:
        """Return the answer about one metric of one group."""
        past, new, rules = g.past, g.new, self.rules
        if g.word == "CAN'T TELL":
            return g.why
        if new is None:
            side = {None: "outside", "higher": "below", "lower": "above"}[g.better]
            rate = f"at most {100 * rules.alpha:.3g}% of healthy runs lie {side} {g.bound}"
            return f"{rate} ({rules.confidence:.0%} confidence)"
        p = "" if g.p_adjusted is None else f", {p_phrase(g.p_adjusted)}"
        if g.cause == "spread":
            wider = f"variance ×{two(g.spread and g.spread[0])}"
            return f"spreads more than {len(past.values)} past runs: {wider}{p}"
        if g.cause == "failures":
            return f"{_failed(new)} new runs failed, {_failed(past)} past ones{p}"
        many = f"{g.digits(new.mean)} in {counted_runs(len(new.values))}"
        means = f"{many} vs {g.digits(past.mean)} in {len(past.values)} past ones"
        worse = "changed" if rules.two_sided else "worse"
        if g.word == "FAIL":
            return f"{worse}{f' by more than {rules.margin:g}' if rules.margin else ''}, {means}{p}"
        return f"{worse} by less than {rules.margin:g}, {means}" if rules.margin else f"{means}{p}"

    def cautions(self, g: Gate) -> list[str]:
        """Return the limitations of the answer."""
        out = []
        if g.new is None and any(one.method == "lowered" for one in g.bounds):
            out.append(
                "past runs don't look normal (Shapiro-Wilk test): the bound, no tighter than the worst one, "
                f"may hold with less confidence; with {self.needed} past runs it needs no such assumption"
            )
        if g.new is not None and g.new.failed and g.word == "PASS":
            out.append(f"{_failed(g.new)} new runs failed, {_failed(g.past)} past ones")
        return out

    @property
    def needed(self) -> int:
        """Number of past runs that a distribution-free bound requires."""
        return tolerance.fewest_runs(*_per_side(self.rules))

    def details(self, g: Gate) -> list[str]:
        """Return how the bound was made, and what was tested."""
        many, out = len(g.past.values), []
        if g.bounds:
            made = {
                "order statistics": f"distribution-free (order statistics): {many} past runs are enough",
                "lowered": "normal tolerance limit, or the worst past run if that is worse",
            }.get(g.bounds[0].method, "normal tolerance limit (noncentral t)")
            needed = "" if many >= self.needed else f"; a distribution-free one takes {self.needed} past runs"
            out.append(f"Bound   {g.bound}: {made}{needed}")
        if g.interval is not None:
            out.append(f"Mean    {_difference(g, self.rules)}, {g.test}")
        if g.spread is not None:
            ratio, low, high = map(two, g.spread)
            out.append(
                f"Spread  variance ×{ratio} (95% CI {low} to {high}), wider: {p_phrase(g.p['spread'] or 0.0)}"
            )
        return [*out, *([f"Failed  {_failed(g.past)} past runs, left out"] if g.past.failed else [])]

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        """Yield one line per metric and group, with cautions; with `details` all that was computed."""
        if width is None:
            yield self.table()
        else:
            explained = details or (self.word == "BOUND" and len(self.gates) <= _FEW)
            for g in self.gates:
                more = self.details(g) if explained else []
                cautions = (f"Caution {caution}" for caution in self.cautions(g))
                yield Answer.of(g.word, f"{g.title}: {self.claim(g)}", *more, *cautions)
        yield from map(Note, self.notes)

    def table(self) -> Table:
        """Return a row per metric and group."""
        headings = ("verdict", "metric", "new runs", "past runs", "difference", "p", "bound", "why")
        rows = []
        for g in self.gates:
            new, past = (
                "-" if s is None else f"{g.digits(s.mean)} ± {two(s.sd)} ({len(s.values)})"
                for s in (g.new, g.past)
            )
            why = "; ".join([self.claim(g), *self.cautions(g)])
            difference = g.change(g.difference)
            rows.append((g.word, g.title, new, past, difference, p_value(g.p_adjusted), g.bound, why))
        return Table("gate", f"Gate: {self.word}", tuple(map(Column, headings)), tuple(rows))


def _difference(g: Gate, rules: Rules) -> str:
    covered = 1 - (2 - rules.two_sided) * rules.alpha
    change, *ends = map(g.change, (g.difference, *(g.interval or ())))
    return f"{change} ({covered:.0%} t interval {' to '.join(ends)})"


def _failed(sample: Sample) -> str:
    return "{} of {}".format(*sample.failures)


def _per_side(rules: Rules) -> tuple[float, float]:
    """Return share and confidence of a bound: halved if there is one on either side."""
    sides = 1 + rules.two_sided
    return rules.alpha / sides, 1 - (1 - rules.confidence) / sides


@dataclass(frozen=True)
class _Judge:
    """Judges the runs of one metric, gate by gate."""

    metric: Metric
    rules: Rules
    family: int = 1  # number of gates that share the level

    @property
    def sign(self) -> float:
        return -1.0 if self.metric.better == "lower" and not self.rules.two_sided else 1.0

    def scaled(self, values: Sequence[float]) -> Floats:
        """Return values for which higher is better."""
        return self.sign * np.array(values, float)

    def unscaled(self, value: float) -> float:
        """Return a scaled value in the metric's units, and within its range."""
        top = self.metric.full_scale
        return self.sign * value if top is None else min(max(self.sign * value, 0.0), top)

    def sample(self, rows: pd.DataFrame | None, crashed: int, best: float) -> Sample:
        """Return the runs; those that are flagged, have no value or are no better than chance have failed."""
        if rows is None:
            return Sample((), failed=crashed)
        values, failed = rows["value"].to_numpy(float), rows["failed"].to_numpy(bool)
        own = rows["chance"].max() if "chance" in rows else None
        chances = (c for c in (self.rules.chance, own, self.metric.chance) if pd.notna(c))
        chance, sign = next(chances, None), -1.0 if self.metric.better == "lower" else 1.0
        if chance is not None:
            failed = failed | no_better(sign * values, sign * chance, sign * best, self.metric.full_scale)
        kept = values[~failed]
        mean = float(kept.mean()) if len(kept) else None
        sd = float(kept.std(ddof=1)) if len(kept) > 1 else None
        return Sample(tuple(kept.tolist()), mean, sd, int(failed.sum()) + crashed)

    def gate(self, name: str, value: str, past: Sample, new: Sample | None) -> Gate:
        """Return one gate with its bound, and its p value if there are new runs; not adjusted yet."""
        rules, n = self.rules, len(past.values)
        g = Gate(value, name, past, new, better=None if rules.two_sided else self.metric.better)
        if n < _FEWEST_PAST or (new is not None and new.failures[1] == 0):
            few = f"{counted_runs(n)} in the history; it takes {_FEWEST_PAST}"
            return replace(g, why=few if n < _FEWEST_PAST else "no new run", word="CAN'T TELL")
        values, (alpha, confidence) = self.scaled(past.values), _per_side(rules)
        signs = (1, -1)[: 1 + rules.two_sided]
        found = [(s, tolerance.bound(s * values, alpha, confidence)) for s in signs]
        bounds = tuple(replace(one, value=self.unscaled(s * one.value)) for s, one in found if one)
        g = replace(g, bounds=bounds)
        if new is not None:
            return self.judged(g, past, new)
        return g if g.bounds else replace(g, why=_unknown(past), word="CAN'T TELL")

    def judged(self, g: Gate, past: Sample, new: Sample) -> Gate:
        """Test mean, spread and failures; each has a share of the level."""
        rules, n, k = self.rules, len(past.values), len(new.values)
        p: dict[str, float | None] = {}
        doubts = [] if k else [f"{_failed(new)} new runs failed"]
        if k:
            history, values = self.scaled(past.values), self.scaled(new.values)
            level = tolerance.mean_level(n, k, rules.alpha)
            # The test of failed runs may use half of the level.
            decides = level / (1 + rules.two_sided) / self.family / (1 + (new.failed > 0))
            test = MeanTest(history, values, decides)
            p["mean"], p["within"] = _mean_p(test, rules.margin or 0.0, rules.two_sided)
            plain = MeanTest(np.array(past.values), np.array(new.values), level)
            covered = 1 - (2 - rules.two_sided) * rules.alpha
            g = replace(g, difference=plain.difference, interval=plain.interval(covered),
                        test="permutation test" if test.permutes else "pooled t test")  # fmt: skip
            far = np.argmax(np.abs(values - history.mean()) if rules.two_sided else -values)
            limit = rules.alpha / (_FAR * k)
            one = replace(test, new=values[[far]], alpha=limit / (1 + rules.two_sided))
            alone, _ = _mean_p(one, rules.margin or 0.0, rules.two_sided)
            if k > 1 and _shown(alone, limit):  # it may widen the spread and so hide itself
                doubts.append(
                    f"a new run, {g.digits(new.values[far])}, lies far from the past ones; rerun it"
                )
            if p["mean"] is None:
                doubts.append(_unknown(past))
            elif rules.margin and not _shown(p["within"], rules.alpha):
                doubts.append(f"{_difference(g, rules)} is not shown to be within {rules.margin:g}")
        if min(n, k) >= FEWEST_SEEDS:
            groups = Group.of(values), Group.of(history, np.arange(k, k + n))
            headline, estimate = headlines([groups], 0.95, 2.0)[0]
            if estimate is not None and headline.interval and headline.ratio:
                p["spread"] = estimate.below(0.0)
                g = replace(g, spread=(headline.ratio, headline.interval.low, headline.interval.high))
        if new.failed * past.failures[1] > past.failed * new.failures[1]:
            p["failures"] = fisher_p(new.failures, past.failures)
            if k and not past.failed:
                doubts.append(f"{_failed(new)} new runs failed, {_failed(past)} past ones")
        share = tolerance.MEAN_SHARE
        shares = {"mean": share, "failures": share, "spread": 1 - share}
        total = sum(share for name, share in shares.items() if name in p)
        weighted = [
            (x * total / shares[name], name) for name, x in p.items() if x is not None and name in shares
        ]
        least, cause = min(weighted, default=(None, ""))
        return replace(g, p=p, p_adjusted=least and min(least, 1.0), cause=cause, why="; ".join(doubts))


def _unknown(past: Sample) -> str:
    return f"all {len(past.values)} past runs are {past.values[0]:g}, so their spread isn't known"


def _shown(p: float | None, alpha: float) -> bool:
    return p is not None and p < alpha


def _mean_p(test: MeanTest, margin: float, two_sided: bool) -> tuple[float | None, float | None]:
    """Return the p values of a mean that is worse by more than the margin, and by less."""
    worse, within = test.p_below(-margin), test.p_above(-margin)
    if not two_sided:
        return worse, within
    beyond, below = test.p_above(margin), test.p_below(margin)
    if worse is None or within is None or beyond is None or below is None:
        return None, None
    return min(2 * min(worse, beyond), 1.0), max(within, below)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p values adjusted by Holm's method; missing ones do not count."""
    out, largest = list(p_values), 0.0
    there = sorted((p, k) for k, p in enumerate(p_values) if p is not None)
    for rank, (p, k) in enumerate(there):
        largest = max(largest, min((len(there) - rank) * p, 1.0))
        out[k] = largest
    return out


def _finished(gates: Sequence[Gate], alpha: float) -> tuple[Gate, ...]:
    out = []
    for g, p in zip(gates, holm([g.p_adjusted for g in gates]), strict=True):
        word, cause = g.word, ""
        if g.new is not None and word == "BOUND":
            fails = _shown(p, alpha)
            word, cause = ("FAIL", g.cause) if fails else ("CAN'T TELL" if g.why else "PASS", "")
        out.append(replace(g, p_adjusted=p, word=word, cause=cause))
    return tuple(out)


@with_known_arguments
def gate(
    history: Source | Store,
    new: Source | Store | None = None,
    value: Names = None,
    group: str | None = None,
    seed: str | None = "seed",
    by: Names = None,
    *,
    alpha: float = 0.05,
    confidence: float = 0.95,
    margin: float | None = None,
    two_sided: bool = False,
    chance: float | None = None,
    study: str | None = None,
    better: Better | None = None,
    **rows: Unpack[Rows],
) -> GateResult:
    """Judge new runs by past ones; without new runs, return a bound that healthy runs rarely cross.

    Args:
        history: past runs: a file, a store, a DataFrame, what `seedspread.collect` reads or returned.
        new: runs to judge, in the same forms.
        value: the columns with the results of a run; of a store by default what its study is about.
        group: a column whose levels are judged separately, as those of `by` are.
        seed: the column with the seed, also found by its usual names; None if every row is an independent
            run.
        by: further columns whose levels are judged separately.
        alpha: rate of false alarms, over all metrics and groups (Holm); share of healthy runs beyond a bound.
        confidence: confidence of the bound.
        margin: a drop of the mean that is acceptable: PASS shows that it is smaller, FAIL that it is larger.
        two_sided: whether a change in either direction is bad.
        chance: score of a run that has learned nothing; runs no better than that count as failed.
        study: for a store with several studies, the one to use.
        better: which direction is better; by default that of the metric, or inferred from the column's name.
        rows: where, last, best, wide, metric_column, sheet, at: row selection; see `Rows`.

    Returns:
        The result: `passed`, `exit_code` (that of the command), and a judgment or a bound per group.

    Example:
        >>> from seedspread import gate
        >>> past = {"accuracy": [0.81, 0.83, 0.82, 0.84, 0.82]}
        >>> gate(past, {"accuracy": [0.82]}, "accuracy").passed
        True
    """
    rules = Rules(alpha, confidence, margin, two_sided, chance)
    if two_sided and better:
        raise TableError("--two-sided has no better direction; leave out one of them")
    question = replace(Question.of(None, group, None, None, seed, by, **rows), command="gate")
    given = [one.path if isinstance(one, Store) else one for one in (history, new) if one is not None]
    if all(isinstance(one, str | Path) for one in given):
        question = replace(question, sources=tuple(map(str, given)))
    gates: list[Gate] = []
    notes: list[str] = []
    for one in several(value) or (None,):
        tables = []
        for source in given:
            table, question = _read(source, replace(question, value=one or question.value), study, better)
            tables.append(table)
        found, told = _gates(tables, question, rules, better, len(several(value)) or 1)
        gates += found
        notes += told
    return GateResult(_finished(gates, alpha), rules, tuple(dict.fromkeys(notes)))


def _read(
    source: Source, question: Question, study: str | None, better: Better | None
) -> tuple[ReadTable, Question]:
    """Return a table, and the question, completed from the study of a store."""
    if not isinstance(source, str | Path) or not Path(source).is_dir() or not is_store(Path(source)):
        return read_table(source, question, better), question
    store = Store(source)
    studies = [one for one in load_studies(store)[0] if study in (None, one.name)]
    if not studies and study is not None:
        raise TableError(f"{source} records no study {study!r}")
    if len(studies) != 1 or studies[0].audit is None:
        question = replace(question, value=question.value or "accuracy")
        return read_table(source, question, better), question
    spec = studies[0].audit
    if question.group is None:
        question = replace(question, group=spec.group, by=question.by or (*spec.strata, *spec.blocks))
    question = replace(question, value=question.value or spec.values[0])
    runs = study_runs(store, [studies[0].at_last_look], [str(question.value)])
    return read_table(runs, question, better), question


def _gates(
    tables: Sequence[ReadTable],
    question: Question,
    rules: Rules,
    better: Better | None,
    metrics: int,
) -> tuple[list[Gate], list[str]]:
    """Return the gates of one of so many metrics, and notes."""
    named = zip(("history", "new"), tables, strict=False)
    sets = [_set_of(name, table, question, rules, better) for name, table in named]
    notes = [note for one in sets for note in one.notes]
    first, metric = sets[0].runs, sets[0].metric
    parts = [part.assign(source="history") for part in (first.frame, first.crashed)]
    if len({one.metric.full_scale for one in sets}) > 1:
        raise TableError(
            f"{question.value} looks like percentages in one table and like shares in the other; a gate does "
            "not guess: give both in one unit"
        )
    if len(sets) > 1:
        joined = join(sets)
        parts, metric = [joined.runs.frame, joined.runs.crashed], joined.metric
        notes += [*joined.notes, *joined.copies]
    frame, crashed = parts
    cell, columns = ["source", "stratum", "group"], first.columns
    cells: dict[Any, pd.DataFrame] = dict(list(frame.groupby(cell, sort=False)))
    lost: dict[Any, int] = crashed.groupby(cell, sort=False).size().to_dict()
    judge = _Judge(metric, rules, metrics * len({key[1:] for key in (*cells, *lost)}))
    best = float(frame["value"].max() if metric.better == "higher" else frame["value"].min())
    gates = []
    for stratum, group in dict.fromkeys(key[1:] for key in (*cells, *lost)):
        past, new = (
            judge.sample(cells.get((name, stratum, group)), lost.get((name, stratum, group), 0), best)
            for name in ("history", "new")
        )
        own = "" if columns.group == SET else group_name(columns.group, group)
        title = ", ".join(filter(None, (stratum_name(columns.by, stratum), own)))
        gates.append(judge.gate(title, columns.value, past, new if len(sets) > 1 else None))
    return gates, notes


def _set_of(name: str, table: ReadTable, question: Question, rules: Rules, better: Better | None) -> RunSet:
    if question.value is None:
        named = listed(table.frame.columns)
        raise TableError(f"which column of {table.name} has the results? Name it with --value ({named})")
    runs = check_runs(*in_one_group(table, question, "runs"), better)
    value = runs.columns.value
    if not (rules.two_sided or better or runs.better or direction_of(value)) and not (
        runs.store and declared_metric(Store(runs.store), value)
    ):
        raise TableError(
            f"which direction of {value} is better? Its name does not show it: give --higher-is-better or "
            "--lower-is-better, or --two-sided if any change is bad"
        )
    metric, told = metric_of_runs(runs, None, better, accuracies=False)
    notes = (*([] if rules.two_sided else told), *(f"{name}: {note}" for note in runs.notes))
    return RunSet(name, runs, metric, notes)
