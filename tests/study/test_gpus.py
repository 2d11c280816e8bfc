"""GPUs that runs would not use are refused, in one line and before anything starts.

No GPU was where this was written: what torch says of one is made up.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from seedspread.errors import SeedspreadError
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.ray_engine import RayExecutor
from seedspread.study.slurm_engine import SlurmExecutor
from seedspread.study.worker import attempt
from tests.study.tiny import items, tiny_study

ENGINES = [LocalExecutor(gpus_per_run=1), RayExecutor(gpus_per_run=1), SlurmExecutor("local", gpus_per_run=1)]


def plan_in(folder: Path, **changes: Any) -> Plan:
    return Plan.make(tiny_study(folder, seeds=1, **{"runtime__device": "auto"} | changes), folder / "store")


def refused(plan: Plan, executor: Any) -> str:
    with pytest.raises(SeedspreadError) as error:
        run_plan(plan, executor)
    assert not any((plan.store.folder(key) / "config.toml").exists() for key in plan.distinct)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("executor", ENGINES, ids=lambda engine: type(engine).__name__)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_usable_cuda_nothing_starts(
    executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "no GPU is visible here" in refused(plan_in(tmp_path), executor)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # a GPU that torch, or its driver, cannot use
    assert "finds no usable CUDA here" in refused(plan_in(tmp_path), executor)


@pytest.mark.parametrize("executor", [LocalExecutor(gpus_per_run=2), SlurmExecutor(gpus_per_run=2)])
def test_two_gpus_for_a_run_that_uses_one_are_refused(
    executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert "--gpus-per-run 2: a run uses one GPU" in refused(plan_in(tmp_path), executor)


@pytest.mark.parametrize("changes", [{"runtime__device": "cpu"}, {"runtime__implementation": "native"}])
def test_a_gpu_for_a_run_on_the_cpu_is_refused(
    changes: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    executor = SlurmExecutor(gpus_per_run=1)  # whatever the machine from which it is submitted
    assert "trained without one; leave it out" in refused(plan_in(tmp_path, **changes), executor)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_worker_whose_node_has_no_gpu_refuses_the_run_which_has_not_failed_itself(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    item = replace(items(plan)[0], gpus=1.0)
    result = attempt(item)
    assert result.outcome == "failed"
    assert "finds no usable CUDA here" in result.message
    failure = plan.store.run(item.key).failure()
    assert failure is not None
    assert failure.last_line == result.message
    assert not failure.is_own
    assert not plan.store.has_crashed(item.key)
