"""A run's identity: a hash of everything that can alter its result, and of nothing else. Needs no torch."""

import hashlib
import json
from typing import Any

from seedspread.config import PIPELINES, RunConfig
from seedspread.data.catalogue import source_named
from seedspread.data.files import official_fingerprint

# Raised when a change of the code alters results.
NUMERICS_VERSION = 1


def run_key(config: RunConfig, fingerprint: str | None = None) -> str:
    """The run's key: 20 hexadecimal digits.

    Args:
        config: the run.
        fingerprint: of the data; None stands for the whole official dataset.
    """
    text = json.dumps(canonical(config, fingerprint), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def canonical(config: RunConfig, fingerprint: str | None = None) -> dict[str, Any]:
    """The config without what provably cannot matter, with what it leaves to defaults spelt out."""
    return {
        "numerics": NUMERICS_VERSION,
        "data": _data(config, fingerprint),
        "model": config.model.model_dump(mode="json"),
        "objective": _objective(config),
        "training": _training(config),
        "probe": config.probe.model_dump(mode="json"),
        "seeds": {name: config.seeds.stream(name) for name in ("init", "order", "augment", "probe")},
        "precision": config.runtime.precision,
    } | _implementation(config)


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


def stack_shape(config: RunConfig) -> str | None:
    """Runs with the same shape can be trained as one program: they differ in seeds and margins only.

    None for a run that is always trained alone.
    """
    if not is_fast(config) or config.runtime.compile:
        return None
    free = {"margin_type", "margin_first", "margin_last", "margin_schedule", "margin_exponent"}
    parts: dict[str, Any] = {name: getattr(config, name) for name in ("data", "model", "training", "probe")}
    parts |= {"objective": config.objective, "runtime": config.runtime}
    return json.dumps(
        {
            name: part.model_dump(mode="json", exclude=free if name == "objective" else None)
            for name, part in parts.items()
        },
        sort_keys=True,
    )


def _data(config: RunConfig, fingerprint: str | None) -> dict[str, Any]:
    source = source_named(config.data.name)
    data = config.data.model_dump(mode="json", exclude={"allow_partial", "augment"})
    augment = source.augment if config.data.augment is None else config.data.augment
    steps = PIPELINES[augment] if isinstance(augment, str) else augment
    return data | {
        "fingerprint": fingerprint or official_fingerprint(source),
        "augment": [step.model_dump(mode="json") for step in steps],
    }


def _objective(config: RunConfig) -> dict[str, Any] | None:
    if config.training.rule == "cross_entropy":
        return None
    drop = set()
    if has_free_margin(config):
        drop = {"margin_first", "margin_last", "margin_schedule", "margin_exponent"}
    elif config.objective.margin_schedule == "linear":
        drop = {"margin_exponent"}
    return config.objective.model_dump(mode="json", exclude=drop)


def _training(config: RunConfig) -> dict[str, Any]:
    # Cross entropy is trained with the probe's settings.
    unused = {"learning_rate", "betas", "weight_decay"} if config.training.rule == "cross_entropy" else set()
    return config.training.model_dump(mode="json", exclude=unused)


def has_free_margin(config: RunConfig) -> bool:
    """Whether the margins do not matter: subtraction moves no gradient, and `none` has no margin."""
    return config.training.rule == "cross_entropy" or config.objective.margin_type in ("none", "subtract")
