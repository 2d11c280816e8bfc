"""A Python function as a runner: how it is found, what it is, how it is run."""

import atexit
import ctypes
import errno
import json
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seedspread.runners import supervise
from seedspread.runners.contract import RunnerError, WorkItem
from seedspread.runners.function import FunctionRunner, PythonFunction
from seedspread.runs.folder import Failure, RunFailedError, RunFolder, RunFolderError
from seedspread.runs.lease import newest
from seedspread.runs.metrics import Metric
from seedspread.runs.run import Run
from seedspread.runs.stopping import StoppedError, StopRequest, stop_requests
from seedspread.study.worker import attempt
from tests.runners.programs import is_alive

SCORE = (Metric("score"),)
MODULE = """
import seedspread

SLOPE = 2.0

def helper(x):
    return SLOPE * x

def train(seed: int, offset: float = 0.0):
    print("working on", seed)
    return {"score": helper(seed) + offset}

class Trainer:
    pass

NUMBER = 3
by_lambda = lambda seed: seed
def no_seed(offset): ...
def needs(seed, width): ...
def anything(seed, **rest):
    return {"score": sum(rest.values())}
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Writes a module `mine`, as it would be found by a process that has just started."""
    before, path = set(sys.modules), list(sys.path)

    def write(text: str) -> Path:
        (tmp_path / "mine.py").write_text(text)
        sys.modules.pop("mine", None)
        for cached in tmp_path.glob("__pycache__/*"):
            cached.unlink()  # two versions within the clock's grain
        return tmp_path

    yield write
    for name in {*sys.modules} - before:
        if getattr(sys.modules[name], "__file__", None) == str(tmp_path / "mine.py"):
            del sys.modules[name]
    sys.path[:] = path


def request(runner: FunctionRunner, folder: Path, seed: int = 3, **values: Any) -> WorkItem:
    parameters = runner.parameters(None, values)
    (key,) = runner.keys([(parameters, seed)], None)
    return WorkItem(Run(key, seed, runner.name, parameters, str((folder / key).absolute())), runner)


def named_runner(
    name: str,
    folder: Path,
    promised: Iterable[Metric] = (),
    inputs: Iterable[str] = (),
    environment: Iterable[str] = (),
) -> FunctionRunner:
    function = PythonFunction.from_name(name, folder)
    return FunctionRunner(
        function, promised=tuple(promised), inputs=tuple(inputs), environment=tuple(environment)
    )


def outcome(runner: FunctionRunner, folder: Path, seed: int = 3, **values: Any) -> Any:
    """What a run comes to, in this process."""
    with stop_requests() as stop:
        try:
            found: Any = runner.run(request(runner, folder, seed, **values), stop)
        except Exception as error:
            found = error
        stop.heard(found)
    return found


def key(folder: Path, name: str = "mine:train", **values: Any) -> str:
    runner = named_runner(name, folder, SCORE)
    return runner.keys([(runner.parameters(None, values), 1)], None)[0]


def base_key(folder: Path) -> str | None:
    runner = named_runner("mine:train", folder, SCORE)
    return runner.base_keys([(runner.parameters(None, {}), 1)])[0]


