"""`seedspread audit` and `seedspread seeds`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedspread.cli.output import say, say_json

if TYPE_CHECKING:
    from seedspread.runs.studies import AuditSpec

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def audit(
    table: Annotated[
        str,
        typer.Argument(help="A .csv, .tsv or .parquet file, a folder of runs, or what `collect` reads."),
    ],
    value: Annotated[str | None, typer.Option(help="The column with one number per run.")] = None,
    group: Annotated[str | None, typer.Option(help="The column whose levels are compared.")] = None,
    reference: Annotated[
        str | None, typer.Option(help="The level that the others are compared with.")
    ] = None,
    block: Annotated[
        list[str] | None, typer.Option(help="A column that tells runs of one seed apart; may be repeated.")
    ] = None,
    seed: Annotated[str, typer.Option(help="The column with the seed.")] = "seed",
    study: Annotated[
        str | None,
        typer.Option(help="Of a store: the study to audit, by name or .toml; the only one by default."),
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="A column, such as dataset, to audit apart; may be repeated.")
    ] = None,
    at: Annotated[str, typer.Option(help="Of runs logged by step: last, best or step=N.")] = "last",
    level: Annotated[float, typer.Option(help="The level of the intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples.")] = 10_000,
    random_seed: Annotated[int, typer.Option(min=0, help="For the resamples.")] = 0,
    chance: Annotated[float | None, typer.Option(help="What a run that learnt nothing scores.")] = None,
    test_size: Annotated[int | None, typer.Option(help="Test examples, for the sampling floor.")] = None,
    equivalence: Annotated[
        float, typer.Option(help="Variances that differ by no more than this factor count as alike.")
    ] = 2.0,
    details: Annotated[bool, typer.Option("--details", help="Every comparison and test.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Why each test, and what it assumes.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the spread: .png, .pdf or .svg.")] = None,
    form: Annotated[str, typer.Option("--format", help="text, markdown or latex.")] = "text",
    json: Json = False,
) -> None:
    """Did a change alter the spread over seeds? From any table with one row per run."""
    from seedspread.cli.recorded import recorded_question
    from seedspread.render.terminal import Terminal
    from seedspread.stats.audit import audit as run_audit
    from seedspread.stats.charts import draw_audit
    from seedspread.stats.table import TableError

    forms = ("text", "markdown", "latex")
    if form not in forms:
        raise TableError(f"--format must be one of {', '.join(forms)}; got {form!r}")
    console = Terminal(stderr=True)
    columns = [*([group] if group else []), *(block or []), *(by or [])]
    with console.status("auditing ..."):
        recorded = recorded_question(table, study, value, columns)
        asked = _comparison(recorded.spec if recorded else None, value, group, reference, block, by)
        result = run_audit(
            recorded.table if recorded else table, *asked[:4], seed, asked[4],
            level=level, resamples=resamples, random_seed=random_seed, chance=chance, test_size=test_size,
            at=at, equivalence=equivalence,
        )  # fmt: skip
    if recorded:
        result = replace(result, notes=(*result.notes, *recorded.notes))
    if json:
        say(result.to_json())
    elif form == "text":
        say(result.to_text(width=min(Terminal().width, 130), explain=explain, details=details))
    else:
        say(result.to_markdown() if form == "markdown" else result.to_latex(), end="")
    if plot:
        draw_audit(result, plot)
        console.print(f"picture in {plot}", soft_wrap=True)


def _comparison(
    spec: "AuditSpec | None",
    value: str | None,
    group: str | None,
    reference: str | None,
    block: list[str] | None,
    by: list[str] | None,
) -> tuple[str, str, str, list[str] | None, list[str] | None]:
    """What is to be compared; where that is left out, what the study of a store is about."""
    if spec is None:
        return value or "accuracy", group or "margin_type", reference or "subtract", block, by
    if group is None:
        block, by = block or list(spec.blocks) or None, by or list(spec.strata) or None
    if reference is None and group in (None, spec.group):
        reference = spec.reference
    return value or spec.values[0], group or spec.group, reference or "subtract", block, by


def seeds(
    sd: Annotated[float | None, typer.Option(help="The spread over seeds, for a standard error.")] = None,
    se: Annotated[float | None, typer.Option(help="The standard error of the mean to reach.")] = None,
    ratio: Annotated[float | None, typer.Option(help="The variance ratio to detect.")] = None,
    n: Annotated[int | None, typer.Option(help="Seeds per arm, or in the first arm.")] = None,
    n_reference: Annotated[
        int | None, typer.Option(help="Seeds in the reference arm, if not as many.")
    ] = None,
    power: Annotated[float, typer.Option(help="The chance of seeing the difference.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="The level of the test.")] = 0.05,
    shape: Annotated[
        str, typer.Option(help="Of the values over seeds: normal, t5, skewed or bimodal.")
    ] = "normal",
    blocks: Annotated[int, typer.Option(min=1, help="Runs of each seed in each arm.")] = 1,
    pairs: Annotated[
        float | None,
        typer.Option(help="The arms share their seeds, and correlate by this; left out: own seeds."),
    ] = None,
    twins: Annotated[float, typer.Option(help="How a seed's runs correlate over the blocks.")] = 0.0,
    json: Json = False,
) -> None:
    """How many seeds: for a standard error (--sd --se), for a ratio (--ratio), or what --n can detect."""
    from seedspread.stats.budget import Design, seed_budget

    design = Design(blocks, pairs, twins, alpha, shape)
    budget = seed_budget(sd, se, ratio, n, n_reference, power, design)
    if json:
        say_json(budget.values)
    else:
        say(budget.text)
