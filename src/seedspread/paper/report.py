"""What the paper adds to the page of its training's runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from seedspread.analysis.words import number, p_value
from seedspread.cff.advice import RULE_OF_THUMB
from seedspread.cff.config import RunConfig, SeedConfig, Step, TrainingConfig
from seedspread.cff.datasets import dataset_info
from seedspread.cff.identity import canonical, margin_of
from seedspread.cff.margins import layer_margins
from seedspread.cff.presets import check, read_config
from seedspread.paper.values import MAIN, SETTINGS, paper_data, printed, published_runs, series
from seedspread.render.chart import Chart
from seedspread.render.table import Column, Table
from seedspread.report.extension import (
    Extension,
    Published,
    ReportData,
    Scale,
    Setting,
    origins,
)
from seedspread.report.layers import LayerBand, RunLayers, read_layers
from seedspread.report.load import arms_of, strata
from seedspread.report.tables import columns_beside, digits
from seedspread.runs.studies import AuditSpec, RecordedCell

# The paper's comparison: what it changes, and what it compares with.
CHANGED, BASELINE = "clamp", "subtract"
# How a run stands to the paper's.
SAME_SCALE, OTHER_SCALE = "the paper's scale", "not the paper's scale"
NOT_A_SETTING = "not a setting of the paper"


def paper_setting(config: RunConfig) -> str | None:
    """The paper's setting that a run stands for: its data, labels, augmentation and margins; None of others.

    Depth, width, epochs and the like are its scale, and may differ.
    """
    same = (name for name in SETTINGS if _studied(config) == _studied(paper_config(name)))
    return next(same, None) if config.training.rule == "layer_local" else None


def _studied(config: RunConfig) -> tuple[object, ...]:
    # The sample inside the package is one of Fashion-MNIST.
    data = config.data.name.removesuffix("-sample"), config.data.labels, config.data.pipeline
    o = config.objective
    return *data, o.margin_first, o.margin_last, o.margin_schedule, o.margin_exponent


def is_papers_level(config: RunConfig, setting: str, factor: str) -> bool:
    """Return whether a run has the paper's level of a factor: only then do their values compare."""
    part, _, field = factor.rpartition(".")
    if field in ("name", "augment"):
        return True  # what makes it this setting
    paper = paper_config(setting)
    parts = [part] if part else [name for name, own in config if field in type(own).model_fields]
    return all(getattr(getattr(config, p), field) == getattr(getattr(paper, p), field) for p in parts)


@cache
def paper_config(setting: str) -> RunConfig:
    """Return what the paper ran in a setting."""
    low = ["objective.margin_first=0.2"] if setting == "cifar10-low" else []
    return read_config(f"paper/{SETTINGS[setting].get('preset', setting)}", low)


def scale_of(config: RunConfig, setting: str | None, partial: bool) -> Scale:
    """Compare a run with the paper's, but for margin type and stability, which studies vary."""
    limit, epochs = config.data.limit_per_class, config.training.epochs
    images = f"{limit} training images per class" if limit else "all images"
    data = f"{dataset_info(config.data.name).title}, {images}{' of partial data' if partial else ''}"
    size = f"ViT d={config.model.dim}, L={config.model.depth}, {epochs} epoch{'s' if epochs > 1 else ''}"
    if setting is None:
        return Scale(data, size, NOT_A_SETTING, OTHER_SCALE, same=False)
    same = not partial and _canonical(config) == _canonical(paper_config(setting))
    return Scale(data, size, SAME_SCALE if same else OTHER_SCALE, same=same)


def _canonical(config: RunConfig) -> dict[str, Any]:
    """Return all that a run is, but for what the paper varies, what a richer probe adds, and rounding."""
    clamping = config.objective.model_copy(update={"margin_type": CHANGED, "stability": "detach"})
    probe = config.probe.model_copy(update={"layers": "last", "repeats": 1})
    runtime = config.runtime.model_copy(update={"implementation": "plain"})
    changes = {"objective": clamping, "probe": probe, "seeds": SeedConfig(), "runtime": runtime}
    return canonical(config.model_copy(update=changes))


_NOTES = {
    "pooled": ", as the paper pools them",
    "variance-tests": ". The paper's printed p values are one-way tests, though its text describes these",
    "per-seed": "The paper's runs stand in the order of its seeds",
}
# The paper's words for the effects of a two-way analysis.
_EFFECTS = {"group": "margin", "block": "stability", "interaction": "interaction"}


