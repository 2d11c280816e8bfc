"""The one loop over an engine, whatever it is, that runs what a plan is missing."""

import math
import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import FrameType

from seedspread.errors import SeedspreadError
from seedspread.runners.contract import Runner, Stack, WorkItem
from seedspread.runs.lease import LEASE_SECONDS
from seedspread.runs.levels import counted_runs
from seedspread.runs.run import Run
from seedspread.runs.stopping import handling
from seedspread.runs.store import FINISHED, RunState, Store
from seedspread.runs.studies import recorded_study, save_study
from seedspread.study.executor import CellProgress, Executor, Job, ProgressCallback, StudyProgress
from seedspread.study.plan import CellId, Estimate, Plan, check_unchanged, images_per_second

_LOOK_SECONDS = 2.0
# Of the time: a large store is not looked at all the time.
_LOOK_SHARE = 0.05


class Overview:
    """Keeps a running study's progress up to date with what its store tells of the runs under way."""

    def __init__(self, plan: Plan, progress: StudyProgress) -> None:
        self.progress = progress
        self.plan, self._estimate, self._next = plan, Estimate(plan), 0.0
        self._states = {key: state for key, state in plan.states().items() if state.state in FINISHED}

    def look(self) -> bool:
        """Looks, if it is time to; whether it did."""
        start = time.monotonic()
        if start < self._next:
            return False
        states = {key: self._state(key) for key in self.plan.distinct}
        self.progress.cells = cells(self.plan.distinct.values(), states)
        self.progress.images_per_second = images_per_second(states)
        self.progress.seconds_left = self._estimate.seconds_left(states)
        took = time.monotonic() - start
        self._next = start + max(_LOOK_SECONDS, took / _LOOK_SHARE)
        return True

    def _state(self, key: str) -> RunState:
        if key in self._states:
            return self._states[key]
        if key in self.progress.failed:
            return RunState(key, "failed", self.progress.failed[key])
        state = self.plan.store.state(key)
        if state.state in FINISHED:
            self._states[key] = state
        return state


def cells(runs: Iterable[Run], states: Mapping[str, RunState]) -> tuple[CellProgress, ...]:
    """How every cell stands; a run that several share counts in the first."""
    members: dict[CellId, list[Run]] = {}
    for run in runs:
        members.setdefault(run.cell_id, []).append(run)
    return tuple(_cell(runs, states) for runs in members.values())


def _cell(runs: list[Run], states: Mapping[str, RunState]) -> CellProgress:
    now = [states[run.key] for run in runs]
    failed = sum(state.state == "failed" for state in now)
    under_way = [run for run in runs if states[run.key].state == "running"]
    beats = [beat for run in under_way if (beat := states[run.key].heartbeat) is not None]
    furthest = max(beats, key=lambda beat: beat.done or 0.0, default=None)
    return CellProgress(
        name=runs[0].cell_name,
        planned=len(runs),
        ended=failed + sum(state.state in FINISHED for state in now),
        failed=failed,
        seeds=tuple(run.seed for run in under_way),
        where="" if furthest is None else furthest.where,
    )


class StudyStoppedError(SeedspreadError):
    """The study was stopped, or stopped itself; everything can be resumed."""

    exit_code = 130


def raise_if_unfinished(progress: StudyProgress, *, waited: bool) -> None:
    """In one line: what stopped a study, or how many of its runs failed; nothing of jobs that go on."""
    if progress.stopped == "interrupted":
        raise StudyStoppedError("interrupted; rerun the same command to resume")
    if progress.stopped and waited:
        raise SeedspreadError(progress.stopped)
    if progress.failed:
        key, message = next(iter(progress.failed.items()))
        failed = f"{counted_runs(len(progress.failed))} failed; try again with --retry-failed"
        from_python = "(from Python: retry_failed=True; Study.runs has the others)"
        raise SeedspreadError(f"{failed} {from_python}; the first, {progress.title(key)}: {message}")
    if progress.left and waited:
        raise SeedspreadError(f"{counted_runs(progress.left)} did not end; rerun the same command to resume")


def run_plan(
    plan: Plan,
    executor: Executor,
    on_progress: ProgressCallback = lambda _: None,
    *,
    max_failures: int | None = None,
    retry_failed: bool = False,
    lease_seconds: float = LEASE_SECONDS,
    force: bool = False,
) -> StudyProgress:
    """Runs what a plan is missing, with options as in `run_study`; returns what became of it."""
    plan.check()
    plan.store.check()
    if not force:
        check_unchanged(plan.study, plan.store)
    threads = _threads_of(plan, executor.threads, force)
    for study in plan.recorded():
        save_study(plan.store, replace(study, threads=threads[study.name]))
    todo, progress = _prepare(plan, retry_failed)
    on_progress(progress)
    if not todo:
        return progress
    workers = executor.worker_count(len(todo), max(threads.values()))
    items = work_items(plan, plan.by_seed(todo), threads, workers, lease_seconds)
    with handling(signal.SIGTERM, by=_interrupt):
        _run(Overview(plan, progress), executor, items, max_failures, on_progress)
    _refresh(plan.store, items, progress)
    on_progress(progress)
    return progress


