"""One whole run: both stages, resumable at every batch, and what it leaves behind."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from seedspread.config import RunConfig
from seedspread.data.dataset import Dataset, load, pipeline
from seedspread.data.loader import Loader
from seedspread.identity import has_free_margin, run_key
from seedspread.model import ViT
from seedspread.presets import ConfigError
from seedspread.training.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    below,
    load_module,
    load_optimiser,
    module_tensors,
    optimiser_tensors,
)
from seedspread.training.encoder import Encoder
from seedspread.training.folder import RunFolder, RunFolderError
from seedspread.training.outcome import RunResult, final_diagnostics, summarise
from seedspread.training.probe import Features, Probe
from seedspread.training.randomness import drawn_from, init_seed
from seedspread.training.records import EpochSums, History
from seedspread.training.signals import StoppedError, StopRequest, stop_requests


class Watcher(Protocol):
    """Someone who looks on."""

    def on_batch(self, stage: str, epoch: int, batch: int, images: int) -> None:
        """A batch was trained on."""

    def on_epoch(self, stage: str, epoch: int, values: dict[str, list[float]]) -> None:
        """An epoch has ended, with these values by layer."""


class NoWatcher:
    """Nobody looks on."""

    def on_batch(self, stage: str, epoch: int, batch: int, images: int) -> None:
        """Nothing."""

    def on_epoch(self, stage: str, epoch: int, values: dict[str, list[float]]) -> None:
        """Nothing."""


def train(
    config: RunConfig,
    out: Path | None = None,
    *,
    resume: bool = False,
    data_dir: Path | None = None,
    watcher: Watcher | None = None,
    guard: Callable[[], None] | None = None,
    expected_key: str | None = None,
) -> RunResult:
    """Carries out a run and returns its result.

    Args:
        config: what the run is.
        out: its folder; the default is `default_folder`.
        resume: go on from a checkpoint where there is one, and return a result that is there already.
        data_dir: the data folder.
        watcher: is told of batches and epochs.
        expected_key: what the run was planned as; another one, because the data are others, is refused.
        guard: is called before every write, and raises if the folder is no longer this process's to write to.
    """
    device = choose_device(config.runtime.device)
    dataset = load(config.data, data_dir)
    key = run_key(config, dataset.fingerprint)
    if expected_key is not None and key != expected_key:
        raise RunFolderError(
            f"this is not the run that was planned ({key}, not {expected_key}): the data have changed; plan "
            f"again"
        )
    folder = RunFolder(out or default_folder(key), key, guard)
    done = folder.open(config, resume=resume)
    if done is not None:
        return done
    with _threads(folder.pin_threads(config.runtime.threads)), stop_requests() as stop:
        return _Run(config, dataset, device, folder, stop, watcher or NoWatcher()).carry_out()


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


class _Run:
    def __init__(
        self,
        config: RunConfig,
        dataset: Dataset,
        device: torch.device,
        folder: RunFolder,
        stop: StopRequest,
        watcher: Watcher,
    ) -> None:
        self.config = config
        self.dataset = dataset.to(device)
        self.folder = folder
        self.stop = stop
        self.watcher = watcher
        model = drawn_from(init_seed(config.seeds.stream("init")), lambda: _model(config, dataset))
        self.encoder = Encoder(config, model.to(device))
        self.history = History()
        self.sums = EpochSums.empty(config.model.depth, device)
        self.best_loss: float | None = None
        self.best_weights: dict[str, Tensor] = {}
        self.features = Features(self.encoder, self.dataset)
        self.probe: Probe | None = None
        self.finished_probes: dict[str, Tensor] = {}
        self.position: dict[str, Any] = {"stage": "encoder", "epoch": 0, "batch": 0, "repeat": 0}
        self.checkpoints = CheckpointFolder(folder.path, folder.key, folder.guard)
        self._written = time.monotonic()

    def carry_out(self) -> RunResult:
        """From wherever the run is to its result."""
        self._restore()
        if self.position["stage"] == "encoder":
            self._encoder_stage()
        self._probe_stage()
        diagnostics = final_diagnostics(self.encoder, self._training_batches())
        result, predictions = summarise(
            self.config,
            self.dataset,
            self.folder.key,
            self.history,
            diagnostics,
            self.finished_probes,
            self.features,
        )
        self.folder.finish(self.config, result, predictions, self.history)
        return result

    # Stage 1

    def _training_batches(self) -> Loader:
        config = self.config
        return Loader(
            self.dataset.train,
            pipeline(config.data),
            self.dataset.source.mean,
            self.dataset.source.std,
            config.training.batch_size,
            views=self.encoder.views,
            order=config.data.order,
            order_seed=config.seeds.stream("order"),
            augment_seed=config.seeds.stream("augment"),
        )

    def _encoder_stage(self) -> None:
        batches = self._training_batches()
        for epoch in range(self.position["epoch"], self.config.training.epochs):
            start = self.position["batch"]
            for number, batch in enumerate(batches.epoch(epoch, start), start):
                self.encoder.step(batch, number, self.sums)
                self.watcher.on_batch("encoder", epoch, number, len(batch.index))
                self._at("encoder", epoch, number + 1)
                self._pause()
            self._end_epoch(epoch)
        if self.config.training.select == "best_val_loss":
            load_module("best", self.encoder.model, self.best_weights)
        self._at("probe", 0, 0)
        self._checkpoint()

    def _end_epoch(self, epoch: int) -> None:
        self._check_finite(epoch)
        self.history.add(self.sums)
        self.sums = EpochSums.empty(self.config.model.depth, self.sums.loss.device)
        if self.config.training.select == "best_val_loss":
            self._keep_if_best(epoch)
        self._at("encoder", epoch + 1, 0)
        clamps = not has_free_margin(self.config) and self.config.objective.margin_type == "clamp"
        rate = "clamp_activation_rate" if clamps else "would_be_rate"
        values = {
            "loss": self.history.last("loss"),
            rate: self.history.last("rate"),
            "gradient_norm": self.history.last("gradient_norm"),
        }
        self.watcher.on_epoch("encoder", epoch, values)

    def _keep_if_best(self, epoch: int) -> None:
        loader = Loader(
            self.dataset.validation,
            pipeline(self.config.data),
            self.dataset.source.mean,
            self.dataset.source.std,
            self.config.training.batch_size,
            views=2,
            order="given",
            augment_seed=self.config.seeds.stream("augment"),
        )
        losses = [self.encoder.validation_loss(batch) for batch in loader.epoch(epoch)]
        loss = torch.stack(losses).mean().item()
        if self.best_loss is None or loss < self.best_loss:
            self.best_loss = loss
            self.best_weights = module_tensors("best", self.encoder.model)

    def _check_finite(self, epoch: int) -> None:
        """Ends the run before a checkpoint could hold what is not a number."""
        bad = [(batch, layer) for layer, batch in enumerate(self.sums.first_bad.tolist()) if batch >= 0]
        if bad:
            batch, layer = min(bad)
            raise self.folder.fail(layer=layer, epoch=epoch, batch=batch, what="loss or gradient")
        model = self.encoder.model
        for layer, block in [*enumerate(model.layers), (len(model.layers) - 1, model.head)]:
            if not all(bool(p.isfinite().all()) for p in block.parameters()):
                batch = int(self.sums.batches) - 1
                raise self.folder.fail(layer=layer, epoch=epoch, batch=batch, what="weights")

    # Stage 2

    def _probe_stage(self) -> None:
        for repeat in range(self.position["repeat"], self.config.probe.repeats):
            self.probe = self.probe or Probe(self.config, self.dataset, self.features, repeat)
            for epoch in range(self.position["epoch"], self.config.probe.epochs):
                start = self.position["batch"]
                for number in self.probe.steps(epoch, start):
                    self.watcher.on_batch("probe", epoch, number, self.config.probe.batch_size)
                    self._at("probe", epoch, number + 1, repeat)
                    self._pause()
                if not self.probe.is_finite():
                    depth = self.config.model.depth
                    raise self.folder.fail(layer=depth - 1, epoch=epoch, batch=0, what="probe's weights")
                accuracies = self.probe.end_epoch(epoch)
                self._at("probe", epoch + 1, 0, repeat)
                so_far = repeat * self.config.probe.epochs + epoch
                self.watcher.on_epoch("probe", so_far, {"validation_accuracy": accuracies})
            self.finished_probes |= {
                f"{repeat}.logits": self.probe.test_logits().cpu(),
                f"{repeat}.accuracy": self.probe.best_accuracy,
                f"{repeat}.epoch": self.probe.best_epoch,
            }
            self.probe = None
            self._at("probe", 0, 0, repeat + 1)

    # Pausing and going on

    def _at(self, stage: str, epoch: int, batch: int, repeat: int = 0) -> None:
        self.position = {"stage": stage, "epoch": epoch, "batch": batch, "repeat": repeat}

    def _pause(self) -> None:
        """After every batch: writes a checkpoint when one is due, stops when asked to."""
        self.folder.beat()
        due = time.monotonic() - self._written >= self.config.runtime.checkpoint_seconds
        if due or self.stop.number is not None:
            self._checkpoint()
        if self.stop.number is not None:
            where = f"{self.position['stage']} epoch {self.position['epoch'] + 1}"
            raise StoppedError(
                f"stopped in {where}; go on with the same command and --resume (folder {self.folder.path})",
                self.stop.number,
            )

    def _checkpoint(self) -> None:
        if self.position["stage"] == "encoder":
            self._check_finite(self.position["epoch"])
        tensors = module_tensors("model", self.encoder.model)
        for i, optimiser in enumerate(self.encoder.optimisers):
            tensors |= optimiser_tensors(f"optimiser.{i}", optimiser)
        tensors |= {f"sums.{name}": tensor for name, tensor in self.sums.tensors().items()}
        tensors |= {f"history.{name}": tensor for name, tensor in self.history.tensors().items()}
        tensors |= {f"finished.{name}": tensor for name, tensor in self.finished_probes.items()}
        tensors |= self.best_weights
        if self.probe is not None:
            tensors |= self.probe.tensors()
        self.folder.writing(
            lambda: self.checkpoints.write(
                Checkpoint({"position": self.position, "best_loss": self.best_loss}, tensors)
            )
        )
        self._written = time.monotonic()

    def _restore(self) -> None:
        checkpoint = self.checkpoints.newest()
        if checkpoint is None:
            return
        tensors = checkpoint.tensors
        self.position = checkpoint.state["position"]
        self.best_loss = checkpoint.state["best_loss"]
        load_module("model", self.encoder.model, tensors)
        for i, optimiser in enumerate(self.encoder.optimisers):
            load_optimiser(f"optimiser.{i}", optimiser, tensors)
        device = self.sums.loss.device
        self.sums = EpochSums(**{name: t.to(device) for name, t in below("sums", tensors).items()})
        self.history = History.from_tensors(below("history", tensors))
        self.finished_probes = below("finished", tensors)
        self.best_weights = {name: t for name, t in tensors.items() if name.startswith("best.")}
        if "probe.best_epoch" in tensors:
            self.probe = Probe(self.config, self.dataset, self.features, self.position["repeat"])
            self.probe.load(tensors)


def _model(config: RunConfig, dataset: Dataset) -> ViT:
    model = config.model
    return ViT(32, model.patch_size, 3, model.dim, model.depth, model.heads, len(dataset.classes))
