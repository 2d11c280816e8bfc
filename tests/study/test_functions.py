"""Studies of Python functions, from a script, from this process, with workers that die."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seedspread import Study
from seedspread.errors import SeedspreadError
from seedspread.runs.store import Store
from seedspread.runs.studies import load_studies
from seedspread.study.slurm_engine import SlurmExecutor
from seedspread.study.spec import StudyError

AUDIT = {"group": "width", "baseline": 1, "value": "score"}

# As people write it: at the top level, without a guard.
SCRIPT = """
import random
import sys
from seedspread import Study, log

SCALE = 2.0

class Model:
    def score(self, rng):
        return rng.random()

def scaled(x):
    return SCALE * x

def train(seed: int, width: int) -> dict[str, float]:
    print("at work")
    log(score=-1.0, loss=0.5)
    return {"score": scaled(width) + Model().score(random.Random(seed))}

print("started")
study = Study(
    train,
    factors={"width": [1, 2]},
    seeds=3,
    audit={"group": "width", "baseline": 1, "value": "score"},
)
runs = study.run("runs", workers=2)
assert list(runs.table["loss"]) == [0.5] * 6
runs.report("report.html")
print(runs.audit().comparisons[0].group, len(runs.table), __file__ != "", __spec__)
"""


def script(folder: Path, text: str = SCRIPT) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(text)
    return subprocess.run(
        [sys.executable, "mine.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def test_a_script_without_a_guard_runs_its_function_in_workers(tmp_path: Path) -> None:
    done = script(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("started") == 1
    assert "at work" not in done.stdout
    assert done.stdout.splitlines()[-1] == "2 6 True None"
    store = Store(tmp_path / "runs")
    for row in store.table().to_dict("records"):
        assert row["score"] == 2.0 * row["width"] + random.Random(row["seed"]).random()  # noqa: S311
    assert (tmp_path / "report.html").exists()
    for path in (tmp_path / "runs").rglob("*"):  # nothing in a store is pickled
        assert path.is_dir() or (b"cloudpickle" not in path.read_bytes() and path.read_bytes()[:1] != b"\x80")
    # Again, with a comment: nothing is left to do. With another value: all of it.
    again = SCRIPT[: SCRIPT.index("runs = ")] + 'print(len(study.plan("runs").missing()))'
    for before, after, left in (("SCALE * x", "SCALE * x  # wide", 0), ("SCALE = 2.0", "SCALE = 3.0", 6)):
        assert script(tmp_path, again.replace(before, after)).stdout.split() == ["started", str(left)]


def test_a_function_of_a_module_is_imported_by_the_workers(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "__init__.py").touch()
    (tmp_path / "training" / "helpers.py").write_text("FACTOR = 3\n")
    module = (
        "from training.helpers import FACTOR\nfrom training import helpers\n"
        "def train(seed, width):\n    assert __name__ == 'training.mine'\n"
        "    return FACTOR * width + 0 * helpers.FACTOR\n"
    )
    (tmp_path / "training" / "mine.py").write_text(module)
    text = (
        "from seedspread import Study\nfrom training.mine import train\n"
        "study = Study(train, factors={'width': [1, 2]}, seeds=2, metrics=['score'])\n"
        "runner = study.spec().runner\n"
        "print(runner.function.name, runner.is_portable, *runner.notes([]))\n"
        "print(sorted(study.run('runs', workers=1, progress=False).table['score']))\n"
    )
    done = script(tmp_path, text)
    assert done.returncode == 0, done.stderr
    named, scores = done.stdout.splitlines()
    note = "train also reads training.helpers: changes of these are not noticed."
    assert named == f"training.mine:train True {note}"
    assert scores == "[3.0, 3.0, 6.0, 6.0]"


def made_study(train: Any, **options: Any) -> Study:
    usual: dict[str, Any] = {"factors": {"width": [1, 2]}, "seeds": 2, "audit": AUDIT}
    return Study(train, **(usual | options))


def test_one_that_raises_fails_with_its_traceback_and_leaves_the_others(tmp_path: Path) -> None:
    def train(seed: int, width: int) -> dict[str, float]:
        if seed == 2:
            raise ValueError(f"no luck with width {width}")
        return {"score": width}

    study = made_study(train)
    with pytest.raises(SeedspreadError, match=r"^2 runs .*ValueError: no luck with width \d") as caught:
        study.run(tmp_path, workers=1, progress=False, strict=True)
    assert "\n" not in str(caught.value)
    assert study.run(tmp_path, workers=1, progress=False).table["seed"].tolist() == [1, 1]
    states = study.plan(tmp_path).states()
    assert sorted(state.state for state in states.values()) == ["done", "done", "failed", "failed"]
    failed = next(key for key, state in states.items() if state.state == "failed")
    failure = json.loads((tmp_path / failed / "failure.json").read_text())
    assert "in train" in failure["traceback"]


def test_one_that_kills_its_process_fails_at_once_and_goes_on_when_retried(tmp_path: Path) -> None:
    def train(seed: int, width: int, folder: Path) -> dict[str, float]:
        tries = folder / "tries"
        tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
        if seed == 1 and width == 1 and tries.read_text() == "x":
            os.kill(os.getpid(), signal.SIGKILL)
        return {"score": len(tries.read_text())}

    study = made_study(train)
    with pytest.raises(SeedspreadError, match=r"^1 run .* 9 \(SIGKILL\)"):
        study.run(tmp_path, workers=1, progress=False)
    runs = study.run(tmp_path, workers=1, progress=False, retry_failed=True)
    scores = {(row["width"], row["seed"]): row["score"] for row in runs.table.to_dict("records")}
    assert scores == {(1, 1): 2.0, (1, 2): 1.0, (2, 1): 1.0, (2, 2): 1.0}


def test_ctrl_c_stops_it_at_once_and_it_can_be_resumed(tmp_path: Path) -> None:
    slow = SCRIPT.replace('    print("at work")\n', "    import time; time.sleep(600)\n")
    (tmp_path / "mine.py").write_text(slow)
    process = subprocess.Popen(
        [sys.executable, "mine.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    store, until = Store(tmp_path / "runs"), time.monotonic() + 300
    while len(list((tmp_path / "runs").glob("*/log.txt"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "interrupted; rerun the same command to resume" in errors
    assert {store.state(key).state for key in store.keys()} == {"interrupted"}  # noqa: SIM118


def test_slurm_refuses_what_only_memory_holds_and_takes_a_modules_function(tmp_path: Path) -> None:
    with pytest.raises(SeedspreadError, match="Slurm cannot run a function of a notebook") as caught:
        made_study(lambda seed, width: width).run(tmp_path, executor=SlurmExecutor(cluster="local"))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("*.pkl"))
    by_name = made_study(module_function)
    assert by_name.spec().runner.is_portable


def module_function(seed: int, width: int) -> float:
    return float(width)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"factors": {"widht": [1]}}, "'widht'.*'width'"),
        ({"factors": {}}, "give factors"),
        ({"seeds": 0}, "seeds: .*got 0"),
        ({"seeds": "ten"}, "seeds: .*'ten'"),
        ({"audit": {"group": "rate"}}, "audit.baseline is missing; name the level"),
        ({"seeds": None}, "seeds = 10"),
        ({"audit": {"group": "depth", "baseline": 1}}, "audit names 'depth', which is not a factor"),
        ({"audit": AUDIT | {"values": "x"}}, "audit.values: no such field.*'value'"),
        ({"audit": AUDIT | {"baseline": 3}}, "audit.baseline '3' is not a level of width"),
        ({"metrics": ["scores"]}, "audit.value 'score' is not a metric.*'scores'"),
        ({"inputs": ["*.nothing"]}, r"inputs: '\*.nothing'"),
        ({"inputs": "data.csv"}, r"inputs must be a list; write \['data.csv'\]"),
        ({"inputs": Path("data.csv")}, r"inputs must be a list; write \['data.csv'\]"),
        ({"environment": "HOME"}, r"environment must be a list; write \['HOME'\]"),
        ({"metrics": "scores"}, "audit.value 'score' is not a metric.*'scores'"),
        ({"settings": {"width": 3}}, "width is given twice"),
        ({"seeds": 15_000}, "names 30,000 runs; .* 20,000"),
    ],
)
def test_a_mistake_is_told_in_one_line_when_the_study_is_made(options: dict[str, Any], words: str) -> None:
    def train(seed: int, width: int) -> float:
        return 1.0

    with pytest.raises(StudyError, match=words) as caught:
        made_study(train, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("train")


def test_a_file_or_a_shipped_study_says_all_but_seeds_and_settings_itself(tmp_path: Path) -> None:
    assert len(Study("quickstart").plan(tmp_path).runs) >= 20
    with pytest.raises(StudyError, match="quickstart says all but seeds and settings itself"):
        Study("quickstart", factors={"margin_type": ["clamp"]})


def test_levels_and_seeds_may_be_numpys() -> None:
    def train(seed: int, width: float) -> float:
        return 1.0

    spec = made_study(
        train,
        factors={"width": np.linspace(0, 1, 3)},
        seeds=np.arange(4),
        audit={"group": "width", "baseline": np.float64(0)},
        metrics={"score": {"better": "lower"}},
    ).spec()
    assert [dict(cell.levels)["width"] for cell in spec.cells] == [0.0, 0.5, 1.0]
    assert spec.seeds == (0, 1, 2, 3)
    assert spec.audit is not None
    assert spec.audit.value == "score"


def test_a_study_is_what_its_function_reads_when_it_is_planned(tmp_path: Path) -> None:
    level = [1]

    def train(seed: int, width: int) -> int:
        return level[0]

    study = made_study(train)
    study.run(tmp_path, workers=1, progress=False)
    assert study.plan(tmp_path).missing() == {}
    level[0] = 2
    plan = study.plan(tmp_path)
    assert len(plan.missing()) == len(plan.stale) == 4
    assert study.plan(tmp_path, accept_changed=True).missing() == {}


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("exit", "exit status 0"),
        ("remove", "was removed while it ran"),
    ],
)
def test_a_function_that_leaves_without_a_word_fails_and_the_others_go_on(
    tmp_path: Path, how: str, why: str
) -> None:
    def leaves(seed: int, how: str) -> dict[str, float]:
        """What a function can do to the worker and the folder that it runs in."""
        folder = Path(os.environ["SEEDSPREAD_FOLDER"]).parent
        if how == "exit":
            os._exit(0)
        if how == "remove":
            shutil.rmtree(folder)
        return {"score": float(seed)}

    study = Study(leaves, factors={"how": [how, "fine"]}, seeds=1, metrics=["score"])
    with pytest.raises(SeedspreadError, match=why):
        study.run(tmp_path / "store", workers=1, progress=False, strict=True)
    assert list(study.runs(tmp_path / "store").table["how"]) == ["fine"]


def test_two_functions_of_one_name_are_two_studies(tmp_path: Path) -> None:
    def first() -> Study:
        def train(seed: int, width: int) -> dict[str, float]:
            return {"score": width + seed / 10}

        return Study(train, factors={"width": [1, 2]}, seeds=3, audit=AUDIT)

    def second() -> Study:
        def train(seed: int, depth: int) -> dict[str, float]:
            return {"score": depth + seed / 10}

        audit = {"group": "depth", "baseline": 1, "value": "score"}
        return Study(train, factors={"depth": [1, 2]}, seeds=3, audit=audit)

    for make in (first, second):
        make().run(tmp_path / "store", workers=1, progress=False)
    assert len(load_studies(Store(tmp_path / "store"))[0]) == 2
