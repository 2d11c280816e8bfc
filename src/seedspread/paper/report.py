"""The paper's additions to the page of CFF runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from seedspread.analysis.words import number, p_value
from seedspread.cff.advice import RULE_OF_THUMB
from seedspread.cff.config import RunConfig, SeedConfig
from seedspread.cff.datasets import dataset_info
from seedspread.cff.identity import canonical, margin_of
from seedspread.cff.margins import layer_margins
from seedspread.cff.presets import check, read_config
from seedspread.paper.values import MAIN, SETTINGS, printed, published_runs, series
from seedspread.render.chart import Chart
from seedspread.render.table import Column, Table
from seedspread.report.exhibits import columns_beside, digits
from seedspread.report.extension import Extension, Published, ReportData, Scale, Setting, origins
from seedspread.report.layers import LayerBand, RunLayers, read_layers
from seedspread.report.load import levels_compared, strata
from seedspread.runs.studies import AuditSpec, RecordedCell

# The groups of the paper's comparison.
CHANGED, BASELINE = "clamp", "subtract"
Cells = tuple[str, ...]
# How a run compares with the paper's.
SAME_SCALE, OTHER_SCALE = "the paper's scale", "not the paper's scale"
NOT_A_SETTING = "not a setting of the paper"


def paper_setting(config: RunConfig) -> str | None:
    """Return the paper's setting with a run's data, labels, augmentation and margins; None if there is none.

    Depth, width, epochs and the like are its scale, and may differ.
    """
    same = (name for name in SETTINGS if _studied(config) == _studied(paper_config(name)))
    return next(same, None) if config.training.rule == "layer_local" else None


def _studied(config: RunConfig) -> tuple[object, ...]:
    # The embedded sample is taken from Fashion-MNIST.
    data = config.data.name.removesuffix("-sample"), config.data.labels, config.data.pipeline
    o = config.objective
    return *data, o.margin_first, o.margin_last, o.margin_schedule, o.margin_exponent


def is_papers_level(config: RunConfig, setting: str, factor: str) -> bool:
    """Return whether a run has the paper's level of a factor: only then do their values compare."""
    part, _, field = factor.rpartition(".")
    if field in ("name", "augment"):
        return True  # they define the setting
    paper = paper_config(setting)
    parts = [part] if part else [name for name, own in config if field in type(own).model_fields]
    return all(getattr(getattr(config, p), field) == getattr(getattr(paper, p), field) for p in parts)


@cache
def paper_config(setting: str) -> RunConfig:
    low = ["objective.margin_first=0.2"] if setting == "cifar10-low" else []
    return read_config(f"paper/{SETTINGS[setting].get('preset', setting)}", low)


def scale_of(config: RunConfig, setting: str | None, partial: bool) -> Scale:
    """Compare a run's scale with the paper's, regardless of margin type and stability, which studies vary."""
    limit, epochs = config.data.limit_per_class, config.training.epochs
    images = f"{limit} training images per class" if limit else "all images"
    data = f"{dataset_info(config.data.name).title}, {images}{' of partial data' if partial else ''}"
    size = f"ViT d={config.model.dim}, L={config.model.depth}, {epochs} epoch{'s' if epochs > 1 else ''}"
    if setting is None:
        return Scale(data, size, NOT_A_SETTING, same=False)
    same = not partial and _canonical(config) == _canonical(paper_config(setting))
    return Scale(data, size, SAME_SCALE if same else OTHER_SCALE, same=same)


def _canonical(config: RunConfig) -> dict[str, Any]:
    """Return a run's identity without the paper's factors, seeds, further probes and implementation."""
    clamping = config.objective.model_copy(update={"margin_type": CHANGED, "stability": "detach"})
    probe = config.probe.model_copy(update={"layers": "last", "repeats": 1})
    runtime = config.runtime.model_copy(update={"implementation": "plain"})
    changes = {"objective": clamping, "probe": probe, "seeds": SeedConfig(), "runtime": runtime}
    return canonical(config.model_copy(update=changes))


