"""The quickstart: the paper's comparison in miniature on the embedded sample, from training to a report."""

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


def quickstart(
    path: Path | str,
    workers: int | None = None,
    watcher: Watcher | None = None,
    implementation: str | None = None,
) -> AuditResult:
    """Train, audit and write `report.html`; return the audit. Arguments are those of `run_study`."""
    executor = LocalExecutor(workers=workers)
    runs = run_study(STUDY, path, executor, watcher, implementation=implementation)
    runs.report(Path(path) / "report.html")
    return runs.audit()


def choose_implementation(store: Path) -> tuple[str | None, str]:
    """Return the fastest implementation for a new store, a begun store's own; and the line about it."""
    recorded = recorded_study(Store(store), STUDY)
    if recorded is not None:
        begun = recorded.implementation
        return begun, f"Implementation: {begun or 'fast'}, as in the runs that are there."
    with Terminal(stderr=True).status("compiling the native kernel ..."):
        why = why_not()
    if why is None:
        return "native", "Implementation: native, a kernel compiled for this CPU."
    return None, f"Implementation: fast. The native one is not available here: {why.rpartition(': ')[0]}."


# After the audit: what so small a study cannot show, and what to run next.
AFTERWARDS = (
    "This says nothing about the paper's effect, which is about a model 37 times larger, trained 120 times "
    "longer on 80 times more images.",
    "Next: seedspread plan mini/cifar10-factorial  (CIFAR-10 in miniature, about a minute per run), or "
    "paper/cifar10-factorial (GPUs).",
)
