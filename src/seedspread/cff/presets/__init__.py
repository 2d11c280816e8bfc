"""Run configs from presets and files, with single fields set."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources.abc import Traversable
from typing import Any

import tomli_w
from pydantic import ValidationError

from seedspread.cff.config import RunConfig
from seedspread.cff.implementations import features_of
from seedspread.errors import SeedspreadError, did_you_mean, short, there_are
from seedspread.runners.contract import AmbiguousNameError, RunnerError
from seedspread.runs.files import TomlError, parse_toml, read_toml, toml_value
from seedspread.runs.plugins import toml_files


def full_name(name: str) -> str:
    """Return the full name of a config field, `part.field`, given that or its short name."""
    names = _names() | {"model": "model.architecture"}
    if name in names:
        return names[name]
    several = [full for full in _full_names() if full.endswith(f".{name}")]
    if several:
        raise AmbiguousNameError(f"{name!r} can mean {' or '.join(several)}: write one of them")
    raise RunnerError(f"no config field is called {name!r}{did_you_mean(name, names)}")


def short_name(full: str) -> str:
    """Return a field's name without its part, if no other part has a field of that name."""
    last = full.rpartition(".")[2]
    return last if _names().get(last) == full else full


@cache
def _full_names() -> tuple[str, ...]:
    return tuple(
        f"{part}.{field}"
        for part, info in RunConfig.model_fields.items()
        for field in getattr(info.annotation, "model_fields", {})
    )


@cache
def _names() -> dict[str, str]:
    full = _full_names()
    times = Counter(name.split(".")[1] for name in full)
    short = {name.split(".")[1]: name for name in full if times[name.split(".")[1]] == 1}
    return short | {name: name for name in full}


class ConfigError(SeedspreadError):
    """A config is invalid; the message names the field."""


@cache
def _presets() -> dict[str, Traversable]:
    return toml_files("seedspread.cff.presets")


def preset_names() -> tuple[str, ...]:
    return tuple(sorted(_presets()))


def read_config(name: str, settings: Sequence[str] = ()) -> RunConfig:
    """Read a preset, or a .toml file, with settings such as `objective.margin_type=subtract`."""
    values = preset_values(name)
    for setting in settings:
        _set(values, setting)
    return check(values)


def check(values: dict[str, Any]) -> RunConfig:
    """Build a config; `ConfigError` names the field that is wrong, in one line."""
    try:
        # Strict JSON accepts a list for a tuple, but neither true nor "3" for a number.
        config = RunConfig.model_validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from error
    if why := features_of(config).why_not(config):
        raise ConfigError(why)
    return config


def to_toml(config: RunConfig) -> str:
    """Return the config as the text of a file that `read_config` can read."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def preset_values(name: str) -> dict[str, Any]:
    """Return the fields of a preset or of a .toml file, as they stand there."""
    if name.endswith(".toml"):
        try:
            return read_toml(name)
        except TomlError as error:
            raise ConfigError(f"{error}; give a preset or a .toml file") from None
    names = preset_names()
    if name not in names:
        raise ConfigError(f"no preset is named {name!r}; {there_are(name, names)}; or give a .toml file")
    return {part: dict(fields) for part, fields in _shipped(name).items()}


@cache
def _shipped(name: str) -> dict[str, Any]:
    return parse_toml(_presets()[name].read_text(), name)


def _set(values: dict[str, Any], setting: str) -> None:
    field, equals, text = setting.partition("=")
    if not equals or not all(field.strip().split(".")):
        raise ConfigError(f"--set {setting}: write it as field.name=value, such as training.epochs=10")
    path = _path(field.strip())
    for part in path[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {setting}: {part} has no fields")
    text = text.strip()  # a TOML value if it is one, else the text itself; `none` unsets a field
    unsets = text.lower() == "none" and path[-1] != "margin_type"  # which has a value of that name
    values[path[-1]] = None if unsets else toml_value(text)


def _path(field: str) -> list[str]:
    """Return the parts of a field's name, which may be a short one."""
    try:
        return full_name(field).split(".")
    except AmbiguousNameError as error:
        raise ConfigError(str(error)) from None
    except RunnerError:
        return field.split(".")  # `check` reports an unknown field


def _explain(error: ValidationError) -> str:
    # If a field may be a name or a list, the error that it is no name explains nothing.
    errors = [one for one in error.errors() if one["loc"][-1:] != ("str",)] or error.errors()
    first, *more = errors
    where = ".".join(str(part) for part in first["loc"] if "[" not in str(part))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = _unknown(first["loc"])
    rest = f" (and {len(more)} more)" if more else ""
    if first["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", str(first.get("ctx", {}).get("expected", "")))
        rest = did_you_mean(str(first["input"]), choices) + rest
    got = (
        f"; got {short(first['input'])}"
        if first["type"] not in ("extra_forbidden", "value_error", "missing")
        else ""
    )
    return f"{where}: {message}{got}{rest}" if where else f"{message}{rest}"


def _unknown(location: tuple[int | str, ...]) -> str:
    fields = RunConfig.model_fields
    for part in location[:-1]:
        annotation = fields[str(part)].annotation if str(part) in fields else None
        fields = getattr(annotation, "model_fields", {})
    return "no such field" + (did_you_mean(str(location[-1]), fields) or f"; there are {', '.join(fields)}")
