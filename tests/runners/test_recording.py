"""`log` and `log_predictions`, as a training program calls them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import seedspread
from seedspread.runners.own_code import read_logged
from seedspread.runners.recording import FOLDER, PREDICTIONS, VALUES
from seedspread.study.display import tidy_runs
from tests.runners.programs import LOG, attempt_first, plan_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layer": -1}, "must be a whole number from 0 to 9999; got -1"),
        ({"layer": 1.5}, "must be a whole number from 0 to 9999; got 1.5"),
        ({"layer": 10_000}, "must be a whole number"),
        ({"layer": "first"}, "must be a number; got 'first'"),
        ({"layer": True}, "must be a number; got True"),
        ({"layer": 0, "rate": 60}, "rate=.* 0 to 1; got 60"),
        ({"layer": 0, "gradient_norm": [1.0, 2.0]}, "gradient_norm=...\\) must be a single number"),
    ],
)
def test_a_wrong_call_about_a_layer_is_one_line(folder: Path, values: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message) as refused:
        seedspread.log(**values)
    assert "\n" not in str(refused.value)
    assert not (folder / VALUES).exists()


def test_what_is_logged_of_a_layer_is_no_metric_of_the_run(folder: Path) -> None:
    seedspread.log(loss=1.5, epoch=1)
    seedspread.log(layer=np.int64(2), rate=np.float32(0.5), loss=9.0, epoch=1)
    found = read_logged(folder)
    assert found.values == {"loss": 1.5, "epoch": 1}
    assert found.curve[1] == {"layer": 2, "rate": 0.5, "loss": 9.0, "epoch": 1}
    of_parameter = read_logged(folder, by_layer=False)  # of a program whose parameter is called so
    assert of_parameter.values == {"loss": 9.0, "epoch": 1, "layer": 2, "rate": 0.5}


def test_it_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; from seedspread import log; log(loss=1.0)\n"
        "own = sys.stdlib_module_names | {'seedspread', '__main__'}\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - own))"
    )
    # -S: what is installed may import things of its own accord when Python starts.
    path = str(Path(seedspread.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.stdout.strip() == "[]"


def test_of_a_metric_the_last_value_counts_and_all_are_its_curve(folder: Path) -> None:
    seedspread.log(loss=3.0, epoch=1)
    seedspread.log(loss=2.0, epoch=2)
    seedspread.log(accuracy=np.float32(0.5))
    reported = read_logged(folder)
    assert reported.values == {"loss": 2.0, "epoch": 2, "accuracy": 0.5}
    assert reported.curve == ({"loss": 3.0, "epoch": 1}, {"loss": 2.0, "epoch": 2}, {"accuracy": 0.5})


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), np.float32("inf")])
def test_what_is_not_finite_is_null(folder: Path, value: Any) -> None:
    seedspread.log(loss=value)
    assert json.loads((folder / VALUES).read_text()) == {"loss": None}


@pytest.mark.parametrize("value", ["0.5", True, None, [1.0], np.zeros(2), {}])
def test_what_is_no_number_is_refused_by_its_name(folder: Path, value: Any) -> None:
    with pytest.raises(TypeError, match=r"log\(loss=\.\.\.\) must be a"):
        seedspread.log(loss=value)
    assert not (folder / VALUES).exists()


def test_outside_a_run_it_goes_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    monkeypatch.chdir(tmp_path)
    seedspread.log(loss=1.0)
    seedspread.log_predictions([0], [0], [[0.0, 1.0]])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError):
        seedspread.log(loss="low")  # type: ignore[arg-type]


def test_lines_of_several_processes_do_not_mix(folder: Path) -> None:
    code = (
        "import os, seedspread\n"
        "seedspread.log(who=0, i=-1)\n"
        "children = []\n"
        "for who in range(4):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        for i in range(200): seedspread.log(who=who, i=i)\n"
        "        os._exit(0)\n"
        "    children.append(child)\n"
        "for child in children: os.waitpid(child, 0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    lines = [json.loads(line) for line in (folder / VALUES).read_text().splitlines()]
    assert len(lines) == 801
    for who in range(4):
        assert [line["i"] for line in lines[1:] if line["who"] == who] == list(range(200))


def test_another_folder_is_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(FOLDER, str(tmp_path / name))
        seedspread.log(**{name: 1.0})
    assert [read_logged(tmp_path / name).values for name in ("a", "b")] == [{"a": 1.0}, {"b": 1.0}]


def test_predictions_are_kept_and_the_last_count(folder: Path) -> None:
    for shift in (0, 1):
        seedspread.log_predictions([5, 7], np.array([0, 1]), [[0.0, 1.0 + shift], [2.0, 3.0]])
    arrays = load_file(folder / PREDICTIONS)
    assert arrays["ids"].tolist() == [5, 7]
    assert arrays["logits"].tolist() == [[0, 2], [2, 3]]
    assert sorted(path.name for path in folder.iterdir()) == [PREDICTIONS]


@pytest.mark.parametrize(
    ("ids", "labels", "logits", "words"),
    [
        ([1], [0, 1], [[0.0, 1.0]] * 2, "ids and labels must be"),
        ([1, 2], [0, 1], [0.0, 1.0], "ids and labels must be"),
        ([], [], np.zeros((0, 2)), "ids and labels must be"),
        ([1], [2], [[0.0, 1.0]], "between 0 and 1"),
        ([1], [-1], [[0.0, 1.0]], "between 0 and 1"),
    ],
)
def test_predictions_of_the_wrong_shape_are_refused(
    folder: Path, ids: Any, labels: Any, logits: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        seedspread.log_predictions(ids, labels, logits)
    assert list(folder.iterdir()) == []


def test_it_does_not_log_through_a_link(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "file"
    outside.write_text("precious")
    (folder / VALUES).symlink_to(outside)
    with pytest.raises(OSError, match="symbolic links"):
        seedspread.log(loss=1.0)
    assert outside.read_text() == "precious"
    (folder / VALUES).unlink()
    seedspread.log(loss=1.0)
    assert read_logged(folder).values == {"loss": 1.0}


def test_what_a_process_logs_that_has_lost_its_lease_is_not_the_holders(tmp_path: Path) -> None:
    """The first attempt is interrupted, goes on unseen, and logs while the second one runs."""
    body = """
