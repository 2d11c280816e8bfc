"""A run in progress: its position, its results so far, its checkpoints. `run.py` drives it.

A checkpoint is one safetensors file with the run's position in its header; nothing is pickled.
"""

import json
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from seedspread.cff.config import ProbeConfig, RunConfig, TrainingConfig
from seedspread.cff.data.dataset import Dataset, Split
from seedspread.cff.data.loader import Loader
from seedspread.cff.datasets import dataset_info
from seedspread.cff.identity import RUNNER, margin_of
from seedspread.cff.model import LayerLocal
from seedspread.cff.randomness import drawn_from, init_seed
from seedspread.cff.training.evaluation import Diagnostics, Features, Probe, summarize, validation_loss
from seedspread.cff.training.layerwise import (
    EpochSums,
    History,
    LayerwiseModel,
    below,
    load_module,
    model_of,
    module_tensors,
)
from seedspread.cff.training.model_file import load_encoder, parent_of, save_model
from seedspread.cff.training.result import RunResult
from seedspread.cff.training.trainers import trainer_class
from seedspread.errors import SeedspreadError
from seedspread.runs.files import UNREADABLE, read_file
from seedspread.runs.folder import (
    TRAINING,
    Failure,
    Heartbeat,
    RunFailedError,
    RunFolder,
    RunFolderError,
    gpu,
    newest_checkpoint,
    write_checkpoint,
)


@dataclass(frozen=True)
class Position:
    """The position of a run in its training; checkpoints contain these fields."""

    stage: Literal["encoder", "probe"] = "encoder"  # training of the encoder, then of the probe
    epoch: int = 0  # from 0, of the stage or of the probe's repeat
    batch: int = 0  # number of the epoch's batches that are done
    repeat: int = 0  # of the probe, from 0

    def __str__(self) -> str:
        return f"{self.stage} epoch {self.epoch + 1}"


# Cost of a forward pass, as a share of a step's.
_FORWARD = 0.45


@dataclass(frozen=True)
class Work:
    """The work of a run in units of one image in stage 1: the encoder's training, and all that follows."""

    encoder: float
    probe: float

    @classmethod
    def of(cls, config: RunConfig) -> "Work":
        """Estimate the work of a run on the whole of its dataset."""
        data, info = config.data, dataset_info(config.data.name)
        classes = len(info.coarse_classes if data.labels == "coarse" else info.classes)
        images = _at_most(info.train_size, data.limit_per_class, classes)
        test = _at_most(info.test_size, data.test_limit_per_class, classes)
        held_out = images * data.validation_fraction
        training = images - held_out
        passes = config.probe.epochs * config.probe.repeats if config.probe.features == "augmented" else 1
        # A step of stage 1 uses two views, and so do the final diagnostics, forward only. The probe and the
        # tests use one view.
        single = training * passes + held_out + test
        return cls(training * config.training.epochs, (training + single / 2) * _FORWARD)

    @property
    def total(self) -> float:
        return self.encoder + self.probe


def _at_most(images: int, per_class: int | None, classes: int) -> float:
    return float(images if per_class is None else min(images, per_class * classes))


# Smallest share of a run's work from which the time of the rest is estimated.
_LEAST = 0.02


