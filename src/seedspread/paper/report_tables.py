"""The paper's printed values beside one's own, in its tables over several settings."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.words import number, p_value
from seedspread.cff.config import PIPELINES, RunConfig
from seedspread.cff.datasets import dataset_info
from seedspread.cff.margins import layer_margins
from seedspread.paper.methods import printed
from seedspread.paper.settings import TITLES, PaperSetting, paper_config
from seedspread.paper.values import series
from seedspread.render.table import Column, Table
from seedspread.report.data import ReportData, Setting, origins
from seedspread.report.layers import LayerBand
from seedspread.report.tables import PublishedColumns, digits
from seedspread.stats.groups import Floats

if TYPE_CHECKING:
    from seedspread.paper.check import Finding


def is_published(data: ReportData) -> bool:
    """Return whether a report is on the paper's own numbers."""
    return any(isinstance(s.published, PaperSetting) and s.published.judge for s in data.settings)


def of_paper(data: ReportData, name: str) -> Setting | None:
    """Return the setting that stands for one of the paper's, preferably at the paper's scale."""
    matches = [s for s in data.settings if s.beside is not None and s.beside.name == name]
    return min(matches, key=lambda s: s.scale.same is not True, default=None)


def name_of(s: Setting) -> str:
    return s.published.name if s.published is not None else ""


class PaperColumns(PublishedColumns):
    """The paper's values for several settings, under one heading."""

    def __init__(self, data: ReportData, *settings: Setting) -> None:
        super().__init__(*settings)
        self.judge = is_published(data)

    def printed(self, table: int, on: Sequence[str], method: str) -> str:
        return printed(table, tuple(on), method, judge=self.judge) or "-"

    def in_table(self, table: int, methods: Sequence[str], s: Setting, *arms: str) -> list[str]:
        """Return what a table prints of a setting's arms, by method; a dash if nothing."""
        if not self.is_known:
            return ["-"] * len(methods)
        return [self.printed(table, [f"{name_of(s)}/{arm}" for arm in arms], m) for m in methods]


_NONE = np.array([])


def rate(s: Setting | None) -> LayerBand | None:
    """Return the clamp's own rate by layer, if the setting has it."""
    return s.profiles.get("rate", {}).get("clamp") if s is not None else None


def _margins(*settings: Setting) -> list[list[str]]:
    return [[f"{m:.2f}" for m in layer_margins(s.parameters)] if s.parameters else [] for s in settings]


def _paper_margins(*names: str) -> list[list[str]]:
    return [[f"{m:.2f}" for m in layer_margins(paper_config(name))] for name in names]


def _joined(margins: list[list[str]], layer: int) -> str:
    return " / ".join(m[layer] for m in margins if layer < len(m)) or "-"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _layer_columns(paper_columns: PaperColumns, measured: Sequence[str], derived: str) -> tuple[Column, ...]:
    """Return the columns; in a report of the paper's own numbers only what is derived stands twice."""
    if paper_columns.judge:
        return (*(Column(name) for name in measured), Column(derived, "computed"), Column(derived, "printed"))
    return paper_columns.columns((*measured, derived))


def _layer_row(
    paper_columns: PaperColumns, head: str, own: Sequence[str], paper: Sequence[str], derived: tuple[str, str]
) -> tuple[str, ...]:
    """Return a row; `derived` is computed from one's own values, and printed by the paper."""
    if paper_columns.judge:
        return (head, *own, *derived)
    return paper_columns.row((head,), (*own, derived[0]), (*paper, derived[1]))


