"""What identifies a run of the paper's training: all of its config that can alter the result. Needs no torch.

Keys outlive the code. What is hashed has a vocabulary of its own, frozen: a config field that was added later
enters it only where it differs from its default, and one that was renamed keeps its old name there.
"""

from collections.abc import Iterable
from typing import Any

from seedspread.config import PIPELINES, FrozenConfig, RunConfig
from seedspread.data.catalogue import source_named
from seedspread.data.files import official_fingerprint
from seedspread.runs.identity import key_of

# By this name records tell that the paper's training ran them.
RUNNER = "cff"
# Raised when a change of the code alters results.
NUMERICS_VERSION = 1

# The words of the first edition, which every description has.
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
}
# Today's name of a field, by part, and its name in descriptions where that is another one.
_RENAMED: dict[str, dict[str, str]] = {}
# What tells runs apart that can still be trained as one program.
_MARGINS = ("margin_type", "margin_first", "margin_last", "margin_schedule", "margin_exponent")


def run_key(config: RunConfig, fingerprint: str | None = None) -> str:
    """The run's key: 20 hexadecimal digits.

    Args:
        config: the run.
        fingerprint: of the data; None stands for the whole official dataset.
    """
    return key_of(canonical(config, fingerprint))


def canonical(config: RunConfig, fingerprint: str | None = None) -> dict[str, Any]:
    """The config without what provably cannot matter, with what it leaves to defaults spelt out."""
    return {
        "numerics": NUMERICS_VERSION,
        "data": _data(config, fingerprint),
        "model": described("model", config.model),
        "objective": _objective(config),
        "training": _training(config),
        "probe": described("probe", config.probe),
        "seeds": {name: config.seeds.stream(name) for name in ("init", "order", "augment", "probe")},
        "precision": config.runtime.precision,
    } | _implementation(config)


def described(part: str, config: FrozenConfig, without: Iterable[str] = ()) -> dict[str, Any]:
    """A part of a config in the frozen vocabulary.

    Args:
        part: whose words are used.
        config: the part.
        without: words that cannot matter here.
    """
    words, renamed, dropped = _WORDS[part].split(), _RENAMED.get(part, {}), set(without)
    out = {}
    for name, value in config.model_dump(mode="json").items():
        word = renamed.get(name, name)
        is_default = getattr(config, name) == type(config).model_fields[name].default
        if word not in dropped and (word in words or not is_default):
            out[word] = value
    return out


def _implementation(config: RunConfig) -> dict[str, Any]:
    """Nothing for the plain one; the fast one, and its slices, alter the last bits. Recomputing does not."""
    if not is_fast(config):
        return {}
    # What is translated for a forward pass by itself rounds as it likes.
    compiled = {"compile": True, "recompute": config.runtime.recompute} if config.runtime.compile else {}
    return {"fast": {"slice_images": config.runtime.slice_images} | compiled}


def is_fast(config: RunConfig) -> bool:
    """Whether a run is trained the fast way, which there is for layer by layer only."""
    return config.training.rule == "layer_local" and config.runtime.implementation == "fast"


def shape(config: RunConfig) -> dict[str, Any]:
    """All of a run but its seeds and margins, which alter the numbers and not what is computed with them."""
    objective = described("objective", config.objective, without=_MARGINS)
    return canonical(config) | {"objective": objective, "seeds": None}


def _data(config: RunConfig, fingerprint: str | None) -> dict[str, Any]:
    source = source_named(config.data.name)
    augment = source.augment if config.data.augment is None else config.data.augment
    steps = PIPELINES[augment] if isinstance(augment, str) else augment
    return described("data", config.data, without=("allow_partial", "augment")) | {
        "fingerprint": fingerprint or official_fingerprint(source),
        "augment": [described(step.op, step) for step in steps],
    }


def _objective(config: RunConfig) -> dict[str, Any] | None:
    if config.training.rule == "cross_entropy":
        return None
    drop: tuple[str, ...] = ()
    if has_free_margin(config):
        drop = ("margin_first", "margin_last", "margin_schedule", "margin_exponent")
    elif config.objective.margin_schedule == "linear":
        drop = ("margin_exponent",)
    return described("objective", config.objective, without=drop)


def _training(config: RunConfig) -> dict[str, Any]:
    # Cross entropy is trained with the probe's settings.
    unused = ("learning_rate", "betas", "weight_decay") if config.training.rule == "cross_entropy" else ()
    return described("training", config.training, without=unused)


def has_free_margin(config: RunConfig) -> bool:
    """Whether the margins do not matter: subtraction moves no gradient, and `none` has no margin."""
    return config.training.rule == "cross_entropy" or config.objective.margin_type in ("none", "subtract")
