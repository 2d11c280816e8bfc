"""The figures about spread: the answer, the seeds, the ratios together."""

import math
from collections.abc import Iterable

import numpy as np

from seedspread.report.chart import COLOURS, GREY, QUOTED, Axis, Chart, Mark, Panel, floats, log_ticks
from seedspread.report.material import Material, Run, Setting, origins
from seedspread.stats.result import Comparison, Interval
from seedspread.stats.verdict import between, number, p_value

_SHOWN = ("seed_jackknife", "seed_bootstrap", "pitman_morgan", "f", "bonett", "bootstrap", "bootstrap_bca")
_SEED_UNIT = _SHOWN[:3]
_MOST_SIMULATED_SEEDS = 60
_WIDEST = 1e4  # ratios beyond this are drawn at the edge


def arm_colour(setting: Setting, arm: str) -> str:
    """The same for an arm throughout: subtract is always the first."""
    order = [*reversed(setting.arms)]
    return COLOURS[order.index(arm) % len(COLOURS)]


def ratio_axis(intervals: Iterable[Interval], title: str) -> Axis:
    """A logarithmic axis that holds 1/2, 2 and all finite ends, within reason."""
    ends = [e for i in intervals for e in (i.low, i.high) if 0 < e < math.inf]
    low = max(min([*ends, 0.5]) / 1.5, 1 / _WIDEST)
    high = min(max([*ends, 2.0]) * 1.5, _WIDEST)
    return Axis(title, log=True, ticks=log_ticks(low, high), range=(low, high))


def rule(x: tuple[float, ...], y: tuple[float, ...]) -> Mark:
    """A thin line that helps the eye."""
    return Mark("rule", "", x, y)


def answer_chart(material: Material) -> Chart | None:
    """Every comparison's variance ratio, the seed as the unit, with the pooled one beside."""
    rows = [(s, c) for s in material.settings for c in s.comparisons if c.headline.ratio]
    drawn = [(s, c) for s, c in rows if c.headline.interval is not None]
    drawn.sort(key=lambda pair: pair[1].collapse.found)  # what cannot be judged so stands below the rest
    if not drawn:
        return None
    intervals = [c.headline.interval for _, c in drawn if c.headline.interval is not None]
    axis = ratio_axis(intervals, f"variance ratio, {_arms(drawn[0][1])}")
    places = list(range(len(drawn) - 1, -1, -1))
    marks = []
    for failing, name, colour in (
        (False, "each seed counted once, 95% interval", QUOTED),
        (True, "runs fail to train: not to be judged so", GREY),
    ):
        here = [(p, s, c) for p, (s, c) in zip(places, drawn, strict=True) if c.collapse.found == failing]
        if here:
            ends = [c.headline.interval for _, _, c in here if c.headline.interval is not None]
            marks.append(Mark(
                "interval", name, floats([c.headline.ratio or math.nan for *_, c in here]),
                floats([p for p, *_ in here]), floats([i.low for i in ends]), floats([i.high for i in ends]),
                tuple(_ratio_label(s, c) for _, s, c in here), colour, legend=True,
            ))  # fmt: skip
    pooled = [(p, c.paper.ratio) for p, (_, c) in zip(places, drawn, strict=True) if c.paper.ratio]
    naive = Mark(
        "dots", "every run counted, as the paper does", floats([r for _, r in pooled]),
        floats([p - 0.22 for p, _ in pooled]), labels=tuple(f"pooled ratio {number(r)}" for _, r in pooled),
        colour=COLOURS[3], symbol=2, legend=True,
    )  # fmt: skip
    names = [f"{short_name(s, c)}, {_seeds(c)}" for s, c in drawn]
    ticks = tuple((float(p), name) for p, name in zip(places, names, strict=True))
    y = Axis(ticks=ticks, range=(-0.6, len(drawn) - 0.4))
    panel = Panel("", axis, y, (rule((1, 1), (-0.6, len(drawn) - 0.4)), *marks, naive))
    said = "; ".join(
        f"{short_name(s, c)}: {number(c.headline.ratio)} {between(c.headline.interval)}" for s, c in drawn
    )
    return Chart(
        "answer",
        "The variance ratio, and how sure it is",
        f"Right of 1, the first arm ({_arms(drawn[0][1])}) spreads more; left of 1, less. An interval that "
        "crosses 1 shows no difference."
        + (
            " † Runs fail to train here: a ratio of variances is the wrong question."
            if "†" in "".join(names)
            else ""
        ),
        f"Variance ratios with 95% intervals. {said}.",
        (panel,),
        origins([s for s, _ in drawn]),
        height=0.45 + 0.14 * len(drawn),
    )


