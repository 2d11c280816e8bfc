"""The Ray engine: the same attempts as Ray tasks, on an existing cluster or a local one."""

import socket
from dataclasses import asdict, dataclass
from typing import Any

from seedspread.campaign.attempt import Task, attempt_until_ended
from seedspread.campaign.executor import Report, Tell, look, prepare, tasks_of
from seedspread.campaign.lease import LEASE_SECONDS
from seedspread.campaign.plan import Plan
from seedspread.errors import SeedspreadError, require_extra

_POLL_SECONDS = 1.0
# How often a task is tried again when its node or its process is lost.
_RETRIES = 20


class RayError(SeedspreadError):
    """The Ray cluster cannot be used."""


@dataclass(frozen=True)
class RayExecutor:
    """Ray tasks; the store must lie on a filesystem that all nodes share.

    Attributes:
        address: of an existing cluster; None starts a local one.
        cpus_per_run: CPUs that a run asks for, and the threads it uses if its config leaves them open.
        gpus_per_run: GPUs, fractions included: 0.25 packs four small models on one.
        max_failures: stop early once so many runs have failed; None never does.
        retry_failed: try again what has failed before.
        lease_seconds: after how long a silent lease may be taken over.
    """

    address: str | None = None
    cpus_per_run: int = 1
    gpus_per_run: float = 0.0
    max_failures: int | None = None
    retry_failed: bool = False
    lease_seconds: float = LEASE_SECONDS

    def run(self, plan: Plan, tell: Tell) -> Report:
        """Submits a task per run; one whose node is lost is retried elsewhere, from its checkpoint."""
        require_extra("ray", "--backend ray")
        import ray  # noqa: PLC0415 - an extra

        todo, report = prepare(plan, self.retry_failed)
        tell(report)
        if not todo:
            return report
        started = not ray.is_initialized()
        if started:
            self._connect(ray)
        try:
            self._watch(ray, plan, todo, report, tell)
        except KeyboardInterrupt:
            report.stopped = "interrupted"
        finally:
            if started:
                ray.shutdown()
        look(plan, todo, report)
        tell(report)
        return report

    def _connect(self, ray: Any) -> None:
        try:
            _reach(self.address)
            ray.init(
                address=self.address, log_to_driver=False, include_dashboard=False, configure_logging=False
            )
        except (OSError, RuntimeError, ValueError) as error:
            where = self.address or "a local cluster"
            raise RayError(f"Ray cannot reach {where}: {str(error).splitlines()[0]}") from None

    def _watch(self, ray: Any, plan: Plan, todo: dict[str, str], report: Report, tell: Tell) -> None:
        remote = ray.remote(
            num_cpus=self.cpus_per_run,
            num_gpus=self.gpus_per_run,
            max_retries=_RETRIES,
            retry_exceptions=False,
        )(_ray_attempt)
        tasks = {t.key: asdict(t) for t in tasks_of(plan, todo, self.cpus_per_run, self.lease_seconds)}
        pending = {remote.remote(task): key for key, task in tasks.items()}
        before = len(report.failed)
        while pending:
            ready, _ = ray.wait(list(pending), num_returns=1, timeout=_POLL_SECONDS)
            for reference in ready:
                key = pending.pop(reference)
                if self._is_to_go_on(ray, reference, key, report):
                    pending[remote.remote(tasks[key])] = key
            if look(plan, todo, report) or ready:
                tell(report)
            if self.max_failures is not None and len(report.failed) - before >= self.max_failures:
                report.stopped = (
                    f"{len(report.failed) - before} runs failed, as many as --max-failures allows"
                )
                for reference in pending:
                    ray.cancel(reference)
                return

    @staticmethod
    def _is_to_go_on(ray: Any, reference: Any, key: str, report: Report) -> bool:
        """Whether a task was only stopped, and its run is to be gone on with."""
        try:
            ended = ray.get(reference)
        except ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            report.failed[key] = f"its Ray task failed: {lines[-1]}"
            return False
        if ended["outcome"] == "failed":
            report.failed[key] = ended["message"]
        return bool(ended["outcome"] == "stopped")


def _reach(address: str | None) -> None:
    """Knocks at HOST:PORT first: Ray itself would wait for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=5).close()


def _ray_attempt(task: dict[str, Any]) -> dict[str, Any]:
    """What a Ray worker carries out."""
    return asdict(attempt_until_ended(Task(**task)))
