"""The pages on code of one's own are followed as a reader would: their files, in a folder, their commands."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
# The same study, smaller: seeds, epochs and images change nothing that the page states.
FEWER = "--seeds 2 --set training.epochs=1 --set probe.epochs=1 --set limit_per_class=12 --workers 1"


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["new-margin.md", "new-dataset.md", "layer-local.md"])
def test_a_reader_can_follow_it(page: str, tmp_path: Path) -> None:
    files = [block for kind in ("python", "toml") for block in blocks(page, kind) if block.startswith("# ")]
    for block in files:
        name = block.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).write_text(block)
    commands = [line for block in blocks(page, "sh") for line in block.splitlines()]
    assert [line.split()[:2] for line in commands][-2:] == [["seedspread", "run"], ["seedspread", "audit"]]
    if (tmp_path / "fit.py").exists():
        commands.insert(0, "python fit.py")
    outputs = []
    for line in commands:
        program, *arguments = shlex.split(line)
        if arguments[0] == "run":
            arguments += FEWER.split()
        module = [] if program == "python" else ["-m", program]
        done = subprocess.run(
            [sys.executable, *module, *arguments],
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        outputs.append(done.stdout)
    assert len(list((tmp_path / "store").glob("*/result.json"))) == 4
    assert "accuracy | 2 " in outputs[-1]  # seeds of each group
