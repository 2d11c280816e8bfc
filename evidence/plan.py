"""The studies of the evidence by name, and their runs by key."""

from functools import cache
from pathlib import Path

from evidence.tables import FOLDER
from seedspread.runs.store import Store
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec

STUDIES = Path(__file__).parent / "studies"
ALL = "all"
# Of docs/local-rules.md, a page of its own; and that of the native kernel's bf16, which few processors have.
LOCAL_RULES, PRECISION = "local-rules", "precision"
# Its parts vary one source of randomness each, and are answered together.
SOURCES = "sources"


@cache
def study_named(name: str) -> StudySpec:
    """A study or a collection, by the stem of its file."""
    return StudySpec.from_file(STUDIES / f"{name}.toml")


def evidence_plan(store: Store) -> Plan:
    """Every run of every study, by the keys that runs on the official datasets have."""
    return Plan.make(study_named(ALL), store, FOLDER)  # where no data are: none are looked at


def published_keys(store: Store) -> frozenset[str]:
    """The keys of all runs that are published: those of the evidence, of five training rules, and of bf16."""
    others = [Plan.make(study_named(name), store, FOLDER) for name in (LOCAL_RULES, PRECISION)]
    return frozenset(evidence_plan(store).distinct).union(*(plan.distinct for plan in others))
