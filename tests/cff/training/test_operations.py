"""The step in counts, which need no GPU: how many operations it dispatches, and that none waits or copies."""

from functools import cache
from typing import Any

import pytest
import torch

from benchmarks.operations import OperationCounter, count_step
from seedspread.cff.config import RunConfig
from seedspread.cff.presets import read_config
from seedspread.cff.training.fast import FastTrainer
from seedspread.cff.training.run import train

from .gradients import batch, model, sums_of
from .tiny import tiny

WHOLE = ["runtime.micro_batch_size=1024"]  # both views of 512 images


def paper(*settings: str) -> RunConfig:
    return read_config("paper/cifar10", settings)


@cache
def whole_step() -> OperationCounter:
    """Counted once, for several questions."""
    return count_step(paper(*WHOLE))


def test_a_step_at_the_papers_size_takes_at_most_1500_operations() -> None:
    counter = whole_step()
    assert counter.operations.total() <= 1500
    assert counter.kernels <= 1000


def test_no_operation_of_a_step_copies_between_host_and_device() -> None:
    assert not whole_step().elsewhere
    assert not count_step(paper()).elsewhere


def test_one_optimiser_step_and_one_call_for_the_norms_serve_all_layers() -> None:
    operations = whole_step().operations
    assert operations["aten._fused_adamw_.default"] == 1
    assert operations["aten._foreach_norm.Scalar"] == 1


class ShapeRecorder(OperationCounter):  # type: ignore[no-untyped-call]
    """Keeps what was dispatched, and on which shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[torch.Size]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shapes = [arg.shape for arg in args if isinstance(arg, torch.Tensor)]
        self.seen.append((str(func), shapes))
        return super().__torch_dispatch__(func, types, args, kwargs)


def test_no_shape_depends_on_what_is_in_a_batch() -> None:
    one = model()
    trainer, sums, seen = FastTrainer(one), sums_of(one), []
    trainer.step(batch(), 0, sums)  # what is made once
    for data in (batch(1), batch(2)):
        with ShapeRecorder() as recorder:
            trainer.step(data, 0, sums)
        seen.append(recorder.seen)
    assert seen[0] == seen[1]


def test_the_counter_sees_a_copy_and_tells_views_from_kernels() -> None:
    with OperationCounter("meta") as counter:
        torch.ones(3).to("meta")
    assert counter.elsewhere
    with OperationCounter("meta") as counter:
        torch.tensor([0.4, 0.1], device="meta")  # nothing is dispatched
    assert counter.elsewhere == ["tensor"]
    with OperationCounter() as counter:
        torch.ones(4, 4).t().view(-1, 1, 4).unsqueeze(0)
    assert counter.operations.total() == 4
    assert counter.kernels == 1


def test_a_run_sees_no_tf32_whatever_the_program_around_it_chose(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    seen, step = [], FastTrainer.step

    def watched(self: FastTrainer, *arguments: object, **named: bool) -> None:
        seen.append(torch.get_float32_matmul_precision())
        step(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(FastTrainer, "step", watched)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        train(tiny(training__epochs=1, probe__epochs=1), tmp_path / "run")
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert set(seen) == {"highest"}
