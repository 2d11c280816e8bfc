"""A picture of an audit: the seed spread, and the ratio with its intervals."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError
from seedspread.stats.audited import AuditResult
from seedspread.stats.result import Comparison

# Okabe and Ito's colours, which colour-blind readers can tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vP"
_SHOWN = ("seed_jackknife", "seed_bootstrap", "pitman_morgan", "f", "bonett", "bootstrap", "bootstrap_bca")
_FORMATS = (".png", ".pdf", ".svg")
_MOST = 12


class PlotError(SeedspreadError):
    """A picture cannot be drawn or written as asked."""


def draw_audit(audit: AuditResult, path: Path) -> None:
    """Writes the picture; its format follows from the file's name."""
    if path.suffix.lower() not in _FORMATS:
        raise PlotError(f"{path} must end in {', '.join(_FORMATS)}")
    if len(audit.comparisons) > _MOST:
        raise PlotError(
            f"a picture of {len(audit.comparisons)} comparisons is not legible; take at most {_MOST}"
        )
    rows = len(audit.comparisons)
    # Text stays text: no name from a table is taken for mathematics.
    with mpl.rc_context({"text.parse_math": False, "svg.hashsalt": "seedspread", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 0.6 + 3.2 * rows), layout="constrained")
        axes = figure.subplots(rows, 2, squeeze=False, width_ratios=(1, 1.25))
        for (left, right), c in zip(axes, audit.comparisons, strict=True):
            _spread(left, audit, c)
            _ratios(right, c)
        figure.supxlabel(f"{audit.rows:,} runs from {Path(audit.source).name}", fontsize=8, color="#666666")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                figure.savefig(
                    part, format=path.suffix[1:].lower(), dpi=150, metadata=_metadata(path.suffix.lower())
                )
        except OSError as error:
            raise PlotError(f"{path} cannot be written: {error.strerror or error}") from None


def _metadata(suffix: str) -> dict[str, str | None]:
    """No date, so that the same audit gives the same bytes."""
    dates: dict[str, dict[str, str | None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    return dates.get(suffix, {})


def _spread(axes: Axes, audit: AuditResult, c: Comparison) -> None:
    strips = [
        s for g in (c.reference, c.group) for s in audit.values if (s.stratum, s.group) == (c.stratum, g)
    ]
    blocks = list(dict.fromkeys(b for s in strips for b in s.blocks))
    for x, strip in enumerate(strips):
        values = np.array(strip.values)
        mean, sd = values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0
        axes.fill_between(
            [x - 0.35, x + 0.35], mean - sd, mean + sd, color=_COLOURS[x], alpha=0.15, linewidth=0
        )
        axes.plot([x - 0.35, x + 0.35], [mean, mean], color=_COLOURS[x], linewidth=1.5)
        for k, block in enumerate(blocks):
            here = values[np.array(strip.blocks) == block]
            offset = (k - (len(blocks) - 1) / 2) * 0.5 / max(len(blocks), 1)
            side = np.linspace(-0.06, 0.06, len(here)) if len(here) > 1 else np.zeros(len(here))
            axes.plot(
                x + offset + side, here, _MARKERS[k % len(_MARKERS)], color=_COLOURS[x], markersize=4.5,
                alpha=0.85, label=block if x == 0 and len(blocks) > 1 else None,
            )  # fmt: skip
    axes.set_xticks(range(len(strips)), [s.group for s in strips])
    axes.set_xlim(-0.6, len(strips) - 0.4)
    axes.set_ylabel(audit.value)
    axes.set_title(c.title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if 1 < len(blocks) <= len(_MARKERS):
        axes.legend(title=", ".join(audit.blocks), fontsize=7, title_fontsize=7, frameon=False)


def _ratios(axes: Axes, c: Comparison) -> None:
    tests = [t for t in c.tests if t.key in _SHOWN and t.interval is not None and t.estimate]
    if not tests:
        axes.text(0.5, 0.5, "no ratio with an interval", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    intervals = [t.interval for t in tests if t.interval is not None]
    ends = [e for i in intervals for e in (i.low, i.high) if 0 < e < np.inf]
    low, high = min([*ends, 0.5]) / 1.6, max([*ends, 2.0]) * 1.6
    for y, t in enumerate(reversed(tests)):
        colour = _COLOURS[0] if t.key in _SHOWN[:3] else "#777777"
        interval = t.interval
        if interval is None or t.estimate is None:
            continue
        axes.plot([max(interval.low, low), min(interval.high, high)], [y, y], color=colour, linewidth=2)
        axes.plot([t.estimate], [y], "o", color=colour, markersize=6 if t.key == "seed_jackknife" else 4)
    axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [t for t in (0.001, 0.01, 0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 100, 1000, 10000) if low < t < high]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    labels = [f"{'* ' if t.key == 'seed_jackknife' else ''}{t.name}" for t in reversed(tests)]
    axes.set_yticks(range(len(tests)), labels, fontsize=8)
    axes.set_ylim(-0.6, len(tests) - 0.4)
    axes.set_title(
        f"variance of {c.group} / variance of {c.reference}, {intervals[0].level:.0%} intervals",
        fontsize=9,
        loc="left",
    )
    axes.set_xlabel("* to quote; blue: the seed is the unit; grey: all runs as independent", fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
