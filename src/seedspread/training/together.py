"""Stage 1 of several runs in step, then stage 2 of each; one that fails leaves the others alone."""

from collections.abc import Callable, Sequence
from itertools import groupby

from seedspread.identity import is_fast, stack_shape
from seedspread.training.encoder import Encoder, Trainer
from seedspread.training.member import Member, Watcher
from seedspread.training.outcome import final_diagnostics
from seedspread.training.plain import Plain
from seedspread.training.stack import Stack


def trainer_of(encoders: Sequence[Encoder]) -> Trainer:
    """What trains these, of which there may be several if they are to be trained the fast way."""
    return Stack(encoders) if is_fast(encoders[0].config) else Plain(encoders[0])


def carry_out(members: Sequence[Member], watcher: Watcher) -> None:
    """From wherever the runs are to their results; `Member.ended` tells of each what became of it."""
    training = [member for member in members if member.position["stage"] == "encoder"]
    for group in _in_step(training):
        _train(group, watcher)
    for member in members:
        _try(member, _probe_and_finish)


def _in_step(members: Sequence[Member]) -> list[list[Member]]:
    """Runs that are at the same batch; those that were stopped elsewhere are gone on with after them."""

    def place(member: Member) -> tuple[str, int, int]:
        alike = stack_shape(member.config) or member.folder.key
        return alike, member.position["epoch"], member.position["batch"]

    return [list(group) for _, group in groupby(sorted(members, key=place), key=place)]


def _train(members: list[Member], watcher: Watcher) -> None:
    trainer = trainer_of([member.encoder for member in members])
    if members[0].optimiser_tensors:
        trainer.load([member.optimiser_tensors for member in members])
    config, loaders = members[0].config, [member.training_batches() for member in members]
    begin = dict(members[0].position)
    for epoch in range(begin["epoch"], config.training.epochs):
        start = begin["batch"] if epoch == begin["epoch"] else 0
        epochs = zip(*(loader.epoch(epoch, start) for loader in loaders), strict=True)
        for number, batches in enumerate(epochs, start):
            trainer.step(batches, number, [member.sums for member in members])
            watcher.on_batch("encoder", epoch, number, sum(len(batch.index) for batch in batches))
            for run, member in enumerate(members):
                member.at("encoder", epoch, number + 1)
                if member.is_due:
                    member.optimiser_tensors = trainer.tensors(run)
                _try(member, Member.pause)
            if all(member.ended for member in members):
                return
        for member in members:
            _try(member, lambda member, epoch=epoch: member.end_epoch(epoch))  # type: ignore[misc]
        if all(member.ended for member in members):
            return
    for run, member in enumerate(members):
        member.optimiser_tensors = trainer.tensors(run)
        _try(member, Member.end_encoder)


def _try(member: Member, act: Callable[[Member], None]) -> None:
    """Does something for a run that has not ended; an error, or a wish to stop, ends this run only."""
    if member.ended is not None:
        return
    try:
        act(member)
    except Exception as error:  # one failure never stops the others
        member.ended = error


def _probe_and_finish(member: Member) -> None:
    member.probe_stage()
    trainer = trainer_of([member.encoder])
    member.finish(final_diagnostics(trainer, member.encoder, member.training_batches()))
