"""What was run beside what the paper ran (its Table 2), and the verdicts on the paper."""

from seedspread.cff.config import RunConfig
from seedspread.cff.datasets import dataset_info
from seedspread.cff.pipelines import PIPELINES
from seedspread.paper.check import Finding, summary
from seedspread.paper.report.columns import is_published
from seedspread.paper.report.scale import paper_config
from seedspread.render.table import Column, Table
from seedspread.report.material.settings import ReportData


def hyperparameters(material: ReportData) -> Table | None:
    """Table 2: settings of every study, and the paper's."""
    configured = [s for s in material.settings if isinstance(s.parameters, RunConfig)]
    if not configured:
        return None
    chosen = {s.name: _of_all(s.all_parameters) for s in configured}
    papers = {
        s.name: _of_all((paper_config(s.published.name),)) for s in configured if s.published is not None
    }
    rows = []
    for name in next(iter(chosen.values())):
        own = _listed({title: values[name] for title, values in chosen.items()})
        paper = _listed({title: values[name] for title, values in papers.items()}) if papers else ""
        rows.append((name, own) if is_published(material) or not papers else (name, own, paper))
    if not papers:
        heads: tuple[str, ...] = ("these runs",)
    else:
        heads = ("the paper's",) if is_published(material) else ("these runs", "the paper's")
    columns = tuple(Column(text) for text in ("parameter", *heads))
    return Table(
        "hyperparameters", "Hyperparameters", columns, tuple(rows), "the paper's Table 2" if papers else ""
    )


def _listed(values: dict[str, str]) -> str:
    """One value where all agree; otherwise each with the settings that have it."""
    titles_of: dict[str, list[str]] = {}
    for title, value in values.items():
        titles_of.setdefault(value, []).append(title)
    if len(titles_of) == 1:
        return next(iter(titles_of))
    return "; ".join(f"{value} ({', '.join(dict.fromkeys(titles))})" for value, titles in titles_of.items())


def _of_all(configs: tuple[RunConfig, ...]) -> dict[str, str]:
    """What the cells of a setting have; all values of what they vary."""
    cells = [dict(_settings(c)) for c in configs]
    return {name: " | ".join(dict.fromkeys(values[name] for values in cells)) for name in cells[0]}


def _settings(c: RunConfig) -> list[tuple[str, str]]:
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


def verdicts(findings: tuple[Finding, ...], *, hold: bool) -> Table:
    """The claims of the paper that hold, or those that do not, what differs first."""
    chosen = [f for f in findings if (f.verdict == "reproduces") == hold]
    chosen.sort(key=lambda f: f.verdict != "differs")
    rows = tuple((f.verdict, f.where, f.what, f.printed, f.computed, f.comment) for f in chosen)
    columns = tuple(Column(t) for t in ("verdict", "where", "claim", "printed", "computed", "remark"))
    name, title = ("verdicts-hold", "Claims that hold") if hold else ("verdicts", "Claims that do not hold")
    return Table(name, title, columns, rows)


def counted(findings: tuple[Finding, ...]) -> str:
    """How many claims there are of each verdict."""
    counts = summary(findings)
    return (
        f"{len(findings)} claims were checked: {counts['reproduces']} reproduce, {counts['differs']} differ, "
        f"{counts['not derivable']} cannot be derived from what is published."
    )