def save_checkpoint(folder: RunFolder, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    write_checkpoint(folder, _packed(folder.key, state, tensors))


def _packed(key: str, state: dict[str, Any], tensors: dict[str, Tensor]) -> bytes:
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(stored, {"key": key, "state": json.dumps(state)})


def _unpacked(content: bytes, key: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    metadata = header["__metadata__"]
    if metadata["key"] != key:
        raise ValueError(f"it belongs to another run, {metadata['key']}")
    try:
        return dict(json.loads(metadata["state"])), load(content)
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def load_checkpoint(folder: RunFolder) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Return state and tensors of the newest undamaged checkpoint of this run; None if there is none."""
    return newest_checkpoint(folder, lambda content: _unpacked(content, folder.key))


class TrainingRun:
    """A run in progress.

    Attributes:
        seed: the run's seed in its study; by default the config's.
        threads: CPU threads, the same through every resume.
        sums: sums over the epoch so far.
    """

    def __init__(
        self,
        config: RunConfig,
        dataset: Dataset,
        folder: RunFolder,
        seed: int | None = None,
        given: LayerLocal | None = None,
    ) -> None:
        self.config = config
        self.seed = config.seeds.run if seed is None else seed
        self.dataset = dataset
        self.folder = folder
        self._parent = parent_of(config, folder.path.parent)
        self.threads = folder.begin(config.runtime.threads or self._default_threads())
        device = dataset.train.images.device
        seed_of_weights = init_seed(config.seeds.stream("init"))
        vit = drawn_from(seed_of_weights, lambda: model_of(config, len(dataset.classes), given))
        if self._parent is not None and config.training.init_from:
            load_encoder(vit, self._parent)
        self.model = LayerwiseModel(config, vit.to(device), self.threads)
        self.sums = EpochSums.empty(config.model.depth, device)
        self.position = Position()
        self._history = History()
        self._best_loss: float | None = None
        self._best_weights: dict[str, Tensor] = {}
        self._features = Features(self.model, dataset)
        self._probe: Probe | None = None
        self._finished_probes: dict[str, Tensor] = {}
        self._written = time.monotonic()
        # The time of the last start, and the share of the work that was done then.
        self._start, self._done_before = time.monotonic(), 0.0

    def _default_threads(self) -> int:
        """Return the parent's threads if this run continues it: with others, the last bits would differ."""
        if self._parent is None or self.config.training.init_from:
            return torch.get_num_threads()
        return int(self._parent.provenance()["threads"])

    def heartbeat(self) -> Heartbeat:
        """Return the progress and the speed of the run."""
        done, stage, epoch = self._done, self._stage, self.position.epoch + 1
        where = f"{self.position.stage}, epoch {min(epoch, stage.epochs)} of {stage.epochs}"
        spent, gained = time.monotonic() - self._start, done - self._done_before
        return Heartbeat(done, where, spent, spent / gained if gained >= _LEAST else None)

    @property
    def _stage(self) -> TrainingConfig | ProbeConfig:
        return self.config.training if self.position.stage == "encoder" else self.config.probe

    @property
    def _done(self) -> float:
        """The share of the run's work that is done."""
        work, stage, at = Work.of(self.config), self._stage, self.position
        batches = -(-len(self.dataset.train.labels) // stage.batch_size)
        share = min((at.epoch + at.batch / batches) / stage.epochs, 1.0)
        if at.stage == "encoder":
            return work.encoder * share / work.total
        share = min((at.repeat + share) / self.config.probe.repeats, 1.0)
        return (work.encoder + work.probe * share) / work.total

    # Stage 1

    def training_batches(self) -> Loader:
        order, seed = self.config.data.order, self.config.seeds.stream("order")
        return self._batches(self.dataset.train, views=self.model.views, order=order, order_seed=seed)

    def _batches(self, split: Split, **options: Any) -> Loader:
        return Loader(
            split,
            self.config.data.pipeline,
            self.dataset.info.mean,
            self.dataset.info.std,
            self.config.training.batch_size,
            augment_seed=self.config.seeds.stream("augment"),
            labels=self._positives(split),
            **options,
        )

    def _positives(self, split: Split) -> Tensor | None:
        """Return `(N,)` codes that are equal for positive pairs; None if the labels are the codes."""
        by_class = self.config.objective.positives == "class"
        if by_class or self.config.training.rule == "cross_entropy":
            return None
        kinds = self.dataset.info.superclasses
        codes = [sorted(set(kinds)).index(kind) for kind in kinds]
        return torch.tensor(codes, device=split.labels.device)[split.labels]

    def end_epoch(self) -> dict[str, list[float]]:
        """Close an epoch of stage 1; return its values by layer."""
        self._check_finite()
        self._history.add(self.sums)
        self.sums = EpochSums.empty(self.config.model.depth, self.sums.loss.device)
        if self.config.training.select == "best_val_loss":
            self._keep_if_best()
        self.position = Position("encoder", self.position.epoch + 1)
        rate = "clamp_activation_rate" if margin_of(self.config).saturates else "rate_if_clamped"
        shown = {"loss": "loss", rate: "rate", "gradient_norm": "gradient_norm"}
        return {title: self._history.last(name) for title, name in shown.items()}

    def end_encoder(self, optimizer: dict[str, Tensor]) -> None:
        """Begin stage 2 with the selected weights; the optimizers' state is stored if the model is kept."""
        if self.config.runtime.keep_model:
            self.folder.write(TRAINING, _packed(self.folder.key, *self._everything(optimizer)))
        if self.config.training.select == "best_val_loss":
            load_module("best", self.model.vit, self._best_weights)
        self.position = Position("probe")
        self.checkpoint({})

    def _keep_if_best(self) -> None:
        batches = self._batches(self.dataset.validation, views=2, order="given").epoch(self.position.epoch)
        losses = [validation_loss(self.model, batch) for batch in batches]
        loss = torch.stack(losses).mean().item()
        if self._best_loss is None or loss < self._best_loss:
            self._best_loss = loss
            self._best_weights = module_tensors("best", self.model.vit)

    def _check_finite(self) -> None:
        """Raise before a checkpoint could contain a NaN or an infinity."""
        bad = [(batch, layer) for layer, batch in enumerate(self.sums.first_bad.tolist()) if batch >= 0]
        if bad:
            batch, layer = min(bad)
            raise self._not_finite("loss or gradient", layer, batch)
        vit = self.model.vit
        for layer, module in [
            *enumerate(vit.layers),
            *enumerate(vit.losses),
            (len(vit.layers) - 1, vit.head),
        ]:
            if not all(bool(p.isfinite().all()) for p in module.parameters()):
                raise self._not_finite("weights", layer, int(self.sums.batches) - 1)

    def _not_finite(self, what: str, layer: int, batch: int) -> RunFailedError:
        epoch = self.position.epoch
        message = (
            f"layer {layer}: {what} not finite in epoch {epoch + 1}, first at batch {batch}; "
            "try a smaller learning_rate"
        )
        return RunFailedError(message, layer=layer, epoch=epoch, batch=batch, what=what)

    # Stage 2

    def probe(self) -> Probe:
        if self._probe is None:
            self._probe = Probe(self.config, self.dataset, self._features, self.position.repeat)
        return self._probe

    def end_probe_epoch(self) -> list[float]:
        """Close an epoch of the probe; return the validation accuracies."""
        at = self.position
        if not self.probe().is_finite():
            raise self._not_finite("probe's weights", self.config.model.depth - 1, 0)
        accuracies = self.probe().end_epoch(at.epoch)
        self.position = Position("probe", at.epoch + 1, 0, at.repeat)
        return accuracies

    def end_probe(self) -> None:
        repeat, probe = self.position.repeat, self.probe()
        self._finished_probes |= {
            f"{repeat}.logits": probe.test_logits().cpu(),
            f"{repeat}.accuracy": probe.best_accuracy,
            f"{repeat}.epoch": probe.best_epoch,
        }
        for layer, tensors in probe.chosen().items():
            self._finished_probes |= {f"{repeat}.head.{layer}.{name}": t for name, t in tensors.items()}
        self._probe = None
        self.position = Position("probe", repeat=repeat + 1)

    def finish(self, diagnostics: Diagnostics) -> RunResult:
        kept = self._history, diagnostics, self._finished_probes, self._features
        result, predictions = summarize(self.config, self.dataset, self.folder.key, *kept)
        self.folder.keep_history(self._history.table(with_rate=not margin_of(self.config).is_inert))
        self.folder.keep_predictions(predictions)
        device = self.dataset.train.images.device.type
        if self.config.runtime.keep_model:
            probes = {
                (probe.repeat, probe.layer): below(
                    f"{probe.repeat}.head.{probe.layer}", self._finished_probes
                )
                for probe in result.probes
            }
            save_model(self.folder, self.model.vit, probes, self.dataset)
        else:
            self.folder.drop(TRAINING)  # left by an attempt with keep_model
        facts = {
            **(gpu() if device == "cuda" else {}),
            "device": device,
            "runner": RUNNER,
            "seed": self.seed,
            "config": self.config.model_dump(mode="json"),
            "threads": self.threads,
            **trainer_class(self.config).facts(),
        }
        self.folder.finish(result.values(), facts, ("torch", "numpy"))
        return result

    def close(self, error: Exception | None = None) -> None:
        """Record a failure, and free what only the run needed."""
        if isinstance(error, RunFailedError):
            with suppress(SeedspreadError):  # another worker may own the folder; the error is raised anyway
                self.folder.fail(Failure.of(error))
        self._features.forget()

    # Checkpoints

    @property
    def checkpoint_is_due(self) -> bool:
        return time.monotonic() - self._written >= self.config.runtime.checkpoint_seconds

    def checkpoint(self, optimizer: dict[str, Tensor]) -> None:
        """Write a checkpoint now, with the trainer's part from `Trainer.state_dict`; empty in stage 2."""
        if self.position.stage == "encoder":
            self._check_finite()
        save_checkpoint(self.folder, *self._everything(optimizer))
        self._written = time.monotonic()

    def _everything(self, optimizer: dict[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
        tensors = module_tensors("model", self.model.vit) | optimizer
        tensors |= {f"sums.{name}": tensor for name, tensor in self.sums.tensors().items()}
        tensors |= {f"history.{name}": tensor for name, tensor in self._history.tensors().items()}
        tensors |= {f"finished.{name}": tensor for name, tensor in self._finished_probes.items()}
        tensors |= self._best_weights
        if self._probe is not None:
            tensors |= self._probe.tensors()
        return {"position": asdict(self.position), "best_loss": self._best_loss}, tensors

    def restore(self) -> dict[str, Tensor]:
        """Restore the newest checkpoint, or else the final state of the run that this one continues, if any.

        Return the trainer's part of it.
        """
        newest = load_checkpoint(self.folder)
        if newest is None and self.config.training.continue_from and self._parent is not None:
            newest = self._end_of(self._parent)
        if newest is None:
            return {}
        try:
            optimizer = self._restore_from(*newest)
            self._start, self._done_before = time.monotonic(), self._done
            return optimizer
        except UNREADABLE as error:
            where = self.folder.path
            raise RunFolderError(f"the newest checkpoint in {where} does not fit: {error}") from error

    @staticmethod
    def _end_of(parent: RunFolder) -> tuple[dict[str, Any], dict[str, Tensor]]:
        try:
            parent.check_digest(TRAINING)
            return _unpacked(read_file(parent.path / TRAINING, sys.maxsize), str(parent.result()["key"]))
        except UNREADABLE as error:
            raise RunFolderError(f"{parent.path / TRAINING} cannot be used: {error}") from error

    def _restore_from(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        self.position = Position(**state["position"])
        self._best_loss = state["best_loss"]
        load_module("model", self.model.vit, tensors)
        for name in ("sums", "history"):  # an older checkpoint lacks what was not measured then
            if (norms := tensors.get(f"{name}.gradient_norm")) is not None:
                tensors.setdefault(f"{name}.block_gradient_norm", torch.full_like(norms, torch.nan))
        device = self.sums.loss.device
        self.sums = EpochSums(**{name: t.to(device) for name, t in below("sums", tensors).items()})
        self._history = History.from_tensors(below("history", tensors))
        self._finished_probes = below("finished", tensors)
        self._best_weights = {name: t for name, t in tensors.items() if name.startswith("best.")}
        if "probe.best_epoch" in tensors:
            self.probe().load(tensors)
        return {name: t for name, t in tensors.items() if name.startswith("optimiser.")}
