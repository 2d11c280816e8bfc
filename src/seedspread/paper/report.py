"""What the paper adds to the page of its training's runs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedspread.analysis.audit_result import AuditResult
from seedspread.cff.advice import advise
from seedspread.cff.config import RunConfig
from seedspread.cff.datasets import dataset_info
from seedspread.cff.identity import RUNNER, margin_is_inert, saturates
from seedspread.cff.margins import layer_margins
from seedspread.cff.presets import check
from seedspread.errors import SeedspreadError
from seedspread.paper.report_tables import WHOLE, counted, hyperparameters, of_paper, verdicts
from seedspread.paper.settings import (
    BASELINE,
    CHANGED,
    OTHER_SCALE,
    PAPER,
    TITLES,
    PaperSetting,
    is_papers_level,
    paper_config,
    paper_setting,
    paper_values,
    scale_of,
)
from seedspread.paper.values import SETTINGS, published_runs, series
from seedspread.render.chart import Chart
from seedspread.render.table import Table
from seedspread.report.data import Point, ReportData, Setting, ordered, slug
from seedspread.report.extension import Extension, Published, Scale
from seedspread.report.layers import LayerBand, RunLayers, read_layers
from seedspread.report.load import arms_of, strata
from seedspread.report.sections import Section
from seedspread.runs.metrics import metric_of
from seedspread.runs.run import Run
from seedspread.runs.studies import AuditSpec, RecordedCell, RecordedStudy
from seedspread.version import __version__

if TYPE_CHECKING:
    from seedspread.paper.check import Finding


# The paper's four datasets, which it judges together.
_DATASETS = ("cifar10", "cifar100", "svhn", "fashion-mnist")
# What the paper's other tables need, by number.
_NEEDS = {
    2: "a study", 3: "the CIFAR-10 factorial", 4: "the CIFAR-10 factorial, both stability modes",
    5: "the CIFAR-10 factorial", 10: "CIFAR-100", 13: "SVHN", 14: "Fashion-MNIST",
    16: "the CIFAR-10 factorial", 17: "the dose response", 19: "CIFAR-100", 20: "SVHN", 21: "Fashion-MNIST",
    22: "the SVHN difficulty sweep", 23: "an audit",
    **{number: needs for number, needs, _, _ in WHOLE},
}  # fmt: skip
_GLOSSARY = (
    (
        "clamp, subtract",
        "two ways to apply a margin m to the similarity s of a positive pair: min(s + m, 1), which cuts the "
        "gradient where s + m > 1; or a shift that moves no gradient",
    ),
    ("detach, direct", "two ways to keep the softmax stable, with the same gradient but for rounding"),
    (
        "CAR",
        "clamp activation rate: the share of positive pairs with s + m > 1; in runs that do not clamp it is "
        "would-be, what the margin would cut",
    ),
    (
        "collapsed",
        "a run that is no better than the largest class, or sees all images alike: it failed to train",
    ),
)


@dataclass(frozen=True)
class PaperReport(Extension):
    """The paper's values, tables and words; in a report of its own numbers also `findings`, the verdicts."""

    findings: "tuple[Finding, ...]" = ()

    def parameters(self, values: Mapping[str, Any]) -> RunConfig:
        return values if isinstance(values, RunConfig) else check(dict(values))

    def study_of_runs(self, runs: Mapping[str, Run], name: str) -> RecordedStudy | None:
        """Take as factors the config fields in which the finished runs differ."""
        configs: dict[str, RunConfig] = {}
        for key, run in runs.items():
            try:
                configs[key] = self.parameters(run.parameters)
            except SeedspreadError:
                continue
        if not configs:
            return None
        levels = _levels(configs)
        cells: dict[tuple[tuple[str, str], ...], RecordedCell] = {}
        for key, config in configs.items():
            cell = cells.setdefault(levels[key], RecordedCell(dict(levels[key]), config, {}))
            cells[levels[key]] = replace(cell, runs={**cell.runs, config.seeds.run: key})
        return RecordedStudy(
            name, f"The finished runs in {name}", "", _guess(levels), RUNNER, tuple(cells.values())
        )

    def level(self, factor: str, level: str) -> tuple[str, str]:
        return ("dataset", dataset_info(level).title) if factor == "name" else (factor, level)

    def typical(self, cells: Sequence[RecordedCell]) -> RunConfig | None:
        """Return a run whose margin matters, if there is one."""
        return next(iter(_telling(cells)), None)

    def layers(self, folder: Path, parameters: RunConfig) -> RunLayers | str:
        return read_layers(folder, tuple(layer_margins(parameters)))

    def saturates(self, parameters: RunConfig) -> bool:
        return saturates(parameters)

    def published(
        self, cells: Sequence[RecordedCell], audit: AuditSpec | None, metric: str, partial: bool
    ) -> PaperSetting | None:
        """The paper's setting, if these runs ask its question: accuracies of margin types, on its data.

        A study that is audited by depth has the paper's setting at the paper's depth only.
        """
        if audit is None or audit.group != "margin_type" or metric != "accuracy":
            return None
        configs = _telling(cells)
        settings = {paper_setting(config) for config in configs}
        if len(settings) != 1 or not set(audit.blocks) <= {"stability"}:
            return None
        (name,) = settings
        if name is None or not all(is_papers_level(configs[0], name, f) for f in strata(audit)):
            return None
        same_scale = scale_of(configs[0], name, partial).same
        arms = set(arms_of(list(cells), audit))
        return paper_values(name, same_scale, same_question=arms == {CHANGED, BASELINE})

    def scale(self, parameters: RunConfig | None, published: Published | None, partial: bool) -> Scale:
        if parameters is None:
            return Scale()
        return scale_of(parameters, published.name if published else None, partial)

    def rates_to_compare(self, settings: Sequence[Setting]) -> dict[str, tuple[str, str]]:
        """Draw the rates of the low margin beside those of the standard one."""
        data = ReportData("", "", tuple(settings))
        standard, low = of_paper(data, "cifar10"), of_paper(data, "cifar10-low")
        if standard is None or low is None or CHANGED not in low.profiles.get("rate", {}):
            return {}
        return {standard.id: ("clamp, low margin", low.id)}

    def judged_together(self, settings: Sequence[Setting]) -> list[Setting]:
        """Return the paper's comparison on its datasets: each once, all of one size, none sequential."""
        sizes: dict[tuple[str, str], dict[str, Setting]] = {}
        for s in settings:
            compared = len(s.arms) == 2 and all(s.of(arm) for arm in s.arms) and s.sequential is None
            if s.beside is not None and s.beside.name in _DATASETS and compared:
                sizes.setdefault((s.scale.size, s.scale.remark), {}).setdefault(s.beside.name, s)
        return list(max(sizes.values(), key=len, default={}).values())

    def advice(self, setting: Setting) -> list[str]:
        """Return the paper's rule of thumb if it applies: at its scale, with at least two seeds."""
        s, rates = setting, setting.profiles.get("rate", {}).get(CHANGED)
        shares = [r.layers.pair_share for r in s.runs if r.layers is not None]
        if s.beside is None or not s.scale.same or rates is None or not shares:
            return []
        if min(s.comparisons[0].seeds) < 2:
            return []
        accuracy = s.metric.as_share(next(p.mean for p in s.comparisons[0].pooled if p.group == CHANGED))
        advice = advise(float(rates.mean[0]), clamp=True, accuracy=accuracy, pair_share=shares[0])
        return [f"The paper's rule of thumb for {s.name}: {advice.sentence} {' '.join(advice.reasons)}"]

    def exhibits(self, data: ReportData) -> dict[str, list[Table | Chart | None]]:
        out: dict[str, list[Table | Chart | None]] = {"setup": [hyperparameters(data)]}
        for _, _, section, make in WHOLE:
            out.setdefault(section, []).append(make(data))
        return out

    def sections(self, data: ReportData) -> list[Section]:
        """Return the check of the paper, in a report of its own numbers."""
        if not self.findings:
            return []
        legend = (
            "Each printed number is recomputed from the published values; ✗ marks one that does not follow."
        )
        bad, good = (verdicts(self.findings, hold=hold) for hold in (False, True))
        words = (counted(self.findings), legend)
        return [Section("paper-check", "The paper, checked", words, (bad,), (), good.title, (good,))]

    def glossary(self, data: ReportData) -> tuple[tuple[str, str], ...]:
        return _GLOSSARY if any(s.beside is not None for s in data.settings) else ()

    def badge(self, data: ReportData) -> str:
        same = {s.scale.same for s in data.settings}
        return OTHER_SCALE if same == {False} else "mixed scales" if False in same else ""

    def missing(self, data: ReportData, sections: Sequence[Section]) -> list[str]:
        if not any(s.beside is not None for s in data.settings):
            return []
        exhibits = [e for s in sections for e in s.all]
        there = {e.follows for e in exhibits if isinstance(e, Table)}
        needs = sorted(_NEEDS.items())
        out = [f"Table {n} needs {what}" for n, what in needs if f"the paper's Table {n}" not in there]
        charts = {e.id for e in exhibits if isinstance(e, Chart)}
        if not any(name.endswith("rate-over-training") for name in charts):
            out.append("CAR and gradient norms over training need runs with two epochs or more")
        if not any(name.endswith("accuracy-by-layer") for name in charts):
            out.append("accuracy by layer needs runs with probe.layers = 'all'")
        for name, what in (("forest", "two datasets"), ("twins", "seeds run in both stability modes")):
            if name not in charts:
                out.append(f"the figure “{name}” needs {what}")
        if "floor" not in charts:
            out.append("the sampling floor needs stored predictions of two seeds or more")
        return out


