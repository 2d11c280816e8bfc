"""The single loop over any engine, which runs what a plan is missing."""

import re
import shlex
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from seedspread.errors import SeedspreadError, in_terminal, spoken
from seedspread.runners.contract import WorkItem
from seedspread.runners.outputs import suggested_regex
from seedspread.runners.revisions import REVISION
from seedspread.runs.lease import LEASE_SECONDS
from seedspread.runs.levels import counted_runs
from seedspread.runs.run import Run
from seedspread.runs.stopping import handling
from seedspread.runs.store import FINISHED, RunState, Store
from seedspread.runs.studies import recorded_study, save_study
from seedspread.study.executor import Executor, Job, ProgressCallback, StudyProgress
from seedspread.study.plan import Estimate, Plan
from seedspread.study.slurm_engine import SlurmExecutor

_RETRY = "try again with --retry-failed"
_LOOK_SECONDS = 2.0
# If this many runs fail alike, before any has succeeded, the study has a mistake.
_FIRST_RUNS = 3
# Parts that differ between failures of the same kind: numbers, places.
_FACTS = re.compile(r"[\d.]+|/\S+")
# Share of the time that may be spent on reading the store.
_LOOK_SHARE = 0.05


class Overview:
    """Updates the time left of a running study from its store."""

    def __init__(self, plan: Plan, progress: StudyProgress) -> None:
        self.progress = progress
        self.plan, self._estimate, self._next = plan, Estimate(plan), 0.0
        self._finished = set(plan.distinct) - set(plan.missing())

    def look(self) -> bool:
        """Read the store if it is time to; return whether it was read."""
        start = time.monotonic()
        if start < self._next:
            return False
        states = {key: self._state(key) for key in self.plan.distinct}
        self.progress.seconds_left = self._estimate.seconds_left(states)
        took = time.monotonic() - start
        self._next = start + max(_LOOK_SECONDS, took / _LOOK_SHARE)
        return True

    def _state(self, key: str) -> RunState:
        if key in self._finished or key in self.progress.done:
            return RunState(key, "done")
        if key in self.progress.failed:
            return RunState(key, "failed", self.progress.failed[key])
        return self.plan.store.state(key)


class StudyStoppedError(SeedspreadError):
    """The study was interrupted and can be resumed."""

    exit_code = 130


class RunsFailedError(SeedspreadError):
    """Runs failed with errors of their own under `strict`."""

    exit_code = 3


def raise_if_unfinished(progress: StudyProgress, *, waited: bool, strict: bool = False) -> None:
    """Raise, in one line, what stopped a study, or how many runs have no outcome; ignore jobs still running.

    A run that ended with an error of its own has an outcome; it counts as failed here only if `strict`.
    """
    if progress.stopped == "interrupted":
        raise StudyStoppedError("interrupted; rerun the same command to resume")
    if progress.stopped and waited:
        raise SeedspreadError(progress.stopped)
    without = {key: message for key, message in progress.failed.items() if key not in progress.crashed}
    if failed := progress.failed if strict else without:
        key, message = next(iter(failed.items()))
        advice = spoken(_RETRY if in_terminal.get() else f"{_RETRY} (Study.runs has the others)")
        error = SeedspreadError if without else RunsFailedError
        raise error(
            f"{counted_runs(len(failed))} failed; {advice}; the first, {progress.title(key)}: {message}"
        )
    if progress.left and waited:
        raise SeedspreadError(f"{counted_runs(progress.left)} did not end; rerun the same command to resume")


def run_plan(
    plan: Plan,
    executor: Executor,
    on_progress: ProgressCallback = lambda _: None,
    *,
    retry_failed: bool = False,
    keep_going: bool = False,
    lease_seconds: float = LEASE_SECONDS,
) -> StudyProgress:
    """Run what a plan is missing, and return its progress.

    Args:
        plan: what the study asks for.
        executor: the engine to run it on.
        on_progress: called at every change of a run.
        retry_failed: retry runs that failed before.
        keep_going: run the rest even if the first runs all failed in the same way.
        lease_seconds: how long a lease must be silent before it may be taken over.
    """
    if isinstance(executor, SlurmExecutor):
        executor = executor.with_parameters(plan.study.file.slurm)
    plan.check()
    plan.store.check()
    threads = _threads_of(plan, executor.threads)
    for study in plan.recorded():
        save_study(plan.store, replace(study, threads=threads[study.name]))
    todo, progress = _prepare(plan, retry_failed)
    on_progress(progress)
    if not todo:
        return progress
    plan.prepare()
    data_dir = None if plan.data_dir is None else plan.data_dir.absolute()
    items = [
        WorkItem(run, plan.runners[run.study], data_dir, threads[run.study], lease_seconds)
        for run in plan.by_seed(todo)
    ]
    job = None
    with handling(signal.SIGTERM, by=signal.default_int_handler):
        try:
            job = executor.submit(items)
            if executor.wait:
                overview = Overview(plan, progress)
                progress.stopped = _watch(overview, job, items, keep_going, on_progress)
            else:
                progress.stopped = job.poll(progress)
        except KeyboardInterrupt:
            progress.stopped = "interrupted" if job is None else job.interrupted
        finally:
            if job is not None:
                # Impatience must not cost a checkpoint.
                with handling(signal.SIGINT, signal.SIGTERM, by=signal.SIG_IGN):
                    job.close()
    _refresh(plan.store, items, progress)
    on_progress(progress)
    return progress


