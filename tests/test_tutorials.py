"""The tutorials are notebooks: executed in a real kernel, in an empty folder, as their readers do."""

import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
# What only the machine that made an output would have in it.
PRIVATE = re.compile(r"/(home|root|tmp|Users|work|private|var)/|[A-Z]:\\\\|\d+:\d\d:\d\d|0x[0-9a-f]{6,}")
# The paper in miniature, smaller still.
FEWER = """seeds = 2
settings = { "training.epochs" = 1, "probe.epochs" = 2, "data.limit_per_class" = 20 }"""


@pytest.fixture(autouse=True)
def _own_jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the user's Jupyter is read, and nothing is left in it."""
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        (tmp_path / "jupyter" / name).mkdir(parents=True)
        monkeypatch.setenv(name, str(tmp_path / "jupyter" / name))


def execute(notebook: Any, folder: Path) -> Any:
    folder.mkdir()
    client = nbclient.NotebookClient(notebook, timeout=300, startup_timeout=300, record_timing=False)
    client.execute(cwd=str(folder))
    return notebook


def kinds(cell: Any) -> list[str]:
    """What a reader sees of a cell: `stream`, `text/html`, `image/png` or `text/plain`."""
    outputs = [o for o in cell.get("outputs", []) if o.get("data", {}).get("text/html") != ""]
    seen = ("text/html", "image/png", "text/plain")
    return [next((k for k in seen if k in o.get("data", {})), o["output_type"]) for o in outputs]


def test_there_are_three_and_the_docs_lead_to_them() -> None:
    names = ["is-my-change-real", "my-own-training-code", "the-paper-in-miniature"]
    assert [path.stem for path in TUTORIALS] == names
    readme = (ROOT / "README.md").read_text()
    assert all(f"docs/tutorials/{path.name}" in readme for path in TUTORIALS)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_it_runs_and_shows_what_it_has_stored(path: Path, tmp_path: Path) -> None:
    stored = nbformat.read(path, as_version=4)
    shorter = nbformat.read(path, as_version=4)
    for cell in shorter.cells:
        cell.source = cell.source.replace("seeds = 12", FEWER).replace("workers=2", "workers=1")
    made = execute(shorter, tmp_path / "folder")
    for before, after in zip(stored.cells, made.cells, strict=True):
        assert kinds(before) == kinds(after), before.source
        for output in after.get("outputs", []):
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr", output
    links = {link for cell in stored.cells for link in re.findall(r"\]\(([^)#:]+)", cell.source)}
    assert links
    assert all((path.parent / link).exists() for link in links)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_its_outputs_are_stored_and_tell_nothing_of_where_they_were_made(path: Path) -> None:
    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    assert set(stored.metadata) == {"kernelspec", "language_info"}
    for cell in stored.cells:
        if cell.cell_type == "code":
            assert cell.outputs, cell.source
            assert set(cell.metadata) == set()
        for output in cell.get("outputs", []):
            data = {k: v for k, v in output.get("data", {}).items() if k != "image/png"}
            assert not PRIVATE.search(str(data) + output.get("text", "")), cell.source


SHOWN = """
import numpy as np, pandas as pd
from seedspread import Store, Study, audit, components, write_report

def train(seed: int, a: float) -> dict[str, float]:
    return {"accuracy": 0.9 + a * np.random.default_rng(seed).normal()}

study = Study(train, factors={"a": [0.01, 0.02]}, seeds=4,
              audit={"group": "a", "baseline": 0.01, "value": "accuracy"})
#
runs = study.run("runs", workers=2)
#
runs
#
runs.audit()
#
runs.audit().comparisons[0]
#
components(runs.table, value="accuracy", group="a")
#
Store("runs")
#
write_report("runs", "page.html")
#
print(runs.audit())
#
runs.audit().plot()
"""


def test_everything_shows_itself_once_and_text_is_text(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in SHOWN.split("\n#\n")]
    made = execute(nbformat.v4.new_notebook(cells=cells), tmp_path / "folder")
    setup, progress, *shown, printed, plotted = [cell.outputs for cell in made.cells]
    assert setup == []
    assert len(progress) == 1  # one bar, updated; nothing splashed
    assert progress[0]["output_type"] == "display_data"
    for outputs in shown:
        (output,) = outputs
        assert "<div" in output["data"]["text/html"]
        assert "color:inherit" in output["data"]["text/html"]  # light and dark
        assert 0 < len(output["data"]["text/plain"]) < 5000
        assert str(tmp_path) not in str(output["data"])
    (text,) = printed
    assert text["output_type"] == "stream"
    assert "vs a = 0.01" in text["text"]
    (picture,) = plotted
    assert "image/png" in picture["data"]
