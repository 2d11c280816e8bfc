"""The identity of a run of the paper's training: all of its config that can alter the result. Needs no torch.

Keys outlive the code, so their vocabulary is frozen: a config field that was added later enters a key only if
it differs from its default, and a field that was renamed keeps its old name in keys.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from seedspread.cff.config import VIEWS_AT_ONCE, RunConfig
from seedspread.cff.datasets import dataset_info, is_dotted, is_own, official_fingerprint
from seedspread.cff.margins import Margin, margin_named
from seedspread.runs.files import FrozenConfig, RecordError
from seedspread.runs.folder import RunFolder
from seedspread.runs.run import key_of

# The runner's name in the records of its runs.
RUNNER = "cff"
# Raised when a change of the code alters results.
NUMERICS_VERSION = 1

# The original vocabulary, by part: fields that every description contains, even at their defaults.
_WORDS = {
    "data": "name labels limit_per_class test_limit_per_class validation_share split_seed order",
    "model": "patch_size dim depth heads",
    "objective": "temperature margin_type margin_first margin_last margin_schedule margin_exponent stability "
    "reduction",
    "training": "rule epochs batch_size learning_rate betas weight_decay select",
    "probe": "epochs batch_size learning_rate weight_decay features repeats layers",
    "random_crop": "op padding",
    "horizontal_flip": "op p",
    "random_rotation": "op degrees",
    "random_erasing": "op p scale ratio",
    "color_jitter": "op brightness contrast saturation hue",
    "rand_augment": "op num_ops magnitude",
}
# Renamed fields, by part: their names now, and in descriptions.
_RENAMED = {"data": {"validation_fraction": "validation_share"}}
# Fields that do not identify a run whose margin is inert.
_SCHEDULE = ("margin_first", "margin_last", "margin_schedule", "margin_exponent", "margin_warmup_epochs")
PARENTS = ("init_from", "continue_from")


def run_key(config: RunConfig, fingerprint: str | None = None, given: str | None = None) -> str:
    """Return the run's key, 20 hexadecimal digits; no fingerprint stands for the whole official dataset.

    `given` identifies a model that is passed from Python.
    """
    return key_of(canonical(config, fingerprint) | ({} if given is None else {"given": given}))


def user_code(config: RunConfig) -> list[str]:
    """Return the dotted names of user code that a run depends on, apart from its data."""
    objective, own_loss = config.objective, config.training.rule != "cross_entropy"
    names = [config.model.architecture, *([objective.loss] if own_loss else []), margin_type_of(config)]
    return [name for name in names if is_dotted(name)]


def _code(config: RunConfig) -> dict[str, Any]:
    """Describe the content of the user code that a run depends on; most runs depend on none."""
    names = user_code(config)
    if not names:
        return {}
    from seedspread.cff.user_code import source_named  # noqa: PLC0415 - few runs need it

    sources = {name: source_named(name) for name in names}
    return {"code": {name: dict(source.parts + source.objects) for name, source in sources.items()}}


def canonical(config: RunConfig, fingerprint: str | None = None) -> dict[str, Any]:
    """Describe a run by what can alter its result, in the frozen vocabulary, defaults spelled out."""
    seeds = {name: config.seeds.stream(name) for name in ("init", "order", "augment", "probe")}
    if config.seeds.split is not None:
        config = config.model_copy(update={"data": config.split_data})
    cell = _Cell(config.model_dump_json(exclude={"seeds"}, serialize_as_any=True), config)
    return _canonical_cell(cell, fingerprint) | _code(config) | {"seeds": seeds}


@dataclass(frozen=True)
class _Cell:
    """A config without its seeds; compared as text, since 0.0 equals -0.0, which is a different run."""

    text: str
    config: RunConfig = field(compare=False)


@lru_cache(maxsize=1024)
def _canonical_cell(cell: _Cell, fingerprint: str | None) -> dict[str, Any]:
    """Describe the runs of a cell; cached, since a plan needs it for each of its seeds."""
    config = cell.config
    unused = {"betas"} if config.training.optimizer == "sgd" else {"momentum"}
    if config.training.rule == "cross_entropy":  # it is trained with the probe's settings
        unused |= {"learning_rate", "betas", "weight_decay"}
    return {
        "numerics": NUMERICS_VERSION,
        "data": _data(config, fingerprint),
        "model": described("model", config.model),
        "objective": _objective(config),
        "training": described("training", config.training, without=(*unused, *PARENTS)) | _parent(config),
        "probe": described("probe", config.probe),
        "precision": config.runtime.precision,
        **_implementation(config),
    }


def described(part: str, config: FrozenConfig, without: Iterable[str] = ()) -> dict[str, Any]:
    """Describe a part of a config in the vocabulary of `part`, leaving out the words in `without`."""
    words, renamed, dropped = _WORDS[part].split(), _RENAMED.get(part, {}), set(without)
    fields = type(config).model_fields
    out = {}
    for name, value in config.model_dump(mode="json").items():
        word = renamed.get(name, name)
        is_default = getattr(config, name) == fields[name].default
        if word not in dropped and (word in words or not is_default):
            out[word] = value
    return out


def parent_key(run: str) -> str:
    """Return the key of a finished run, given its folder or the key itself."""
    if is_key(run):
        return run
    result = RunFolder(Path(run)).result()
    if "key" not in result:
        raise RecordError(f"{run}: its record cannot be read: result.json has no key")
    return str(result["key"])


def is_key(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{20}", text) is not None


def _parent(config: RunConfig) -> dict[str, str]:
    """Describe, by key and not by path, the run that this one starts from; most start from none."""
    named = {name: getattr(config.training, name) for name in PARENTS}
    return {name: parent_key(run) for name, run in named.items() if run is not None}


def _implementation(config: RunConfig) -> dict[str, Any]:
    """Describe the implementation, which alters the last bits: native; fast, with its slices; or plain.

    Activation checkpointing does not. Rules and losses that have a single implementation are not described.
    """
    if not config.has_kernels:
        return {}
    if config.runtime.implementation == "native":
        return {"native": True}
    if config.runtime.implementation == "plain":
        return {"loss": "plain"}
    return {"fast": {"slice_images": config.runtime.micro_batch_size or VIEWS_AT_ONCE}}


def _data(config: RunConfig, fingerprint: str | None) -> dict[str, Any]:
    own = is_own(config.data.name)
    if own and fingerprint is None:
        raise ValueError("the key of a run on one's own images takes their fingerprint")
    return described("data", config.data, without=("allow_partial", "augment")) | {
        **({"name": "own"} if own else {}),  # whatever their path
        "fingerprint": fingerprint or official_fingerprint(dataset_info(config.data.name)),
        "augment": [described(step.op, step) for step in config.data.pipeline],
    }


def _objective(config: RunConfig) -> dict[str, Any] | None:
    if config.training.rule == "cross_entropy":
        return None
    objective = config.objective
    if objective.loss != "supcon":  # which alone has a temperature and margins
        threshold = {"threshold": objective.threshold} if objective.loss == "goodness" else {}
        positives = {} if objective.positives == "class" else {"positives": objective.positives}
        return {"loss": objective.loss, **threshold, **positives}
    drop: tuple[str, ...] = (
        ("threshold",) if margin_of(config).is_sharp else ("threshold", "margin_sharpness")
    )
    if margin_of(config).is_inert:
        drop += _SCHEDULE
    elif objective.margin_schedule == "linear":
        drop += ("margin_exponent",)
    return described("objective", objective, without=drop)


def margin_type_of(config: RunConfig) -> str:
    """Return the name of a run's margin; only SupCon has one."""
    none = config.training.rule == "cross_entropy" or config.objective.loss != "supcon"
    return "none" if none else config.objective.margin_type


def margin_of(config: RunConfig) -> Margin:
    """Return a run's margin type, as a margin of size 0."""
    return margin_named(margin_type_of(config))
