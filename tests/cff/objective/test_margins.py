"""Margins by themselves: what each does to a positive pair, and that config and losses know the same ones."""

import math
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seedspread.cff.config import ObjectiveConfig
from seedspread.cff.identity import run_key
from seedspread.cff.objective import SupConLoss
from seedspread.cff.objective.margins import MARGIN_TYPES, margin_named
from seedspread.cff.presets import read_config

SIMILARITIES = torch.linspace(-1, 1, 401, dtype=torch.float64)


def test_the_config_knows_every_margin() -> None:
    assert set(get_args(ObjectiveConfig.model_fields["margin_type"].annotation)) == set(MARGIN_TYPES)


@pytest.mark.parametrize("name", MARGIN_TYPES)
@given(m=st.floats(0, 1), sharpness=st.floats(1, 200))
def test_the_slope_is_the_derivative_and_nothing_exceeds_the_highest(
    name: str, m: float, sharpness: float
) -> None:
    margin = margin_named(name, m, sharpness)
    s = SIMILARITIES.clone().requires_grad_()
    modified = margin.modified(s)
    assert modified.max() <= margin.max_similarity + 1e-12
    (derivative,) = torch.autograd.grad(modified.sum(), s)
    slope = margin.slope(SIMILARITIES)
    torch.testing.assert_close(derivative, torch.ones_like(s) if slope is None else slope)
    assert margin.moves or torch.equal(modified.detach(), SIMILARITIES)


@given(m=st.floats(0, 1))
def test_a_sharp_soft_clamp_is_a_clamp(m: float) -> None:
    """They differ most at the corner, by log(2) / beta."""
    for sharpness in (20.0, 1e3, 1e6):
        gap = margin_named("clamp", m).modified(SIMILARITIES) - margin_named(
            "soft_clamp", m, sharpness
        ).modified(SIMILARITIES)
        assert gap.min() + 1e-12 >= 0
        assert gap.max() <= math.log(2) / sharpness + 1e-12


@given(m=st.floats(0, 1))
def test_its_rate_counts_the_pairs_with_less_than_half_the_slope(m: float) -> None:
    slope = margin_named("soft_clamp", m).slope(SIMILARITIES)
    assert slope is not None
    away = (SIMILARITIES + m - 1).abs() > 1e-9
    assert torch.equal((slope < 0.5)[away], (SIMILARITIES + m > 1)[away])


@pytest.mark.parametrize("implementation", ["plain", "fast"])
def test_the_loss_of_a_sharp_soft_clamp_is_the_clamps(implementation: str) -> None:
    features = torch.randn(40, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(40) % 4
    hard, soft = (
        SupConLoss(0.15, 0.3, name, implementation=implementation, margin_sharpness=1e9)  # type: ignore[arg-type]
        for name in ("clamp", "soft_clamp")
    )
    torch.testing.assert_close(soft(features, labels), hard(features, labels))


def test_sharpness_is_part_of_a_run_only_where_it_means_something() -> None:
    def key(*settings: str) -> str:
        return run_key(read_config("quickstart", settings))

    sharp = "objective.margin_sharpness=50.0"
    assert key(sharp) == key()
    assert key("objective.margin_type=soft_clamp", sharp) != key("objective.margin_type=soft_clamp")
