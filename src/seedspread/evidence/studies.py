"""Which shipped studies the evidence is made of, and their runs by key."""

from seedspread.evidence.tables import FOLDER
from seedspread.runs.store import Store
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec

PREFIX = "evidence/"
ALL = "evidence/all"
# Its parts vary one source of randomness each, and are answered together.
SOURCES = "evidence/sources"


def evidence_plan(store: Store) -> Plan:
    """Every run of every study, by the keys that runs on the official datasets have."""
    return Plan.make(StudySpec.from_file(ALL), store, FOLDER)  # where no data are: none are looked at