# How it is found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mine", "must name a module and a function"),
        ("mien:train", "no module 'mien'"),
        ("mine:trian", "mine has no function 'trian'.*'train'"),
        ("mine:Trainer", "mine:Trainer is a class; give a function"),
        ("mine:NUMBER", "mine:NUMBER is int; give a function"),
        ("mine:no_seed", "mine:no_seed must take an argument seed; it takes offset"),
    ],
)
def test_a_name_that_is_no_function_is_refused(module: Callable[[str], Path], name: str, words: str) -> None:
    folder = module(MODULE)
    with pytest.raises(RunnerError, match=words) as caught:
        named_runner(name, folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nowhere", "mine cannot be imported: No module named 'nowhere'"),
        ("1 / 0", "mine cannot be imported: ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(2)", "mine cannot be imported: SystemExit: 2"),
        ("def train(", "mine cannot be imported: SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(
    module: Callable[[str], Path], text: str, words: str
) -> None:
    with pytest.raises(RunnerError, match=words):
        named_runner("mine:train", module(text))


def test_a_module_of_another_folder_does_not_stand_for_it(
    module: Callable[[str], Path], tmp_path: Path
) -> None:
    named_runner("mine:train", module(MODULE))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.py").write_text(MODULE)
    with pytest.raises(RunnerError, match=r"a module 'mine' of .* is already loaded"):
        named_runner("mine:train", tmp_path / "other")


def test_its_arguments_are_what_a_study_can_set(module: Callable[[str], Path]) -> None:
    folder = module(MODULE)
    runner = named_runner("mine:train", folder, SCORE)
    assert runner.full_name("offset") == "offset"
    with pytest.raises(RunnerError, match=r"takes no argument 'ofset'.*'offset'. .it takes seed, of"):
        runner.full_name("ofset")
    with pytest.raises(RunnerError, match=r"^'score' is "):
        runner.full_name("score")
    for name in ("seed", "study", "key", "collapsed", "majority"):
        with pytest.raises(RunnerError, match=f"^'{name}'"):
            named_runner("mine:anything", folder, SCORE).full_name(name)
    with pytest.raises(RunnerError, match="mine:needs needs a value for 'width'"):
        named_runner("mine:needs", folder).parameters(None, {})
    assert outcome(named_runner("mine:anything", folder, SCORE), folder, a=1, b=2) == {"score": 3}


# What it is


def test_it_can_be_sent_and_compared(module: Callable[[str], Path]) -> None:
    folder = module(MODULE)
    for runner in (
        named_runner("mine:train", folder, SCORE),
        FunctionRunner.of(lambda seed: seed),
    ):
        assert pickle.loads(pickle.dumps(runner)) == runner  # noqa: S301 - our own
        assert hash(runner) == hash(pickle.loads(pickle.dumps(runner)))  # noqa: S301


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("SLOPE * x", "SLOPE + x", False),
        ("SLOPE = 2.0", "SLOPE = 3.0", False),
        ('"score": helper', '"loss": helper', False),
        ("SLOPE * x", "SLOPE * x  # steep", True),
        ("NUMBER = 3", "NUMBER = 4", True),
    ],
)
def test_an_edited_function_is_another_one_under_the_same_base(
    module: Callable[[str], Path], before: str, after: str, same: bool
) -> None:
    folder = module(MODULE)
    first, base = key(folder), base_key(folder)
    module(MODULE.replace(before, after))
    assert (key(folder) == first) is same
    assert base_key(folder) == base
    assert key(folder, offset=1.0) != key(folder)


