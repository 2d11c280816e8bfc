"""The commands about tables of results: `audit`, `compare`, `components`, `seeds` and `collect`."""

import json as jsonlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from seedspread.cli.options import (
    Form,
    Json,
    Level,
    OneValue,
    Review,
    SdIs,
    Source,
    TableOptions,
    check_forms,
    direction,
    say,
    say_json,
    say_picture,
    say_prose,
    say_result,
    with_table_options,
)
from seedspread.errors import SeedspreadError

if TYPE_CHECKING:
    import pandas as pd

    from seedspread.analysis.audit_result import AuditResult
    from seedspread.analysis.published import PublishedResult
    from seedspread.analysis.sequential import Look
    from seedspread.runs.studies import AuditSpec
    from seedspread.stats.result import InterimLook, Scale
    from seedspread.study.store_questions import RecordedQuestion
    from seedspread.tables.sources.collect import Collected

Study = Annotated[
    str | None,
    typer.Option(help="For a store: the study to audit, by name or .toml; the only one by default."),
]
_Equivalence = Annotated[
    float, typer.Option(help="Variances that differ by no more than this factor count as alike.")
]
_Scale = Annotated[
    str | None,
    typer.Option(help="Judge `log` (losses, times) or `logit` (shares near 0 or 1) of the values instead."),
]
_Look = Annotated[int | None, typer.Option(help="For a table that grows: which look this is; with --of.")]
_Step = Annotated[
    int | None, typer.Option(help="Seeds that a look adds to each arm; by default looks are evenly spaced.")
]


