"""The paper's training as a runner: Contrastive Forward-Forward learning of a Vision Transformer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from seedspread.cff.config import RunConfig, SeedConfig
from seedspread.cff.data.own import own_fingerprint, read_own
from seedspread.cff.datasets import (
    ARRAYS,
    dataset_info,
    fetch_command,
    is_dotted,
    is_own,
    official_fingerprint,
    presence,
)
from seedspread.cff.identity import PARENTS, RUNNER, is_key, margin_of, run_key, user_code
from seedspread.cff.implementations import features_of
from seedspread.cff.margins import layer_margins
from seedspread.cff.presets import ConfigError, check, full_name, preset_values, short_name
from seedspread.cff.training.native import why_not
from seedspread.errors import DataError, require_extra
from seedspread.runners.contract import Level, Runner, RunnerError, WorkItem
from seedspread.runs.metrics import SCORED
from seedspread.runs.stopping import StopRequest

# Fields that set a run's seed or how it is computed, and so cannot be factors.
_NOT_FACTORS = ("seeds.run", "runtime.threads", "runtime.device", "runtime.checkpoint_seconds")


@dataclass(frozen=True)
class CffRunner(Runner):
    """Trains `RunConfig`s; a preset's name is its base."""

    driven: tuple[str, ...] = ()  # the sources of randomness that a run's seed controls; all if empty
    name: str = RUNNER
    folder: str = field(default="", compare=False)  # the folder to which relative paths refer

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, which are computed from a run's logits."""
        return tuple(SCORED)

    def full_name(self, name: str) -> str:
        field = full_name(name)
        if field in _NOT_FACTORS:
            raise RunnerError(f"{field} cannot be a factor: it is not what a run is")
        return field

    def short_name(self, full: str) -> str:
        return short_name(full)

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> RunConfig:
        if base is None:
            raise RunnerError("preset is missing; name one, such as preset = 'mini/cifar10'")
        try:
            config = preset_values(base)
        except ConfigError as error:
            raise RunnerError(f"preset: {error}") from None
        for full, level in values.items():
            part, own = full.split(".")
            config.setdefault(part, {})[own] = level
        try:
            checked = check(config)
            dataset_info(checked.data.name).check_shape(checked.model.image_shape)
            return self._with_user_code(self._located(checked))
        except (ConfigError, DataError) as error:
            raise RunnerError(str(error)) from None

    def _with_user_code(self, config: RunConfig) -> RunConfig:
        """Import the user code that a config names, from beside the study file; count its layers."""
        names = [*user_code(config), *([config.data.name] if is_dotted(config.data.name) else [])]
        if not names:
            return config
        require_extra("train", f"{names[0]}")
        from seedspread.cff.model import resolved  # noqa: PLC0415 - needs torch
        from seedspread.cff.user_code import load_named  # noqa: PLC0415 - few runs need it

        for name in names:
            load_named(name, self.folder)
        margin_of(config)  # raises if it is not a margin
        return resolved(config)

    def _located(self, config: RunConfig) -> RunConfig:
        """Make the paths of images, and of a run to start from, absolute, so that every worker finds them."""
        data, training = config.data, config.training
        if is_own(data.name) and data.name != ARRAYS and not is_dotted(data.name):
            data = data.model_copy(update={"name": self._path(data.name)})
        parents = {name: getattr(training, name) for name in PARENTS}
        paths = {name: self._path(run) for name, run in parents.items() if run and not is_key(run)}
        training = training.model_copy(update=paths)
        return config.model_copy(update={"data": data, "training": training})

    def _path(self, name: str) -> str:
        return str(Path(self.folder, Path(name).expanduser()).absolute())

    def located(self, folder: str) -> "CffRunner":
        return replace(self, folder=str(Path(folder).absolute()))

    def values(self, parameters: RunConfig) -> dict[str, Any]:
        return parameters.model_dump(mode="json")

    def keys(self, runs: Sequence[tuple[RunConfig, int]], data_dir: Path | None) -> list[str]:
        """Return keys for the data that are present; without data, for the whole official dataset."""
        if self.driven == ("init",) and any(c.training.init_from for c, _ in runs):
            raise RunnerError(
                "vary: with init_from all weights are that run's, so the seed of init does nothing"
            )
        own = {c.data.name for c, _ in runs if is_own(c.data.name)}
        fingerprints = {name: own_fingerprint(name) for name in sorted(own)}
        return [
            run_key(
                self.seeded(c, seed),
                fingerprints.get(c.data.name)
                or _fingerprint(c.data.name, c.data.labels, c.data.allow_partial, data_dir),
            )
            for c, seed in runs
        ]

    def driving(self, sources: tuple[str, ...]) -> "CffRunner":
        """Let the seed control only some sources of randomness; the others keep the config's seed."""
        known = [name for name in SeedConfig.model_fields if name != "run"]
        for source in sources:
            if source not in known:
                raise RunnerError(f"vary: no source is called {source!r}; there are {', '.join(known)}")
        return replace(self, driven=sources)

    def seeded(self, config: RunConfig, seed: int) -> RunConfig:
        seeds = dict.fromkeys(self.driven, seed) or {"run": seed}
        return config.model_copy(update={"seeds": config.seeds.model_copy(update=seeds)})

    def check(self, parameters: Iterable[RunConfig], data_dir: Path | None) -> None:
        """Raise if torch, the images or a run to start from are missing."""
        require_extra("train", "training")
        from seedspread.cff.training.model_file import check_parent  # noqa: PLC0415 - needs torch

        parameters = list(parameters)
        for config in parameters:
            check_parent(config)
        chosen = {(config.data.name, config.data.resize): config for config in parameters}
        for data, model in ((config.data, config.model) for config in chosen.values()):
            if is_own(data.name):
                read_own(data.name, data.resize).info(data.name).check_shape(model.image_shape)
                continue
            there = presence(dataset_info(data.name), data_dir)
            if there.found == 0:
                raise DataError(
                    f"{data.name} is not in {there.folder}; get it with: "
                    f"{fetch_command(data.name, data_dir)} (or name another folder with --data-dir or "
                    "SEEDSPREAD_DATA)"
                )

    def notes(self, parameters: Iterable[RunConfig]) -> list[str]:
        """Return why runs cannot run here, and on what user code depends without changes being noticed."""
        parameters = list(parameters)
        notes = [
            f"Not on this machine: {why}." for why in {self.why_not_here(p): None for p in parameters} if why
        ]
        names = dict.fromkeys(name for config in parameters for name in user_code(config))
        if not names:
            return notes
        from seedspread.cff.user_code import source_named  # noqa: PLC0415 - few runs need it

        return notes + [
            f"{name} also reads {', '.join(read)}: changes of these are not noticed."
            for name in names
            if (read := source_named(name).reads)
        ]

    def why_not_here(self, parameters: RunConfig) -> str | None:
        needs_compiler = features_of(parameters).needs_compiler
        return why_not(bf16=parameters.runtime.precision == "bf16") if needs_compiler else None

    def seconds(self, parameters: Sequence[RunConfig]) -> float | None:
        """Estimate from a step that is measured here.

        None for the user's own images, which would have to be counted, and for runs that cannot run here.
        """
        if any(is_own(config.data.name) or self.why_not_here(config) for config in parameters):
            return None
        require_extra("train", "an estimate of their time")
        from seedspread.cff.training.run import seconds_of_run  # noqa: PLC0415 - needs torch

        return sum(map(seconds_of_run, parameters))

    @staticmethod
    def margins_if_clamped(values: Mapping[str, Any]) -> Sequence[float] | None:
        config = check(dict(values))
        return None if margin_of(config).saturates else layer_margins(config)

    def may_use_gpu(self, parameters: RunConfig) -> bool:
        return parameters.runtime.device in ("auto", "cuda") and features_of(parameters).uses_gpu

    def why_not_on_gpus(self, parameters: RunConfig, gpus: float, *, here: bool) -> str | None:
        if not self.may_use_gpu(parameters):
            return "--gpus-per-run: implementation or device has these runs trained without one; leave it out"
        if gpus > 1:
            return f"--gpus-per-run {gpus:g}: a run uses one GPU; give 1, or a share such as 0.5"
        if here:
            require_extra("train", "training")
            import torch  # noqa: PLC0415 - slow

            if not torch.cuda.is_available():
                return f"--gpus-per-run: torch {torch.__version__} finds no usable CUDA here; leave it out"
        return None

    def run(self, item: WorkItem, stop: StopRequest) -> object:
        from seedspread.cff.training.run import keep_freed_memory, train_one  # noqa: PLC0415 - needs torch

        keep_freed_memory()  # a worker trains, and does nothing else
        seed = item.run.seed
        config = self.seeded(item.run.parameters, seed).with_runtime(threads=item.threads)
        config = self._with_user_code(config)
        return train_one(config, item.folder(), stop, seed=seed, resume=True, data_dir=item.data_dir)


@cache
def _fingerprint(name: str, labels: str, allow_partial: bool, data_dir: Path | None) -> str:
    """Return the fingerprint of the data that a run will read: the official one unless they are partial."""
    source = dataset_info(name)
    there = presence(source, data_dir)
    whole = there.found == there.expected and there.short == 0 and there.packed == 0
    if there.found == 0 or whole or not allow_partial:
        return official_fingerprint(source)
    require_extra("train", f"the key of a run on partial {name}")
    from seedspread.cff.data.dataset import read_official  # noqa: PLC0415 - only partial data need be read

    return read_official(source, labels, data_dir).fingerprint
