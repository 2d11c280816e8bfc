"""Variance components in words, the answer first."""

from collections.abc import Sequence

from seedspread.analysis.components.result import ArmComponents, Component, ComponentContrast
from seedspread.analysis.numbers import between, number, p_phrase

_ALPHA = 0.05
_MOST = 2 / 3  # of a variance
_WORTH_NAMING = 0.1
_LITTLE = 0.2  # of a difference that is shown


def figure(arm: ArmComponents, key: str) -> float:
    """The variance that words have of a component.

    Where another component comes out as zero, its mean square counts as noise in the likelihood's maximum;
    words have the noise's own mean square then.
    """
    component = arm.component(key)
    if component is None:
        return 0.0
    at_zero = any(c.variance == 0 for c in arm.components)
    if key == "noise" and at_zero and component.unbiased is not None:
        return component.unbiased
    return component.variance


def amount(variance: float) -> str:
    """A variance, or `about 0`."""
    return number(variance) if variance > 0 else "about 0"


def place(component: "Component | ComponentContrast") -> str:
    """`between seeds`, `in same-seed noise`, `in init`."""
    return component.name if component.key == "seed" else f"in {component.name}"


def arm_sentence(arm: ArmComponents) -> str:
    """What an arm's variance is made of."""
    if not arm.components:
        only = f"; the total is {number(arm.total)} {between(arm.interval)}" if arm.interval else ""
        return f"{arm.title}: {arm.note}{only}.{_floor(arm)}"
    ordered = sorted(arm.components, key=lambda c: -c.variance)
    first = ordered[0]
    if first.share >= _MOST:
        head = f"{'mostly' if first.share < 1 else 'all'} {place(first)}"
    else:
        head = " and ".join(place(c) for c in ordered if c.share >= _WORTH_NAMING)
    parts = "; ".join(f"{c.name} {_part(c)}" for c in ordered)
    note = f" {arm.note[0].upper()}{arm.note[1:]}." if arm.note else ""
    return f"{arm.title}: the variance {number(arm.total)} sits {head}: {parts}.{note}{_floor(arm)}"


def _part(c: Component) -> str:
    facts = [f"{c.share:.0%}"] * (c.variance > 0) + [p_phrase(p) for p in (c.p,) if p is not None]
    interval = f" {between(c.interval)}" if c.interval else ""
    return f"{amount(c.variance)}{interval}" + (f" ({', '.join(facts)})" if facts else "")


def _floor(arm: ArmComponents) -> str:
    floor = arm.floor
    if floor is None:
        return ""
    examples = f"{floor.test_size:,} test examples"
    if floor.floor >= arm.total:
        return f" It is no more than {examples} can make by chance ({number(floor.floor)})."
    most = "at most " if floor.is_bound else ""
    share = floor.floor / arm.total
    return f" Of it, {examples} make {most}{number(floor.floor)} by chance ({share:.0%})."


def comparison_sentence(
    stratum: str, arms: tuple[ArmComponents, ArmComponents], contrasts: Sequence[ComponentContrast]
) -> str:
    """Where the difference between two arms sits."""
    figures = {c.key: (figure(arms[0], c.key), figure(arms[1], c.key)) for c in contrasts}

    def told(c: ComponentContrast) -> str:
        a, b = figures[c.key]
        return f"{place(c)} ({amount(a)} against {amount(b)}, {p_phrase(c.p)})"

    title = f"{arms[0].title} against {arms[1].title}"
    where = f"{stratum}: {title}" if stratum else title
    shown = [c for c in contrasts if c.p < _ALPHA]
    rest = [c for c in contrasts if c.p >= _ALPHA]
    if not shown:
        return f"{where}: no component is shown to differ: {'; '.join(told(c) for c in contrasts)}."
    sizes = {key: abs(max(a, 0.0) - max(b, 0.0)) for key, (a, b) in figures.items()}
    little = _LITTLE * max(sizes[c.key] for c in shown)
    absent = [told(c) for c in rest if sizes[c.key] <= little]
    still_open = [told(c) for c in rest if sizes[c.key] > little]
    sentence = f"{where}: the effect sits {' and '.join(told(c) for c in shown)}"
    sentence += f", not {' nor '.join(absent)}" if absent else ""
    sentence += f"; open {' and '.join(still_open)}" if still_open else ""
    return f"{sentence}."