@with_table_options()
def audit(
    table: Source,
    asked: TableOptions,
    study: Study = None,
    level: Level = 0.95,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples.")] = 10_000,
    random_seed: Annotated[int, typer.Option(min=0, help="For the resamples.")] = 0,
    chance: Annotated[float | None, typer.Option(help="The score of a run that has learnt nothing.")] = None,
    test_size: Annotated[int | None, typer.Option(help="Test examples, for the sampling floor.")] = None,
    equivalence: _Equivalence = 2.0,
    scale: _Scale = None,
    tail: Annotated[float | None, typer.Option(help="How often is a seed worse than this value?")] = None,
    quantile: Annotated[
        float | None, typer.Option(help="Which value is this share of seeds worse than, such as 0.1?")
    ] = None,
    look: _Look = None,
    of: Annotated[int | None, typer.Option(help="How many looks there are at most.")] = None,
    step: _Step = None,
    n: Annotated[
        str | None, typer.Option(help="For a table of means ± sd: the seeds behind each, or their column.")
    ] = None,
    sd_is: SdIs = "sd",
    factors: Annotated[
        str | None, typer.Option(help="Columns, such as opt,aug,lr: what does each do to the spread?")
    ] = None,
    interactions: Annotated[int, typer.Option(help="With --factors: how many may interact.")] = 2,
    sigma: Annotated[float | None, typer.Option(help="A claimed sd: is the spread that?")] = None,
    sd_below: Annotated[float | None, typer.Option(help="Is the sd below this?")] = None,
    at_most: Annotated[
        float | None, typer.Option(help="Is the sd at most this many times the baseline's?")
    ] = None,
    review: Review = False,
    details: Annotated[bool, typer.Option("--details", help="Every comparison and test.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Why each test, and what it assumes.")] = False,
    oneline: Annotated[bool, typer.Option("--oneline", help="One line per comparison, for a chat.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the spread: .png, .pdf or .svg.")] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Did a change alter the spread over seeds? From any table of per-seed results."""
    from seedspread.analysis.audit import audit as run_audit
    from seedspread.render.terminal import Terminal

    check_forms(form, plot, asked.value)
    chosen = _scale(scale)
    if n is None and sd_is != "sd":
        raise SeedspreadError("--sd-is is about means and sds: give the number of seeds with --n too")
    if (tail, quantile) != (None, None):
        _check_tails_alone(locals())
    if n is not None:
        from seedspread.analysis.published import audit_means

        asked.refuse("block", "last", "best", "wide", "metric_column", "no_seed", "unpaired", reason="--n")

        _say_published(
            audit_means(
                table, asked.one_value, asked.group, asked.baseline, asked.by, n=n, sd_is=sd_is, level=level,
                equivalence=equivalence, where=asked.where, sheet=asked.sheet,
            ),
            form, review, json,
        )  # fmt: skip
        return
    with Terminal(stderr=True).status("auditing ...") as shown:
        recorded = audit_question(table, study, asked)
        spec, runs = (recorded.spec, recorded.table) if recorded else (None, table)
        values, compared = comparison_asked(table, spec, asked)
        other: Any = None
        if {factors, sigma, sd_below, at_most} != {None}:
            _refuse_beside_other_questions(locals())
        if factors is not None:
            from seedspread.analysis.factors import audit_factors

            asked.refuse("group", "baseline", "by", reason="--factors")
            other = audit_factors(
                runs, values[0], factors, asked.block, asked.seed_column, interactions=interactions,
                level=level, equivalence=equivalence, scale=chosen, **asked.rows,
            )  # fmt: skip
        elif (sigma, sd_below, at_most) != (None, None, None):
            from seedspread.analysis.sd import audit_sd

            other = audit_sd(
                runs, values[0], seed=asked.seed_column, **compared, sigma=sigma, sd_below=sd_below,
                at_most=at_most, level=level, equivalence=equivalence, **asked.rows,
            )  # fmt: skip
        if other is not None:
            say_result(other, form, as_json=json)
            return
        looked = _looked(look, of, step, recorded, shown.update)
        results = [
            run_audit(
                runs, one, seed=asked.seed_column, **compared, level=level, resamples=resamples,
                random_seed=random_seed, chance=chance, test_size=test_size, equivalence=equivalence,
                scale=chosen, tail=tail, quantile=quantile, look=looked, better=asked.better, **asked.rows,
            )
            for one in values
        ]  # fmt: skip
    if recorded:
        results = [replace(result, notes=(*result.notes, *recorded.notes)) for result in results]
    if oneline:
        say("\n".join(result.oneline() for result in results))
    elif review:
        from seedspread.analysis.published import review as reviewed

        say("\n\n".join(map(reviewed, results)))
    else:
        _print_audits(results, form, explain, details, json)
    if plot:
        results[0].draw(plot)
        say_picture(plot)


# Options of an audit of pairs that questions about factors or an sd leave no room for, with their defaults.
_OF_PAIRS: dict[str, Any] = {
    "oneline": False, "review": False, "details": False, "explain": False, "plot": None, "look": None,
    "chance": None, "test_size": None,
}  # fmt: skip


def _check_tails_alone(given: dict[str, Any]) -> None:
    for name in ("n", "factors", "sigma", "sd_below", "at_most", "scale", "oneline", "review"):
        if given[name] not in (None, False):
            what = f"--{name.replace('_', '-')}"
            raise SeedspreadError(
                f"--tail and --quantile print tables of groups, run by run and as they are; leave out {what}"
            )


def _refuse_beside_other_questions(given: dict[str, Any]) -> None:
    asked = [name for name in ("factors", "sigma", "sd_below", "at_most") if given[name] is not None]
    what = f"--{asked[0].replace('_', '-')}"
    others = [name for name, default in _OF_PAIRS.items() if given[name] != default]
    others += asked[1:] if given["factors"] is not None else []
    others += ["scale"] if given["factors"] is None and given["chosen"] is not None else []
    if others:
        raise SeedspreadError(f"--{others[0].replace('_', '-')} has no meaning beside {what}; leave it out")
    if len(given["values"]) > 1:
        raise SeedspreadError(f"{what} is asked of one --value at a time; got {', '.join(given['values'])}")


def _scale(name: str | None) -> "Scale | None":
    if name not in (None, "log", "logit"):
        raise SeedspreadError(f"--scale takes log or logit; got {name!r}")
    return cast("Scale | None", name)


def check(
    values: Annotated[list[str], typer.Argument(help="0.291±0.047 0.316±0.004: the first is the baseline.")],
    n: Annotated[
        list[int] | None, typer.Option(help="Seeds behind each value; once, or once for each.")
    ] = None,
    sd_is: SdIs = "sd",
    level: Level = 0.95,
    equivalence: _Equivalence = 2.0,
    review: Review = False,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Did the spread change? From published means ± sd alone, without a table."""
    from seedspread.analysis.published import check as checked

    check_forms(form)
    if not n:
        typed = shlex.join(["seedspread", "check", *values])
        raise SeedspreadError(f"how many seeds are behind each value? Say so with --n: {typed} --n 10")
    _say_published(
        checked(*values, n=n, sd_is=sd_is, level=level, equivalence=equivalence), form, review, json
    )


def _say_published(result: "PublishedResult", form: str, review: bool, json: bool) -> None:
    from seedspread.analysis.published import review as reviewed

    if review:
        say(reviewed(result))
    else:
        say_result(result, form, as_json=json)


def audit_question(source: str, study: str | None, asked: TableOptions) -> "RecordedQuestion | None":
    """What a store's study asks. A file has none, and is spared what reading studies takes."""
    if study is None and not Path(source).is_dir():
        return None
    from seedspread.study.store_questions import recorded_question

    others = [*(asked.block or ()), *(asked.by or ())]
    return recorded_question(source, study, asked.value, asked.group, others)


def _looked(
    look: int | None,
    of: int | None,
    step: int | None,
    recorded: "RecordedQuestion | None",
    tell: Callable[[str], None],
) -> "InterimLook | Look | None":
    """The look that is asked for; else those that the study of a store has had."""
    from seedspread.analysis.sequential import Look

    if recorded is not None and recorded.looks is not None:
        if (look, of, step) != (None, None, None):
            raise SeedspreadError("the store knows its looks itself; leave out --look, --of and --step")
        return recorded.looks
    if look is None or of is None:
        if (look, of, step) != (None, None, None):
            raise SeedspreadError("a look takes its number and how many there are: --look 3 --of 9")
        return None
    return Look(look, of, step, lambda done: tell(f"simulating the levels of the looks: {done:.0%} ..."))


def _print_audits(results: "list[AuditResult]", form: str, explain: bool, details: bool, json: bool) -> None:
    """One audit as it is; several with the name of each value before it."""
    several = len(results) > 1
    if json:
        audits = ",\n".join(result.to_json() for result in results)
        say(f'{{"audits": [\n{audits}\n]}}' if several else audits)
        return
    for result in results:
        if several and form == "text":
            say(f"\n{result.value}\n")
        say_result(result, form, explain=explain, details=details)
        if form == "text" and not (explain or details):
            say("\n  --details all tests   --explain why   --plot fig.pdf   --oneline for chat")
    if several:
        say(f"{len(results)} values: each is adjusted for its own comparisons only.", err=True)


def comparison_asked(
    table: str, spec: "AuditSpec | None", asked: TableOptions
) -> "tuple[Sequence[str | None], dict[str, Any]]":
    """Return the values and what is compared; what was left out is taken from the study of a store."""
    from seedspread.runs.store import is_store

    value, group, baseline, block, by = asked.value, asked.group, asked.baseline, asked.block, asked.by
    if spec is None:
        default = "accuracy" if Path(table).is_dir() and is_store(Path(table)) else None
        return value or [default], {"group": group, "baseline": baseline, "block": block, "by": by}
    if group is None:
        block, by = block or list(spec.blocks) or None, by or list(spec.strata) or None
    if group in (None, spec.group):
        group, baseline = spec.group, baseline or spec.baseline
    compared = {"group": group, "baseline": baseline, "block": block, "by": by}
    return value or list(spec.values), compared


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
    bound: Annotated[
        float | None,
        typer.Option(
            help="Show that the sd is below this (with --sd), or is this many times the baseline's."
        ),
    ] = None,
    difference: Annotated[
        float | None, typer.Option(help="The difference of two means to detect; with --sd.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Show that two means differ by no more than this; with --sd.")
    ] = None,
    drop: Annotated[
        float | None, typer.Option(help="The drop for `gate` to detect; with --sd. --n is its past runs.")
    ] = None,
    json: Json = False,
) -> None:
    """How many seeds: for a mean (--sd with --se, --difference, --margin or --drop) or a ratio (--ratio)."""
    from seedspread.analysis.seeds import bound_budget, seed_budget
    from seedspread.stats.planning import Design

    design = Design(blocks, pairs, twins, alpha, shape)
    sizes = {"difference": difference, "margin": margin, "drop": drop}
    if bound is None:
        budget = seed_budget(sd, se, ratio, n, n_baseline, power, design, **sizes)
    else:
        if {se, n_baseline, *sizes.values()} != {None} or (sd is not None and ratio is not None):
            raise SeedspreadError("--bound goes with --sd, or with --ratio, and with --n; leave out the rest")
        budget = bound_budget(bound, sd, 1.0 if ratio is None else ratio, n, power, design)
    if json:
        say_json(budget.values)
    else:
        say_prose(budget.text)


