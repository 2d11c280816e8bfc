"""A run that is to be run, as a runner is asked for it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunRequest:
    """A run that is to be run.

    Attributes:
        parameters: what the run is, in its runner's own form.
        folder: where it writes; None lets its runner choose.
        seed: of the run; None where the parameters say it.
        key: what the run was planned as; another one, because its inputs are others, is refused.
        guard: is called before every write, and raises if the folder is no longer this process's to write to.
        threads: CPU threads, if the parameters leave them open; a run that has begun keeps its own.
    """

    parameters: Any
    folder: Path | None = None
    seed: int | None = None
    key: str | None = None
    guard: Callable[[], None] | None = None
    threads: int | None = None
