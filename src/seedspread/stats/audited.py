"""The audit of a table as text, Markdown, LaTeX and JSON."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from seedspread.stats.comparison import AuditValues
from seedspread.stats.show import as_latex, as_markdown, as_text


@dataclass(frozen=True)
class AuditResult(AuditValues):
    """The audit of a table, with its forms."""

    def to_json(self) -> str:
        """Everything; a number that is not finite is null."""
        return json.dumps(_plain(asdict(self)), indent=2, allow_nan=False)

    def to_text(self, width: int = 110, explain: bool = False, details: bool = False) -> str:
        """For a terminal; with `details` every test, with `explain` why it was used and what it assumes."""
        return as_text(self, width, details, explain)

    def to_markdown(self) -> str:
        """Tables for a README or an issue."""
        return as_markdown(self)

    def to_latex(self) -> str:
        """Tables for a paper (booktabs)."""
        return as_latex(self)

    def __str__(self) -> str:
        return self.to_text()


# Former names of fields, which programs may still read.
_FORMER = {"assumptions_met": "holds", "std_error": "error"}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        plain = {key: _plain(item) for key, item in value.items()}
        return plain | {old: plain[new] for new, old in _FORMER.items() if new in plain}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
