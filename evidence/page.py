"""Write `docs/evidence.md` from the published runs: `python evidence/page.py`; `--show` prints the verdicts.

Prose comes from `page.md` and `prose.toml`, every number from the tables.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined

from evidence.estimates import estimated, net, paper_over
from evidence.findings import Finding, compared, findings, rates_and_outcomes, unplanned
from evidence.plan import ALL, SOURCES, study_named
from evidence.saturated import saturated
from evidence.sources import is_source, same_seed_variances, sources, sources_chart, sources_table
from evidence.strata import change, further, times
from evidence.tables import FOLDER, correct, published_runs
from evidence.verdicts import SCALE, Row, rate_of, ratios_chart, remarks, verdict_rows, verdict_table
from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.charts import audit_chart
from seedspread.analysis.components import ComponentsResult
from seedspread.analysis.words import two
from seedspread.atomic import replacing
from seedspread.cli.options import say_prose
from seedspread.render.chart import Chart
from seedspread.render.table import Column, Table, markdown_text, to_markdown
from seedspread.render.terminal import Terminal, to_rich
from seedspread.runs.files import parse_toml
from seedspread.stats.seed_summaries import noise_from_predictions
from seedspread.study.spec import StudySpec

PAGE = Path(__file__).parents[1] / "docs" / "evidence.md"
# The folder of the pictures, beside the page, and the name of the picture of the first table.
_PICTURES = "evidence"
ANSWER = "answer"
# Captions for the picture of a study with one comparison, and of one with several.
_ALONE = (
    "Left: every run, the mean and one standard deviation around it; right: the ratio by each method, the "
    "headline's with a star."
)
_SEVERAL = (
    "The first panel: each ratio with its interval; the others: every run, the mean and one standard "
    "deviation around it."
)


def page() -> str:
    """Return the page as Markdown."""
    studies = _sections()
    return _filled(
        _text("page.md"),
        scale=SCALE,
        answer=answer(),
        summary=_filled(
            _prose_of("summary")["means"],
            of={s["name"]: s for s in studies},
            row=_first_table(),
            rows=len(verdict_rows()),
        ),
        rows=len(verdict_rows()),
        saturated=markdown_text(str(saturated() or "")),
        verdicts=to_markdown(verdict_table()),
        scales=to_markdown(_scales()),
        studies=studies,
        rates=to_markdown(_rates()),
        rates_mean=_filled(_prose_of("rates")["means"], r=_correlations()),
        **_amounts(),
    )


def answer() -> str:
    """Return the findings in a few sentences."""
    return _filled(_prose_of("summary")["answer"], of=_first_table())


def _first_table() -> dict[str, dict[str, str]]:
    """Return the quotable numbers of the first table, by study and comparison."""
    return {f"{row.found.name}: {compared(row.comparison)}": _quoted(row) for row in verdict_rows()}


def _quoted(row: Row) -> dict[str, str]:
    """Return the numbers of a row of the first table for prose."""
    return {
        "ratio": two(row.judged.headline.ratio),
        "low": two(getattr(row.interval, "low", math.nan)),
        "high": two(getattr(row.interval, "high", math.nan)),
        "rate": rate_of(row.found.runs_of(row.comparison, row.comparison.group)),
    }


def _filled(template: str, **values: Any) -> str:
    """Fill in the numbers of a text; a missing number is an error."""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)  # noqa: S701 - Markdown
    return environment.from_string(template).render(values)


def _text(name: str) -> str:
    return (Path(__file__).parent / name).read_text()


def write_page(path: Path) -> None:
    """Write the page; `make figures` draws its pictures."""
    with replacing(path) as part:
        part.write_text(page())


def charts() -> dict[str, Chart]:
    """Return the picture of each section, by the name of its study."""
    out = {
        found.study.name: replace(audit_chart(found.audit), scale=found.study.file.note)
        for found in findings()
        if found.audit is not None and not is_source(found.study)
    } | {ANSWER: ratios_chart()}
    if (split := sources()) is not None:
        out[SOURCES] = replace(sources_chart(split), scale=study_named(SOURCES).file.note)
    return out


def _amounts() -> dict[str, Any]:
    """Return how much was run, on what, and the number of missing runs by study."""
    every = findings()
    runs = published_runs().loc[sorted({key for found in every for key in found.runs["key"]})]
    return {
        "count": len(runs),
        "hours": f"{runs['seconds'].sum() / 3600:.1f}",
        "lacking": {f.name: f.planned - len(f.runs) for f in every if not f.is_whole},
        "versions": sorted({f"torch {t}, numpy {n}, Python {p}" for t, n, p in
                            zip(runs["torch"], runs["numpy"], runs["python"], strict=True)}),
        "cpus": sorted(set(runs["cpu"].dropna())),
        "compilers": sorted(set(runs["compiler"].dropna())),
    }  # fmt: skip


def _sections() -> list[dict[str, Any]]:
    """Return a section per study; the parts of a collection share one, as they are answered together."""
    by_name = {found.study.name: found for found in findings()}
    studies = study_named(ALL).included
    return [_sources_section(s, by_name) if s.included else _section(by_name[s.name]) for s in studies]


def _sources_section(study: StudySpec, by_name: dict[str, Finding]) -> dict[str, Any]:
    """Return the section on the sources of variance."""
    parts, split = [by_name[part.name] for part in study.parts], sources()
    names = tuple(part.name for part in parts)
    section = _about(study) | {
        "seeds": len(study.parts[0].seeds),
        "runs": sum(len(part.runs) for part in parts),
        "planned": sum(part.planned for part in parts),
        "parts": [{"name": part.study.name, "title": part.study.title} for part in parts],
        "verdicts": [markdown_text(line) for line in split.strata[0].sentences] if split else [],
        "groups": to_markdown(sources_table(split)) if split else "",
        "ratios": to_markdown(verdict_table(names=names)) if split else "",
        "sd": {part.name: _spreads(part) for part in parts},
        "word": {row.found.name: row.word for row in verdict_rows(names)},
        "at_once": _spreads(by_name["margin"]),
        **(_same_seed_runs_and_sums(split, by_name["margin"]) if split else {}),
    }
    return section | _prose(section, bool(split))


def _same_seed_runs_and_sums(split: ComponentsResult, whole: Finding) -> dict[str, dict[str, str]]:
    """Return by group the sd of same-seed runs, their share of the variance, and the sd of the sum."""
    if whole.audit is None:
        return {}
    c, twins = whole.audit.comparisons[0], same_seed_variances(split)
    spread = {c.group: c.pooled[0].sd, c.baseline: c.pooled[1].sd}
    return {
        "noise": {group: f"{math.sqrt(variance):.2f}" for group, variance in twins.items()},
        "noise_share": {
            group: f"{variance / (spread[group] or math.nan) ** 2:.0%}" for group, variance in twins.items()
        },
        "added": {group.group: f"{math.sqrt(group.total):.2f}" for group in split.strata[0].groups},
    }


def _spreads(found: Finding) -> dict[str, str]:
    """Return the plain standard deviation of each group, in points."""
    if found.audit is None:
        return {}
    c = found.audit.comparisons[0]
    names = (c.group, c.baseline)
    return {n: "-" if s.sd is None else f"{s.sd:.2f}" for n, s in zip(names, c.pooled, strict=True)}


def _about(study: StudySpec) -> dict[str, Any]:
    """Return the fields of a study file, which was written before the runs."""
    return {
        "name": study.name,
        "title": study.title,
        "question": study.file.question,
        "prediction": study.file.prediction,
        "note": study.file.note,
        "picture": _picture(study.name),
        "parts": (),
    }


def _picture(name: str) -> str:
    """Return the path of a picture, relative to the page."""
    return f"{_PICTURES}/{name}.png"


def _prose(section: dict[str, Any], is_answered: bool) -> dict[str, str]:
    """Return the meaning and the limits of an answer in words, with the section's numbers."""
    prose = _prose_of(section["name"]) if is_answered else {}
    return {part: _filled(prose.get(part, ""), **section) for part in ("means", "limits")}


