"""Sequential studies: run what an interim look needs, look, and add seeds until the rule ends the study."""

from dataclasses import replace
from typing import Any

from seedspread.errors import SeedspreadError, spoken
from seedspread.runs.store import FINISHED, Store
from seedspread.runs.studies import (
    LookRecord,
    RecordedStudy,
    SequentialRecord,
    load_studies,
    recorded_study,
    save_study,
)
from seedspread.study.executor import Executor, StudyProgress
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.tables.from_store import study_runs


class Watcher:
    """Follows a study while it runs; inherit it and override what is of interest."""

    def tell(self, progress: StudyProgress) -> None:
        """Called at every change of a run."""

    def interim_look(self, plan: Plan, name: str, record: SequentialRecord) -> None:
        """Called after every look at a sequential study of the plan, with all its looks so far."""

    def simulated(self, share: float) -> None:
        """Called while the levels of the looks are simulated, with the share that is done."""


def run_sequential(
    plan: Plan,
    executor: Executor,
    watcher: Watcher | None = None,
    *,
    retry_failed: bool = False,
    **options: Any,
) -> tuple[Plan, StudyProgress]:
    """Run what a plan is missing, look by look for sequential studies; return the last plan and its progress.

    An executor that does not wait returns before the next look; repeating the command takes the look.
    """
    watcher = watcher or Watcher()
    _refuse_second_first_look(plan)
    plan = plan.at_interim_look({name: _begun(plan, name, watcher) for name in plan.sequential})
    progress = run_plan(plan, executor, watcher.tell, retry_failed=retry_failed, **options)
    while not progress.stopped and (looks := _next_looks(plan)):
        for name, record in looks.items():
            watcher.interim_look(plan, name, record)
        plan = plan.at_interim_look({**plan.sequential, **looks})
        progress = _together(progress, run_plan(plan, executor, watcher.tell, **options))
    if executor.wait and not progress.stopped and not progress.left:
        progress.stopped = _why_no_look(plan)
    return plan, progress


def _refuse_second_first_look(plan: Plan) -> None:
    """Refuse to look at runs that another study has looked at: the first look would not be the first."""
    every = {(study.name, study.origin): study for study in plan.recorded()}
    begins = [
        one for one in every.values() if one.name in plan.sequential and not plan.sequential[one.name].looks
    ]
    for other in load_studies(plan.store)[0] if begins else ():
        # Studies of one plan are planned together.
        if other.sequential is None or not other.sequential.looks or (other.name, other.origin) in every:
            continue
        for study in begins:
            if set(other.at_last_look.keys).intersection(study.keys):
                times = len(other.sequential.looks)
                raise SeedspreadError(
                    f"{other.name} has taken {times} look{'s' * (times > 1)} at runs of {study.name}, which "
                    f"cannot have a first look any more: continue {other.name}, or use another store"
                )


def _why_no_look(plan: Plan) -> str:
    """Return why an unfinished study cannot take its next look, if so."""
    for study in plan.recorded():
        record = plan.sequential.get(study.name)
        for cell in study.cells if record is not None and not record.stopped else ():
            if not any(plan.store.is_done(key) for key in cell.runs.values()):
                why = f"no look can be taken at {study.name}: every run of {cell.name} failed"
                return f"{why}; {spoken('fix it, then try again with --retry-failed')}"
    return ""


def _begun(plan: Plan, name: str, watcher: Watcher) -> SequentialRecord:
    record = plan.sequential[name]
    if record.factor is not None:
        return record
    from seedspread.analysis.sequential import factor_for  # noqa: PLC0415 - scipy, which most studies run without

    factor = factor_for(record.spec, comparisons_of(plan, name), watcher.simulated)
    return replace(record, factor=factor)


def comparisons_of(plan: Plan, name: str) -> int:
    """Return the number of comparisons of a study, which share its error rate."""
    part = next(part for part in plan.study.parts if part.name == name)
    if part.audit is None:
        return 1
    blocks = set(part.audit.blocks)
    groups = {tuple(pair for pair in cell.levels if pair[0] not in blocks) for cell in part.cells}
    strata = {tuple(pair for pair in group if pair[0] != part.audit.group) for group in groups}
    return max(1, len(groups) - len(strata))


def _next_looks(plan: Plan) -> dict[str, SequentialRecord]:
    """Take the next look at every study whose runs have ended, and save it; return all looks of each."""
    looks = {}
    for study in plan.recorded():
        record = plan.sequential.get(study.name)
        if record is None or record.stopped or not _has_ended(plan, study):
            continue
        known = recorded_study(plan.store, study.name, study.origin) or study
        if known.sequential is None or len(known.sequential.looks) <= len(record.looks):
            look = next_look(plan.store, study)
            known = replace(known, sequential=replace(record, looks=(*record.looks, look)))
            save_study(plan.store, known)
        if known.sequential is not None:
            looks[study.name] = known.sequential
    return looks


def next_look(store: Store, study: RecordedStudy) -> LookRecord:
    if study.audit is None or study.sequential is None:
        raise SeedspreadError(f"{study.name} names no comparison to look at; give it an [audit]")
    from seedspread.analysis.audit import take_look  # noqa: PLC0415 - scipy, which most studies run without

    table = study_runs(store, [study], study.audit.values[:1])
    return take_look(table, study.audit, study.sequential, study.metrics)


def named(plan: Plan, name: str, line: str) -> str:
    """Return a line about a study of the plan, prefixed with the study's name if there are several."""
    return f"{name}: {line}" if len(plan.study.parts) > 1 else line


def _has_ended(plan: Plan, study: RecordedStudy) -> bool:
    """Return whether every run has a result, or failed by itself; a killed or refused run is still to do.

    A cell without any result must be mended first: it would use seeds, and be missing from the look.
    """
    done = {key for key in study.keys if plan.store.state(key).state in FINISHED}
    return all(key in done or plan.store.has_crashed(key) for key in study.keys) and all(
        done.intersection(cell.runs.values()) for cell in study.cells
    )


def _together(before: StudyProgress, now: StudyProgress) -> StudyProgress:
    done, failed = before.done | now.done, before.failed | now.failed
    return replace(
        now, total=len(done) + len(failed) + now.left, done=done, failed=failed, before=before.before
    )
