"""The quickstart: the paper's comparison in miniature on the embedded sample, from training to report."""

import shlex
from pathlib import Path

from seedspread.analysis.audit_result import AuditResult
from seedspread.cff.training.native import why_not
from seedspread.render.terminal import Terminal
from seedspread.runs.store import Store
from seedspread.runs.studies import recorded_study
from seedspread.study.local import LocalExecutor
from seedspread.study.sequential import Watcher
from seedspread.study.study import run_study

STUDY = "quickstart"
NATIVE = f"{STUDY} implementation=native"


def quickstart(
    path: Path | str, workers: int | None = None, watcher: Watcher | None = None, study: str = STUDY
) -> AuditResult:
    """Train, write `report.html`, and return the audit."""
    runs = run_study(study, path, LocalExecutor(workers=workers), watcher)
    runs.report(Path(path) / "report.html")
    return runs.audit()


def choose_study(store: Path) -> tuple[str, str]:
    """Return the study of a store that has one, else of the fastest implementation, and a line on it."""
    for study, name in ((STUDY, "fast"), (NATIVE, "native")):
        if recorded_study(Store(store), study) is not None:
            return study, f"Implementation: {name}, as in the runs that are there."
    with Terminal(stderr=True).status("compiling the native kernel ..."):
        why = why_not()
    if why is None:
        return NATIVE, "Implementation: native, a kernel compiled for this CPU."
    return STUDY, f"Implementation: fast. The native one is not available here: {why.rpartition(': ')[0]}."


def what_next(store: Path) -> str:
    """Return lines on what so small a study cannot show, and on what to read and run next."""
    lines = {
        "Not shown": "the paper's effect: its model is 37 times larger, trained 120",
        "": "times longer on 80 times more images",
        "Page": f"{store / 'report.html'}",
        "Details": shlex.join(["seedspread", "audit", str(store), "--explain"]),
        "Next": "seedspread plan mini/cifar10-factorial  (a minute per run)",
    }
    return "\n".join(f"  {label:<10}  {text}" for label, text in lines.items())
