"""A run on its way: where it is, what it has gathered, what it writes. What drives it is in `loop.py`."""

import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from seedspread.cff.config import RunConfig
from seedspread.cff.data.dataset import Dataset, Split
from seedspread.cff.data.loader import Loader
from seedspread.cff.identity import RUNNER, margin_is_inert, saturates
from seedspread.cff.implementations import features_of
from seedspread.cff.model import ViT
from seedspread.cff.training import checkpoint
from seedspread.cff.training.checkpoint import Checkpoint, below, load_module, module_tensors
from seedspread.cff.training.choice import trainer_class
from seedspread.cff.training.features import Features, validation_loss
from seedspread.cff.training.layerwise import LayerwiseModel
from seedspread.cff.training.pace import Pace
from seedspread.cff.training.position import Position
from seedspread.cff.training.probe import Probe
from seedspread.cff.training.randomness import drawn_from, init_seed
from seedspread.cff.training.records import EpochSums, History
from seedspread.cff.training.result import RunResult
from seedspread.cff.training.summary import Diagnostics, summarise
from seedspread.errors import SeedspreadError
from seedspread.runs.checkpoints import CheckpointError
from seedspread.runs.files import UNREADABLE
from seedspread.runs.folder import RunFolder
from seedspread.runs.record import Failure, RunFailedError
from seedspread.runs.run_files import Heartbeat, thinned


