"""Studies of small programs, and single attempts at their runs in this process."""

from pathlib import Path
from typing import Any

from seedspread.runners import supervise
from seedspread.runners.contract import WorkItem
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from seedspread.study.worker import AttemptResult, attempt

LOG = f"""
sys.path.insert(0, {str(Path(supervise.__file__).parents[2])!r})
import seedspread
"""
STUDY = """
seeds = {seeds}
[run]
command = ["{{python}}", "-S", "train.py", "{{seed}}", "{{folder}}", "{{x}}"]
{run}
[factors]
x = {levels}
[metrics]
accuracy = {{ better = "higher", unit = "share", chance = 0.1 }}
[audit]
group = "x"
baseline = {baseline}
{more}
"""
# A value that depends on the seed and the level, as the last line of the output.
REPORTS = """
import json, os, sys, time
from pathlib import Path
seed, folder, x = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
def report(value=None):
    value = 0.5 + (seed * 7919 % 13) * (1 + float(x)) / 100 if value is None else value
    print(json.dumps({"accuracy": value}))
"""


def study_file(
    folder: Path,
    body: str = "report()",
    seeds: object = 1,
    levels: str = "[0.0, 0.5]",
    baseline: str = "0.0",
    run: str = "",
    more: str = "",
) -> Path:
    """A study whose program is REPORTS and `body`; `run` and `more` are lines of its file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(REPORTS + body + "\n")
    path = folder / "study.toml"
    path.write_text(STUDY.format(seeds=seeds, levels=levels, baseline=baseline, run=run, more=more))
    return path


def plan_of(folder: Path, *arguments: Any, **named: Any) -> Plan:
    """The same, planned in `folder/store`."""
    return Plan.make(StudySpec.from_file(study_file(folder, *arguments, **named)), folder / "store")


def attempt_first(plan: Plan) -> AttemptResult:
    """Tries the first run once, here."""
    run = plan.runs[0]
    return attempt(WorkItem(run, plan.runners[run.study]))


def failure_of(folder: Path, *arguments: Any, **named: Any) -> str:
    """Why the first run fails, in its one line."""
    plan = plan_of(folder, *arguments, **named)
    result = attempt_first(plan)
    key = plan.runs[0].key
    assert result.outcome == "failed"
    state = plan.store.state(key)
    assert (state.state, state.message) == ("failed", result.message)
    assert not plan.store.is_done(key)
    assert "\n" not in result.message
    return result.message


def is_there(path: Path) -> bool:
    return path.exists() and bool(path.read_text())


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
