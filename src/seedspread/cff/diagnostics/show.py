"""What a monitor counted, as a table, a figure and JSON."""

import json
import math
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from seedspread.cff.diagnostics.counts import Tally
from seedspread.errors import printable
from seedspread.render.chart import COLOURS, SYMBOLS, Axis, Chart, Mark, Panel
from seedspread.render.pictures import PlotError, write_picture
from seedspread.render.table import Column, Table
from seedspread.render.terminal import Terminal
from seedspread.render.text import to_rich

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 1
NOTHING = "Nothing was recorded yet: call record(name, mask) or watch_clamp(name, values, low, high)."


class Row(TypedDict):
    """One name in one window: `step` is that of its end, `rate_is` says what `rate` is a share of."""

    window: int
    step: int
    name: str
    rate_is: str
    values: int
    saturated: int
    below: int | None
    above: int | None
    nan: int | None
    rate: float


COLUMNS = tuple(Row.__annotations__)


def row(window: int, step: int, name: str, rate_is: str, tally: Tally) -> Row:
    """Reads a tally, which waits for its devices."""
    below, above, nan = (tally.count(key) for key in ("below", "above", "nan"))
    return Row(
        window=window, step=step, name=name, rate_is=rate_is, values=tally.values, saturated=tally.saturated,
        below=below, above=above, nan=nan, rate=tally.rate,
    )  # fmt: skip


def as_json(rows: list[Row]) -> str:
    """Every row; a number that is not finite is null."""
    plain = [r | {"rate": r["rate"] if math.isfinite(r["rate"]) else None} for r in rows]
    return json.dumps({"format": FORMAT, "rows": plain}, indent=2, allow_nan=False)


def as_text(rows: list[Row], width: int) -> str:
    """One row per name, over all windows."""
    if not rows:
        return NOTHING
    out = StringIO()
    Terminal(file=out, width=width, color_system=None).print(to_rich(rates_table(rows)))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")


def rates_table(rows: list[Row]) -> Table:
    """Of each name what was counted, and its rate in the first, the last and the highest window."""
    headings = ("name", "rate is", "values", "first", "last", "highest", "below", "above", "NaN")
    by_name = _by_name(rows)
    windows = len({r["window"] for r in rows})
    return Table(
        "saturation",
        f"Saturation over {windows} {'window' if windows == 1 else 'windows'} of time",
        tuple(Column(heading) for heading in headings),
        tuple(_cells(name, of_name) for name, of_name in by_name.items()),
    )


def _cells(name: str, rows: list[Row]) -> tuple[str, ...]:
    rates = [r["rate"] for r in rows]
    highest = max((rate for rate in rates if not math.isnan(rate)), default=math.nan)
    counts = ([r[key] for r in rows] for key in ("below", "above", "nan"))
    return (
        _line(name),
        rows[0]["rate_is"],
        f"{sum(r['values'] for r in rows):,}",
        *(_percent(rate) for rate in (rates[0], rates[-1], highest)),
        *(_total(of_key) for of_key in counts),
    )


def as_figure(rows: list[Row], path: Path | None) -> "Figure":
    """Rates over time, written to `path` if there is one."""
    from seedspread.render.with_matplotlib import draw  # noqa: PLC0415 - slow, and not in the base

    if not rows:
        raise PlotError(NOTHING)
    chart = rates_chart(rows)
    if path is not None:
        write_picture(chart, path)
    return draw(chart)


def rates_chart(rows: list[Row]) -> Chart:
    """A line for each name over steps, or over windows where no step was counted."""
    time = "step" if any(r["step"] for r in rows) else "window"
    by_name = _by_name(rows)
    marks = tuple(_mark(i, name, of_name, time) for i, (name, of_name) in enumerate(by_name.items()))
    top = max((y for mark in marks for y in mark.y), default=0.0)
    panel = Panel("", Axis(time), Axis("saturated (%)", range=(0.0, max(1.05 * top, 1.0))), marks)
    last = [f"{_line(name)} {_percent(of_name[-1]['rate'])}" for name, of_name in by_name.items()]
    return Chart(
        "saturation",
        "Saturation over time",
        "The share that a clamp cuts, in each window of time.",
        f"Rates in the last window: {'; '.join(last)}.",
        (panel,),
    )


def _mark(number: int, name: str, rows: list[Row], time: str) -> Mark:
    """A line through the windows that have a rate; a dot where there is only one."""
    points = [(float(r["step"] if time == "step" else r["window"]), 100 * r["rate"]) for r in rows]
    points = [point for point in points if not math.isnan(point[1])]
    shown = _line(name)
    return Mark(
        "line" if len(points) > 1 else "dots",
        shown,
        tuple(x for x, _ in points),
        tuple(y for _, y in points),
        labels=tuple(f"{shown}\n{time} {x:.0f}: {y:.3g}%" for x, y in points),
        colour=COLOURS[number % len(COLOURS)],
        symbol=number % SYMBOLS,
        legend=True,
    )


def _by_name(rows: list[Row]) -> dict[str, list[Row]]:
    """In the order of first appearance."""
    out: dict[str, list[Row]] = {}
    for r in rows:
        out.setdefault(r["name"], []).append(r)
    return out


def _line(name: str) -> str:
    return " ".join(printable(name).split())


def _percent(rate: float) -> str:
    return "-" if math.isnan(rate) else f"{rate:.2%}"


def _total(counts: list[int | None]) -> str:
    known = [count for count in counts if count is not None]
    return f"{sum(known):,}" if known else "-"
