"""Record the program's answers, or compare them with a recording.

    python tools/record_answers.py record FILE --tables FOLDER --store STORE
    python tools/record_answers.py compare FILE --tables FOLDER --store STORE

FILE (.json.gz) contains the answers; before.json.gz has those from before the package was reorganized. FOLDER
contains the published tables to audit, STORE the runs of the quickstart.
A reorganization of the code must not change the answers, except for the names in `RENAMED`.
"""

import argparse
import gzip
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# Names of fields, options and modules: as recorded -> current.
RENAMED = {
    "reference": "baseline",
    "n-reference": "n-baseline",
    "paper": "pooled_test",
    "paper_ratio": "pooled_ratio",
    "paper_p": "pooled_p",
    "seedspread.campaign.plan": "seedspread.study.plan",
    "seedspread.campaign.study": "seedspread.study.spec",
    "seedspread.studies": "seedspread.study.spec",
}

# Fields that were removed, or added.
GONE, NEW = {"holds", "error", "report paper"}, {"family"}

_PAPER = ["--value", "accuracy", "--group", "margin_type", "--reference", "subtract"]
_NSAD = ["--value", "AUC", "--group", "Model", "--reference", "KAN", "--by", "Dataset"]
_BERT = ["--value", "test_acc", "--group", "method", "--by", "dataset", "--where", "dataset == RTE"]
_CURVES = ["--value", "reward", "--group", "method", "--reference", "sac", "--by", "task", "--last", "step"]
_CHOSEN = ["--where", "task in (acrobot-swingup, cheetah-run)"]


def commands(tables: Path, store: Path, out: Path) -> dict[str, list[str]]:
    """Return the command line of every answer, by name."""
    paper = "examples/paper-cifar10.csv"
    nsad, bert, curves = (
        str(tables / f"{name}.csv") for name in ("nsad-auc", "bert-finetuning", "tdmpc2-curves")
    )
    gpt = str(tables / "nanogpt-optimizers.csv")
    entry = ["--value", "val_loss", "--group", "entry", "--reference", "20260430_normuonh@3275"]
    papers, nsads, berts = (halves(Path(name), out) for name in (paper, nsad, bert))
    return {
        "audit paper": ["audit", paper, *_PAPER, "--block", "stability", "--test-size", "10000"],
        "audit nsad": ["audit", nsad, *_NSAD],
        "audit nsad pairs": ["audit", nsad, "--value", "Acc", "--group", "Model", "--by", "Dataset"],
        "audit bert": ["audit", bert, *_BERT],
        "audit bert mcc": [
            "audit",
            bert,
            "--value",
            "test_mcc",
            "--group",
            "method",
            "--where",
            "dataset == CoLA",
        ],
        "audit nanogpt": ["audit", gpt, *entry, "--no-seed", "--lower-is-better"],
        "audit curves": ["audit", curves, *_CURVES, *_CHOSEN],
        "audit store": ["audit", str(store)],
        "audit look": [
            "audit",
            paper,
            *_PAPER,
            "--block",
            "stability",
            "--look",
            "1",
            "--of",
            "3",
            "--step",
            "7",
        ],
        "compare paper": ["compare", *papers, *_PAPER, "--block", "stability"],
        "compare nsad": ["compare", *nsads, *_NSAD],
        "compare bert": ["compare", *berts, *_BERT],
        "compare store": ["compare", str(store), str(out / "copy")],
        "components paper": ["components", paper, *_PAPER, "--block", "stability"],
        "components nsad": ["components", nsad, *_NSAD],
        "components store": ["components", str(store)],
        "seeds": ["seeds", "--ratio", "4"],
        "seeds blocks": "seeds --ratio 3 --blocks 2 --pairs 0.5 --same-seed-runs 0.8".split(),
        "seeds mean": ["seeds", "--sd", "0.5", "--se", "0.1"],
        "verify-paper": ["verify-paper"],
        "report store": ["report", str(store), "--tables", str(out / "store")],
        "report table": ["report", nsad, *_NSAD, "--tables", str(out / "table")],
    }


def halves(table: Path, out: Path) -> list[str]:
    """Split a table into its odd and its even rows; return the paths of both tables."""
    head, *rows = table.read_text().splitlines()
    parts = {out / f"{table.stem}-{name}.csv": rows[k::2] for k, name in enumerate(("odd", "even"))}
    for path, part in parts.items():
        path.write_text("\n".join([head, *part, ""]))
    return list(map(str, parts))


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
    audit = {"group": "smoothing", "BASELINE": "0.0", "value": "accuracy"}
    study = Study(train, factors={"smoothing": [0.0, 0.1]}, seeds=5, audit=audit)
    study.run("STORE", workers=1, progress=False).audit()
"""


def anywhere(text: str, places: dict[str, Path]) -> str:
    """Replace paths of this machine in a text with names."""
    for name, place in places.items():
        text = text.replace(str(place), name)
    return text


def answer(command: list[str], places: dict[str, Path], out: Path) -> Any:
    """Return a command's JSON, or for a report its tables as CSV."""
    line = [sys.executable, "-c", _MAIN, *command]
    if "--tables" not in command:
        line.append("--json")
    folder = Path(command[command.index("--tables") + 1]) if "--tables" in command else None
    page = ["--out", str(out / "page.html")] if folder is not None else []
    done = subprocess.run([*line, *page], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"exit": "error", "says": done.stderr.strip().splitlines()[-1:]}
    if folder is None:
        return json.loads(anywhere(done.stdout, places))
    return {path.name: path.read_text() for path in sorted(folder.glob("*.csv"))}


