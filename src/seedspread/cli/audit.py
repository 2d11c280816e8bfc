"""`seedspread audit` and `seedspread seeds`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedspread.cli.output import say, say_json, say_prose
from seedspread.cli.output_options import Form, Json, Level, check_forms
from seedspread.cli.table_options import Source, TableOptions, with_table_options
from seedspread.errors import SeedspreadError

if TYPE_CHECKING:
    from seedspread.analysis.comparison import AuditResult
    from seedspread.analysis.looks import Look
    from seedspread.runs.studies import AuditSpec
    from seedspread.stats.result import Looks
    from seedspread.study.recorded import RecordedQuestion

# The group, its baseline, the blocks, the strata.
_Compared = tuple[str | None, str | None, list[str] | None, list[str] | None]

_Study = Annotated[
    str | None,
    typer.Option(help="For a store: the study to audit, by name or .toml; the only one by default."),
]
_Equivalence = Annotated[
    float, typer.Option(help="Variances that differ by no more than this factor count as alike.")
]
_Look = Annotated[int | None, typer.Option(help="For a table that grows: which look this is; with --of.")]
_Step = Annotated[
    int | None, typer.Option(help="Seeds that a look adds to each arm; by default looks are evenly spaced.")
]


@with_table_options()
def audit(
    table: Source,
    asked: TableOptions,
    study: _Study = None,
    level: Level = 0.95,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples.")] = 10_000,
    random_seed: Annotated[int, typer.Option(min=0, help="For the resamples.")] = 0,
    chance: Annotated[float | None, typer.Option(help="The score of a run that has learnt nothing.")] = None,
    test_size: Annotated[int | None, typer.Option(help="Test examples, for the sampling floor.")] = None,
    equivalence: _Equivalence = 2.0,
    look: _Look = None,
    of: Annotated[int | None, typer.Option(help="How many looks there are at most.")] = None,
    step: _Step = None,
    details: Annotated[bool, typer.Option("--details", help="Every comparison and test.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Why each test, and what it assumes.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the spread: .png, .pdf or .svg.")] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Did a change alter the spread over seeds? From any table of per-seed results."""
    from seedspread.analysis.audit import audit as run_audit
    from seedspread.render.terminal import Terminal

    check_forms(form, plot, asked.value)
    with Terminal(stderr=True).status("auditing ...") as shown:
        recorded = _recorded(table, study, asked)
        spec, runs = (recorded.spec, recorded.table) if recorded else (None, table)
        values, compared = _comparison(table, spec, asked)
        looked = _looked(look, of, step, recorded, shown.update)
        results = [
            run_audit(
                runs, one, *compared[:3], asked.seed_column, compared[3],
                level=level, resamples=resamples, random_seed=random_seed, chance=chance, test_size=test_size,
                equivalence=equivalence, look=looked, better=asked.better, **asked.rows,
            )
            for one in values
        ]  # fmt: skip
    if recorded:
        results = [replace(result, notes=(*result.notes, *recorded.notes)) for result in results]
    _say(results, form, explain, details, json)
    if plot:
        _draw(results[0], plot)


def _recorded(source: str, study: str | None, asked: TableOptions) -> "RecordedQuestion | None":
    """What a store's study asks. A file has none, and is spared what reading studies takes."""
    if study is None and not Path(source).is_dir():
        return None
    from seedspread.study.recorded import recorded_question

    others = [*(asked.block or ()), *(asked.by or ())]
    return recorded_question(source, study, asked.value, asked.group, others)


def _looked(
    look: int | None,
    of: int | None,
    step: int | None,
    recorded: "RecordedQuestion | None",
    tell: Callable[[str], None],
) -> "Looks | Look | None":
    """The look that is asked for; else those that the study of a store has had."""
    from seedspread.analysis.looks import Look

    if recorded is not None and recorded.looks is not None:
        if (look, of, step) != (None, None, None):
            raise SeedspreadError("the store knows its looks itself; leave out --look, --of and --step")
        return recorded.looks
    if look is None or of is None:
        if (look, of, step) != (None, None, None):
            raise SeedspreadError("a look takes its number and how many there are: --look 3 --of 9")
        return None
    return Look(look, of, step, lambda done: tell(f"simulating the levels of the looks: {done:.0%} ..."))


