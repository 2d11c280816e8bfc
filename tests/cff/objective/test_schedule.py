"""Margin schedules against the paper's table and the formulas of the public CFF code."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedspread import margin_schedule
from seedspread.cff.objective import SCHEDULES


def test_the_linear_schedules_are_the_papers_table() -> None:
    """Table "Clamp Activation Rate by layer" prints both schedules to two decimals."""
    standard = [0.40, 0.36, 0.31, 0.27, 0.23, 0.19, 0.14, 0.10]
    low = [0.20, 0.19, 0.17, 0.16, 0.14, 0.13, 0.11, 0.10]
    assert margin_schedule(0.4, 0.1, 8) == pytest.approx(standard, abs=0.005)
    assert margin_schedule(0.2, 0.1, 8) == pytest.approx(low, abs=0.005)


@pytest.mark.parametrize(
    ("shape", "k", "middle"),
    [
        ("linear", 1, 0.25),
        ("parabolic", 1, 0.1 + 0.3 * 0.25),
        ("parabolic", 2, 0.1 + 0.3 * 0.0625),
        ("cosine", 1, 0.25),
        ("cosine", 2, 0.1 + 0.3 * (1 + math.sqrt(0.5)) / 2),
        ("exponential", 1, 0.2),
        ("exponential", 2, 0.4 * 0.25**0.25),
    ],
)
def test_the_middle_of_three_layers(shape: str, k: float, middle: float) -> None:
    assert margin_schedule(0.4, 0.1, 3, shape, k) == pytest.approx([0.4, middle, 0.1])


@given(
    shape=st.sampled_from(SCHEDULES),
    first=st.floats(0.01, 1),
    last=st.floats(0.01, 1),
    layers=st.integers(2, 30),
    k=st.floats(0.25, 4),
)
def test_every_schedule_goes_from_first_to_last_without_turning(
    shape: str, first: float, last: float, layers: int, k: float
) -> None:
    margins = margin_schedule(first, last, layers, shape, k)
    assert margins[0] == pytest.approx(first)
    assert margins[-1] == pytest.approx(last)
    sign = 1 if last >= first else -1
    assert all(sign * (b - a) >= -1e-12 for a, b in itertools.pairwise(margins))


def test_a_single_layer_gets_the_first_margin() -> None:
    assert all(margin_schedule(0.4, 0.1, 1, shape) == [0.4] for shape in SCHEDULES)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((-0.1, 0.1, 3), "first"),
        ((0.4, math.nan, 3), "last"),
        ((0.4, 0.1, 0), "layers"),
        ((0.4, 0.1, 3, "quadratic"), "shape"),
        ((0.4, 0.1, 3, "cosine", 0.0), "exponent"),
        ((0.4, 0.0, 3, "exponential"), "an exponential schedule"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[object, ...], named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}"):
        margin_schedule(*arguments)  # type: ignore[arg-type]
