"""Git revisions as a factor: real repositories, in which nothing is changed."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from seedspread.cli import app
from seedspread.runners.revisions import FOLDER
from seedspread.study.display import tidy_runs
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.spec import StudyError, StudySpec
from tests.study.here import Here

TRAIN = """
import sys
import helper
print(f"acc: {80 + helper.SCALE * (int(sys.argv[1]) * 7919 % 13)}")
"""
STUDY = """
seeds = 3
[run]
command = "{{python}} code/train.py {{seed}}"
revisions = {revisions}
{run}
[metrics]
acc = {{ regex = 'acc: ([\\d.]+)' }}
[audit]
group = "revision"
baseline = "main"
value = "acc"
"""


def git(folder: Path, *words: str) -> str:
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    named = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *named, *words],
        env={**os.environ, **own}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three commits, a branch, and a working tree with a change and a new file; its code in a folder."""
    top = tmp_path / "repository"
    (top / "code").mkdir(parents=True)
    git(top, "init", "--quiet", "--initial-branch=main")
    for scale in (1, 2):
        (top / "code" / "train.py").write_text(TRAIN)
        (top / "code" / "helper.py").write_text(f"SCALE = {scale}\n")
        git(top, "add", "--all")
        git(top, "commit", "--quiet", "--message", f"scale {scale}")
    git(top, "checkout", "--quiet", "-b", "wide")
    (top / "code" / "helper.py").write_text("SCALE = 3\n")
    git(top, "commit", "--quiet", "--all", "--message", "scale 3")
    git(top, "checkout", "--quiet", "main")
    (top / "code" / "helper.py").write_text("from new import SCALE\n")
    (top / "code" / "new.py").write_text("SCALE = 4\n")
    return top


def study(top: Path, revisions: str, run: str = "") -> Path:
    path = top / "study.toml"
    path.write_text(STUDY.format(revisions=revisions, run=run))
    return path


def plan_of(top: Path, revisions: str = '["main", "main~1", "wide", "."]', run: str = "") -> Plan:
    return Plan.make(StudySpec.from_file(study(top, revisions, run)), top.parent / "store")


def scales(plan: Plan) -> dict[str, float]:
    """What the code of each revision multiplies with, as its runs show it."""
    table = tidy_runs(plan, ["acc"]).query("seed == 1")
    return {str(row["revision"]): (row["acc"] - 80) / (7919 % 13) for _, row in table.iterrows()}