@dataclass(frozen=True)
class PaperSetting(Published):
    """One of the paper's settings.

    Attributes:
        judge: in a report of the paper's own numbers: each printed value is marked if it does not follow.
    """

    judge: bool = False

    def follows(self, kind: str) -> str:
        table, figure = (SETTINGS[self.name].get(what, {}).get(kind) for what in ("tables", "figures"))
        return f"the paper's Table {table}" if table else f"the paper's Figure {figure}" if figure else ""

    def note(self, kind: str) -> str:
        return _NOTES.get(kind, "") if kind == "pooled" or self.follows(kind) else ""

    def values(self, kind: str, methods: Sequence[str], *arms: str) -> list[str]:
        table = SETTINGS[self.name]["tables"].get(kind)
        if table is None:
            return ["-"] * len(methods)
        if kind == "variance-tests":
            arms = tuple(f"{arm}/{block}" for arm in arms for block in ("detach", "direct"))
            methods = [
                f"{name}s_{_EFFECTS[effect]}" for name, _, effect in (m.rpartition("_") for m in methods)
            ]
        on = tuple(f"{self.name}/{arm}" for arm in arms)
        return [printed(table, on, method, judge=self.judge) or "-" for method in methods]

    def runs(self) -> dict[tuple[str, str], list[str]]:
        """Return the paper's accuracies; none in a report of its own numbers, which has them as its runs."""
        out: dict[tuple[str, str], list[str]] = {}
        rows = [] if self.judge else [row for row in published_runs() if row["setting"] == self.name]
        first = rows[0]["stability"] if rows else ""
        for row in rows:
            names = {row["stability"], ""} if row["stability"] == first else {row["stability"]}
            for block in names:
                out.setdefault((row["margin_type"], block), []).append(row["accuracy"])
        return out


def paper_values(
    name: str, same_scale: bool | None = None, *, same_question: bool = True, judge: bool = False
) -> PaperSetting:
    """What the paper prints for one of its settings; `judge` in a report of the paper's own numbers.

    `same_scale` and `same_question` are of the runs beside it; None if the scale cannot be told.
    """
    scale = {None: "paper", True: "paper (same scale)", False: "paper (different scale)"}[same_scale]
    return PaperSetting(
        name=name,
        title=SETTINGS[name]["title"],
        order=list(SETTINGS).index(name),
        same_question=same_question,
        own_heading="computed" if judge else "these runs",
        heading="printed" if judge else scale,
        mixed_heading="paper (scale differs by row)",
        judge=judge,
    )


def is_published(data: ReportData) -> bool:
    return any(isinstance(s.published, PaperSetting) and s.published.judge for s in data.settings)


def of_paper(data: ReportData, name: str) -> Setting | None:
    """Return the setting that stands for one of the paper's, preferably at the paper's scale."""
    matches = [s for s in data.settings if s.beside.name == name]
    return min(matches, key=lambda s: s.scale.same is not True, default=None)


class PaperTable:
    """A table of the paper over several settings, with what it prints beside one's own values.

    In a report of the paper's own numbers (`judge`) only what is derived from them stands twice.
    """

    def __init__(self, number: int, data: ReportData, *settings: Setting) -> None:
        self.number, self.settings, self.judge = number, settings, is_published(data)
        self.rows: list[tuple[str, ...]] = []

    def printed(self, on: Sequence[str], method: str) -> str:
        return printed(self.number, tuple(on), method, judge=self.judge) or "-"

    def of_arms(self, s: Setting, methods: Sequence[str]) -> list[str]:
        """Return what is printed of a setting's two arms, by method; a dash if nothing."""
        return [self.printed([f"{s.beside.name}/{arm}" for arm in (CHANGED, BASELINE)], m) for m in methods]

    def add_layer(
        self, head: str, own: Sequence[str], paper: Sequence[str], derived: str, stated: str
    ) -> None:
        """Add a row; what is `derived` from one's own values, and as it is `stated`, comes last."""
        self.rows.append((head, *own, derived, *(() if self.judge else paper), stated))

    def by_layer(self, name: str, title: str, names: Sequence[str], note: str) -> Table:
        """Return the table of such rows; the last column is of what is derived."""
        *measured, derived = names
        columns = columns_beside(names, *self.settings)
        if self.judge:
            columns = (*map(Column, measured), Column(derived, "computed"), Column(derived, "printed"))
        return self.table(name, title, (Column("layer"), *columns), note)

    def table(self, name: str, title: str, columns: Sequence[Column], note: str) -> Table:
        follows, scale = f"the paper's Table {self.number}", origins(self.settings)
        return Table(name, title, tuple(columns), tuple(self.rows), follows, note, scale=scale)


