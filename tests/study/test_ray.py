"""The Ray engine against a real cluster of two nodes, one of which is killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seedspread.runs.store import Store
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.tables.from_store import all_runs
from tests.runners import programs
from tests.study.here import Here
from tests.study.processes import COMMAND
from tests.study.sequential_programs import ALIKE, TWO_LOOKS, looks
from tests.study.tiny import results, study_file, tiny_study

pytest.importorskip("ray")

SCRIPT = Path(__file__).with_name("ray_cluster.py")


def on_the_cluster(folder: Path, *options: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder / "study.toml"), str(folder / "ray"), *options],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, int] = json.loads(
        next(line for line in done.stdout.splitlines() if line.startswith("{"))
    )
    return found


@pytest.mark.parametrize("seeds", [2, pytest.param(8, marks=pytest.mark.soak)])
def test_a_lost_node_loses_no_run_and_the_results_are_those_of_the_local_engine(
    tmp_path: Path, seeds: int
) -> None:
    study_file(tmp_path, seeds=seeds, training__epochs=20)
    found = on_the_cluster(tmp_path, "--lose-a-node")
    assert found == {"done": 2 * seeds, "failed": {}, "lost": 1}
    local = Plan.make(tiny_study(tmp_path, seeds=seeds, training__epochs=20), tmp_path / "local")
    run_plan(local, Here())
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    store = Store(tmp_path / "ray")
    tokens = [max(p.name for p in store.folder(k).glob("lease-*")) for k in store.keys()]  # noqa: SIM118
    assert max(tokens) > "lease-000001.json"  # at least one was taken over from the lost node


def test_programs_are_tasks(tmp_path: Path) -> None:
    programs.study_file(tmp_path, seeds=2, run='inputs = ["train.py"]')
    assert on_the_cluster(tmp_path) == {"done": 4, "failed": {}, "lost": 0}
    table = all_runs(Store(tmp_path / "ray"))[0]
    assert sorted(zip(table["x"], table["seed"], strict=True)) == [(0.0, 1), (0.0, 2), (0.5, 1), (0.5, 2)]


def test_a_study_grows_look_by_look(tmp_path: Path) -> None:
    programs.study_file(tmp_path, ALIKE, seeds=10, run='inputs = ["train.py"]', more=TWO_LOOKS)
    assert on_the_cluster(tmp_path) == {"done": 20, "failed": {}, "lost": 0}
    assert [look.seeds for look in looks(tmp_path / "ray").looks] == [5, 10]


def test_an_unreachable_cluster_is_one_line(tmp_path: Path) -> None:
    study_file(tmp_path, seeds=1)
    options = ["--store", str(tmp_path / "s"), "--backend", "ray", "--address", "127.0.0.1:1"]
    done = subprocess.run(
        [*COMMAND, str(tmp_path / "study.toml"), *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("error: Ray cannot reach 127.0.0.1:1")
    assert "Traceback" not in done.stderr
