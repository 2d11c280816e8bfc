"""`seedspread collect`."""

import json as jsonlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedspread.cli.output import say, say_json
from seedspread.cli.table_options import direction
from seedspread.errors import SeedspreadError

if TYPE_CHECKING:
    from seedspread.tables.sources.collecting import Collected


def collect(
    source: Annotated[
        str,
        typer.Argument(
            help="MLflow (folder, database, server), TensorBoard, Lightning CSV, Hydra, Weights & Biases "
            "CSV, Optuna (database, journal), JSON files, or a store."
        ),
    ],
    metric: Annotated[
        list[str] | None, typer.Option(help="The metric to read from each run; may be repeated.")
    ] = None,
    at: Annotated[str, typer.Option(help="last, best or step=N.")] = "last",
    out: Annotated[Path | None, typer.Option(help="The table: .csv, .tsv or .parquet.")] = None,
    kind: Annotated[str | None, typer.Option(help="What the source is, if that is ambiguous.")] = None,
    higher: Annotated[bool, typer.Option("--higher-is-better", help="For --at best.")] = False,
    lower: Annotated[bool, typer.Option("--lower-is-better", help="For --at best.")] = False,
    all_parameters: Annotated[
        bool, typer.Option("--all-parameters", help="Keep parameters that are the same in every run.")
    ] = False,
    keep_duplicates: Annotated[
        bool, typer.Option("--keep-duplicates", help="Keep runs with the parameters and seed of a later one.")
    ] = False,
    mlflow: Annotated[str | None, typer.Option(help="Export a store's runs to this MLflow address.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Make a table of results that other tools have logged: one row per run."""
    if mlflow is not None:
        if metric or out:
            raise SeedspreadError("--mlflow exports all of a store; leave out --metric and --out")
        _export(source, mlflow, json)
        return
    from seedspread.tables.sources import collecting
    from seedspread.tables.sources.point import At
    from seedspread.tables.sources.show import summary
    from seedspread.tables.sources.write import check_ending, write_table

    better = direction(higher, lower)
    if out:
        check_ending(out)
    metrics = metric or []
    collected = collecting.collect(
        source, metrics, at,
        kind=kind, better=better, all_parameters=all_parameters, keep_duplicates=keep_duplicates,
    )  # fmt: skip
    if out:
        write_table(collected.table, out)
    if json:
        say_json(_values(collected, out))
        return
    say(summary(collected, metrics, At.of(at).words), err=out is None)
    if out is None:
        say(collected.table.to_csv(index=False).rstrip("\n"))
    else:
        say(f"table: {out}\n{_next(collected, metrics[0], out)}")


def _next(collected: "Collected", metric: str, out: Path) -> str:
    """The audit to try next, as a command that works."""
    from seedspread.tables.sources.run import clean
    from seedspread.tables.suggest import suggest_audit

    groups = [name for name in ("experiment", "study") if name in collected.table.columns]
    options = suggest_audit(collected.table, metric, [*groups, *collected.varying])
    if options is None:
        return "next: an audit, once a column with two levels or more has several runs in each"
    return clean(f"next: {shlex.join(['seedspread', 'audit', str(out), *options])}")


def _values(collected: "Collected", out: Path | None) -> dict[str, Any]:
    rows = jsonlib.loads(collected.table.to_json(orient="records"))
    return {
        "source": collected.source,
        "kind": collected.kind,
        "runs": len(collected.table),
        "seed": collected.seed,
        "varying": list(collected.varying),
        "constant": list(collected.constant),
        "better": collected.better,
        "notes": list(collected.notes),
        "unread": [{"name": one.name, "reason": one.reason} for one in collected.unread],
        "table": rows if out is None else str(out),
    }


def _export(store: str, uri: str, as_json: bool) -> None:
    from seedspread.tables.sources.to_mlflow import export

    done = export(Path(store), uri)
    if as_json:
        say_json(done.values())
        return
    say(done.words)
