"""Runs from their configs to their results: one, or several of one shape together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from seedspread.config import RunConfig
from seedspread.data.catalogue import check_shape
from seedspread.data.dataset import Dataset, load
from seedspread.identity import run_key
from seedspread.presets import ConfigError, to_toml
from seedspread.runs.folder import RunFolder, RunFolderError
from seedspread.runs.request import RunRequest
from seedspread.stopping import StoppedError, StopRequest, stop_requests
from seedspread.training.member import Member, NoWatcher, Watcher
from seedspread.training.outcome import RunResult
from seedspread.training.together import carry_out


def train(
    config: RunConfig,
    out: Path | None = None,
    *,
    resume: bool = False,
    data_dir: Path | None = None,
    watcher: Watcher | None = None,
) -> RunResult:
    """Carries out a run and returns its result.

    Args:
        config: what the run is.
        out: its folder; the default is `default_folder`.
        resume: go on from a checkpoint where there is one, and return a result that is there already.
        data_dir: the data folder.
        watcher: is told of batches and epochs.
    """
    with stop_requests() as stop:
        (ended,) = train_many(
            [RunRequest(config, out)], stop, resume=resume, data_dir=data_dir, watcher=watcher
        )
        stop.heard([ended])
    if isinstance(ended, Exception):
        raise ended
    return ended


def train_many(
    requests: Sequence[RunRequest],
    stop: StopRequest,
    *,
    resume: bool = False,
    data_dir: Path | None = None,
    watcher: Watcher | None = None,
) -> list[RunResult | Exception]:
    """Trains runs on one dataset, those that may be (`stacking.stack_of`) as one program.

    Args:
        requests: the runs; their parameters are whole `RunConfig`s.
        stop: a wish to stop, which is heard after every batch.
        resume: as in `train`.
        data_dir: the data folder.
        watcher: is told of batches and epochs.

    Returns:
        of each its result, or why it has none; one that fails leaves the others alone.
    """
    config: RunConfig = requests[0].parameters
    watching = watcher or NoWatcher()
    shared = {
        (r.parameters.data.model_copy(update={"augment": None}), r.parameters.runtime.device)
        for r in requests  # each augments its images itself
    }
    if len(shared) > 1:
        raise ValueError("runs that are trained together must share their data and their device")
    check_shape(config)
    device = choose_device(config.runtime.device)
    dataset = load(config.data, data_dir).to(device)
    opened = [_open(request, dataset, stop, watching, resume=resume) for request in requests]
    members = [one for one in opened if isinstance(one, Member)]
    try:
        for threads in {member.threads for member in members}:
            with _threads(threads):
                carry_out([member for member in members if member.threads == threads], watching)
    except Exception as error:
        if stop.number is not None:
            raise StoppedError(f"stopped, while the run failed: {error}", stop.number) from error
        raise
    return [one.outcome if isinstance(one, Member) else one for one in opened]


def _open(
    request: RunRequest, dataset: Dataset, stop: StopRequest, watcher: Watcher, *, resume: bool
) -> Member | RunResult | Exception:
    """A run to go on with, a result that is there already, or why there is neither."""
    config: RunConfig = request.parameters
    key = run_key(config, dataset.fingerprint)
    if request.key not in (None, key):
        return RunFolderError(
            f"this is not the run that was planned ({key}, not {request.key}): the data have changed; "
            "plan again"
        )
    try:
        folder = RunFolder(request.folder or default_folder(key), key, request.guard)
        if folder.open(to_toml(config), resume=resume):
            return RunResult.read(folder.path)
        return Member(config, dataset, folder, stop, watcher, request.on_end)
    except Exception as error:  # one failure never stops the others
        return error


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def default_folder(key: str) -> Path:
    """Where a run goes if nothing else is said."""
    return Path("runs") / key


def choose_device(wanted: str) -> torch.device:
    """`auto` takes CUDA, else MPS, else the CPU."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted != "auto":
        if not there[wanted]:
            raise ConfigError(f"runtime.device: there is no {wanted} here; use auto or cpu")
        return torch.device(wanted)
    return torch.device(next(name for name in ("cuda", "mps", "cpu") if there[name]))
