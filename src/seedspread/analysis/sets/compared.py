"""Sets of runs compared, in the forms for people and programs."""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from seedspread.analysis.audited import AuditResult, plain
from seedspread.analysis.sets.agreement import Agreement
from seedspread.analysis.sets.charts import plot_sets, sets_chart
from seedspread.analysis.sets.result import CompareValues
from seedspread.analysis.sets.show import answer_lines, as_html, as_latex, as_markdown, as_text
from seedspread.render.pictures import notebook_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class CompareResult(CompareValues):
    """The same question, asked of several sets of runs, with its forms."""

    spread: AuditResult

    @property
    def answer(self) -> str:
        """Did the spread change, and do the sets agree: a sentence each."""
        return " ".join(answer_lines(self))

    def to_json(self) -> str:
        """Everything; a number that is not finite is null."""
        values = {"answer": self.answer} | asdict(self)
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
