"""Train runs from config to result: one, or several of one shape as one program; and estimate their time.

Stage 1 of several runs goes in step, then stage 2 of each; one that fails leaves the others alone.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
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
from seedspread.cff.implementations import features_of, stack_of, worthwhile
from seedspread.cff.presets import ConfigError, check, to_toml
from seedspread.cff.training.evaluation import final_diagnostics
from seedspread.cff.training.layerwise import EpochSums, LayerwiseModel, Trainer, model_of
from seedspread.cff.training.model_file import check_parent
from seedspread.cff.training.result import RunResult
from seedspread.cff.training.state import Position, TrainingRun, Work
from seedspread.cff.training.trainers import trainer_class, trainer_of
from seedspread.runs.folder import RunFolder, RunFolderError
from seedspread.runs.stopping import StoppedError, StopRequest, stop_requests


class Callback:
    """Called while runs are trained; override what you need."""

    def on_batch(self, stage: str, epoch: int, batch: int, images: int) -> None:
        """Called after each batch."""

    def on_epoch(self, stage: str, epoch: int, values: dict[str, list[float]]) -> None:
        """Called after each epoch, with its values by layer."""


Outcomes = Iterator[tuple[TrainingRun, RunResult | Exception]]


class TrainingLoop:
    """Drives runs; one that changes from one trainer to another takes its optimizers' state along."""

    def __init__(self, runs: Sequence[TrainingRun], stop: StopRequest, callback: Callback) -> None:
        self._going = list(runs)
        self._stop = stop
        self._callback = callback
        self._optimisers: dict[TrainingRun, dict[str, Tensor]] = {}
        self._since = time.monotonic()

    def run(self) -> Outcomes:
        """Train from wherever the runs are; yield each with its result or error as soon as it has ended."""
        yield from self._each(self._going, self._restore)
        while groups := _in_step([run for run in self._going if run.position.stage == "encoder"]):
            # Those that were stopped earlier catch up with the next ones of their shape, and go on with them.
            group, *others = groups
            ahead = [_place(other[0]) for other in others if _shape(other[0]) == _shape(group[0])]
            yield from self._train(group, until=ahead[0] if ahead else None)
        yield from self._each(self._going, self._probe_and_finish)

    def _each(self, runs: Sequence[TrainingRun], act: Callable[[TrainingRun], RunResult | None]) -> Outcomes:
        """Call `act` for the runs still going; a result, an error or a stop request ends that run only."""
        for run in [run for run in runs if run in self._going]:
            outcome: RunResult | Exception | None
            try:
                outcome = act(run)
            except Exception as error:  # one failure never stops the others
                outcome = error
            if outcome is not None:
                self._going.remove(run)
                run.close(outcome)
                yield run, outcome

    def _restore(self, run: TrainingRun) -> None:
        self._optimisers[run] = run.restore()

    # Stage 1

    def _train(self, runs: list[TrainingRun], until: tuple[int, int] | None) -> Outcomes:
        """Run stage 1 to its end, or until the runs are at batch `until`."""
        trainer = trainer_of([run.model for run in runs])
        for i, run in enumerate(runs):
            if state := self._optimisers.pop(run, None):
                trainer.load_state_dict(i, state)
        yield from self._epochs(trainer, runs, until)
        for i, run in enumerate(runs):
            if run in self._going and run.position.stage == "encoder":
                self._optimisers[run] = trainer.state_dict(i)

    def _epochs(self, trainer: Trainer, runs: list[TrainingRun], until: tuple[int, int] | None) -> Outcomes:
        loaders, first = [run.training_batches() for run in runs], runs[0].position

        def pause(run: TrainingRun) -> None:
            self._pause(run, lambda: trainer.state_dict(runs.index(run)))

        for epoch in range(first.epoch, runs[0].config.training.epochs):
            start = first.batch if epoch == first.epoch else 0
            epochs = zip(*(loader.epoch(epoch, start) for loader in loaders), strict=True)
            for number, batches in enumerate(epochs, start):
                if (epoch, number) == until:
                    return
                trainer.at(epoch + number / len(loaders[0]))
                trainer.step(batches, number, [run.sums for run in runs])
                self._callback.on_batch("encoder", epoch, number, sum(len(batch.index) for batch in batches))
                self._spend([run for run in runs if run in self._going], len(batches[0].index))
                for run in runs:
                    run.position = Position("encoder", epoch, number + 1)
                yield from self._each(runs, pause)
                if not any(run in self._going for run in runs):
                    return
            if until is not None and until[0] == epoch:  # the others stopped after the epoch's last batch
                return
            yield from self._each(runs, self._end_epoch)
            if not any(run in self._going for run in runs):
                return
        yield from self._each(runs, lambda run: run.end_encoder(trainer.state_dict(runs.index(run))))

    def _end_epoch(self, run: TrainingRun) -> None:
        self._callback.on_epoch("encoder", run.position.epoch, run.end_epoch())

    # Stage 2

    def _probe_and_finish(self, run: TrainingRun) -> RunResult:
        self._pause(run)  # a wish to stop is heard before the features of all images are computed
        self._probe(run)
        diagnostics = final_diagnostics(trainer_of([run.model]), run.model, run.training_batches())
        self._spend([run])
        return run.finish(diagnostics)

    def _probe(self, run: TrainingRun) -> None:
        config = run.config.probe
        for repeat in range(run.position.repeat, config.repeats):
            for epoch in range(run.position.epoch, config.epochs):
                for number in run.probe().steps(epoch, run.position.batch):
                    self._callback.on_batch("probe", epoch, number, config.batch_size)
                    run.position = Position("probe", epoch, number + 1, repeat)
                    self._spend([run])
                    self._pause(run)
                values = {"validation_accuracy": run.end_probe_epoch()}
                self._callback.on_epoch("probe", repeat * config.epochs + epoch, values)
            run.end_probe()

    def _spend(self, runs: Sequence[TrainingRun], images: int = 0) -> None:
        """Count the time since it was last counted, in equal shares, and the images that each has seen."""
        now = time.monotonic()
        for run in runs:
            run.pace.add((now - self._since) / len(runs), images)
        self._since = now

    def _pause(self, run: TrainingRun, optimiser: Callable[[], dict[str, Tensor]] = dict) -> None:
        """After every batch, write a checkpoint when one is due and stop when asked to."""
        run.folder.beat(run.heartbeat)
        stop = self._stop.number
        if stop is not None or run.checkpoint_is_due:
            run.checkpoint(optimiser())
        if stop is not None:
            raise StoppedError(
                f"stopped in {run.position}; resume with the same command and --resume "
                f"(folder {run.folder.path})",
                stop,
            )


