"""The model that a finished run keeps, and the run that another one starts from.

`model.safetensors` has the tensors of a `ViT`, by the names of its `state_dict`: the encoder (`layers`) and,
as `head`, the probe that the result counts. If more probes were trained, each is `probe.REPEAT.LAYER` too.
Its header has the run's key, the classes and the normalization.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from seedspread.cff.config import RunConfig
from seedspread.cff.data.dataset import Dataset
from seedspread.cff.identity import canonical
from seedspread.cff.model import ViT
from seedspread.cff.presets import ConfigError, read_config
from seedspread.runs.files import UNREADABLE, RecordError, open_file
from seedspread.runs.folder import MODEL, TRAINING, RunFolder

_HEADER = "seedspread"


def save_model(
    folder: RunFolder, vit: ViT, probes: Mapping[tuple[int, int], Mapping[str, Tensor]], dataset: Dataset
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


def read_model(folder: RunFolder) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return header and tensors of a finished run's model; `RecordError` in one line if there is none."""
    key = folder.result()["key"]  # of a finished run only
    path = folder.path / MODEL
    if not path.exists():
        raise RecordError(
            f"{folder.path} has no {MODEL}: the run was finished by a version that kept none, or with "
            "keep_model = false, or it was deleted; train the run again in another folder"
        )
    try:
        folder.check_digest(MODEL)
        with open_file(path), safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()[_HEADER])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        if header["key"] != key:
            raise ValueError(f"it belongs to another run, {header['key']}")
    except RecordError:
        raise
    except (*UNREADABLE, SafetensorError) as error:
        raise RecordError(f"{path} cannot be used ({error}); train the run again") from error
    return header, tensors


def parent_of(config: RunConfig, beside: Path) -> RunFolder | None:
    """Return the folder of the run that this one starts from: as it is named, or `beside` this one's."""
    name = config.training.continue_from or config.training.init_from
    if name is None:
        return None
    return RunFolder(Path(name) if Path(name).is_dir() else beside / name)


def continuation(run: Path, settings: Sequence[str]) -> RunConfig:
    """Return the config of a finished run as one that continues it, with other settings."""
    folder = RunFolder(run)
    folder.result()  # of a finished run only
    config = read_config(str(folder.config_path()), settings)
    training = config.training.model_copy(update={"init_from": None, "continue_from": str(run)})
    return config.model_copy(update={"training": training})


def check_parent(config: RunConfig, fingerprint: str, beside: Path) -> None:
    """Raise, in one line, unless a run can start from the one that it names."""
    parent = parent_of(config, beside)
    if parent is None:
        return
    result, theirs = parent.result(), read_config(str(parent.config_path()))
    if config.training.init_from:
        _refuse_unlike(f"init_from {parent.path}", theirs.model.model_dump(), config.model.model_dump())
        read_model(parent)
        return
    before = theirs.training.epochs
    if config.training.epochs <= before:
        raise ConfigError(
            f"{parent.path} was trained for {before} epochs; to continue it, set training.epochs to more"
        )
    if not (parent.path / TRAINING).exists():
        raise RecordError(
            f"{parent.path} has no {TRAINING}, from which its training would go on: it was finished by a "
            "version that kept none, or with keep_model = false; init_from can start from its model, if that "
            "was kept"
        )
    was, now = _stage_1(theirs, result["fingerprint"]), _stage_1(config, fingerprint)
    _refuse_unlike(f"continue_from {parent.path}", was, now)
    parent.check_digest(TRAINING)


def _stage_1(config: RunConfig, fingerprint: str) -> dict[str, Any]:
    """Describe, field by field, what has made a run's encoder, apart from how long it was trained."""
    alone = config.training.model_copy(update={"init_from": None, "continue_from": None})
    described = canonical(config.model_copy(update={"training": alone}), fingerprint)
    del described["probe"]
    parts = {part: value for part, value in described.items() if isinstance(value, dict)}
    fields = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    rest = {part: value for part, value in described.items() if part not in parts}
    return {name: fields[name] for name in fields if name not in ("training.epochs", "seeds.probe")} | rest


def _refuse_unlike(what: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    unlike = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    if unlike:
        name = unlike[0]
        raise ConfigError(
            f"{what}: {name} is {theirs.get(name)} there and {ours.get(name)} here; it must be the same"
        )


def load_encoder(vit: ViT, parent: RunFolder) -> None:
    """Replace the weights of all layers by those of a run's model; the head stays as it was drawn."""
    tensors = read_model(parent)[1]
    layers = {name.removeprefix("layers."): t for name, t in tensors.items() if name.startswith("layers.")}
    with torch.no_grad():
        vit.layers.load_state_dict(layers)