class PaperSetting(Published):
    def follows(self, kind: str) -> str:
        table, figure = (SETTINGS[self.name].get(what, {}).get(kind) for what in ("tables", "figures"))
        return f"the paper's Table {table}" if table else f"the paper's Figure {figure}" if figure else ""

    def values(self, kind: str, methods: Sequence[str], *groups: str) -> list[str]:
        table = SETTINGS[self.name]["tables"].get(kind)
        if table is None:
            return ["-"] * len(methods)
        on = tuple(f"{self.name}/{group}" for group in groups)
        return [printed(table, on, method) for method in methods]

    def parameters(self) -> RunConfig:
        return paper_config(self.name)

    def runs(self) -> dict[tuple[str, str], list[str]]:
        out: dict[tuple[str, str], list[str]] = {}
        rows = [row for row in published_runs() if row["setting"] == self.name]
        for row in rows:
            for block in {row["stability"], *([""] if row["stability"] == rows[0]["stability"] else [])}:
                out.setdefault((row["margin_type"], block), []).append(row["accuracy"])
        return out


def of_paper(settings: Sequence[Setting], name: str) -> Setting | None:
    """Return the setting that corresponds to one of the paper's, preferably at the paper's scale."""
    matches = [s for s in settings if s.beside.name == name]
    return min(matches, key=lambda s: s.scale.same is not True, default=None)


def _paper_table(
    number: int, name: str, title: str, heads: Sequence[str], names: Sequence[str], rows: Sequence[Cells],
    note: str, *settings: Setting,
) -> Table:  # fmt: skip
    """Return one of the paper's tables; `names` are the headings of the runs' values and of the paper's."""
    columns = (*map(Column, heads), *columns_beside(names, *settings))
    return Table(
        name, title, columns, tuple(rows), f"the paper's Table {number}", note, scale=origins(settings)
    )


def _of_groups(number: int, s: Setting, methods: Sequence[str]) -> list[str]:
    """Return a table's printed values for the two groups of a setting, by method."""
    on = tuple(f"{s.beside.name}/{group}" for group in (CHANGED, BASELINE))
    return [printed(number, on, method) for method in methods]


def _rate(s: Setting | None) -> LayerBand | None:
    """Return the rate by layer of a setting's clamp runs, if recorded."""
    return s.profiles.get("rate", {}).get(CHANGED) if s is not None else None


def _margins_at(layer: int, *configs: RunConfig) -> str:
    margins = [layer_margins(config) for config in configs]
    return " / ".join(f"{own[layer]:.2f}" for own in margins if layer < len(own)) or "-"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _depths(s: Setting) -> str:
    depth = s.parameters[0].model.depth
    return f"; these models have {depth} layers, the paper's 8: they do not correspond" if depth != 8 else ""


def gradients(settings: Sequence[Setting], name: str) -> Table | None:
    """Make Table 8 (CIFAR-10) or 12 (CIFAR-100): gradient norms by layer."""
    s = of_paper(settings, name)
    profiles = s.profiles.get("gradient", {}) if s is not None else {}
    if s is None or not {CHANGED, BASELINE} <= set(profiles):
        return None
    # The paper inverts the ratio on CIFAR-100, where it has a single seed.
    turned = name == "cifar100"
    table, over, under = (12, CHANGED, BASELINE) if turned else (8, BASELINE, CHANGED)
    paper = {
        group: LayerBand(
            series(f"gradient/{name} {group}").values, series(f"gradient_sd/{name} {group}").values, 0
        )
        for group in (CHANGED, BASELINE)
    }
    rows = []
    for layer in range(max(len(profiles[CHANGED].mean), len(paper[CHANGED].mean))):
        a, b = (profiles[group].mean[layer : layer + 1] for group in (over, under))
        ratio = f"{a[0] / b[0]:.2f}×" if len(a) and len(b) and b[0] else "-"
        own, stated = (
            [_with_sd(p[group], layer) for group in (CHANGED, BASELINE)] for p in (profiles, paper)
        )
        margins = [_margins_at(layer, config) for config in (s.parameters[0], paper_config(name))]
        on = tuple(f"gradient/{name} {group}" for group in (over, under))
        quotient = _with_unit(printed(table, on, f"quotient {layer}"), "×")
        rows.append((f"L{layer}", margins[0], *own, ratio, margins[1], *stated, quotient))
    note = "One batch with the final weights, mean ± sd over seeds"
    note += "; the paper has a single seed here, and turns the ratio round" if turned else ""
    names = ("margin", CHANGED, BASELINE, f"ratio ({over} / {under})")
    title = f"Gradient norms by layer: {SETTINGS[name]['title']}"
    return _paper_table(table, f"gradients-{name}", title, ["layer"], names, rows, note + _depths(s), s)


