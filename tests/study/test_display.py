"""What is said of a study while it runs, on a terminal and elsewhere."""

import io
import re
from pathlib import Path

from seedspread.cli.study import _summary
from seedspread.render.terminal import Terminal
from seedspread.study.display import ProgressDisplay, _facts
from seedspread.study.executor import StudyProgress
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from tests.study.dice import dice_study
from tests.study.here import Here


def half_way() -> StudyProgress:
    return StudyProgress(
        total=8, done={"a"}, failed={"b": "not finite"}, before=4,
        titles={"b": "margin_type = clamp, seed 3"},
        seconds_left=100.0,
    )  # fmt: skip


def shown(progress: StudyProgress, width: int, *, terminal: bool) -> str:
    file = io.StringIO()
    with ProgressDisplay(Terminal(file=file, width=width, force_terminal=terminal)) as progressing:
        progressing.tell(progress)
    return file.getvalue()


def test_a_line_has_counts_and_the_time_left() -> None:
    lines = shown(half_way(), 80, terminal=False).splitlines()
    assert lines[0] == "failed: margin_type = clamp, seed 3: not finite"
    assert lines[1] == "5/12 runs done, 1 failed, about 2 min left"


def test_a_terminal_has_a_bar_and_the_time_left() -> None:
    for width in (60, 80, 120, 200):
        text = shown(half_way(), width, terminal=True)
        assert "5/12" in text
        assert len(facts := _facts(half_way())) == 2
        assert all(fact in text for fact in facts)


def test_a_run_that_failed_is_not_done() -> None:
    ended = StudyProgress(8, done=set("abcdef"), failed={"g": "x", "h": "y"})
    assert re.findall(r"\d+", shown(ended, 80, terminal=False).splitlines()[-1]) == ["6", "8", "2"]


def test_a_run_that_another_command_mended_is_not_counted_as_failed(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=1), tmp_path / "store")
    run_plan(plan, Here())
    first, second = plan.distinct
    line = _summary(plan, StudyProgress(2, done={first}, failed={second: "x"}), tmp_path / "store", "dice")
    assert line.startswith("2 of 2 runs are done (1 new). Store: ")


def test_nothing_is_said_twice() -> None:
    file = io.StringIO()
    with ProgressDisplay(Terminal(file=file, width=80)) as progressing:
        for _ in range(3):
            progressing.tell(StudyProgress(2, done={"a", "b"}))
    assert file.getvalue().startswith("2/2 ")
    assert file.getvalue().count("\n") == 1