def _shape(run: TrainingRun) -> str:
    device = run.dataset.train.images.device.type
    return stack_of(run.config, run.threads, device) or run.folder.key


def _place(run: TrainingRun) -> tuple[int, int]:
    return run.position.epoch, run.position.batch


def _in_step(runs: Sequence[TrainingRun]) -> list[list[TrainingRun]]:
    """Group runs of one shape that are at the same batch, the earlier ones first."""

    def place(run: TrainingRun) -> tuple[str, tuple[int, int]]:
        return _shape(run), _place(run)

    return [list(group) for _, group in groupby(sorted(runs, key=place), key=place)]


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
) -> RunResult:
    """Train a run and return its result.

    Args:
        config: what the run is.
        out: its folder; the default is `runs/` and the run's key.
        resume: continue from a checkpoint if there is one, and return a result that already exists.
        data_dir: the data folder.
        data: images to train on, instead of those that the config names.
        callback: is called after batches and epochs.
    """
    if data is not None:
        values = config.model_dump(mode="json")
        config = check(values | {"data": values["data"] | {"name": ARRAYS}})
    folder = None if out is None else RunFolder(Path(out))
    data_dir = None if data_dir is None else Path(data_dir)
    with stop_requests() as stop:
        outcomes = train_many(
            [config], [folder], stop, resume=resume, data_dir=data_dir, data=data, callback=callback
        )
        ((_, outcome),) = outcomes
        stop.heard([outcome])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def train_many(
    configs: Sequence[RunConfig],
    folders: Sequence[RunFolder | None],
    stop: StopRequest,
    *,
    seeds: Sequence[int] | None = None,
    resume: bool = False,
    data_dir: Path | None = None,
    data: ArrayDataset | None = None,
    callback: Callback | None = None,
) -> Iterator[tuple[int, RunResult | Exception]]:
    """Train runs on one dataset, those that may be (`implementations.stack_of`) as one program.

    A folder with a key is of a planned run, and another run is refused. `seeds` are the study's names for the
    runs; the configs' by default. `stop` is checked after every batch. Yields, when a run has ended, its
    number and its result or why it has none; one that fails leaves the others alone.
    """
    config = configs[0]
    shared = {
        (one.split_data.model_copy(update={"augment": None}), one.runtime.device)
        for one in configs  # each augments its images itself
    }
    if len(shared) > 1:
        raise ValueError("runs that are trained together must share their data and their device")
    dataset_info(config.data.name).check_shape(config.model.image_shape)
    device = device_of(config)
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # is read when CUDA starts
    else:
        configs = [one.with_runtime(micro_batch_size=VIEWS_AT_ONCE) for one in configs]  # as is recorded
    dataset = load(config.split_data, data_dir, data=data).to(device)
    dataset.info.check_shape(config.model.image_shape)  # of one's own images it is known now
    runs: dict[TrainingRun, int] = {}
    for number, (own, folder) in enumerate(zip(configs, folders, strict=True)):
        seed = own.seeds.run if seeds is None else seeds[number]
        opened = _open(own, folder, seed, dataset, resume=resume)
        if isinstance(opened, TrainingRun):
            runs[opened] = number
        else:
            yield number, opened
    try:
        threads_of = {run: torch_threads(run.config, run.threads) for run in runs}
        for threads in set(threads_of.values()):
            with cpu_threads(threads), without_tf32(), deterministic(device):
                group = [run for run in runs if threads_of[run] == threads]
                for run, outcome in TrainingLoop(group, stop, callback or Callback()).run():
                    yield runs[run], outcome
    except Exception as error:
        if stop.number is not None:
            raise StoppedError(f"stopped, while the run failed: {error}", stop.number) from error
        raise


