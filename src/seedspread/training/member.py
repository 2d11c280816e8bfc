"""One run: where it is, what it has gathered, what it writes. Who trains it, and with whom, is elsewhere."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import torch
from torch import Tensor

from seedspread.config import RunConfig
from seedspread.data.dataset import Dataset, pipeline
from seedspread.data.loader import Loader
from seedspread.errors import SeedspreadError
from seedspread.identity import RUNNER, has_free_margin, saturates
from seedspread.model import ViT
from seedspread.runs.folder import Heartbeat, RunFolder
from seedspread.runs.record import Failure, RunFailedError
from seedspread.stopping import StoppedError, StopRequest
from seedspread.training import checkpoint
from seedspread.training.checkpoint import Checkpoint, below, load_module, module_tensors
from seedspread.training.features import Features, validation_loss
from seedspread.training.layerwise import LayerwiseModel
from seedspread.training.outcome import Diagnostics, RunResult, summarise
from seedspread.training.probe import Probe
from seedspread.training.randomness import drawn_from, init_seed
from seedspread.training.records import EpochSums, History


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


class Member:
    """A run on its way.

    Attributes:
        config: what it is.
        dataset: on its device.
        folder: where it writes.
        model: with its losses.
        sums: of the epoch so far.
        position: stage, epoch, batch and probe's repeat.
        optimiser_tensors: gives the optimisers' state; nothing in stage 2, which does without.
        threads: CPU threads, the same through every resume.
        ended: its result, or why it has none.
    """

    def __init__(
        self,
        config: RunConfig,
        dataset: Dataset,
        folder: RunFolder,
        stop: StopRequest,
        watcher: Watcher,
        on_end: Callable[[object], None] = lambda _: None,
    ) -> None:
        self.config = config
        self.dataset = dataset
        self.folder = folder
        self.threads = folder.begin(config.runtime.threads or torch.get_num_threads())
        self.ended: RunResult | Exception | None = None
        device = dataset.train.images.device
        vit = drawn_from(
            init_seed(config.seeds.stream("init")),
            lambda: ViT.from_config(config.model, len(dataset.classes)),
        )
        self.model = LayerwiseModel(config, vit.to(device))
        self.sums = EpochSums.empty(config.model.depth, device)
        self.position: dict[str, Any] = {"stage": "encoder", "epoch": 0, "batch": 0, "repeat": 0}
        self.optimiser_tensors: Callable[[], dict[str, Tensor]] = dict
        self._stop = stop
        self._watcher = watcher
        self._on_end = on_end
        self._history = History()
        self._best_loss: float | None = None
        self._best_weights: dict[str, Tensor] = {}
        self._features = Features(self.model, dataset)
        self._probe: Probe | None = None
        self._finished_probes: dict[str, Tensor] = {}
        self._written = time.monotonic()
        self._restore()

    def end(self, outcome: RunResult | Exception) -> None:
        """Notes what became of it, and tells whoever waits for it; what only it needed is let go."""
        self.ended = outcome
        if isinstance(outcome, RunFailedError):
            with suppress(SeedspreadError):  # the folder is another's now, or full: the outcome still tells
                self.folder.fail(Failure.of(outcome))
        self.optimiser_tensors = dict
        self._features.forget()
        self._on_end(outcome)

    @property
    def outcome(self) -> RunResult | Exception:
        """What became of it, once it was carried out."""
        return self.ended or RuntimeError(f"{self.folder.path}: the run was not carried out")

    # Stage 1

    def training_batches(self) -> Loader:
        """The batches of every epoch."""
        config = self.config
        return Loader(
            self.dataset.train,
            pipeline(config.data),
            self.dataset.source.mean,
            self.dataset.source.std,
            config.training.batch_size,
            views=self.model.views,
            order=config.data.order,
            order_seed=config.seeds.stream("order"),
            augment_seed=config.seeds.stream("augment"),
        )

    def end_epoch(self, epoch: int) -> None:
        """After an epoch's last batch."""
        self._check_finite(epoch)
        self._history.add(self.sums)
        self.sums = EpochSums.empty(self.config.model.depth, self.sums.loss.device)
        if self.config.training.select == "best_val_loss":
            self._keep_if_best(epoch)
        self.at("encoder", epoch + 1, 0)
        rate = "clamp_activation_rate" if saturates(self.config) else "would_be_rate"
        values = {
            "loss": self._history.last("loss"),
            rate: self._history.last("rate"),
            "gradient_norm": self._history.last("gradient_norm"),
        }
        self._watcher.on_epoch("encoder", epoch, values)

    def end_encoder(self) -> None:
        """After the last epoch: stage 2 begins with the chosen weights."""
        if self.config.training.select == "best_val_loss":
            load_module("best", self.model.vit, self._best_weights)
        self.at("probe", 0, 0)
        self.optimiser_tensors = dict
        self.checkpoint()

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
        losses = [validation_loss(self.model, batch) for batch in loader.epoch(epoch)]
        loss = torch.stack(losses).mean().item()
        if self._best_loss is None or loss < self._best_loss:
            self._best_loss = loss
            self._best_weights = module_tensors("best", self.model.vit)

    def _check_finite(self, epoch: int) -> None:
        """Ends the run before a checkpoint could hold what is not a number."""
        bad = [(batch, layer) for layer, batch in enumerate(self.sums.first_bad.tolist()) if batch >= 0]
        if bad:
            batch, layer = min(bad)
            raise _not_finite(layer=layer, epoch=epoch, batch=batch, what="loss or gradient")
        vit = self.model.vit
        for layer, block in [*enumerate(vit.layers), (len(vit.layers) - 1, vit.head)]:
            if not all(bool(p.isfinite().all()) for p in block.parameters()):
                batch = int(self.sums.batches) - 1
                raise _not_finite(layer=layer, epoch=epoch, batch=batch, what="weights")

    # Stage 2

    def probe_stage(self) -> None:
        """All of stage 2."""
        for repeat in range(self.position["repeat"], self.config.probe.repeats):
            self._probe = self._probe or Probe(self.config, self.dataset, self._features, repeat)
            for epoch in range(self.position["epoch"], self.config.probe.epochs):
                start = self.position["batch"]
                for number in self._probe.steps(epoch, start):
                    self._watcher.on_batch("probe", epoch, number, self.config.probe.batch_size)
                    self.at("probe", epoch, number + 1, repeat)
                    self.pause()
                if not self._probe.is_finite():
                    depth = self.config.model.depth
                    raise _not_finite(layer=depth - 1, epoch=epoch, batch=0, what="probe's weights")
                accuracies = self._probe.end_epoch(epoch)
                self.at("probe", epoch + 1, 0, repeat)
                so_far = repeat * self.config.probe.epochs + epoch
                self._watcher.on_epoch("probe", so_far, {"validation_accuracy": accuracies})
            self._finished_probes |= {
                f"{repeat}.logits": self._probe.test_logits().cpu(),
                f"{repeat}.accuracy": self._probe.best_accuracy,
                f"{repeat}.epoch": self._probe.best_epoch,
            }
            self._probe = None
            self.at("probe", 0, 0, repeat + 1)

    def finish(self, diagnostics: Diagnostics) -> None:
        """Writes the result."""
        result, predictions = summarise(
            self.config,
            self.dataset,
            self.folder.key,
            self._history,
            diagnostics,
            self._finished_probes,
            self._features,
        )
        self.folder.keep_history(self._history.table(with_rate=not has_free_margin(self.config)))
        self.folder.keep_predictions(predictions)
        facts = {
            "runner": RUNNER,
            "seed": self.config.seeds.run,
            "config": self.config.model_dump(mode="json"),
            "threads": torch.get_num_threads(),
        }
        self.folder.finish(result.values(), facts, ("torch", "numpy"))
        self.end(result)

    # Pausing and going on

    def at(self, stage: str, epoch: int, batch: int, repeat: int = 0) -> None:
        """Notes where the run is."""
        self.position = {"stage": stage, "epoch": epoch, "batch": batch, "repeat": repeat}

    def pause(self) -> None:
        """After every batch: writes a checkpoint when one is due, stops when asked to."""
        self.folder.beat(self._heartbeat)
        stop = self._stop.number
        if stop is not None or time.monotonic() - self._written >= self.config.runtime.checkpoint_seconds:
            self.checkpoint()
        if stop is not None:
            where = f"{self.position['stage']} epoch {self.position['epoch'] + 1}"
            raise StoppedError(
                f"stopped in {where}; go on with the same command and --resume (folder {self.folder.path})",
                stop,
            )

    def _heartbeat(self) -> Heartbeat:
        """How far it is; an epoch of the probe, which sees one view and only forward, is a sixth of one."""
        training, probe = self.config.training.epochs, self.config.probe.epochs
        total = training + probe * self.config.probe.repeats / 6
        stage, epoch = self.position["stage"], self.position["epoch"]
        if stage == "encoder":
            return Heartbeat(epoch / total, f"encoder, epoch {min(epoch + 1, training)} of {training}")
        done = training + (self.position["repeat"] * probe + epoch) / 6
        return Heartbeat(done / total, f"probe, epoch {min(epoch + 1, probe)} of {probe}")

    def checkpoint(self) -> None:
        """Writes one now."""
        if self.position["stage"] == "encoder":
            self._check_finite(self.position["epoch"])
        tensors = module_tensors("model", self.model.vit) | self.optimiser_tensors()
        tensors |= {f"sums.{name}": tensor for name, tensor in self.sums.tensors().items()}
        tensors |= {f"history.{name}": tensor for name, tensor in self._history.tensors().items()}
        tensors |= {f"finished.{name}": tensor for name, tensor in self._finished_probes.items()}
        tensors |= self._best_weights
        if self._probe is not None:
            tensors |= self._probe.tensors()
        state = {"position": self.position, "best_loss": self._best_loss}
        checkpoint.write(self.folder, Checkpoint(state, tensors))
        self._written = time.monotonic()

    def _restore(self) -> None:
        newest = checkpoint.read_newest(self.folder)
        if newest is None:
            return
        tensors = newest.tensors
        self.position = newest.state["position"]
        self._best_loss = newest.state["best_loss"]
        load_module("model", self.model.vit, tensors)
        kept = {n: t for n, t in tensors.items() if n.startswith("optimiser.")}
        self.optimiser_tensors = lambda: kept
        device = self.sums.loss.device
        self.sums = EpochSums(**{name: t.to(device) for name, t in below("sums", tensors).items()})
        self._history = History.from_tensors(below("history", tensors))
        self._finished_probes = below("finished", tensors)
        self._best_weights = {name: t for name, t in tensors.items() if name.startswith("best.")}
        if "probe.best_epoch" in tensors:
            self._probe = Probe(self.config, self.dataset, self._features, self.position["repeat"])
            self._probe.load(tensors)


def _not_finite(*, layer: int, epoch: int, batch: int, what: str) -> RunFailedError:
    message = (
        f"layer {layer}: {what} not finite in epoch {epoch + 1}, first at batch {batch}; "
        "try a smaller learning_rate"
    )
    return RunFailedError(message, layer=layer, epoch=epoch, batch=batch, what=what)