def test_inputs_and_environment_are_part_of_it(
    module: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = module(MODULE)
    (folder / "data.csv").write_text("1")

    def made() -> tuple[str, str | None]:
        runner = named_runner("mine:train", folder, SCORE, ["*.csv"], ["FLAVOUR"])
        runs = [(runner.parameters(None, {}), 1)]
        return runner.keys(runs, None)[0], runner.base_keys(runs)[0]

    first = made()
    (folder / "data.csv").write_text("2")
    second = made()
    monkeypatch.setenv("FLAVOUR", "salt")
    third = made()
    assert len({first[0], second[0], third[0]}) == 3
    assert first[1] == second[1] != third[1]


def test_what_else_it_reads_is_named() -> None:
    data, holder = np.zeros(3), partial(max, key=lambda one: one)
    notes = FunctionRunner.of(lambda seed: holder(data)).notes([])
    (note,) = notes
    assert "also reads" in note
    assert "holder (partial)" in note
    assert "data" not in note
    assert FunctionRunner.of(lambda seed: seed).notes([]) == []


@pytest.mark.parametrize("value", [int, len, 3, partial(print, 1)])
def test_only_functions_are_taken(value: Any) -> None:
    with pytest.raises(RunnerError, match="give a function"):
        FunctionRunner.of(value)


# How it is run


def test_it_is_run_and_its_record_and_output_kept(module: Callable[[str], Path], tmp_path: Path) -> None:
    runner = named_runner("mine:train", module(MODULE), SCORE)
    assert outcome(runner, tmp_path, offset=1.5) == {"score": 7.5}
    folder = request(runner, tmp_path, offset=1.5).folder().path
    assert (folder / "log.txt").read_text() == "working on 3\n"
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["function"] == "mine:train"
    assert {"train", "helper", "SLOPE"} <= set(provenance["source"])
    assert (provenance["seed"], provenance["config"]) == (3, {"offset": 1.5})
    assert outcome(runner, tmp_path, offset=1.5) == {"score": 7.5}  # as it was filed


def run_of(
    function: Callable[..., Any], folder: Path, promised: tuple[Metric, ...] = SCORE, **values: Any
) -> Any:
    return outcome(FunctionRunner.of(function, promised), folder, **values)


RETURNED: list[Any] = [
    {"score": 1, "loss": np.float32(0.5)},
    {"score": np.array([2.0])[0]},
    0.25,
    np.float64(0.25),
    {"score": 1.0, "name": "x", "worst": float("nan")},
    {"score": "high"},
    {"score": float("nan")},
    {"score": np.float32("inf")},
    {"score": True},
    {"score": np.bool_(True)},
    {"score": np.zeros(2)},
    {"scores": 1.0},
    None,
    "good",
    [1.0],
    True,
]


def returns(seed: int, case: int) -> Any:
    return RETURNED[case]


@pytest.mark.parametrize(
    ("case", "metrics"),
    [
        (0, {"score": 1.0, "loss": 0.5}),
        (1, {"score": 2.0}),
        (2, {"score": 0.25}),
        (3, {"score": 0.25}),
        (4, {"score": 1.0}),
    ],
)
def test_it_returns_numbers(tmp_path: Path, case: int, metrics: dict[str, float]) -> None:
    assert run_of(returns, tmp_path, case=case) == metrics


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (5, "'score'.*: 'high'"),
        (6, "'score' .*NaN"),
        (7, "'score' .*inf"),
        (8, "'score'.*: True"),
        (9, "'score'.*: 'True'"),
        (10, "'score'.*: 'array"),
        (11, "'score'.*: .*'scores'"),
        (12, "it returned nothing"),
        (13, "it returned str; return a dict of numbers"),
        (14, "it returned list; return a dict of numbers"),
        (15, "bool|'score'"),
    ],
)
def test_what_it_may_not_return(tmp_path: Path, case: int, words: str) -> None:
    found = run_of(returns, tmp_path, case=case)
    assert isinstance(found, RunFailedError)
    with pytest.raises(RunFailedError, match=words):
        raise found


