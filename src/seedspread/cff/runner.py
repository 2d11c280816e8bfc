"""The paper's training as a runner: Contrastive Forward-Forward learning of a Vision Transformer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from seedspread.cff.config import DataConfig, RunConfig, SeedConfig
from seedspread.cff.data.files import fetch_command, official_fingerprint
from seedspread.cff.data.presence import presence
from seedspread.cff.datasets import dataset_info
from seedspread.cff.identity import RUNNER, run_key
from seedspread.cff.implementations import features_of
from seedspread.cff.presets import ConfigError, check, preset_values
from seedspread.cff.presets.names import AmbiguousFieldError, NoSuchFieldError, full_name, short_name
from seedspread.cff.stacking import stack_of, worthwhile
from seedspread.cff.training.native.build import why_not
from seedspread.errors import DataError, require_extra
from seedspread.runners.contract import AmbiguousNameError, Group, Level, Runner, RunnerError
from seedspread.runs.metrics import SCORED
from seedspread.runs.request import RunRequest
from seedspread.runs.stopping import StopRequest

# Fields that say how or with which seed a run is run, not what it is.
_NOT_FACTORS = ("seeds.run", "runtime.threads", "runtime.device", "runtime.checkpoint_seconds")


@dataclass(frozen=True)
class CffRunner(Runner):
    """Trains `RunConfig`s; a preset's name is its base.

    Attributes:
        driven: the streams that a run's seed drives; all of them if none is named.
    """

    driven: tuple[str, ...] = ()
    name: str = RUNNER

    @property
    def metrics(self) -> tuple[str, ...]:
        """What follows from the logits that a run stores."""
        return tuple(SCORED)

    def full_name(self, name: str) -> str:
        """The config field, `part.field`."""
        try:
            field = full_name(name)
        except AmbiguousFieldError as error:
            raise AmbiguousNameError(str(error)) from None
        except NoSuchFieldError as error:
            raise RunnerError(str(error)) from None
        if field in _NOT_FACTORS:
            raise RunnerError(f"{field} cannot be a factor: it is not what a run is")
        return field

    def short_name(self, full: str) -> str:
        """The field alone, where no other part has one of that name."""
        return short_name(full)

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> RunConfig:
        """A checked config."""
        if base is None:
            raise RunnerError("preset is missing; name one, such as preset = 'mini/cifar10'")
        try:
            config = preset_values(base)
        except ConfigError as error:
            raise RunnerError(f"preset: {error}") from None
        for full, level in values.items():
            part, field = full.split(".")
            config.setdefault(part, {})[field] = level
        try:
            checked = check(config)
            dataset_info(checked.data.name).check_shape(checked.model.image_shape)
            return checked
        except (ConfigError, DataError) as error:
            raise RunnerError(str(error)) from None

    def values(self, parameters: RunConfig) -> dict[str, Any]:
        """The config as it stands in files."""
        return parameters.model_dump(mode="json")

    def implemented(self, parameters: RunConfig, implementation: str) -> RunConfig:
        """Another `runtime.implementation`."""
        values = parameters.model_dump(mode="json")
        values["runtime"]["implementation"] = implementation
        try:
            return check(values)
        except ConfigError as error:
            raise RunnerError(str(error)) from None

    def keys(self, runs: Sequence[tuple[RunConfig, int]], data_dir: Path | None) -> list[str]:
        """By the data that are there; without data, by those of the whole official dataset."""
        return [run_key(self.seeded(c, seed), fingerprint(_dataset(c.data), data_dir)) for c, seed in runs]

    def driving(self, streams: tuple[str, ...]) -> "CffRunner":
        """Weights, batches, augmentation, probe; the other streams keep the seed of the config."""
        known = [name for name in SeedConfig.model_fields if name != "run"]
        for stream in streams:
            if stream not in known:
                raise RunnerError(f"vary: no stream is called {stream!r}; there are {', '.join(known)}")
        return replace(self, driven=streams)

    def seeded(self, config: RunConfig, seed: int) -> RunConfig:
        """The config of a run with a seed."""
        return seeded(config, seed, self.driven)

    def check(self, parameters: Iterable[RunConfig], data_dir: Path | None) -> None:
        """Training needs torch, and its images."""
        require_extra("train", "training")
        for data in {config.data.name: config.data for config in parameters}.values():
            there = presence(dataset_info(data.name), data_dir)
            if there.found == 0:
                raise DataError(
                    f"{data.name} is not in {there.folder}; get it with: "
                    f"{fetch_command(data.name, data_dir)} (or name another folder with --data-dir or "
                    "SEEDSPREAD_DATA)"
                )

    def why_not_here(self, parameters: RunConfig) -> str | None:
        """Some implementations need a compiler."""
        return why_not() if features_of(parameters).needs_compiler else None

    def seconds(self, parameters: Sequence[RunConfig]) -> float | None:
        """From a step that is measured here."""
        require_extra("train", "an estimate of their time")
        from seedspread.cff.training.estimate import seconds_per_run  # noqa: PLC0415 - needs torch

        return sum(seconds_per_run(parameters, threads=1))

    def may_use_gpu(self, parameters: RunConfig) -> bool:
        """Unless it is told to train elsewhere."""
        return parameters.runtime.device in ("auto", "cuda") and features_of(parameters).uses_gpu

    def group(self, parameters: RunConfig, threads: int) -> Group | None:
        """Runs of one shape, on one thread; several where a step is small."""
        stack = stack_of(parameters, parameters.runtime.threads or threads)
        return None if stack is None else Group(stack, worthwhile(parameters))

    def run(
        self, requests: Sequence[RunRequest], stop: StopRequest, data_dir: Path | None
    ) -> Iterator[tuple[int, object]]:
        """Trains them as one program."""
        from seedspread.cff.training.allocator import keep_freed_memory  # noqa: PLC0415 - needs torch
        from seedspread.cff.training.run import train_many  # noqa: PLC0415

        keep_freed_memory()  # a worker trains, and does nothing else
        return train_many([self._complete(one) for one in requests], stop, resume=True, data_dir=data_dir)

    def _complete(self, request: RunRequest) -> RunRequest:
        config: RunConfig = request.parameters
        if request.seed is not None:
            config = self.seeded(config, request.seed)
        return replace(request, parameters=_with_threads(config, request.threads))


def seeded(config: RunConfig, seed: int, streams: Iterable[str] = ()) -> RunConfig:
    """The config of a run with a seed, which drives these streams only, or all of them."""
    seeds = dict.fromkeys(streams, seed) or {"run": seed}
    return config.model_copy(update={"seeds": config.seeds.model_copy(update=seeds)})


def _with_threads(config: RunConfig, threads: int | None) -> RunConfig:
    if config.runtime.threads is not None or threads is None:
        return config
    runtime = config.runtime.model_copy(update={"threads": threads})
    return config.model_copy(update={"runtime": runtime})


def _dataset(data: DataConfig) -> tuple[str, str, bool]:
    return data.name, data.labels, data.allow_partial


@cache
def fingerprint(dataset: tuple[str, str, bool], data_dir: Path | None) -> str:
    """The fingerprint of the data that a run will find: the official one unless they are there in part."""
    name, labels, allow_partial = dataset
    source = dataset_info(name)
    there = presence(source, data_dir)
    whole = there.found == there.expected and there.short == 0 and there.packed == 0
    if there.found == 0 or whole or not allow_partial:
        return official_fingerprint(source)
    require_extra("train", f"the key of a run on partial {name}")
    from seedspread.cff.data.dataset import read_official  # noqa: PLC0415 - only partial data need be read

    return read_official(source, labels, data_dir).fingerprint
