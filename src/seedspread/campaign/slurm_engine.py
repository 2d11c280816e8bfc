"""The Slurm engine: the same attempts as a job array, through submitit."""

import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seedspread.campaign.attempt import Task, attempt_until_ended
from seedspread.campaign.executor import Report, Tell, look, prepare, tasks_of
from seedspread.campaign.lease import LEASE_SECONDS
from seedspread.campaign.plan import Plan
from seedspread.errors import SeedspreadError, require_extra

_POLL_SECONDS = 2.0
# How often a job that runs out of time is started again.
_REQUEUES = 1000


class SlurmError(SeedspreadError):
    """Slurm cannot be used."""


@dataclass(frozen=True)
class SlurmExecutor:
    """A job array; the store must lie on a filesystem that all nodes share.

    Attributes:
        cluster: `slurm`, or `local` to try the same path without Slurm.
        cpus_per_run: CPUs of a job, and the threads of a run if its config leaves them open.
        gpus_per_run: whole GPUs of a job.
        minutes: the time limit of a job; one that reaches it is requeued and goes on.
        partition: Slurm's.
        workers: how many jobs of the array run at once; None lets Slurm decide.
        wait: False submits and returns; `campaign status` then tells how it goes.
        max_failures: stop early once so many runs have failed; None never does.
        retry_failed: try again what has failed before.
        lease_seconds: after how long a silent lease may be taken over.
        extra: further parameters of `sbatch`, by name.
    """

    cluster: str = "slurm"
    cpus_per_run: int = 1
    gpus_per_run: int = 0
    minutes: int = 720
    partition: str | None = None
    workers: int | None = None
    wait: bool = True
    max_failures: int | None = None
    retry_failed: bool = False
    lease_seconds: float = LEASE_SECONDS
    extra: dict[str, Any] = field(default_factory=dict)

    def run(self, plan: Plan, tell: Tell) -> Report:
        """Submits the array; the jobs find out from the store what is left to do."""
        require_extra("slurm", "--backend slurm")
        todo, report = prepare(plan, self.retry_failed)
        tell(report)
        if not todo:
            return report
        jobs = self._submit(plan, todo)
        if not self.wait:
            report.stopped = (
                f"submitted {len(jobs)} jobs (array {jobs[0].job_id.split('_')[0]}); not waiting for them"
            )
            return report
        try:
            self._watch(plan, todo, report, jobs, tell)
        except KeyboardInterrupt:
            report.stopped = "no longer waiting; the jobs go on (scancel ends them)"
        look(plan, todo, report)
        tell(report)
        return report

    def _submit(self, plan: Plan, todo: dict[str, str]) -> list[Any]:
        import submitit  # noqa: PLC0415 - an extra

        folder = plan.store.path.absolute() / ".slurm"
        tasks = [asdict(t) for t in tasks_of(plan, todo, self.cpus_per_run, self.lease_seconds)]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            executor = submitit.AutoExecutor(
                folder=folder, cluster=self.cluster, slurm_max_num_timeout=_REQUEUES
            )
            executor.update_parameters(**self._parameters(len(tasks)))
            return list(executor.map_array(SlurmAttempt(), tasks))
        except (RuntimeError, OSError, submitit.core.utils.FailedJobError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise SlurmError(f"the jobs cannot be submitted: {reason}") from None

    def _parameters(self, tasks: int) -> dict[str, Any]:
        common: dict[str, Any] = {
            "timeout_min": self.minutes,
            "cpus_per_task": self.cpus_per_run,
            "name": "seedspread",
        }
        if self.gpus_per_run:
            common["gpus_per_node"] = self.gpus_per_run
        if self.cluster == "slurm":
            common["slurm_array_parallelism"] = min(self.workers or tasks, tasks)
            if self.partition:
                common["slurm_partition"] = self.partition
            if self.extra:
                common["slurm_additional_parameters"] = self.extra
        return common

    def _watch(self, plan: Plan, todo: dict[str, str], report: Report, jobs: list[Any], tell: Tell) -> None:
        before = len(report.failed)
        while report.left:
            if look(plan, todo, report):
                tell(report)
            if self.max_failures is not None and len(report.failed) - before >= self.max_failures:
                report.stopped = (
                    f"{len(report.failed) - before} runs failed, as many as --max-failures allows"
                )
                for job in jobs:
                    job.cancel(check=False)
                return
            if all(job.done(force_check=True) for job in jobs):
                look(plan, todo, report)
                if report.left:
                    report.stopped = f"the jobs have ended and {report.left} runs have not; see {_logs(plan)}"
                return
            time.sleep(_POLL_SECONDS)


def _logs(plan: Plan) -> Path:
    return plan.store.path / ".slurm"


class SlurmAttempt:
    """What a job carries out; `checkpoint` is how submitit asks whether it may be requeued."""

    def __call__(self, task: dict[str, Any]) -> dict[str, Any]:
        """Tries until the run has ended."""
        ended = attempt_until_ended(Task(**task))
        if ended.outcome == "stopped":
            # Slurm asked the job to go. Returning would tell submitit that it is finished, and a requeued job
            # would not be started again: it leaves without a word, checkpoint written and lease given back.
            sys.stdout.flush()
            os._exit(128 + signal.SIGTERM)
        return asdict(ended)

    def checkpoint(self, task: dict[str, Any]) -> Any:
        """Preempted or out of time: the same job again, which goes on from the run's own checkpoint."""
        import submitit  # noqa: PLC0415 - an extra

        return submitit.helpers.DelayedSubmission(self, task)