def torch_threads(config: RunConfig, threads: int) -> int:
    """The number of threads that are a trainer's own alters no bit; torch has one beside them."""
    return 1 if features_of(config).has_own_threads else threads


def _open(
    config: RunConfig, given: RunFolder | None, seed: int, dataset: Dataset, *, resume: bool
) -> TrainingRun | RunResult | Exception:
    """Return a run to train, a result that already exists, or the error that prevents both."""
    try:
        key = run_key(config, dataset.fingerprint)
        if given is not None and given.key not in ("", key):
            return RunFolderError(
                f"this is not the run that was planned ({key}, not {given.key}): the data have changed; "
                "plan again"
            )
        trainer_class(config).prepare(config)  # if it cannot be, no folder is left behind
        path, guard = (default_folder(key), None) if given is None else (given.path, given.guard)
        folder = RunFolder(path, key, guard)
        if not folder.is_done:
            check_parent(config, dataset.fingerprint, path.parent)
        if folder.open(to_toml(config), resume=resume):
            return RunResult.read(folder.path)
        return TrainingRun(config, dataset, folder, seed)
    except Exception as error:  # one failure never stops the others
        return error


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
    """Have torch take deterministic algorithms on CUDA inside the context; on a CPU it does so anyway."""
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
    """`auto` takes CUDA, else MPS, else the CPU."""
    if wanted != "auto":
        if not is_available(wanted):
            raise ConfigError(f"runtime.device: there is no {wanted} here; use auto or cpu")
        return torch.device(wanted)
    return torch.device(next(name for name in ("cuda", "mps", "cpu") if is_available(name)))


def is_available(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_available()
    return device == "cpu" or (device == "mps" and torch.backends.mps.is_available())


# Images of the step that is measured where models are so large that cost per image hardly depends on it.
_IMAGES = 32
# A study over a thousand shapes is not to be trained before it is planned.
_MEASURED_SHAPES = 8
# The first step warms up; the median counts.
_STEPS = 3
# Seconds per image and size of the model, by shape.
_measured: dict[tuple[Any, ...], tuple[float, int]] = {}


def seconds_per_run(configs: Iterable[RunConfig], threads: int) -> list[float]:
    """Estimate each config's time from a step; a shape is measured once, and of many shapes the first few.

    The others follow from the last one that was measured: time goes with tokens and weights.
    """
    per_run: dict[int, float] = {}  # runs of one cell share their config
    chosen = list(configs)
    with cpu_threads(threads):
        for config in chosen:
            if id(config) not in per_run:
                per_run[id(config)] = _per_image(config, threads) * Work.of(config).total
    return [per_run[id(config)] for config in chosen]


def _per_image(config: RunConfig, threads: int) -> float:
    training, margin = config.training, config.objective.margin_type
    shape = (config.model, training.rule, margin, training.batch_size, config.runtime, threads)
    if shape not in _measured and len(_measured) < _MEASURED_SHAPES:
        _measured[shape] = _seconds_per_image(config, threads), _size(config)
    seconds, size = _measured.get(shape, next(reversed(_measured.values())))
    return seconds * _size(config) / size


def _size(config: RunConfig) -> int:
    return config.model.tokens * config.model.parameters


def _seconds_per_image(config: RunConfig, threads: int) -> float:
    """Measure a run as a study would train it: with the whole batch, beside others, if that is faster.

    On a CPU the seconds are those of a core, whatever else the machine does meanwhile.
    """
    device = device_of(config)
    runs = 1 if stack_of(config, threads, device.type) is None else worthwhile(config)
    images = config.training.batch_size if runs > 1 else min(_IMAGES, config.training.batch_size)
    classes = len(dataset_info(config.data.name).classes)
    models = [LayerwiseModel(config, model_of(config, classes).to(device)) for _ in range(runs)]
    batches = [_random_batch(config, model.views, images, classes, device) for model in models]
    trainer = trainer_of(models)
    sums = [EpochSums.empty(config.model.depth, device) for _ in models]
    clock = time.thread_time if device.type == "cpu" and threads == 1 else time.perf_counter
    times = []
    for _ in range(_STEPS):
        start = clock()
        trainer.step(batches, 0, sums)
        float(sums[0].loss.sum())  # waits for a device that works on its own
        times.append(clock() - start)
    return median(times) / (runs * images)


def _random_batch(config: RunConfig, views: int, images: int, classes: int, device: torch.device) -> Batch:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(views * images, *config.model.image_shape, generator=generator).to(device)
    labels = torch.arange(images).remainder(classes).repeat(views).to(device)
    return Batch(pixels, labels, torch.arange(images))