def _seeds(c: Comparison) -> str:
    first, second = c.seeds
    return f"{first} seeds" if first == second else f"{first} and {second} seeds"


def _arms(c: Comparison) -> str:
    return f"{c.group} over {c.reference}"


def short_name(s: Setting, c: Comparison) -> str:
    """A comparison in a word or two."""
    name = s.name
    return name if len(s.comparisons) == 1 else f"{name}: {c.group}"


def _ratio_label(s: Setting, c: Comparison) -> str:
    h = c.headline
    return f"{s.title}\n{_arms(c)}: {number(h.ratio)} {between(h.interval)}\np = {p_value(h.p)}"


def spread_chart(s: Setting) -> Chart | None:
    """Figure 1: every run, means and +-1 sd bands; beside it the ratio by every method."""
    if not s.runs:
        return None
    marks: list[Mark] = []
    for place, arm in enumerate(s.arms):
        marks += _arm_marks(s, arm, place)
    ticks = tuple((float(i), arm) for i, arm in enumerate(s.arms))
    x = Axis(ticks=ticks, range=(-0.6, len(s.arms) - 0.4))
    panels = [Panel("every run", x, Axis(s.value), tuple(marks))]
    panels += [_methods_panel(s, c) for c in s.comparisons if _drawable(c)]
    means = "; ".join(_arm_words(s, arm) for arm in s.arms if s.of(arm))
    return Chart(
        f"{s.id}-spread",
        f"Spread over seeds: {s.name}",
        "Each mark is one run; lines are means, bands ±1 standard deviation. Right: the variance ratio by "
        "method; green, each seed counted once (the first is the figure to quote); grey, every run counted "
        "as independent.",
        f"{s.value} of every run by arm. {means}.",
        tuple(panels),
        s.origin,
        1 if s.paper == "cifar10" and s.is_the_papers else None,
    )


def _arm_words(s: Setting, arm: str) -> str:
    values = [r.value for r in s.of(arm)]
    spread = f", from {min(values):.4g} to {max(values):.4g}" if len(values) > 1 else ""
    return f"{arm}: {len(values)} runs, mean {np.mean(values):.4g}{spread}"


def _arm_marks(s: Setting, arm: str, place: int) -> list[Mark]:
    runs = s.of(arm)
    if not runs:
        return []
    colour = arm_colour(s, arm)
    values = np.array([r.value for r in runs])
    sides = (place - 0.38, place + 0.38)
    summary = next((p for c in s.comparisons for p in c.pooled if p.group == arm), None)
    mean = summary.mean if summary else float(values.mean())
    out = []
    if summary is not None and summary.sd is not None:
        low, high = mean - summary.sd, mean + summary.sd
        out.append(Mark("band", arm, sides, (mean, mean), (low, low), (high, high), colour=colour))
    out.append(Mark("line", arm, sides, (mean, mean), labels=(f"{arm}: mean {mean:.4g}",) * 2, colour=colour))
    many = len(s.blocks)
    for k, block in enumerate(s.blocks):
        here = [r for r in runs if r.block == block]
        if not here:
            continue
        centre = place + (k - (many - 1) / 2) * 0.3
        width = 0.10 if many > 1 else 0.22
        offsets = np.linspace(-width, width, len(here)) if len(here) > 1 else np.zeros(1)
        name = f"{arm}, {block}" if many > 1 else arm
        out.append(_dots(name, centre + offsets, [r.value for r in here], here, colour, k))
    return out