def rate(s: Setting | None) -> LayerBand | None:
    """Return the clamp's own rate by layer, if the setting has it."""
    return s.profiles.get("rate", {}).get(CHANGED) if s is not None else None


def _margins_at(layer: int, *configs: RunConfig | None) -> str:
    margins = [layer_margins(config) for config in configs if config is not None]
    return " / ".join(f"{own[layer]:.2f}" for own in margins if layer < len(own)) or "-"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _unit(text: str, unit: str) -> str:
    """Add the unit to a printed number, before the mark of one that does not follow."""
    if text == "-":
        return text
    number, space, mark = text.partition(" ")
    return f"{number}{unit}{space}{mark}"


def _depths(s: Setting) -> str:
    if s.parameters is None or s.parameters.model.depth == 8:
        return ""
    depth = s.parameters.model.depth
    return f"; these models have {depth} layers, the paper's 8, so that layers do not correspond"


def gradients(data: ReportData, name: str) -> Table | None:
    """Make Table 8 (CIFAR-10) or 12 (CIFAR-100): gradient norms by layer."""
    s = of_paper(data, name)
    profiles = s.profiles.get("gradient", {}) if s is not None else {}
    if s is None or not {"clamp", "subtract"} <= set(profiles):
        return None
    flipped = name == "cifar100"  # the paper turns the ratio round there
    both = PaperTable(12 if flipped else 8, data, s)
    over, under = ("clamp", "subtract") if flipped else ("subtract", "clamp")
    paper = {arm: printed_norms(name, arm) for arm in ("clamp", "subtract")}
    for layer in range(max(len(profiles["clamp"].mean), len(paper["clamp"].mean))):
        a, b = (profiles[arm].mean[layer : layer + 1] for arm in (over, under))
        ratio = f"{a[0] / b[0]:.2f}×" if len(a) and len(b) and b[0] else "-"
        own, printed = ([_with_sd(p[arm], layer) for arm in ("clamp", "subtract")] for p in (profiles, paper))
        margins = [_margins_at(layer, config) for config in (s.parameters, paper_config(name))]
        stated = both.printed([f"gradient/{name} {arm}" for arm in (over, under)], f"quotient {layer}")
        both.add_layer(f"L{layer}", (margins[0], *own), (margins[1], *printed), ratio, _unit(stated, "×"))
    note = "One batch with the final weights, mean ± sd over seeds"
    if flipped:
        note += "; the paper has a single seed here, and turns the ratio round"
    title = f"Gradient norms by layer: {SETTINGS[name]['title']}"
    heads = ("margin", "clamp", "subtract", f"ratio ({over} / {under})")
    return both.by_layer(f"gradients-{name}", title, heads, note + _depths(s))


def printed_norms(name: str, arm: str) -> LayerBand:
    """Return the gradient norms by layer that the paper prints."""
    mean, sd = (series(f"{part}/{name} {arm}").values for part in ("gradient", "gradient_sd"))
    return LayerBand(mean, sd, 0)


def _with_sd(p: LayerBand, layer: int) -> str:
    if layer >= len(p.mean):
        return "-"
    return f"{p.mean[layer]:.3f}" + ("" if p.sd is None else f" ± {p.sd[layer]:.3f}")