def _telling(cells: Sequence[RecordedCell]) -> list[RunConfig]:
    """Return the configs whose margin matters; all, if none does."""
    configs: list[RunConfig] = [cell.parameters for cell in cells]
    return [config for config in configs if not margin_is_inert(config)] or configs


def _guess(cells: dict[str, tuple[tuple[str, str], ...]]) -> AuditSpec | None:
    """Return the paper's comparison, if the cells allow it."""
    factors = {factor for cell in cells.values() for factor, _ in cell}
    levels = {dict(cell).get("margin_type") for cell in cells.values()}
    if "subtract" not in levels or len(levels) < 2:
        return None
    block = ("stability",) if "stability" in factors else ()
    by = "condition" if "condition" in factors else None
    return AuditSpec(group="margin_type", baseline="subtract", block=block, by=by)


def _levels(configs: dict[str, RunConfig]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Name cells by margin type and stability if they vary, and by all else that varies, a `condition`."""
    flat = {key: _flat(config) for key, config in configs.items()}
    names = list(dict.fromkeys(name for fields in flat.values() for name in fields))
    vary = [n for n in names if len({fields.get(n) for fields in flat.values()}) > 1]
    own = ("objective.margin_type", "objective.stability")
    fields_called = Counter(n.split(".")[1] for n in vary)
    short = {n: field if fields_called[field := n.split(".")[1]] == 1 else n for n in vary}
    out = {}
    for key, fields in flat.items():
        cell = [(n.split(".")[1], str(fields[n])) for n in own if n in vary]
        rest = ", ".join(f"{short[n]} = {fields.get(n)}" for n in vary if n not in own)
        out[key] = tuple(cell + ([("condition", rest)] if rest else []))
    return out


def _flat(config: RunConfig) -> dict[str, str]:
    values = config.model_dump(mode="json", exclude={"seeds", "runtime"})
    return {
        f"{part}.{k}": json.dumps(v) if not isinstance(v, str) else v
        for part, fields in values.items()
        for k, v in fields.items()
    }


# Published profiles: setting, quantity, arm, and by what name the values are known.
_RATES = {"cifar10": "cifar10 standard", "cifar10-low": "cifar10 low", "cifar100": "cifar100", "svhn": "svhn"}
_GRADIENTS = ("cifar10", "cifar100")


def load_published() -> ReportData:
    """Return the paper's own numbers as a report: settings, verdicts, and what it measured by layer."""
    from seedspread.paper.check import check_paper  # noqa: PLC0415 - for a report of the paper's numbers only
    from seedspread.paper.conclusions import MAIN, audit_published  # noqa: PLC0415

    main = audit_published()
    audits = {name: main if name in MAIN else audit_published((name,)) for name in SETTINGS}
    return ReportData(
        title="The paper's own numbers: “When Does Margin Clamping Affect Training Variance?”",
        source="the paper's tables",
        settings=ordered([_published_setting(name, result) for name, result in audits.items()]),
        across=main,
        notes=(
            "Every value here is computed from the per-seed accuracies that the paper publishes. It "
            "publishes no course over training, no per-seed rates and no predictions: figures that need them "
            "are missing.",
        ),
        provenance=(
            ("made by", f"seedspread {__version__}"),
            (
                "data",
                "the per-seed accuracies of the paper's Appendices A and C, its Tables 7, 8, 11, 12, 18",
            ),
            ("seeds", "1 to 7 on CIFAR-10, 1 to 5 elsewhere, as the paper's Appendix E says"),
        ),
        extensions=(PaperReport(tuple(check_paper())),),
    )


def _published_setting(name: str, result: AuditResult) -> Setting:
    runs = tuple(
        Point(row["margin_type"], (row["stability"],), row["seed"], float(row["accuracy"]))
        for row in published_runs()
        if row["setting"] == name
    )
    return Setting(
        id=slug(name),
        title=TITLES[name],
        name=TITLES[name],
        study="",
        arms=("clamp", "subtract"),
        group="margin_type",
        block_factors=("stability",),
        metric=metric_of("accuracy").for_display[0],
        runs=runs,
        comparisons=tuple(c for c in result.comparisons if c.stratum == (name,)),
        audit=result,
        published=paper_values(name, judge=True),
        parameters=paper_config(name),
        all_parameters=(paper_config(name),),
        scale=PAPER,
        profiles=_profiles(name),
    )


def _profiles(name: str) -> dict[str, dict[str, LayerBand]]:
    out: dict[str, dict[str, LayerBand]] = {"rate": {}, "gradient": {}}
    if name in _RATES:
        out["rate"]["clamp"] = LayerBand(series(f"car/{_RATES[name]}").values / 100, None, 0)
    if name in _GRADIENTS:
        for arm in ("clamp", "subtract"):
            mean, sd = (series(f"{part}/{name} {arm}").values for part in ("gradient", "gradient_sd"))
            out["gradient"][arm] = LayerBand(mean, sd, 0)
    return out
