"""The result of an audit, comparison by comparison: it contains its values and prints itself."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from seedspread.analysis import display, words
from seedspread.analysis.charts import NO_RATIO, audit_chart, methods_panel
from seedspread.analysis.display import Answer, Block, Dots, Heading, Note
from seedspread.analysis.samples import Strip, Versus
from seedspread.render.chart import Chart
from seedspread.runs.levels import Levels, joined_levels, settings_in_order
from seedspread.runs.metrics import Metric
from seedspread.stats.result import (
    Better,
    Doubt,
    Estimate,
    FailureModel,
    Headline,
    InterimLook,
    Interval,
    ManyGroups,
    SameSeedRuns,
    Summary,
    TestResult,
    TestSetNoise,
    Word,
)

# Comparisons whose rows fit a screen.
_ON_A_SCREEN = 10


@dataclass(frozen=True)
class Comparison(Versus, display.Result):
    """One group vs its baseline, within one dataset."""

    stratum: Levels  # the level of each factor in `by`, such as the dataset; empty without `by`
    group: str
    baseline: str
    cells: tuple[Summary, ...]  # every group and block
    pooled: tuple[Summary, Summary]  # group and baseline over all blocks
    headline: Headline  # the ratio to report; each seed counts once
    pooled_test: Headline  # the ratio of the variances of all runs pooled, and its F test
    same_seed_runs: tuple[SameSeedRuns, ...]  # how alike the runs of one seed are, per group
    seeds: tuple[int, int]  # how many seeds group and baseline have
    paired_correlation: float | None  # of the seed means; None unless at least three seeds are shared
    test_set_noise: tuple[TestSetNoise, ...]  # test-set noise per group, if it can be had
    detectable: float | None  # the smallest ratio above 1 that this number of seeds detects with power 0.8
    p_adjusted: float | None  # the headline's p, adjusted over all comparisons of the audit (Bonferroni)
    warnings: tuple[str, ...]
    word: Word = "CAN'T TELL"  # the verdict
    # Reasons for which the verdict could be different: a seed, two clusters or a scale.
    doubts: tuple[Doubt, ...] = ()
    # Failure rates, and the spread of successful runs; None if no run fails.
    failures: FailureModel | None = None
    means: Estimate | None = None  # difference of means, group minus baseline; None in a brief audit
    better: Better = "higher"  # the direction in which values are better
    net: Estimate | None = None  # the variance ratio on an infinite test set, if predictions are known
    factor: str = ""  # the column that `group` and `baseline` are levels of
    by: tuple[str, ...] = ()
    family: int = 1  # number of comparisons judged together, including this one
    testing: Callable[[], tuple[TestResult, ...]] = field(default=tuple, repr=False, compare=False)

    @cached_property
    def tests(self) -> tuple[TestResult, ...]:
        """Every test, computed on demand: only details show them, and they take as long as all the rest."""
        return self.testing()

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        return words.verdict(self)

    @property
    def variances(self) -> tuple[float | None, float | None]:
        """Variance within blocks of the group, and of the baseline; None for a single run per block."""
        return self._within(self.group), self._within(self.baseline)

    def _within(self, group: str) -> float | None:
        cells = [(s.n - 1, s.variance) for s in self.cells if s.group == group and s.variance is not None]
        return sum(df * v for df, v in cells) / sum(df for df, _ in cells) if cells else None

    def test(self, key: str) -> TestResult:
        for test in self.tests:
            if test.key == key:
                return test
        raise KeyError(f"no test {key!r}; there are {', '.join(t.key for t in self.tests)}")

    def as_values(self) -> dict[str, Any]:
        values = asdict(replace(self, testing=tuple))
        del values["testing"]
        return values | {
            "tests": [asdict(test) for test in self.tests],
            "stratum": joined_levels(self.stratum),
            "cells": [asdict(cell) | {"block": joined_levels(cell.block)} for cell in self.cells],
            "pooled": [asdict(group) | {"block": ""} for group in self.pooled],
            "test_set_noise": [
                asdict(n) | {"sentence": words.noise_sentence(n)} for n in self.test_set_noise
            ],
            "verdict": self.verdict,
        }

    def page(self, width: int | None = None, details: bool = True, explain: bool = False) -> Iterator[Block]:
        """Yield the answer and every test; with `explain`, also why each was used and what it assumes."""
        yield Heading(self.title)
        yield Answer.of(self.word, words.claim(self), words.figures(self))
        yield from self.details(explain)

    def details(self, explain: bool) -> Iterator[Block]:
        """Yield the part that `--details` adds to the answer."""
        yield from words.detail_lines(self)
        yield from display.test_tables(self)
        yield from words.explanations(self) if explain else ()

    def chart(self) -> Chart:
        """Return the ratio by every method that has an interval."""
        panel = methods_panel(self, self.title) or NO_RATIO
        return Chart("comparison", "", "", "", (panel,), self.title, height=0.7)

    def __repr__(self) -> str:
        return f"<Comparison {self.title}: {self.word}>"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(f"{self.title}: {self.verdict}")


@dataclass(frozen=True)
class Average:
    """The average over datasets of the log variance ratio of one group and its baseline."""

    group: str
    baseline: str
    titles: tuple[str, ...]  # of the comparisons that have a ratio with a standard error
    log_ratios: tuple[float, ...]  # natural logarithms; each ratio has a standard error, with seeds as units
    standard_errors: tuple[float, ...]
    q: float  # Cochran's heterogeneity statistic, with `df` degrees of freedom and the p value `p`
    df: int
    p: float
    i_squared: float  # the share of variation beyond chance, from 0 to 1
    pooled: float  # the mean ratio, on the log scale, of strata like these (random effects; `stats/meta.py`)
    interval: Interval  # of `pooled`
    tau: float  # the standard deviation of the true log ratios over strata
    pooled_p: float  # of the hypothesis that the mean ratio is 1
    prediction: Interval | None = None  # interval of the ratio in a further stratum


@dataclass(frozen=True)
class AuditResult(display.Result):
    """The audit of a table: its comparisons with their verdicts. It prints and draws itself.

    Attributes:
        source: the file or store that was read.
        value: the column with the results.
        metric: unit, direction and title of the values.
        group: the column whose levels are compared.
        baseline: the baseline level; empty if every pair is compared.
        blocks: columns varied within a seed.
        seed: the column with the seed, if there is one.
        by: columns whose levels are audited separately.
        rows: number of runs.
        level: confidence level of the intervals.
        comparisons: one per level of `by` and group other than the baseline.
        averages: averages over the levels of `by`, one per group and baseline.
        notes: what was left out of the table, and why.
        values: the compared values.
        looks: the interim looks that the headlines account for; None if the table is judged once.
        omnibus: test of whether four or more groups share one sd; None with fewer, or several levels of `by`.
    """

    source: str
    value: str
    metric: Metric
    group: str
    baseline: str
    blocks: tuple[str, ...]
    seed: str | None
    by: tuple[str, ...]
    rows: int
    level: float
    comparisons: tuple[Comparison, ...]
    averages: tuple[Average, ...] = ()
    notes: tuple[str, ...] = ()
    values: tuple[Strip, ...] = field(default=(), repr=False)
    looks: InterimLook | None = None
    omnibus: ManyGroups | None = None

    @property
    def in_order(self) -> list[Comparison]:
        """Return the comparisons, with numeric levels in numeric order."""
        order = settings_in_order((*c.stratum, c.group, c.baseline) for c in self.comparisons)
        places = {levels: place for place, levels in enumerate(order)}
        return sorted(self.comparisons, key=lambda c: places[*c.stratum, c.group, c.baseline])

    def as_values(self) -> dict[str, Any]:
        return asdict(replace(self, comparisons=())) | {
            "by": ", ".join(self.by) or None,
            "comparisons": [c.as_values() for c in self.comparisons],
            "values": [
                asdict(strip)
                | {"stratum": joined_levels(strip.stratum), "blocks": list(map(joined_levels, strip.blocks))}
                for strip in self.values
            ],
        }

    def oneline(self) -> str:
        """Return one line per comparison, for a chat."""
        return "\n".join(
            f"{c.word}: {c.title} ({self.value}, {words.seed_counts(c.seeds)}): "
            f"{words.claim(c) if c.p_adjusted is None else words.figures(c)}"
            f"{'; ' * bool(c.failures)}{words.failure_counts(c)}"
            for c in self.comparisons
        )

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        """Yield one screen; with `details` every comparison and test, with `explain` why each was used."""
        if len(self.comparisons) > 1:
            yield Heading(f"{self.value} across seeds | {self._size()}")
            yield from (Answer.of(*line) for line in words.counted(self))
            yield from self.overview_tables(width, details)
        yield from self.each(details, explain)
        yield from map(Note, self.notes)
        if details or explain:
            yield Note(f"{self.rows:,} runs from {self.source}; {self.level:.0%} intervals.")

    def overview_tables(self, width: int | None, details: bool = False) -> Iterator[Block]:
        yield display.averages_table(self) if self.averages else ""
        shown = None if width is None else display.MOST_ROWS if details else _ON_A_SCREEN
        several_pairs = len({(c.group, c.baseline) for c in self.comparisons}) > 1
        if width and several_pairs and len({c.stratum for c in self.comparisons}) > 1 and not details:
            yield from display.means_and_ratios(self, width, _ON_A_SCREEN)
        else:
            yield from display.overview_tables(self, shown, p=details or width is None)
            left = 0 if shown is None else len(self.comparisons) - shown
            yield from words.left_out(left)

    def _size(self) -> str:
        """Return `3 groups x 8 datasets, 240 runs`."""
        groups = len({name for c in self.comparisons for name in (c.group, c.baseline)})
        strata = len({c.stratum for c in self.comparisons})
        by = f" x {strata} {words.plural(self.by)}" if strata > 1 else ""
        return f"{groups} groups{by}, {self.rows:,} runs"

    def each(self, details: bool, explain: bool = False) -> Iterator[Block]:
        """Yield the only comparison with its runs, or on request each of them."""
        for c in self.comparisons if len(self.comparisons) == 1 or details or explain else ():
            yield from [""] if len(self.comparisons) > 1 else []
            yield Heading(words.title_line(self, c))
            beside = [Answer.of(*line) for line in words.asides(c)]
            lead = [line for line in beside if line.label == "Failures"] if words.failures_lead(c) else []
            yield from lead
            yield Answer.of(c.word, words.claim(c), words.figures(c))
            yield ""
            values = {s.group: s.values for s in self.values if s.stratum == c.stratum}
            yield Dots([(c.group_name, values[c.group]), (c.baseline_name, values[c.baseline])])
            yield display.groups_table(self, c)
            yield from (line for line in beside if line not in lead)
            if details or explain:
                yield ""
                yield from c.details(explain)
                yield f"* the headline: {c.headline.why}."

    def to_frame(self) -> pd.DataFrame:
        """Return one row per comparison with the numbers of the overview."""
        return pd.DataFrame([_row(c) for c in self.comparisons])

    def chart(self, methods: bool = False) -> Chart:
        """Return every run, and the headlines' ratios with intervals; with `methods`, by all methods."""
        return audit_chart(self, methods)

    def __repr__(self) -> str:
        many = f"{len(self.comparisons)} comparison{'s' * (len(self.comparisons) != 1)}"
        return f"<AuditResult of {self.source}: {self.value} by {self.group}, {many}>"


def _row(c: Comparison) -> dict[str, Any]:
    (group, baseline), interval = c.pooled, c.headline.shown_interval
    return {
        "stratum": joined_levels(c.stratum),
        "group": c.group,
        "baseline": c.baseline,
        "seeds": c.seeds[0],
        "baseline_seeds": c.seeds[1],
        "mean": group.mean,
        "sd": group.sd,
        "baseline_mean": baseline.mean,
        "baseline_sd": baseline.sd,
        "ratio": c.headline.ratio,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "p": c.headline.p,
        "p_adjusted": c.p_adjusted,
        "word": c.word,
        "above_1": c.headline.above_1,
        "above_2": c.headline.above_2,
        "raw_ratio": c.headline.raw_ratio,
        "pooled_ratio": c.pooled_test.ratio,
        "pooled_p": c.pooled_test.p,
    }