def walk(line: list[str], out: Path) -> tuple[str, dict[str, list[str]]]:
    """Run Python; return its output, and the files in which it and each child process call a function."""
    site, noted = (Path(tempfile.mkdtemp(dir=out)) for _ in range(2))
    (site / "sitecustomize.py").write_text(_NOTE_FILES)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "WALK": str(noted)}
    done = subprocess.run(
        [sys.executable, *line], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, {file.name: sorted(set(file.read_text().split())) for file in noted.iterdir()}


def walks(store: Path, out: Path) -> dict[str, list[str]]:
    """Return the files called by an audit, a report, a study and its worker, and the modules of a study."""
    audit = ["audit", "examples/paper-cifar10.csv", *_PAPER, "--block", "stability"]
    report = ["report", str(store), "--out", str(out / "walk.html")]
    script = out / "study.py"
    script.write_text(_STUDY.replace("BASELINE", renamed("reference")).replace("STORE", str(out / "walk")))
    found = {}
    for name, command in (("audit", audit), ("report", report)):
        passed = walk(["-c", _MAIN, *spelled(command)], out)[1]
        found[name] = max(passed.values(), key=len)
    text, passed = walk([str(script)], out)
    number, found["modules of Study"] = json.loads(text.splitlines()[0])
    found["study"] = passed.pop(str(number))
    found["worker"] = max(passed.values(), key=len)
    return found


def keys() -> dict[str, str]:
    """Return a hash of the keys of every shipped study."""
    script = (
        "import hashlib, json, tempfile\n"
        "from pathlib import Path\n"
        f"from {renamed('seedspread.campaign.plan')} import Plan\n"
        f"from {renamed('seedspread.campaign.study')} import StudySpec\n"
        f"from {renamed('seedspread.studies')} import study_names\n"
        "nowhere = Path(tempfile.mkdtemp())\n"
        "specs = {n: StudySpec.from_file(n) for n in study_names()}\n"
        "plans = {n: Plan.make(spec, nowhere, nowhere / 'no data') for n, spec in specs.items()}\n"
        "text = {n: ' '.join(run.key for run in plan.runs) for n, plan in plans.items()}\n"
        "print(json.dumps({n: hashlib.sha256(t.encode()).hexdigest()[:16] for n, t in text.items()}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def renamed(name: str) -> str:
    """Return the current name of a field, option or module."""
    return RENAMED.get(name, name)


def spelled(command: list[str]) -> list[str]:
    """Return a command line with the current names."""
    return [f"--{renamed(word[2:])}" if word.startswith("--") else word for word in command]


def everything(tables: Path, store: Path) -> dict[str, Any]:
    """Return all answers, keys and walks."""
    out = Path(tempfile.mkdtemp(prefix="answers-"))
    os.environ["COLUMNS"] = "100"
    try:
        shutil.copytree(store, out / "copy")
        found: dict[str, Any] = {}
        for name, command in commands(tables, store, out).items():
            print(name, file=sys.stderr)
            found[name] = answer(spelled(command), {"OUT": out, "STORE": store, "TABLES": tables}, out)
        return {"answers": found, "keys": keys(), "walks": walks(store, out)}
    finally:
        shutil.rmtree(out)


def differences(before: Any, now: Any, place: str) -> list[str]:
    """Return the differences of two answers, except renamed fields and the last digits of numbers."""
    if isinstance(before, dict) and isinstance(now, dict):
        named = {renamed(name): value for name, value in before.items()}
        lost, new = named.keys() - now.keys() - GONE, now.keys() - named.keys() - NEW
        out = [f"{place}: {name} is gone" for name in sorted(lost)]
        out += [f"{place}: {name} is new" for name in sorted(new)]
        both = [name for name in named if name in now]
        return out + [
            line for name in both for line in differences(named[name], now[name], f"{place}/{name}")
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [line for k, (a, b) in pairs for line in differences(a, b, f"{place}[{k}]")]
    if isinstance(before, float) and isinstance(now, float):
        return (
            [] if math.isclose(before, now, rel_tol=1e-9, abs_tol=1e-12) else [f"{place}: {before} -> {now}"]
        )
    return [] if before == now else [f"{place}: {str(before)[:300]!r} -> {str(now)[:300]!r}"]


def sizes(found: dict[str, Any]) -> str:
    """Return the lengths of the walks as a line."""
    walked = found["walks"]
    paper = [
        name for name in walked["modules of Study"] if {"cff", "paper", "published"} & set(name.split("."))
    ]
    counts = ", ".join(f"{name} {len(files)}" for name, files in walked.items())
    return f"{counts}, {len(paper)} of them the paper's"


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    given = parser.parse_args()
    found = everything(given.tables, given.store)
    text = json.dumps(found, sort_keys=True)
    print(sizes(found), hashlib.sha256(text.encode()).hexdigest()[:12])
    if given.what == "record":
        given.file.write_bytes(gzip.compress(text.encode(), mtime=0))
        return
    recorded = json.loads(gzip.decompress(given.file.read_bytes()))
    print(f"before: {sizes(recorded)}")
    now = json.loads(text)
    # Studies of the evidence are no longer in the package; tests/evidence checks their keys.
    recorded["keys"] = {name: key for name, key in recorded["keys"].items() if name in now["keys"]}
    lines = [line for part in ("answers", "keys") for line in differences(recorded[part], now[part], part)]
    print("\n".join(lines) or "every answer and key is the same")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
