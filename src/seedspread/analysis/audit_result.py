"""The result of an audit, comparison by comparison: it holds its values and prints itself."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd
from rich.text import Text

from seedspread.analysis.charts import audit_chart, comparison_chart
from seedspread.analysis.components import Components
from seedspread.analysis.display import (
    MOST_ROWS,
    Result,
    TextPage,
    cells_table,
    fitted,
    overview_table,
    test_tables,
)
from seedspread.analysis.samples import Strip
from seedspread.analysis.words import (
    collapse_sentence,
    explanations,
    floor_sentence,
    foot,
    headline_note,
    left_out,
    remarks,
    sentences,
    summary,
)
from seedspread.render.chart import Chart
from seedspread.render.latex import tex_comment, tex_text, to_latex
from seedspread.render.table import Table, markdown_text, to_markdown
from seedspread.render.terminal import strip_lines
from seedspread.render.web import for_notebook, notebook_svg
from seedspread.runs.levels import Levels, arm_name, joined_levels, stratum_name
from seedspread.runs.metrics import Metric
from seedspread.stats.result import (
    Collapse,
    FailureModel,
    Headline,
    InterimLook,
    Interval,
    Performance,
    SameSeedRuns,
    SensitivityTest,
    Summary,
    TestResult,
    TestSetNoise,
    Word,
)


@dataclass(frozen=True)
class Comparison(Result):
    """One group against the baseline, within one stratum.

    Attributes:
        stratum: the level of each factor in `by`, such as the dataset; empty where there is one only.
        factor: the column that `group` and `baseline` are levels of.
        cells: every group and block.
        pooled: group and baseline over all blocks.
        headline: the ratio to report; each seed counts once.
        pooled_test: the ratio of the variances of all runs pooled, and its F test.
        twins: how alike the runs of one seed are, per group.
        seeds: how many seeds group and baseline have.
        paired_correlation: of the seed means; None unless at least three seeds are shared.
        floors: test-set noise per group, if it can be had.
        detectable: the smallest ratio above 1 that so many seeds detect with power 0.8.
        p_holm: the headline's p, adjusted over all comparisons of the audit.
        word: the answer in a word; None if there is nothing to judge.
        ladder: which assumption buys which p; empty if there are many comparisons.
        components: where the variances come from, if seeds were run again; None too if there are many.
        failures: how often runs fail, and how much the others spread; None if none fails.
        performance: which group's runs are better, on average and at their worst; None in a brief audit.
        family: number of comparisons it was judged with, itself among them.
    """

    stratum: Levels
    group: str
    baseline: str
    cells: tuple[Summary, ...]
    pooled: tuple[Summary, Summary]
    headline: Headline
    pooled_test: Headline
    tests: tuple[TestResult, ...]
    twins: tuple[SameSeedRuns, ...]
    seeds: tuple[int, int]
    paired_correlation: float | None
    collapse: Collapse
    floors: tuple[TestSetNoise, ...]
    detectable: float | None
    p_holm: float | None
    warnings: tuple[str, ...]
    word: Word | None = None
    ladder: tuple[SensitivityTest, ...] = ()
    components: Components | None = None
    failures: FailureModel | None = None
    performance: Performance | None = None
    factor: str = ""
    by: tuple[str, ...] = ()
    family: int = 1

    @property
    def verdict(self) -> str:
        """The answer in a sentence or two."""
        return " ".join(sentences(self))

    def test(self, key: str) -> TestResult:
        """The test called `key`."""
        for test in self.tests:
            if test.key == key:
                return test
        raise KeyError(f"no test {key!r}; there are {', '.join(t.key for t in self.tests)}")

    @property
    def arm_name(self) -> str:
        """`clamp`, `depth = 2`."""
        return arm_name(self.factor, self.group)

    @property
    def baseline_name(self) -> str:
        return arm_name(self.factor, self.baseline)

    @property
    def title(self) -> str:
        """`clamp against subtract`, with the stratum before it: `depth = 2: clamp against subtract`."""
        name = f"{self.arm_name} against {self.baseline_name}"
        return f"{stratum_name(self.by, self.stratum)}: {name}" if self.stratum else name

    def as_values(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        collapse = asdict(self.collapse)
        del collapse["signs"]  # the sentence has them
        return asdict(self) | {
            "stratum": joined_levels(self.stratum),
            "cells": [asdict(cell) | {"block": joined_levels(cell.block)} for cell in self.cells],
            "pooled": [asdict(arm) | {"block": ""} for arm in self.pooled],
            "collapse": collapse | {"sentence": collapse_sentence(self.collapse, self.factor)},
            "floors": [asdict(floor) | {"sentence": floor_sentence(floor)} for floor in self.floors],
            "components": self.components and asdict(self.components) | {"stratum": ""},
            "verdict": self.verdict,
        }

    def to_text(self, width: int = 110, explain: bool = False) -> str:
        """For a terminal: the answer and every test; with `explain` the reasons and what each assumes."""
        page = TextPage(width)
        page.lines([f"{self.title}: {self.verdict}"], "bold")
        page.tables(test_tables(self, explain))
        return page.text([*(explanations(self) if explain else []), *remarks(self)])

    def to_frame(self) -> pd.DataFrame:
        """One row: what the overview shows, as numbers."""
        return pd.DataFrame([_row(self)])

    def chart(self) -> Chart:
        """The ratio by every method that has an interval."""
        return comparison_chart(self)

    def __repr__(self) -> str:
        return f"<Comparison {self.title}: {self.word or 'not tested'}>"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(f"{self.title}: {self.verdict}")

    def _repr_html_(self) -> str:
        return for_notebook([self.title, self.verdict], test_tables(self, full=False), remarks(self))


@dataclass(frozen=True)
class Forest:
    """The mean over strata of the log variance ratio of one group and its baseline.

    Attributes:
        titles: of the comparisons that have a ratio with a standard error.
        log_ratios: natural logarithms, each with its standard error; seeds are the units.
        q: Cochran's heterogeneity statistic, with `df` degrees of freedom and the p value `p`.
        i_squared: the share of variation beyond chance, from 0 to 1.
        pooled: the mean ratio, on the log scale, of strata like these (random effects, REML).
        interval: of that (Hartung and Knapp, or the usual one where that is wider).
        tau: the standard deviation of the true log ratios over strata.
        pooled_p: of the hypothesis that the mean ratio is 1.
    """

    group: str
    baseline: str
    titles: tuple[str, ...]
    log_ratios: tuple[float, ...]
    standard_errors: tuple[float, ...]
    q: float
    df: int
    p: float
    i_squared: float
    pooled: float
    interval: Interval
    tau: float
    pooled_p: float


@dataclass(frozen=True)
class AuditResult(Result):
    """The audit of a table.

    Attributes:
        source: what was read.
        value, group, baseline, blocks, seed, by: the columns and the baseline level.
        metric: what the values are.
        rows: number of runs.
        level: of every interval.
        resamples: of each bootstrap and sampled permutation, drawn from `random_seed`.
        comparisons: one for each stratum and each group other than the baseline.
        forests: means over the strata, one for each group and its baseline.
        forest: the only one of them, if there is one only.
        notes: what was left out of the table and why.
        values: what was compared.
        looks: those that the headlines count; None if the table is judged once.
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
    resamples: int
    random_seed: int
    comparisons: tuple[Comparison, ...]
    forest: Forest | None = None
    forests: tuple[Forest, ...] = ()
    notes: tuple[str, ...] = ()
    values: tuple[Strip, ...] = field(default=(), repr=False)
    looks: InterimLook | None = None

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

    def to_text(self, width: int = 110, explain: bool = False, details: bool = False) -> str:
        """For a terminal; with `details` every test, with `explain` why it was used and what it assumes."""
        page = TextPage(width)
        if len(self.comparisons) > 1:
            page.lines([summary(self)], "bold")
            self.print_overview(page)
        self.print_comparisons(page, details, explain)
        return page.text((*self.notes, foot(self)))

    def print_overview(self, page: TextPage) -> None:
        """Print the table of all comparisons, and how many it leaves out."""
        page.tables([fitted(overview_table(self, bars=True), page.console.width)])
        page.lines(left_out(len(self.comparisons) - MOST_ROWS, "comparisons, "))

    def print_comparisons(self, page: TextPage, details: bool, explain: bool = False) -> None:
        """Print the only comparison with its runs, or on request each of them."""
        if len(self.comparisons) == 1 or details or explain:
            for c in self.comparisons:
                self._print(page, c, details, explain)

    def _print(self, page: TextPage, c: Comparison, details: bool, explain: bool) -> None:
        page.title(c.title)
        answer, *rest = sentences(c)
        page.lines([answer], "bold")
        page.lines([" ".join(rest)])
        strips = [(arm_name(c.factor, strip.group), strip.values) for strip in reversed(self.strips(c))]
        for line in strip_lines(strips, page.console.width):
            page.console.print(Text(line), soft_wrap=True)
        full = details or explain
        page.tables(self._tables(c, explain) if full else [cells_table(self, c)])
        page.lines([*(explanations(c) if explain else []), *remarks(c)])
        if full:
            page.lines([headline_note(c)], "dim")

    def _tables(self, c: Comparison, full: bool) -> list[Table]:
        return [cells_table(self, c), *test_tables(c, full)]

    def to_markdown(self) -> str:
        """Tables for a README or an issue; every test with its reason and assumptions."""
        out = []
        if len(self.comparisons) > 1:
            overview = to_markdown(overview_table(self, most=None))
            out = [markdown_text(summary(self)), "", *overview.splitlines(), ""]
        for c in self.comparisons:
            out += [f"## {markdown_text(c.title)}", "", markdown_text(c.verdict), ""]
            out += [f"- {markdown_text(line.removeprefix('! '))}" for line in remarks(c)]
            for table in self._tables(c, full=True):
                out += ["", *to_markdown(table).splitlines()]
            out += ["", *(f"- {markdown_text(line)}" for line in explanations(c)), ""]
        out += [markdown_text(note) for note in (*self.notes, foot(self))]
        return "\n".join(out) + "\n"

    def to_latex(self) -> str:
        """Tables for a paper (booktabs)."""
        out = ["% needs \\usepackage{booktabs}"]
        if len(self.comparisons) > 1:
            out += [f"{tex_text(summary(self))}\n", to_latex(overview_table(self, most=None))]
        out += [f"\\paragraph{{{tex_text(c.title)}}} {tex_text(c.verdict)}\n" for c in self.comparisons]
        for c in self.comparisons:
            out += [to_latex(replace(t, title=f"{c.title}. {t.title}")) for t in self._tables(c, full=True)]
        out += [tex_comment(line) for c in self.comparisons for line in explanations(c)]
        return "\n".join([*out, tex_comment(foot(self))]) + "\n"

    def to_frame(self) -> pd.DataFrame:
        """One row per comparison: what the overview shows, as numbers."""
        return pd.DataFrame([_row(c) for c in self.comparisons])

    def chart(self) -> Chart:
        """The runs and ratios of one comparison; of several a forest, and the runs of a few."""
        return audit_chart(self)

    def _repr_html_(self) -> str:
        several = len(self.comparisons) > 1
        lines = [summary(self)] if several else sentences(self.comparisons[0])
        said = [] if several else remarks(self.comparisons[0])
        notes = [*said, *self.notes, foot(self)]
        return for_notebook(lines, [overview_table(self)], notes, notebook_svg(self.chart))

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
        **headline_row(c.headline, c.p_holm, c.word),
        "pooled_ratio": c.pooled_test.ratio,
        "pooled_p": c.pooled_test.p,
    }


def headline_row(h: Headline, p_holm: float | None, word: Word | None) -> dict[str, Any]:
    """The numbers of a headline, as columns of a frame."""
    interval = h.shown_interval
    return {
        "ratio": h.ratio,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "p": h.p,
        "p_holm": p_holm,
        "word": word,
        "above_1": h.above_1,
        "above_2": h.above_2,
        "at_most": h.at_most,
        "plain_ratio": h.plain_ratio,
    }
