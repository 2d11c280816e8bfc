"""A run that ended with an error of its own counts as failed, wherever failure rates are told."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from seedspread.analysis.audit import audit
from seedspread.errors import SeedspreadError
from seedspread.runs.folder import Failure, RunFailedError
from seedspread.runs.store import Store
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from seedspread.study.study import StudyRuns, store_material
from tests.commands import said

PROGRAM = """
import json, os, random, sys
rate, seed = float(sys.argv[1]), int(sys.argv[2])
if (rate, seed) in {(0.3, 1), (0.3, 4)} or rate > 0.5:
    sys.exit("loss is NaN")
if (rate, seed) == (0.1, 2):
    os.kill(os.getpid(), 9)
print(json.dumps({"accuracy": 0.8 + random.Random(sys.argv[1] + sys.argv[2]).gauss(0, 0.02)}))
"""
STUDY = """
seeds = 5
[run]
command = "{python} train.py {rate} {seed}"
[factors]
rate = [0.0, 0.1, 0.3, 0.9]
[audit]
group = "rate"
baseline = 0.0
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of rate 0.3 two of five runs end with an error, of 0.9 all; of 0.1 one is killed."""
    folder = tmp_path_factory.mktemp("failing")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "rates.toml").write_text(STUDY)
    message = said("run", folder / "rates.toml", "--store", folder / "store", "--strict", fails=True)
    assert message.startswith("8 runs ")
    return folder


def rates(audit: dict[str, Any]) -> dict[str, list[tuple[int, int]]]:
    """By group: (failed, seeds) of it and of the baseline."""
    found = {c["group"]: c["failures"] for c in audit["comparisons"]}
    return {arm: [*zip(f["failed"], f["seeds"], strict=True)] if f else [] for arm, f in found.items()}


EXPECTED = {"0.1": [], "0.3": [(2, 5), (0, 5)]}


def test_the_audit_of_a_store_counts_them_however_it_is_asked(study: Path) -> None:
    store = study / "store"
    found = json.loads(said("audit", store, "--json"))
    assert rates(found) == EXPECTED
    assert rates(json.loads(audit(store, "accuracy", "rate", "0").to_json())) == EXPECTED
    plan = Plan.make(StudySpec.from_file(study / "rates.toml"), store)
    assert rates(json.loads(StudyRuns(plan).audit().to_json())) == EXPECTED


def test_what_was_killed_is_left_out_and_named(study: Path) -> None:
    notes = " ".join(json.loads(said("audit", study / "store", "--json"))["notes"])
    for run in ("rate = 0.3, seed 1; rate = 0.3, seed 4;", "(rate = 0.1, seed 2)"):
        assert run in notes


def test_the_report_agrees_with_the_audit(study: Path) -> None:
    material = store_material(study / "store")
    (setting,) = material.settings
    assert rates({"comparisons": [c.as_values() for c in setting.comparisons]}) == EXPECTED
    said("report", study / "store", "--out", study / "r.html")
    assert "7 of 20 runs" in (study / "r.html").read_text()


def test_a_store_in_which_every_run_failed_has_nothing_to_audit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nsys.exit(1)")
    (tmp_path / "rates.toml").write_text(STUDY)
    said("run", tmp_path / "rates.toml", "--store", tmp_path / "store", fails=True)
    assert "rates" in said("audit", tmp_path / "store", fails=True)


@pytest.mark.parametrize(
    ("error", "is_own"),
    [
        (ValueError("no luck"), True),
        (RunFailedError("exit status 1", exit_status=1), True),
        (RunFailedError("loss not finite", what="loss", epoch=1), True),
        (RunFailedError("segmentation fault", signal=int(signal.SIGSEGV)), True),
        (RunFailedError("out of memory, perhaps", signal=int(signal.SIGKILL)), False),
        (RunFailedError("it took too long", timeout=5), False),
        (RunFailedError("its input x has changed", input="x"), False),
        (RunFailedError("metric 'x' is missing", metric="x"), False),
        (SeedspreadError("no data"), False),
    ],
)
def test_which_errors_are_a_runs_own(tmp_path: Path, error: Exception, is_own: bool) -> None:
    run = Store(tmp_path).run("k")
    run.path.mkdir()
    run.fail(Failure.of(error))
    assert Store(tmp_path).has_crashed("k") == is_own
