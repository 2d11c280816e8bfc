"""The contract with a program, by single runs: what it is given, how it reports, how it fails, what it is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seedspread.runs.folder import RunFolder
from seedspread.runs.run import Run
from seedspread.runs.store import Store
from seedspread.study.plan import Plan
from seedspread.study.spec import StudyError, StudySpec
from seedspread.tables.from_store import all_runs
from tests.runners.programs import LOG, attempt_first, failure_of, plan_of, study_file


def record_of(plan: Plan) -> Run:
    return Run.read(str(plan.store.folder(plan.runs[0].key)))


def done(folder: Path, *arguments: object, **named: object) -> Plan:
    """A study whose first run is done."""
    plan = plan_of(folder, *arguments, **named)
    result = attempt_first(plan)
    assert result.outcome == "done", result.message
    return plan


# What it is given

GIVEN = """
folder.joinpath("given.json").write_text(json.dumps({
    "cwd": os.getcwd(), "arguments": sys.argv[1:], "environment": dict(os.environ), "stdin": sys.stdin.read(),
}))
report(0.5)
"""


def given(plan: Plan) -> dict[str, Any]:
    path = plan.store.folder(plan.runs[0].key).absolute() / "program" / "given.json"
    values: dict[str, Any] = json.loads(path.read_text())
    return values


def test_it_is_started_in_the_studys_folder_with_what_it_needs_to_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    plan = done(tmp_path / "a study", GIVEN, levels="[1.5, 2]", baseline="2", seeds="[5]")
    told = given(plan)
    folder = str(plan.store.folder(plan.runs[0].key) / "program")
    assert told["cwd"] == str(tmp_path / "a study")
    assert told["arguments"] == ["5", folder, "1.5"]
    assert told["stdin"] == ""
    environment = told["environment"]
    assert environment["SEEDSPREAD_FOLDER"] == folder
    assert environment["SEEDSPREAD_SEED"] == "5"
    assert json.loads(environment["SEEDSPREAD_PARAMETERS"]) == {"x": 1.5}
    assert (environment["OMP_NUM_THREADS"], environment["MKL_NUM_THREADS"]) == ("1", "7")


@pytest.mark.parametrize(
    "value",
    ["a b", "quo\"te's", "; rm -rf *", "$(touch pwned) `x`", "new\nline", "ünï 日本", "{seed}", "--", "\\"],
)
def test_a_value_is_one_argument_whatever_it_contains(tmp_path: Path, value: str) -> None:
    plan = done(tmp_path, GIVEN, levels=json.dumps([value, "other"]), baseline='"other"')
    assert given(plan)["arguments"][2] == value
    assert json.loads(given(plan)["environment"]["SEEDSPREAD_PARAMETERS"]) == {"x": value}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "study.toml", "train.py"]


def test_true_is_written_as_in_the_file(tmp_path: Path) -> None:
    plan = done(tmp_path, GIVEN, levels="[true, false]", baseline="true")
    assert given(plan)["arguments"][2] == "true"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{x}", "{y}", "run.command has {y}, which is not a parameter"),
        ("{x}", "{x:.2f}", "{x:.2f}, which is not a parameter"),
        ("{x}", "{}", "run.command has {}, which"),
        ("{x}", "${x", "single { in"),
        ("{x}", "x}", "single } in"),
        ("{x}", "{my", "placeholder that has a blank in quotes"),
        ('x = [', 'seed = [', "'seed' cannot be a parameter"),
        ('x = [', 'collapsed = [', "'collapsed' cannot be a parameter"),
        ('x = [', 'accuracy = [', "is a parameter and a metric"),
        ('accuracy = {', 'key = {', "metrics.key: the name is reserved"),
        ('command = ["{python}", ', 'command = ["", ', "run.command: must be a text or a list"),
        ('command = [', 'command = "a \'b" #', "run.command: cannot be split"),
        ("[factors]", "timeout = 0\n[factors]", "run.timeout: must be a time"),
        ("[factors]", 'timeout = "2 weeks"\n[factors]', "run.timeout: must be a time"),
        ("[factors]", 'inputs = ["nothing.py"]\n[factors]', "inputs: 'nothing.py'"),
        ("[factors]", 'inputs = [""]\n[factors]', "inputs: ''"),
        ("[factors]", 'input = ["train.py"]\n[factors]', "'inputs'"),
        ("[metrics]", "[metric]", "'metrics'"),
        ("seeds = 1", "seeds = 1\npreset = 'quickstart'", 'runner = "cff"'),
        ("seeds = 1", "seeds = 1\nvary = ['init']", "'init'"),
    ],
)  # fmt: skip
def test_mistakes_in_a_study_are_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = study_file(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(StudyError) as caught:
        StudySpec.from_file(path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_doubled_brace_is_a_brace(tmp_path: Path) -> None:
    path = study_file(tmp_path, GIVEN)
    path.write_text(path.read_text().replace('"{x}"', '"{x}", "{{x}}", "a{{{x}}}"'))
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    assert attempt_first(plan).outcome == "done"
    assert given(plan)["arguments"][3:] == ["{x}", "a{0.0}"]


def test_a_program_that_is_not_there_is_told_before_anything_starts(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    path.write_text(path.read_text().replace("{python}", "no-such-program"))
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    with pytest.raises(Exception, match="the program 'no-such-program' is not there") as caught:
        plan.check()
    assert "\n" not in str(caught.value)


def test_a_command_may_be_a_text_and_its_program_lie_in_the_studys_folder(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    (tmp_path / "a b.sh").write_text('#!/bin/sh\necho "{\\"accuracy\\": 0.$2}"\n')
    (tmp_path / "a b.sh").chmod(0o755)
    lines = [
        "command = '''./\"a b.sh\" {x} {seed}'''" if line.startswith("command") else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines))
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    plan.check()
    assert attempt_first(plan).outcome == "done"
    assert record_of(plan).metrics == {"accuracy": 0.1}


# How it reports


def test_the_file_comes_before_the_last_line_and_that_before_the_log(tmp_path: Path) -> None:
    body = LOG + (
        "seedspread.log(accuracy=0.1, b=1, c=1, epoch=1); seedspread.log(b=2, epoch=2)\n"
        "folder.joinpath('metrics.json').write_text('{\"accuracy\": 0.3}')\n"
        "print('no json'); print(json.dumps({'accuracy': 0.2, 'c': 2, 'x': 99, 'seed': 98, 'note': 'a'}))\n"
    )
    plan = done(tmp_path, body)
    assert record_of(plan).metrics == {"accuracy": 0.3, "b": 2, "c": 2, "epoch": 2}
    table = all_runs(Store(tmp_path / "store"))[0]
    assert (table["x"][0], table["seed"][0]) == (0.0, 1)  # not what the program said of its parameters
    pytest.importorskip("pyarrow")
    curve = RunFolder(plan.store.folder(plan.runs[0].key)).history(["epoch", "b", "accuracy"])
    assert curve.to_pydict() == {"epoch": [1, 2], "b": [1, 2], "accuracy": [0.1, None]}


def test_processes_that_a_program_forks_log_whole_lines(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    body = LOG + (
        "seedspread.log(accuracy=0.5)\n"
        "children = []\n"
        "for n in range(4):\n"
        "    children.append(os.fork())\n"
        "    if not children[-1]:\n"
        "        for i in range(500): seedspread.log(n=n, step=i)\n"
        "        os._exit(0)\n"
        "for child in children: os.waitpid(child, 0)\n"
    )
    plan = done(tmp_path, body)
    curve = RunFolder(plan.store.folder(plan.runs[0].key)).history(["n", "step"]).to_pydict()
    assert sorted(zip(curve["n"][1:], curve["step"][1:], strict=True)) == [
        (n, step) for n in range(4) for step in range(500)
    ]


def test_log_needs_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import seedspread; seedspread.log(a=1)\n"
        "print(sorted(n for n in {m.split('.')[0] for m in set(sys.modules) - before}"
        " if n not in sys.stdlib_module_names and n != 'seedspread'))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_run_that_learnt_nothing_has_collapsed(tmp_path: Path) -> None:
    plan = done(tmp_path, "report(0.1)")
    assert plan.store.state(plan.runs[0].key).state == "collapsed"


# How it fails


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print('deep'); sys.exit(3)", "exit status 3 (last output: deep)"),
        ("sys.exit(3)", "exit status 3 (no output)"),
        ("os.kill(os.getpid(), 11)", "signal 11 (SIGSEGV)"),
        ("raise ValueError('bad \\x1b[31m [/red]')", "ValueError: bad  [/red]"),
        ("print('fine')", "metric 'accuracy' is missing: it reported nothing (last output: fine)"),
        ("print('{\"acc\": 1}')", "metric 'accuracy' is missing: it reported 'acc'"),
        ("report('high')", "metric 'accuracy' is not a number: 'high'"),
        ("report(True)", "metric 'accuracy' is not a number: True"),
        ("report(float('nan'))", "metric 'accuracy' is NaN or infinite"),
        ("report(float('inf'))", "metric 'accuracy' is NaN or infinite"),
        ("print('{\"accuracy\": null}')", "metric 'accuracy' is NaN or infinite"),
        ("folder.joinpath('metrics.json').write_text('[1]')", "metrics.json holds no JSON object"),
        ("folder.joinpath('metrics.json').write_text('{\"acc')", "metrics.json cannot be read"),
        ("folder.joinpath('metrics.json').mkdir()", "metrics.json cannot be read"),
        ("folder.joinpath('metrics.json').symlink_to('/etc/passwd')", "metrics.json cannot be read"),
        (LOG + "seedspread.log(accuracy=0.1); seedspread.log(accuracy=float('nan'))", "NaN or infinite"),
        ("print('x' * 9999); sys.exit(1)", "xxx ...)"),
    ],
)  # fmt: skip
def test_each_way_to_fail_is_named_in_a_line(tmp_path: Path, body: str, said: str) -> None:
    message = failure_of(tmp_path, body)
    assert said in message
    assert "log.txt" in message
    assert len(message) < 700


def test_the_tail_of_the_log_is_kept_with_the_failure(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "for i in range(99): print(i)\nsys.exit(1)")
    attempt_first(plan)
    failure = plan.store.run(plan.runs[0].key).failure()
    assert failure is not None
    assert failure.details["log_tail"].split() == [str(i) for i in range(79, 99)]
    assert failure.details["exit_status"] == 1


def test_a_timeout_fails_a_run(tmp_path: Path) -> None:
    message = failure_of(tmp_path, "print('slow', flush=True); time.sleep(600)", run='timeout = "0.5s"')
    assert "it took longer than its timeout of 0.5 s (last output: slow)" in message


def test_a_program_that_cannot_be_started_fails(tmp_path: Path) -> None:
    path = study_file(tmp_path, levels='["./gone", "{python}"]', baseline='"./gone"')
    path.write_text(path.read_text().replace('"{python}", "-S"', '"{x}", "-S"', 1))
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    assert "could not be started: No such file or directory: ./gone" in attempt_first(plan).message


# Its folder

FOREIGN = """
for name in ("result.json", "failure.json", "run.json", "lease-000009.json", ".result-0123456789abcdef.json",
             "checkpoint-000001-0123456789abcdef.safetensors"):
    folder.joinpath(name).write_text("{}")
