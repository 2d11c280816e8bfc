"""`seedspread audit`, `seeds` and `verify-paper`; test_base_install.py runs them without torch."""

import json
from pathlib import Path

from tests.commands import PAPER, seedspread_here


def test_the_audit_tells_the_whole_story_in_one_screen(paper_csv: str, tmp_path: Path) -> None:
    plot = tmp_path / "a.png"
    done = seedspread_here("audit", paper_csv, *PAPER, "--plot", str(plot))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) < 40
    assert "clamp |" in " ".join(done.stdout.split())  # the strip plot
    assert "--details" in done.stdout
    assert "F test" not in done.stdout
    assert "F test" in seedspread_here("audit", paper_csv, *PAPER, "--details").stdout
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_other_forms(paper_csv: str) -> None:
    done = seedspread_here("audit", paper_csv, *PAPER, "--json")
    assert json.loads(done.stdout)["comparisons"][0]["group"] == "clamp"
    assert "\\toprule" in seedspread_here("audit", paper_csv, *PAPER, "--format", "latex").stdout
    assert "Assumes" in seedspread_here("audit", paper_csv, *PAPER, "--explain").stdout


def test_mistakes_are_one_line(paper_csv: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, said in (
        ((paper_csv, "--value", "acc", *PAPER[2:]), "'accuracy'"),
        ((paper_csv, *PAPER[:4]), "--block"),
        ((paper_csv, *PAPER, "--format", "word"), "--format"),
        ((str(tmp_path / "no.csv"),), "no.csv"),
        ((str(tmp_path / "no.db"), "--value", "x", "--group", "y", "--at", "best"), "no.db"),
        ((str(tmp_path / "empty"), "--value", "x", "--group", "y"), "empty"),
    ):
        done = seedspread_here("audit", *arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert said in done.stderr


def test_seed_budgets() -> None:
    assert seedspread_here("seeds", "--sd", "1.0", "--se", "0.3").stdout.split()[0] == "12"
    found = json.loads(seedspread_here("seeds", "--ratio", "5.9", "--json").stdout)
    assert found["seeds"] == [14, 14]
    assert json.loads(seedspread_here("seeds", "--n", "7", "--json").stdout)["seeds"] == [7, 7]
    nothing = seedspread_here("seeds")
    assert (nothing.returncode, nothing.stderr.count("\n")) == (2, 1)


def test_the_paper_is_verified() -> None:
    done = seedspread_here("verify-paper", "--only", "differs")
    assert done.returncode == 0, done.stderr
    assert "printed numbers reproduce" in done.stdout.splitlines()[0]
    found = json.loads(seedspread_here("verify-paper", "--json").stdout)
    assert set(found["summary"]) == {"numbers", "statements"}
    assert found["answer"][0]["title"]
    assert seedspread_here("verify-paper", "--only", "wrong").returncode == 2


def test_the_direction_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    values = {"a": [1.0, 1.1, 1.2, 1.3, 9.0, 9.1, 9.2], "b": [1.0, 1.05, 1.15, 1.25, 1.3, 1.35, 1.4]}
    rows = [f"{arm},{seed},{v}" for arm, some in values.items() for seed, v in enumerate(some)]
    path.write_text("\n".join(["arm,seed,out", *rows]))
    asked = ("audit", str(path), "--value", "out", "--group", "arm", "--baseline", "b")
    guessed = json.loads(seedspread_here(*asked, "--json").stdout)
    assert guessed["metric"]["better"] == "higher"
    found = json.loads(seedspread_here(*asked, "--lower-is-better", "--json").stdout)
    assert found["metric"]["better"] == "lower"
    assert found["comparisons"][0]["failures"]["failed"] == [3, 0]
    both = seedspread_here(*asked, "--lower-is-better", "--higher-is-better")
    assert (both.returncode, both.stderr.count("\n")) == (2, 1)
    assert "not both" in both.stderr


def test_a_picture_of_another_kind_is_refused_before_anything_is_read() -> None:
    done = seedspread_here("audit", "nowhere.csv", "--plot", "x.jpg")
    assert done.returncode == 2
    assert done.stderr.startswith("error: x.jpg ")
    assert done.stderr.count("\n") == 1