class TrainingRun:
    """A run on its way.

    Attributes:
        config: what it is.
        dataset: on its device.
        folder: where it writes.
        threads: CPU threads, the same through every resume.
        model: with its losses.
        sums: of the epoch so far.
        position: where it is.
        seed: by which its study calls it; the config's by default.
        pace: what it has taken of its worker's time.
    """

    def __init__(
        self, config: RunConfig, dataset: Dataset, folder: RunFolder, seed: int | None = None
    ) -> None:
        self.config = config
        self.seed = config.seeds.run if seed is None else seed
        self.dataset = dataset
        self.folder = folder
        self.threads = folder.begin(config.runtime.threads or torch.get_num_threads())
        device = dataset.train.images.device
        vit = drawn_from(
            init_seed(config.seeds.stream("init")),
            lambda: ViT.from_config(config.model, len(dataset.classes)),
        )
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
        self.pace = Pace()

    @property
    def torch_threads(self) -> int:
        """What torch computes with; the number of threads that are a trainer's own alters no bit."""
        return 1 if features_of(self.config).has_own_threads else self.threads

    def heartbeat(self) -> Heartbeat:
        """How far it is, how fast, and its curves so far."""
        curves = {"loss": self._history.over_epochs("loss")}
        if saturates(self.config):
            curves["clamp activation rate"] = self._history.over_epochs("rate")
        is_training = self.position.stage == "encoder"
        return Heartbeat(
            done=self._done,
            where=self.position.words(self.config),
            images_per_second=self.pace.images_per_second if is_training else None,
            spent=self.pace.seconds,
            seconds=self.pace.whole(self._done),
            curves={name: thinned(values) for name, values in curves.items()},
        )

    @property
    def _done(self) -> float:
        stage = self.config.training if self.position.stage == "encoder" else self.config.probe
        return self.position.share(self.config, -(-len(self.dataset.train.labels) // stage.batch_size))

    # Stage 1

    def training_batches(self) -> Loader:
        """The batches of every epoch."""
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
        """`(N,)`, equal for the images that are positives of each other; None where the labels say it."""
        by_class = self.config.objective.positives == "class"
        if by_class or self.config.training.rule == "cross_entropy":
            return None
        kinds = self.dataset.info.superclasses
        codes = [sorted(set(kinds)).index(kind) for kind in kinds]
        return torch.tensor(codes, device=split.labels.device)[split.labels]

    def end_epoch(self) -> dict[str, list[float]]:
        """After an epoch's last batch; returns the epoch's values by layer."""
        self._check_finite()
        self._history.add(self.sums)
        self.sums = EpochSums.empty(self.config.model.depth, self.sums.loss.device)
        if self.config.training.select == "best_val_loss":
            self._keep_if_best()
        self.position = Position("encoder", self.position.epoch + 1)
        rate = "clamp_activation_rate" if saturates(self.config) else "would_be_rate"
        return {
            "loss": self._history.last("loss"),
            rate: self._history.last("rate"),
            "gradient_norm": self._history.last("gradient_norm"),
        }

    def end_encoder(self) -> None:
        """After the last epoch: stage 2 begins with the chosen weights, and does without the optimisers."""
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
        """Ends the run before a checkpoint could hold what is not a number."""
        bad = [(batch, layer) for layer, batch in enumerate(self.sums.first_bad.tolist()) if batch >= 0]
        if bad:
            batch, layer = min(bad)
            raise self._not_finite("loss or gradient", layer, batch)
        vit = self.model.vit
        for layer, module in [*enumerate(vit.layers), (len(vit.layers) - 1, vit.head)]:
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
        """The classifiers of the repeat that it is at."""
        if self._probe is None:
            self._probe = Probe(self.config, self.dataset, self._features, self.position.repeat)
        return self._probe

    def end_probe_epoch(self) -> list[float]:
        """After an epoch's last batch; returns the validation accuracies."""
        at = self.position
        if not self.probe().is_finite():
            raise self._not_finite("probe's weights", self.config.model.depth - 1, 0)
        accuracies = self.probe().end_epoch(at.epoch)
        self.position = Position("probe", at.epoch + 1, 0, at.repeat)
        return accuracies

    def end_probe(self) -> None:
        """After a repeat's last epoch."""
        repeat, probe = self.position.repeat, self.probe()
        self._finished_probes |= {
            f"{repeat}.logits": probe.test_logits().cpu(),
            f"{repeat}.accuracy": probe.best_accuracy,
            f"{repeat}.epoch": probe.best_epoch,
        }
        self._probe = None
        self.position = Position("probe", repeat=repeat + 1)

    def finish(self, diagnostics: Diagnostics) -> RunResult:
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
        self.folder.keep_history(self._history.table(with_rate=not margin_is_inert(self.config)))
        self.folder.keep_predictions(predictions)
        facts = {
            "runner": RUNNER,
            "seed": self.seed,
            "config": self.config.model_dump(mode="json"),
            "threads": self.threads,
            "worker_seconds": self.pace.seconds,
            **trainer_class(self.config).facts(),
        }
        self.folder.finish(result.values(), facts, ("torch", "numpy"))
        return result

    def close(self, outcome: RunResult | Exception) -> None:
        """Once it has ended: writes down a failure, and lets go what only the run needed."""
        if isinstance(outcome, RunFailedError):
            with suppress(SeedspreadError):  # the folder is another's now, or full: the outcome still tells
                self.folder.fail(Failure.of(outcome))
        self._features.forget()

    # Checkpoints

    @property
    def checkpoint_is_due(self) -> bool:
        """Whether the last one was written long enough ago."""
        return time.monotonic() - self._written >= self.config.runtime.checkpoint_seconds

    def checkpoint(self, optimiser: dict[str, Tensor]) -> None:
        """Writes one now.

        Args:
            optimiser: the trainer's part of it, as from `Trainer.state_dict`; empty in stage 2.
        """
        if self.position.stage == "encoder":
            self._check_finite()
        tensors = module_tensors("model", self.model.vit) | optimiser
        tensors |= {f"sums.{name}": tensor for name, tensor in self.sums.tensors().items()}
        tensors |= {f"history.{name}": tensor for name, tensor in self._history.tensors().items()}
        tensors |= {f"finished.{name}": tensor for name, tensor in self._finished_probes.items()}
        tensors |= self._best_weights
        if self._probe is not None:
            tensors |= self._probe.tensors()
        state = {"position": asdict(self.position), "best_loss": self._best_loss}
        checkpoint.write(self.folder, Checkpoint(state, tensors))
        self._written = time.monotonic()

    def restore(self) -> dict[str, Tensor]:
        """Goes back to the newest checkpoint, if there is one; returns the trainer's part of it."""
        newest = checkpoint.read_newest(self.folder)
        if newest is None:
            return {}
        try:
            optimiser = self._restore_from(newest)
            self.pace = Pace(self._done)
            return optimiser
        except UNREADABLE as error:
            where = self.folder.path
            raise CheckpointError(f"the newest checkpoint in {where} does not fit: {error}") from error

    def _restore_from(self, newest: Checkpoint) -> dict[str, Tensor]:
        tensors = newest.tensors
        self.position = Position(**newest.state["position"])
        self._best_loss = newest.state["best_loss"]
        load_module("model", self.model.vit, tensors)
        device = self.sums.loss.device
        self.sums = EpochSums(**{name: t.to(device) for name, t in below("sums", tensors).items()})
        self._history = History.from_tensors(below("history", tensors))
        self._finished_probes = below("finished", tensors)
        self._best_weights = {name: t for name, t in tensors.items() if name.startswith("best.")}
        if "probe.best_epoch" in tensors:
            self.probe().load(tensors)
        return {name: t for name, t in tensors.items() if name.startswith("optimiser.")}