def _with_sd(p: LayerBand, layer: int) -> str:
    if layer >= len(p.mean):
        return "-"
    return f"{p.mean[layer]:.3f}" + ("" if p.sd is None else f" ± {p.sd[layer]:.3f}")


def _with_unit(text: str, unit: str) -> str:
    return text if text == "-" else f"{text}{unit}"


def rates(settings: Sequence[Setting], name: str) -> Table | None:
    """Make Table 7 (low margin), 11 (CIFAR-100) or 18 (SVHN): rates by layer beside those of CIFAR-10."""
    base, other = of_paper(settings, "cifar10"), of_paper(settings, name)
    first, second = _rate(base), _rate(other)
    if base is None or other is None or first is None or second is None:
        return None
    low = name == "cifar10-low"
    table = {"cifar10-low": 7, "cifar100": 11, "svhn": 18}[name]
    on = ("car/cifar10 standard", "car/cifar10 low" if low else f"car/{name}")
    published = [series(n).values / 100 for n in on]
    rows = []
    for layer in range(max(len(second.mean), len(published[1]))):
        stated_here = layer < len(published[1])  # for SVHN the paper prints layers 0 to 3 only
        shares = (first.mean, second.mean, *(values if stated_here else () for values in published))
        a, b, x, y = (share[layer] if layer < len(share) else None for share in shares)
        own, stated = [_percent(a), _percent(b)], [_percent(x), _percent(y)]
        if low:
            own = [_margins_at(layer, base.parameters[0], other.parameters[0]), *own]
            stated = [_margins_at(layer, paper_config("cifar10"), paper_config(name)), *stated]
            derived = "-" if a is None or b is None or a == 0 else f"{1 - b / a:.1%}"
            quoted = _with_unit(printed(table, on, f"reduction {layer}"), "%")
        else:
            derived, quoted = _points(a, b), _signed(printed(table, on[::-1], f"difference {layer}"))
        rows.append((str(layer), *own, derived, *stated, quoted))
    note = "mean over seeds" + _depths(base if low else other)
    if low:
        title = "Clamp activation rate (CAR) by layer and margin: CIFAR-10"
        names = ("margin (std / low)", "CAR (std)", "CAR (low)", "reduction")
        note = f"Clamp runs with their final weights, {note}"
        return _paper_table(table, "rates-by-margin", title, ["layer"], names, rows, note, base, other)
    stated_means = (f"stated/mean car {name}", "stated/mean car cifar10")
    differences = (printed(table, values, "difference_of_means") for values in (on[::-1], stated_means))
    means = [f"{series(n).values[0]:.1f}%" for n in stated_means[::-1]]
    a, b = float(first.mean.mean()), float(second.mean.mean())
    quoted = _signed(next((d for d in differences if d != "-"), "-"))
    rows.append(("mean, all layers", _percent(a), _percent(b), _points(a, b), *means, quoted))
    titles = [f"CAR ({SETTINGS[n]['title']})" for n in ("cifar10", name)]
    title = f"Clamp activation rate (CAR): CIFAR-10 vs {SETTINGS[name]['title']}"
    note = f"Clamp runs, standard margins, {note}"
    heads = (*titles, "difference")
    return _paper_table(table, f"rates-{name}", title, ["layer"], heads, rows, note, base, other)


def _points(a: float | None, b: float | None) -> str:
    return "-" if a is None or b is None else f"{100 * (b - a):+.1f} pp"


def _signed(text: str) -> str:
    return _with_unit(text if text.startswith("-") else f"+{text}", " pp")