def _prose_of(name: str) -> dict[str, str]:
    return dict(parse_toml(_text("prose.toml"), "prose.toml").get(name, {}))


def _section(found: Finding) -> dict[str, Any]:
    """Return the section on one study."""
    comparisons = found.audit.comparisons if found.audit else ()
    changed, second = change(found), further(found)
    others = unplanned(found)
    verdicts = [f"{markdown_text(c.title)}: {markdown_text(c.verdict)}" for c in comparisons]
    verdicts += [f"{markdown_text(c.title)} (not planned): {markdown_text(c.verdict)}" for c in others]
    section = _about(found.study) | {
        "seeds": len(found.study.seeds),
        "runs": len(found.runs),
        "planned": found.planned,
        "is_whole": found.is_whole,
        "groups": to_markdown(_groups(found)) if len(found.runs) else "",
        "reading": _SEVERAL if len(comparisons) > 1 else _ALONE,
        "verdicts": verdicts + [markdown_text(str(one)) for one in (changed, second and second[0]) if one],
        "change": changed.values if changed else {},
        "second": second[1] if second else {},
        **_beside(found, (*comparisons, *others)),
        "floor": {name: _floor_share(list(runs["key"])) for name, runs in _cells(found)},
        **_numbers(found, (*comparisons, *others)),
    }
    return section | _prose(section, bool(comparisons))


