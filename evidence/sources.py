"""Where the variance comes from: runs that vary one stream at a time, and twins that differ in rounding."""

import math
from functools import cache

import pandas as pd

from evidence.findings import findings
from evidence.plan import SOURCES, study_named
from seedspread.analysis.components import Component, ComponentsResult, GroupComponents, components
from seedspread.analysis.words import ends, p_value, two
from seedspread.render.chart import COLOURS, Axis, Chart, Mark, Panel
from seedspread.render.table import Column, Table
from seedspread.stats.components import NOISE
from seedspread.stats.result import Interval
from seedspread.study.spec import StudySpec

# Test images of CIFAR-10, for the floor.
_TEST_SIZE = 10_000


def is_source(study: StudySpec) -> bool:
    """Whether it is a part of the study of sources."""
    return study.name in {part.name for part in study_named(SOURCES).parts}


@cache
def sources() -> ComponentsResult | None:
    """The variance components of accuracies in per cent, by arm; None while a part has no answer."""
    found = [one for one in findings() if is_source(one.study)]
    if not all(one.audit for one in found):
        return None
    runs = pd.concat([one.runs for one in found], ignore_index=True)
    runs = runs.assign(accuracy=100 * runs["accuracy"], stability=runs["objective.stability"])
    return components(runs, "accuracy", "margin_type", "stability", baseline="subtract", test_size=_TEST_SIZE)


def sources_table(found: ComponentsResult) -> Table:
    """A row for each source: the sd that it makes in either arm, and the ratio of its variances."""
    arms, compared = found.strata[0].groups, found.strata[0].comparisons[0]
    rows = []
    for contrast in compared.components:
        parts = [arm.component(contrast.key) for arm in arms]
        rows.append(
            (
                contrast.name,
                *map(_sd, parts),
                two(contrast.ratio),
                ends(contrast.ratio_interval),
                p_value(contrast.p),
            )
        )
    rows.append(("total", *(f"{math.sqrt(arm.total):.2f}" for arm in arms), "-", "-", "-"))
    heads = (
        "source",
        *(f"{arm.title}: sd, points" for arm in arms),
        "ratio of variances",
        "95% interval",
        "p",
    )
    return Table("", "Standard deviation by source", tuple(map(Column, heads)), tuple(rows))


def sources_chart(found: ComponentsResult) -> Chart:
    """The same as a picture, in variances' roots: the scale of accuracies."""
    arms = found.strata[0].groups
    names = list(dict.fromkeys(part.name for arm in arms for part in arm.components))
    marks = tuple(mark for place, arm in enumerate(arms[:2]) for mark in _marks(arm, names, place))
    ticks = tuple((float(-place), name) for place, name in enumerate(names))
    sides = (-len(names) + 0.4, 0.6)
    panel = Panel("", Axis("Sd of accuracy (points, 95% CI)"), Axis(ticks=ticks, range=sides), marks)
    return Chart("sources", "", "", "", (panel,), height=0.8)


def twin_variances(found: ComponentsResult) -> dict[str, float]:
    """By arm the variance between twins of a seed, from their mean squares."""
    parts = {arm.group: arm.component(NOISE) for arm in found.strata[0].groups}
    return {group: part.unbiased for group, part in parts.items() if part and part.unbiased is not None}


def _marks(arm: GroupComponents, names: list[str], place: int) -> list[Mark]:
    """Return the sds of the first or the second group, told apart by color, marker and place."""
    beside = (0.14, -0.14)[place]
    return [
        Mark("interval", arm.title, (math.sqrt(part.variance),), (beside - names.index(part.name),),
             (sides.low,), (sides.high,), (f"{arm.title}, {part.name}",), COLOURS[1 - place], place, True)
        for part in arm.components
        if (sides := _ends(part)) is not None
    ]  # fmt: skip


def _sd(part: Component | None) -> str:
    if part is None:
        return "-"
    ends = _ends(part)
    return f"{math.sqrt(part.variance):.2f}" + (f" [{ends.low:.2f}, {ends.high:.2f}]" if ends else "")


def _ends(part: Component) -> Interval | None:
    """Of the sd."""
    i = part.interval
    return None if i is None else Interval(math.sqrt(max(i.low, 0.0)), math.sqrt(i.high), i.level)
