"""Which comparisons of a report ask the same: one arm against one baseline of one factor, by one metric."""

from collections.abc import Sequence

from seedspread.analysis.comparison import Comparison
from seedspread.report.material.settings import ReportData, Setting

Row = tuple[Setting, Comparison]


def questions(material: ReportData) -> list[list[Row]]:
    """The comparisons, those of one question together.

    Where every arm is compared in one setting only, the arms of a factor stay together: a figure of its own
    for each would show one line.
    """
    families: dict[tuple[str, str, str], dict[str, list[Row]]] = {}
    for s in material.settings:
        for c in s.comparisons:
            family = families.setdefault((s.metric.name, s.group, c.baseline), {})
            family.setdefault(c.group, []).append((s, c))
    out = []
    for arms in families.values():
        single = all(len(rows) == 1 for rows in arms.values())
        out += [[row for rows in arms.values() for row in rows]] if single else list(arms.values())
    return out


def short_name(s: Setting, c: Comparison) -> str:
    """A comparison in a word or two."""
    return s.name if len(s.comparisons) == 1 else f"{s.name}: {c.arm_name}"


def where(rows: Sequence[Row], all_rows: Sequence[Row]) -> str:
    """The settings of some comparisons, and their arms if there are several: `clamp on depth = 2, 4`."""
    arms: dict[str, list[Setting]] = {}
    for s, c in rows:
        arms.setdefault(f"{c.arm_name} over {c.baseline_name}", []).append(s)
    if len({(s.group, c.group, c.baseline) for s, c in all_rows}) == 1:
        return _listed([s for s, _ in rows])
    if len({s.id for s, _ in all_rows}) == 1:
        return ", ".join(arms)
    return "; ".join(f"{arm} on {_listed(settings)}" for arm, settings in arms.items())


def _listed(settings: Sequence[Setting]) -> str:
    """Names, the levels of one factor together: `depth = 2, 4, 8`."""
    parts: dict[str, list[str]] = {}
    for s in settings:
        factor, level = s.levels[0] if len(s.levels) == 1 else ("", "")
        together = bool(factor) and s.name == f"{factor} = {level}"
        parts.setdefault(f"{factor} = " if together else s.name, []).extend([level] if together else [])
    return ", ".join(head + ", ".join(dict.fromkeys(levels)) for head, levels in parts.items())