def rates(data: ReportData, name: str) -> Table | None:
    """Make Table 7 (the low margin), 11 (CIFAR-100) or 18 (SVHN): the rate by layer beside CIFAR-10's."""
    base, other = of_paper(data, "cifar10"), of_paper(data, name)
    first, second = rate(base), rate(other)
    if base is None or other is None or first is None or second is None:
        return None
    low = name == "cifar10-low"
    both = PaperTable({"cifar10-low": 7, "cifar100": 11, "svhn": 18}[name], data, base, other)
    names = ("car/cifar10 standard", "car/cifar10 low" if low else f"car/{name}")
    published = [series(n).values / 100 for n in names]
    paper = [values[: len(published[1])] for values in published]
    # Of SVHN the paper prints layers 0 to 3 only.
    for layer in range(max(len(second.mean), len(paper[1]))):
        shares = (first.mean, second.mean, *paper)
        a, b, x, y = (share[layer] if layer < len(share) else None for share in shares)
        own, printed = [_percent(a), _percent(b)], [_percent(x), _percent(y)]
        if low:
            own = [_margins_at(layer, base.parameters, other.parameters), *own]
            printed = [_margins_at(layer, paper_config("cifar10"), paper_config(name)), *printed]
            derived = "-" if a is None or b is None or a == 0 else f"{1 - b / a:.1%}"
            stated = _unit(both.printed(names, f"reduction {layer}"), "%")
        else:
            derived, stated = _points(a, b), _signed(both.printed(names[::-1], f"difference {layer}"))
        both.add_layer(str(layer), own, printed, derived, stated)
    note = "mean over seeds" + _depths(base if low else other)
    if low:
        title = "Clamp activation rate (CAR) by layer and margin: CIFAR-10"
        heads = ("margin (std / low)", "CAR (std)", "CAR (low)", "reduction")
        note = f"Clamp runs with their final weights, {note}"
        return both.by_layer("rates-by-margin", title, heads, note)
    means = [f"{series(f'stated/mean car {n}').values[0]:.1f}%" for n in ("cifar10", name)]
    difference = both.printed(names[::-1], "difference_of_means")
    if difference == "-":
        stated_means = (f"stated/mean car {name}", "stated/mean car cifar10")
        difference = both.printed(stated_means, "difference_of_means")
    # The paper publishes four of SVHN's eight layers: its mean can only be quoted.
    own, derived = means, "-"
    if not both.judge:
        a, b = float(first.mean.mean()), float(second.mean.mean())
        own, derived = [_percent(a), _percent(b)], _points(a, b)
    both.add_layer("mean, all layers", own, means, derived, _signed(difference))
    titles = [f"CAR ({SETTINGS[n]['title']})" for n in ("cifar10", name)]
    title = f"Clamp activation rate (CAR): CIFAR-10 against {SETTINGS[name]['title']}"
    note = f"Clamp runs, standard margins, {note}"
    return both.by_layer(f"rates-{name}", title, (*titles, "difference"), note)


def _points(a: float | None, b: float | None) -> str:
    return "-" if a is None or b is None else f"{100 * (b - a):+.1f} pp"


def _signed(text: str) -> str:
    return _unit(text if text.startswith("-") else f"+{text}", " pp")


def dose_response(data: ReportData) -> Table | None:
    """Make Table 6: the variance ratio under both margin schedules."""
    names = {"cifar10": "0.4 → 0.1 (standard)", "cifar10-low": "0.2 → 0.1 (low)"}
    settings = _compared(data, names)
    if len(settings) < 2:
        return None
    both = PaperTable(6, data, *settings)
    for s in settings:
        c = s.comparisons[0]
        own = (digits(c.pooled[0].variance, 4), digits(c.pooled[1].variance, 4),
               number(c.pooled_test.ratio), p_value(c.pooled_test.p))  # fmt: skip
        stated = both.of_arms(s, ("first_variance", "second_variance", "ratio", "f_p"))
        both.rows.append((names[s.beside.name], *own, *stated))
    columns = columns_beside(("clamp variance", "subtract variance", "ratio", "F test, p"), *settings)
    note = (
        "Ratios of pooled variances and their F tests, as the paper reports them; the ratios that count each "
        "seed once stand with each setting"
    )
    return both.table("dose-response", "Dose response", (Column("schedule"), *columns), note)


def _compared(data: ReportData, names: Iterable[str]) -> list[Setting]:
    return [s for s in (of_paper(data, name) for name in names) if s is not None and s.comparisons]