def test_what_it_logs_is_kept_and_what_it_returns_wins(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")

    def train(seed: int) -> dict[str, float]:
        import seedspread.runners.recording  # noqa: PLC0415

        for epoch in range(3):
            seedspread.runners.recording.log(score=epoch, loss=-epoch, epoch=epoch)
        return {"score": 10.0}

    runner = FunctionRunner.of(train, SCORE)
    assert outcome(runner, tmp_path) == {"score": 10.0, "loss": -2.0, "epoch": 2.0}
    path = request(runner, tmp_path).folder().path
    assert RunFolder(path).history(["score"])["score"].to_pylist() == [0, 1, 2]


def test_a_second_attempt_logs_afresh_unless_it_keeps_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import seedspread.runners.recording  # noqa: PLC0415

    def fails_once(marker: Path) -> None:
        seedspread.runners.recording.log(score=1)
        if not marker.exists():
            marker.touch()
            raise ValueError("once")

    def afresh(seed: int) -> None:
        fails_once(tmp_path / "marker")

    def goes_on(seed: int, folder: Path) -> None:
        fails_once(folder / "marker")

    for train, calls in ((afresh, 1), (goes_on, 2)):
        runner = FunctionRunner.of(train, SCORE)
        assert "ValueError: once" in str(outcome(runner, tmp_path))
        assert outcome(runner, tmp_path) == {"score": 1.0}
        path = request(runner, tmp_path).folder().path
        assert path is not None
        assert len(RunFolder(path).history(["score"])) == calls


def test_an_exception_fails_the_run_with_its_traceback(tmp_path: Path) -> None:
    def train(seed: int) -> None:
        raise KeyError("no such layer")

    failure = Failure.of(run_of(train, tmp_path))
    assert failure.message == "KeyError: 'no such layer'"
    assert "in train" in failure.traceback
    assert 'raise KeyError("no such layer")' in failure.traceback


def test_no_exception_of_it_ends_the_worker(tmp_path: Path) -> None:
    errors = [SystemExit(3), KeyboardInterrupt(), GeneratorExit("odd")]

    def train(seed: int) -> None:
        raise errors[seed]

    for seed, error in enumerate(errors):
        found = run_of(train, tmp_path, seed=seed)
        assert isinstance(found, RunFailedError)
        assert type(error).__name__ in str(found)
        assert "in train" in Failure.of(found).traceback


def test_a_signal_stops_it_though_it_catches_everything(tmp_path: Path) -> None:
    worker = os.getpid()

    def train(seed: int) -> dict[str, float]:
        os.kill(worker, signal.SIGTERM)
        while True:
            with suppress(BaseException):
                time.sleep(60)

    found = run_of(train, tmp_path)
    assert isinstance(found, StoppedError)
    assert found.exit_code == 128 + signal.SIGTERM


def test_one_that_was_stopped_and_returns_all_the_same_is_not_filed(tmp_path: Path) -> None:
    worker = os.getpid()

    def train(seed: int) -> dict[str, float]:
        stopped = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stopped.set())
        os.kill(worker, signal.SIGTERM)
        stopped.wait(60)
        return {"score": 1.0}

    runner = FunctionRunner.of(train, SCORE)
    assert isinstance(outcome(runner, tmp_path), StoppedError)
    path = request(runner, tmp_path).folder().path
    assert not RunFolder(path).is_done


def test_it_finds_its_seed_parameters_and_folder_and_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    before = dict(os.environ), os.getcwd(), sys.stdout

    def train(seed: int, folder: Path, width: int) -> dict[str, float]:
        assert os.environ["SEEDSPREAD_FOLDER"] == str(folder)
        assert os.environ["SEEDSPREAD_SEED"] == str(seed)
        assert json.loads(os.environ["SEEDSPREAD_PARAMETERS"]) == {"width": width}
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
        (folder / "model.txt").write_text("kept")
        os.system("echo from a program; echo and its errors >&2")  # noqa: S605
        return {"score": width}

    with pytest.MonkeyPatch.context() as patch:
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            patch.delenv(name, raising=False)
        before = dict(os.environ), os.getcwd(), sys.stdout
        runner = FunctionRunner.of(train, SCORE)
        assert outcome(runner, tmp_path, width=4) == {"score": 4.0}
        assert (dict(os.environ), os.getcwd(), sys.stdout) == before
    path = request(runner, tmp_path, width=4).folder().path
    assert (path / "program" / "model.txt").read_text() == "kept"
    assert (path / "log.txt").read_text() == "from a program\nand its errors\n"


def test_it_is_run_in_its_studys_folder(module: Callable[[str], Path], tmp_path: Path) -> None:
    text = (
        "from pathlib import Path\n"
        "def train(seed):\n    return {'score': float(Path('number.txt').read_text())}\n"
    )
    folder = module(text)
    (folder / "number.txt").write_text("5")
    runner = named_runner("mine:train", folder, SCORE, ["number.txt"])
    assert outcome(runner, tmp_path / "store") == {"score": 5.0}


