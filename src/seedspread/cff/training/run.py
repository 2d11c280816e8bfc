"""Runs from their configs to their results: one, or several of one shape together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from seedspread.cff.config import RunConfig
from seedspread.cff.data.dataset import Dataset, load
from seedspread.cff.datasets import dataset_info
from seedspread.cff.identity import run_key
from seedspread.cff.implementations import features_of
from seedspread.cff.presets import ConfigError, to_toml
from seedspread.cff.training.callbacks import Callback
from seedspread.cff.training.choice import trainer_class
from seedspread.cff.training.loop import run_to_completion
from seedspread.cff.training.result import RunResult
from seedspread.cff.training.state import TrainingRun
from seedspread.runs.folder import RunFolder
from seedspread.runs.request import RunRequest
from seedspread.runs.run_files import RunFolderError
from seedspread.runs.stopping import StoppedError, StopRequest, stop_requests


def train(
    config: RunConfig,
    out: Path | str | None = None,
    *,
    resume: bool = False,
    data_dir: Path | str | None = None,
    callback: Callback | None = None,
) -> RunResult:
    """Trains a run and returns its result.

    Args:
        config: what the run is.
        out: its folder; the default is `default_folder`.
        resume: go on from a checkpoint where there is one, and return a result that is there already.
        data_dir: the data folder.
        callback: is told of batches and epochs.
    """
    request = RunRequest(config, None if out is None else Path(out))
    data = None if data_dir is None else Path(data_dir)
    with stop_requests() as stop:
        ((_, outcome),) = train_many([request], stop, resume=resume, data_dir=data, callback=callback)
        stop.heard([outcome])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def train_many(
    requests: Sequence[RunRequest],
    stop: StopRequest,
    *,
    resume: bool = False,
    data_dir: Path | None = None,
    callback: Callback | None = None,
) -> Iterator[tuple[int, RunResult | Exception]]:
    """Trains runs on one dataset, those that may be (`stacking.stack_of`) as one program.

    Args:
        requests: the runs; their parameters are whole `RunConfig`s.
        stop: a wish to stop, which is heard after every batch.
        resume: as in `train`.
        data_dir: the data folder.
        callback: is told of batches and epochs.

    Yields:
        as soon as a run has ended its number among the requests, and its result or why it has none; one that
        fails leaves the others alone.
    """
    config: RunConfig = requests[0].parameters
    shared = {
        (r.parameters.data.model_copy(update={"augment": None}), r.parameters.runtime.device)
        for r in requests  # each augments its images itself
    }
    if len(shared) > 1:
        raise ValueError("runs that are trained together must share their data and their device")
    dataset_info(config.data.name).check_shape(config.model.image_shape)
    device = device_of(config)
    dataset = load(config.data, data_dir).to(device)
    runs: dict[TrainingRun, int] = {}
    for number, request in enumerate(requests):
        opened = _open(request, dataset, resume=resume)
        if isinstance(opened, TrainingRun):
            runs[opened] = number
        else:
            yield number, opened
    try:
        for threads, tf32 in {_arithmetic(run) for run in runs}:
            with cpu_threads(threads), float32_products(tf32):
                group = [run for run in runs if _arithmetic(run) == (threads, tf32)]
                for run, outcome in run_to_completion(group, stop, callback or Callback()):
                    yield runs[run], outcome
    except Exception as error:
        if stop.number is not None:
            raise StoppedError(f"stopped, while the run failed: {error}", stop.number) from error
        raise


def _arithmetic(run: TrainingRun) -> tuple[int, bool]:
    """What is set for the whole process while a run is trained: torch's threads, and TF32."""
    return run.torch_threads, run.config.runtime.tf32


def _open(request: RunRequest, dataset: Dataset, *, resume: bool) -> TrainingRun | RunResult | Exception:
    """A run to train, a result that is there already, or why there is neither."""
    config: RunConfig = request.parameters
    key = run_key(config, dataset.fingerprint)
    if request.key not in (None, key):
        return RunFolderError(
            f"this is not the run that was planned ({key}, not {request.key}): the data have changed; "
            "plan again"
        )
    try:
        trainer_class(config).prepare(config)  # if it cannot be, no folder is left behind
        folder = RunFolder(request.folder or default_folder(key), key, request.guard)
        if folder.open(to_toml(config), resume=resume):
            return RunResult.read(folder.path)
        return TrainingRun(config, dataset, folder, request.seed)
    except Exception as error:  # one failure never stops the others
        return error


@contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Torch computes with so many threads while it is open."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def float32_products(tf32: bool) -> Iterator[None]:
    """While it is open, products of float32 numbers may be rounded to TF32, or may not."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def default_folder(key: str) -> Path:
    """Where a run goes if no folder is given."""
    return Path("runs") / key


def device_of(config: RunConfig) -> torch.device:
    """Where a run is trained."""
    return choose_device(config.runtime.device if features_of(config).uses_gpu else "cpu")


def choose_device(wanted: str) -> torch.device:
    """`auto` takes CUDA, else MPS, else the CPU."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted != "auto":
        if not available[wanted]:
            raise ConfigError(f"runtime.device: there is no {wanted} here; use auto or cpu")
        return torch.device(wanted)
    return torch.device(next(name for name in ("cuda", "mps", "cpu") if available[name]))
