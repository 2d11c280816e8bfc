"""`python benchmarks/step.py --device cuda`, as far as that can be seen without a GPU."""

import pytest
import torch

from benchmarks import gpu, step
from seedspread.cff.presets import read_config
from seedspread.errors import SeedspreadError

from ..cff.training.tiny import tiny


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_cuda_it_says_so_in_a_line() -> None:
    with pytest.raises(SeedspreadError, match="finds no CUDA device here"):
        step.run(device="cuda")


def test_every_setting_is_one_of_the_papers_run() -> None:
    configs = [read_config("paper/cifar10", settings) for settings in gpu.SETTINGS.values()]
    assert len({config.runtime.model_dump_json() for config in configs}) == len(configs)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_is_measured_of_a_step(precision: str) -> None:
    row = gpu.measure(tiny(runtime__precision=precision), torch.device("cpu"), rounds=3, rows=64)
    assert row["ms"] >= row["quickest_ms"] > 0
    assert row["operations"] > row["kernels"] > 100
    assert row["copies"] == []
    assert row["waits"] is None
    assert row["share_of_limit"] > 0


def test_what_is_printed() -> None:
    device = dict.fromkeys(("name", "capability", "torch", "cuda", "cudnn", "driver", "tf32_before"), "x")
    row = gpu.measure(tiny(), torch.device("cpu"), rounds=3, rows=64) | {"name": "fast", "waits": "an item"}
    views = gpu.measure_views("svhn-hard", torch.device("cpu"), rounds=3, images=8)
    result = {
        "device": device | {"memory_bytes": 8 * 10**10, "multiprocessors": 108},
        "timed_steps": 3,
        "steps": [row],
        "views": views,
    }
    first, _, waits, of_views, _ = gpu._lines(result)
    assert "80,000 MB" in str(first)
    assert waits == "fast waits for the device: an item"
    assert f"{views['operations']} operations" in str(of_views)