def rates_by_margin(data: ReportData) -> Table | None:
    """Make Table 7: the clamp activation rate by layer under both schedules."""
    standard, low = of_paper(data, "cifar10"), of_paper(data, "cifar10-low")
    first, second = rate(standard), rate(low)
    if standard is None or low is None or first is None or second is None:
        return None
    paper_columns = PaperColumns(data, standard, low)
    names = ("car/cifar10 standard", "car/cifar10 low")
    paper = [series(name).values / 100 for name in names] if not is_published(data) else [_NONE, _NONE]
    margins, paper_margins = _margins(standard, low), _paper_margins("cifar10", "cifar10-low")
    rows = []
    for layer, (a, b, x, y) in enumerate(zip_longest(first.mean, second.mean, *paper)):
        own = (_joined(margins, layer), _percent(a), _percent(b))
        printed = (_joined(paper_margins, layer), _percent(x), _percent(y))
        cut = "-" if a is None or b is None or a == 0 else f"{1 - b / a:.1%}"
        stated = _unit(paper_columns.printed(7, names, f"reduction {layer}"), "%")
        rows.append(_layer_row(paper_columns, str(layer), own, printed, (cut, stated)))
    columns = (
        Column("layer"),
        *_layer_columns(paper_columns, ("margin (std / low)", "CAR (std)", "CAR (low)"), "reduction"),
    )
    return Table(
        "rates-by-margin", "Clamp activation rate (CAR) by layer and margin: CIFAR-10", columns,
        tuple(rows), "the paper's Table 7",
        "Clamp runs with their final weights, mean over seeds" + _depths(standard),
        scale=origins([standard, low]),
    )  # fmt: skip


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
    clamp, subtract = profiles["clamp"], profiles["subtract"]
    paper_columns = PaperColumns(data, s)
    flipped = name == "cifar100"  # the paper turns the ratio round there
    ratio_of = ("clamp", "subtract") if flipped else ("subtract", "clamp")
    paper = [_stated(name, arm) for arm in ("clamp", "subtract")] if not is_published(data) else [[], []]
    margins, paper_margins = _margins(s), _paper_margins(name)
    rows = []
    for layer in range(max(len(clamp.mean), len(paper[0]))):
        ratio = _quotient(profiles[ratio_of[0]].mean, profiles[ratio_of[1]].mean, layer)
        own = (_joined(margins, layer), _with_sd(clamp, layer), _with_sd(subtract, layer))
        printed = (_joined(paper_margins, layer), *(p[layer] if layer < len(p) else "-" for p in paper))
        stated = paper_columns.printed(
            12 if flipped else 8, [f"gradient/{name} {arm}" for arm in ratio_of], f"quotient {layer}"
        )
        derived = (ratio, _unit(stated, "×"))
        rows.append(_layer_row(paper_columns, f"L{layer}", own, printed, derived))
    heading = f"ratio ({ratio_of[0]} / {ratio_of[1]})"
    note = "One batch with the final weights, mean ± sd over seeds"
    if flipped:
        note += "; the paper has a single seed here, and turns the ratio round"
    return Table(
        f"gradients-{name}", f"Gradient norms by layer: {TITLES[name]}",
        (Column("layer"), *_layer_columns(paper_columns, ("margin", "clamp", "subtract"), heading)),
        tuple(rows),
        f"the paper's Table {12 if flipped else 8}", note + _depths(s), scale=s.origin,
    )  # fmt: skip


def _stated(name: str, arm: str) -> list[str]:
    mean, sd = (series(f"{part}/{name} {arm}").values for part in ("gradient", "gradient_sd"))
    return [f"{m:.3f} ± {d:.3f}" for m, d in zip(mean, sd, strict=True)]


def _with_sd(p: LayerBand, layer: int) -> str:
    if layer >= len(p.mean):
        return "-"
    return f"{p.mean[layer]:.3f}" + ("" if p.sd is None else f" ± {p.sd[layer]:.3f}")


def _quotient(a: Floats, b: Floats, layer: int) -> str:
    if layer >= min(len(a), len(b)) or b[layer] == 0:
        return "-"
    return f"{a[layer] / b[layer]:.2f}×"


