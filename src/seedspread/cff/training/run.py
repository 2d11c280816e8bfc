"""Train a run from config to result, and estimate how long it takes."""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from seedspread.cff.config import VIEWS_AT_ONCE, RunConfig
from seedspread.cff.data.dataset import Dataset, load
from seedspread.cff.data.loader import Batch
from seedspread.cff.data.own import ArrayDataset
from seedspread.cff.datasets import ARRAYS, dataset_info
from seedspread.cff.identity import run_key
from seedspread.cff.implementations import features_of
from seedspread.cff.model import LayerLocal, resolved
from seedspread.cff.presets import ConfigError, check, to_toml
from seedspread.cff.training.evaluation import final_diagnostics
from seedspread.cff.training.layerwise import EpochSums, LayerwiseModel, model_of
from seedspread.cff.training.model_file import check_parent
from seedspread.cff.training.result import RunResult
from seedspread.cff.training.state import Position, TrainingRun, Work
from seedspread.cff.training.trainers import trainer_class, trainer_of
from seedspread.runs.folder import RunFailedError, RunFolder, RunFolderError
from seedspread.runs.stopping import StoppedError, StopRequest, stop_requests


class Callback:
    """Called while a run is trained; override what you need."""

    def on_batch(self, stage: str, epoch: int, batch: int, images: int) -> None:
        """Called after each batch."""

    def on_epoch(self, stage: str, epoch: int, values: dict[str, list[float]]) -> None:
        """Called after each epoch, with its values by layer."""


class TrainingLoop:
    """Takes a run from its current position to its result."""

    def __init__(self, run: TrainingRun, stop: StopRequest, callback: Callback) -> None:
        self._run = run
        self._stop = stop
        self._callback = callback

    def run(self) -> RunResult:
        try:
            optimizer = self._run.restore()
            if self._run.position.stage == "encoder":
                self._train_encoder(optimizer)
            self._pause()  # stops, if asked to, before the features of all images are computed
            self._train_probes()
            trainer, batches = trainer_of(self._run.model), self._run.training_batches()
            result = self._run.finish(final_diagnostics(trainer, self._run.model, batches))
        except Exception as error:
            self._run.close(error)
            raise
        self._run.close()
        return result

    def _train_encoder(self, optimizer: dict[str, Tensor]) -> None:
        """Run stage 1 from the run's position, with the optimizers' state at that position."""
        run, trainer = self._run, trainer_of(self._run.model)
        if optimizer:
            trainer.load_state_dict(optimizer)
        batches, first = run.training_batches(), run.position
        for epoch in range(first.epoch, run.config.training.epochs):
            start = first.batch if epoch == first.epoch else 0
            for number, batch in enumerate(batches.epoch(epoch, start), start):
                trainer.at(epoch + number / len(batches))
                trainer.step(batch, number, run.sums)
                self._callback.on_batch("encoder", epoch, number, len(batch.index))
                run.position = Position("encoder", epoch, number + 1)
                self._pause(trainer.state_dict)
            self._callback.on_epoch("encoder", epoch, run.end_epoch())
        run.end_encoder(trainer.state_dict())

    def _train_probes(self) -> None:
        run, config = self._run, self._run.config.probe
        for repeat in range(run.position.repeat, config.repeats):
            for epoch in range(run.position.epoch, config.epochs):
                for number in run.probe().steps(epoch, run.position.batch):
                    self._callback.on_batch("probe", epoch, number, config.batch_size)
                    run.position = Position("probe", epoch, number + 1, repeat)
                    self._pause()
                values = {"validation_accuracy": run.end_probe_epoch()}
                self._callback.on_epoch("probe", repeat * config.epochs + epoch, values)
            run.end_probe()

    def _pause(self, optimizer: Callable[[], dict[str, Tensor]] = dict) -> None:
        """After every batch, write a checkpoint when one is due and stop when asked to."""
        run, stop = self._run, self._stop.number
        run.folder.beat(run.heartbeat)
        if stop is not None or run.checkpoint_is_due:
            run.checkpoint(optimizer())
        if stop is not None:
            raise StoppedError(
                f"stopped in {run.position}; resume with the same command and --resume "
                f"(folder {run.folder.path})",
                stop,
            )


