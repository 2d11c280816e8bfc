"""One seed for all generators."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import seedspread


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """It sets what other tests share."""
    environment = {name: os.environ.get(name) for name in ("PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG")}
    cudnn = torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = cudnn
    for name, value in environment.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def draws(seed: int) -> tuple[float, float, float]:
    seedspread.seed_everything(seed)
    return random.random(), float(np.random.random()), float(torch.rand(()))  # noqa: S311, NPY002


def test_the_same_seed_gives_the_same_draws_everywhere() -> None:
    first, second = draws(3), draws(4)
    assert draws(3) == first
    assert all(one != two for one, two in zip(first, second, strict=True))
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.benchmark
    assert os.environ["PYTHONHASHSEED"] == "3"


def test_a_large_seed_is_fine() -> None:
    assert draws(2**63 - 1) == draws(2**63 - 1) != draws(2**32)


@pytest.mark.parametrize("seed", [-1, 1.0, True, "1", None])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(ValueError, match="a seed must be a whole number from 0 on"):
        seedspread.seed_everything(seed)


def test_it_works_without_numpy_and_torch() -> None:
    code = (
        "import importlib.util, sys; find = importlib.util.find_spec\n"
        "gone = {'numpy', 'torch'}\n"
        "importlib.util.find_spec = lambda name, *rest: None if name in gone else find(name, *rest)\n"
        "import seedspread, random; seedspread.seed_everything(1); a = random.random()\n"
        "seedspread.seed_everything(1); print(a == random.random(), *sorted(gone & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
