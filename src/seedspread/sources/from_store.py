"""A store of this package's own runs, as a source like any other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seedspread.runs.files import UNREADABLE
from seedspread.runs.record import Record
from seedspread.runs.store import Store
from seedspread.runs.table import is_store, with_metrics
from seedspread.sources.files import reason
from seedspread.sources.parameters import flat
from seedspread.sources.place import Place
from seedspread.sources.run import CollectedRun, Unread


@dataclass(frozen=True)
class StoreReader:
    """A run is a run; only its final values are read."""

    kind: str = "store"
    title: str = "a store"
    group: str = ""

    def recognises(self, place: Place) -> bool:
        """Whether any finished run is there."""
        return place.is_folder and place.path is not None and is_store(place.path)

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterator[CollectedRun | Unread]:
        """Each run of the store; those that are not finished are listed."""
        store = Store(place.path or Path())
        for key in store.keys():  # noqa: SIM118 - a store is no mapping
            state = store.state(key)
            if not store.is_done(key):
                yield Unread(
                    key, f"its state is {state.state}{f': {state.message}' if state.message else ''}"
                )
            else:
                yield _run(store.folder(key), metrics)


def _run(folder: Path, metrics: Sequence[str]) -> CollectedRun | Unread:
    try:
        record = Record.read(str(folder))
        values, _ = with_metrics(record, folder, metrics)
    except UNREADABLE as error:
        return Unread(folder.name, reason(error))
    parameters = {**flat(record.parameters), "seed": record.seed, "dataset": record.dataset}
    return CollectedRun(record.key, parameters, {name: [(None, value)] for name, value in values.items()})