def datasets(data: ReportData) -> Table | None:
    """Make Table 9: every dataset in a row."""
    settings = _compared(data, MAIN)
    if len(settings) < 2:
        return None
    both = PaperTable(9, data, *settings)
    for s in settings:
        name, about, c = s.beside.name, SETTINGS[s.beside.name], s.comparisons[0]
        profile = None if both.judge else rate(s)
        layers = [r.layers for r in s.runs if r.layers is not None]
        pairs = [one.image_pairs for one in layers], [one.positive_pairs for one in layers]
        own = (
            " / ".join(map(_mean_count, pairs)) if layers else "-",
            f"{profile.mean[0]:.1%}" if profile is not None else "-",
            digits(c.pooled[0].mean, 1),
            number(c.pooled_test.ratio),
            number(c.headline.ratio),
        )
        car = "cifar10 standard" if name == "cifar10" else name
        stated = (
            both.printed(("batch", f"classes/{name}"), about["pairs"]),
            "-" if name == "fashion-mnist" else f"{series(f'car/{car}').values[0]:.1f}%",
            *both.of_arms(s, ("first_mean", "ratio")),
            "-",
        )
        both.rows.append((about["title"], str(about["classes"]), *own, *stated))
    names = ("pairs (images/views)", "L0 CAR", "clamp accuracy (%)", "ratio (pooled)", "ratio (seeds once)")
    columns = (Column("dataset"), Column("classes"), *columns_beside(names, *settings))
    note = "Ordered positive pairs in a batch: of images, as the paper counts, and of the views in its loss"
    return both.table("across-datasets", "Across datasets", columns, note)


def _mean_count(counts: Sequence[float]) -> str:
    mean = sum(counts) / len(counts)
    return f"{mean:,.0f}" if math.isfinite(mean) else "-"


def sweep(data: ReportData) -> Table | None:
    """Make Table 15: the SVHN difficulty sweep."""
    settings = _compared(data, [name for name, about in SETTINGS.items() if "level" in about])
    if len(settings) < 2:
        return None
    both = PaperTable(15, data, *settings)
    for s in settings:
        about, c = SETTINGS[s.beside.name], s.comparisons[0]
        f = c.failures
        failed = {a: f"{x} of {n}" for a, x, n in zip(f.groups, f.failed, f.seeds, strict=True)} if f else {}
        ratio = c.pooled_test.ratio
        own = (str(c.pooled[0].n), digits(c.pooled[0].mean, 1), digits(c.pooled[0].variance, 3),
               digits(c.pooled[1].variance, 3), number(ratio),
               "-" if ratio is None else "inverted" if ratio < 1 else "elevated",
               *(failed.get(arm, "none") for arm in ("clamp", "subtract")))  # fmt: skip
        methods = ("first_size", "first_mean", "first_variance", "second_variance", "ratio")
        stated = (*both.of_arms(s, methods), about["pattern"], "-", "-")
        both.rows.append((about["level"], *own, *stated))
    names = ("n", "clamp accuracy (%)", "clamp variance", "subtract variance", "ratio", "pattern",
             "clamp seeds failed", "subtract seeds failed")  # fmt: skip
    note = "Where runs fail to train, a ratio of variances measures how often they fail"
    columns = (Column("difficulty"), *columns_beside(names, *settings))
    return both.table("svhn-sweep", "SVHN difficulty sweep", columns, note)


def hyperparameters(data: ReportData) -> Table | None:
    """Make Table 2: the settings of every study, and the paper's."""
    configured = [s for s in data.settings if isinstance(s.parameters, RunConfig)]
    if not configured:
        return None
    own = {s.name: _of_all(s.all_parameters) for s in configured}
    papers = {
        s.name: _of_all((paper_config(s.published.name),)) for s in configured if s.published is not None
    }
    groups = {"these runs": {} if is_published(data) else own, "the paper's": papers}
    shown = {head: settings for head, settings in groups.items() if settings}
    rows = [
        (name, *(_values_listed({s: values[name] for s, values in some.items()}) for some in shown.values()))
        for name in paper_data("hyperparameters.toml")
    ]
    columns = tuple(Column(text) for text in ("parameter", *shown))
    follows = "the paper's Table 2" if papers else ""
    return Table("hyperparameters", "Hyperparameters", columns, tuple(rows), follows)


def _values_listed(values: dict[str, str]) -> str:
    """Return one value if all agree; otherwise each with the settings that have it."""
    titles_of: dict[str, list[str]] = {}
    for title, value in values.items():
        titles_of.setdefault(value, []).append(title)
    if len(titles_of) == 1:
        return next(iter(titles_of))
    return "; ".join(f"{value} ({', '.join(dict.fromkeys(titles))})" for value, titles in titles_of.items())


def _of_all(configs: tuple[RunConfig, ...]) -> dict[str, str]:
    """Return the values of a setting's cells; all values of what they vary."""
    cells = [_hyperparameters(c) for c in configs]
    return {name: " | ".join(dict.fromkeys(values[name] for values in cells)) for name in cells[0]}


