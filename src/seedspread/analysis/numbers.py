"""Numbers as they stand in sentences and tables."""

import numpy as np

from seedspread.runs.sequential import LookedComparison
from seedspread.stats.result import Interval


def number(value: float | None) -> str:
    """Three digits, no needless ones; infinity has its sign."""
    if value is None:
        return "-"
    if not np.isfinite(value):
        return "∞"
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2e}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def p_value(p: float | None) -> str:
    """`0.003`, `< 0.001`."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_phrase(p: float) -> str:
    """`p = 0.003`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def between(interval: Interval | None) -> str:
    """`[1.2, 57]`."""
    return "-" if interval is None else f"[{number(interval.low)}, {number(interval.high)}]"


def probability(value: float) -> str:
    """`0.97`, `> 0.99`."""
    return "> 0.99" if value > 0.99 else "< 0.01" if value < 0.01 else f"{value:.2f}"


def ladder_p(p: float) -> str:
    """Four decimals: steps between small p values are what a ladder shows."""
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def interval_of_look(c: LookedComparison) -> Interval | None:
    """Of the ratio; None where there was none."""
    if c.ratio is None or c.p is None:
        return None
    return Interval(c.low or 0.0, float("inf") if c.high is None else c.high, 0.95)