import seedspread
mine = Path(os.environ["SEEDSPREAD_LOG"])
if mine.name == "000001":
    (folder / "state").touch()
    seedspread.log(accuracy=0.45, epoch=1)
    os.kill(os.getppid(), 9)
    time.sleep(60)
seedspread.log(accuracy=1.0, epoch=2)
with open(mine.parent / "000001" / "values.jsonl", "a") as stale:
    stale.write('{"accuracy": 0.45}\\n')
"""
    plan = plan_of(tmp_path, LOG.strip() + body, levels="[0.0]")
    assert attempt_first(plan).outcome == "failed"  # its supervisor was killed
    assert attempt_first(plan).outcome == "done"
    assert list(tidy_runs(plan)["accuracy"]) == [1.0]
    curve = plan.store.run(plan.runs[0].key).history(["epoch"])
    assert curve["epoch"].to_pylist() == [1.0, 2.0]


def test_tensors_of_any_kind_are_taken(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    for logits in (torch.randn(1, 3, dtype=torch.bfloat16), torch.randn(1, 3, requires_grad=True)):
        seedspread.log_predictions(torch.tensor([7]), torch.tensor([2]), logits)
        stored = load_file(folder / PREDICTIONS)
        assert stored["logits"] == pytest.approx(logits.detach().float().numpy())
    with pytest.raises(ValueError, match=r"ids and labels must be \(N,\)"):
        seedspread.log_predictions([], [], torch.zeros(0, 3))
