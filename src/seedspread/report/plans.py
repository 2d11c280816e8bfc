"""Which studies a report is about: named ones, those that the store records, or its runs by themselves."""

import json
from collections.abc import Iterable
from pathlib import Path

from seedspread.campaign.plan import Plan, PlannedRun
from seedspread.campaign.record import remembered
from seedspread.campaign.store import Store
from seedspread.campaign.study import AuditSpec, NamedRun, Study
from seedspread.config import RunConfig
from seedspread.errors import SeedspreadError
from seedspread.presets import check
from seedspread.report.material import relative
from seedspread.stats.runs import run_config


class ReportError(SeedspreadError):
    """There is nothing to report on, or nowhere to write it."""


def plans_of(store: Store, studies: Iterable[str], data_dir: Path | None) -> tuple[list[Plan], list[str]]:
    """The plans that a store is reported by, and a line on each record that cannot be read."""
    named = [Study.from_file(name) for name in studies]
    if named:
        return [part.plan(store, data_dir) for study in named for part in study.parts], []
    plans, problems = remembered(store)
    if not plans:
        plans = [_plan_of_runs(store)]
    return plans, problems


def _plan_of_runs(store: Store) -> Plan:
    """Where no study is known, the finished runs themselves say in what they differ."""
    configs: dict[str, RunConfig] = {}
    for key in store.keys():  # noqa: SIM118 - not a dict
        if not store.is_done(key) or store.damage(key):
            continue
        try:
            configs[key] = check(run_config(str(store.folder(key))))
        except (OSError, ValueError, KeyError, TypeError, SeedspreadError):
            continue
    if not configs:
        raise ReportError(
            f"{store.path} holds no finished run and no record of a study; name its study with --study, "
            "or run one with: seedspread campaign run STUDY --store DIR"
        )
    name = relative(store.path.absolute())
    runs = []
    cells = _cells(configs)
    for key, config in configs.items():
        runs.append(PlannedRun(NamedRun(name, cells[key], config.seeds.run, config), key))
    factors = {factor for cell in cells.values() for factor, _ in cell}
    spec = None
    levels = {dict(cell).get("margin_type") for cell in cells.values()}
    if "subtract" in levels and len(levels) > 1:
        block = ("stability",) if "stability" in factors else ()
        by = "condition" if "condition" in factors else None
        spec = AuditSpec(group="margin_type", reference="subtract", block=block, by=by)
    study = Study(name, f"The finished runs in {name}", tuple(r.named for r in runs), spec)
    return Plan(study, store, None, tuple(runs))


def _cells(configs: dict[str, RunConfig]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Margin type and stability where they vary, and all else that varies as one `condition`."""
    flat = {key: _flat(config) for key, config in configs.items()}
    names = list(dict.fromkeys(name for fields in flat.values() for name in fields))
    vary = [n for n in names if len({fields.get(n) for fields in flat.values()}) > 1]
    own = ("objective.margin_type", "objective.stability")
    out = {}
    for key, fields in flat.items():
        cell = [(n.split(".")[1], str(fields[n])) for n in own if n in vary]
        rest = ", ".join(f"{n}={fields.get(n)}" for n in vary if n not in own)
        out[key] = tuple(cell + ([("condition", rest)] if rest else []))
    return out


def _flat(config: RunConfig) -> dict[str, str]:
    values = config.model_dump(mode="json", exclude={"seeds", "runtime"})
    return {
        f"{part}.{k}": json.dumps(v) if not isinstance(v, str) else v
        for part, fields in values.items()
        for k, v in fields.items()
    }
