"""The figures of one setting's spread: every run, and the ratio by every method."""

from dataclasses import replace

import numpy as np

from seedspread.analysis.charts import Dots, arm_marks, arms_axis, methods_panel
from seedspread.analysis.words import look_title
from seedspread.render.chart import COLOURS, Axis, Chart, Mark, Panel
from seedspread.report.material.settings import Setting


def arm_colour(setting: Setting, arm: str) -> str:
    """The same for an arm throughout: subtract is always the first."""
    return COLOURS[setting.arms[::-1].index(arm) % len(COLOURS)]


def spread_chart(s: Setting) -> Chart | None:
    """Figure 1: every run, means and +-1 sd bands; beside it the ratio by every method."""
    if not s.runs:
        return None
    marks = tuple(mark for i, arm in enumerate(s.arms) for mark in _arm_marks(s, arm, i))
    panels = [
        Panel(
            "every run",
            replace(arms_axis([s.arm_title(arm) for arm in s.arms]), title=s.group),
            Axis(s.value),
            marks,
        )
    ]
    for c in s.comparisons:
        title = "ratio by method" if len(s.comparisons) == 1 else f"{c.arm_name}: ratio by method"
        panels += [panel for panel in [methods_panel(c, title)] if panel is not None]
    means = "; ".join(_arm_words(s, arm) for arm in s.arms if s.of(arm))
    return Chart(
        f"{s.id}-spread",
        f"Spread over seeds: {s.name}",
        "Each mark is one run; lines are means, bands ±1 standard deviation. Right: the variance ratio by "
        "method; green, each seed counted once (the first is the headline); grey, every run counted "
        f"as independent.{_on_looks(s)}",
        f"{s.value} of every run by arm. {means}.",
        tuple(panels),
        s.origin,
        s.follows("spread"),
    )


def _on_looks(s: Setting) -> str:
    looks = next((c.headline.looks for c in s.comparisons if c.headline.looks), None)
    return f" The headline counts the looks ({look_title(looks)}); the other methods do not." if looks else ""


def _arm_words(s: Setting, arm: str) -> str:
    values = [r.value for r in s.of(arm)]
    spread = f", from {min(values):.4g} to {max(values):.4g}" if len(values) > 1 else ""
    return f"{s.arm_title(arm)}: {len(values)} runs, mean {np.mean(values):.4g}{spread}"


def _arm_marks(s: Setting, arm: str, position: int) -> list[Mark]:
    runs = s.of(arm)
    if not runs:
        return []
    summary = next((p for c in s.comparisons for p in c.pooled if p.group == arm), None)
    mean, sd = (summary.mean, summary.sd) if summary else (float(np.mean([r.value for r in runs])), None)
    blocks = [
        Dots(s.block_title(block), [r.value for r in in_block], tuple(map(s.label, in_block)))
        for block in s.blocks
        for in_block in [[r for r in runs if r.block == block]]
    ]
    return arm_marks(s.arm_title(arm), position, arm_colour(s, arm), mean, sd, blocks)
