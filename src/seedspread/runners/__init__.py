"""Runners: what can be run in a campaign, each behind one contract (`contract.py`)."""

from seedspread.runners.cff import CffRunner
from seedspread.runners.contract import Runner

_RUNNERS: dict[str, Runner] = {runner.name: runner for runner in (CffRunner(),)}


def runner_named(name: str) -> Runner | None:
    """The runner by which records of its runs are known; None if there is none of that name."""
    return _RUNNERS.get(name)
