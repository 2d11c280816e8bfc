"""A report's material from anyone's table: one row per run, no store and no training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from seedspread.analysis.audit import audit
from seedspread.analysis.comparison import AuditResult
from seedspread.analysis.samples import Strip
from seedspread.report.extension import Scale
from seedspread.report.material.settings import ReportData, Run, Setting, ordered, relative, slug
from seedspread.runs.levels import split_levels, stratum_name
from seedspread.runs.metrics import Better
from seedspread.tables.errors import TableError
from seedspread.tables.question import Rows
from seedspread.tables.run_table import MOST_PAIRS
from seedspread.version import __version__


def from_table(
    source: "str | Path",
    value: str | None,
    group: str | None,
    baseline: str | None,
    block: Sequence[str] | None,
    seed: str | None,
    by: "str | Sequence[str] | None",
    better: Better | None = None,
    **rows: Unpack[Rows],
) -> ReportData:
    """A setting for each level of `by`; what a table does not hold, the report does not have."""
    rows["command"] = "report"
    result = audit(source, value, group, baseline, block, seed, by, better=better, **rows)
    if len(result.comparisons) > MOST_PAIRS:
        raise TableError(
            f"{len(result.comparisons):,} comparisons; a page shows up to {MOST_PAIRS:,}: choose some with "
            "--where, or use seedspread audit"
        )
    path = Path(source)
    strata = list(dict.fromkeys(strip.stratum for strip in result.values))
    return ReportData(
        title=f"{result.value} by {result.group}",
        source=relative(path),
        settings=ordered([_setting(result, stratum, path) for stratum in strata]),
        across=result if result.forests else None,
        notes=result.notes,
        provenance=(
            ("made by", f"seedspread {__version__}"),
            ("data", f"{result.rows:,} rows of {relative(path)}"),
        ),
    )


def _setting(result: AuditResult, stratum: str, path: Path) -> Setting:
    strips = [s for s in result.values if s.stratum == stratum]
    arms = tuple(s.group for s in strips if s.group != result.baseline)
    arms = (*arms, result.baseline) if result.baseline else arms
    comparisons = tuple(c for c in result.comparisons if c.stratum == stratum)
    factors = (result.by or "").split(", ")
    levels = split_levels(stratum, len(factors))
    name = stratum_name(factors, stratum) if stratum else path.stem
    return Setting(
        id=slug(name),
        title=name,
        name=name,
        study="",
        arms=arms,
        group=result.group,
        block=", ".join(result.blocks),
        metric=result.metric,
        runs=tuple(run for strip in strips for run in _runs(strip)),
        comparisons=comparisons,
        audit=result,
        why="" if comparisons else f"it has no {result.baseline or 'second level'} run, or nothing else",
        scale=Scale(f"from {relative(path)}"),
        levels=tuple(zip(factors, levels, strict=True)) if stratum and len(factors) == len(levels) else (),
    )


def _runs(strip: Strip) -> list[Run]:
    rows = zip(strip.values, strip.blocks, strip.seeds, strict=True)
    return [Run(strip.group, block, seed, value) for value, block, seed in rows]