_Sources = Annotated[
    list[str],
    typer.Argument(
        help="Two sets of runs or more, compared with the first: stores, tables, what `collect` reads."
    ),
]
_Studies = Annotated[
    list[str] | None,
    typer.Option(
        "--study", help="The study of each store: once for all, or once for each; of one store two."
    ),
]
_SetGroup = Annotated[str | None, typer.Option(help="The column whose levels are a set's arms.")]
_EquivalenceOfSets = Annotated[
    float, typer.Option(help="Variances, or ratios, that differ by no more than this factor count as alike.")
]


@with_table_options(value=OneValue, group=_SetGroup)
def compare(
    sources: _Sources,
    studies: _Studies = None,
    *,
    asked: TableOptions,
    level: Level = 0.95,
    equivalence: _EquivalenceOfSets = 2.0,
    details: Annotated[bool, typer.Option("--details", help="Every test of the spread.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the ratios: .png, .pdf or .svg.")] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """The same question of two sets of runs: did the spread change, and do their answers agree?"""
    from seedspread.render.terminal import Terminal
    from seedspread.study.store_questions import compare_sources

    check_forms(form, plot)
    typed = (*sources, *(word for name in studies or () for word in ("--study", name)))
    question = replace(asked.question(), command="compare", sources=typed)
    with Terminal(stderr=True).status("comparing ..."):
        result = compare_sources(sources, studies or (), question, level, equivalence, asked.better)
    say_result(result, form, as_json=json, details=details)
    if form == "text" and not (json or details):
        say("--details shows every test.")
    if plot:
        result.draw(plot)
        say_picture(plot)


_COMPONENTS_OPTIONS = (
    "value", "group", "baseline", "block", "by", "where", "last", "best", "wide", "metric_column", "sheet",
    "at", "no_steps",
)  # fmt: skip
_ComponentsBaseline = Annotated[
    str | None, typer.Option(help="The level to compare the others with; by default every pair.")
]


@with_table_options(_COMPONENTS_OPTIONS, value=OneValue, baseline=_ComponentsBaseline)
def components(
    table: Annotated[
        str,
        typer.Argument(help="A .csv, .tsv or .parquet file, a folder of runs, or what `collect` reads."),
    ],
    asked: TableOptions,
    seed: Annotated[str | None, typer.Option(help="The column with the seed.")] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="A column with the seed of one stream; may be repeated.")
    ] = None,
    test_size: Annotated[int | None, typer.Option(help="Test examples, for the test set's floor.")] = None,
    level: Level = 0.95,
    study: Annotated[
        str | None,
        typer.Option(help="For a store: the study, or the collection of studies, by name or .toml."),
    ] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Does the variance sit between seeds, in one of their streams, or in same-seed noise? Per arm."""
    from seedspread.analysis.components import components as split

    check_forms(form)
    value, group, baseline, block, by = asked.one_value, asked.group, asked.baseline, asked.block, asked.by
    recorded = _components_question(table, study, value, group)
    runs: str | pd.DataFrame = table
    if recorded is not None:  # what the study of a store is about
        spec = recorded.spec
        group, baseline, value = spec.group, baseline or spec.baseline, value or spec.values[0]
        block, by = block or list(spec.blocks), by or [name for name in spec.strata if name != "study"]
        # A run that several studies name is one run of its arm.
        runs = recorded.table.drop_duplicates(["key", group, *block, *by])
    result = split(
        runs, value or _default_value(table), group, block, seed, stream, by,
        baseline=baseline, test_size=test_size, level=level, **asked.rows,
    )  # fmt: skip
    say_result(result, form, as_json=json)


def _components_question(
    source: str, study: str | None, value: str | None, group: str | None
) -> "RecordedQuestion | None":
    """What the studies of a store are about: the one that is named, or all that ask the same."""
    if study is None and (group is not None or not Path(source).is_dir()):
        return None
    from seedspread.study.store_questions import recorded_question

    return recorded_question(source, study, None if value is None else [value], group, [], together=True)


def _default_value(table: str) -> str:
    """Of a store the accuracy; what is not there is found out by whoever reads it."""
    from seedspread.runs.store import is_store
    from seedspread.tables.question import TableError

    path = Path(table)
    if is_store(path) or not (path.exists() or ":" in table):
        return "accuracy"
    raise TableError(f"which column of {table} has the results? Name it with --value")


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
    pattern: Annotated[
        str | None, typer.Option(help="Columns from paths: '{model}/seed-{seed}/results.json'.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Make a table of results that other tools have logged: one row per run."""
    from seedspread.render.table import without_formula
    from seedspread.tables.sources import collect as collecting
    from seedspread.tables.sources.collect import check_ending, for_spreadsheets, summary, write_table

    better = direction(higher, lower)
    if out:
        check_ending(out)
    metrics = metric or []
    collected = collecting.collect(
        source, metrics, at,
        kind=kind, better=better, all_parameters=all_parameters, keep_duplicates=keep_duplicates,
        pattern=pattern,
    )  # fmt: skip
    is_text = out is None or out.suffix != ".parquet"
    shown = for_spreadsheets(collected) if is_text else collected
    if out:
        write_table(shown.table, out)
    if json:
        say_json(_values(collected, out))
        return
    say(summary(collected, metrics, at), err=out is None)
    if out is None:
        say(shown.table.to_csv(index=False).rstrip("\n"))
    else:
        value = without_formula(metrics[0]) if is_text else metrics[0]
        say(f"table: {out}\n{_next(shown, value, out)}")


def _next(collected: "Collected", metric: str, out: Path) -> str:
    """Return the audit to try next, as a command that works."""
    from seedspread.runs.metrics import metric_of
    from seedspread.tables.check import suggest_audit
    from seedspread.tables.question import Question
    from seedspread.tables.sources.run import clean

    groups = [name for name in ("experiment", "study") if name in collected.table.columns]
    question = suggest_audit(collected.table, metric, [*groups, *collected.varying]) or Question(metric)
    command = question.typed(str(out))
    if collected.declared not in (None, metric_of(metric).better):  # a file has the column's name only
        command += f" --{collected.declared}-is-better"
    return clean(f"next: {command}")


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
        "unread": [asdict(one) for one in collected.unread],
        "table": rows if out is None else str(out),
    }
