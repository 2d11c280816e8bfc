"""What each margin does to a positive pair, that config and losses know the same ones, and margins by layer.

Schedules are compared with the paper's table and the formulas of the public CFF code.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from seedspread import margin_schedule
from seedspread.cff.config import ObjectiveConfig
from seedspread.cff.identity import run_key
from seedspread.cff.loss import SupConLoss
from seedspread.cff.margins import MARGIN_TYPES, SCHEDULES, Margin, margin_named
from seedspread.cff.presets import read_config
from seedspread.runners.contract import RunnerError

SIMILARITIES = torch.linspace(-1, 1, 401, dtype=torch.float64)


@pytest.mark.parametrize("name", MARGIN_TYPES)
def test_the_config_knows_every_margin(name: str) -> None:
    assert ObjectiveConfig(margin_type=name).margin_type == name


@pytest.mark.parametrize(
    ("name", "modified"),
    [
        ("none", lambda s, m: s),
        ("subtract", lambda s, m: s),
        ("shift", lambda s, m: s + m),
        ("clamp", lambda s, m: min(s + m, 1.0)),
        ("soft_clamp", lambda s, m: 1 - math.log1p(math.exp(20 * (1 - s - m))) / 20),
    ],
)
def test_the_papers_margins_are_their_equations(name: str, modified: Callable[..., float]) -> None:
    for m in (0.0, 0.1, 0.4):
        expected = [modified(s, m) for s in SIMILARITIES.tolist()]
        assert margin_named(name, m).modified(SIMILARITIES).tolist() == pytest.approx(expected, abs=1e-12)
        assert margin_named(name, m).constant == (m if name == "subtract" else 0)


@dataclass(frozen=True)
class Bent(Margin):
    """s + m (1 - s) `strength`."""

    is_inert = False
    strength: float = 1.0

    @property
    def moves(self) -> bool:
        return self.m > 0

    def modified(self, s: Tensor) -> Tensor:
        return s + self.m * self.strength * (1 - s)

    def slope(self, s: Tensor) -> Tensor | None:
        return torch.full_like(s, 1 - self.m * self.strength)


@pytest.mark.parametrize("kind", [Bent, Bent(strength=0.5), f"{__name__}:Bent"])
def test_a_margin_of_ones_own_is_one_by_itself_and_by_its_name(kind: Any) -> None:
    features = torch.randn(40, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels, values = torch.arange(40) % 4, []
    for implementation in ("plain", "fast"):
        leaf = features.clone().requires_grad_()
        loss = SupConLoss(0.15, 0.3, kind, implementation=implementation)
        value = loss(leaf, labels)
        value.backward()
        values.append((value.detach(), leaf.grad))
        assert loss.spec.of_positives.m == 0.3
    torch.testing.assert_close(*values)
    none = SupConLoss(0.15, 0.3, "none")(features, labels)
    assert abs(values[0][0] - none) > 0.01


def test_what_is_no_margin_is_refused_in_one_line() -> None:
    with pytest.raises(RunnerError, match=r"Loss: it must be a subclass of seedspread\.Margin"):
        SupConLoss(margin_type="seedspread.cff.losses:LocalLoss")(torch.eye(2), torch.zeros(2).long())
    with pytest.raises(ValueError, match=r"margin_type must be one of .*'clamp'"):
        ObjectiveConfig(margin_type="clam")
    assert ObjectiveConfig(margin_type=Bent).margin_type == f"{__name__}:Bent"  # type: ignore[arg-type]


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


class Closed(Margin):
    def __init__(self, strength: float) -> None:
        super().__init__()


def test_what_is_no_margin_is_refused_when_the_loss_is_made() -> None:
    for wrong in (3, abs, int):
        with pytest.raises(RunnerError, match=r"must be a subclass of seedspread.Margin"):
            SupConLoss(margin_type=cast(Any, wrong))
    for closed in (Closed, Closed(0.5)):
        with pytest.raises(RunnerError, match="must take m and sharpness, and have fields of its own"):
            SupConLoss(margin_type=closed)
    with pytest.raises(ValueError, match=r"margin_type has m = 0.9 and margin is 0.4"):
        SupConLoss(margin=0.4, margin_type=Bent(0.9))
    assert SupConLoss(margin=0.9, margin_type=Bent(0.9)).margin == 0.9


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
