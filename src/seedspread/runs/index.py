"""An index of a large store: what is known of its finished runs, as long as their files have not changed.

It is a cache and nothing more, made from the folders; it may be deleted at any time. Results themselves are
always read from the runs.
"""

import json
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from seedspread.atomic import replacing
from seedspread.runs.files import UNREADABLE, NewerFormatError, read_file, read_record
from seedspread.runs.folder import HISTORY, PREDICTIONS, PROVENANCE, RESULT
from seedspread.runs.run import Run, read_run

INDEX = ".index.json"
_VERSION = 1
# So many runs are read in less than a second: an index is not worth its file.
_FEW = 1000


@dataclass(frozen=True)
class Known:
    """What is known of a finished run.

    Attributes:
        problem: what is wrong with its files.
        base_key: its key without the content of input files, if it has some.
        is_newer: whether the problem is that a newer version has written it.
        metrics: names of what it has measured.
    """

    collapsed: bool = False
    problem: str = ""
    base_key: str | None = None
    is_newer: bool = False
    metrics: Sequence[str] = ()

    @property
    def is_sound(self) -> bool:
        """Whether these are values that an index would have, whatever stood in its file."""
        base, names = self.base_key, self.metrics
        return self.problem == "" and (base is None or isinstance(base, str)) and isinstance(names, list)

    @classmethod
    def of(cls, folder: str) -> "Known":
        run = read_run(Path(folder))
        if isinstance(run, Run):
            base = run.provenance.get("base_key")
            measured = [name for name, value in run.metrics.items() if not math.isnan(value)]
            return cls(run.collapsed, "", base if isinstance(base, str) else None, False, measured)
        try:
            read_record(folder, RESULT)
        except NewerFormatError:
            return cls(problem=run, is_newer=True)
        except UNREADABLE:
            pass
        return cls(problem=run)


class Index:
    """The index of a store, read from it, brought up to date by asking, and written back by `save`."""

    def __init__(self, store: Path) -> None:
        self._store, self._path, self._is_new = str(store), store / INDEX, False
        self._entries: dict[str, tuple[str, Known]] = {}
        with suppress(*UNREADABLE):  # none yet, or damaged: it is made anew
            values = json.loads(read_file(self._path))
            runs = values["runs"] if values["version"] == _VERSION else {}
            entries = {key: (str(marks), Known(*known)) for key, (marks, *known) in runs.items()}
            self._entries = {key: entry for key, entry in entries.items() if entry[1].is_sound}

    def known(self, key: str) -> Known | None:
        """Return what is known of a run, whose files are read if they have changed; None if it has no result.

        Plain strings: with ten thousand runs, paths would be most of the time.
        """
        folder = f"{self._store}/{key}"
        marks = _marks(folder)
        if marks.startswith(","):
            return None
        entry = self._entries.get(key)
        if entry is None or entry[0] != marks:
            known = Known.of(folder)
            if known.problem:  # which may pass, or be mended
                return known
            entry = self._entries[key] = marks, known
            self._is_new = True
        return entry[1]

    def save(self) -> None:
        """Write it if there is something new in it, and the store is large and can be written to."""
        if not self._is_new or len(self._entries) < _FEW:
            return
        runs = {key: (marks, *astuple(known)) for key, (marks, known) in self._entries.items()}
        with suppress(OSError), replacing(self._path) as part:
            part.write_text(json.dumps({"version": _VERSION, "runs": runs}))


def _marks(folder: str) -> str:
    """Return what changes whenever a file of the record does; without a result it begins with a comma."""
    marks = []
    for name in (RESULT, PROVENANCE, PREDICTIONS, HISTORY):
        try:
            found = os.lstat(f"{folder}/{name}")
            marks.append(f"{found.st_mtime_ns:x} {found.st_size:x}")
        except OSError:
            marks.append("")
    return ",".join(marks)
