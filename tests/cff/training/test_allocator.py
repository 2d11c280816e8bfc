"""The allocator keeps what is freed, and changes nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cff.training.tiny import files, tiny

pytest.importorskip("torch")

TRAIN = """
import sys
from pathlib import Path
from seedspread.cff.training.run import keep_freed_memory
from seedspread.cff.training.run import train
from tests.cff.training.tiny import tiny
if sys.argv[2] == "keep":
    assert keep_freed_memory()
train(tiny(), Path(sys.argv[1]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator is Linux's")
def test_results_are_the_same_to_the_bit(tmp_path: Path) -> None:
    for how in ("keep", "usual"):
        subprocess.run([sys.executable, "-c", TRAIN, str(tmp_path / how), how], check=True)
    assert files(tmp_path / "keep") == files(tmp_path / "usual")
    assert tiny().runtime.threads == 1  # nothing but the allocator could have made a difference


FAULTS = """
import resource, sys
import torch
from seedspread.cff.training.run import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(16):
    torch.ones(2**24)  # 64 MB, freed at once
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator is Linux's")
def test_blocks_that_are_freed_are_not_given_back() -> None:
    """64 MB are 16,384 pages, each of which the system would have to clear anew sixteen times."""
    kept, usual = (
        int(subprocess.run([sys.executable, "-c", FAULTS, how], check=True, capture_output=True).stdout)
        for how in ("keep", "usual")
    )
    assert usual - kept > 10 * 16_384
