"""`seedspread audit`, `seeds` and `verify-paper`, as a user without torch runs them."""

import json
import subprocess
import sys
from pathlib import Path

from seedspread.paper.page import published_table
from tests.cli.test_cli import seedspread_command, seedspread_here

PAPER = ("--value", "accuracy", "--group", "margin_type", "--block", "stability")


def paper_csv(tmp_path: Path) -> str:
    path = tmp_path / "paper.csv"
    table = published_table()
    table[table["setting"] == "cifar10"].to_csv(path, index=False)
    return str(path)


# Makes what the base install leaves out fail to import, without a trace that others could trip over.
NO_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('torch', 'pooch', 'requests', 'ray', 'submitit', 'tensorboard'):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoTorch())
"""


def without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = NO_TORCH + f"sys.argv = {['seedspread', *arguments]!r}\nfrom seedspread.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_audit_tells_the_whole_story_in_one_screen(tmp_path: Path) -> None:
    plot = tmp_path / "a.png"
    done = without_torch("audit", paper_csv(tmp_path), *PAPER, "--plot", str(plot))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) < 40
    text = " ".join(done.stdout.split())
    for said in (
        "clamp |",
        "Shown: the variance under clamp",
        "used as pairs",
        "can be detected",
        "--details",
    ):
        assert said in text
    assert "F test" not in text
    detailed = seedspread_here("audit", paper_csv(tmp_path), *PAPER, "--details").stdout
    assert "F test, pooled" in detailed
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_other_forms(tmp_path: Path) -> None:
    path = paper_csv(tmp_path)
    done = seedspread_command("audit", path, *PAPER, "--json")
    assert json.loads(done.stdout)["comparisons"][0]["group"] == "clamp"
    assert "\\toprule" in seedspread_here("audit", path, *PAPER, "--format", "latex").stdout
    explained = seedspread_here("audit", path, *PAPER, "--explain").stdout
    assert "Assumes independent seeds, arms of like shape; not testable" in " ".join(explained.split())


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    path = paper_csv(tmp_path)
    (tmp_path / "empty").mkdir()
    for arguments, said in (
        ((path, "--value", "acc", *PAPER[2:]), "did you mean 'accuracy'"),
        ((path, *PAPER[:4]), "--block"),
        ((path, *PAPER, "--format", "word"), "--format must be one of"),
        ((str(tmp_path / "no.csv"),), "does not exist"),
        ((str(tmp_path / "no.db"), "--value", "x", "--group", "y", "--at", "best"), "does not exist; give"),
        ((str(tmp_path / "empty"), "--value", "x", "--group", "y"), "holds no finished run; give"),
    ):
        done = seedspread_here("audit", *arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert said in done.stderr


def test_seed_budgets() -> None:
    assert without_torch("seeds", "--sd", "1.0", "--se", "0.3").stdout.startswith("12 seeds")
    found = json.loads(seedspread_here("seeds", "--ratio", "5.9", "--json").stdout)
    assert found["seeds"] == [14, 14]
    assert found["f_test"] == 12
    assert "7 seeds per arm detect" in seedspread_here("seeds", "--n", "7").stdout
    assert seedspread_here("seeds").stderr.startswith("error: say what is wanted")


def test_the_paper_is_verified_without_torch() -> None:
    done = without_torch("verify-paper", "--only", "differs")
    assert done.returncode == 0, done.stderr
    assert "claims:" in done.stdout
    found = json.loads(seedspread_here("verify-paper", "--json").stdout)
    assert set(found["summary"]) == {"reproduces", "differs", "not derivable"}
    assert [round(rung["p"], 3) for rung in found["ladder"]][:6] == [0.003, 0.001, 0.002, 0.022, 0.027, 0.07]
    assert found["answer"][0]["title"].startswith("The central claim")
    assert seedspread_here("verify-paper", "--only", "wrong").returncode == 2


def test_the_direction_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    values = {"a": [1.0, 1.1, 1.2, 1.3, 9.0, 9.1, 9.2], "b": [1.0, 1.05, 1.15, 1.25, 1.3, 1.35, 1.4]}
    rows = [f"{arm},{seed},{v}" for arm, some in values.items() for seed, v in enumerate(some)]
    path.write_text("\n".join(["arm,seed,out", *rows]))
    asked = ("audit", str(path), "--value", "out", "--group", "arm", "--baseline", "b", "--resamples", "200")
    guessed = json.loads(seedspread_here(*asked, "--json").stdout)
    assert any("Higher is taken to be better for out" in note for note in guessed["notes"])
    found = json.loads(seedspread_here(*asked, "--lower-is-better", "--json").stdout)
    assert found["metric"]["better"] == "lower"
    assert [arm["failed"] for arm in found["comparisons"][0]["collapse"]["arms"]] == [3, 0]
    both = seedspread_here(*asked, "--lower-is-better", "--higher-is-better")
    assert (both.returncode, both.stderr.count("\n")) == (2, 1)
    assert "not both" in both.stderr


def test_a_picture_of_another_kind_is_refused_before_anything_is_read() -> None:
    done = seedspread_here("audit", "nowhere.csv", "--plot", "x.jpg")
    assert done.returncode == 2
    assert done.stderr == "error: x.jpg must end in .pdf, .svg, .png\n"