def content(folder: Path) -> dict[str, str]:
    """Every file of a repository but the study's, git's own included."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "study.toml"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_each_revision_runs_its_own_code_and_the_checkout_is_left_alone(repository: Path) -> None:
    before = content(repository)
    plan = plan_of(repository)
    assert not run_plan(plan, LocalExecutor(workers=2)).failed
    assert scales(plan) == {"main": 2, "main~1": 1, "wide": 3, ".": 4}
    assert content(repository) == before
    assert git(repository, "worktree", "list").count("\n") == 0
    assert plan_of(repository).missing() == {}


def test_a_commit_is_its_hash_whatever_it_is_called_and_the_working_tree_its_content(
    repository: Path,
) -> None:
    plan = plan_of(repository, '["main", "."]')
    names = {run.cell[0][1]: run.key for run in plan.runs if run.seed == 1}
    other = plan_of(repository, f'["main", "{git(repository, "rev-parse", "main")[:9]}~1", "."]')
    same = {run.cell[0][1]: run.key for run in other.runs if run.seed == 1}
    assert (same["main"], same["."]) == (names["main"], names["."])
    run_plan(plan, Here())
    (repository / "code" / "new.py").write_text("SCALE = 5\n")
    changed = plan_of(repository, '["main", "."]')
    assert len(changed.stale) == len(changed.missing()) == 3
    git(repository, "commit", "--quiet", "--all", "--message", "moved on")
    assert len(plan_of(repository, '["main", "wide"]').missing()) == 6


def test_a_checkout_that_vanished_is_made_again_and_two_share_one(repository: Path) -> None:
    plan = plan_of(repository, '["main", "wide"]')
    plan.prepare()
    shutil.rmtree(plan.store.path / FOLDER)
    command = [sys.executable, "-m", "seedspread", "run", "study.toml", "--store", "../store"]
    jobs = [subprocess.Popen(command, cwd=repository) for _ in range(2)]
    assert [job.wait(timeout=300) for job in jobs] == [0, 0]
    assert scales(plan) == {"main": 2, "wide": 3}


def test_a_setup_runs_once_per_revision_in_an_environment_of_its_own(repository: Path) -> None:
    install = (
        "import helper, sysconfig; open(sysconfig.get_path('purelib') + '/told.py', 'w').write(f'SCALE = "
    )
    install += "{100 * helper.SCALE}')"
    setup = f'''setup = """cd code && echo once >> ../count && python -c "{install}" """'''
    (repository / "code" / "train.py").write_text(TRAIN.replace("helper", "told"))
    git(repository, "add", "code")
    git(repository, "commit", "--quiet", "--message", "what the setup installs")
    git(repository, "checkout", "--quiet", "-b", "other")
    (repository / "code" / "helper.py").write_text("SCALE = 7\n")
    git(repository, "commit", "--quiet", "--all", "--message", "another")
    plan = plan_of(repository, '["main", "other"]', setup)
    assert not run_plan(plan, LocalExecutor(workers=2)).failed
    assert scales(plan) == {"main": 400, "other": 700}
    counts = list((plan.store.path / FOLDER).glob("*/checkout/count"))
    assert [count.read_text() for count in counts] == ["once\n"] * 2


@pytest.mark.parametrize(
    ("revisions", "run", "message"),
    [
        ('["main", "wid"]', "", "no revision is called 'wid'"),
        ('["main", "--help"]', "", "no revision is called '--help'"),
        ('["main", "HEAD"]', "", "main and HEAD are the same commit"),
        ('["main", "main"]', "", "main and main are the same"),
        ("[]", 'setup = "true"', "setup needs revisions"),
    ],
)
def test_revisions_that_cannot_be(repository: Path, revisions: str, run: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        plan_of(repository, revisions, run)


def test_a_factor_of_ones_own_and_a_place_without_commits(repository: Path, tmp_path: Path) -> None:
    path = study(repository, '["main", "wide"]')
    path.write_text(path.read_text() + "[factors]\nrevision = [1, 2]\n")
    with pytest.raises(StudyError, match="rename yours"):
        StudySpec.from_file(path)
    with pytest.raises(StudyError, match="is not in a git repository"):
        plan_of(tmp_path, '["main"]')
    git(tmp_path, "init", "--quiet")
    with pytest.raises(StudyError, match="has no commit yet"):
        plan_of(tmp_path, '["main"]')


def test_a_setup_that_fails_is_one_line_and_no_run_is_lost(repository: Path) -> None:
    study(repository, '["main", "wide"]', 'setup = "echo gone wrong; exit 7"')
    told = CliRunner().invoke(app, ["run", str(repository / "study.toml"), "--store", str(repository / "s")])
    assert "run.setup of main ended with status 7 (last output: gone wrong); see" in str(told.exception)
    mended = Plan.make(StudySpec.from_file(study(repository, '["main", "wide"]')), repository / "s")
    assert {state.state for state in mended.states().values()} == {"waiting"}


def typed(folder: Path, *words: str) -> Result:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(app, ["run", "--store", "../typed", *words])
    finally:
        os.chdir(before)


def test_a_command_is_typed_without_a_study(repository: Path) -> None:
    asked = ("--revisions", "main..wide", "--seeds", "3")
    told = typed(
        repository, *asked, "--metric", r"acc=acc: ([\d.]+)", "--", "python", "code/train.py", "{seed}"
    )
    assert told.exit_code == 0, told.output
    assert "Next: seedspread audit ../typed --study revisions" in told.output
    assert "Checkouts: ../typed/.revisions" in told.output
    assert "goes with --seeds and a command" in str(typed(repository, "--revisions", "main..wide").exception)


def test_what_is_measured_need_not_be_named(repository: Path) -> None:
    (repository / "code" / "train.py").write_text("print('{\"loss\": 0.5}')")
    git(repository, "commit", "--quiet", "--all", "--message", "prints JSON")
    told = typed(repository, "--revisions", "main,.", "--seeds", "3", "--", "python", "code/train.py")
    assert "--study revisions --group revision --baseline main --value loss" in told.output
