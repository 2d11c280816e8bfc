"""Studies that add seeds until the answer is in: of programs and functions, killed and resumed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seedspread import Study, audit
from seedspread.analysis.sequential import standing
from seedspread.errors import SeedspreadError
from seedspread.report.load import load_store
from seedspread.report.page import Report
from seedspread.runs.store import Store
from seedspread.runs.studies import SequentialRecord, load_studies, save_study
from seedspread.stats.result import InterimLook, Interval
from seedspread.study.local import LocalExecutor
from seedspread.study.plan import Plan, sequential_records
from seedspread.study.sequential import Watcher, next_look, run_sequential
from seedspread.study.spec import StudyError, StudySpec
from seedspread.study.store_questions import recorded_question
from seedspread.study.study import StudyRuns
from tests.commands import seedspread_here
from tests.runners import programs
from tests.study import tiny
from tests.study.here import Here
from tests.study.sequential_programs import ALIKE, RULE, SPREADS, TWO_LOOKS, looks


def study(folder: Path, body: str = SPREADS, rule: str = RULE, seeds: object = 15) -> Path:
    return programs.study_file(folder, body, seeds=seeds, run='inputs = ["train.py"]', more=rule)


def test_it_stops_when_it_is_decided_and_says_so_everywhere(tmp_path: Path) -> None:
    path, store = str(study(tmp_path)), str(tmp_path / "store")
    plan = " ".join(seedspread_here("plan", path, "--store", store).stdout.split())
    assert "10 runs " in plan
    assert "Looks at 5, 10, 15 seeds" in plan
    assert "at most 30 (15 seeds)" in plan
    done = seedspread_here("run", path, "--store", store, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "Look 1 of at most 3, 5 seeds: x = 0.5 vs x = 0 " in done.stderr
    record = looks(tmp_path / "store")
    assert record.stopped == "decided"
    assert record.seeds < 15
    assert len(Store(store).keys()) == 2 * record.seeds
    again = seedspread_here("run", path, "--store", store)
    assert "(0 new)" in again.stdout
    assert looks(tmp_path / "store") == record
    found = json.loads(seedspread_here("audit", store, "--json").stdout)
    headline, last = found["comparisons"][0]["headline"], record.looks[-1].comparisons[0]
    assert headline["looks"]["number"] == len(record.looks)
    assert headline["interval"]["low"] == last.low
    assert headline["p"] == last.p
    status = " ".join(seedspread_here("status", path, "--store", store).stdout.split())
    assert f"The study stopped at {record.seeds} seeds per group: decided." in status
    report = Report(load_store(tmp_path / "store"))
    comparison = report.data.settings[0].comparisons[0]
    assert comparison.headline.interval is not None
    assert comparison.headline.interval.low == pytest.approx(last.low)  # in per cent there
    looks_table = next(table for table in report.tables if table.id == "study-looks-table")
    assert "accounts for the interim looks" in report.charts[0].caption
    assert "count the looks" in looks_table.note.replace("counts", "count")
    assert standing(record) in report.page()


@pytest.mark.soak
def test_without_a_difference_it_goes_to_its_limit(tmp_path: Path) -> None:
    plan = Plan.make(StudySpec.from_file(study(tmp_path, ALIKE)), tmp_path / "store")
    heard: list[tuple[str, int]] = []

    class Hears(Watcher):
        def interim_look(self, plan: Plan, name: str, record: SequentialRecord) -> None:
            assert plan.study.name == name
            heard.append((name, len(record.looks)))

    plan, progress = run_sequential(plan, LocalExecutor(2), Hears())
    assert heard == [("study", 1), ("study", 2), ("study", 3)]
    assert len(progress.done) == 30
    assert not progress.left
    assert looks(tmp_path / "store").stopped == "limit of 15 seeds reached"


def test_a_killed_study_keeps_its_looks(tmp_path: Path) -> None:
    path, store = study(tmp_path, ALIKE), tmp_path / "store"
    main = "from seedspread.cli import main; main()"
    command = [sys.executable, "-c", main, "run", str(path), "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True) as process:  # fmt: skip
        while not any(found.sequential and found.sequential.looks for found in load_studies(Store(store))[0]):
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    before = looks(store)
    assert 1 <= len(before.looks) <= 3
    done = seedspread_here("run", str(path), "--store", str(store), "--lease-seconds", "1")
    assert done.returncode == 0, done.stderr
    after = looks(store)
    assert after.looks[: len(before.looks)] == before.looks
    assert [look.seeds for look in after.looks] == [5, 10, 15]


@pytest.mark.soak
def test_on_slurm_by_submitits_local_executor(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    path, store = study(tmp_path), tmp_path / "store"
    by_submitit = (
        "import sys; from seedspread import run_study; "
        "from seedspread.study.slurm_engine import SlurmExecutor; "
        "run_study(sys.argv[1], sys.argv[2], SlurmExecutor(cluster='local', minutes=5))"
    )
    command = [sys.executable, "-c", by_submitit, str(path), str(store)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert looks(store).stopped == "decided"


def test_a_function_and_a_precision(tmp_path: Path) -> None:
    def train(seed: int, width: int) -> dict[str, float]:
        return {"score": random.Random(f"{seed} {width}").gauss(0, 1)}  # noqa: S311 - not secret

    rule = {"start": 5, "step": 5, "limit": 15, "precision": 40}
    question = {"group": "width", "baseline": 1, "value": "score"}
    grows = Study(train, factors={"width": [1, 2]}, audit=question, sequential=rule)
    found = grows.run(tmp_path / "store", 2, progress=False)
    record = looks(tmp_path / "store")
    assert record.stopped == "known to a factor of 40"
    assert record.seeds < 15
    result = found.audit()
    assert result.looks is not None
    assert result.looks.number == len(record.looks)
    interval = result.comparisons[0].headline.interval
    assert interval is not None
    assert interval.high / interval.low <= 40**2


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("start = 8\nstep = 0\nlimit = 40", "sequential: step must be 1 seed or more; got 0"),
        ("start = 8\nstep = 4\nlimit = 4", "limit must be as large as start, 8, or larger; got 4"),
        ("start = 2\nstep = 4\nlimit = 8", "start must be 3 seeds or more; got 2"),
        ("start = 8\nstep = 4", "sequential.limit is missing"),
        ("start = 8\nstep = 1\nlimit = 900", "makes 893 looks; take at most 100"),
        ("start = 8\nstep = 1\nlimit = 1000000000000", "must be 5,000 seeds or fewer"),
        ("start = 8\nstep = -4\nlimit = 40", "step must be 1 seed or more; got -4"),
        ("start = 8\nstep = 4\nlimit = 40\nprecision = nan", "precision: Input should be a finite number"),
        ('start = 8\nstep = 4\nlimit = 40\nstop = "soon"', "stop: Input should be 'decided'"),
        ('start = 8\nstep = 4\nlimit = 40\nstop = "decided"\nprecision = 4', "not both"),
        ("start = 8\nstep = 4\nlimit = 40\nprecision = 1", "precision: Input should be greater than 1"),
        ("start = 8\nstep = 4\nlimit = 40\nstopp = 1", "'stop'"),
        ("start = 8\nstep = 4\nlimit = 40", "sequential.limit is 40, and seeds names 15: leave seeds out"),
    ],
)
def test_rules_that_cannot_be(tmp_path: Path, rule: str, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        StudySpec.from_file(study(tmp_path, rule=f"[sequential]\n{rule}\n"))
    assert words in str(caught.value)


def test_a_rule_that_is_never_met_is_refused_before_the_first_run(tmp_path: Path) -> None:
    path = str(study(tmp_path, rule=f"{RULE}precision = 1.1\n"))
    for verb in ("plan", "run"):
        said = seedspread_here(verb, path, "--store", str(tmp_path / "store"))
        assert said.returncode == 2
        assert said.stderr.strip().splitlines()[-1].startswith("error: sequential.precision = 1.1 ")
    assert not list(tmp_path.glob("store/*"))


def test_a_rule_is_not_changed_after_a_look(tmp_path: Path) -> None:
    path, store = study(tmp_path, ALIKE), tmp_path / "store"
    plan = Plan.make(StudySpec.from_file(path), store)
    run_sequential(plan, Here())
    for rule in (RULE.replace("15", "20"), ""):
        study(tmp_path, ALIKE, rule, seeds=20)
        with pytest.raises(StudyError, match="had 3 interim looks by another rule") as caught:
            Plan.make(StudySpec.from_file(path), store)
        assert "\n" not in str(caught.value)


def test_neither_is_its_question_and_looks_at_other_runs_are_not_its_own(tmp_path: Path) -> None:
    path, store = study(tmp_path, SPREADS), tmp_path / "store"
    run_sequential(Plan.make(StudySpec.from_file(path), store), Here())
    text = path.read_text()
    for changed in (text.replace("x = [0.0, 0.5]", "x = [0.0, 0.5, 0.7]"), text.replace("= 0.0", "= 0.5")):
        assert changed != text
        path.write_text(changed)
        with pytest.raises(StudyError, match="had 1 interim look with another comparison"):
            Plan.make(StudySpec.from_file(path), store)
    path.write_text(text.replace("seeds = 15", f"seeds = {list(range(2, 17))}"))
    with pytest.raises(StudyError, match="had 1 interim look with other seeds"):
        Plan.make(StudySpec.from_file(path), store)
    path.write_text(text.replace("seeds = 15", "seeds = 4").split("[sequential]")[0])
    with pytest.raises(StudyError, match="had 1 interim look by another rule"):
        Plan.make(StudySpec.from_file(path), store)
    path.write_text(text)
    assert Plan.make(StudySpec.from_file(path), store).sequential["study"].stopped == "decided"
    study(tmp_path, ALIKE)  # another program: other runs, of which nothing has been seen
    plan = Plan.make(StudySpec.from_file(path), store)
    assert not plan.sequential["study"].looks
    plan, _ = run_sequential(plan, Here())
    assert len(looks(store).looks) == 3


def test_studies_that_end_by_themselves_are_not_compared(tmp_path: Path) -> None:
    study(tmp_path / "a")
    study(tmp_path / "b")
    path = tmp_path / "both.toml"
    path.write_text(
        f'include = ["{tmp_path}/a/study.toml", "{tmp_path}/b/study.toml"]\n'
        '[audit]\ngroup = "study"\nbaseline = "study"\nvalue = "accuracy"\n'
    )
    with pytest.raises(StudyError, match="different seeds, since study is sequential"):
        StudySpec.from_file(path)


@pytest.mark.soak
def test_a_collection_grows_study_by_study(tmp_path: Path) -> None:
    study(tmp_path / "a", SPREADS, TWO_LOOKS).rename(tmp_path / "a" / "a.toml")
    study(tmp_path / "b", ALIKE, TWO_LOOKS).rename(tmp_path / "b" / "b.toml")
    path, store = tmp_path / "both.toml", str(tmp_path / "store")
    path.write_text(f'include = ["{tmp_path}/a/a.toml", "{tmp_path}/b/b.toml"]\n')
    done = seedspread_here("run", str(path), "--store", store)
    assert done.returncode == 0, done.stderr
    told = [line.partition(": ")[0] for line in done.stderr.splitlines()]
    assert [name for name in told if name in ("a", "b")] == ["a", "b", "b"]
    refused = seedspread_here("audit", store, "--study", str(path))
    assert refused.stderr.endswith("names no comparison; name one of its studies with --study: a, b\n")
    status = seedspread_here("status", str(path), "--store", store).stdout
    for record in (one.sequential for one in load_studies(Store(store))[0]):
        assert record is not None
        assert standing(record) in " ".join(status.split())
    assert [s.sequential is not None for s in load_store(tmp_path / "store").settings] == [True, True]


def test_looks_wait_for_runs_that_were_ended(tmp_path: Path) -> None:
    body = "import signal; os.kill(os.getpid(), signal.SIGKILL) if (seed, x) == (2, '0.5') else report()"
    plan = Plan.make(StudySpec.from_file(study(tmp_path, body)), tmp_path / "store")
    plan, progress = run_sequential(plan, LocalExecutor(2))
    (failed,) = progress.failed
    assert not plan.store.has_crashed(failed)
    assert not looks(tmp_path / "store").looks


def test_an_arm_that_only_fails_is_mended_before_a_look(tmp_path: Path) -> None:
    path = study(tmp_path, f"sys.exit('boom') if x == '0.5' else None; {ALIKE}")
    said = seedspread_here("run", str(path), "--store", str(tmp_path / "store"))
    assert said.returncode == 2
    last = said.stderr.splitlines()[-1]
    assert last.startswith("error: no look can be taken at study: every run of x = 0.5 failed; fix it")
    assert not looks(tmp_path / "store").looks


def test_between_looks_the_last_one_is_the_headline(tmp_path: Path) -> None:
    store = tmp_path / "store"
    plan = Plan.make(StudySpec.from_file(study(tmp_path, ALIKE, TWO_LOOKS)), store)
    plan, _ = run_sequential(plan, Here())
    (whole,) = plan.recorded()
    assert whole.sequential is not None
    first = replace(whole.sequential, looks=whole.sequential.looks[:1])
    save_study(plan.store, replace(whole, sequential=first))  # as a killed study leaves it
    (seen,) = first.looks[0].comparisons
    question = recorded_question(str(store), None, None, None, ())
    assert question is not None
    assert len(question.table) == 10
    assert question.notes[-1] == standing(first)
    by_path = audit(store, "accuracy", "x", "0")
    by_study = StudyRuns(Plan.make(plan.study, store)).audit()
    (setting,) = load_store(store).settings
    assert len(setting.states) == 20
    assert by_path.looks == by_study.looks == InterimLook((5, 10), 1, first.factor or 0)
    assert seen.low is not None
    assert seen.high is not None
    assert by_study.comparisons[0].headline.interval == Interval(seen.low, seen.high, 0.95)
    assert setting.comparisons[0].headline.p == pytest.approx(seen.p)


def test_looks_count_whoever_asks_the_same_runs(tmp_path: Path) -> None:
    """Be it by a copy of the study without looks, by a frame, or with a factor that was edited."""
    store = tmp_path / "store"
    for name, rule in (("grows", TWO_LOOKS), ("fixed", "")):
        path = study(tmp_path / name, ALIKE, rule, seeds=10)
        path = path.rename(path.with_name(f"{name}.toml"))
        run_sequential(Plan.make(StudySpec.from_file(path), store), Here())
    own = recorded_question(str(store), "grows", None, None, ())
    assert own is not None
    assert own.looks is not None
    grows = audit(own.table, "accuracy", "x", "0", look=own.looks).comparisons[0].headline
    for table in (store, Store(store).table()):
        found = audit(table, "accuracy", "x", "0", seed=None)
        assert found.looks == own.looks
        assert "grows has looked at these runs 2 times while it grew; its looks are counted here." in (
            found.notes
        )
    fixed = recorded_question(str(store), "fixed", None, None, ())
    assert fixed is not None
    found = audit(fixed.table, "accuracy", "x", "0")
    assert found.comparisons[0].headline.p == grows.p
    (record,) = (one for one in load_studies(Store(store))[0] if one.sequential is not None)
    assert record.sequential is not None
    save_study(Store(store), replace(record, sequential=replace(record.sequential, factor=0.5)))
    assert audit(store, "accuracy", "x", "0", seed=None).looks == own.looks


def test_a_copy_of_a_study_cannot_take_its_first_look_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = study(tmp_path / "grows", ALIKE, TWO_LOOKS, seeds=10)
    run_sequential(Plan.make(StudySpec.from_file(first), store), Here())
    rule = "[sequential]\nstart = 10\nstep = 5\nlimit = 10\n"
    copy = study(tmp_path / "copy", ALIKE, rule, seeds=10)
    copy = copy.rename(copy.with_name("copy.toml"))
    with pytest.raises(SeedspreadError, match=r"study has taken 2 looks at runs of copy.*use another store"):
        run_sequential(Plan.make(StudySpec.from_file(copy), store), Here())


def test_the_papers_training(tmp_path: Path) -> None:
    short: dict[str, Any] = {"training__epochs": 1, "probe__epochs": 1}
    path = tiny.study_file(tmp_path, seeds=8, **short)
    path.write_text(f"{path.read_text()}[sequential]\nstart = 6\nstep = 2\nlimit = 8\nprecision = 1.9\n")
    grows = StudySpec.from_file(path)
    _, progress = run_sequential(Plan.make(grows, tmp_path / "store"), Here())
    assert not progress.failed
    assert [look.seeds for look in looks(tmp_path / "store").looks] == [6, 8]
    fixed = Plan.make(tiny.tiny_study(tmp_path, seeds=8, **short), tmp_path / "other")
    assert set(tiny.results(tmp_path / "store")) == set(fixed.distinct)


def test_a_damaged_record_of_looks_is_none(tmp_path: Path) -> None:
    plan = Plan.make(StudySpec.from_file(study(tmp_path)), tmp_path / "store")
    (recorded,) = plan.recorded()
    plan.store.path.mkdir()
    assert recorded.sequential is not None
    save_study(plan.store, recorded)
    (path,) = (plan.store.path / ".studies").iterdir()
    values = json.loads(path.read_text())
    values["sequential"]["looks"] = [{"seeds": 7, "comparisons": [], "stop": ""}]
    values["sequential"]["factor"] = 1.0
    path.write_text(json.dumps(values))
    assert load_studies(plan.store)[0] == []
    assert sequential_records(plan.study, plan.store, plan.runs)["study"].looks == ()


def test_a_look_without_a_comparison_is_refused(tmp_path: Path) -> None:
    plan = Plan.make(StudySpec.from_file(study(tmp_path)), tmp_path / "store")
    (recorded,) = plan.recorded()
    with pytest.raises(SeedspreadError, match="no comparison to look at"):
        next_look(plan.store, type(recorded)(**(vars(recorded) | {"audit": None})))
