"""The Slurm engine: submitit's local executor, and a real Slurm of one node."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seedspread.analysis.sequential import last_look
from seedspread.errors import SeedspreadError
from seedspread.runs.store import Store
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.slurm_engine import SlurmExecutor
from seedspread.tables.from_store import all_runs
from tests.cff.training.tiny import EVERY_BATCH
from tests.runners import programs
from tests.study.here import Here
from tests.study.processes import Start, wait_for
from tests.study.sequential_programs import ALIKE, TWO_LOOKS, looks
from tests.study.tiny import results, study_file, tiny_study, undisturbed

pytest.importorskip("submitit")

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "tests" / "slurm" / "cluster.sh"
RUN = """
import json, sys
from pathlib import Path
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.slurm_engine import SlurmExecutor
from seedspread.study.spec import StudySpec
plan = Plan.make(StudySpec.from_file(sys.argv[1]), Path(sys.argv[2]))
options = json.loads(sys.argv[3])
lease = {name: options.pop(name) for name in ("lease_seconds",) if name in options}
report = run_plan(plan, SlurmExecutor(**options), **lease)
print(json.dumps({"done": len(report.done), "failed": report.failed, "stopped": report.stopped}))
"""


@pytest.fixture
def submit(spawn: Start) -> Start:
    """Starts a study in a process of its own, so that submitit's warnings and threads stay there."""

    def begun(folder: Path, environment: dict[str, str], **options: object) -> "subprocess.Popen[str]":
        arguments = [str(folder / "study.toml"), str(folder / "slurm"), json.dumps(options)]
        return spawn(
            [sys.executable, "-c", RUN, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | environment,
        )

    return begun


def ended(process: "subprocess.Popen[str]") -> dict[str, object]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]
    found: dict[str, object] = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    return found


def test_submitits_local_executor_gives_the_same_results(submit: Start, tmp_path: Path) -> None:
    study_file(tmp_path, seeds=1)
    found = ended(submit(tmp_path, {}, cluster="local", minutes=5))
    assert found == {"done": 2, "failed": {}, "stopped": ""}
    assert results(tmp_path / "slurm") == undisturbed(tiny_study(tmp_path, seeds=1), tmp_path / "alone")


def test_without_slurm_it_says_so_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan.make(tiny_study(tmp_path, seeds=1), tmp_path / "slurm")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SeedspreadError) as caught:
        run_plan(plan, SlurmExecutor())
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real Slurm; the environment that its clients need."""
    paths = f"{os.environ['PATH']}:/usr/sbin"
    if os.geteuid() != 0 or not all(
        shutil.which(name, path=paths) for name in ("slurmctld", "slurmd", "munged")
    ):
        pytest.skip("a real Slurm needs root, slurm-wlm and munge")
    folder = tmp_path_factory.mktemp("cluster")
    started = subprocess.run(
        ["bash", str(CLUSTER), "start", str(folder)], capture_output=True, text=True, check=False, timeout=60
    )
    if started.returncode:
        subprocess.run(["bash", str(CLUSTER), "stop", str(folder)], check=False)
        pytest.skip(f"Slurm does not start here: {started.stderr[-300:]}")
    yield {"SLURM_CONF": started.stdout.strip().splitlines()[-1]}
    subprocess.run(["bash", str(CLUSTER), "stop", str(folder)], check=True)


@pytest.mark.parametrize("seeds", [1, pytest.param(8, marks=pytest.mark.soak)])
def test_a_real_slurm_carries_out_an_array(
    submit: Start, slurm: dict[str, str], tmp_path: Path, seeds: int
) -> None:
    study_file(tmp_path, seeds=seeds)
    found = ended(submit(tmp_path, slurm, minutes=10))
    assert found == {"done": 2 * seeds, "failed": {}, "stopped": ""}
    assert results(tmp_path / "slurm") == undisturbed(tiny_study(tmp_path, seeds), tmp_path / "alone")


def test_a_program_is_a_job_that_reports(submit: Start, slurm: dict[str, str], tmp_path: Path) -> None:
    programs.study_file(tmp_path, "print(os.environ['SLURM_JOB_ID']); report()", run='inputs = ["train.py"]')
    assert ended(submit(tmp_path, slurm, minutes=10)) == {"done": 2, "failed": {}, "stopped": ""}
    local = programs.plan_of(tmp_path / "local", "print('no job'); report()")
    run_plan(local, Here())
    values = [
        all_runs(Store(store))[0].sort_values("x")["accuracy"]
        for store in (tmp_path / "slurm", local.store.path)
    ]
    assert list(values[0]) == list(values[1])


@pytest.mark.soak
def test_a_study_grows_look_by_look_whether_one_waits_or_not(slurm: dict[str, str], tmp_path: Path) -> None:
    path = programs.study_file(tmp_path, ALIKE, seeds=10, run='inputs = ["train.py"]', more=TWO_LOOKS)
    store = tmp_path / "store"
    main = [sys.executable, "-c", "from seedspread.cli import main; main()"]
    command = [*main, "run", str(path), "--store", str(store), "--backend", "slurm"]

    def again(*options: str) -> str:
        done = subprocess.run(
            [*command, *options],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env=os.environ | slurm,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stderr

    assert "submitted 10 jobs" in again("--no-wait")
    assert not looks(store).looks
    wait_for(lambda: len(list(store.glob("*/result.json"))) == 10, 120)
    assert "submitted 10 jobs" in again("--no-wait")  # the look, and the runs of the next
    assert [look.seeds for look in looks(store).looks] == [5]
    told = again("--wait")
    assert last_look(looks(store)) in told
    assert [look.seeds for look in looks(store).looks] == [5, 10]
    assert looks(store).stopped


def test_a_requeued_job_goes_on_from_its_checkpoint(
    submit: Start, slurm: dict[str, str], tmp_path: Path
) -> None:
    study_file(tmp_path, seeds=1, training__epochs=50, **EVERY_BATCH)
    process = submit(tmp_path, slurm, minutes=10, lease_seconds=5)
    store = tmp_path / "slurm"
    wait_for(lambda: any(store.glob("*/checkpoint-*")), 120)
    listed = subprocess.run(
        ["squeue", "-h", "-o", "%A", "-t", "RUNNING"],
        capture_output=True,
        text=True,
        env=os.environ | slurm,
        check=True,
    )
    job = listed.stdout.split()[0]
    time.sleep(1)
    subprocess.run(["scontrol", "requeue", job], check=True, env=os.environ | slurm)
    while process.poll() is None:  # a requeued job would wait for two minutes before it starts again
        hurry = ["scontrol", "update", f"JobId={job}", "StartTime=now"]
        subprocess.run(hurry, check=False, capture_output=True, env=os.environ | slurm)
        time.sleep(1)
    found = ended(process)
    assert found == {"done": 2, "failed": {}, "stopped": ""}
    tokens = [
        max(p.name for p in folder.glob("lease-*")) for folder in store.iterdir() if folder.name[0] != "."
    ]
    assert max(tokens) > "lease-000001.json"  # it was claimed again after the requeue
    study = tiny_study(tmp_path, seeds=1, training__epochs=50)
    assert results(store) == undisturbed(study, tmp_path / "alone")