def rates_across(data: ReportData, name: str) -> Table | None:
    """Make Table 11 (CIFAR-100) or 18 (SVHN): the rate by layer beside CIFAR-10's."""
    base, other = of_paper(data, "cifar10"), of_paper(data, name)
    first, second = rate(base), rate(other)
    if base is None or other is None or first is None or second is None:
        return None
    number = {"cifar100": 11, "svhn": 18}[name]
    paper_columns = PaperColumns(data, base, other)
    names = (f"car/{name}", "car/cifar10 standard")
    published = [series(n).values / 100 for n in reversed(names)]
    paper = [_NONE, _NONE] if is_published(data) else [values[: len(published[1])] for values in published]
    rows = []
    for layer, (a, b, x, y) in enumerate(zip_longest(first.mean, second.mean, *paper)):
        if b is None and y is None:
            continue  # SVHN is printed to layer 3 only
        derived = (_points(a, b), _signed(paper_columns.printed(number, names, f"difference {layer}")))
        own, printed = (_percent(a), _percent(b)), (_percent(x), _percent(y))
        rows.append(_layer_row(paper_columns, str(layer), own, printed, derived))
    rows.append(_mean_row(paper_columns, name, number, first, second))
    titles = (f"CAR ({TITLES['cifar10']})", f"CAR ({TITLES[name]})")
    columns = (Column("layer"), *_layer_columns(paper_columns, titles, "difference"))
    return Table(
        f"rates-{name}", f"Clamp activation rate (CAR): CIFAR-10 against {TITLES[name]}", columns,
        tuple(rows), f"the paper's Table {number}",
        "Clamp runs, standard margins, mean over seeds" + _depths(other),
        scale=origins([base, other]),
    )  # fmt: skip


def _mean_row(
    paper_columns: PaperColumns, name: str, number: int, first: LayerBand, second: LayerBand
) -> tuple[str, ...]:
    stated = [f"{series(f'stated/mean car {n}').values[0]:.1f}%" for n in ("cifar10", name)]
    difference = paper_columns.printed(number, (f"car/{name}", "car/cifar10 standard"), "difference_of_means")
    if difference == "-":
        difference = paper_columns.printed(
            number, (f"stated/mean car {name}", "stated/mean car cifar10"), "difference_of_means"
        )
    if paper_columns.judge:  # the paper publishes four of SVHN's eight layers: its mean can only be quoted
        return ("mean, all layers", *stated, "-", _signed(difference))
    a, b = float(first.mean.mean()), float(second.mean.mean())
    own = (_percent(a), _percent(b))
    return _layer_row(paper_columns, "mean, all layers", own, stated, (_points(a, b), _signed(difference)))


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
    both = PaperColumns(data, *settings)
    rows = []
    for s in settings:
        c = s.comparisons[0]
        own = (digits(c.pooled[0].variance, 4), digits(c.pooled[1].variance, 4),
               number(c.pooled_test.ratio), p_value(c.pooled_test.p))  # fmt: skip
        methods = ("first_variance", "second_variance", "ratio", "f_p")
        printed = both.in_table(6, methods, s, "clamp", "subtract")
        rows.append(both.row((names[name_of(s)],), own, printed))
    columns = both.columns(("clamp variance", "subtract variance", "ratio", "F test, p"))
    return Table(
        "dose-response", "Dose response", (Column("schedule"), *columns), tuple(rows), "the paper's Table 6",
        "Ratios of pooled variances and their F tests, as the paper reports them; the ratios that count each "
        "seed once stand with each setting", scale=origins(settings),
    )  # fmt: skip


def _compared(data: ReportData, names: "dict[str, str]") -> list[Setting]:
    return [s for s in (of_paper(data, name) for name in names) if s is not None and s.comparisons]


_PAIRS = {"cifar10": "balanced_pairs", "cifar100": "expected_pairs", "svhn": "expected_pairs",
          "fashion-mnist": "balanced_pairs"}  # fmt: skip
_CLASSES = {"cifar10": 10, "cifar100": 100, "svhn": 10, "fashion-mnist": 10}


def datasets(data: ReportData) -> Table | None:
    """Make Table 9: every dataset in a row."""
    settings = _compared(data, _PAIRS)
    if len(settings) < 2:
        return None
    both = PaperColumns(data, *settings)
    rows = []
    for s in settings:
        head = (TITLES[name_of(s)], str(_CLASSES[name_of(s)]))
        rows.append(both.row(head, _own_line(data, s), _paper_line(both, s)))
    names = ("positive pairs", "L0 CAR", "clamp accuracy (%)", "ratio (pooled)", "ratio (seeds once)")
    return Table(
        "across-datasets", "Across datasets", (Column("dataset"), Column("classes"), *both.columns(names)),
        tuple(rows), "the paper's Table 9",
        "Positive pairs: ordered, in a batch of two views of each image; the paper counts one view",
        scale=origins(settings),
    )  # fmt: skip


