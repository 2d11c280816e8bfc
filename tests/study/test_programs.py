"""Studies of programs: what holds for the paper's studies holds for them."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seedspread.analysis.audit import audit
from seedspread.cli import app
from seedspread.report.load import load_store
from seedspread.report.page import Report
from seedspread.runs.store import Store, finished_runs
from seedspread.runs.studies import load_studies, recorded_study
from seedspread.study.display import lacking, tidy_runs
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from seedspread.tables.from_store import all_runs
from seedspread.tables.question import TableError
from tests.runners.programs import LOG, is_alive, is_there, plan_of, study_file
from tests.study.faults import disturb
from tests.study.here import Here
from tests.study.processes import Start, wait_for
from tests.study.tiny import results, tiny_study


def cli(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def run(plan: Plan, *, retry_failed: bool = False) -> None:
    progress = run_plan(plan, Here(), retry_failed=retry_failed)
    assert not progress.failed, progress.failed
    assert not progress.left


def test_a_study_of_a_program_from_its_plan_to_its_report(tmp_path: Path) -> None:
    path, store = study_file(tmp_path, seeds=4), tmp_path / "store"
    assert "8 runs " in cli("plan", path, "--store", store)
    told = cli("run", path, "--store", store, "--workers", 2)
    assert told.endswith("--study study")
    assert len(results(store)) == 8
    assert "8 runs: 8 " in cli("status", path, "--store", store)
    found = json.loads(cli("audit", store, "--group", "x", "--baseline", "0", "--json"))
    assert found["rows"] == 8
    cli("report", store, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "-S train.py" in page


def test_a_failure_leaves_the_others_alone_and_can_be_retried(tmp_path: Path) -> None:
    body = """
tries = folder / "tries"
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
if seed == 2 and len(tries.read_text()) < 2: print("not yet"); sys.exit(4)
report()
"""
    plan = plan_of(tmp_path, body, seeds=2)
    progress = run_plan(plan, LocalExecutor(workers=2))
    assert (len(progress.done), len(progress.failed)) == (2, 2)
    assert all("4 " in message and "not yet" in message for message in progress.failed.values())
    assert len(run_plan(plan, Here()).failed) == 2
    run(plan, retry_failed=True)
    assert len(results(plan.store.path)) == 4


SAVES = """
import signal
def save(*_):
    folder.joinpath("saved").write_text("yes")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
(folder / "pid").write_text(str(os.getpid()))
if not (folder / "saved").exists():
    print("waiting", flush=True)
    time.sleep(600)
