"""Which studies a store holds: written when a campaign starts, so that the store explains itself later.

A record names every cell with its config and every run by its key. It needs no study file, no data and no
torch to be read again, and it travels with the store.
"""

import hashlib
import json
from typing import Any

from seedspread.atomic import replacing
from seedspread.campaign.plan import Plan, PlannedRun
from seedspread.campaign.store import Store
from seedspread.campaign.study import AuditSpec, NamedRun, Study
from seedspread.config import RunConfig
from seedspread.errors import SeedspreadError
from seedspread.presets import check

FOLDER = ".studies"


def remember(plan: Plan) -> None:
    """Writes down every single study of a plan; a study of the same name takes the place of the older one."""
    keys = {(run.named.study, run.named.cell, run.named.seed): run.key for run in plan.runs}
    folder = plan.store.path / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for study in plan.study.parts:
        text = json.dumps(_values(study, keys), indent=1) + "\n"
        path = folder / f"{hashlib.sha256(study.name.encode()).hexdigest()[:16]}.json"
        if not path.exists() or path.read_text() != text:
            with replacing(path) as part:
                part.write_text(text)


def _values(study: Study, keys: dict[tuple[str, Any, int], str]) -> dict[str, Any]:
    cells: dict[tuple[tuple[str, Any], ...], dict[str, Any]] = {}
    for run in study.runs:
        cell = cells.setdefault(
            run.cell, {"cell": dict(run.cell), "config": run.config.model_dump(mode="json"), "runs": {}}
        )
        cell["runs"][str(run.seed)] = keys[run.study, run.cell, run.seed]
    return {
        "name": study.name,
        "title": study.title,
        "note": study.note,
        "audit": None if study.audit is None else study.audit.model_dump(mode="json"),
        "cells": list(cells.values()),
    }


def remembered(store: Store) -> tuple[list[Plan], list[str]]:
    """The plans of all studies of a store, by name, and a line on each record that cannot be read."""
    plans, problems = [], []
    for path in sorted((store.path / FOLDER).glob("*.json")):
        try:
            plans.append(_plan(json.loads(path.read_text()), store))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SeedspreadError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            problems.append(f"{path} is not a readable record of a study: {reason}")
    return sorted(plans, key=lambda plan: plan.study.name), problems


def _plan(values: dict[str, Any], store: Store) -> Plan:
    name, runs = str(values["name"]), []
    for cell in values["cells"]:
        config = check(cell["config"])
        levels = tuple(cell["cell"].items())
        for seed, key in cell["runs"].items():
            runs.append(PlannedRun(NamedRun(name, levels, int(seed), _seeded(config, int(seed))), _key(key)))
    audit = None if values["audit"] is None else AuditSpec.model_validate_json(json.dumps(values["audit"]))
    factors = {factor for run in runs for factor, _ in run.named.cell}
    if audit is not None and not {audit.group, *audit.block, *([audit.by] if audit.by else [])} <= factors:
        raise ValueError("its audit names what is no factor")
    study = Study(name, str(values["title"]), tuple(r.named for r in runs), audit, str(values["note"]))
    return Plan(study, store, None, tuple(runs))


def _key(text: Any) -> str:
    """A key names a folder: nothing else may stand there, such as a path out of the store."""
    if not isinstance(text, str) or not text.isalnum():
        raise ValueError(f"{text!r} is not the key of a run")
    return text


def _seeded(config: RunConfig, seed: int) -> RunConfig:
    return config.model_copy(update={"seeds": config.seeds.model_copy(update={"run": seed})})