def _own_line(data: ReportData, s: Setting) -> tuple[str, ...]:
    c, profile = s.comparisons[0], None if is_published(data) else rate(s)
    pairs = [r.layers.positive_pairs for r in s.runs if r.layers is not None]
    return (
        f"{sum(pairs) / len(pairs):,.0f}" if pairs else "-",
        f"{profile.mean[0]:.1%}" if profile is not None else "-",
        digits(c.pooled[0].mean, 1),
        number(c.pooled_test.ratio),
        number(c.headline.ratio),
    )


def _paper_line(both: PaperColumns, s: Setting) -> tuple[str, ...]:
    name = name_of(s)
    arms = (f"{name}/clamp", f"{name}/subtract")
    car = "cifar10 standard" if name == "cifar10" else name
    return (
        both.printed(9, ("batch", f"classes/{name}"), _PAIRS[name]),
        "-" if name == "fashion-mnist" else f"{series(f'car/{car}').values[0]:.1f}%",
        both.printed(9, arms, "first_mean"),
        both.printed(9, arms, "ratio"),
        "-",
    )


_LEVELS = {"svhn": "easy", "svhn-medium": "medium", "svhn-hard": "hard"}
_PATTERNS = {"svhn": "inverted", "svhn-medium": "elevated", "svhn-hard": "extreme"}


def sweep(data: ReportData) -> Table | None:
    """Make Table 15: the SVHN difficulty sweep."""
    settings = _compared(data, _LEVELS)
    if len(settings) < 2:
        return None
    both = PaperColumns(data, *settings)
    rows = []
    for s in settings:
        name, c = name_of(s), s.comparisons[0]
        own = (str(c.pooled[0].n), digits(c.pooled[0].mean, 1), digits(c.pooled[0].variance, 3),
               digits(c.pooled[1].variance, 3), number(c.pooled_test.ratio), _pattern(c),
               *(_failed(c, arm) for arm in ("clamp", "subtract")))  # fmt: skip
        methods = ("first_size", "first_mean", "first_variance", "second_variance", "ratio")
        printed = both.in_table(15, methods, s, "clamp", "subtract")
        rows.append(both.row((_LEVELS[name],), own, (*printed, _PATTERNS[name], "-", "-")))
    names = ("n", "clamp accuracy (%)", "clamp variance", "subtract variance", "ratio", "pattern",
             "clamp seeds failed", "subtract seeds failed")  # fmt: skip
    return Table(
        "svhn-sweep", "SVHN difficulty sweep", (Column("difficulty"), *both.columns(names)), tuple(rows),
        "the paper's Table 15", "Where runs fail to train, a ratio of variances measures how often they fail",
        scale=origins(settings),
    )  # fmt: skip


def _pattern(c: Comparison) -> str:
    return "-" if c.pooled_test.ratio is None else "inverted" if c.pooled_test.ratio < 1 else "elevated"


def _failed(c: Comparison, arm: str) -> str:
    return next((f"{a.failed} of {a.seeds}" for a in c.collapse.arms if a.group == arm), "none")


Maker = Callable[[ReportData], Table | None]
# Number, what is needed, the section of the page, and how it is made.
WHOLE: tuple[tuple[int, str, str, Maker], ...] = (
    (6, "the factorial and the dose response", "layers", dose_response),
    (7, "clamp runs under both margin schedules", "layers", rates_by_margin),
    (8, "runs of both arms on CIFAR-10 with their layers", "layers", lambda m: gradients(m, "cifar10")),
    (9, "two datasets or more", "datasets", datasets),
    (11, "clamp runs on CIFAR-10 and CIFAR-100", "datasets", lambda m: rates_across(m, "cifar100")),
    (12, "runs of both arms on CIFAR-100 with their layers", "datasets", lambda m: gradients(m, "cifar100")),
    (18, "clamp runs on CIFAR-10 and SVHN", "datasets", lambda m: rates_across(m, "svhn")),
    (15, "the SVHN difficulty sweep", "datasets", sweep),
)