def _interrupt(_: int, __: FrameType | None) -> None:
    """End a study as Ctrl-C does."""
    raise KeyboardInterrupt


def _threads_of(plan: Plan, asked: int | None, force: bool) -> dict[str, int]:
    """CPU threads of a run, by study: their number can change a result's last bits, so a study keeps it.

    What is left to do, the workers and the cores play no part in it.
    """
    threads = {}
    for study in plan.study.parts:
        wanted = asked or study.engine.threads
        begun, recorded = None, recorded_study(plan.store, study.name, study.origin)
        if recorded and any(run.is_done or run.has_begun for run in map(plan.store.run, recorded.keys)):
            begun = recorded.threads
        if begun is not None and wanted not in (None, begun) and not force:
            raise SeedspreadError(
                f"{study.name} was begun with {begun} CPU thread{'s' * (begun != 1)} a run; {wanted} would "
                f"change the bits of what is left: ask for {begun}, or add --force to mix them"
            )
        threads[study.name] = wanted or begun or 1
    return threads


def _prepare(plan: Plan, retry_failed: bool) -> tuple[list[Run], StudyProgress]:
    """The runs to do; failed ones only if they are to be retried."""
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
    total = len(todo) + len(failed)
    titles = {key: run.title for key, run in plan.distinct.items()}
    before = len(plan.distinct) - total
    return todo, StudyProgress(total, failed=failed, before=before, titles=titles)


def _run(
    overview: Overview,
    executor: Executor,
    items: Sequence[WorkItem],
    max_failures: int | None,
    on_progress: ProgressCallback,
) -> None:
    job, progress = None, overview.progress
    try:
        job = executor.submit(items, max_failures)
        progress.stopped = (
            _watch(overview, job, items, max_failures, on_progress) if executor.wait else job.poll(progress)
        )
    except KeyboardInterrupt:
        progress.stopped = "interrupted" if job is None else job.interrupted
    finally:
        if job is not None:
            # Impatience must not cost a checkpoint.
            with handling(signal.SIGINT, signal.SIGTERM, by=signal.SIG_IGN):
                job.close()


def _watch(
    overview: Overview,
    job: Job,
    items: Sequence[WorkItem],
    max_failures: int | None,
    on_progress: ProgressCallback,
) -> str:
    """Wait until all has ended; return why it ended early, if it did."""
    progress = overview.progress
    before, ended = len(progress.failed), progress.ended
    while progress.left:
        trouble = job.poll(progress)
        _refresh(overview.plan.store, items, progress)
        if overview.look() or progress.ended != ended:
            ended = progress.ended
            on_progress(progress)
        failed = len(progress.failed) - before
        if max_failures is not None and failed >= max_failures:
            job.cancel()
            return f"{failed} runs failed, as many as --max-failures allows"
        if progress.left and trouble:
            return trouble
    return ""


def _refresh(store: Store, items: Iterable[WorkItem], progress: StudyProgress) -> None:
    for item in items:
        key = item.key
        if key in progress.done or key in progress.failed:
            continue
        if store.is_done(key):
            progress.done.add(key)
        elif store.has_failed(key):
            progress.failed[key] = store.state(key).message


def work_items(
    plan: Plan,
    todo: Sequence[Run],
    threads: Mapping[str, int],
    workers: int | None,
    lease_seconds: float,
) -> list[WorkItem]:
    """Make what the workers of any engine are given, one item for each run to do.

    `threads` are those of a run, by study; `workers` find their runs for themselves, and None means that each
    run is a job of its own.
    """
    wanted = {part.name: part.engine.stack for part in plan.study.parts}
    data_dir = None if plan.data_dir is None else plan.data_dir.absolute()
    groups: dict[int, Stack | None] = {}  # the runs of a cell share their parameters
    runners: dict[Runner, int] = {}  # one runner runs a group: those whose seed drives one stream are another
    names, sizes = [], []
    for run in todo:
        runner = plan.runners[run.study]
        if id(run.parameters) not in groups:
            groups[id(run.parameters)] = runner.group(run.parameters, threads[run.study])
        group = groups[id(run.parameters)]
        stack = wanted[run.study]
        size = 1 if group is None or workers is None else group.size if stack == "auto" else stack
        together = None if group is None or size == 1 else group.name
        number = runners.setdefault(runner, len(runners))
        names.append(run.key if together is None else f"{number} {together}")
        sizes.append(size)
    times = Counter(names)
    return [
        WorkItem(
            run=run,
            runner=plan.runners[run.study],
            data_dir=data_dir,
            threads=threads[run.study],
            lease_seconds=lease_seconds,
            group=name,
            group_size=size if workers is None else even_size(times[name], workers, size),
            may_use_gpu=plan.runners[run.study].may_use_gpu(run.parameters),
        )
        for run, name, size in zip(todo, names, sizes, strict=True)
    ]


def even_size(runs: int, workers: int, most: int) -> int:
    """The largest groups that give every worker one, and as even as can be: 24 runs of two are four of 6."""
    each = math.ceil(runs / workers)
    size = math.ceil(each / math.ceil(each / most))
    while size > 1 and math.ceil(runs / size) < workers:
        size -= 1
    return size
