"""The studies of the evidence by name, and their runs by key."""

from functools import cache
from pathlib import Path

from evidence.tables import FOLDER
from seedspread.runs.store import Store
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec

STUDIES = Path(__file__).parent / "studies"
ALL = "all"
# The studies of docs/local-rules.md, and of the native kernel's bf16, for which few processors have hardware.
LOCAL_RULES, PRECISION = "local-rules", "precision"
# Each part of this study varies one source of randomness; the parts are answered together.
SOURCES = "sources"


@cache
def study_named(name: str) -> StudySpec:
    """Return a study or a collection, by the stem of its file."""
    return StudySpec.from_file(STUDIES / f"{name}.toml")


def evidence_plan(store: Store) -> Plan:
    """Plan every study, with the keys of runs on the official datasets."""
    return Plan.make(study_named(ALL), store, FOLDER)  # a folder without data, so that none are read


def published_keys(store: Store) -> frozenset[str]:
    """Return the keys of all runs to publish: of the evidence, of the training rules, and of bf16."""
    others = [Plan.make(study_named(name), store, FOLDER) for name in (LOCAL_RULES, PRECISION)]
    return frozenset(evidence_plan(store).distinct).union(*(plan.distinct for plan in others))
