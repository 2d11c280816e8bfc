"""Hydra's folders: parameters in `.hydra/config.yaml`, and the metrics file that the job left beside it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedspread.tables.sources.files import UNREADABLE, read_yaml, reason
from seedspread.tables.sources.from_json import from_files
from seedspread.tables.sources.parameters import flat
from seedspread.tables.sources.place import Place
from seedspread.tables.sources.run import CollectedRun, Unread

_CONFIG = "config.yaml"
_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv")


@dataclass(frozen=True)
class HydraReader:
    """A run is a folder with `.hydra`, of a multirun or of single runs."""

    kind: str = "hydra"
    title: str = "Hydra"
    group: str = ""

    def recognises(self, place: Place) -> bool:
        """Whether any job has run there."""
        return any(path.name == _CONFIG and path.parent.name == ".hydra" for path in place.files)

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterator[CollectedRun | Unread]:
        """Each job, in the order of their numbers."""
        configs = [path for path in place.files if path.name == _CONFIG and path.parent.name == ".hydra"]
        jobs: dict[Path, list[Path]] = {path.parent.parent: [] for path in configs}
        for path in place.files:
            job = next((folder for folder in path.parents if folder in jobs), None)
            if job is not None and path.suffix in _ENDINGS and ".hydra" not in path.parts[len(job.parts) :]:
                jobs[job].append(path)
        for job in sorted(jobs, key=_number):
            name = place.relative(job)
            parameters = _parameters(job)
            if isinstance(parameters, str):
                yield Unread(f"{name}/.hydra/{_CONFIG}", parameters)
            else:
                yield from_files(name, jobs[job], parameters)


def _number(job: Path) -> tuple[str, int, str]:
    return str(job.parent), int(job.name) if job.name.isdecimal() else -1, job.name


def _parameters(job: Path) -> dict[str, Any] | str:
    """The job's config by dotted name, or what is wrong with it."""
    try:
        return flat(read_yaml(job / ".hydra" / _CONFIG))
    except UNREADABLE as error:
        return reason(error)
