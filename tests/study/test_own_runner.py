"""A stranger's runner, as in `examples/own_runner`: found by its entry point, run by `seedspread run`."""

import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from seedspread.cli import app
from seedspread.runners.contract import Runner
from seedspread.runs import plugins as brought
from seedspread.runs.store import Store
from seedspread.study.spec import StudyError, StudySpec

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_runner"
STUDY = EXAMPLE / "study.toml"


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pip install .` would have it; workers inherit the path."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    group = "seedspread.runners"
    own = {name: EntryPoint(name, value, group) for name, value in project["entry-points"][group].items()}
    shipped = brought.plugins
    monkeypatch.setattr(brought, "plugins", lambda g: {**shipped(g), **(own if g == "runners" else {})})
    monkeypatch.syspath_prepend(EXAMPLE)


def distance(steps: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    return abs(float(sum(int(rng.choice((-1, 1))) for _ in range(steps))))


def test_it_is_run_and_audited(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ran = CliRunner().invoke(app, ["run", str(STUDY), "--store", str(store), "--workers", "1"])
    assert ran.exit_code == 0, ran.output
    table = Store(store).table()
    found = {(row["steps"], row["seed"]): row["distance"] for row in table.to_dict("records")}
    assert found == {(n, seed): distance(n, seed) for n in (50, 200) for seed in range(1, 13)}
    audited = CliRunner().invoke(app, ["audit", str(store), "--json"])
    assert audited.exit_code == 0, audited.output
    assert "distance" in json.dumps(json.loads(audited.stdout))


def test_what_it_refuses_is_one_line(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.read_text().replace("[factors]", "[settings]\nlegs = 2\n\n[factors]"))
    with pytest.raises(StudyError, match=r"a walk has steps and stride, no 'legs'$"):
        StudySpec.from_file(str(study))
    study.write_text(STUDY.read_text().replace("seeds = 12", 'seeds = 12\nvary = ["init"]'))
    with pytest.raises(StudyError, match="no source is called 'init'; its runs have one seed"):
        StudySpec.from_file(str(study))


def test_a_runner_must_say_what_and_how_it_runs() -> None:
    assert Runner.__abstractmethods__ == {"name", "parameters", "keys", "run"}
