"""Sources of variance: runs that vary one source of randomness, and same-seed runs with other rounding."""

import math
from functools import cache

import pandas as pd

from evidence.findings import findings
from evidence.plan import SOURCES, study_named
from seedspread.analysis.components import Component, ComponentsResult, GroupComponents, components
from seedspread.analysis.words import ends, p_value, two
from seedspread.render.chart import COLORS, Axis, Chart, Mark, Panel
from seedspread.render.table import Column, Table
from seedspread.stats.components import NOISE
from seedspread.stats.result import Interval
from seedspread.study.spec import StudySpec

# Test images of CIFAR-10, for the test-set noise.
_TEST_SIZE = 10_000


def is_source(study: StudySpec) -> bool:
    """Return whether a study is a part of the study of sources."""
    return study.name in {part.name for part in study_named(SOURCES).parts}


@cache
def sources() -> ComponentsResult | None:
    """Return the variance components of accuracies in percent, by group; None if a part has no audit."""
    found = [one for one in findings() if is_source(one.study)]
    if not all(one.audit for one in found):
        return None
    runs = pd.concat([one.runs for one in found], ignore_index=True)
    runs = runs.assign(accuracy=100 * runs["accuracy"], stability=runs["objective.stability"])
    return components(runs, "accuracy", "margin_type", "stability", baseline="subtract", test_size=_TEST_SIZE)


def sources_table(found: ComponentsResult) -> Table:
    """Return a row per source: the sd that it accounts for in each group, and the ratio of its variances."""
    groups, compared = found.strata[0].groups, found.strata[0].comparisons[0]
    rows = []
    for contrast in compared.components:
        parts = [group.component(contrast.key) for group in groups]
        rows.append(
            (
                contrast.name,
                *map(_sd, parts),
                two(contrast.ratio),
                ends(contrast.ratio_interval),
                p_value(contrast.p),
            )
        )
    rows.append(("total", *(f"{math.sqrt(group.total):.2f}" for group in groups), "-", "-", "-"))
    heads = (
        "source",
        *(f"{group.title}: sd, points" for group in groups),
        "ratio of variances",
        "95% interval",
        "p",
    )
    return Table("", "Standard deviation by source", tuple(map(Column, heads)), tuple(rows))


def sources_chart(found: ComponentsResult) -> Chart:
    """Draw the components as sds, on the scale of accuracies."""
    groups = found.strata[0].groups
    names = list(dict.fromkeys(part.name for group in groups for part in group.components))
    marks = tuple(mark for place, group in enumerate(groups[:2]) for mark in _marks(group, names, place))
    ticks = tuple((float(-place), name) for place, name in enumerate(names))
    sides = (-len(names) + 0.4, 0.6)
    panel = Panel("", Axis("Sd of accuracy (points, 95% CI)"), Axis(ticks=ticks, range=sides), marks)
    return Chart("sources", "", "", "", (panel,), height=0.8)


def same_seed_variances(found: ComponentsResult) -> dict[str, float]:
    """Return the variance between same-seed runs of each group, from their mean squares."""
    parts = {group.group: group.component(NOISE) for group in found.strata[0].groups}
    return {name: part.unbiased for name, part in parts.items() if part and part.unbiased is not None}


def _marks(group: GroupComponents, names: list[str], place: int) -> list[Mark]:
    """Return the sds of the first or the second group, which differ in color, marker and position."""
    beside = (0.14, -0.14)[place]
    return [
        Mark("interval", group.title, (math.sqrt(part.variance),), (beside - names.index(part.name),),
             (sides.low,), (sides.high,), (f"{group.title}, {part.name}",), COLORS[1 - place], place, True)
        for part in group.components
        if (sides := _ends(part)) is not None
    ]  # fmt: skip


def _sd(part: Component | None) -> str:
    if part is None:
        return "-"
    ends = _ends(part)
    return f"{math.sqrt(part.variance):.2f}" + (f" [{ends.low:.2f}, {ends.high:.2f}]" if ends else "")


def _ends(part: Component) -> Interval | None:
    """Return the interval of a component's sd."""
    i = part.interval
    return None if i is None else Interval(math.sqrt(max(i.low, 0.0)), math.sqrt(i.high), i.level)
