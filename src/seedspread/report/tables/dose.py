"""Dose response as a table: what the figure shows, in numbers."""

from seedspread.analysis.numbers import between, number
from seedspread.render.table import Column, Table
from seedspread.report.material.doses import Dose, DoseCurve
from seedspread.report.material.settings import origins
from seedspread.stats.result import Interval


def dose_table(curve: DoseCurve) -> Table:
    """A row for each level and arm, with 95% intervals."""
    metric, several = curve.settings[0].metric, curve.lines != ("",)
    over = curve.baseline_title
    unit = metric.unit_suffix
    headings = (
        curve.factor, *(("arm",) if several else ()), "seeds", f"mean{unit}", "interval", f"sd{unit}",
        "interval", "failed", "interval", f"ratio over {over}", "interval",
    )  # fmt: skip
    rows = [
        (f"{curve.factor} = {d.level:g}", *((curve.title_of(d.arm),) if several else ()), *_numbers(d))
        for level in curve.levels
        for arm in curve.lines
        for d in curve.line(arm)
        if d.level == level
    ]
    about = f": {curve.name}" if curve.name else ""
    return Table(
        f"{curve.id}-table", f"Dose response, {curve.factor}{about}", tuple(map(Column, headings)),
        tuple(rows), scale=origins(list(curve.settings)),
    )  # fmt: skip


def _numbers(d: Dose) -> tuple[str, ...]:
    s = d.summary
    return (
        str(s.seeds), number(s.mean), _ends(s.mean_interval), number(s.sd), _ends(s.sd_interval),
        f"{s.failed}/{s.seeds}", _ends(s.rate_interval), number(d.ratio), _ends(d.interval),
    )  # fmt: skip


def _ends(interval: Interval | None) -> str:
    return "-" if interval is None else between(interval)