def _threads_of(plan: Plan, asked: int | None) -> dict[str, int]:
    """Return the CPU threads of a run, by study: they can change a result's last bits, so a study keeps them.

    It does not depend on what is left to do, the workers or the cores.
    """
    threads = {}
    for study in plan.study.parts:
        wanted = asked or study.file.engine.threads
        begun, recorded = None, recorded_study(plan.store, study.name, study.origin)
        if recorded and any(run.is_done or run.has_begun for run in map(plan.store.run, recorded.keys)):
            begun = recorded.threads
        if begun is not None and wanted not in (None, begun):
            raise SeedspreadError(
                f"{study.name} was begun with {begun} CPU thread{'s' * (begun != 1)} per run; {wanted} would "
                f"change the bits of what is left: ask for {begun}, or name another store"
            )
        threads[study.name] = wanted or begun or 1
    return threads


def _prepare(plan: Plan, retry_failed: bool) -> tuple[list[Run], StudyProgress]:
    """Return the runs to do; failed ones only if they are to be retried."""
    todo, failed = [], {}
    for key, run in plan.distinct.items():
        state = plan.store.state(key)
        if state.state in FINISHED:
            continue
        if state.state == "failed":
            if not retry_failed or not plan.store.can_be_retried(key):
                failed[key] = state.message
                continue
            plan.store.forget_failure(key)
        todo.append(run)
    total, crashed = len(todo) + len(failed), {key for key in failed if plan.store.has_crashed(key)}
    titles = {key: run.title for key, run in plan.distinct.items()}
    before = len(plan.distinct) - total
    return todo, StudyProgress(total, failed=failed, crashed=crashed, before=before, titles=titles)


def _watch(
    overview: Overview,
    job: Job,
    items: Sequence[WorkItem],
    keep_going: bool,
    on_progress: ProgressCallback,
) -> str:
    """Wait until everything has ended; return why it ended early, if it did."""
    progress = overview.progress
    before, ended = frozenset(progress.failed), progress.ended
    keep_going |= progress.before > 0
    while progress.left:
        trouble = job.poll(progress)
        _refresh(overview.plan.store, items, progress)
        if overview.look() or progress.ended != ended:
            ended = progress.ended
            on_progress(progress)
        if not keep_going and (why := _why_hopeless(overview.plan, progress, before)):
            job.cancel()
            return why
        if progress.left and trouble:
            return trouble
    return ""


def _why_hopeless(plan: Plan, progress: StudyProgress, before: frozenset[str]) -> str:
    """Return why it is pointless to try the rest: the first runs, of several cells, all failed alike.

    `before` are the runs that had failed when the study was started.
    """
    now = [key for key in progress.failed if key not in before]
    if progress.done or len(now) < _FIRST_RUNS or not progress.left:
        return ""
    cells, every = {plan.distinct[key].cell_id for key in now}, {r.cell_id for r in plan.runs}
    found = [plan.store.run(key).failure() for key in now]
    failures = [failure for failure in found if failure is not None and "what" not in failure.details]
    if len(cells) < min(_FIRST_RUNS, len(every)) or len(failures) < len(now):
        return ""
    if len({_FACTS.sub("", failure.last_line.partition(" (last output")[0]) for failure in failures}) > 1:
        return ""
    advice = spoken(f"{_RETRY}; --keep-going runs the rest anyway")
    metric, output = failures[0].details.get("metric"), failures[0].details.get("log_tail", "")
    if metric is None:
        same = f"the first {len(failures)} runs all failed in the same way: {failures[0].last_line}"
        return f"{same}; fix it, then {advice}"
    regex = suggested_regex(str(metric), str(output).splitlines()) or f"{metric}: ([-+\\d.eE]+)"
    pattern = f"{metric} = {{ regex = '{regex}' }} under [metrics] in the study"
    if any(REVISION in dict(cell) for _, cell in cells):
        pattern += f" (on the command line: --metric {shlex.quote(f'{metric}={regex}')})"
    return (
        f"the first {len(failures)} runs all ended without the metric {metric!r}: "
        f"{failures[0].last_line.partition(': ')[2]}; write {pattern}, or seedspread.log({metric}=...) in "
        f"the program, then {advice}"
    )


def _refresh(store: Store, items: Iterable[WorkItem], progress: StudyProgress) -> None:
    for item in items:
        key = item.key
        if key in progress.done or key in progress.failed:
            continue
        if store.is_done(key):
            progress.done.add(key)
        elif store.has_failed(key):
            progress.failed[key] = store.state(key).message
            if store.has_crashed(key):
                progress.crashed.add(key)
