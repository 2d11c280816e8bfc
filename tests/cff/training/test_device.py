"""Where a run is trained: what its record says, how it is made deterministic, how batches are cut.

No GPU was where this was written: what torch says of one is made up.
"""

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.operations import OperationCounter
from seedspread import train
from seedspread.analysis.words import devices_note
from seedspread.cff.identity import run_key
from seedspread.cff.training.fast import views_at_once
from seedspread.cff.training.run import deterministic
from seedspread.runs.folder import gpu

from .tiny import tiny

CUDA = torch.device("cuda")  # a name


def test_the_device_is_in_the_provenance_and_nowhere_else(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "provenance.json").read_text())
    assert facts["device"] == "cpu"
    assert "gpu" not in facts
    assert "device" not in json.loads((tmp_path / "run" / "result.json").read_text())
    assert len({run_key(tiny(runtime__device=name)) for name in ("cpu", "cuda", "auto", "mps")}) == 1


def test_what_is_recorded_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        assert gpu() == {"device": "cpu"}  # torch is loaded, and has nothing else
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA A100")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    known = {"device": "cuda", "gpu": "NVIDIA A100", "cuda": "12.8", "cudnn": 91002}
    with deterministic(CUDA):
        flags = {"algorithms": True, "cudnn": True, "cublas_workspace": ":4096:8"}
        assert gpu() == known | {"deterministic": flags}
    assert gpu()["deterministic"]["algorithms"] is False
    assert json.loads(json.dumps(gpu())) == gpu()


def flags() -> tuple[object, ...]:
    cudnn = torch.backends.cudnn
    return torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark, cudnn.enabled


def test_flags_are_set_on_cuda_alone_and_set_back() -> None:
    before = flags()
    with deterministic(torch.device("cpu")):
        assert flags() == before
    with deterministic(CUDA):
        assert flags() == (True, True, False, True)
    assert flags() == before


def test_no_operation_of_a_run_is_one_that_torch_has_no_deterministic_algorithm_for(tmp_path: Path) -> None:
    """As torch's documentation lists them: whether those it lists are used in the way that it names.

    Its sums over labels are of integers and without weights, its losses of vectors (`nll_loss2d` is the one
    that has none).
    """
    listed = (torch.use_deterministic_algorithms.__doc__ or "").rpartition("will throw a\n")[2]
    listed = listed.partition("In addition")[0]
    names = {name.lower().strip("_") for name in re.findall(r":`torch\.(?:\w+\.)*(\w+)`", listed)}
    assert {"histc", "cumsum", "bincount", "nllloss", "put", "scatter_reduce", "median"} <= names
    with OperationCounter() as counter:
        train(tiny(data__augment="svhn-hard", training__epochs=1, probe__epochs=1), tmp_path / "run")
    operations = {name.split(".")[1].strip("_") for name in counter.operations}
    assert "bmm" in operations
    used = {name for name in operations if name in names or name.replace("_", "") in names}
    assert used <= {"bincount", "cumsum"}
    assert not {name for name in operations if name.startswith(("nll_loss2d", "grid_sample", "interpolate"))}


def views(count: int, device: str) -> Any:
    return SimpleNamespace(shape=(1, count), device=SimpleNamespace(type=device))


@pytest.mark.parametrize(
    ("chosen", "device", "expected"),
    [(None, "cpu", 128), (None, "mps", 128), (None, "cuda", 1024), (64, "cuda", 64), (64, "cpu", 64)],
)
def test_on_cuda_a_batch_goes_at_once_unless_it_is_said_otherwise(
    chosen: int | None, device: str, expected: int
) -> None:
    assert views_at_once(tiny(runtime__micro_batch_size=chosen), views(1024, device)) == expected


def test_a_size_that_is_not_set_leaves_key_and_record_as_they_were(tmp_path: Path) -> None:
    unset, as_before = tiny(), tiny(runtime__micro_batch_size=128)
    assert unset.runtime.micro_batch_size is None
    assert run_key(unset) == run_key(as_before) != run_key(tiny(runtime__micro_batch_size=64))
    for name, config in (("a", unset), ("b", as_before)):
        train(config, tmp_path / name)
    texts = {(tmp_path / name / "config.toml").read_text() for name in ("a", "b")}
    assert len(texts) == 1
    assert "micro_batch_size = 128" in texts.pop()


def test_devices_are_told_apart_only_if_one_is_known_to_differ() -> None:
    assert not devices_note(Counter({"cpu": 5, "": 7}))  # older records do not say
    assert not devices_note(Counter({"NVIDIA A100": 5}))
    assert not devices_note(Counter())
    for devices in ({"cpu": 5, "NVIDIA A100": 2}, {"mps": 1, "cpu": 1}, {"NVIDIA A100": 1, "NVIDIA H100": 1}):
        (note,) = devices_note(devices)
        assert all(f"{count} on {name}" in note for name, count in devices.items())
