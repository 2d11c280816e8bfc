"""For people who write Python: a study run, audited and reported, without the terminal.

This module and the command line are the only places that join campaigns, statistics and reports.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from seedspread.campaign.executor import CampaignProgress, Executor, ProgressCallback
from seedspread.campaign.local import LocalExecutor
from seedspread.campaign.loop import CampaignStoppedError, run_campaign
from seedspread.campaign.plan import Plan
from seedspread.campaign.study import MAX_RUNS, StudySpec
from seedspread.errors import SeedspreadError
from seedspread.report.material.from_store import from_store
from seedspread.report.material.settings import ReportData
from seedspread.report.page.export import write_page
from seedspread.report.page.report import Report
from seedspread.runs.lease import LEASE_SECONDS
from seedspread.runs.store import Store
from seedspread.stats.audit import audit
from seedspread.stats.audited import AuditResult


@dataclass(frozen=True)
class StudyRuns:
    """The runs of a study in a store.

    Attributes:
        plan: what the study asks for.
    """

    plan: Plan

    def table(self, value: str | None = None) -> pd.DataFrame:
        """One row per finished run, factors as columns; `value` is a metric that older runs may lack."""
        return self.plan.table([value] if value else ())

    def audit(self, value: str | None = None) -> AuditResult:
        """The comparison that the study is about, of its metric or of another one."""
        spec = self.plan.study.audit
        if spec is None:
            raise SeedspreadError(f"{self.plan.study.name} names no comparison; give it an [audit]")
        wanted = value or spec.values[0]
        blocks = spec.blocks or None
        return audit(self.table(wanted), wanted, spec.group, spec.reference, blocks, by=spec.strata)

    def report(self, page: "Path | str", value: str | None = None) -> Path:
        """Writes the page."""
        write_report(self.plan.store.path, page, plans=[self.plan], value=value)
        return Path(page)


def run_study(
    study: "StudySpec | Path | str",
    store: "Path | str",
    executor: Executor | None = None,
    on_progress: ProgressCallback = lambda _: None,
    *,
    data_dir: Path | None = None,
    max_failures: int | None = None,
    retry_failed: bool = False,
    lease_seconds: float = LEASE_SECONDS,
    force: bool = False,
    max_runs: int = MAX_RUNS,
) -> StudyRuns:
    """Runs what a study is missing; raises if a run fails, when all that can be run has been.

    Args:
        study: a study, the name of a shipped one, or a .toml file.
        store: the folder of results.
        executor: where it is run; worker processes on this machine by default.
        on_progress: hears of every change.
        data_dir: the data folder.
        max_failures: stop early once so many runs have failed.
        retry_failed: try again what has failed before.
        lease_seconds: after how long a silent lease may be taken over.
        force: run with another number of threads than the study was begun with.
        max_runs: refuse a study that names more.
    """
    read = study if isinstance(study, StudySpec) else StudySpec.from_file(study, max_runs)
    plan = Plan.make(read, store, data_dir)
    progress = run_campaign(
        plan,
        executor or LocalExecutor(),
        on_progress,
        max_failures=max_failures,
        retry_failed=retry_failed,
        lease_seconds=lease_seconds,
        force=force,
    )
    raise_if_unfinished(progress, waited=(executor or LocalExecutor()).wait)
    return StudyRuns(plan)


def raise_if_unfinished(progress: CampaignProgress, *, waited: bool) -> None:
    """In one line: what stopped a campaign, or how many of its runs failed; nothing of jobs that go on."""
    if progress.stopped == "interrupted":
        raise CampaignStoppedError("interrupted; rerun the same command to resume")
    if progress.stopped and waited:
        raise SeedspreadError(progress.stopped)
    if progress.failed:
        key, message = next(iter(progress.failed.items()))
        failed = f"{runs(len(progress.failed))} failed; try again with --retry-failed"
        raise SeedspreadError(f"{failed} (the first, {key}: {message})")
    if progress.left and waited:
        raise SeedspreadError(f"{runs(progress.left)} did not end; rerun the same command to resume")


def runs(count: int) -> str:
    """`1 run`, `3 runs`."""
    return "1 run" if count == 1 else f"{count} runs"


def store_material(
    store: "Path | str",
    studies: Iterable[str] = (),
    *,
    plans: Iterable[Plan] = (),
    value: str | None = None,
    data_dir: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> ReportData:
    """What a report on a store is made of.

    Args:
        store: the folder of results.
        studies: names or .toml files; by default all that the store remembers.
        plans: the same, where they are made already.
        value: the metric; by default each study's own.
        data_dir: the data folder, for studies on partial data.
        tell: hears what is being done.
    """
    found = [*plans, *(Plan.make(StudySpec.from_file(name), Store(store), data_dir) for name in studies)]
    recorded = [study for plan in found for study in plan.recorded()]
    return from_store(Path(store), recorded, value, tell)


def write_report(
    store: "Path | str", page: "Path | str", *, plans: Iterable[Plan] = (), value: str | None = None
) -> Report:
    """Writes the page of a store: the answer, every table and every figure, in one file."""
    report = Report(store_material(store, plans=plans, value=value))
    write_page(report, Path(page))
    return report


def quickstart(
    path: Path,
    workers: int | None = None,
    on_progress: ProgressCallback = lambda _: None,
) -> AuditResult:
    """The whole pipeline in miniature on the embedded sample: trains, audits, writes `report.html`."""
    found = run_study("quickstart", path, LocalExecutor(workers=workers), on_progress)
    found.report(path / "report.html")
    return found.audit()