report()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_stopping_gives_programs_time_to_save_and_they_resume(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    path, store = study_file(tmp_path, SAVES), tmp_path / "store"
    process = start("--workers", "2")
    wait_for(lambda: len([p for p in store.glob("*/program/pid") if is_there(p)]) == 2)
    wait_for(lambda: "waiting" in cli("status", path, "--store", store))
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "resume" in err
    assert "Traceback" not in err
    assert not any(is_alive(int(pid.read_text())) for pid in store.glob("*/program/pid"))
    assert len(list(store.glob("*/program/saved"))) == 2
    assert not results(store)
    run(Plan.make(StudySpec.from_file(path), store))


def test_a_closed_terminal_leaves_no_process(start: Start, tmp_path: Path) -> None:
    """The whole process group of a study is gone at once; a program's own child is in another."""
    body = "import subprocess\nother = subprocess.Popen(['sleep', '600'])\n"
    body += "(folder / 'pids').write_text(f'{os.getpid()} {other.pid}'); time.sleep(600)"
    study_file(tmp_path, body)
    process = start("--workers", "2")
    store = tmp_path / "store"
    wait_for(lambda: len([p for p in store.glob("*/program/pids") if is_there(p)]) == 2)
    os.killpg(process.pid, signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    pids = [int(pid) for path in store.glob("*/program/pids") for pid in path.read_text().split()]
    wait_for(lambda: not any(map(is_alive, pids)))
    assert "Traceback" not in err


def test_two_commands_at_once_share_the_work(start: Start, tmp_path: Path) -> None:
    study_file(tmp_path, "time.sleep(0.2)\n(folder / 'x').open('a').write('x')\nreport()", seeds=4)
    both = [start("--workers", "1") for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
    marks = [path.read_text() for path in (tmp_path / "store").glob("*/program/x")]
    assert marks == ["x"] * 8  # each ran once


def test_a_worker_that_hangs_loses_its_program(tmp_path: Path) -> None:
    """Its lease is taken over: what it has started ends before the run begins again."""
    body = """
(folder / f"pid-{os.getpid()}").touch()
if x == "0.0" and len(list(folder.glob("pid-*"))) == 1: time.sleep(600)
report()
"""
    plan = plan_of(tmp_path, body, levels="[0.0, 0.5]", run='timeout = "20m"')
    item = f"""
from tests.runners.programs import attempt_first
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
attempt_first(Plan.make(StudySpec.from_file({str(tmp_path / "study.toml")!r}), {str(plan.store.path)!r}))
"""
    sleeper = subprocess.Popen([sys.executable, "-c", item], cwd=Path(__file__).parents[2])
    try:
        wait_for(lambda: any(plan.store.path.glob("*/program/pid-*")))
        sleeper.send_signal(signal.SIGSTOP)
        progress = run_plan(plan, LocalExecutor(workers=2), lease_seconds=1.0)
        assert len(progress.done) == 2
        assert not any(is_alive(int(path.name[4:])) for path in plan.store.path.glob("*/program/pid-*"))
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("faults", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_random_kills_lose_no_run_double_none_and_leave_no_process(
    start_in: Start, tmp_path: Path, faults: int
) -> None:
    body = """
import subprocess
subprocess.Popen(["sleep", "611"], start_new_session=True)
(folder / f"pid-{os.getpid()}").touch()
time.sleep(2)
report()
"""
    study_file(tmp_path, body, seeds=2 * faults)
    store = tmp_path / "store"

    def until_busy() -> None:
        wait_for(lambda: any(is_alive(int(path.name[4:])) for path in store.glob("*/program/pid-*")))

    counts = disturb(start_in, tmp_path, random.Random(faults), faults, until_busy)  # noqa: S311 - moments to kill at
    assert counts.workers_killed + counts.coordinators_killed + counts.both_killed == faults
    table = all_runs(Store(store))[0]
    assert sorted(zip(table["x"], table["seed"], strict=True)) == [
        (x, seed) for x in (0.0, 0.5) for seed in range(1, 2 * faults + 1)
    ]
    pids = [int(path.name[4:]) for path in store.glob("*/program/pid-*")]
    assert len(pids) > 4 * faults  # some were started again
    assert not any(is_alive(pid) for pid in pids)
    own = str(tmp_path).encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                assert not ((entry / "cmdline").read_bytes().startswith(b"sleep\x00611")
                            and own in (entry / "environ").read_bytes()), entry  # fmt: skip
            except OSError:
                continue


def test_each_run_has_a_gpu_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,7")
    driver = tmp_path / "bin" / "nvidia-smi"  # no GPU is needed to see which one a run would be given
    driver.parent.mkdir()
    driver.write_text("#!/bin/sh\necho 'GPU 0: one'\n")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{driver.parent}:{os.environ['PATH']}")
    body = "print(os.environ['CUDA_VISIBLE_DEVICES']); time.sleep(0.5)\nreport()"
    given = {}
    for share, workers in ((None, 2), (0.5, 4), (2.0, 2)):
        plan = plan_of(tmp_path / str(share), body, seeds=2)
        run_plan(plan, LocalExecutor(workers=workers, gpus_per_run=share))
        given[share] = {path.read_text().split("\n")[0] for path in plan.store.path.glob("*/log.txt")}
    assert given == {None: {"3", "7"}, 0.5: {"3", "7"}, 2.0: {"3,7"}}


def test_changed_inputs_make_runs_stale_unless_they_are_accepted(tmp_path: Path) -> None:
    inputs = 'inputs = ["train.py"]'
    before = plan_of(tmp_path, seeds=3, run=inputs)
    run(before)
    path, store = study_file(tmp_path, "report()  # changed", seeds=3, run=inputs), tmp_path / "store"
    stale = cli("plan", path, "--store", store)
    assert "6 runs are stale, since train.py has changed" in stale
    kept = Plan.make(StudySpec.from_file(path), store, accept_changed=True)
    run(kept)
    assert {r.key for r in kept.runs} == {r.key for r in before.runs}
    recorded = recorded_study(kept.store, "study", kept.study.origin)
    assert recorded is not None
    assert set(recorded.accepted.values()) == set(kept.distinct)
    assert "kept by --accept-changed" in Report(load_store(store)).page()
    # A study that never accepted runs them again.
    (store / ".studies").rename(tmp_path / "studies")
    anew = Plan.make(StudySpec.from_file(path), store)
    assert len(anew.stale) == 6
    run(anew)
    assert len(finished_runs(store)[0]) == 12
    assert len(all_runs(Store(store))[0]) == 6  # without the stale ones
    result = audit(store, "accuracy", "x", "0")
    assert (result.rows, result.notes) == (6, ("6 runs from before their inputs changed were left out.",))


METRICS = 'time_ms = { better = "lower", unit = "ms", title = "time" }\n"<script>" = { better = "lower" }'


def test_several_values_are_several_settings_and_names_are_escaped(tmp_path: Path) -> None:
    body = "print(json.dumps({'accuracy': 0.5 + seed / 50, 'time_ms': seed, '<script>': seed * 2.0}))"
    path = study_file(tmp_path, body, seeds=3, levels='["<b>", "level"]', baseline='"<b>"')
    text = path.read_text().replace("[audit]", f'{METRICS}\n[audit]\nvalue = ["<script>", "time_ms"]')
    path.write_text(text.replace("x = [", "level = [").replace("{x}", "{level}").replace('"x"', '"level"'))
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    run(plan)
    material = load_store(tmp_path / "store")
    assert [s.metric.name for s in material.settings] == ["<script>", "time_ms"]
    assert [len(s.comparisons) for s in material.settings] == [1, 1]
    assert material.settings[1].metric.unit == "ms"
    assert len({s.id for s in material.settings}) == 2
    page = Report(material).page()
    assert "&lt;script&gt;" in page
    assert "study, <script>" not in page
    assert audit(tmp_path / "store", "time_ms", "level", "<b>").metric.better == "lower"


def test_predictions_give_a_sampling_floor(tmp_path: Path) -> None:
    body = LOG.replace("import seedspread", "sys.path += {path!r}\nimport seedspread, random") + """
draw = random.Random(seed)
labels = [i % 2 for i in range(200)]
right = [draw.random() < 0.8 for _ in labels]
logits = [[1.0, 0.0] if (label == 0) == ok else [0.0, 1.0] for label, ok in zip(labels, right)]
seedspread.log_predictions(range(200), labels, logits)
seedspread.log(accuracy=sum(right) / 200)
"""  # fmt: skip
    plan = plan_of(tmp_path, body.replace("{path!r}", repr(sys.path)), seeds=4)
    run(plan)
    result = audit(tmp_path / "store", "accuracy", "x", "0")
    assert [noise.group for noise in result.comparisons[0].test_set_noise] == ["0.5", "0"]
    assert "test-set noise" in result.to_text(details=True).lower()


def test_a_program_and_the_papers_training_share_a_store(tmp_path: Path) -> None:
    path = study_file(tmp_path, "print(json.dumps({'score': seed * (1 + float(x))}))", seeds=3)
    path.write_text(path.read_text().replace("accuracy =", "score ="))
    path = path.rename(tmp_path / "program.toml")
    program = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    paper = Plan.make(tiny_study(tmp_path / "paper", seeds=3, training__epochs=1), tmp_path / "store")
    run(program)
    run(paper)
    assert audit(tmp_path / "store", "score", "x", "0").rows == 6
    assert audit(tmp_path / "store", "accuracy", "margin_type", "subtract").rows == 6
    material = load_store(tmp_path / "store")
    assert not material.problems
    assert {s.study: len(s.runs) for s in material.settings} == {"program": 6, "study": 6}


def test_a_factor_may_be_called_dataset_and_several_may_be_strata(tmp_path: Path) -> None:
    path = study_file(tmp_path, seeds=3)
    text = path.read_text().replace("[factors]", '[factors]\ndataset = ["a", "b"]\nsize = [1, 2]')
    path.write_text(text.replace("[audit]", '[audit]\nby = ["dataset", "size"]'))
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    run(plan)
    words = ["--group", "x", "--baseline", "0", "--by", "dataset", "--by", "size", "--json"]
    found = json.loads(cli("audit", tmp_path / "store", *words))
    assert sorted(c["stratum"] for c in found["comparisons"]) == ["a, 1", "a, 2", "b, 1", "b, 2"]
    assert len(load_store(tmp_path / "store").settings) == 4


def test_status_shows_the_last_line_of_a_run_under_way(start: Start, tmp_path: Path) -> None:
    path = study_file(tmp_path, "print('epoch 3 \\x1b[31mof 5', flush=True); time.sleep(600)")
    (tmp_path / "store").mkdir()
    process = start("--workers", "2")
    try:
        wait_for(lambda: "epoch 3 of 5" in cli("status", path, "--store", tmp_path / "store"))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)


def test_what_a_failed_attempt_reported_is_not_the_result_of_the_next(tmp_path: Path) -> None:
    body = """
if (folder / "again").exists():
    report(0.99)
else:
    (folder / "again").touch()
    (folder / "metrics.json").write_text('{"accuracy": 0.11}')
    sys.exit(1)
"""
    plan = plan_of(tmp_path, body)
    assert len(run_plan(plan, Here()).failed) == 2
    run_plan(plan, Here(), retry_failed=True)
    assert set(tidy_runs(plan)["accuracy"]) == {0.99}


def test_a_change_is_accepted_and_not_every_later_one(tmp_path: Path) -> None:
    inputs = 'inputs = ["train.py"]'
    run(plan_of(tmp_path, run=inputs))
    store = tmp_path / "store"
    path = study_file(tmp_path, "report()  # a harmless change", run=inputs)
    run(Plan.make(StudySpec.from_file(path), store, accept_changed=True))
    assert len(Plan.make(StudySpec.from_file(path), store).accepted) == 2
    path = study_file(tmp_path, "report(0.5)", run=inputs)
    later = Plan.make(StudySpec.from_file(path), store)
    assert (len(later.stale), len(later.accepted)) == (2, 0)


def test_two_studies_of_one_name_are_two(tmp_path: Path) -> None:
    store, inputs = tmp_path / "store", 'inputs = ["train.py"]'
    plans = []
    for folder, body in (("a", "report()"), ("b", "report(0.7)")):
        path = study_file(tmp_path / folder, body, seeds=3, run=inputs)
        plans.append(Plan.make(StudySpec.from_file(path), store))
        assert not plans[-1].stale
        run(plans[-1])
    assert len(load_studies(Store(store))[0]) == 2
    assert [len(tidy_runs(plan)) for plan in plans] == [6, 6]
    assert len(load_store(store).settings) == 2


def test_the_audit_of_a_store_is_that_of_its_study(tmp_path: Path) -> None:
    run(plan_of(tmp_path, seeds=3))
    assert '"group": "x"' in cli("audit", tmp_path / "store", "--json")
    with pytest.raises(TableError, match="is a study"):
        audit(tmp_path / "study.toml", "accuracy", "x", "0")


def test_without_inputs_the_plan_says_that_changes_go_unnoticed(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    assert "else changes go unnoticed" in cli("plan", path, "--store", tmp_path / "s")


def test_a_metric_that_is_declared_later_is_said_to_be_missing(tmp_path: Path) -> None:
    run(plan_of(tmp_path))
    path = tmp_path / "study.toml"
    path.write_text(path.read_text().replace("[metrics]", "[metrics]\nf1 = {}"))
    out = cli("run", path, "--store", tmp_path / "store")
    (note,) = lacking(Plan.make(StudySpec.from_file(path), tmp_path / "store"))
    assert "f1" in note
    assert note in out
    assert "Next:" not in out