def _say(results: "list[AuditResult]", form: str, explain: bool, details: bool, json: bool) -> None:
    """One audit as it is; several with the name of each value before it."""
    from seedspread.render.terminal import Terminal

    several = len(results) > 1
    if json:
        audits = ",\n".join(result.to_json() for result in results)
        say(f'{{"audits": [\n{audits}\n]}}' if several else audits)
        return
    for result in results:
        if form == "text":
            if several:
                say(f"\n{result.value}\n")
            say(result.to_text(width=Terminal().width, explain=explain, details=details))
            if not (explain or details):
                more = "comparison and test" if len(result.comparisons) > 1 else "test"
                say(f"--details shows every {more}, --explain the reasons.")
        else:
            say(result.to_markdown() if form == "markdown" else result.to_latex(), end="")
    if several:
        say(f"{len(results)} values: Holm's adjustment is over the comparisons of each alone.", err=True)


def _draw(result: "AuditResult", plot: Path) -> None:
    from seedspread.analysis.charts import draw_audit
    from seedspread.render.terminal import Terminal

    draw_audit(result, plot)
    Terminal(stderr=True).print(f"picture in {plot}", soft_wrap=True)


def _comparison(
    table: str, spec: "AuditSpec | None", asked: TableOptions
) -> "tuple[Sequence[str | None], _Compared]":
    """What is to be compared; where that is left out, what the study of a store is about."""
    from seedspread.runs.table import is_store

    value, group, baseline, block, by = asked.value, asked.group, asked.baseline, asked.block, asked.by
    if spec is None:
        default = "accuracy" if Path(table).is_dir() and is_store(Path(table)) else None
        return value or [default], (group, baseline, block, by)
    if group is None:
        block, by = block or list(spec.blocks) or None, by or list(spec.strata) or None
    if group in (None, spec.group):
        group, baseline = spec.group, baseline or spec.baseline
    return value or [spec.values[0]], (group, baseline, block, by)


def seeds(
    sd: Annotated[float | None, typer.Option(help="The spread over seeds, for a standard error.")] = None,
    se: Annotated[float | None, typer.Option(help="The standard error of the mean to reach.")] = None,
    ratio: Annotated[float | None, typer.Option(help="The variance ratio to detect.")] = None,
    n: Annotated[int | None, typer.Option(help="Seeds per arm, or in the first arm.")] = None,
    n_baseline: Annotated[int | None, typer.Option(help="Seeds in the baseline arm, if different.")] = None,
    power: Annotated[float, typer.Option(help="The chance of seeing the difference.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="The level of the test.")] = 0.05,
    shape: Annotated[
        str, typer.Option(help="How values spread over seeds: normal, t5, skewed or bimodal.")
    ] = "normal",
    blocks: Annotated[int, typer.Option(min=1, help="Runs of each seed in each arm.")] = 1,
    pairs: Annotated[
        float | None,
        typer.Option(help="The arms share their seeds and correlate by this; omit it if they do not."),
    ] = None,
    twins: Annotated[float, typer.Option(help="How a seed's runs correlate across blocks.")] = 0.0,
    json: Json = False,
) -> None:
    """How many seeds: for a standard error (--sd --se), for a ratio (--ratio), or what --n can detect."""
    from seedspread.analysis.budget import Design, seed_budget

    design = Design(blocks, pairs, twins, alpha, shape)
    budget = seed_budget(sd, se, ratio, n, n_baseline, power, design)
    if json:
        say_json(budget.values)
    else:
        say_prose(budget.text)
