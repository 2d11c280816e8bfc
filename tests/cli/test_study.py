"""`seedspread plan`, `run` and `status`, as a user runs them."""

import json
import re
import shutil
from pathlib import Path

from seedspread.errors import install_command
from tests.commands import seedspread_command, seedspread_here, without_torch
from tests.study.tiny import study_file


def test_plan_run_status(tmp_path: Path) -> None:
    study = str(study_file(tmp_path, seeds=1))
    store = str(tmp_path / "store")
    plan = seedspread_here("plan", study, "--store", store)
    assert plan.returncode == 0, plan.stderr
    assert "2 runs to do" in plan.stdout
    done = seedspread_command("run", study, "--store", store, "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["done"]) == 2
    assert "2/2 runs" in done.stderr
    status = seedspread_here("status", study, "--store", store)
    assert "2 runs: 2 " in status.stdout
    listed = json.loads(seedspread_here("status", study, "--store", store, "--json").stdout)
    assert {r["state"] for r in listed["runs"]} <= {"done", "collapsed"}
    more = str(study_file(tmp_path, seeds=2))
    half = " ".join(seedspread_here("status", more, "--store", store).stdout.split())
    assert "4 runs: 2 " in half
    assert "left" in half
    study = str(study_file(tmp_path, seeds=1))
    copied = shutil.copy(study, tmp_path / "copied.toml")  # no record of this study is in the store
    nexts = [seedspread_here("status", str(one), "--store", store).stdout for one in (study, copied)]
    assert ["Next: seedspread audit" in text for text in nexts] == [True, False]
    again = seedspread_here("plan", study, "--store", store, "--json")
    assert json.loads(again.stdout)["missing"] == 0


def test_failures_are_told_and_set_the_exit_code(tmp_path: Path) -> None:
    study = str(study_file(tmp_path, seeds=1, training__learning_rate=1e30))
    store = str(tmp_path / "store")
    assert seedspread_here("run", study, "--store", store, "--workers", "1").returncode == 0
    done = seedspread_here("run", study, "--store", store, "--workers", "1", "--retry-failed", "--strict")
    assert done.returncode == 3
    assert "not finite" in done.stderr
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("error: 2 runs ")
    assert "--retry-failed" in said
    status = seedspread_here("status", study, "--store", store)
    assert "2 failed" in status.stdout
    assert "failed: margin_type = clamp, seed 0: layer 0: " in " ".join(status.stdout.split())
    assert re.search("margin_type = (clamp|subtract), seed 0: ", said)
    for arm in ("clamp", "subtract"):
        assert f"failed: margin_type = {arm}, seed 0: " in done.stderr
    page = tmp_path / "page.html"
    assert seedspread_here("report", store, "--out", str(page)).returncode == 0
    assert "margin_type = clamp, seed 0" in page.read_text()


def test_a_plan_needs_neither_data_nor_torch(tmp_path: Path) -> None:
    done = without_torch("plan", "paper/all", "--store", str(tmp_path), "--data-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "119 runs, 102 of them distinct" in said
    assert (
        "paper/cifar10-factorial (margin_type = subtract, stability = detach) and paper/dose-response" in said
    )
    assert install_command("train") in said


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    for arguments, said in (
        (("plan", "paper/cifar"), "'paper/cifar100'"),
        (("run", "quickstart", "--backend", "slrum", "--store", str(tmp_path)), "'slurm'"),
        (("run", "paper/svhn", "--data-dir", str(tmp_path), "--store", str(tmp_path)), "data fetch svhn"),
        (("status", str(tmp_path / "none.toml"), "--store", str(tmp_path)), "No such file"),
        (("status", "quickstart", "--store", str(tmp_path / "none")), "there is no store"),
        (("status", "quickstart", "--store", __file__), "is not a folder; name another"),
        (
            ("run", "quickstart", "--backend", "slurm", "--gpus-per-run", "0.5", "--store", str(tmp_path)),
            "whole GPUs",
        ),
    ):
        done = seedspread_here(*arguments)
        assert done.returncode == 2
        assert done.stderr.strip().splitlines()[-1].startswith("error: ")
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def test_options_of_other_engines_are_refused_in_one_line(tmp_path: Path) -> None:
    study = str(study_file(tmp_path, seeds=1))
    for option in (["--no-wait"], ["--minutes", "5"], ["--address", "auto"]):
        done = seedspread_here("run", study, "--store", str(tmp_path / "store"), *option)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {option[0].replace('no-', '')} is for --backend ")
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_metric_that_is_none_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path = study_file(tmp_path, seeds=1)
    path.write_text(path.read_text() + 'value = "nnl"\n')
    done = seedspread_here("plan", str(path), "--store", str(tmp_path / "store"))
    assert done.returncode == 2
    assert "audit.value 'nnl'" in done.stderr
    assert "'nll'" in done.stderr