def test_an_input_that_changes_while_it_runs_fails_it(module: Callable[[str], Path], tmp_path: Path) -> None:
    text = (
        "from pathlib import Path\n"
        "def train(seed):\n    Path('number.txt').write_text('6')\n    return {'score': 1}\n"
    )
    folder = module(text)
    (folder / "number.txt").write_text("5")
    runner = named_runner("mine:train", folder, SCORE, ["number.txt"])
    found = outcome(runner, tmp_path / "store")
    assert "its input number.txt has changed since it was planned (when it ended)" in str(found)


@pytest.mark.parametrize(
    ("before", "after", "part"), [("SLOPE * x", "SLOPE - x", "helper"), ("SLOPE = 2", "SLOPE = 4", "SLOPE")]
)
def test_a_module_that_was_edited_since_the_plan_fails_by_name(
    module: Callable[[str], Path], tmp_path: Path, before: str, after: str, part: str
) -> None:
    runner = named_runner("mine:train", module(MODULE), SCORE)
    planned = request(runner, tmp_path)
    module(MODULE.replace(before, after))  # which a worker imports
    words = f"^{part}, of mine:train, is not what it was when the run was planned"
    with pytest.raises(RunFailedError, match=words):
        runner.run(planned, StopRequest())


def test_what_a_run_leaves_in_its_module_does_not_reach_another(
    module: Callable[[str], Path], tmp_path: Path
) -> None:
    text = "CACHE = {}\ndef train(seed):\n    CACHE[seed] = 1\n    return {'score': len(CACHE)}\n"
    runner = named_runner("mine:train", module(text), SCORE)
    assert [outcome(runner, tmp_path, seed)["score"] for seed in (1, 2)] == [1, 1]


def test_its_output_is_limited(tmp_path: Path) -> None:
    def train(seed: int) -> float:
        for _ in range(9 * 2**10):
            print("x" * 1023)
        print("the end")
        return 1.0

    runner = FunctionRunner.of(train, SCORE)
    assert outcome(runner, tmp_path) == {"score": 1.0}
    path = request(runner, tmp_path).folder().path
    assert (path / "log.txt").read_text().endswith("x\nthe end\n")
    assert 7 * 2**20 < (path / "log.txt.old").stat().st_size <= supervise.LOG_BYTES


def test_what_cannot_be_sent_says_so() -> None:
    lock = threading.Lock()

    def train(seed: int) -> float:
        with lock:
            return 1.0

    with pytest.raises(
        RunnerError, match=r"train cannot be sent to a worker: .*create what it needs within it"
    ):
        FunctionRunner.of(train)


def planted(folder: Path, where: str, what: str) -> tuple[Path, Path]:
    """A run's file that is something else before the run begins, and a file outside that it may lead to."""
    outside = folder / "outside.txt"
    outside.write_text("precious")
    path = folder / where
    path.parent.mkdir(parents=True)
    if what == "link":
        path.symlink_to(outside)
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    return path, outside


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
@pytest.mark.parametrize("where", ["log.txt", "logged/000000/values.jsonl"])
def test_nothing_is_written_through_what_lies_in_a_files_place(
    where: str, what: str, tmp_path: Path, module: Callable[[str], Path]
) -> None:
    runner = named_runner("mine:train", module(MODULE), SCORE)
    made = request(runner, tmp_path).folder().path
    path, outside = planted(tmp_path, f"{made.name}/{where}", what)
    found = outcome(runner, tmp_path)
    assert isinstance(found, RunFolderError), found
    assert str(path.parent) in str(found)
    assert "must be removed" in str(found)
    assert outside.read_text() == "precious"


# One run cannot harm another


def closes_its_output(seed: int) -> float:
    if seed == 1:
        sys.stdout.close()
        sys.stderr.close()
    print("still here", seed)
    return float(seed)


def leaves_an_alarm(seed: int) -> float:
    if seed == 1:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
    elif seed == 2:
        time.sleep(0.6)
    return float(seed)


def leaves_a_thread_that_logs(seed: int) -> float | None:
    from seedspread.runners.recording import log  # noqa: PLC0415

    def later() -> None:
        while True:
            time.sleep(0.05)
            log(score=0.001)

    log(score=float(seed))
    if seed == 1:
        threading.Thread(target=later, daemon=True).start()
        return 1.0
    time.sleep(0.3)
    return None