def _numbers(found: Finding, comparisons: Sequence[Comparison]) -> dict[str, dict[str, str]]:
    """Return numbers for prose by comparison (`clamp`, `clamp, 0.8`), or by cell, which is named alike."""
    out = {"ratio": {compared(c): two(c.headline.ratio) for c in comparisons}}
    for end in ("low", "high"):
        limits = {compared(c): getattr(c.headline.shown_interval, end, math.nan) for c in comparisons}
        out[end] = {name: two(value) for name, value in limits.items()}
    out["mean"] = {name: f"{100 * runs['accuracy'].mean():.1f}" for name, runs in _cells(found)}
    out["rate"] = {name: _share(runs["clamp_activation_rate.0"].mean()) for name, runs in _cells(found)}
    return out


def _beside(found: Finding, comparisons: Sequence[Comparison]) -> dict[str, dict[str, str]]:
    """Return each ratio net of the test set, and the paper's ratio over it, both unadjusted."""
    nets = {compared(c): net(found, c) for c in comparisons}
    papers = {compared(c): paper_over(estimated(found, c)[1]) for c in comparisons}
    return {
        "net": {name: times(e) for name, e in nets.items() if e},
        "paper": {n: times(e) for n, e in papers.items()},
    }


def _cells(found: Finding) -> list[tuple[str, pd.DataFrame]]:
    """Return the runs of each cell, by its name in prose: `clamp`, `clamp, 0.8`."""
    if found.runs.empty:
        return []
    factors = [name for name, _ in reversed(found.study.cells[0].levels)]
    cells = found.runs.groupby(factors)
    return [(", ".join(map(str, key if isinstance(key, tuple) else (key,))), runs) for key, runs in cells]


