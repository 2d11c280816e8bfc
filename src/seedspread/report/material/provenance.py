"""The facts at the foot of a report: with what, on what and when its runs were made."""

import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seedspread.report.material.settings import Setting
from seedspread.runs.files import UNREADABLE
from seedspread.runs.record import Record
from seedspread.runs.store import Store
from seedspread.runs.studies import RecordedStudy
from seedspread.version import __version__

_FILES_SHOWN = 20


def provenance(
    store: Store, studies: list[RecordedStudy], settings: tuple[Setting, ...]
) -> tuple[tuple[str, str], ...]:
    """The facts at the foot, from every finished run."""
    seen: dict[str, Counter[str]] = {}
    for key in dict.fromkeys(key for study in studies for key in study.keys):
        for name, value in _facts(store.folder(key)):
            seen.setdefault(name, Counter())[value] += 1
    facts = [("made by", f"seedspread {__version__}")]
    accepted = {key for study in studies for key in study.accepted.values()}
    if accepted:
        facts.append(("made with other inputs than now", f"{len(accepted)} runs, kept by --accept-changed"))
    facts += [(name, _listed(counts)) for name, counts in seen.items() if name != "ended"]
    if seen.get("ended"):
        facts.append(("last run ended", max(seen["ended"])))
    seeds = {s.title: sorted({r.seed for r in s.runs}, key=lambda x: (len(x), x)) for s in settings}
    facts += [(f"seeds of {title}", ", ".join(numbers) or "none yet") for title, numbers in seeds.items()]
    return tuple(facts)


def _facts(folder: Path) -> list[tuple[str, str]]:
    try:
        record = Record.read(str(folder))
        facts = record.provenance
        versions = ", ".join(f"{k} {v}" for k, v in sorted(facts["versions"].items()))
        return [
            *_what_ran(record),
            ("run with", versions),
            ("Python", str(facts["python"])),
            ("machine", _machine(facts)),
            ("ended", str(facts["ended"])[:19].replace("T", " ") + " UTC"),
        ]
    except UNREADABLE:
        return []


def _what_ran(record: Record) -> list[tuple[str, str]]:
    if "fingerprint" in record.result:
        return [("data", f"{record.dataset}, fingerprint {record.result['fingerprint']}")]
    facts = record.provenance
    files = [(f"content of {name}", f"SHA-256 {digest}") for name, digest in facts.get("inputs", {}).items()]
    variables = facts.get("environment", {}).items()
    return [
        *([("command", shlex.join(facts["command"]))] if "command" in facts else []),
        *files[:_FILES_SHOWN],
        *([("inputs", f"and {len(files) - _FILES_SHOWN} more files")] if len(files) > _FILES_SHOWN else []),
        *((f"${name}", "not set" if value is None else str(value)) for name, value in variables),
    ]


def _machine(provenance: Mapping[str, Any]) -> str:
    processor = f", {provenance['processor']}" if provenance.get("processor") else ""
    threads = provenance["threads"]
    return f"{provenance['platform']}{processor}, {threads} thread{'' if threads == 1 else 's'} per run"


def _listed(counts: Counter[str]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({times} runs)" for value, times in counts.most_common())
