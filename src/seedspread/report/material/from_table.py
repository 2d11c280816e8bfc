"""A report's material from anyone's table: one row per run, no store and no training."""

from collections.abc import Sequence
from pathlib import Path

from seedspread.report.material.scale import Scale
from seedspread.report.material.settings import ReportData, Run, Setting, ordered, relative, slug
from seedspread.runs.levels import stratum_name
from seedspread.stats.audit import audit
from seedspread.stats.audited import AuditResult
from seedspread.stats.comparison import Strip
from seedspread.version import __version__


def from_table(
    source: "str | Path",
    value: str,
    group: str,
    reference: str,
    block: Sequence[str] | None,
    seed: str,
    by: "str | Sequence[str] | None",
    at: str = "last",
) -> ReportData:
    """A setting for each level of `by`; what a table does not hold, the report does not have."""
    result = audit(source, value, group, reference, list(block or ()) or None, seed, by, at=at)
    path = Path(source)
    strata = list(dict.fromkeys(strip.stratum for strip in result.values))
    return ReportData(
        title=f"{value} by {group}",
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
    arms = (*(s.group for s in strips if s.group != result.reference), result.reference)
    comparisons = tuple(c for c in result.comparisons if c.stratum == stratum)
    factors, levels = (result.by or "").split(", "), stratum.split(", ")
    name = stratum_name(factors, stratum) if stratum else path.stem
    return Setting(
        id=slug(name),
        title=name,
        name=name,
        study="",
        paper=None,
        arms=arms,
        group=result.group,
        block=", ".join(result.blocks),
        metric=result.metric,
        runs=tuple(run for strip in strips for run in _runs(strip)),
        comparisons=comparisons,
        audit=result,
        why="" if comparisons else f"it has no {result.reference} run, or nothing else",
        scale=Scale(None, f"from {relative(path)}"),
        levels=tuple(zip(factors, levels, strict=True)) if stratum and len(factors) == len(levels) else (),
    )


def _runs(strip: Strip) -> list[Run]:
    rows = zip(strip.values, strip.blocks, strip.seeds, strict=True)
    return [Run(strip.group, block, seed, value) for value, block, seed in rows]