def _hyperparameters(c: RunConfig) -> dict[str, str]:
    words = {
        "title": dataset_info(c.data.name).title,
        "limit": c.data.limit_per_class or "all",
        "test_limit": c.data.test_limit_per_class or "all",
        "augmentation": "; ".join([*map(_step, c.data.pipeline), "normalisation"]),
        "optimizer": _optimizer(c.training),
        "margin_warmup": f", over {warmup:g} epochs" if (warmup := c.objective.margin_warmup_epochs) else "",
    }
    rows = paper_data("hyperparameters.toml")
    return {name: text.format(c=c, **words) for name, text in rows.items()}


def _optimizer(t: TrainingConfig) -> str:
    """Return `AdamW (lr 0.004, betas 0.9 and 0.999, weight decay 0.0001)`, with what else is set."""
    name = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD"}[t.optimizer]
    own = f"momentum {t.momentum:g}" if t.optimizer == "sgd" else "betas {:g} and {:g}".format(*t.betas)
    words = [f"lr {t.learning_rate:g}", own, f"weight decay {t.weight_decay:g}"]
    words += [f"{t.schedule} schedule"] if t.schedule != "constant" else []
    words += [f"warm-up over {t.warmup_epochs:g} epochs"] if t.warmup_epochs else []
    words += [f"gradient norm at most {t.max_gradient_norm:g}"] if t.max_gradient_norm else []
    return f"{name} ({', '.join(words)})"


def _step(step: Step) -> str:
    values = step.model_dump(exclude={"op"})
    inside = ", ".join(f"{k} {v}" for k, v in values.items() if v not in (0, None))
    name = step.op.replace("_", " ")
    return f"{name} ({inside})" if inside else name


class PaperReport(Extension):
    """The paper's values, tables and words."""

    def parameters(self, values: Mapping[str, Any]) -> RunConfig:
        return values if isinstance(values, RunConfig) else check(dict(values))

    def level(self, factor: str, level: str) -> tuple[str, str]:
        return ("dataset", dataset_info(level).title) if factor == "name" else (factor, level)

    def typical(self, cells: Sequence[RecordedCell]) -> RunConfig | None:
        """Return a run whose margin matters, if there is one."""
        return next(iter(_telling(cells)), None)

    def layers(self, folder: Path, parameters: RunConfig) -> RunLayers | str | None:
        return read_layers(folder, tuple(layer_margins(parameters)))

    def saturates(self, parameters: RunConfig) -> bool:
        return margin_of(parameters).saturates

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
            if s.beside.name in MAIN and compared:
                sizes.setdefault((s.scale.size, s.scale.remark), {}).setdefault(s.beside.name, s)
        return list(max(sizes.values(), key=len, default={}).values())

    def advice(self, setting: Setting) -> list[str]:
        """Return the paper's rule of thumb if it applies: at its scale, with at least two seeds."""
        s, rates = setting, setting.profiles.get("rate", {}).get(CHANGED)
        if not s.beside.name or not s.scale.same or rates is None or min(s.comparisons[0].seeds) < 2:
            return []
        return [
            f"The paper's rule of thumb for {s.name} is to switch to subtraction if the clamp cuts more than "
            f"{RULE_OF_THUMB:.0%} of the positive pairs at layer 0; here it cuts {rates.mean[0]:.1%}."
        ]

    def exhibits(self, data: ReportData) -> dict[str, list[Table | Chart | None]]:
        return {
            "setup": [hyperparameters(data)],
            "layers": [dose_response(data), rates(data, "cifar10-low"), gradients(data, "cifar10")],
            "datasets": [
                datasets(data),
                rates(data, "cifar100"),
                gradients(data, "cifar100"),
                rates(data, "svhn"),
                sweep(data),
            ],
        }

    def glossary(self, data: ReportData) -> tuple[tuple[str, str], ...]:
        words = paper_data("glossary.toml")
        return tuple(words.items()) if any(s.beside.name for s in data.settings) else ()

    def badge(self, data: ReportData) -> str:
        same = {s.scale.same for s in data.settings}
        return OTHER_SCALE if same == {False} else "mixed scales" if False in same else ""


def _telling(cells: Sequence[RecordedCell]) -> list[RunConfig]:
    """Return the configs whose margin matters; all, if none does."""
    configs: list[RunConfig] = [cell.parameters for cell in cells]
    return [config for config in configs if not margin_of(config).is_inert] or configs