def forks_and_both_return(seed: int) -> float:
    child = os.fork()
    if child == 0:
        return -1.0
    os.waitpid(child, 0)
    return float(seed)


def leaves_a_default_encoder(seed: int) -> float:
    if seed == 1:
        json.JSONEncoder.default = lambda self, value: 1 / 0  # type: ignore[method-assign, assignment]
        os.environ["SEEDSPREAD_SEED"] = "99"
        os.chdir("/")
    return float(os.environ["SEEDSPREAD_SEED"])


@pytest.mark.parametrize(
    "train",
    [leaves_an_alarm, leaves_a_thread_that_logs, forks_and_both_return, leaves_a_default_encoder],
)
def test_a_run_does_nothing_to_the_next(tmp_path: Path, train: Callable[..., Any]) -> None:
    found = [run_of(train, tmp_path, seed=seed) for seed in (1, 2, 3)]
    assert [one["score"] for one in found[1:]] == [2.0, 3.0]
    assert found[0]["score"] in (1.0, 99.0)


def test_one_that_closes_its_output_fails_alone(tmp_path: Path) -> None:
    found = [run_of(closes_its_output, tmp_path, seed=seed) for seed in (1, 2)]
    assert "ValueError: I/O operation on closed file" in str(found[0])
    assert found[1] == {"score": 2.0}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda: os._exit(0), "ended its process with exit status 0"),
        (lambda: os._exit(143), "with exit status 143"),
        (lambda: os._exit(87), "with exit status 87"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), r"by signal 15 \(SIGTERM\)"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"by signal 9 \(SIGKILL\)"),
    ],
)
def test_one_that_ends_its_process_is_blamed_and_the_next_runs(
    tmp_path: Path, how: Callable[[], None], words: str
) -> None:
    def train(seed: int, folder: Path) -> float:
        tries = folder / "tries"
        tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
        if seed == 1:
            print("about to go")
            how()
        return float(seed)

    runner = FunctionRunner.of(train, SCORE)
    found = outcome(runner, tmp_path, seed=1)
    with pytest.raises(RunFailedError, match=rf"{words} \(last output: about to go\); see .*log\.txt"):
        raise found
    assert (request(runner, tmp_path, seed=1).folder().path / "program" / "tries").read_text() == "x"
    assert outcome(runner, tmp_path, seed=2) == {"score": 2.0}


def test_what_a_function_leaves_running_ends_with_it(tmp_path: Path) -> None:
    def train(seed: int, folder: Path) -> float:
        for _ in range(3):  # each in a session of its own
            if os.fork():
                break
            os.setsid()
        else:
            (folder / "pid").write_text(str(os.getpid()))
            time.sleep(600)
        while not ((folder / "pid").exists() and (folder / "pid").read_text()):
            time.sleep(0.01)
        return 1.0

    runner = FunctionRunner.of(train, SCORE)
    assert outcome(runner, tmp_path) == {"score": 1.0}
    assert not is_alive(int((request(runner, tmp_path).folder().path / "program" / "pid").read_text()))


def test_the_lease_is_kept_while_the_interpreter_is_held(tmp_path: Path) -> None:
    def train(seed: int) -> float:
        ctypes.PyDLL(None).usleep(1_500_000)  # without giving up the lock
        return 1.0

    item = request(FunctionRunner.of(train, SCORE), tmp_path)
    beats, over = [], threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            if holder := newest(Path(item.run.folder)):
                beats.append(holder.beat)

    thread = threading.Thread(target=look)
    thread.start()
    assert attempt(replace(item, lease_seconds=0.6)).outcome == "done"
    over.set()
    thread.join()
    assert len(set(beats)) > 5