# From malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let the C allocator keep freed memory, for a process that trains; return whether it can (glibc only).

    A step asks for the same large blocks again and again. By default glibc gives them back to the system at
    once, which clears every page anew: up to two thirds of a large step's time. The bits are the same.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False  # another C library
    return bool(
        mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, _LARGEST) and mallopt(_TOP_PAD, 64 * 2**20)
    )


def train(
    config: RunConfig,
    out: Path | str | None = None,
    *,
    resume: bool = False,
    data_dir: Path | str | None = None,
    data: ArrayDataset | None = None,
    callback: Callback | None = None,
    model: LayerLocal | None = None,
) -> RunResult:
    """Train a run: the encoder, then the probe.

    Args:
        config: the run's config, such as `RunConfig()` or a preset read by `read_config`.
        out: its folder; the default is `runs/KEY`.
        resume: continue from a checkpoint if there is one, and return a result that already exists.
        data_dir: the data folder.
        data: images to train on, instead of those that the config names.
        callback: called after batches and epochs.
        model: layers to train, instead of those that the config names; see `LayerLocal.fit`.

    Returns:
        The result: metrics and diagnostics, as in the folder's `result.json`.

    Example:
        ```python
        result = train(RunConfig(training={"epochs": 2}, model={"depth": 2}), out="runs/a")
        ```
    """
    if data is not None:
        values = config.model_dump(mode="json")
        config = check(values | {"data": values["data"] | {"name": ARRAYS}})
    folder = None if out is None else RunFolder(Path(out))
    data_dir = None if data_dir is None else Path(data_dir)
    with stop_requests() as stop:
        return train_one(
            config, folder, stop, resume=resume, data_dir=data_dir, data=data, callback=callback, model=model
        )


def train_one(
    config: RunConfig,
    folder: RunFolder | None,
    stop: StopRequest,
    *,
    seed: int | None = None,
    resume: bool = False,
    data_dir: Path | None = None,
    data: ArrayDataset | None = None,
    callback: Callback | None = None,
    model: LayerLocal | None = None,
) -> RunResult:
    """Train a run and return its result; `StoppedError` if `stop`, checked after every batch, is set.

    If `folder` has a key, it belongs to a planned run, and another run is refused. `seed` is the run's seed
    in its study; by default the config's.
    """
    dataset_info(config.data.name).check_shape(config.model.image_shape)
    device = device_of(config)
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    else:
        config = config.with_runtime(micro_batch_size=VIEWS_AT_ONCE)  # which is then recorded
    dataset = load(config.split_data, data_dir, data=data).to(device)
    dataset.info.check_shape(config.model.image_shape)  # that of the user's own images is known only now
    config = resolved(config)
    run = _open(config, folder, config.seeds.run if seed is None else seed, dataset, model, resume=resume)
    if isinstance(run, RunResult):
        return run
    try:
        with cpu_threads(torch_threads(config, run.threads)), without_tf32(), deterministic(device):
            return TrainingLoop(run, stop, callback or Callback()).run()
    except (StoppedError, RunFailedError):
        raise
    except Exception as error:
        if stop.number is not None:
            raise StoppedError(f"stopped, while the run failed: {error}", stop.number) from error
        raise


def torch_threads(config: RunConfig, threads: int) -> int:
    """Return torch's number of threads: 1 if the trainer has its own, whose number alters no bit."""
    return 1 if features_of(config).has_own_threads else threads


def _open(
    config: RunConfig,
    given: RunFolder | None,
    seed: int,
    dataset: Dataset,
    model: LayerLocal | None,
    *,
    resume: bool,
) -> TrainingRun | RunResult:
    """Return a run to train, or a result that already exists."""
    key = run_key(config, dataset.fingerprint, None if model is None else model.digest())
    if given is not None and given.key not in ("", key):
        raise RunFolderError(
            f"this is not the run that was planned ({key}, not {given.key}): the data have changed, or "
            "code of your own; plan again"
        )
    trainer_class(config).prepare(config)  # if this raises, no folder is left behind
    path, guard = (default_folder(key), None) if given is None else (given.path, given.guard)
    folder = RunFolder(path, key, guard)
    if not folder.is_done:
        check_parent(config, dataset.fingerprint, path.parent)
    if folder.open(to_toml(config), resume=resume):
        return RunResult.read(folder.path)
    return TrainingRun(config, dataset, folder, seed, model)


