"""What the paper adds to the page of its training's runs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seedspread.cff.advice import advise
from seedspread.cff.config import RunConfig
from seedspread.cff.datasets import dataset_info
from seedspread.cff.identity import RUNNER, margin_is_inert, saturates
from seedspread.cff.objective.schedule import layer_margins
from seedspread.cff.presets import check
from seedspread.errors import SeedspreadError
from seedspread.paper.check import Finding
from seedspread.paper.report import across, setup
from seedspread.paper.report.columns import of_paper
from seedspread.paper.report.scale import (
    BASELINE,
    CHANGED,
    OTHER_SCALE,
    is_papers_level,
    paper_setting,
    scale_of,
)
from seedspread.paper.report.setting import PaperSetting, paper_values
from seedspread.render.chart import Chart
from seedspread.render.table import Table
from seedspread.report.extension import Extension, Published, Scale
from seedspread.report.material import cells as cells_of
from seedspread.report.material.layers import RunLayers, read_layers
from seedspread.report.material.settings import ReportData, Setting
from seedspread.report.page.sections import Section
from seedspread.runs.record import Record
from seedspread.runs.studies import AuditSpec, RecordedCell, RecordedStudy

# The paper's four datasets, which it judges together.
_DATASETS = ("cifar10", "cifar100", "svhn", "fashion-mnist")
# What the paper's other tables need, by number.
_NEEDS = {
    2: "a study", 3: "the CIFAR-10 factorial", 4: "the CIFAR-10 factorial, both stability modes",
    5: "the CIFAR-10 factorial", 10: "CIFAR-100", 13: "SVHN", 14: "Fashion-MNIST",
    16: "the CIFAR-10 factorial", 17: "the dose response", 19: "CIFAR-100", 20: "SVHN", 21: "Fashion-MNIST",
    22: "the SVHN difficulty sweep", 23: "an audit",
    **{number: needs for number, needs, _, _ in across.WHOLE},
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

    findings: tuple[Finding, ...] = ()

    def parameters(self, values: Mapping[str, Any]) -> RunConfig:
        """A checked config."""
        return values if isinstance(values, RunConfig) else check(dict(values))

    def study_of_runs(self, records: Mapping[str, Record], name: str) -> RecordedStudy | None:
        """Factors are the config fields in which the finished runs differ."""
        configs: dict[str, RunConfig] = {}
        for key, record in records.items():
            try:
                configs[key] = self.parameters(record.parameters)
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
        """A dataset by its title."""
        return ("dataset", dataset_info(level).title) if factor == "name" else (factor, level)

    def typical(self, cells: Sequence[RecordedCell]) -> RunConfig | None:
        """A run whose margin matters, if there is one: it is the setting's."""
        return next(iter(_telling(cells)), None)

    def layers(self, folder: Path, parameters: RunConfig) -> RunLayers | str:
        """Under the margins of its config."""
        return read_layers(folder, tuple(layer_margins(parameters)))

    def saturates(self, parameters: RunConfig) -> bool:
        """Whether it clamps."""
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
        if name is None or not all(is_papers_level(configs[0], name, f) for f in cells_of.strata(audit)):
            return None
        same_scale = scale_of(configs[0], name, partial).same
        arms = set(cells_of.arms(list(cells), audit))
        return paper_values(name, same_scale, same_question=arms == {CHANGED, BASELINE})

    def scale(self, parameters: RunConfig | None, published: Published | None, partial: bool) -> Scale:
        """The paper's, or not."""
        if parameters is None:
            return Scale()
        return scale_of(parameters, published.name if published else None, partial)

    def beside(self, settings: Sequence[Setting]) -> dict[str, tuple[str, str]]:
        """The rates of the low margin stand beside those of the standard one."""
        material = ReportData("", "", tuple(settings))
        standard, low = of_paper(material, "cifar10"), of_paper(material, "cifar10-low")
        if standard is None or low is None or CHANGED not in low.profiles.get("rate", {}):
            return {}
        return {standard.id: ("clamp, low margin", low.id)}

    def judged_together(self, settings: Sequence[Setting]) -> list[Setting]:
        """The paper's comparison on its datasets.

        Each dataset once, all of one size, and none in which runs fail: there is no ratio to adjust or to
        pool. Studies that grow have levels of their own.
        """
        sizes: dict[tuple[str, str], dict[str, Setting]] = {}
        for s in settings:
            one = s.comparisons[0] if len(s.comparisons) == 1 else None
            sound = one is not None and not one.collapse.found and one.headline.looks is None
            if s.beside is not None and s.beside.name in _DATASETS and sound:
                sizes.setdefault((s.scale.size, s.scale.remark), {}).setdefault(s.beside.name, s)
        return list(max(sizes.values(), key=len, default={}).values())

    def advice(self, setting: Setting) -> list[str]:
        """The paper's rule of thumb, where it applies: at its scale, and with seeds to speak of."""
        s, rates = setting, setting.profiles.get("rate", {}).get(CHANGED)
        shares = [r.layers.pair_share for r in s.runs if r.layers is not None]
        if s.beside is None or not s.scale.same or rates is None or not shares:
            return []
        if min(s.comparisons[0].seeds) < 2:
            return []
        accuracy = s.metric.as_share(next(p.mean for p in s.comparisons[0].pooled if p.group == CHANGED))
        advice = advise(float(rates.mean[0]), clamp=True, accuracy=accuracy, pair_share=shares[0])
        return [f"The paper's rule of thumb for {s.name}: {advice.sentence} {' '.join(advice.reasons)}"]

    def exhibits(self, material: ReportData) -> dict[str, list[Table | Chart | None]]:
        """The paper's tables over several settings, and its hyperparameters."""
        out: dict[str, list[Table | Chart | None]] = {"setup": [setup.hyperparameters(material)]}
        for _, _, section, make in across.WHOLE:
            out.setdefault(section, []).append(make(material))
        return out

    def sections(self, material: ReportData) -> list[Section]:
        """The check of the paper, in a report of its own numbers."""
        if not self.findings:
            return []
        legend = (
            "Each printed number is recomputed from the published values; ✗ marks one that does not follow."
        )
        bad, good = (setup.verdicts(self.findings, hold=hold) for hold in (False, True))
        words = (setup.counted(self.findings), legend)
        return [Section("paper-check", "The paper, checked", words, (bad,), (), good.title, (good,))]

    def glossary(self, material: ReportData) -> tuple[tuple[str, str], ...]:
        """The paper's words, where its question is asked."""
        return _GLOSSARY if any(s.beside is not None for s in material.settings) else ()

    def badge(self, material: ReportData) -> str:
        """Whether it is the paper's scale."""
        same = {s.scale.same for s in material.settings}
        return OTHER_SCALE if same == {False} else "mixed scales" if False in same else ""

    def missing(self, material: ReportData, sections: Sequence[Section]) -> list[str]:
        """The paper's tables that this report cannot have, and what they would need."""
        if not any(s.beside is not None for s in material.settings):
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
    """The configs whose margin matters; all, if none does."""
    configs: list[RunConfig] = [cell.parameters for cell in cells]
    return [config for config in configs if not margin_is_inert(config)] or configs


def _guess(cells: dict[str, tuple[tuple[str, str], ...]]) -> AuditSpec | None:
    """The paper's comparison, where it is there."""
    factors = {factor for cell in cells.values() for factor, _ in cell}
    levels = {dict(cell).get("margin_type") for cell in cells.values()}
    if "subtract" not in levels or len(levels) < 2:
        return None
    block = ("stability",) if "stability" in factors else ()
    by = "condition" if "condition" in factors else None
    return AuditSpec(group="margin_type", baseline="subtract", block=block, by=by)


def _levels(configs: dict[str, RunConfig]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Margin type and stability where they vary, and all else that varies as one `condition`."""
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
