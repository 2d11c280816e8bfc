"""Runs from their configs to their results: one, or several of one shape together."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from seedspread.config import RunConfig
from seedspread.data.dataset import Dataset, load
from seedspread.identity import run_key
from seedspread.presets import ConfigError
from seedspread.training.folder import RunFolder, RunFolderError
from seedspread.training.member import Member, NoWatcher, Watcher
from seedspread.training.outcome import RunResult
from seedspread.training.signals import StoppedError, StopRequest, stop_requests
from seedspread.training.together import carry_out


@dataclass(frozen=True)
class Order:
    """A run that is to be carried out.

    Attributes:
        config: what the run is.
        out: its folder; the default is `default_folder`.
        guard: is called before every write, and raises if the folder is no longer this process's to write to.
        expected_key: what the run was planned as; another one, because the data are others, is refused.
        on_end: is told what became of the run as soon as that is known.
    """

    config: RunConfig
    out: Path | None = None
    guard: Callable[[], None] | None = None
    expected_key: str | None = None
    on_end: Callable[[RunResult | Exception], None] = lambda _: None


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
    (ended,) = train_together([Order(config, out)], resume=resume, data_dir=data_dir, watcher=watcher)
    if isinstance(ended, Exception):
        raise ended
    return ended


def train_together(
    orders: Sequence[Order],
    *,
    resume: bool = False,
    data_dir: Path | None = None,
    watcher: Watcher | None = None,
) -> list[RunResult | Exception]:
    """Carries out runs on one dataset, those of one shape (`identity.stack_shape`) as one program.

    Returns:
        of each its result, or why it has none; one that fails leaves the others alone.
    """
    config, watching = orders[0].config, watcher or NoWatcher()
    if any((o.config.data, o.config.runtime.device) != (config.data, config.runtime.device) for o in orders):
        raise ValueError("runs that are trained together must share their data and their device")
    device = choose_device(config.runtime.device)
    dataset = load(config.data, data_dir).to(device)
    with stop_requests() as stop:
        opened = [_open(order, dataset, stop, watching, resume=resume) for order in orders]
        members = [one for one in opened if isinstance(one, Member)]
        try:
            for threads in {member.threads for member in members}:
                with _threads(threads):
                    carry_out([member for member in members if member.threads == threads], watching)
        except Exception as error:
            if stop.number is not None:
                raise StoppedError(f"stopped, while the run failed: {error}", stop.number) from error
            raise
        if any(isinstance(member.ended, StoppedError) for member in members):
            stop.number = None  # it was heard
    return [one.outcome if isinstance(one, Member) else one for one in opened]


def _open(
    order: Order, dataset: Dataset, stop: StopRequest, watcher: Watcher, *, resume: bool
) -> Member | RunResult | Exception:
    """A run to go on with, a result that is there already, or why there is neither."""
    key = run_key(order.config, dataset.fingerprint)
    if order.expected_key not in (None, key):
        return RunFolderError(
            f"this is not the run that was planned ({key}, not {order.expected_key}): the data have changed; "
            "plan again"
        )
    try:
        folder = RunFolder(order.out or default_folder(key), key, order.guard)
        done = folder.open(order.config, resume=resume)
        return done or Member(order.config, dataset, folder, stop, watcher, order.on_end)
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
