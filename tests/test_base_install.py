"""The base install: what works with it alone, and what is said where an extra is missing.

The tests' environment has every extra. Here all that the base does not bring, by its declared dependencies
and theirs, is refused in child processes, and in the children of these.
"""

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.report import fill, study
from seedspread import errors
from seedspread.study.plan import Plan
from tests.runners.programs import study_file

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
HEAVY = ("matplotlib", "plotly", "pyarrow", "statsmodels", "torch")

REFUSE = """
import sys
REFUSED = {refused!r}
class Refuse:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
"""
# Runs command lines one after another; says of each how it ended and what it printed.
COMMANDS = """
import contextlib, io, json, sys
from seedspread.cli import main
ended = []
for line in json.loads(sys.argv[1]):
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["seedspread", *line]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code or 0
    ended.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(ended))
"""


def names(requirements: list[str]) -> set[str]:
    """The distributions that requirements name, where their markers hold without an extra."""
    found = [Requirement(line) for line in requirements]
    return {
        canonicalize_name(one.name) for one in found if not one.marker or one.marker.evaluate({"extra": ""})
    }


def base() -> set[str]:
    """The base's distributions: those declared, and what they need themselves."""
    found: set[str] = set()
    todo = names(PROJECT["dependencies"])
    while todo:
        found |= todo
        todo = {need for one in todo for need in names(distribution(one).requires or [])} - found
    return found


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that has the base only."""
    there = base() | {"seedspread"}
    brought_by = packages_distributions()
    refused = sorted(
        module for module, by in brought_by.items() if not there & set(map(canonicalize_name, by))
    )
    assert set(HEAVY) <= set(refused)
    folder = tmp_path_factory.mktemp("base")
    (folder / "sitecustomize.py").write_text(REFUSE.format(refused=refused))
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}


def run_python(code: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def run_commands(lines: list[list[str]], **more: Any) -> list[tuple[int, str, str]]:
    done = run_python(COMMANDS, json.dumps(lines), **more)
    assert done.returncode == 0, done.stderr
    ended: list[tuple[int, str, str]] = json.loads(done.stdout)
    return ended


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the paper's training, made up."""
    path = tmp_path_factory.mktemp("made") / "store"
    fill(Plan.make(study(3), path))
    return path


def test_the_base_declares_nothing_heavy() -> None:
    assert not set(HEAVY) & names(PROJECT["dependencies"])
    assert {"matplotlib", "plotly", "seedspread"} == names(EXTRAS["report"])
    assert {"torch", "seedspread"} < names(EXTRAS["train"])  # which has the report's


def test_what_is_asked_of_an_extra_is_what_it_brings() -> None:
    def brings(extra: str) -> set[str]:
        inner = [Requirement(line) for line in EXTRAS[extra]]
        own = {str(one.name) for one in inner if one.name != "seedspread"}
        return own.union(*(brings(e) for one in inner if one.name == "seedspread" for e in one.extras))

    assert set(errors._MODULES) == set(EXTRAS) - {"dev", "docs"}
    for extra, modules in errors._MODULES.items():
        distributions = {"mlflow": "mlflow-skinny"}
        assert {distributions.get(module, module) for module in modules} <= brings(extra), extra


def test_the_commands_of_the_base_need_no_extra(
    tmp_path: Path, store: Path, without_extras: dict[str, str]
) -> None:
    table = str(ROOT / "examples" / "paper-cifar10.csv")
    asked = ["--value", "accuracy", "--group", "margin_type", "--block", "stability"]
    run = next(path.parent for path in store.rglob("result.json"))
    other = tmp_path / "other.csv"
    other.write_text(Path(table).read_text().replace("78.", "77."))
    logs = tmp_path / "logs.jsonl"
    logs.write_text('{"seed": 1, "acc": 0.5}\n{"seed": 2, "acc": 0.6}\n')
    lines = [
        ["audit", table, *asked, "--explain", "--details"],
        ["audit", str(store)],
        ["compare", table, str(other), *asked],
        ["components", table, *asked[:4], "--source", "stability"],
        ["seeds", "--ratio", "4"],
        ["collect", str(logs), "--metric", "acc", "--out", str(tmp_path / "runs.csv")],
        ["verify-paper"],
        ["plan", "mini/cifar10-factorial", "--store", str(tmp_path / "planned")],
        ["status", "mini/cifar10-factorial", "--store", str(store)],
        ["data", "list"],
        ["diagnose", str(run)],
    ]
    for line, (code, out, err) in zip(
        lines, run_commands(lines, env=without_extras, cwd=tmp_path), strict=True
    ):
        assert (code, bool(out)) == (0, True), f"{line}: {err}"


