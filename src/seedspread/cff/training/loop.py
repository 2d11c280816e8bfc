"""Stage 1 of several runs in step, then stage 2 of each; one that fails leaves the others alone."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from torch import Tensor

from seedspread.cff.stacking import stack_of
from seedspread.cff.training.callbacks import Callback
from seedspread.cff.training.choice import trainer_of
from seedspread.cff.training.position import Position
from seedspread.cff.training.result import RunResult
from seedspread.cff.training.state import TrainingRun
from seedspread.cff.training.summary import final_diagnostics
from seedspread.cff.training.trainer import Trainer
from seedspread.runs.stopping import StoppedError, StopRequest

Outcomes = Iterator[tuple[TrainingRun, RunResult | Exception]]


def run_to_completion(runs: Sequence[TrainingRun], stop: StopRequest, callback: Callback) -> Outcomes:
    """Trains runs from wherever they are; yields each with what became of it, as soon as it has ended."""
    return _Loop(runs, stop, callback).run()


class _Loop:
    """Drives runs.

    What goes on with a trainer of its own, and later with another, takes the optimisers' state along.
    """

    def __init__(self, runs: Sequence[TrainingRun], stop: StopRequest, callback: Callback) -> None:
        self._going = list(runs)
        self._stop = stop
        self._callback = callback
        self._optimisers: dict[TrainingRun, dict[str, Tensor]] = {}
        self._since = time.monotonic()

    def run(self) -> Outcomes:
        """All of both stages."""
        yield from self._each(self._going, self._restore)
        while groups := _in_step([run for run in self._going if run.position.stage == "encoder"]):
            # Those that were stopped earlier catch up with the next ones of their shape, and go on with them.
            group, *others = groups
            ahead = [_place(other[0]) for other in others if _shape(other[0]) == _shape(group[0])]
            yield from self._train(group, until=ahead[0] if ahead else None)
        yield from self._each(self._going, self._probe_and_finish)

    def _each(self, runs: Sequence[TrainingRun], act: Callable[[TrainingRun], RunResult | None]) -> Outcomes:
        """Does something for the runs that go on; a result, an error or a wish to stop ends that run only."""
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
        """Stage 1 from where the runs are, to its end or until they are at a batch."""
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
        yield from self._each(runs, TrainingRun.end_encoder)

    def _end_epoch(self, run: TrainingRun) -> None:
        epoch = run.position.epoch
        self._callback.on_epoch("encoder", epoch, run.end_epoch())

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
        """Counts the time since it was last counted, in equal shares, and the images that each has seen."""
        now = time.monotonic()
        for run in runs:
            run.pace.add((now - self._since) / len(runs), images)
        self._since = now

    def _pause(self, run: TrainingRun, optimiser: Callable[[], dict[str, Tensor]] = dict) -> None:
        """After every batch: writes a checkpoint when one is due, stops when asked to."""
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
    """Shared by runs that may be trained as one program."""
    device = run.dataset.train.images.device.type
    return stack_of(run.config, run.threads, device) or run.folder.key


def _place(run: TrainingRun) -> tuple[int, int]:
    return run.position.epoch, run.position.batch


def _in_step(runs: Sequence[TrainingRun]) -> list[list[TrainingRun]]:
    """Runs of one shape that are at the same batch, the earlier ones first."""

    def place(run: TrainingRun) -> tuple[str, tuple[int, int]]:
        return _shape(run), _place(run)

    return [list(group) for _, group in groupby(sorted(runs, key=place), key=place)]
