"""What the benchmark of a step stands on: its count of operations, and whose step it is."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth, precision, step
from benchmarks.reference import CheckoutError, reference_step
from benchmarks.step import count_flops, our_step
from benchmarks.train import random_batch
from seedspread.cff.config import ModelConfig
from seedspread.errors import SeedspreadError

N, T, D = 2 * 32, 64, 128


def operations_of_a_further_layer(runtime: dict[str, Any]) -> int:
    batch = random_batch(N // 2)
    one, two = (count_flops(our_step(batch, ModelConfig(depth=depth), runtime)) for depth in (1, 2))
    return two - one


def test_a_plain_layers_operations_are_those_of_its_products() -> None:
    """Forward 2 N T (3dd + dd + 2 d 2d) + 2 (2 N T T d), three times over; the loss adds little."""
    forward = 2 * N * T * (3 * D * D + D * D + 2 * D * 2 * D) + 2 * (2 * N * T * T * D)
    operations = operations_of_a_further_layer({"implementation": "plain"})
    assert operations == pytest.approx(3 * forward, rel=0.01)


def test_a_fast_layer_needs_fewer() -> None:
    """No gradient by the input, none by the last map's tokens; the last layer computes no output."""
    forward = 2 * N * T * (3 * D * D + D * D + 2 * D * D) + 2 * (2 * N * T * T * D)
    handing_on = 2 * N * T * 2 * D * D
    backward = 2 * N * T * (3 * D * D + 2 * D * D + 4 * D * D) + 4 * (2 * N * T * T * D)
    assert operations_of_a_further_layer({}) == pytest.approx(handing_on + forward + backward, rel=0.02)


def test_recomputing_costs_the_forward_pass_again() -> None:
    more = operations_of_a_further_layer({"activation_checkpointing": True}) - operations_of_a_further_layer(
        {}
    )
    whole = 2 * N * T * (3 * D * D + D * D + 2 * D * D) + 2 * (2 * N * T * T * D)  # but for what is handed on
    assert more == pytest.approx(whole, rel=0.02)


def test_a_folder_that_is_no_checkout_is_one_line(tmp_path: Path) -> None:
    batch = random_batch(2)
    with pytest.raises(CheckoutError, match="ContrastiveFF"):
        reference_step(tmp_path, batch.images, batch.labels)


@pytest.mark.parametrize("peak", [10**8, None], ids=["measured", "unknown"])
def test_growth_is_drawn_with_and_without_memory(peak: int | None) -> None:
    rows = [
        {"axis": axis, axis: size, "seconds": size / 100, "peak_bytes": peak}
        for axis, sizes in growth.AXES.items()
        for size in sizes
    ]
    chart = growth.growth_chart(rows)
    assert [panel.x.title.lower() for panel in chart.panels] == list(growth.AXES)
    assert len(chart.legend) == (2 if peak is None else 3)


def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(SeedspreadError, match=r"^--plot growth\.gif .*\.pdf, \.svg, \.png$"):
        growth.run(as_json=False, plot=Path("growth.gif"))


def test_a_comparison_of_unlike_sizes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SeedspreadError, match="leave --preset out"):
        step.run(reference=tmp_path, preset="quickstart")
    with pytest.raises(SeedspreadError, match="takes no --preset"):
        step.run(device="cuda", preset="quickstart")


def test_gradients_in_float32_are_near_those_in_float64_and_those_in_bf16_are_not() -> None:
    truth, single, half = (precision.gradients("quickstart", 8, p, "plain") for p in ("fp64", "fp32", "bf16"))
    assert len(truth) > 30
    for name, exact in truth.items():
        if "qkv.bias" not in name:  # a key's bias has no gradient but rounding
            assert (single[name] - exact).norm() < 1e-4 * exact.norm()
    weight = "1.mlp.0.weight"
    assert 1e-3 < (half[weight] - truth[weight]).norm() / truth[weight].norm() < 0.1
