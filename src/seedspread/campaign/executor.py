"""The contract of all engines: carry out what a plan misses, tell how it goes, leave all resumable."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from seedspread.campaign.attempt import Task
from seedspread.campaign.plan import Plan
from seedspread.campaign.stacking import stack_sizes
from seedspread.errors import SeedspreadError


class CampaignStoppedError(SeedspreadError):
    """The campaign was stopped, or stopped itself; everything can be gone on with."""

    exit_code = 130


@dataclass
class Report:
    """How a campaign stands.

    Attributes:
        total: the runs that it had to do.
        done: those of them that have a result.
        failed: those that failed, with the last line of each.
        stopped: why it ended early, if it did.
    """

    total: int
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: str = ""

    @property
    def left(self) -> int:
        """How many have neither."""
        return self.total - len(self.done) - len(self.failed)


Tell = Callable[[Report], None]


class Executor(Protocol):
    """An engine."""

    def run(self, plan: Plan, tell: Tell) -> Report:
        """Carries out what the plan is missing; `tell` hears of every change."""


def prepare(plan: Plan, retry_failed: bool) -> tuple[dict[str, str], Report]:
    """The runs to do, as JSON configs by key, and a report; failed ones only if they are to be retried."""
    todo, failed = {}, {}
    for key, config in plan.distinct.items():
        damage = plan.store.damage(key)
        if plan.store.is_done(key) and not damage:
            continue
        if damage or plan.store.has_failed(key):
            if not retry_failed:
                failed[key] = plan.store.state(key).message
                continue
            plan.store.forget_failure(key)
        todo[key] = config.model_dump_json()
    return todo, Report(len(todo) + len(failed), failed=failed)


def tasks_of(
    plan: Plan, todo: dict[str, str], threads: int, lease_seconds: float, workers: int | None = None
) -> list[Task]:
    """What the workers of any engine are given, one for each run to do.

    Args:
        plan: what the study asks for.
        todo: the runs to do, as JSON configs by key.
        threads: CPU threads of a run whose config leaves them open.
        lease_seconds: after how long a silent lease may be taken over.
        workers: how many share the tasks, if a worker can train several runs together.
    """
    store = str(plan.store.path.absolute())
    data_dir = None if plan.data_dir is None else str(plan.data_dir.absolute())
    wanted = {part.name: part.stack for part in plan.study.parts}
    by_key = {run.key: wanted[run.named.study] for run in reversed(plan.runs)}  # the first that names it
    stacks = {} if workers is None else stack_sizes(by_key, todo, workers, threads)
    return [
        Task(store, key, config, data_dir, threads, lease_seconds, stacks.get(key, 1))
        for key, config in todo.items()
    ]


def look(plan: Plan, todo: dict[str, str], report: Report) -> bool:
    """Brings a report up to date from the store; True if anything has changed."""
    before = len(report.done), len(report.failed)
    for key in todo:
        if key in report.done or key in report.failed:
            continue
        if plan.store.is_done(key):
            report.done.add(key)
        elif plan.store.has_failed(key):
            report.failed[key] = plan.store.state(key).message
    return before != (len(report.done), len(report.failed))
