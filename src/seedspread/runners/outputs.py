"""Metrics from a program's usual outputs: a line of its output, or a field of a file that it writes."""

import csv
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from seedspread.runs.files import UNREADABLE, read_file
from seedspread.runs.folder import RunFailedError

# Terminal control sequences, such as colors, which programs print within their lines.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\w)")
SUFFIXES = (".json", ".jsonl", ".yaml", ".yml", ".toml", ".csv", ".tsv")


@dataclass(frozen=True)
class MetricSource:
    """The place to find a metric's value, if the program does not report it itself.

    Attributes:
        regex: its first group matches the number; the last match in the output counts.
        file: name of a file in the run's own folder, with placeholders.
        key: the field, with dots; the column of a CSV file, whose last row counts.
    """

    metric: str
    regex: str | None = None
    file: str | None = None
    key: str | None = None


def plain_text(output: bytes) -> str:
    """Return a program's output as lines, without colors; a progress bar's carriage return ends a line."""
    return _ESCAPES.sub("", output.decode(errors="replace")).replace("\r\n", "\n").replace("\r", "\n")


def matched(source: MetricSource, text: str) -> float:
    """Return the number that a pattern finds in a program's output; `RunFailedError` if there is none."""
    matches = list(re.finditer(source.regex or "", text, re.MULTILINE))
    if not matches:
        raise missing(source, f"the regex {source.regex!r} matches nothing that the program printed")
    found = next((group for group in matches[-1].groups() if group is not None), "")
    try:
        return float(found)
    except ValueError:
        raise missing(
            source, f"the regex {source.regex!r} found {found!r:.80}, which is not a number"
        ) from None


def field_of_file(source: MetricSource, path: Path) -> Any:
    """Return a metric's field in a file; `RunFailedError` if there is none."""
    key = source.key or source.metric
    try:
        value = _parsed(read_file(path).decode("utf-8-sig"), path.suffix.lower())
    except FileNotFoundError:
        raise missing(source, f"there is no file {path.name} in the run's folder, {{folder}}") from None
    except (*UNREADABLE, yaml.YAMLError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise missing(source, f"{path.name} cannot be read: {reason}") from None
    if isinstance(value, Mapping) and key in value:
        return value[key]
    try:
        for part in key.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
    except (LookupError, TypeError, ValueError):
        raise missing(source, f"{path.name} has no {key}") from None
    return value


def _parsed(content: str, suffix: str) -> Any:
    if suffix == ".toml":
        return tomllib.loads(content)
    if suffix in (".yaml", ".yml"):
        return yaml.safe_load(content)
    if suffix in (".csv", ".tsv"):
        rows = list(csv.DictReader(content.splitlines(), delimiter="\t" if suffix == ".tsv" else ","))
        return {(name or "").strip(): _number(text) for name, text in rows[-1].items()}
    lines = [line for line in content.splitlines() if line.strip()] if suffix == ".jsonl" else [content]
    return json.loads(lines[-1])


def _number(text: Any) -> Any:
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def missing(source: MetricSource, why: str) -> RunFailedError:
    """Return the failure of a run whose metric was not found."""
    return RunFailedError(f"metric {source.metric!r} is missing: {why}", metric=source.metric)


def suggested_regex(metric: str, lines: list[str]) -> str | None:
    """Return a pattern for the number on the last line that mentions a metric; None if there is none."""
    words = [word[:3] for word in re.findall(r"[a-z]{3,}", metric.lower())]
    about = [sum(word in line.lower() for word in words) if _NUMBER.search(line) else 0 for line in lines]
    if not any(about):
        return None
    line = [line for line, times in zip(lines, about, strict=True) if times == max(about)][-1]
    before = line[: list(_NUMBER.finditer(line))[-1].start()].lstrip()
    literal = re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", before)
    words_only = re.sub(r"\d+(?:\\\.\d+)?", r"[\\d.]+", literal)
    return words_only + r"([-+\d.eE]+)" if "'" not in before else None


def state_of(path: Path) -> list[int] | None:
    """Return values that change whenever a file is written; None if there is no file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return [status.st_ino, status.st_mtime_ns, status.st_size]
