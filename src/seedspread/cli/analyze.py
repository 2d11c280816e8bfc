"""The commands about results: `audit` and other questions, and `collect`, which makes a table of results."""

import json as jsonlib
import shlex
from collections.abc import Sequence
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
    argument,
    check_forms,
    direction,
    draw,
    option,
    say,
    say_json,
    say_prose,
    say_result,
    with_options,
)
from seedspread.errors import SeedspreadError

if TYPE_CHECKING:
    import pandas as pd

    from seedspread.analysis.audit_result import AuditResult
    from seedspread.runs.studies import AuditSpec
    from seedspread.stats.result import Scale
    from seedspread.study.store_questions import RecordedQuestion
    from seedspread.tables.sources.collect import Collected

Study = Annotated[str | None, "Study, by name or .toml file, if a store has several."]
_Equivalence = Annotated[float, "Variances within this factor of each other count as the same."]


@with_options()
def audit(
    table: Source,
    asked: TableOptions,
    study: Study = None,
    level: Level = 0.95,
    chance: Annotated[float | None, "Score of a run that has learned nothing; such runs have failed."] = None,
    test_size: Annotated[int | None, "Number of test examples, for the test-set noise."] = None,
    equivalence: _Equivalence = 2.0,
    scale: Annotated[
        str | None, "Compare on a log scale (losses, times) or logit (shares near 0 or 1)."
    ] = None,
    n: Annotated[
        str | None, "For a table of means ± sd: seeds behind each, or the column with their number."
    ] = None,
    sd_is: SdIs = "sd",
    factors: Annotated[
        str | None, "Several factors at once, such as opt,aug,lr: which of them change the spread?"
    ] = None,
    interactions: Annotated[int, "With --factors: how many of them may interact."] = 2,
    sigma: Annotated[float | None, "A claimed sd: is it compatible with these runs?"] = None,
    sd_below: Annotated[float | None, "Is the sd below this value?"] = None,
    review: Review = False,
    details: Annotated[bool, "Print all comparisons and tests."] = False,
    explain: Annotated[bool, "Print why each test was chosen and what it assumes."] = False,
    oneline: Annotated[bool, "Print one line per comparison, for a chat."] = False,
    methods: Annotated[
        bool, "Print a paragraph for a methods section, and the answer to NeurIPS' question on error bars."
    ] = False,
    plot: Annotated[Path | None, "Draw the runs: .png, .pdf or .svg."] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Did a change alter how much results spread across seeds?

    From a table with one row per run, a store, or another tool's log.
    """
    from seedspread.analysis.audit import audit as run_audit
    from seedspread.render.terminal import Terminal

    check_forms(form, plot, asked.value)
    chosen = _scale(scale)
    if n is None and sd_is != "sd":
        raise SeedspreadError("--sd-is is about means and sds: give the number of seeds with --n too")
    if n is not None:
        from seedspread.analysis.published import audit_means

        asked.refuse("block", "last", "best", "wide", "metric_column", "no_seed", "unpaired", reason="--n")
        _refuse_beside("--n", locals(), "factors", "sigma", "sd_below", "scale", "study")
        published = audit_means(
            table, asked.one_value, asked.group, asked.baseline, asked.by, n=n, sd_is=sd_is, level=level,
            equivalence=equivalence, where=asked.where, sheet=asked.sheet,
        )  # fmt: skip
        say_result(published, form, as_json=json, review=review)
        return
    with Terminal(stderr=True).status("auditing ..."):
        recorded = _question(table, study, asked)
        spec, runs = (recorded.spec, recorded.table) if recorded else (None, table)
        values, compared = _comparison(table, spec, asked)
        other: Any = None
        if {factors, sigma, sd_below} != {None}:
            _refuse_beside_other_questions(locals())
        if factors is not None:
            from seedspread.analysis.factors import audit_factors

            asked.refuse("group", "baseline", "by", reason="--factors")
            other = audit_factors(
                runs, values[0], factors, asked.block, asked.seed_column, interactions=interactions,
                level=level, equivalence=equivalence, scale=chosen, **asked.rows,
            )  # fmt: skip
        elif (sigma, sd_below) != (None, None):
            from seedspread.analysis.sd import audit_sd

            asked.refuse("baseline", reason="--sigma and --sd-below")
            del compared["baseline"]
            other = audit_sd(
                runs, values[0], seed=asked.seed_column, **compared, sigma=sigma, sd_below=sd_below,
                level=level, equivalence=equivalence, **asked.rows,
            )  # fmt: skip
        if other is not None:
            say_result(other, form, as_json=json)
            return
        results = [
            run_audit(
                runs, one, seed=asked.seed_column, **compared, level=level, chance=chance,
                test_size=test_size, equivalence=equivalence, scale=chosen,
                look=recorded.looks if recorded else None, better=asked.better, **asked.rows,
            )
            for one in values
        ]  # fmt: skip
    if recorded:
        results = [replace(result, notes=(*result.notes, *recorded.notes)) for result in results]
    if oneline:
        say("\n".join(result.oneline() for result in results))
    elif methods:
        from seedspread.analysis.methods import methods as described

        say_prose("\n".join(described(result, latex=form == "latex") for result in results).rstrip("\n"))
    elif review:
        for place, result in enumerate(results):
            say("\n" * (place > 0), end="")
            say_result(result, form, review=True)
    else:
        _print_audits(results, form, explain, details, json)
    draw(results[0], plot, methods=details)


# Options of an audit of runs by group, without meaning beside --n, factors or a question about an sd.
_OF_PAIRS = ("oneline", "methods", "details", "explain", "plot", "chance", "test_size")


def _given(options: dict[str, Any], *names: str) -> list[str]:
    is_given = {name: value is not None and value is not False for name, value in options.items()}
    return [f"--{name.replace('_', '-')}" for name in names if is_given[name]]


def _refuse_beside(what: str, options: dict[str, Any], *names: str) -> None:
    for other in _given(options, *_OF_PAIRS, *names):
        raise SeedspreadError(f"{other} does not work with {what}; leave it out")


def _refuse_beside_other_questions(options: dict[str, Any]) -> None:
    what = _given(options, "factors", "sigma", "sd_below")[0]
    _refuse_beside(what, options, "review", *(("sigma", "sd_below") if what == "--factors" else ["scale"]))
    if len(options["values"]) > 1:
        raise SeedspreadError(f"{what} is asked of one --value at a time; got {', '.join(options['values'])}")


def _scale(name: str | None) -> "Scale | None":
    if name not in (None, "log", "logit"):
        raise SeedspreadError(f"--scale takes log or logit; got {name!r}")
    return cast("Scale | None", name)


def check(
    values: Annotated[
        list[str], argument("Means ± sd, such as 0.291±0.047 0.316±0.004. The first is the baseline.")
    ],
    n: Annotated[list[int] | None, "Seeds behind the values: once for all, or repeated for each."] = None,
    sd_is: SdIs = "sd",
    level: Level = 0.95,
    equivalence: _Equivalence = 2.0,
    review: Review = False,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Did the spread change? From published means ± sd."""
    from seedspread.analysis.published import check as checked

    check_forms(form)
    if not n:
        typed = shlex.join(["seedspread", "check", *values])
        raise SeedspreadError(f"how many seeds are behind each value? Say so with --n: {typed} --n 10")
    result = checked(*values, n=n, sd_is=sd_is, level=level, equivalence=equivalence)
    say_result(result, form, as_json=json, review=review)


def _question(
    source: str, study: str | None, asked: TableOptions, *, together: bool = False
) -> "RecordedQuestion | None":
    """Return the question of a store's study; None for a file, for which no study needs to be read."""
    if study is None and not Path(source).is_dir():
        return None
    from seedspread.study.store_questions import recorded_question

    others = [] if together else [*(asked.block or ()), *(asked.by or ())]
    return recorded_question(source, study, asked.value, asked.group, others, together=together)


def _print_audits(results: "list[AuditResult]", form: str, explain: bool, details: bool, json: bool) -> None:
    """Print one audit, or several, each after the name of its value."""
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


def _comparison(
    table: str, spec: "AuditSpec | None", asked: TableOptions
) -> "tuple[Sequence[str | None], dict[str, Any]]":
    """Return the values and the comparison to make; options left out are taken from the store's study."""
    from seedspread.runs.store import is_store

    group, baseline, block, by = asked.group, asked.baseline, asked.block, asked.by
    values: Sequence[str | None] = ["accuracy" if is_store(Path(table)) else None]
    if spec is not None:
        values = spec.values
        if group is None:
            block, by = block or list(spec.blocks) or None, by or list(spec.strata) or None
        if group in (None, spec.group):
            group, baseline = spec.group, baseline or spec.baseline
    return asked.value or values, {"group": group, "baseline": baseline, "block": block, "by": by}


def seeds(
    sd: Annotated[float | None, "Standard deviation across seeds."] = None,
    se: Annotated[float | None, "Standard error of the mean to reach; with --sd."] = None,
    ratio: Annotated[float | None, "Variance ratio to detect."] = None,
    n: Annotated[int | None, "Seeds per group: what can they detect?"] = None,
    n_baseline: Annotated[int | None, "Seeds of the baseline, if different."] = None,
    power: Annotated[float, "Probability of detecting it."] = 0.8,
    alpha: Annotated[float, "Level of the test."] = 0.05,
    shape: Annotated[str, "Distribution across seeds: normal, t5, skewed or bimodal."] = "normal",
    blocks: Annotated[int, option("Runs per seed and group.", min=1)] = 1,
    pairs: Annotated[
        float | None, "Correlation between groups that share seeds. Omit if they do not."
    ] = None,
    same_seed_runs: Annotated[float, "Correlation between same-seed runs; with --blocks."] = 0.0,
    difference: Annotated[float | None, "Difference of two means to detect; with --sd."] = None,
    margin: Annotated[float | None, "Largest difference of two means that counts as none; with --sd."] = None,
    drop: Annotated[float | None, "Drop for gate to detect; with --sd, and --n for its past runs."] = None,
    json: Json = False,
) -> None:
    """How many seeds do I need?

    To detect a variance ratio (--ratio), or for a mean (--sd with --se, --difference, --margin or --drop).
    """
    from seedspread.analysis.seeds import seed_budget
    from seedspread.stats.planning import Design

    design = Design(blocks, pairs, same_seed_runs, alpha, shape)
    budget = seed_budget(
        sd, se, ratio, n, n_baseline, power, design, difference=difference, margin=margin, drop=drop
    )
    if json:
        say_json(budget.values)
    else:
        say_prose(budget.text)


@with_options(value=OneValue, group=Annotated[str | None, "Column whose levels are the groups of each set."])
def compare(
    sources: Annotated[
        list[str],
        argument("Two or more sets of runs: tables, stores or other tools' logs. The first is the baseline."),
    ],
    studies: Annotated[
        list[str] | None,
        option(
            "Study of the stores: once for all, or once for each. Twice to compare two studies of one store.",
            "--study",
        ),
    ] = None,
    *,
    asked: TableOptions,
    level: Level = 0.95,
    equivalence: Annotated[
        float, "Variances, or ratios, within this factor of each other count as the same."
    ] = 2.0,
    details: Annotated[bool, "Print all tests."] = False,
    plot: Annotated[Path | None, "Draw the ratios: .png, .pdf or .svg."] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Did the spread change between two sets of runs?

    With groups also: do the sets give the same answer?
    """
    from seedspread.render.terminal import Terminal
    from seedspread.study.store_questions import compare as run_compare

    check_forms(form, plot)
    with Terminal(stderr=True).status("comparing ..."):
        result = run_compare(
            *sources, value=asked.one_value, group=asked.group, baseline=asked.baseline, block=asked.block,
            seed=asked.seed_column, by=asked.by, study=studies, level=level, equivalence=equivalence,
            better=asked.better, **asked.rows,
        )  # fmt: skip
    say_result(result, form, as_json=json, details=details)
    if form == "text" and not (json or details):
        say("\n  --details all tests   --plot fig.pdf")
    draw(result, plot)


@with_options(
    "value group baseline block by where last best wide metric_column sheet at no_steps".split(),
    value=OneValue,
    baseline=Annotated[str | None, "Level to compare the others with. Default: every pair."],
)
def components(
    table: Annotated[
        str, argument("A table with one row per run, a store of runs, or another tool's log (see collect).")
    ],
    asked: TableOptions,
    seed: Annotated[str | None, "Column with the seed."] = None,
    source: Annotated[
        list[str] | None,
        "Column with the seed of one source of randomness, such as init. Repeat for several.",
    ] = None,
    test_size: Annotated[int | None, "Number of test examples, for the test-set noise."] = None,
    level: Level = 0.95,
    study: Annotated[str | None, "Study, or collection of studies, by name or .toml file."] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Split the variance by source of randomness.

    Between seeds, by source (such as init and order), and noise between same-seed runs.
    """
    from seedspread.analysis.components import components as split

    check_forms(form)
    # The named study, or all studies with the same question.
    alone = study is None and asked.group is not None
    recorded = None if alone else _question(table, study, asked, together=True)
    (value, *_), compared = _comparison(table, recorded.spec if recorded else None, asked)
    runs: str | pd.DataFrame = table
    if recorded is not None:
        compared["by"] = [name for name in compared["by"] or () if name != "study"]
        # A run that belongs to several studies is one run of its group.
        columns = [compared["group"], *(compared["block"] or ()), *compared["by"]]
        runs = recorded.table.drop_duplicates(["key", *columns])
    if value is None and Path(table).exists():
        raise SeedspreadError(f"which column of {table} has the results? Name it with --value")
    result = split(
        runs, value or "accuracy", seed=seed, source=source, **compared,
        test_size=test_size, level=level, **asked.rows,
    )  # fmt: skip
    say_result(result, form, as_json=json)


@with_options(
    "value group seed no_seed by where last best wide metric_column sheet at no_steps higher lower".split(),
    group=Annotated[str | None, "Column, such as test, whose levels are judged separately."],
)
def gate(
    history: Source,
    new: Annotated[
        str | None, argument("Runs to judge. Without them: the bound that new runs must reach.")
    ] = None,
    *,
    asked: TableOptions,
    alpha: Annotated[
        float, option("Share of healthy runs that may fail.", "--alpha", "--false-alarms")
    ] = 0.05,
    confidence: Annotated[float, "Confidence of the bound."] = 0.95,
    margin: Annotated[float | None, "Acceptable drop: pass only if the mean provably drops by less."] = None,
    two_sided: Annotated[bool, "Fail on any change, not only on a drop."] = False,
    chance: Annotated[float | None, "Score of a run that has learned nothing."] = None,
    study: Annotated[str | None, "Study, by name, if a store has several."] = None,
    details: Annotated[bool, "Print how each was judged."] = False,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Do new runs pass, judged by past ones? For CI.

    Exit status: 0 pass, 1 fail, 3 can't tell, 2 error.
    """
    from seedspread.analysis.gate import gate as judge

    check_forms(form)
    result = judge(
        history, new, asked.value, asked.group, asked.seed_column, asked.by, alpha=alpha,
        confidence=confidence, margin=margin, two_sided=two_sided,
        chance=chance, study=study, better=asked.better, **asked.rows,
    )  # fmt: skip
    try:
        say_result(result, form, as_json=json, details=details)
    except BrokenPipeError:  # typer would exit with the status of a failed gate
        raise SeedspreadError("the output was closed before all was written") from None
    raise typer.Exit(result.exit_code)


@with_options("group block seed by where metric_column sheet".split())
def curves(
    table: Source,
    metric: Annotated[str, option("Metric that was logged over training.", "--metric", "--value")],
    asked: TableOptions,
    step: Annotated[str | None, "Column with the step."] = None,
    out: Annotated[Path | None, "Save the curves: .pdf, .png, .svg or .csv."] = None,
    study: Study = None,
    level: Level = 0.95,
    json: Json = False,
) -> None:
    """Plot mean and spread across seeds over training."""
    from seedspread.analysis.curves import curves as run_curves
    from seedspread.analysis.curves import is_csv

    if out:
        is_csv(out)  # refuses a wrong file name before the work
    recorded = _question(table, study, asked)
    _, compared = _comparison(table, recorded.spec if recorded else None, asked)
    del compared["baseline"]
    result = run_curves(
        recorded.table if recorded else table, metric, seed=asked.seed, **compared, step=step,
        level=level, where=asked.where, metric_column=asked.metric_column, sheet=asked.sheet,
    )  # fmt: skip
    if out:
        result.write(out)
    say_result(result, "text", as_json=json)


def collect(
    source: Annotated[
        str,
        argument(
            "MLflow (folder, database, server), TensorBoard, Lightning CSV, Hydra, Weights & Biases "
            "CSV, Optuna (database, journal), or JSON files."
        ),
    ],
    metric: Annotated[list[str] | None, "Metric to read from each run. Repeat for several."] = None,
    at: Annotated[str, "Which step: last, best or step=N."] = "last",
    out: Annotated[Path | None, "Table to write: .csv, .tsv or .parquet."] = None,
    kind: Annotated[str | None, "Kind of source, if it is ambiguous."] = None,
    higher: Annotated[
        bool, option("With --at best: higher values are better.", "--higher-is-better")
    ] = False,
    lower: Annotated[bool, option("With --at best: lower values are better.", "--lower-is-better")] = False,
    all_parameters: Annotated[bool, "Keep parameters that are the same in every run."] = False,
    keep_duplicates: Annotated[
        bool, "Keep runs that a later one with the same parameters and seed repeats."
    ] = False,
    pattern: Annotated[str | None, "Columns from paths, such as '{model}/seed-{seed}/results.json'."] = None,
    json: Annotated[bool, "Print JSON."] = False,
) -> None:
    """Make a table from what MLflow, W&B and other tools logged."""
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
        names = ("source", "kind", "seed", "varying", "constant", "better", "notes")
        rows = jsonlib.loads(collected.table.to_json(orient="records"))
        say_json(
            {name: getattr(collected, name) for name in names}
            | {"runs": len(rows), "unread": [asdict(one) for one in collected.unread]}
            | {"table": rows if out is None else str(out)}
        )
        return
    say(summary(collected, metrics, at), err=out is None)
    if out is None:
        say(shown.table.to_csv(index=False).rstrip("\n"))
    else:
        value = without_formula(metrics[0]) if is_text else metrics[0]
        say(f"table: {out}\n{_next(shown, value, out)}")


def _next(collected: "Collected", metric: str, out: Path) -> str:
    """Return the next command to try, an audit of the table."""
    from seedspread.runs.metrics import metric_of
    from seedspread.tables.check import proposal
    from seedspread.tables.question import Question
    from seedspread.tables.read import read_table
    from seedspread.tables.sources.run import clean

    asked = Question(metric)
    question = proposal(read_table(collected.table, asked), asked) or asked
    command = question.typed(str(out))
    if collected.declared not in (None, metric_of(metric).better):  # a file has only the column's name
        command += f" --{collected.declared}-is-better"
    return clean(f"next: {command}")
