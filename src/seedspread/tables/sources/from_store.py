"""A store of this package's own runs, as a source like any other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from seedspread.runs.files import UNREADABLE
from seedspread.runs.record import Record
from seedspread.runs.store import Store
from seedspread.runs.studies import stale_runs
from seedspread.runs.table import is_store, with_metrics
from seedspread.tables.sources.files import reason
from seedspread.tables.sources.parameters import flat
from seedspread.tables.sources.place import Place
from seedspread.tables.sources.run import CollectedRun, Curve, Unread

STALE = "made before its inputs changed"


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
        """Each run of the store, as they were finished; those that are not, and stale ones, are listed."""
        store = Store(place.path or Path())
        stale = stale_runs(store)
        done = []
        for key in store.keys():  # noqa: SIM118 - a store is no mapping
            if key in stale:
                yield Unread(key, STALE)
            elif store.is_done(key):
                done.append(store.folder(key))
            else:
                state = store.state(key)
                yield Unread(
                    key, f"its state is {state.state}{f': {state.message}' if state.message else ''}"
                )
        # The latest of equal runs is kept, by the times that they wrote down: a copy has others.
        yield from (run for _, run in sorted((_run(folder, metrics) for folder in done), key=itemgetter(0)))


def _run(folder: Path, metrics: Sequence[str]) -> tuple[str, CollectedRun | Unread]:
    """A run, and when it was finished."""
    try:
        record = Record.read(str(folder))
        values, _ = with_metrics(record, folder, metrics)
    except UNREADABLE as error:
        return "", Unread(folder.name, reason(error))
    parameters = {**flat(record.parameters), "seed": record.seed, "dataset": record.dataset}
    curves: dict[str, Curve] = {name: [(None, value)] for name, value in values.items()}
    return str(record.provenance.get("ended", "")), CollectedRun(record.key, parameters, curves)