def dose_response(settings: Sequence[Setting]) -> Table | None:
    """Make Table 6: the variance ratio under both margin schedules."""
    schedules = {"cifar10": "0.4 → 0.1 (standard)", "cifar10-low": "0.2 → 0.1 (low)"}
    compared = _compared(settings, schedules)
    if len(compared) < 2:
        return None
    rows = []
    for s in compared:
        c = s.comparisons[0]
        own = (digits(c.pooled[0].variance, 4), digits(c.pooled[1].variance, 4),
               number(c.pooled_test.ratio), p_value(c.pooled_test.p))  # fmt: skip
        stated = _of_groups(6, s, ("first_variance", "second_variance", "ratio", "f_p"))
        rows.append((schedules[s.beside.name], *own, *stated))
    names = ("clamp variance", "subtract variance", "ratio", "F test, p")
    note = (
        "Ratios of pooled variances and their F tests, as the paper reports them; the ratios that count each "
        "seed once stand with each setting"
    )
    return _paper_table(6, "dose-response", "Dose response", ["schedule"], names, rows, note, *compared)


def _compared(settings: Sequence[Setting], names: Iterable[str]) -> list[Setting]:
    return [s for s in (of_paper(settings, name) for name in names) if s is not None and s.comparisons]


def datasets(settings: Sequence[Setting]) -> Table | None:
    """Make Table 9: a row per dataset."""
    compared = _compared(settings, MAIN)
    if len(compared) < 2:
        return None
    rows = []
    for s in compared:
        name, about, c, profile = s.beside.name, SETTINGS[s.beside.name], s.comparisons[0], _rate(s)
        layers = [r.layers for r in s.runs if r.layers is not None]
        counts = [one.image_pairs for one in layers], [one.positive_pairs for one in layers]
        pairs = (sum(of_runs) / len(layers) for of_runs in counts)
        own = (
            " / ".join(f"{n:,.0f}" if math.isfinite(n) else "-" for n in pairs) if layers else "-",
            f"{profile.mean[0]:.1%}" if profile is not None else "-",
            digits(c.pooled[0].mean, 1),
            number(c.pooled_test.ratio),
            number(c.headline.ratio),
        )
        car = "cifar10 standard" if name == "cifar10" else name
        stated = (
            printed(9, ("batch", f"classes/{name}"), about["pairs"]),
            "-" if name == "fashion-mnist" else f"{series(f'car/{car}').values[0]:.1f}%",
            *_of_groups(9, s, ("first_mean", "ratio")),
            "-",
        )
        rows.append((about["title"], str(about["classes"]), *own, *stated))
    names = ("pairs (images/views)", "L0 CAR", "clamp accuracy (%)", "ratio (pooled)", "ratio (seeds once)")
    note = "Ordered positive pairs in a batch: of images, as the paper counts, and of the views in its loss"
    heads = ["dataset", "classes"]
    return _paper_table(9, "across-datasets", "Across datasets", heads, names, rows, note, *compared)


def sweep(settings: Sequence[Setting]) -> Table | None:
    """Make Table 15: the SVHN difficulty sweep."""
    compared = _compared(settings, [name for name, about in SETTINGS.items() if "level" in about])
    if len(compared) < 2:
        return None
    rows = []
    for s in compared:
        about, c = SETTINGS[s.beside.name], s.comparisons[0]
        f = c.failures
        failed = {a: f"{x} of {n}" for a, x, n in zip(f.groups, f.failed, f.seeds, strict=True)} if f else {}
        ratio = c.pooled_test.ratio
        own = (str(c.pooled[0].n), digits(c.pooled[0].mean, 1), digits(c.pooled[0].variance, 3),
               digits(c.pooled[1].variance, 3), number(ratio),
               "-" if ratio is None else "inverted" if ratio < 1 else "elevated",
               *(failed.get(group, "none") for group in (CHANGED, BASELINE)))  # fmt: skip
        methods = ("first_size", "first_mean", "first_variance", "second_variance", "ratio")
        rows.append((about["level"], *own, *_of_groups(15, s, methods), about["pattern"], "-", "-"))
    names = ("n", "clamp accuracy (%)", "clamp variance", "subtract variance", "ratio", "pattern",
             "clamp seeds failed", "subtract seeds failed")  # fmt: skip
    note = "Where runs fail to train, a ratio of variances measures how often they fail"
    title = "SVHN difficulty sweep"
    return _paper_table(15, "svhn-sweep", title, ["difficulty"], names, rows, note, *compared)


