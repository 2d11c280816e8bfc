"""Stage 1 of several runs in step, then stage 2 of each; one that fails leaves the others alone."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from seedspread.stacking import stack_of
from seedspread.training.member import Member, Watcher
from seedspread.training.outcome import final_diagnostics
from seedspread.training.trainer import trainer_of


def carry_out(members: Sequence[Member], watcher: Watcher) -> None:
    """From wherever the runs are to their results; `Member.ended` tells of each what became of it."""
    while groups := _in_step([m for m in members if m.position["stage"] == "encoder" and m.ended is None]):
        # Those that were stopped earlier catch up with the next ones of their shape, and go on with them.
        group, *others = groups
        ahead = [_place(other[0]) for other in others if _shape(other[0]) == _shape(group[0])]
        _train(group, watcher, until=ahead[0] if ahead else None)
    for member in members:
        _try(member, _probe_and_finish)


def _shape(member: Member) -> str:
    """Shared by runs that may be trained as one program."""
    device = member.dataset.train.images.device.type
    return stack_of(member.config, member.threads, device) or member.folder.key


def _place(member: Member) -> tuple[int, int]:
    return member.position["epoch"], member.position["batch"]


def _in_step(members: Sequence[Member]) -> list[list[Member]]:
    """Runs of one shape that are at the same batch, the earlier ones first."""

    def place(member: Member) -> tuple[str, tuple[int, int]]:
        return _shape(member), _place(member)

    return [list(group) for _, group in groupby(sorted(members, key=place), key=place)]


def _train(members: list[Member], watcher: Watcher, until: tuple[int, int] | None) -> None:
    """Stage 1 from where the runs are, to its end or until they are at a batch."""
    trainer = trainer_of([member.model for member in members])
    begin = _place(members[0])
    if begin > (0, 0):
        for run, member in enumerate(members):
            trainer.load_state_dict(run, member.optimiser_tensors())
    for run, member in enumerate(members):
        member.optimiser_tensors = partial(trainer.state_dict, run)
    config, loaders = members[0].config, [member.training_batches() for member in members]
    for epoch in range(begin[0], config.training.epochs):
        start = begin[1] if epoch == begin[0] else 0
        epochs = zip(*(loader.epoch(epoch, start) for loader in loaders), strict=True)
        for number, batches in enumerate(epochs, start):
            if (epoch, number) == until:
                return
            trainer.step(batches, number, [member.sums for member in members])
            watcher.on_batch("encoder", epoch, number, sum(len(batch.index) for batch in batches))
            for member in members:
                member.at("encoder", epoch, number + 1)
                _try(member, Member.pause)
            if all(member.ended for member in members):
                return
        if until is not None and until[0] == epoch:  # the others stopped after the epoch's last batch
            return
        for member in members:
            _try(member, partial(Member.end_epoch, epoch=epoch))
        if all(member.ended for member in members):
            return
    for member in members:
        _try(member, Member.end_encoder)


def _try(member: Member, act: Callable[[Member], None]) -> None:
    """Does something for a run that has not ended; an error, or a wish to stop, ends this run only."""
    if member.ended is not None:
        return
    try:
        act(member)
    except Exception as error:  # one failure never stops the others
        member.end(error)


def _probe_and_finish(member: Member) -> None:
    member.pause()  # a wish to stop is heard before the features of all images are computed
    member.probe_stage()
    trainer = trainer_of([member.model])
    member.finish(final_diagnostics(trainer, member.model, member.training_batches()))
