"""Sets of runs compared: the result, which holds its values and prints itself."""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from seedspread.analysis.comparison import AuditResult, plain
from seedspread.analysis.sets.agreement import Agreement
from seedspread.analysis.sets.charts import plot_sets, sets_chart
from seedspread.analysis.sets.show import as_html, as_latex, as_markdown, as_text
from seedspread.analysis.words import answer_lines
from seedspread.render.pictures import notebook_svg
from seedspread.runs.metrics import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class CompareResult:
    """The same question, asked of several sets of runs.

    Attributes:
        names: of the sets, the one that the others are compared with first.
        sources: what was read of each.
        value: the column with a number per run.
        metric: what it is.
        group: what tells the arms apart; None where a set is one sample.
        baseline: the arm that the others are compared with; empty where all are compared with all.
        spread: the audit of each arm from the first set to the others.
        agreements: for each arm and its baseline, whether the sets agree on their ratio.
        only: settings that are in one set only, or not in the first, by set.
        copies: a line on runs that are the same in two sets, and so no further evidence.
        notes: what was found, and what is assumed.
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
        """Did the spread change, and do the sets agree: a sentence each."""
        return " ".join(answer_lines(self))

    def to_json(self) -> str:
        """Everything; a number that is not finite is null."""
        values = {"answer": self.answer} | asdict(self) | {"spread": self.spread.as_values()}
        return json.dumps(plain(values), indent=2, allow_nan=False)

    def to_text(self, width: int = 110, details: bool = False) -> str:
        """For a terminal; with `details` every test of the spread."""
        return as_text(self, width, details)

    def to_markdown(self) -> str:
        """Tables for a README or an issue."""
        return as_markdown(self)

    def to_latex(self) -> str:
        """Tables for a paper (booktabs)."""
        return as_latex(self)

    def to_frame(self) -> pd.DataFrame:
        """A row for each answer: `question` is `spread`, or `agreement` with the ratio of ratios."""
        spread = self.spread.to_frame()
        spread = spread.assign(question="spread", source=spread["group"], first=spread["baseline"])
        rows = pd.DataFrame([_row(a) for a in self.agreements])
        both = pd.concat([spread, rows], ignore_index=True) if len(rows) else spread
        return both[["question", *(c for c in both.columns if c != "question")]]

    def plot(self, ax: "Axes | None" = None) -> "Figure":
        """A figure of all ratios; on `ax` those of the spread alone."""
        return plot_sets(self, ax)

    def _repr_html_(self) -> str:
        return as_html(self, notebook_svg(lambda: sets_chart(self)))

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """IPython's text, also beside the HTML."""
        printer.text(self.to_text())

    def __repr__(self) -> str:
        return f"<CompareResult of {' and '.join(self.names)}: {self.answer}>"

    def __str__(self) -> str:
        return self.to_text()


def _row(a: Agreement) -> dict[str, Any]:
    h, (first, second) = a.headline, a.answers
    interval = h.shown_interval
    return {
        "question": "agreement",
        "stratum": a.stratum,
        "group": a.group,
        "baseline": a.baseline,
        "source": a.source,
        "first": a.first,
        "ratio_in_source": second.headline.ratio,
        "ratio_in_first": first.headline.ratio,
        "ratio": h.ratio,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "p": h.p,
        "p_holm": a.p_holm,
        "word": a.word,
        "above_1": h.above_1,
        "above_2": h.above_2,
        "at_most": h.at_most,
        "plain_ratio": h.plain_ratio,
    }