def _dots(
    name: str, x: Iterable[float], y: Iterable[float], runs: list[Run], colour: str, symbol: int = 0
) -> Mark:
    return Mark(
        "dots", name, floats(list(x)), floats(list(y)), labels=tuple(r.label for r in runs), colour=colour,
        symbol=symbol, legend=True,
    )  # fmt: skip


def _drawable(c: Comparison) -> bool:
    return any(t.key in _SHOWN and t.interval is not None and t.estimate for t in c.tests)


def _methods_panel(s: Setting, c: Comparison) -> Panel:
    tests = [t for t in c.tests if t.key in _SHOWN and t.interval is not None and t.estimate]
    axis = ratio_axis([t.interval for t in tests if t.interval], f"variance ratio, {_arms(c)}")
    marks: list[Mark] = [rule((1, 1), (-0.6, len(tests) - 0.4))]
    for place, t in zip(range(len(tests) - 1, -1, -1), tests, strict=True):
        if t.interval is None:
            continue
        said = f"{t.name}\n{number(t.estimate)} {between(t.interval)}\np = {p_value(t.p)}"
        colour = QUOTED if t.key in _SEED_UNIT else GREY
        marks.append(
            Mark("interval", t.name, floats([t.estimate or math.nan]), (float(place),),
                 (t.interval.low,), (t.interval.high,), (said,), colour)
        )  # fmt: skip
    ticks = tuple((float(len(tests) - 1 - i), t.name) for i, t in enumerate(tests))
    title = "ratio by method" if len(s.comparisons) == 1 else f"{c.group}: ratio by method"
    return Panel(title, axis, Axis(ticks=ticks, range=(-0.6, len(tests) - 0.4)), tuple(marks))


def forest_chart(material: Material) -> Chart | None:
    """Ratios across datasets, and all together."""
    found = material.across
    if found is None or found.forest is None:
        return None
    forest = found.forest
    by_title = {c.title: c for c in found.comparisons}
    rows = [by_title[title] for title in forest.titles]
    intervals = [c.headline.interval for c in rows if c.headline.interval is not None]
    axis = ratio_axis([*intervals, forest.interval], f"variance ratio, {_arms(rows[0])}")
    places = floats(range(len(rows), 0, -1))
    each = Mark(
        "interval", "each by itself", floats([c.headline.ratio or math.nan for c in rows]), places,
        floats([i.low for i in intervals]), floats([i.high for i in intervals]),
        tuple(f"{c.title}\n{number(c.headline.ratio)} {between(c.headline.interval)}\n"
              f"p (Holm) = {p_value(c.p_holm)}" for c in rows),
        QUOTED, legend=True,
    )  # fmt: skip
    together = Mark(
        "interval", "together (random effects)", (forest.pooled,), (0.0,), (forest.interval.low,),
        (forest.interval.high,), (f"together: {number(forest.pooled)} {between(forest.interval)}",),
        COLOURS[3], 2, legend=True,
    )  # fmt: skip
    ticks = (*((p, _dataset(c)) for p, c in zip(places, rows, strict=True)), (0.0, "together"))
    y = Axis(ticks=ticks, range=(-0.6, len(rows) + 0.6))
    panel = Panel("", axis, y, (rule((1, 1), (-0.6, len(rows) + 0.6)), each, together))
    chosen = [s for s in material.settings if {s.name, str(s.paper)} & {c.stratum for c in rows}]
    return Chart(
        "forest",
        "Variance ratios together",
        f"Each seed counted once. Do the ratios differ among themselves? Q({forest.df}) = {forest.q:.3g}, "
        f"p = {p_value(forest.p)}, I² = {forest.i_squared:.0%}; with so few ratios this test is weak.",
        f"Together {number(forest.pooled)} {between(forest.interval)}; heterogeneity p {p_value(forest.p)}.",
        (panel,),
        origins(chosen),
        height=0.5 + 0.12 * len(rows),
    )


def _dataset(c: Comparison) -> str:
    from seedspread.report.scale import TITLES  # noqa: PLC0415 - the published audit has keys, a store titles

    return TITLES.get(c.stratum, c.stratum)
