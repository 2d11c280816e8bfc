"""The result of an audit, comparison by comparison: it holds its values and prints itself."""

import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from seedspread.analysis.charts import audit_chart, plot_audit, plot_comparison
from seedspread.analysis.components.result import Components
from seedspread.analysis.samples import Strip
from seedspread.analysis.show import (
    as_html,
    as_latex,
    as_markdown,
    as_text,
    comparison_as_html,
    comparison_as_text,
)
from seedspread.analysis.words import collapse_sentence, floor_sentence, verdict
from seedspread.render.pictures import notebook_svg
from seedspread.runs.levels import arm_name, stratum_name
from seedspread.runs.metrics import Metric
from seedspread.stats.outcomes import FailureModel, Performance
from seedspread.stats.result import (
    Collapse,
    Floor,
    Headline,
    Interval,
    Looks,
    Rung,
    Summary,
    TestResult,
    Twins,
    Word,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Comparison:
    """One arm against the baseline, within one stratum.

    Attributes:
        stratum: such as the dataset; empty where there is one only.
        group: the arm.
        baseline: what it is compared with.
        cells: every group and block.
        pooled: the two arms over all blocks.
        headline: the ratio to report, the seed as the unit.
        pooled_test: the ratio of the variances of all runs pooled, and its F test.
        tests: every test, in the order in which they are shown.
        twins: dependence within seeds, per arm.
        seeds: how many seeds each arm has.
        paired_correlation: of the seed means across the arms; None unless at least three seeds are in both.
        collapse: failed or two-clustered arms.
        floors: the sampling floor per arm, where it can be had.
        detectable: the smallest ratio above 1 that so many seeds show by the headline's test, with power 0.8.
        p_holm: the headline's p, adjusted over all comparisons of the audit.
        warnings: what a reader should know before using the numbers.
        word: the answer in a word (`Word`); None where there is nothing to judge.
        ladder: which assumption buys which p; empty where there are many comparisons.
        failures: how often runs fail, and how much the sound ones spread; None if none fails.
        performance: which arm's runs are better, on average and at their worst; None in a brief audit.
        components: of what the variances are made, where seeds were run again; None too where there are many.
        factor: what is compared; `group` and `baseline` are its levels.
        by: what `stratum` is a level of, or several.
        family: how many comparisons it was judged with, itself among them.
    """

    stratum: str
    group: str
    baseline: str
    cells: tuple[Summary, ...]
    pooled: tuple[Summary, Summary]
    headline: Headline
    pooled_test: Headline
    tests: tuple[TestResult, ...]
    twins: tuple[Twins, ...]
    seeds: tuple[int, int]
    paired_correlation: float | None
    collapse: Collapse
    floors: tuple[Floor, ...]
    detectable: float | None
    p_holm: float | None
    warnings: tuple[str, ...]
    word: Word | None = None
    ladder: tuple[Rung, ...] = ()
    components: Components | None = None
    failures: FailureModel | None = None
    performance: Performance | None = None
    factor: str = ""
    by: tuple[str, ...] = ()
    family: int = 1

    @property
    def verdict(self) -> str:
        """The answer in a sentence or two."""
        return verdict(self)

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
        """Likewise of the baseline."""
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
            "collapse": collapse | {"sentence": collapse_sentence(self.collapse, self.factor)},
            "floors": [asdict(floor) | {"sentence": floor_sentence(floor)} for floor in self.floors],
            "verdict": self.verdict,
        }

    def to_text(self, width: int = 110, explain: bool = False) -> str:
        """For a terminal: the answer and every test; with `explain` the reasons and what each assumes."""
        return comparison_as_text(self, width, explain)

    def to_frame(self) -> pd.DataFrame:
        """One row: what the overview shows, as numbers."""
        return pd.DataFrame([_row(self)])

    def plot(self, ax: "Axes | None" = None) -> "Figure":
        """A figure of its ratio by every method that has an interval."""
        return plot_comparison(self, ax)

    def __repr__(self) -> str:
        return f"<Comparison {self.title}: {self.word or 'not tested'}>"

    def __str__(self) -> str:
        return self.to_text()

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(f"{self.title}: {self.verdict}")

    def _repr_html_(self) -> str:
        return comparison_as_html(self)


