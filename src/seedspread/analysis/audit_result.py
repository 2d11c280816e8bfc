"""The result of an audit, comparison by comparison: it holds its values and prints itself."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd
from rich.text import Text

from seedspread.analysis import display, words
from seedspread.analysis.charts import audit_chart, comparison_chart
from seedspread.analysis.samples import Strip, Versus
from seedspread.render.chart import Chart
from seedspread.render.latex import tex_comment, tex_text, to_latex
from seedspread.render.table import markdown_text, to_markdown
from seedspread.render.terminal import strip_lines
from seedspread.render.web import for_notebook, notebook_picture
from seedspread.runs.levels import Levels, arm_name, joined_levels
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
    """One group against the baseline, within one stratum."""

    stratum: Levels  # the level of each factor in `by`, such as the dataset; empty where there is one only
    group: str
    baseline: str
    cells: tuple[Summary, ...]  # every group and block
    pooled: tuple[Summary, Summary]  # group and baseline over all blocks
    headline: Headline  # the ratio to report; each seed counts once
    pooled_test: Headline  # the ratio of the variances of all runs pooled, and its F test
    tests: tuple[TestResult, ...]
    twins: tuple[SameSeedRuns, ...]  # how alike the runs of one seed are, per group
    seeds: tuple[int, int]  # how many seeds group and baseline have
    paired_correlation: float | None  # of the seed means; None unless at least three seeds are shared
    floors: tuple[TestSetNoise, ...]  # test-set noise per group, if it can be had
    detectable: float | None  # the smallest ratio above 1 that so many seeds detect with power 0.8
    p_adjusted: float | None  # the headline's p, adjusted over all comparisons of the audit (Bonferroni)
    warnings: tuple[str, ...]
    word: Word = "CAN'T TELL"  # the verdict
    # A seed, two clusters or a scale without which the verdict would be another.
    doubts: tuple[Doubt, ...] = ()
    # How often runs fail, and how much the others spread; None if none fails.
    failures: FailureModel | None = None
    means: Estimate | None = None  # their difference, group minus baseline; None in a brief audit
    better: Better = "higher"  # the direction in which values are better
    net: Estimate | None = None  # the variance ratio on an infinite test set, if predictions are known
    factor: str = ""  # the column that `group` and `baseline` are levels of
    by: tuple[str, ...] = ()
    family: int = 1  # number of comparisons it was judged with, itself among them

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
        return asdict(self) | {
            "stratum": joined_levels(self.stratum),
            "cells": [asdict(cell) | {"block": joined_levels(cell.block)} for cell in self.cells],
            "pooled": [asdict(arm) | {"block": ""} for arm in self.pooled],
            "floors": [asdict(floor) | {"sentence": words.floor_sentence(floor)} for floor in self.floors],
            "verdict": self.verdict,
        }

    def to_text(self, width: int = 110, explain: bool = False) -> str:
        """For a terminal: the answer and every test; with `explain` the reasons and what each assumes."""
        page = display.TextPage(width)
        page.lines([f"{self.title}: {self.verdict}"], "bold")
        page.tables(display.test_tables(self))
        return page.text([*(words.explanations(self) if explain else []), *words.detail_lines(self)])

    def to_frame(self) -> pd.DataFrame:
        """One row: what the overview shows, as numbers."""
        return pd.DataFrame([_row(self)])

    def chart(self) -> Chart:
        """The ratio by every method that has an interval."""
        return comparison_chart(self)

    def __repr__(self) -> str:
        return f"<Comparison {self.title}: {self.word}>"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(f"{self.title}: {self.verdict}")

    def _repr_html_(self) -> str:
        return for_notebook([self.title, self.verdict], display.test_tables(self), words.detail_lines(self))


@dataclass(frozen=True)
class Forest:
    """The mean over strata of the log variance ratio of one group and its baseline."""

    group: str
    baseline: str
    titles: tuple[str, ...]  # of the comparisons that have a ratio with a standard error
    log_ratios: tuple[float, ...]  # natural logarithms, each with its standard error; seeds are the units
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
    """The audit of a table.

    Attributes:
        source: what was read.
        value, group, baseline, blocks, seed, by: the columns and the baseline level.
        metric: what the values are.
        rows: number of runs.
        level: of every interval.
        comparisons: one for each stratum and each group other than the baseline.
        forests: means over the strata, one for each group and its baseline.
        forest: the only one of them, if there is one only.
        notes: what was left out of the table and why.
        values: what was compared.
        looks: those that the headlines count; None if the table is judged once.
        omnibus: whether four groups or more share one sd; None if there are fewer, or several strata.
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
    forest: Forest | None = None
    forests: tuple[Forest, ...] = ()
    notes: tuple[str, ...] = ()
    values: tuple[Strip, ...] = field(default=(), repr=False)
    looks: InterimLook | None = None
    omnibus: ManyGroups | None = None

    def strips(self, c: Comparison) -> list[Strip]:
        """The values of a comparison: the baseline's, then the group's."""
        return [
            s for g in (c.baseline, c.group) for s in self.values if (s.stratum, s.group) == (c.stratum, g)
        ]

    def as_values(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return asdict(self) | {
            "by": ", ".join(self.by) or None,
            "comparisons": [c.as_values() for c in self.comparisons],
            "values": [
                asdict(strip)
                | {"stratum": joined_levels(strip.stratum), "blocks": list(map(joined_levels, strip.blocks))}
                for strip in self.values
            ],
        }

    def oneline(self) -> str:
        """One line per comparison, for a chat."""
        return "\n".join(
            f"{c.title}, {self.value}, {words.seed_counts(c.seeds)}: {c.verdict}" for c in self.comparisons
        )

    def to_text(self, width: int = 80, explain: bool = False, details: bool = False) -> str:
        """One screen; with `details` every comparison and test, with `explain` why each was used."""
        page = display.TextPage(width)
        if len(self.comparisons) > 1:
            self.print_overview(page, details)
        self.print_comparisons(page, details, explain)
        return page.text((*self.notes, *([words.foot(self)] if details or explain else [])))

    def print_overview(self, page: display.TextPage, details: bool = False) -> None:
        """Print how many comparisons have which verdict, the averages, and the ratios."""
        page.lines([f"{self.value} across seeds | {self._size()}", ""])
        for word, text in words.counted(self):
            page.labelled(word, text)
        page.lines([] if self.forests else [""])
        several_pairs = len({(c.group, c.baseline) for c in self.comparisons}) > 1
        if self.forests:
            page.tables([display.averages_table(self)])
        if (
            words.omnibus_leads(self)
            and not details
            and all(c.word == "CAN'T TELL" for c in self.comparisons)
        ):
            return
        if self.by and several_pairs and not details:
            page.tables([display.matrix_table(self, page.width, _ON_A_SCREEN)])
        else:
            shown = display.MOST_ROWS if details else _ON_A_SCREEN
            page.tables([display.overview_table(self, shown, p=details)])
            page.lines(words.left_out(len(self.comparisons) - shown, "comparisons, "))

    def _size(self) -> str:
        """`3 groups x 8 datasets, 240 runs`."""
        groups = len({name for c in self.comparisons for name in (c.group, c.baseline)})
        strata = len({c.stratum for c in self.comparisons})
        by = f" x {strata} {words.plural(self.by)}" if strata > 1 else ""
        return f"{groups} groups{by}, {self.rows:,} runs"

    def print_comparisons(self, page: display.TextPage, details: bool, explain: bool = False) -> None:
        """Print the only comparison with its runs, or on request each of them."""
        if len(self.comparisons) == 1 or details or explain:
            for c in self.comparisons:
                self._print(page, c, details, explain)

    def _print(self, page: display.TextPage, c: Comparison, details: bool, explain: bool) -> None:
        page.lines([*([""] if len(self.comparisons) > 1 else []), words.title_line(self, c), ""])
        beside = words.asides(c)
        lead = [line for line in beside if line[0] == "Failures"] if words.failures_lead(c) else []
        for label, text in (*lead, (c.word, words.claim(c)), ("", words.figures(c))):
            page.labelled(label, text)
        page.lines([""])
        strips = [(arm_name(c.factor, strip.group), strip.values) for strip in reversed(self.strips(c))]
        for line in strip_lines(strips, page.width):
            page.console.print(Text(line), soft_wrap=True)
        page.tables([display.groups_table(self, c)])
        for label, text in beside:
            if (label, text) not in lead:
                page.labelled(label, text)
        if details or explain:
            page.lines(["", *words.detail_lines(c)])
            page.tables(display.test_tables(c))
            page.lines([*(words.explanations(c) if explain else []), f"* the headline: {c.headline.why}."])

    def to_markdown(self, details: bool = False) -> str:
        """The answer for a README or an issue; with `details` every test with its reason."""
        out = []
        if len(self.comparisons) > 1:
            out = [f"- **{word}** {markdown_text(text)}" for word, text in words.counted(self)]
            for table in display.summary_tables(self):
                out += ["", *to_markdown(table).splitlines()]
            out.append("")
        for c in self.comparisons if details or len(self.comparisons) == 1 else ():
            out += [f"## {markdown_text(words.title_line(self, c))}", ""]
            out += [f"**{c.word}** {markdown_text(words.claim(c))}  ", markdown_text(words.figures(c)), ""]
            out += [*to_markdown(display.groups_table(self, c)).splitlines(), ""]
            out += [f"- {label}: {markdown_text(text)}" for label, text in words.asides(c)]
            if details:
                out += [f"- {markdown_text(line)}" for line in words.detail_lines(c)]
                for table in display.test_tables(c):
                    out += ["", *to_markdown(table).splitlines()]
                out += ["", *(f"- {markdown_text(line)}" for line in words.explanations(c)), ""]
        out += ["", *(markdown_text(note) for note in (*self.notes, words.foot(self)))]
        return "\n".join(out) + "\n"

    def to_latex(self, details: bool = False) -> str:
        """The answer for a paper (booktabs); with `details` every test."""
        out = ["% needs \\usepackage{booktabs}"]
        if len(self.comparisons) > 1:
            out += [f"{tex_text(words.summary(self))}\n", *map(to_latex, display.summary_tables(self))]
        for c in self.comparisons if details or len(self.comparisons) == 1 else ():
            tables = [display.groups_table(self, c), *(display.test_tables(c) if details else [])]
            out.append(f"\\paragraph{{{tex_text(c.title)}}} {tex_text(c.verdict)}\n")
            out += [f"{tex_text(f'{label}: {text}.')}\n" for label, text in words.asides(c)]
            out += [to_latex(replace(t, title=f"{c.title}. {t.title}")) for t in tables]
            out += [tex_comment(line) for line in words.explanations(c)] if details else []
        return "\n".join([*out, tex_comment(words.foot(self))]) + "\n"

    def to_frame(self) -> pd.DataFrame:
        """One row per comparison: what the overview shows, as numbers."""
        return pd.DataFrame([_row(c) for c in self.comparisons])

    def chart(self) -> Chart:
        """The runs and ratios of one comparison; of several a forest, and the runs of a few."""
        return audit_chart(self)

    def _repr_html_(self) -> str:
        if len(self.comparisons) > 1:
            lines, tables, beside = [words.summary(self)], [display.overview_table(self)], []
            tables += [display.averages_table(self)] if self.forests else []
        else:
            c = self.comparisons[0]
            lines, tables = [c.verdict], [display.groups_table(self, c)]
            beside = [f"{label}: {text}" for label, text in words.asides(c)]
        return for_notebook(
            lines, tables, [*beside, *self.notes, words.foot(self)], notebook_picture(self.chart)
        )

    def __repr__(self) -> str:
        many = f"{len(self.comparisons)} comparison{'s' * (len(self.comparisons) != 1)}"
        return f"<AuditResult of {self.source}: {self.value} by {self.group}, {many}>"


def _row(c: Comparison) -> dict[str, Any]:
    arm, baseline = c.pooled
    return {
        "stratum": joined_levels(c.stratum),
        "group": c.group,
        "baseline": c.baseline,
        "seeds": c.seeds[0],
        "baseline_seeds": c.seeds[1],
        "mean": arm.mean,
        "sd": arm.sd,
        "baseline_mean": baseline.mean,
        "baseline_sd": baseline.sd,
        **headline_row(c.headline, c.p_adjusted, c.word),
        "pooled_ratio": c.pooled_test.ratio,
        "pooled_p": c.pooled_test.p,
    }


def headline_row(h: Headline, p_adjusted: float | None, word: Word) -> dict[str, Any]:
    """The numbers of a headline, as columns of a frame."""
    interval = h.shown_interval
    return {
        "ratio": h.ratio,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "p": h.p,
        "p_adjusted": p_adjusted,
        "word": word,
        "above_1": h.above_1,
        "above_2": h.above_2,
        "raw_ratio": h.raw_ratio,
    }
