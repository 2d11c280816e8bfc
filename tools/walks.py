"""Count the files whose functions commands call: `python tools/walks.py STORE`, the store of a quickstart."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_MAIN = "from seedspread.cli import main; main()"
# A Python process with this file on its path records the files of the package in which it calls a function.
_NOTE_FILES = """
import os, sys
root = os.sep + "seedspread" + os.sep
noted, passed = os.open(f"{os.environ['WALK']}/{os.getpid()}", os.O_CREAT | os.O_APPEND | os.O_WRONLY), set()
def note(frame, event, argument):
    name = frame.f_code.co_filename
    is_function = frame.f_code.co_flags & 1  # neither a module's body nor a class's
    if event == "call" and is_function and root in name and name.endswith(".py") and name not in passed:
        passed.add(name)
        os.write(noted, (name.rpartition(root)[2] + chr(10)).encode())
sys.setprofile(note)
"""
_STUDY = """
import json, os, sys
from seedspread import Study
modules = sorted(name for name in sys.modules if name.split(".")[0] == "seedspread")
print(json.dumps([os.getpid(), modules]))
def train(seed: int, smoothing: float) -> dict[str, float]:
    return {"accuracy": 0.9 + smoothing / seed}
if __name__ == "__main__":
    audit = {"group": "smoothing", "baseline": "0.0", "value": "accuracy"}
    study = Study(train, factors={"smoothing": [0.0, 0.1]}, seeds=5, audit=audit)
    study.run("runs", workers=1, progress=False).audit()
"""


def walk(folder: Path, *line: str) -> tuple[str, dict[str, list[str]]]:
    """Run Python in a folder; return its output, and the files in which each process calls a function."""
    site, noted = (Path(tempfile.mkdtemp(dir=folder)) for _ in range(2))
    (site / "sitecustomize.py").write_text(_NOTE_FILES)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *line],
        env=os.environ | {"PYTHONPATH": path, "WALK": str(noted)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, {file.name: sorted(set(file.read_text().split())) for file in noted.iterdir()}


def main() -> None:
    """Print the number of files of an audit, a report, a study and its worker, and what a study imports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    store = str(parser.parse_args().store.resolve())
    table = str(Path(__file__).parents[1] / "examples" / "paper-cifar10.csv")
    audit = ["audit", table, "--value", "accuracy", "--group", "margin_type", "--block", "stability"]
    with tempfile.TemporaryDirectory() as name:
        for command in (audit, ["report", store, "--out", "page.html"]):
            passed = walk(Path(name), "-c", _MAIN, *command)[1]
            print(f"{command[0]}: {max(map(len, passed.values()))} files")
        Path(name, "study.py").write_text(_STUDY)
        text, passed = walk(Path(name), "study.py")
    own, modules = json.loads(text.splitlines()[0])
    print(f"study: {len(passed.pop(str(own)))} files; its worker: {max(map(len, passed.values()))}")
    of_paper = [module for module in modules if {"cff", "paper"} & set(module.split("."))]
    print(f"from seedspread import Study: {len(modules)} modules, {len(of_paper)} of them the paper's")


if __name__ == "__main__":
    main()
