"""Adds the finished runs of a store to the published evidence: `python tools/gather_evidence.py STORE`."""

import sys

from seedspread.evidence.gather import gather
from seedspread.evidence.studies import evidence_plan
from seedspread.evidence.tables import FOLDER
from seedspread.runs.store import Store

if __name__ == "__main__":
    store = Store(sys.argv[1])
    wanted = evidence_plan(store).distinct
    new = gather(store, wanted, FOLDER)
    print(f"{new} runs are new, of {len(wanted)} that the studies name")