def _groups(found: Finding) -> Table:
    """Return mean and spread of each cell, and the rate of its clamp, if it has one."""
    factors = [name for name, _ in found.study.cells[0].levels]
    rows = []
    for levels, runs in found.runs.groupby(factors, sort=False):
        accuracy = runs["accuracy"]
        names = levels if isinstance(levels, tuple) else (levels,)
        rows.append(
            (
                *map(str, names),
                str(len(runs)),
                f"{100 * accuracy.mean():.2f}",
                f"{100 * accuracy.std():.2f}" if len(runs) > 1 else "-",
                f"{100 * accuracy.min():.2f} to {100 * accuracy.max():.2f}",
                _floor_share(list(runs["key"])),
                _rate(runs),
            )
        )
    heads = (*factors, "seeds", "mean, %", "sd, points", "range, %", "test-set noise", "rate at layer 0")
    title = f"Test accuracy on {found.runs['dataset'].iloc[0]}"
    return Table("", title, tuple(map(Column, heads)), tuple(rows))


def _floor_share(keys: list[str]) -> str:
    """Return the share of the variance over seeds that the test set accounts for."""
    if len(keys) < 2:
        return "-"
    noise = noise_from_predictions("", correct(keys))
    return f"{noise.explained / noise.observed:.0%}"


def _rate(runs: pd.DataFrame) -> str:
    """Return the share of pairs that the clamp cuts or would cut; none for subtraction, which is inert."""
    if runs["objective.margin_type"].iloc[0] == "shift":
        return f"{_share(runs['clamp_activation_rate.0'].mean())} if clamped"
    return rate_of(runs)


def _share(value: float) -> str:
    return "-" if pd.isna(value) else f"{value:.0%}"


def _rates() -> Table:
    """Return the table of rates and outcomes over seeds."""
    rows = tuple(
        (
            one.dataset,
            one.group,
            str(one.correlation.seeds),
            _share(one.rate),
            f"{one.correlation.r:+.2f}",
            "" if (i := one.correlation.interval) is None else f"{i.low:+.2f} to {i.high:+.2f}",
        )
        for one in rates_and_outcomes()
    )
    heads = ("dataset", "group", "seeds", "rate at layer 0", "correlation", "95% interval")
    title = "A seed's clamp activation rate over training, and its accuracy"
    return Table("", title, tuple(map(Column, heads)), rows)


def _correlations() -> dict[str, str]:
    """Return correlations by group, over all seeds, over the first 24, and over any later ones."""
    parts = {"": range(1, 1000), ", first": range(1, 25), ", new": range(25, 1000)}
    return {
        f"{one.dataset}, {one.group}{part}": f"{one.correlation.r:+.2f}"
        for part, seeds in parts.items()
        for one in rates_and_outcomes(seeds)
    }


def _scales() -> Table:
    """Return the measurements by which the scale of the studies was chosen."""
    table = pd.read_csv(FOLDER / "scales.csv")
    rows = tuple(
        (
            *(str(int(row[name])) for name in ("patch_size", "dim", "depth", "batch_size", "epochs")),
            f"{row['margin_first']:g}",
            f"{row['accuracy']:.1%}",
            f"{row['clamp_activation_rate']:.0%}",
            f"{row['cpu_seconds']:.0f}",
        )
        for row in table.to_dict("records")
    )
    setting = ("patch", "width", "layers", "batch", "epochs", "first margin")
    heads = (*setting, "accuracy", "rate at layer 0", "CPU seconds")
    title = "One run each: CIFAR-10 whole, clamp, seed 1, native, one thread"
    return Table("", title, tuple(map(Column, heads)), rows)


def show() -> None:
    """Print the answer, a row per comparison, and remarks."""
    console = Terminal()
    table = verdict_table(console.width)
    say_prose(answer())
    print()
    console.print(to_rich(table))
    for line in (table.note, *remarks(), f"Scale: {SCALE}."):
        say_prose(line)


def main() -> None:
    """Write the page, or print its verdicts."""
    parser = argparse.ArgumentParser(description="Write docs/evidence.md; make figures draws its pictures.")
    parser.add_argument("--show", action="store_true", help="print the verdicts instead")
    if parser.parse_args().show:
        show()
    else:
        write_page(PAGE)
        print(f"page: {PAGE}; its pictures: make figures")


if __name__ == "__main__":
    main()
