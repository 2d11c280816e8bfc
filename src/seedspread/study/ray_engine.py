"""The Ray engine: the same attempts as Ray tasks, on an existing cluster or a local one."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from seedspread.errors import SeedspreadError, require_extra
from seedspread.runners.contract import WorkItem
from seedspread.study.executor import Executor, Job, StudyProgress
from seedspread.study.local import check_gpus
from seedspread.study.worker import AttemptResult, attempt_until_ended

_POLL_SECONDS = 1.0
# Retries of a task whose node or process is lost.
_RETRIES = 20


@dataclass(frozen=True)
class RayExecutor(Executor):
    """Ray tasks; the store must lie on a filesystem that all nodes share.

    Attributes:
        address: address of an existing cluster; None starts a local one.
        cpus_per_run: CPUs that a run requests, and its threads; None for the study's number, or 1.
        gpus_per_run: GPUs, fractions included: 0.25 packs four small models on one.
    """

    address: str | None = None
    cpus_per_run: int | None = None
    gpus_per_run: float = 0.0

    @property
    def threads(self) -> int | None:
        return self.cpus_per_run

    def submit(self, items: Sequence[WorkItem]) -> Job:
        """Submit a task per run; if its node is lost, it is retried elsewhere, from its checkpoint."""
        require_extra("ray", "--backend ray")
        import ray  # noqa: PLC0415 - an extra

        started = not ray.is_initialized()
        joins = not started or self.address is not None or "RAY_ADDRESS" in os.environ
        check_gpus(items, self.gpus_per_run, here=not joins)
        items = [replace(item, gpus=self.gpus_per_run) for item in items]
        if started:
            self._connect(ray)
        there: Any = ray
        try:
            if self.gpus_per_run and there.cluster_resources().get("GPU", 0) < self.gpus_per_run:
                raise SeedspreadError(
                    f"--gpus-per-run {self.gpus_per_run:g}: the cluster has fewer GPUs than that"
                )
            options = {"num_gpus": self.gpus_per_run, "max_retries": _RETRIES, "retry_exceptions": False}
            remote = there.remote(**options)(attempt_until_ended)
            return _RayTasks(ray, remote, items, shut_down=started)
        except BaseException:
            if started:
                ray.shutdown()
            raise

    def _connect(self, ray: Any) -> None:
        try:
            # Connect to HOST:PORT first: Ray itself would wait for minutes.
            host, colon, port = (self.address or "").removeprefix("ray://").rpartition(":")
            if colon and port.isdigit():
                socket.create_connection((host, int(port)), timeout=5).close()
            ray.init(
                address=self.address, log_to_driver=False, include_dashboard=False, configure_logging=False
            )
        except (OSError, RuntimeError, ValueError) as error:
            where = self.address or "a local cluster"
            raise SeedspreadError(f"Ray cannot reach {where}: {str(error).splitlines()[0]}") from None


class _RayTasks(Job):
    def __init__(self, ray: Any, remote: Any, items: Sequence[WorkItem], *, shut_down: bool) -> None:
        self._ray, self._remote, self._shut_down = ray, remote, shut_down
        self._pending: dict[Any, WorkItem] = {self._submit(item): item for item in items}

    def poll(self, progress: StudyProgress) -> str:
        """Restart tasks that were only stopped, and record those that failed."""
        if not self._pending:
            return "all Ray tasks have ended, and runs are left"
        ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=_POLL_SECONDS)
        for reference in ready:
            item = self._pending.pop(reference)
            try:
                result: AttemptResult = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                lines = str(error).strip().splitlines() or [type(error).__name__]
                result = AttemptResult(item.key, "failed", f"its Ray task failed: {lines[-1]}")
            if result.outcome == "failed":
                progress.failed[item.key] = result.message
            elif result.outcome == "full":
                return result.message
            elif result.outcome == "stopped":
                self._pending[self._submit(item)] = item
        return ""

    def _submit(self, item: WorkItem) -> Any:
        return self._remote.options(num_cpus=item.threads).remote(item)

    def cancel(self) -> None:
        for reference in self._pending:
            self._ray.cancel(reference)

    def close(self) -> None:
        if self._shut_down:
            self._ray.shutdown()
