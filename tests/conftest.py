"""What all tests need."""

import gc
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from seedspread.errors import is_installed

# Worker processes inherit it: some are sent runners that are defined in the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# No test asserts a time, also not by hypothesis's deadline. `make test` draws the same examples each time;
# `make soak` takes the second profile, which draws others, and more of them.
settings.register_profile("untimed", deadline=None, max_examples=30, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=300)
settings.load_profile("untimed")

# What tests start imports the package, many times over: from byte code, not compiled anew by each process.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# In the background interrupts are ignored, and all children inherit that; some tests send them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Some virtual machines list AMX and cannot run it: a product in bf16 then kills the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Beside another worker a second thread only waits for its core. Not by OMP_NUM_THREADS: what the tests
# start takes the threads that it takes anywhere.
if "PYTEST_XDIST_WORKER" in os.environ:
    import torch

    torch.set_num_threads(1)


# They take every core and kill by the clock: two at once would disturb each other.
_BY_THE_CLOCK = tuple(
    f"tests/study/test_{name}.py" for name in ("ray", "slurm", "faults", "hardening", "local", "programs")
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files as units of `--dist loadfile`, but those of `_BY_THE_CLOCK` one after another.

    The evidence too: its files share audits of all published runs.

    (The mark for this, xdist_group, is passed over by pytest-xdist 3.8 under pytest 9.2.)
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - only where it is used

    class Files(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/evidence/"):
                return "evidence"
            return "by the clock" if nodeid.startswith(_BY_THE_CLOCK) else super()._split_scope(nodeid)

    return Files(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Skip a file of tests that imports a package which is not installed, as in a base install."""
    return _skipped_for_lack((yield), collector.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Skip a test that needs such a package; test_base_install.py tests what the base must do."""
    return _skipped_for_lack((yield), item.path)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs the native kernel if there is none; it is built by the first test that needs it."""
    for mark in item.iter_markers("native"):
        from tests.cff.training.tiny import lacks_native  # noqa: PLC0415 - imports torch

        if why := lacks_native(**mark.kwargs):
            pytest.skip(why)


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A disk whose size, such as `4m`, is the fixture's parameter."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here; it takes root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


# How Python, pandas and `errors.require_extra` say that a package is missing. Any other text is a failure.
_MISSING = re.compile(
    r"^E .*(?:ModuleNotFoundError: No module named '|ImportError: .*optional dependency '"
    r"| needs (?=\w+, which the base install leaves out))(\w+)",
    re.MULTILINE,
)


def _skipped_for_lack(report: Any, path: Path) -> Any:
    missing = _MISSING.search(report.longreprtext) if report.failed else None
    if missing and missing[1] != "seedspread" and not is_installed(missing[1]):
        report.outcome, report.longrepr = "skipped", (str(path), 0, f"Skipped: needs {missing[1]}")
    return report


# The longest files, by the time they take; the first mostly wait, and leave a core to what runs beside them.
_FIRST = (
    *_BY_THE_CLOCK,
    "tests/cff/training/",
    "tests/test_tutorials.py",
    "tests/test_examples.py",
    "tests/study/",
    "tests/analysis/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first: one process must not be left with it at the end."""

    def place(item: pytest.Item) -> int:
        return next((i for i, name in enumerate(_FIRST) if item.nodeid.startswith(name)), len(_FIRST))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Keeps the collector from what is imported: statsmodels has it look at everything in every audit."""
    gc.freeze()
