"""Runners: what can be run in a campaign, each behind one contract (`contract.py`)."""

from seedspread.runners.cff import CffRunner
from seedspread.runners.contract import Runner


def runner_of_study() -> Runner:
    """What runs a study, by what its file asks for: so far, a preset of the paper's training."""
    return CffRunner()
