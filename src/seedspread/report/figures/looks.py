"""The looks at a study that grows: how its intervals narrow."""

from dataclasses import replace

from seedspread.analysis.charts import Line, lines_panel
from seedspread.analysis.look_tables import standing
from seedspread.analysis.numbers import between, interval_of_look, number
from seedspread.render.chart import Chart
from seedspread.report.material.settings import Setting
from seedspread.runs.sequential import SequentialRecord


def looks_of(s: Setting) -> SequentialRecord | None:
    """The looks at what a setting compares; None if there were none."""
    if s.growing is None or not s.growing.looks:
        return None
    titles = {c.title for c in s.comparisons}
    looks = tuple(
        replace(look, comparisons=tuple(c for c in look.comparisons if c.title in titles))
        for look in s.growing.looks
    )
    return replace(s.growing, looks=looks) if any(look.comparisons for look in looks) else None


def looks_chart(s: Setting) -> Chart | None:
    """The ratio at every look, with the interval that counts the looks."""
    record = looks_of(s)
    if record is None:
        return None
    several = len(s.comparisons) > 1
    lines = [
        Line(f"{look.seeds} seeds" + (f"\n{c.title}" if several else ""), c.ratio, interval_of_look(c))
        for look in record.looks
        for c in look.comparisons
    ]
    found = "; ".join(f"{line.name}: {number(line.ratio)} {between(line.interval)}" for line in lines)
    return Chart(
        f"{s.id}-looks",
        f"Look by look: {s.name}",
        f"The variance ratio at each look, with an interval that counts all looks, at most "
        f"{len(record.spec.sizes)}. {standing(record)}",
        f"Variance ratios look by look. {found}.",
        (lines_panel(lines, "variance ratio, 95% intervals that count the looks", ""),),
        s.origin,
        height=0.5 + 0.12 * len(lines),
    )
