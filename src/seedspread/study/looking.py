"""A study that grows: it runs what a look needs, looks, and adds seeds until the rule says stop."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from seedspread.runs.sequential import SequentialRecord, SequentialSpec, TakenLook
from seedspread.runs.store import FINISHED
from seedspread.runs.studies import RecordedStudy, recorded_study, save_study
from seedspread.study.executor import Executor, ProgressCallback, StudyProgress
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan


class Judge(Protocol):
    """What the statistics say of studies that grow; this folder knows none."""

    def factor(self, spec: SequentialSpec, comparisons: int) -> float:
        """By how much its boundaries are wider than normal theory's; raises if the rule cannot be met."""

    def look(self, plan: Plan, study: RecordedStudy) -> TakenLook:
        """The next look at a study whose runs are there."""


# Hears of each look: the study's name, and all looks so far.
LookCallback = Callable[[str, SequentialRecord], None]


def run_looking(
    plan: Plan,
    executor: Executor,
    judge: Judge,
    on_progress: ProgressCallback = lambda _: None,
    on_look: LookCallback = lambda _, __: None,
    *,
    retry_failed: bool = False,
    **options: Any,
) -> tuple[Plan, StudyProgress]:
    """Runs what a plan is missing, look by look where studies grow; the last plan, and how it went.

    Args:
        plan: what there is to do.
        executor: where it is done. One that does not wait ends before the next look: the same command,
            given again, takes it.
        judge: looks.
        on_progress: hears of every change.
        on_look: hears of every look.
        retry_failed: try again what has failed before.
        options: of `run_plan`.
    """
    plan = plan.grown({name: _begun(plan, name, judge) for name in plan.growing})
    progress = run_plan(plan, executor, on_progress, retry_failed=retry_failed, **options)
    while not progress.stopped and (grown := _look(plan, judge, on_look)) != plan.growing:
        plan = plan.grown(grown)
        progress = _together(progress, run_plan(plan, executor, on_progress, **options))
    return plan, progress


def _begun(plan: Plan, name: str, judge: Judge) -> SequentialRecord:
    record = plan.growing[name]
    if record.factor is not None:
        return record
    return replace(record, factor=judge.factor(record.spec, comparisons_of(plan, name)))


def comparisons_of(plan: Plan, name: str) -> int:
    """How many a study makes, whose levels they share."""
    part = next(part for part in plan.study.parts if part.name == name)
    if part.audit is None:
        return 1
    blocks = set(part.audit.blocks)
    arms = {tuple(pair for pair in cell.levels if pair[0] not in blocks) for cell in part.cells}
    strata = {tuple(pair for pair in arm if pair[0] != part.audit.group) for arm in arms}
    return max(1, len(arms) - len(strata))


def _look(plan: Plan, judge: Judge, on_look: LookCallback) -> dict[str, SequentialRecord]:
    """Looks at every growing study whose runs have ended; all looks so far, written down."""
    out = dict(plan.growing)
    for study in plan.recorded():
        record = out.get(study.name)
        if record is None or record.stopped or not _has_ended(plan, study):
            continue
        known = recorded_study(plan.store, study.name, study.origin) or study
        if known.sequential is None or len(known.sequential.looks) <= len(record.looks):
            look = judge.look(plan, study)
            known = replace(known, sequential=replace(record, looks=(*record.looks, look)))
            save_study(plan.store, known)
        if known.sequential is not None:
            out[study.name] = known.sequential
            on_look(study.name, known.sequential)
    return out


def _has_ended(plan: Plan, study: RecordedStudy) -> bool:
    """Whether every run has a result, or failed by itself: what was ended or refused says nothing yet.

    A cell without any result waits to be mended: it would take seeds, and leave a comparison out of the look.
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
