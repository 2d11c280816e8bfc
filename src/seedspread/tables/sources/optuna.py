"""Optuna's studies, in a database or a journal, through Optuna's own loader."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from seedspread.errors import require_extra
from seedspread.tables.sources.files import Place, copy_of, reason, starts_with
from seedspread.tables.sources.run import (
    Better,
    CollectedRun,
    Curve,
    Reader,
    SourceError,
    Unread,
    flat,
    is_seed,
    may_be_parameter,
    number,
)

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_JOURNAL = b'{"op_code":'


class OptunaReader(Reader):
    """A run is a trial, whose number is no seed; trials that are not complete are listed as unread."""

    kind = "optuna"
    title = "Optuna"
    looks_like = "an Optuna study"
    group = "study"

    def recognizes(self, place: Place) -> bool:
        is_journal = place.file is not None and starts_with(place.file, _JOURNAL)
        return is_journal or {"studies", "trials"} <= place.tables

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterator[CollectedRun | Unread]:
        require_extra("optuna", "reading Optuna's studies")
        import optuna  # noqa: PLC0415

        with _storage(place) as storage:
            for name in optuna.get_all_study_names(storage):
                study = optuna.load_study(study_name=name, storage=storage)
                for trial in study.get_trials(deepcopy=False):
                    yield _run(study, trial, whole)


@contextmanager
def _storage(place: Place) -> Iterator[Any]:
    import optuna  # noqa: PLC0415
    from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        if place.path is None:
            yield place.source
        else:
            with copy_of(place.path) as copy:
                journal = None if place.tables else JournalFileBackend(str(copy))
                yield optuna.storages.JournalStorage(journal) if journal else f"sqlite:///{copy}"
    except Exception as error:  # each storage has errors of its own, and a damaged file any
        raise SourceError(f"Optuna cannot read {place.source}: {reason(error)}") from error
    finally:
        optuna.logging.set_verbosity(verbosity)


def _run(study: "Study", trial: "FrozenTrial", whole: bool) -> CollectedRun | Unread:
    name = f"{study.study_name}/{trial.number}"
    if trial.state.name != "COMPLETE":
        return Unread(name, f"the trial's state is {trial.state.name}")
    several = [f"value_{n}" for n in range(len(study.directions))]
    names = study.metric_names or (several if len(several) > 1 else ["value"])
    curves: dict[str, Curve] = {key: [(None, value)] for key, value in zip(names, trial.values, strict=True)}
    steps = sorted(trial.intermediate_values.items())
    if len(names) == 1 and steps and whole:
        curves[names[0]] = [(float(step), value) for step, value in steps]
    attributes = flat(trial.user_attrs)
    measured = {key: number(value) for key, value in attributes.items() if not is_seed(key)}
    curves = {**{key: [(None, value)] for key, value in measured.items() if value is not None}, **curves}
    parameters = {key: value for key, value in attributes.items() if may_be_parameter(key, value)}
    parameters |= flat(trial.params)
    better: list[Better] = ["lower" if d.name == "MINIMIZE" else "higher" for d in study.directions]
    return CollectedRun(name, parameters, curves, study.study_name, dict(zip(names, better, strict=True)))