def test_what_needs_an_extra_names_it_in_one_line(
    tmp_path: Path, store: Path, without_extras: dict[str, str]
) -> None:
    table = str(ROOT / "examples" / "paper-cifar10.csv")
    (tmp_path / "runs.parquet").write_bytes(b"PAR1")
    lines = {
        "report": [
            ["report", table],
            ["report", str(store)],
            ["serve", str(store)],
            ["audit", table, "--plot", "a.png"],
            ["compare", table, table, "--plot", "a.png"],
        ],
        "parquet": [
            ["audit", "runs.parquet", "--value", "v", "--group", "g"],
            ["collect", table, "--out", "b.parquet"],
        ],
        "train": [
            ["train", "quickstart"],
            ["quickstart"],
            ["run", "quickstart", "--store", "s"],
            ["data", "fetch", "cifar10"],
            ["data", "check"],
        ],
    }
    asked = [(extra, line) for extra, of_extra in lines.items() for line in of_extra]
    ended = run_commands([line for _, line in asked], env=without_extras, cwd=tmp_path)
    for (extra, line), (code, _, err) in zip(asked, ended, strict=True):
        assert code == 2, line
        assert err.count("\n") == 1, f"{line}: {err}"
        assert err.endswith(f"pip install 'seedspread[{extra}]'\n"), f"{line}: {err}"
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".html", ".png")]


def test_python_works_in_the_base_and_names_what_is_missing(
    tmp_path: Path, without_extras: dict[str, str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "import seedspread\n"
        "def measure(seed, rate):\n"
        "    for epoch in range(3):\n"
        "        seedspread.log(epoch=epoch, score=seed * rate + epoch)\n"
    )
    done = run_python(
        """
from mine import measure
from seedspread import Study, audit, write_report
from seedspread.errors import MissingExtraError
found = Study(measure, factors={"rate": [1.0, 2.0]}, seeds=4, metrics=["score"]).run("runs")
assert len(found.table) == 8
result = audit(found.table, "score", "rate")
assert "a picture needs matplotlib" in result._repr_html_()
for wants in (lambda: write_report("runs", "page.html"), result.plot, lambda: found.report("page.html")):
    try:
        wants()
    except MissingExtraError as error:
        print(error)
""",
        env=without_extras,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"{errors.install_command('report')}\n") == 3
    # The curves stay where they were logged.
    logged = list((tmp_path / "runs").rglob("logged/*/*"))
    assert len([path for path in logged if path.is_file() and b"epoch" in path.read_bytes()]) == 8
    assert not list((tmp_path / "runs").rglob("*.parquet"))


IMPORTED = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
sys.argv = ["seedspread", *json.loads(sys.argv[1])]
from seedspread.cli import main; main()
"""


@pytest.mark.parametrize(
    ("line", "too_slow"),
    [
        (["--help"], {"numpy", "pandas", "scipy", "pydantic", "jinja2", "importlib.metadata", *HEAVY}),
        (["data", "list"], {"pandas", "scipy", *HEAVY}),
        # pandas imports pyarrow where it is there.
        (
            ["audit", "TABLE"],
            {"seedspread.study.spec", "seedspread.cff.config", "scipy.stats", *HEAVY} - {"pyarrow"},
        ),
        (["diagnose", "RUN"], {"matplotlib", "plotly", "statsmodels", "torch"}),
        (["plan", "STUDY"], {"pandas", "scipy", "jinja2", *HEAVY}),
        (["status", "STUDY", "--store", "."], {"pandas", "scipy", "jinja2", *HEAVY}),
        (["run", "STUDY", "--store", "STORE"], {"pandas", "scipy", "jinja2", *HEAVY}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_uses(
    line: list[str], too_slow: set[str], store: Path, tmp_path: Path
) -> None:
    program = tmp_path / "study.toml"
    command = """["echo", '{{"a": {x}{seed}}}']"""
    program.write_text(f"seeds = 1\nfactors.x = [1, 2]\nmetrics.a = {{}}\nrun.command = {command}\n")
    table = [str(ROOT / "examples" / "paper-cifar10.csv"), "--value", "accuracy", "--group", "margin_type"]
    real = {"TABLE": [*table, "--block", "stability"], "RUN": [str(next(store.rglob("result.json")).parent)]}
    real |= {"STUDY": [str(program)], "STORE": [str(tmp_path / "store")]}
    words = [word for one in line for word in real.get(one, [one])]
    done = run_python(IMPORTED, json.dumps(words))
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stderr.splitlines()[-1])
    assert not too_slow & set(imported)


def test_the_loss_imports_little_beside_torch() -> None:
    code = "import torch, sys; before = {*sys.modules}; from seedspread import SupConLoss; "
    done = run_python(f"{code}print(*{{*sys.modules}} - before)")
    assert done.returncode == 0, done.stderr
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert not {"pandas", "scipy", "pydantic", "safetensors", "matplotlib", "pyarrow"} & imported


def test_a_study_runs_without_the_statistics(tmp_path: Path) -> None:
    line = ["run", str(study_file(tmp_path)), "--store", str(tmp_path / "store")]
    done = run_python(IMPORTED, json.dumps(line))
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stderr.splitlines()[-1])
    assert not ({"scipy", *HEAVY} - {"pyarrow"}) & set(imported)
