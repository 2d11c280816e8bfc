"""The Ray engine against a real cluster of two nodes, one of which is killed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seedspread.runs.store import Store
from seedspread.tables.from_store import all_runs
from tests.cff.training.tiny import EVERY_BATCH
from tests.runners import programs
from tests.study.processes import COMMAND
from tests.study.sequential_programs import ALIKE, TWO_LOOKS, looks
from tests.study.tiny import results, study_file, tiny_study, undisturbed

pytest.importorskip("ray")

SCRIPT = Path(__file__).with_name("ray_cluster.py")
LONG: dict[str, Any] = {"training__epochs": 20}
Cluster = dict[str, tuple[Path, dict[str, Any]]]


def on_the_cluster(*folders: Path) -> list[dict[str, Any]]:
    """A report of the study in each folder; a node is lost in the midst of the last."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, folders)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The folder and the report of each study; they share a cluster, one node of which is lost."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("looks", "training")}
    programs.study_file(folders["looks"], ALIKE, seeds=10, run='inputs = ["train.py"]', more=TWO_LOOKS)
    study_file(folders["training"], seeds=2, **LONG, **EVERY_BATCH)
    reports = on_the_cluster(*folders.values())
    return {name: (folder, report) for (name, folder), report in zip(folders.items(), reports, strict=True)}


def check_a_lost_node(folder: Path, report: dict[str, Any], seeds: int, alone: Path) -> None:
    assert report == {"done": 2 * seeds, "failed": {}, "lost": 1}
    assert results(folder / "ray") == undisturbed(tiny_study(folder, seeds, **LONG), alone)
    store = Store(folder / "ray")
    tokens = [max(p.name for p in store.folder(k).glob("lease-*")) for k in store.keys()]  # noqa: SIM118
    assert max(tokens) > "lease-000001.json"  # at least one was taken over from the lost node


@pytest.mark.soak
def test_a_lost_node_loses_no_run_and_changes_no_result(cluster: Cluster, tmp_path: Path) -> None:
    check_a_lost_node(*cluster["training"], seeds=2, alone=tmp_path)


@pytest.mark.soak
def test_a_lost_node_loses_none_of_sixteen_runs(tmp_path: Path) -> None:
    study_file(tmp_path, seeds=8, **LONG, **EVERY_BATCH)
    (report,) = on_the_cluster(tmp_path)
    check_a_lost_node(tmp_path, report, seeds=8, alone=tmp_path / "alone")


def test_programs_are_tasks(tmp_path: Path) -> None:
    programs.study_file(tmp_path, seeds=2, run='inputs = ["train.py"]')
    (report,) = on_the_cluster(tmp_path)
    assert report == {"done": 4, "failed": {}, "lost": 0}
    table = all_runs(Store(tmp_path / "ray"))[0]
    assert sorted(zip(table["x"], table["seed"], strict=True)) == [(0.0, 1), (0.0, 2), (0.5, 1), (0.5, 2)]


@pytest.mark.soak
def test_a_study_grows_look_by_look(cluster: Cluster) -> None:
    folder, report = cluster["looks"]
    assert report == {"done": 20, "failed": {}, "lost": 0}
    assert [look.seeds for look in looks(folder / "ray").looks] == [5, 10]


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
