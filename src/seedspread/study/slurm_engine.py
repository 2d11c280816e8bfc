"""The Slurm engine: the same attempts as a job array, through submitit."""

import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seedspread.errors import SeedspreadError, require_extra
from seedspread.runners.contract import WorkItem
from seedspread.study.executor import Executor, Job, StudyProgress
from seedspread.study.local import check_gpus
from seedspread.study.worker import AttemptResult, attempt_until_ended

_POLL_SECONDS = 2.0
# Parameters of sbatch that submitit handles by name.
_NAMED = ("account", "qos", "mem", "constraint", "gres", "time", "partition")
# Restarts of a job that runs out of time.
_REQUEUES = 1000


@dataclass(frozen=True)
class SlurmExecutor(Executor):
    """A job array; the store must lie on a filesystem that all nodes share.

    Attributes:
        cluster: `slurm`, or `local` to try the same path without Slurm.
        cpus_per_run: CPUs of a job, and the threads of its run; None for the study's number, or 1.
        gpus_per_run: GPUs of a job; Slurm gives whole ones.
        minutes: the time limit of a job; a job that reaches it is requeued and continues.
        partition: the Slurm partition.
        workers: number of jobs of the array that run at once; None lets Slurm decide.
        wait: False submits and returns; `seedspread status` then shows the progress.
        extra: further parameters of `sbatch`, by name, such as `account`, `qos`, `mem` and `gres`.
    """

    cluster: str = "slurm"
    cpus_per_run: int | None = None
    gpus_per_run: float = 0
    minutes: int = 720
    partition: str | None = None
    workers: int | None = None
    wait: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.gpus_per_run != int(self.gpus_per_run):
            raise SeedspreadError("slurm gives whole GPUs; fractions of one need --backend ray")

    @property
    def threads(self) -> int | None:
        return self.cpus_per_run

    def submit(self, items: Sequence[WorkItem]) -> Job:
        """Submit the array; the jobs find out from the store what is left to do."""
        if not all(item.runner.is_portable for item in items):
            raise SeedspreadError(
                "Slurm cannot run a function of a notebook or script: put it into a module and import it"
            )
        check_gpus(items, self.gpus_per_run, here=self.cluster == "local")
        items = [replace(item, gpus=self.gpus_per_run) for item in items]
        require_extra("slurm", "--backend slurm")
        import submitit  # noqa: PLC0415 - an extra

        logging.getLogger("submitit").setLevel(logging.ERROR)  # it would log missing accounting at each look
        folder = items[0].store.path / ".slurm"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            executor = submitit.AutoExecutor(
                folder=folder, cluster=self.cluster, slurm_max_num_timeout=_REQUEUES
            )
            executor.update_parameters(**self._parameters(items))
            jobs = list(executor.map_array(SlurmAttempt(), items))
        except (RuntimeError, OSError, submitit.core.utils.FailedJobError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise SeedspreadError(f"the jobs cannot be submitted: {reason}") from None
        return _SlurmArray(jobs, folder, wait=self.wait)

    def _parameters(self, items: Sequence[WorkItem]) -> dict[str, Any]:
        common: dict[str, Any] = {
            "timeout_min": self.minutes,
            "cpus_per_task": max(item.threads for item in items),
            "name": "seedspread",
        }
        if self.gpus_per_run:
            common["gpus_per_node"] = int(self.gpus_per_run)
        if self.cluster == "slurm":
            common["slurm_array_parallelism"] = min(self.workers or len(items), len(items))
            if self.partition:
                common["slurm_partition"] = self.partition
            common |= {f"slurm_{name}": value for name, value in self.extra.items() if name in _NAMED}
            more = {name: value for name, value in self.extra.items() if name not in _NAMED}
            if more:
                common["slurm_additional_parameters"] = more
        return common

    def with_parameters(self, extra: Mapping[str, Any]) -> "SlurmExecutor":
        """Return the engine with a study's parameters for its jobs; its own take precedence."""
        return replace(self, extra={**extra, **self.extra})


class _SlurmArray(Job):
    interrupted = "no longer waiting; the jobs go on (scancel ends them)"

    def __init__(self, jobs: list[Any], logs: Path, *, wait: bool) -> None:
        self._jobs, self._logs, self._wait = jobs, logs, wait

    def poll(self, progress: StudyProgress) -> str:
        if not self._wait:
            array = self._jobs[0].job_id.split("_")[0]
            return f"submitted {len(self._jobs)} jobs (array {array}); not waiting for them"
        if all(job.done(force_check=True) for job in self._jobs):
            return f"the jobs have ended and runs are left; see {self._logs}"
        time.sleep(_POLL_SECONDS)
        return ""

    def cancel(self) -> None:
        for job in self._jobs:
            job.cancel(check=False)


class SlurmAttempt:
    """The task of a job; submitit calls `checkpoint` before it requeues the job."""

    def __call__(self, item: WorkItem) -> AttemptResult:
        result = attempt_until_ended(item)
        if result.outcome == "stopped":
            # Slurm asked the job to stop. If it returned, submitit would call it finished and not start the
            # requeued job: it exits silently, with its checkpoint written and its lease released.
            sys.stdout.flush()
            os._exit(128 + signal.SIGTERM)
        return result

    def checkpoint(self, item: WorkItem) -> Any:
        """Return the same job again, preempted or out of time, to continue from the run's own checkpoint."""
        import submitit  # noqa: PLC0415 - an extra

        return submitit.helpers.DelayedSubmission(self, item)
