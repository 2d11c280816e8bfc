"""What the paper prints for a setting, to stand beside one's own values."""

from collections.abc import Sequence
from dataclasses import dataclass

from seedspread.paper.printed import printed
from seedspread.paper.report.scale import TITLES
from seedspread.paper.values import published_runs
from seedspread.report.extension import Published

# The paper's number of each kind of table, by setting.
_TABLES = {
    "factorial": {"cifar10": 3},
    "variance-tests": {"cifar10": 4},
    "pooled": {"cifar10": 5, "cifar100": 10, "svhn": 13, "fashion-mnist": 14},
    "per-seed": {
        "cifar10": 16, "cifar10-low": 17, "cifar100": 19, "svhn": 20, "fashion-mnist": 21, "svhn-medium": 22,
        "svhn-hard": 22,
    },
    "normality": dict.fromkeys(TITLES, 23),
}  # fmt: skip
_FIGURES = {"spread": {"cifar10": 1}, "profiles": {"cifar10": 2}}
_NOTES = {
    "pooled": ", as the paper pools them",
    "variance-tests": ". The paper's printed p values are one-way tests, though its text describes these",
    "per-seed": "The paper's runs stand in the order of its seeds",
}
# The paper's words for the effects of a two-way analysis.
_EFFECTS = {"group": "margin", "block": "stability", "interaction": "interaction"}


@dataclass(frozen=True)
class PaperSetting(Published):
    """One of the paper's settings.

    Attributes:
        judge: in a report of the paper's own numbers: each printed value is marked if it does not follow.
    """

    judge: bool = False

    def follows(self, kind: str) -> str:
        """`the paper's Table 5`."""
        table, figure = (kinds.get(kind, {}).get(self.name) for kinds in (_TABLES, _FIGURES))
        return f"the paper's Table {table}" if table else f"the paper's Figure {figure}" if figure else ""

    def note(self, kind: str) -> str:
        """Only where the paper has such a table, but for how it pools."""
        return _NOTES.get(kind, "") if kind == "pooled" or self.follows(kind) else ""

    def values(self, kind: str, methods: Sequence[str], *arms: str) -> list[str]:
        """By the paper's number for that kind of table."""
        table = _TABLES.get(kind, {}).get(self.name)
        if table is None:
            return ["-"] * len(methods)
        if kind == "variance-tests":
            arms = tuple(f"{arm}/{block}" for arm in arms for block in ("detach", "direct"))
            methods = [
                f"{name}s_{_EFFECTS[effect]}" for name, _, effect in (m.rpartition("_") for m in methods)
            ]
        on = tuple(f"{self.name}/{arm}" for arm in arms)
        return [printed(table, on, method, judge=self.judge) or "-" for method in methods]

    def runs(self) -> dict[tuple[str, str], list[str]]:
        """The paper's accuracies; none in a report of its own numbers, where they are the setting's."""
        out: dict[tuple[str, str], list[str]] = {}
        rows = [] if self.judge else [row for row in published_runs() if row["setting"] == self.name]
        first = rows[0]["stability"] if rows else ""
        for row in rows:
            names = {row["stability"], ""} if row["stability"] == first else {row["stability"]}
            for block in names:
                out.setdefault((row["margin_type"], block), []).append(row["accuracy"])
        return out


def paper_values(
    name: str, same_scale: bool | None = None, *, same_question: bool = True, judge: bool = False
) -> PaperSetting:
    """What the paper prints for one of its settings.

    Args:
        name: the paper's.
        same_scale: whether the runs beside it are at the paper's scale; None if that cannot be told.
        same_question: whether they compare what the paper compares.
        judge: in a report of the paper's own numbers.
    """
    scale = {None: "paper", True: "paper (same scale)", False: "paper (different scale)"}[same_scale]
    return PaperSetting(
        name=name,
        title=TITLES[name],
        order=list(TITLES).index(name),
        same_question=same_question,
        own_heading="computed" if judge else "these runs",
        heading="printed" if judge else scale,
        mixed_heading="paper (scale differs by row)",
        judge=judge,
    )