class PaperReport(Extension):
    """The paper's values, tables and advice."""

    def parameters(self, values: Mapping[str, Any]) -> RunConfig:
        return values if isinstance(values, RunConfig) else check(dict(values))

    def level(self, factor: str, level: str) -> tuple[str, str]:
        return ("dataset", dataset_info(level).title) if factor == "name" else (factor, level)

    def layers(self, folder: Path, parameters: RunConfig) -> RunLayers | str | None:
        margins, clamps = tuple(layer_margins(parameters)), margin_of(parameters).saturates
        return read_layers(folder, margins, clamps=clamps)

    def published(
        self, cells: Sequence[RecordedCell], audit: AuditSpec | None, metric: str, partial: bool
    ) -> PaperSetting | None:
        """Return the paper's setting if these runs compare accuracies of margin types on its data.

        If a study is audited by depth, only the level with the paper's depth has a setting.
        """
        if audit is None or audit.group != "margin_type" or metric != "accuracy":
            return None
        configs = _with_active_margin(cells)
        settings = {paper_setting(config) for config in configs}
        if len(settings) != 1 or not set(audit.blocks) <= {"stability"}:
            return None
        (name,) = settings
        if name is None or not all(is_papers_level(configs[0], name, f) for f in strata(audit)):
            return None
        return PaperSetting(
            name=name,
            title=SETTINGS[name]["title"],
            order=list(SETTINGS).index(name),
            same_question={*levels_compared(list(cells), audit)} == {CHANGED, BASELINE},
            heading=f"paper ({'same' if scale_of(configs[0], name, partial).same else 'different'} scale)",
        )

    def scale(self, cells: Sequence[RecordedCell], published: Published | None, partial: bool) -> Scale:
        return scale_of(_with_active_margin(cells)[0], published.name if published else None, partial)

    def further_rates(self, s: Setting, settings: Sequence[Setting]) -> dict[str, LayerBand]:
        """Return the rates of the low margin for the standard margin's figure, as in the paper's Figure 2."""
        low = _rate(of_paper(settings, "cifar10-low"))
        return {"clamp, low margin": low} if low is not None and s is of_paper(settings, "cifar10") else {}

    def judged_together(self, settings: Sequence[Setting]) -> list[Setting]:
        """Return the paper's comparison on its datasets: each once, all at one scale, none sequential."""
        sizes: dict[tuple[str, str], dict[str, Setting]] = {}
        for s in settings:
            compared = len(s.groups) == 2 and all(s.of(group) for group in s.groups) and s.sequential is None
            if s.beside.name in MAIN and compared:
                sizes.setdefault((s.scale.size, s.scale.remark), {}).setdefault(s.beside.name, s)
        return list(max(sizes.values(), key=len, default={}).values())

    def advice(self, setting: Setting) -> list[str]:
        """Return the paper's rule of thumb if it applies: at the paper's scale, with at least two seeds."""
        s, rates = setting, setting.profiles.get("rate", {}).get(CHANGED)
        if not s.beside.name or not s.scale.same or rates is None or min(s.comparisons[0].seeds) < 2:
            return []
        return [
            f"The paper's rule of thumb for {s.name} is to switch to subtraction if the clamp cuts more than "
            f"{RULE_OF_THUMB:.0%} of the positive pairs at layer 0; here it cuts {rates.mean[0]:.1%}."
        ]

    def exhibits(self, data: ReportData) -> dict[str, list[Table | Chart | None]]:
        s = data.settings
        return {
            "layers": [dose_response(s), rates(s, "cifar10-low"), gradients(s, "cifar10")],
            "datasets": [
                datasets(s),
                rates(s, "cifar100"),
                gradients(s, "cifar100"),
                rates(s, "svhn"),
                sweep(s),
            ],
        }


def _with_active_margin(cells: Sequence[RecordedCell]) -> list[RunConfig]:
    """Return the configs whose margin affects training, or all configs if there are none."""
    configs: list[RunConfig] = [cell.parameters for cell in cells]
    return [config for config in configs if not margin_of(config).is_inert] or configs
