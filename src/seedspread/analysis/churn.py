"""Prediction churn: how often two seeds of a group disagree on a test example, and whether groups differ."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, Unpack

import numpy as np
import pandas as pd
from scipy import stats

from seedspread.analysis import words
from seedspread.analysis.display import Answer, Block, Heading, Note, Result
from seedspread.analysis.judgement import word_of
from seedspread.analysis.samples import arms_by_stratum
from seedspread.render.table import Table, head_of
from seedspread.runs.levels import Levels, arm_name, joined_levels, stratum_name
from seedspread.stats.classic import seed_means_test
from seedspread.stats.groups import Floats, Group
from seedspread.stats.result import Interval, Word
from seedspread.stats.seed_summaries import churn_of
from seedspread.tables.columns import Columns
from seedspread.tables.predictions import predictions_in
from seedspread.tables.question import Question, Rows, TableError, with_known_arguments
from seedspread.tables.read import Source

# Without one of three seeds there is still a pair.
_FEWEST_SEEDS = 3
# Shares that differ by no more than this part of the baseline's count as alike.
_ALIKE = 0.25


@dataclass(frozen=True)
class ChurnComparison:
    """Whether two seeds of a group disagree more often than two of the baseline, on which share of examples.

    The interval decides the verdict; it and p are adjusted over all comparisons (Bonferroni).
    """

    title: str
    group: str
    shares: tuple[float, float]
    interval: Interval | None  # of their difference
    p_adjusted: float | None
    word: Word

    @property
    def claim(self) -> str:
        """`two seeds of clamp disagree more often`."""
        more = "more" if self.shares[0] > self.shares[1] else "less"
        return {
            "YES": f"two seeds of {self.group} disagree {more} often",
            "NO": f"churn differs by less than {_ALIKE:.0%} of the baseline's, either way",
            "MAYBE": f"two seeds of {self.group} may disagree {more} often",
            "CAN'T TELL": f"these seeds do not settle whether seeds of {self.group} disagree more or less",
        }[self.word]

    @property
    def figures(self) -> str:
        """`12.1% vs 10.3% of examples, +1.8 points (95% CI +0.9 to +2.7), p = 0.002`."""
        (first, second), i = self.shares, self.interval
        ends = "" if i is None else f" ({i.level:.0%} CI {_signed(i.low)} to {_signed(i.high)})"
        p = "" if self.p_adjusted is None else f", {words.p_phrase(self.p_adjusted)}"
        shares = f"{_percent(first)} vs {_percent(second)} of examples"
        return f"{shares}, {_signed(first - second)} points{ends}{p}"


@dataclass(frozen=True, eq=False)
class ChurnResult(Result):
    """How often two seeds disagree on an example.

    Attributes:
        factor: the column whose levels are compared.
        what: whether predictions were compared, or only which are right.
        groups: a row per group: stratum, group, seeds, runs, examples, churn, low, high.
        flips: the examples on which seeds disagree most: stratum, example, and a column per group.
    """

    source: str
    factor: str
    what: str
    level: float
    comparisons: tuple[ChurnComparison, ...]
    groups: pd.DataFrame
    flips: pd.DataFrame
    notes: tuple[str, ...] = ()

    def as_values(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        frames = {name: getattr(self, name).to_dict("records") for name in ("groups", "flips")}
        return vars(self) | {"comparisons": [asdict(c) for c in self.comparisons]} | frames

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        """Yield the verdicts, the groups, and the examples on which seeds disagree most."""
        sizes = f"{self.groups['runs'].sum():,} runs, {self.groups['examples'].max():,} test examples"
        yield Heading(f"churn of {self.what} | {sizes}")
        for c in self.comparisons:
            where = f"{c.title}: " if len(self.comparisons) > 1 else ""
            yield Answer.of(c.word, f"{where}{c.claim}", c.figures)
        yield from self.tables()
        yield from map(Note, self.notes)

    def tables(self) -> list[Table]:
        """The groups, and the examples on which seeds disagree most."""
        title, tables = "Examples on which seeds disagree most, by pairs of seeds", []
        for frame, first, text in ((self.groups, 5, ""), (self.flips, 2, title)):
            shown = frame.assign(**{name: frame[name].map(_percent) for name in frame.columns[first:]})
            shown = shown if any(shown["stratum"]) else shown.drop(columns="stratum")
            tables += [head_of(shown, text, len(shown))] if len(shown) else []
        return tables


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{100 * share:.1f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def _signed(share: float) -> str:
    return words.signed(100 * share)


@with_known_arguments
def churn(
    table: Source,
    value: str | None = None,
    group: str | None = None,
    baseline: str | None = None,
    block: "str | Sequence[str] | None" = None,
    seed: str | None = "seed",
    by: "str | Sequence[str] | None" = None,
    *,
    item: str | None = None,
    level: float = 0.95,
    top: int = 10,
    **rows: Unpack[Rows],
) -> ChurnResult:
    """Measure how often two seeds of a group disagree on a test example, and compare groups.

    Args:
        table: a store whose runs kept predictions, samples of lm-evaluation-harness, or a table: one row per
            run and item, or one row per item and a column per run, called `adam-seed1` or the like.
        value: for a table, the column with the predictions; for samples, the metric, such as `sums.acc`.
        group: the column whose levels are compared.
        baseline: the level to compare with, as in `audit`.
        block: columns varied within a seed; runs that share a seed are not compared.
        seed: the column with the seed, also found by its usual names.
        by: columns, such as the dataset, whose levels are compared separately and adjusted together.
        item: the column that names the test example, also found by its usual names.
        level: confidence level of the intervals, which are about seeds, for the given test examples.
        top: number of examples to list.
        rows: where, wide, sheet: which rows count, and what shape they have; see `Rows`.

    Returns:
        The result: `groups` with their churn, `comparisons` with their verdicts, and `flips`, the examples on
        which seeds disagree most.

    Example:
        >>> rows = [{"model": m, "seed": s, "id": i, "label": (s * i) % (2 if m == "a" else 3)}
        ...         for m in "ab" for s in range(4) for i in range(50)]
        >>> found = churn(rows, "label", "model", item="id")
        >>> len(found.comparisons)
        1
    """
    if not 0.5 <= level < 1 or top < 0:
        raise TableError(f"the level must lie between 0.5 and 1, and top be 0 or more; got {level:g}, {top}")
    rows["command"] = "churn"
    question = Question.of(value, group, baseline, block, seed, by, **rows)
    runs, read, what = predictions_in(table, question, item)
    columns, groups, flips = runs.columns, [], []
    pairs: list[tuple[Levels, Group, Group]] = []
    for stratum, every in arms_by_stratum(runs):
        arms = [arm if arm.failed is None else arm.without(arm.seeds[arm.failed]) for arm in every]
        for arm in arms:
            if (count := len(arm.seed_codes)) < _FEWEST_SEEDS:
                has = f"{joined_levels((*stratum, arm.name))} has {count}"
                raise TableError(f"churn takes {_FEWEST_SEEDS} seeds per group or more; {has}")
        examples, codes = read([folder for arm in arms for folder in arm.folders])
        where, sides, by_example, start = stratum_name(columns.by, stratum), [], dict[str, Floats](), 0
        for arm in arms:
            own, start = slice(start, start + len(arm.values)), start + len(arm.values)
            side, by_example[arm.name] = churn_of(codes[own], arm.seeds)
            sides.append(replace(side, name=arm.name))
            mean, error = side.values.mean(), stats.sem(side.values)
            ends = stats.t.interval(level, len(side.values) - 1, mean, error) if error else (mean, mean)
            sizes = len(side.values), len(arm.values), len(examples)
            groups.append((where, arm.name, *sizes, side.values.mean(), *ends))
        flips.append(pd.DataFrame({"stratum": where, "example": examples.astype(str), **by_example}))
        # The baseline comes first; without one each is compared with those before it.
        both = combinations(sides, 2) if columns.baseline is None else ((sides[0], s) for s in sides[1:])
        if columns.baseline in (None, sides[0].name):
            pairs += [(stratum, second, first) for first, second in both]
    failed, flipping = int(runs.frame["failed"].sum()), pd.concat(flips, ignore_index=True)
    order = (-flipping.iloc[:, 2:].mean(axis=1)).sort_values(kind="stable").index
    heads = ("stratum", "group", "seeds", "runs", "examples", "churn", "low", "high")
    return ChurnResult(
        runs.source,
        columns.group,
        what,
        level,
        tuple(_judged(pairs, columns, level)),
        pd.DataFrame(groups, columns=heads),
        flipping.loc[order[:top]],
        (*runs.notes, *([f"Failed runs were left out: {failed}."] if failed else [])),
    )


def _judged(
    pairs: Sequence[tuple[Levels, Group, Group]], columns: Columns, level: float
) -> Iterator[ChurnComparison]:
    """Yield the comparisons, judged together as those of an audit are."""
    family, alpha = max(len(pairs), 1), 1 - level
    for stratum, first, second in pairs:
        # Two one-sided tests at alpha: the interval that decides on NO has level 1 - 2 alpha.
        wide, narrow = (seed_means_test(first, second, 1 - k * alpha / family) for k in (1, 2))
        p = None if wide.p is None else min(family * wide.p, 1.0)
        word: Word = "CAN'T TELL" if p is None else word_of(p, alpha)
        interval = wide.interval and replace(wide.interval, level=level)
        margin = _ALIKE * second.values.mean()
        if word != "YES" and narrow.interval and max(-narrow.interval.low, narrow.interval.high) < margin:
            word, interval = "NO", replace(narrow.interval, level=1 - 2 * alpha)
        names = arm_name(columns.group, first.name), arm_name(columns.group, second.name)
        shares = float(first.values.mean()), float(second.values.mean())
        title = ": ".join(filter(None, (stratum_name(columns.by, stratum), " vs ".join(names))))
        yield ChurnComparison(title, names[0], shares, interval, p, word)
