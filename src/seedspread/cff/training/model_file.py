"""The model file of a finished run, and the checks of a run that another one starts from.

`model.safetensors` contains the tensors of a model, by the names of its `state_dict`: the encoder (`layers`)
and, as `head`, the probe that the result reports. If more probes were trained, it contains each of them as
`probe.REPEAT.LAYER`, too. Its header contains the run's key, the classes and the normalization.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from seedspread.cff.config import VIEWS_AT_ONCE, RunConfig
from seedspread.cff.data.dataset import Dataset
from seedspread.cff.identity import PARENTS, canonical, is_key, parent_key
from seedspread.cff.implementations import features_of
from seedspread.cff.model import LayerLocal
from seedspread.cff.presets import ConfigError, read_config
from seedspread.errors import SeedspreadError
from seedspread.runs.files import UNREADABLE, RecordError, open_file
from seedspread.runs.folder import CONFIG, MODEL, TRAINING, RunFolder

_HEADER = "seedspread"


def save_model(
    folder: RunFolder,
    vit: LayerLocal,
    probes: Mapping[tuple[int, int], Mapping[str, Tensor]],
    dataset: Dataset,
) -> None:
    """Write the model; `probes` has the tensors of each classifier, by repeat and layer."""
    tensors = {f"layers.{name}": tensor for name, tensor in vit.layers.state_dict().items()}
    chosen = 0, len(vit.layers) - 1
    tensors |= {f"head.{name}": tensor for name, tensor in probes[chosen].items()}
    for (repeat, layer), probe in probes.items() if len(probes) > 1 else ():
        tensors |= {f"probe.{repeat}.{layer}.{name}": tensor for name, tensor in probe.items()}
    header = {
        "key": folder.key,
        "classes": dataset.classes,
        "mean": dataset.info.mean,
        "std": dataset.info.std,
    }
    stored = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    folder.write(MODEL, save(stored, {_HEADER: json.dumps(header)}))


def read_model(folder: RunFolder) -> tuple[RunConfig, dict[str, Any], dict[str, Tensor]]:
    """Return config, header and tensors of a finished run with its model; `RecordError` if it has none."""
    result, config = _record(folder)
    path = folder.path / MODEL
    if not os.path.lexists(path):
        raise RecordError(
            f"{folder.path} has no {MODEL}: the run was finished by a version that kept none, or with "
            "keep_model = false, or it was deleted; train the run again in another folder"
        )
    try:
        folder.check_digest(MODEL)
        with open_file(path), safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()[_HEADER])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        if header["key"] != result["key"]:
            raise ValueError(f"it belongs to another run, {header['key']}")
    except RecordError:
        raise
    except (*UNREADABLE, SafetensorError) as error:
        raise RecordError(f"{path} cannot be used ({error}); train the run again") from error
    return config, header, tensors


def _record(folder: RunFolder) -> tuple[dict[str, Any], RunConfig]:
    """Return result and config of a finished run of the paper's training."""
    result = folder.result()
    try:
        folder.check_digest(CONFIG)
        identity = {name: result[name] for name in ("key", "fingerprint")}
        return identity, read_config(str(folder.config_path()))
    except RecordError:
        raise
    except (*UNREADABLE, SeedspreadError) as error:
        raise RecordError(f"{folder.path}: its record cannot be read ({error!r})") from error


def parent_of(config: RunConfig, beside: Path) -> RunFolder | None:
    """Return the folder of the run that this one starts from; if a key names it, that is in `beside`."""
    name = config.training.continue_from or config.training.init_from
    if name is None:
        return None
    return RunFolder(beside / name if is_key(name) else Path(name))


def continuation(run: Path, settings: Sequence[str]) -> RunConfig:
    """Return the config of a finished run as one that continues it, with other settings."""
    folder = RunFolder(run)
    folder.result()  # raises unless the run is finished
    config = read_config(str(folder.config_path()), settings)
    if any(setting.partition("=")[0].strip().rpartition(".")[2] in PARENTS for setting in settings):
        raise ConfigError("--from RUN is where the run goes on from; leave init_from and continue_from out")
    training = config.training.model_copy(update={"init_from": None, "continue_from": str(run.absolute())})
    return config.model_copy(update={"training": training})


def check_parent(config: RunConfig, fingerprint: str | None = None, beside: Path | None = None) -> None:
    """Raise, in one line, unless a run can start from the one that it names.

    Checks that need the data's `fingerprint`, or the folder `beside` with other runs, are skipped without it.
    """
    name = config.training.continue_from or config.training.init_from
    if name is None or (beside is None and is_key(name)):
        return
    parent = parent_of(config, beside or Path())
    assert parent is not None  # noqa: S101 - it has a name
    result, theirs = _record(parent)
    if result["key"] != parent_key(name):
        raise RecordError(f"{parent.path} holds another run, {result['key']}")
    if config.training.init_from:
        _require_same(f"init_from {parent.path}", theirs.model.model_dump(), config.model.model_dump())
        read_model(parent)
        return
    before = theirs.training.epochs
    if config.training.epochs <= before:
        raise ConfigError(
            f"{parent.path} was trained for {before} epochs; to continue it, set training.epochs to more"
        )
    if theirs.training.schedule != "constant":
        raise ConfigError(
            f"{parent.path} was trained with a {theirs.training.schedule} schedule, which has ended with its "
            "epochs: start from its model with init_from, or train the longer run from the beginning"
        )
    if not os.path.lexists(parent.path / TRAINING):
        raise RecordError(
            f"{parent.path} has no {TRAINING}, from which its training would go on: it was finished by a "
            "version that kept none, or with keep_model = false; init_from can start from its model, if that "
            "was kept"
        )
    was, now = _stage_1(theirs, result["fingerprint"]), _stage_1(config, fingerprint or result["fingerprint"])
    _require_same(f"continue_from {parent.path}", was, now)


def _stage_1(config: RunConfig, fingerprint: str) -> dict[str, Any]:
    """Describe, field by field, what determines a run's encoder, apart from the number of epochs."""
    alone = config.training.model_copy(update=dict.fromkeys(PARENTS))
    described = canonical(config.model_copy(update={"training": alone}), fingerprint)
    fields = {
        f"{part}.{name}": value
        for part, values in described.items()
        if isinstance(values, dict) and part in ("data", "model", "objective", "training", "seeds", "probe")
        for name, value in values.items()
    }
    # Cross entropy is trained with these settings of the probe.
    own = ("learning_rate", "weight_decay") if config.training.rule == "cross_entropy" else ()
    probes = [name for name in fields if name.startswith("probe.") and name.partition(".")[2] not in own]
    left_out = {"training.epochs", "seeds.probe", *probes}
    runtime = {
        "runtime.implementation": features_of(config).name,
        "runtime.precision": config.runtime.precision,
        "runtime.micro_batch_size": config.runtime.micro_batch_size or VIEWS_AT_ONCE,
    }
    return {name: value for name, value in fields.items() if name not in left_out} | runtime


def _require_same(what: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    for name in {**theirs, **ours}:
        there, here = theirs.get(name), ours.get(name)
        if there != here:
            raise ConfigError(f"{what}: {name} is {there} there and {here} here; it must be the same")


def load_encoder(vit: LayerLocal, parent: RunFolder) -> None:
    """Replace the weights of all layers by those of a run's model; the head stays as it was drawn."""
    tensors = read_model(parent)[2]
    layers = {name.removeprefix("layers."): t for name, t in tensors.items() if name.startswith("layers.")}
    with torch.no_grad():
        vit.layers.load_state_dict(layers)