def hyperparameters(data: ReportData) -> Table | None:
    """Make Table 2: the settings of every study, and the paper's."""
    configured = [s for s in data.settings if isinstance(s.parameters, RunConfig)]
    if not configured:
        return None
    chosen = {s.name: _of_all(s.all_parameters) for s in configured}
    papers = {
        s.name: _of_all((paper_config(s.published.name),)) for s in configured if s.published is not None
    }
    rows = []
    for name in next(iter(chosen.values())):
        own = _values_listed({title: values[name] for title, values in chosen.items()})
        paper = _values_listed({title: values[name] for title, values in papers.items()}) if papers else ""
        rows.append((name, own) if is_published(data) or not papers else (name, own, paper))
    if not papers:
        heads: tuple[str, ...] = ("these runs",)
    else:
        heads = ("the paper's",) if is_published(data) else ("these runs", "the paper's")
    columns = tuple(Column(text) for text in ("parameter", *heads))
    return Table(
        "hyperparameters", "Hyperparameters", columns, tuple(rows), "the paper's Table 2" if papers else ""
    )


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
    cells = [dict(_hyperparameters(c)) for c in configs]
    return {name: " | ".join(dict.fromkeys(values[name] for values in cells)) for name in cells[0]}


def _hyperparameters(c: RunConfig) -> list[tuple[str, str]]:
    source = dataset_info(c.data.name)
    limit, test_limit = c.data.limit_per_class, c.data.test_limit_per_class
    low, high = (f"{m:g}" for m in (c.objective.margin_first, c.objective.margin_last))
    t, p = c.training, c.probe
    return [
        ("data", f"{source.title}, {limit or 'all'} training and {test_limit or 'all'} test images per "
                 f"class, {c.data.validation_fraction:g} for validation, {c.data.order}"),
        ("architecture", f"ViT (d={c.model.dim}, H={c.model.heads}, L={c.model.depth})"),
        ("patch size", f"{c.model.patch_size} × {c.model.patch_size}"),
        ("batch size", str(t.batch_size)),
        ("stage 1", f"{t.rule}, {t.epochs} epochs, AdamW (lr {t.learning_rate:g}, betas {t.betas[0]:g} and "
                    f"{t.betas[1]:g}, weight decay {t.weight_decay:g}), {t.select} weights"),
        ("stage 2 (probe)", f"{p.epochs} epochs, batch {p.batch_size}, AdamW (lr {p.learning_rate:g}, weight "
                            f"decay {p.weight_decay:g}), {p.features} features"),
        ("margin type, stability", f"{c.objective.margin_type}, {c.objective.stability}, "
                                   f"{c.objective.reduction} over positives"),
        ("temperature", f"{c.objective.temperature:g}"),
        ("margins", f"{low} → {high}, {c.objective.margin_schedule}"),
        ("augmentation", _augmentation(c, source.augment)),
        ("precision", c.runtime.precision),
    ]  # fmt: skip


def _augmentation(c: RunConfig, default: str) -> str:
    chosen = default if c.data.augment is None else c.data.augment
    steps = PIPELINES[chosen] if isinstance(chosen, str) else chosen
    words = []
    for step in steps:
        values = step.model_dump(exclude={"op"})
        inside = ", ".join(f"{k} {v}" for k, v in values.items() if v not in (0, None))
        words.append(f"{step.op.replace('_', ' ')} ({inside})" if inside else step.op.replace("_", " "))
    return "; ".join([*words, "normalisation"])


def verdicts(findings: "tuple[Finding, ...]", *, hold: bool) -> Table:
    """List the paper's claims that hold, or those that do not, differing ones first."""
    chosen = [f for f in findings if (f.verdict == "reproduces") == hold]
    chosen.sort(key=lambda f: f.verdict != "differs")
    rows = tuple((f.verdict, f.where, f.what, f.printed, f.computed, f.comment) for f in chosen)
    columns = tuple(Column(t) for t in ("verdict", "where", "claim", "printed", "computed", "remark"))
    name, title = ("verdicts-hold", "Claims that hold") if hold else ("verdicts", "Claims that do not hold")
    return Table(name, title, columns, rows)


def counted(findings: "tuple[Finding, ...]") -> str:
    counts = Counter(f.verdict for f in findings)
    return (
        f"{len(findings)} claims were checked: {counts['reproduces']} reproduce, {counts['differs']} differ, "
        f"{counts['not derivable']} cannot be derived from what is published."
    )
