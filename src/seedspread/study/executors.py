"""The engines by name, each with the options that it takes."""

from dataclasses import fields
from typing import Any

from seedspread.errors import SeedspreadError, one_of
from seedspread.study.executor import Executor
from seedspread.study.local import LocalExecutor
from seedspread.study.ray_engine import RayExecutor
from seedspread.study.slurm_engine import SlurmExecutor

EXECUTORS: dict[str, type[LocalExecutor] | type[RayExecutor] | type[SlurmExecutor]] = {
    "local": LocalExecutor,
    "ray": RayExecutor,
    "slurm": SlurmExecutor,
}


def executor_named(backend: str, options: dict[str, Any]) -> Executor:
    """An engine with those of the options that are set; one that it does not take is refused.

    Args:
        backend: one of `EXECUTORS`.
        options: by the engine's own names; None for one that is not set.
    """
    try:
        one_of("--backend", backend, EXECUTORS)
    except ValueError as error:
        raise SeedspreadError(str(error)) from None
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        takers = [engine for engine in EXECUTORS if name in _options(engine)]
        if backend not in takers:
            option = f"--{name.replace('_', '-')}"
            raise SeedspreadError(f"{option} is for --backend {' or '.join(takers)}; this is {backend}")
    return EXECUTORS[backend](**given)


def _options(backend: str) -> set[str]:
    return {field.name for field in fields(EXECUTORS[backend]) if field.init}
