"""Folders of Lightning's `CSVLogger`: `metrics.csv` and `hparams.yaml` in each `version_N`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedspread.tables.sources.files import UNREADABLE, header, read_csv, read_yaml, reason
from seedspread.tables.sources.parameters import flat, with_path
from seedspread.tables.sources.place import Place
from seedspread.tables.sources.rows import one_run
from seedspread.tables.sources.run import CollectedRun, Unread

_METRICS, _PARAMETERS = "metrics.csv", "hparams.yaml"


@dataclass(frozen=True)
class LightningReader:
    """A run is a folder with `metrics.csv`."""

    kind: str = "lightning"
    title: str = "Lightning's CSVLogger"
    group: str = ""

    def recognises(self, place: Place) -> bool:
        """Whether it has logged any run, also one that ended before its first metric."""
        return any(
            (path.name == _METRICS and {"step", "epoch"} & set(header(path))) or path.name == _PARAMETERS
            for path in place.files
            if (path.parent / _METRICS).is_file()
        )

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterator[CollectedRun | Unread]:
        """Each version; one without metrics is listed."""
        files = set(place.files)
        for folder in sorted({path.parent for path in files if path.name in (_METRICS, _PARAMETERS)}):
            name = place.relative(folder)
            if folder / _METRICS not in files:
                yield Unread(name, f"no {_METRICS}: it ended before its first metric")
                continue
            yield _version(place, folder, name)


def _version(place: Place, folder: Path, name: str) -> CollectedRun | Unread:
    path = folder / _METRICS
    try:
        rows = read_csv(path)
        path = folder / _PARAMETERS
        parameters = hparams(folder)
    except UNREADABLE as error:
        return Unread(place.relative(path), reason(error))
    if not rows:
        return Unread(name, f"{_METRICS} has no rows")
    run = one_run(name, rows, {})
    return CollectedRun(name, with_path(parameters, name), run.curves)


def hparams(folder: Path) -> dict[str, Any]:
    """The parameters that Lightning writes beside a run's log; none if there are none."""
    path = folder / _PARAMETERS
    return flat(read_yaml(path)) if path.is_file() and not path.is_symlink() else {}