@pytest.mark.parametrize(
    ("text", "are_equal"),
    [
        ("", False),
        ("random.seed(1); np.random.seed(1)", True),
    ],
)
def test_unseeded_generators_differ_between_runs_and_seeded_ones_do_not(
    module: Callable[[str], Path], tmp_path: Path, text: str, are_equal: bool
) -> None:
    folder = module(
        f"import random\nimport numpy as np\n{text}\n"
        "def train(seed):\n    return {'score': random.random(), 'numpy': np.random.rand()}\n"
    )
    runner = named_runner("mine:train", folder, SCORE)
    first, second = (outcome(runner, tmp_path, seed) for seed in (1, 2))
    for name in ("score", "numpy"):
        assert (first[name] == second[name]) is are_equal


def test_a_function_that_has_no_exit_handlers_left_undone(tmp_path: Path) -> None:
    def train(seed: int, folder: Path) -> float:
        atexit.register((folder / "closed").touch)
        return 1.0

    runner = FunctionRunner.of(train, SCORE)
    assert outcome(runner, tmp_path) == {"score": 1.0}
    assert (request(runner, tmp_path).folder().path / "program" / "closed").exists()


def test_a_run_that_has_failed_does_not_name_the_host_that_goes_on(tmp_path: Path) -> None:
    def train(seed: int) -> None:
        raise ValueError("once")

    runner = FunctionRunner.of(train, SCORE)
    assert "once" in str(outcome(runner, tmp_path))
    folder = request(runner, tmp_path).folder().path
    assert (folder / "log.txt").exists()
    assert not (folder / "process.json").exists()


def test_a_module_that_starts_a_thread_is_imported_by_every_run(
    module: Callable[[str], Path], tmp_path: Path
) -> None:
    """A fork would leave the thread behind, and the function would wait for it for ever."""
    folder = module(
        "import queue, threading\n"
        "asked, answers = queue.Queue(), queue.Queue()\n"
        "def serve():\n    while True:\n        answers.put(2.0 * asked.get())\n"
        "threading.Thread(target=serve, daemon=True).start()\n"
        "def train(seed):\n    asked.put(seed)\n    return {'score': answers.get(timeout=60)}\n"
    )
    runner = named_runner("mine:train", folder, SCORE)
    assert [outcome(runner, tmp_path, seed) for seed in (1, 2)] == [{"score": 2.0}, {"score": 4.0}]


def test_a_process_that_the_module_starts_is_there_for_every_run(
    module: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = module(
        "import subprocess\n"
        "CAT = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n"
        "def train(seed):\n"
        "    print(seed, file=CAT.stdin, flush=True)\n"
        "    return {'score': float(CAT.stdout.readline())}\n"
    )
    runner = named_runner("mine:train", folder, SCORE)
    assert [outcome(runner, tmp_path, seed) for seed in (1, 2)] == [{"score": 1.0}, {"score": 2.0}]
    sys.modules["mine"].CAT.communicate()  # this process has imported it too, for the plan


def test_a_killed_host_is_no_hang_though_others_hold_its_pipes(tmp_path: Path) -> None:
    def train(seed: int, folder: Path) -> float:
        if os.fork() == 0:
            (folder / "pid").write_text(str(os.getpid()))
            time.sleep(600)
        while not (folder / "pid").exists():
            time.sleep(0.01)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
        return 1.0

    runner = FunctionRunner.of(train, SCORE)
    found = outcome(runner, tmp_path)
    os.kill(int((request(runner, tmp_path).folder().path / "program" / "pid").read_text()), signal.SIGKILL)
    assert "the process that watched over it was killed" in str(found)


def test_a_full_disk_within_a_function_is_left_to_the_same_command(tmp_path: Path) -> None:
    def train(seed: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    item = request(FunctionRunner.of(train, SCORE), tmp_path)
    assert attempt(item).outcome == "full"
    assert not item.folder().has_failed


def test_an_exception_whose_text_cannot_be_had_is_named_by_its_type(tmp_path: Path) -> None:
    def train(seed: int) -> None:
        class OddError(Exception):
            def __str__(self) -> str:
                raise ValueError("no text")

        raise OddError

    assert "OddError" in str(run_of(train, tmp_path))