@dataclass(frozen=True)
class Forest:
    """Log variance ratios of one arm against one other, over several strata, together.

    Attributes:
        group: the arm.
        baseline: what it is compared with.
        titles: of the comparisons that have a ratio with a standard error.
        log_ratios: natural logarithms.
        standard_errors: theirs, seeds as units.
        q: Cochran's heterogeneity statistic.
        df: its degrees of freedom.
        p: of the hypothesis that all ratios are one.
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
class AuditResult:
    """The audit of a table.

    Attributes:
        source: what was read.
        value, group, baseline, blocks, seed, by: the columns and the baseline level.
        metric: what the values are.
        rows: how many runs went in.
        level: of every interval.
        resamples: of each bootstrap and sampled permutation.
        random_seed: from which they are drawn.
        comparisons: one for each stratum and each group other than the baseline.
        forests: over the strata, one for each arm and its baseline.
        forest: that of the first, if there is one only.
        notes: what was left out of the table and why.
        values: what was compared.
        looks: those that the headlines count; None where the table is judged once.
    """

    source: str
    value: str
    metric: Metric
    group: str
    baseline: str
    blocks: tuple[str, ...]
    seed: str | None
    by: str | None
    rows: int
    level: float
    resamples: int
    random_seed: int
    comparisons: tuple[Comparison, ...]
    forest: Forest | None = None
    forests: tuple[Forest, ...] = ()
    notes: tuple[str, ...] = ()
    values: tuple[Strip, ...] = field(default=(), repr=False)
    looks: Looks | None = None

    def strips(self, c: Comparison) -> list[Strip]:
        """The values of a comparison: the baseline's, then the arm's."""
        return [
            s for g in (c.baseline, c.group) for s in self.values if (s.stratum, s.group) == (c.stratum, g)
        ]

    def to_json(self) -> str:
        """Everything; a number that is not finite is null."""
        return json.dumps(plain(self.as_values()), indent=2, allow_nan=False)

    def to_text(self, width: int = 110, explain: bool = False, details: bool = False) -> str:
        """For a terminal; with `details` every test, with `explain` why it was used and what it assumes."""
        return as_text(self, width, details, explain)

    def to_markdown(self) -> str:
        """Tables for a README or an issue."""
        return as_markdown(self)

    def to_latex(self) -> str:
        """Tables for a paper (booktabs)."""
        return as_latex(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per comparison: what the overview shows, as numbers."""
        return pd.DataFrame([_row(c) for c in self.comparisons])

    def plot(self, ax: "Axes | None" = None) -> "Figure":
        """A figure of the runs and ratios; on `ax` the forest alone, or of one comparison its runs."""
        return plot_audit(self, ax)

    def _repr_html_(self) -> str:
        return as_html(self, notebook_svg(lambda: audit_chart(self)))

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """IPython's text, also beside the HTML."""
        printer.text(self.to_text())

    def __repr__(self) -> str:
        many = f"{len(self.comparisons)} comparison{'s' * (len(self.comparisons) != 1)}"
        return f"<AuditResult of {self.source}: {self.value} by {self.group}, {many}>"

    def __str__(self) -> str:
        return self.to_text()

    def as_values(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return asdict(self) | {"comparisons": [c.as_values() for c in self.comparisons]}


def _row(c: Comparison) -> dict[str, Any]:
    (arm, baseline), h = c.pooled, c.headline
    interval = h.shown_interval
    return {
        "stratum": c.stratum,
        "group": c.group,
        "baseline": c.baseline,
        "seeds": c.seeds[0],
        "baseline_seeds": c.seeds[1],
        "mean": arm.mean,
        "sd": arm.sd,
        "baseline_mean": baseline.mean,
        "baseline_sd": baseline.sd,
        "ratio": h.ratio,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "p": h.p,
        "p_holm": c.p_holm,
        "word": c.word,
        "above_1": h.above_1,
        "above_2": h.above_2,
        "at_most": h.at_most,
        "plain_ratio": h.plain_ratio,
        "pooled_ratio": c.pooled_test.ratio,
        "pooled_p": c.pooled_test.p,
    }


def plain(value: Any) -> Any:
    """As JSON can have it: a number that is not finite is none."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
