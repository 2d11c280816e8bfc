"""The allocator keeps what is freed, and changes nothing else."""

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.cff.training.tiny import files, tiny

pytest.importorskip("torch")

TRAIN = """
import resource, sys
from pathlib import Path
import torch
from seedspread.cff.training.run import keep_freed_memory, train
from tests.cff.training.tiny import tiny
if sys.argv[2] == "keep":
    assert keep_freed_memory()
train(tiny(), Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(16):
    torch.ones(2**24)  # 64 MB, freed at once
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.fixture(scope="module")
def page_faults(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The runs' folders, and how many pages were fetched, with and without the allocator's setting."""
    if not sys.platform.startswith("linux"):
        pytest.skip("glibc's allocator is Linux's")
    folder = tmp_path_factory.mktemp("allocator")
    done = {
        how: subprocess.run([sys.executable, "-c", TRAIN, str(folder / how), how], check=True, stdout=PIPE)
        for how in ("keep", "usual")
    }
    return folder, {how: int(one.stdout) for how, one in done.items()}


@pytest.mark.soak
def test_results_are_the_same_to_the_bit(page_faults: tuple[Path, dict[str, int]]) -> None:
    folder, _ = page_faults
    assert files(folder / "keep") == files(folder / "usual")
    assert tiny().runtime.threads == 1  # nothing but the allocator could have made a difference


@pytest.mark.soak
def test_blocks_that_are_freed_are_not_given_back(page_faults: tuple[Path, dict[str, int]]) -> None:
    """64 MB are 16,384 pages, each of which the system would have to clear anew sixteen times."""
    _, faults = page_faults
    assert faults["usual"] - faults["keep"] > 10 * 16_384
