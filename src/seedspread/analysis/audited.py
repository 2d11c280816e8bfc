"""The audit of a table as text, Markdown, LaTeX and JSON."""

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from seedspread.analysis.charts import audit_chart, plot_audit, plot_comparison
from seedspread.analysis.comparison import AuditValues, Comparison
from seedspread.analysis.show import (
    as_html,
    as_latex,
    as_markdown,
    as_text,
    comparison_as_html,
    comparison_as_text,
)
from seedspread.render.pictures import notebook_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ComparisonResult(Comparison):
    """One arm against its baseline, with its forms."""

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
class AuditResult(AuditValues):
    """The audit of a table, with its forms."""

    def to_json(self) -> str:
        """Everything; a number that is not finite is null."""
        return json.dumps(plain(asdict(self)), indent=2, allow_nan=False)

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


# Former names of fields, which programs may still read.
_FORMER = {"assumptions_met": "holds", "std_error": "error"}


def plain(value: Any) -> Any:
    """As JSON can have it: a number that is not finite is none."""
    if isinstance(value, dict):
        items = {key: plain(item) for key, item in value.items()}
        return items | {old: items[new] for new, old in _FORMER.items() if new in items}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