@contextmanager
def _set(get: Callable[[], Any], set_to: Callable[[Any], None], value: Any) -> Iterator[None]:
    before = get()
    set_to(value)
    try:
        yield
    finally:
        set_to(before)


def cpu_threads(count: int) -> AbstractContextManager[None]:
    return _set(torch.get_num_threads, torch.set_num_threads, count)


def without_tf32() -> AbstractContextManager[None]:
    """Keep products of float32 numbers from being rounded to TF32 inside the context."""
    return _set(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest")


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """Make torch use deterministic algorithms on CUDA inside the context; on a CPU it does so anyway."""
    if device.type != "cuda":
        yield
        return
    algorithms = torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms
    cudnn = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
    with _set(*algorithms, True), torch.backends.cudnn.flags(**cudnn):
        yield


def default_folder(key: str) -> Path:
    return Path("runs") / key


def device_of(config: RunConfig) -> torch.device:
    return choose_device(config.runtime.device if features_of(config).uses_gpu else "cpu")


def choose_device(wanted: str) -> torch.device:
    """Return the device; `auto` takes CUDA, else MPS, else the CPU."""
    if wanted != "auto":
        if not is_available(wanted):
            raise ConfigError(f"runtime.device: there is no {wanted} here; use auto or cpu")
        return torch.device(wanted)
    return torch.device(next(name for name in ("cuda", "mps", "cpu") if is_available(name)))


def is_available(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_available()
    return device == "cpu" or (device == "mps" and torch.backends.mps.is_available())


# Images in the measured step: more for a small model, whose cost per image depends on their number.
_IMAGES, _ENOUGH = 16, 10**9
# Largest number of shapes that are measured: planning a study over a thousand shapes must stay cheap.
_MEASURED_SHAPES = 8
# The first step warms up; the median counts.
_STEPS = 3
# Seconds per image and size of the model, by shape.
_measured: dict[tuple[Any, ...], tuple[float, int]] = {}


def seconds_of_run(config: RunConfig) -> float:
    """Estimate a run's time from a measured step; each shape is measured once, up to `_MEASURED_SHAPES`.

    The others follow from the last one measured, since time is proportional to tokens times weights.
    """
    training = config.training  # a margin costs next to nothing
    shape = (config.model, training.rule, config.objective.loss, training.batch_size, config.runtime)
    if shape not in _measured and len(_measured) < _MEASURED_SHAPES:
        with cpu_threads(1):
            _measured[shape] = _seconds_per_image(config), _size(config)
    seconds, size = _measured.get(shape, next(reversed(_measured.values())))
    return seconds * _size(config) / size * Work.of(config).total


def _size(config: RunConfig) -> int:
    return config.model.tokens * config.model.parameters


def _seconds_per_image(config: RunConfig) -> float:
    """Measure a step of one thread; on a CPU in its CPU time, whatever else the machine does meanwhile."""
    device = device_of(config)
    images = min(config.training.batch_size, max(_IMAGES, _ENOUGH // _size(config)))
    classes = len(dataset_info(config.data.name).classes)
    model = LayerwiseModel(config, model_of(config, classes).to(device))
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(model.views * images, *config.model.image_shape, generator=generator).to(device)
    labels = torch.arange(images).remainder(classes).repeat(model.views).to(device)
    batch = Batch(pixels, labels, torch.arange(images))
    trainer, sums = trainer_of(model), EpochSums.empty(config.model.depth, device)
    clock = time.thread_time if device.type == "cpu" else time.perf_counter
    times = []
    for _ in range(_STEPS):
        start = clock()
        trainer.step(batch, 0, sums)
        float(sums.loss.sum())  # waits for a device that works on its own
        times.append(clock() - start)
    return median(times) / images
