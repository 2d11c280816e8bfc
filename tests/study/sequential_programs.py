"""Programs whose studies grow, and the looks that a store has of them."""

from pathlib import Path

from seedspread.runs.store import Store
from seedspread.runs.studies import SequentialRecord, load_studies

RULE = "[sequential]\nstart = 5\nstep = 5\nlimit = 15\n"
TWO_LOOKS = RULE.replace("15", "10")
# Normal values whose spread is ten times as large under 0.5; with 0 for both it never ends by itself.
SPREADS = "import random; report(random.Random(f'{seed} {x}').gauss(0.5, 0.05 if x == '0.5' else 0.005))"
ALIKE = "import random; report(random.Random(f'{seed} {x}').gauss(0.5, 0.02))"


def looks(store: Path) -> SequentialRecord:
    """Of the only study."""
    (recorded,) = load_studies(Store(store))[0]
    assert recorded.sequential is not None
    return recorded.sequential