(folder / "checkpoint-500").mkdir(exist_ok=True)
(folder / "checkpoint-500" / "result.json").write_text("{}")
"""
RESUMES = """
seen = folder / "attempts"
seen.write_text(seen.read_text() + "x" if seen.exists() else "x")
print("attempt", len(seen.read_text()))
if len(seen.read_text()) < 2: sys.exit(1)
report(0.5)
"""


def test_what_it_writes_into_its_folder_is_its_own(tmp_path: Path) -> None:
    plan = done(tmp_path, FOREIGN + "report(0.5)")
    own = plan.store.folder(plan.runs[0].key) / "program"
    assert len(list(own.rglob("*"))) == 8
    assert len(all_runs(Store(tmp_path / "store"))[0]) == 1
    assert not plan.store.problems()
    assert plan.store.keys() == [plan.runs[0].key]


def test_its_folder_is_kept_when_it_is_tried_again(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, FOREIGN + RESUMES)
    assert "attempt 1" in attempt_first(plan).message
    assert plan.store.state(plan.runs[0].key).state == "failed"
    assert attempt_first(plan).outcome == "done"
    assert len(list((plan.store.folder(plan.runs[0].key) / "program").rglob("*"))) == 9


def test_an_attempt_is_told_by_its_own_output(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "folder.joinpath('x').touch()\nprint('first'); sys.exit(1)")
    assert "last output: first" in attempt_first(plan).message
    (tmp_path / "train.py").write_text("raise SystemExit(2)")
    assert "exit status 2 (no output)" in attempt_first(plan).message


@pytest.mark.parametrize("end", ["interrupted", "failed", "left nothing"])
def test_what_was_logged_counts_where_an_attempt_was_interrupted(tmp_path: Path, end: str) -> None:
    leaves = "" if end == "left nothing" else "folder.joinpath('x').touch()\n"
    plan = plan_of(tmp_path, LOG + leaves + "seedspread.log(accuracy=0.5, epoch=1); sys.exit(1)")
    attempt_first(plan)
    if end == "interrupted":  # nobody was there to note that it failed
        (plan.store.folder(plan.runs[0].key) / "attempt.json").unlink()
    (tmp_path / "train.py").write_text("import sys\n" + LOG + "seedspread.log(epoch=2)")
    result = attempt_first(plan)
    if end == "interrupted":
        assert record_of(plan).metrics == {"accuracy": 0.5, "epoch": 2}
    else:
        assert "metric 'accuracy' is missing" in result.message


# What it is


def keys(plan: Plan) -> list[str]:
    return [run.key for run in plan.runs]


def test_a_run_is_its_command_parameters_seed_inputs_and_variables_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODE", "a")
    run = 'inputs = ["train.py"]\nenvironment = ["MODE"]'
    before = keys(plan_of(tmp_path / "a", run=run))
    assert keys(plan_of(tmp_path / "b", run=run + '\ntimeout = "1h"', more="[settings]")) == before
    monkeypatch.setenv("OTHER", "x")
    assert keys(plan_of(tmp_path / "a", run=run)) == before
    monkeypatch.setenv("MODE", "b")
    assert not set(keys(plan_of(tmp_path / "a", run=run))) & set(before)
    monkeypatch.delenv("MODE")
    assert not set(keys(plan_of(tmp_path / "a", run=run))) & set(before)
    monkeypatch.setenv("MODE", "a")
    assert not set(keys(plan_of(tmp_path / "a", "report(0.9)", run=run))) & set(before)
    assert not set(keys(plan_of(tmp_path / "a", run=run, more="[settings]\nlr = 1"))) & set(before)
    assert not set(keys(plan_of(tmp_path / "a", run=run, seeds="[2]"))) & set(before)


@pytest.mark.parametrize("planned", ["a", None])
def test_a_declared_variable_is_what_was_planned_wherever_the_run_takes_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: str | None
) -> None:
    monkeypatch.delenv("MODE", raising=False)
    if planned:
        monkeypatch.setenv("MODE", planned)
    plan = plan_of(tmp_path, GIVEN, run='environment = ["MODE"]')
    monkeypatch.setenv("MODE", "another, on this node")
    assert attempt_first(plan).outcome == "done"
    assert given(plan)["environment"].get("MODE") == planned


def test_a_run_that_has_begun_keeps_its_threads(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, GIVEN)
    folder = plan.store.folder(plan.runs[0].key)
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"key": plan.runs[0].key, "threads": 3}))
    assert attempt_first(plan).outcome == "done"
    expected = os.environ.get("OMP_NUM_THREADS", "3")
    assert given(plan)["environment"]["OMP_NUM_THREADS"] == expected
    assert record_of(plan).provenance["threads"] == 3


@pytest.mark.parametrize("leaves", ["", "folder.joinpath('x').touch()\n"])
def test_what_is_logged_after_a_failure_counts(tmp_path: Path, leaves: str) -> None:
    plan = plan_of(tmp_path, LOG + leaves + "seedspread.log(accuracy=0.11, epoch=1); sys.exit(1)")
    assert attempt_first(plan).outcome == "failed"
    (tmp_path / "train.py").write_text("import sys\n" + LOG + "seedspread.log(accuracy=0.9)")
    assert attempt_first(plan).outcome == "done"
    assert record_of(plan).metrics == {"accuracy": 0.9}
