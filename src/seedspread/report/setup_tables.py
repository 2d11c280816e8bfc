"""What was run: the hyperparameters beside the paper's (its Table 2), the runs by state, the verdicts."""

from seedspread.campaign.store import STATES
from seedspread.config import PIPELINES, RunConfig
from seedspread.data.catalogue import source_named
from seedspread.published.check import VERDICTS, Finding
from seedspread.report.material import Material
from seedspread.report.scale import paper_config
from seedspread.report.table import Column, Table


def hyperparameters(material: Material) -> Table | None:
    """Table 2: settings of every study, and the paper's."""
    known = [s for s in material.settings if s.config is not None]
    if not known:
        return None
    chosen = {s.title: dict(_settings(s.config)) for s in known if s.config is not None}
    papers = [dict(_settings(paper_config(s.paper))) for s in known if s.paper is not None]
    rows = []
    for name in next(iter(chosen.values())):
        own = _listed({title: values[name] for title, values in chosen.items()})
        paper = "; ".join(dict.fromkeys(values[name] for values in papers))
        rows.append((name, own) if material.is_published else (name, own, paper))
    heads = (
        ("parameter", "the paper's") if material.is_published else ("parameter", "these runs", "the paper's")
    )
    columns = tuple(Column(text) for text in heads)
    return Table("hyperparameters", "Hyperparameters", columns, tuple(rows), 2)


def _listed(values: dict[str, str]) -> str:
    """One value where all agree; otherwise each with the settings that have it."""
    found: dict[str, list[str]] = {}
    for title, value in values.items():
        found.setdefault(value, []).append(title.split(" (")[0])
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{value} ({', '.join(dict.fromkeys(titles))})" for value, titles in found.items())


def _settings(c: RunConfig) -> list[tuple[str, str]]:
    source = source_named(c.data.name)
    limit = c.data.limit_per_class
    low, high = (f"{m:g}" for m in (c.objective.margin_first, c.objective.margin_last))
    t, p = c.training, c.probe
    return [
        ("data", f"{source.title}" + (f", {limit} images per class" if limit else "")),
        ("architecture", f"ViT (d={c.model.dim}, H={c.model.heads}, L={c.model.depth})"),
        ("patch size", f"{c.model.patch_size} × {c.model.patch_size}"),
        ("batch size", str(t.batch_size)),
        ("stage 1", f"{t.rule}, {t.epochs} epochs, AdamW (lr {t.learning_rate:g}, betas {t.betas[0]:g} and "
                    f"{t.betas[1]:g}, weight decay {t.weight_decay:g})"),
        ("stage 2 (probe)", f"{p.epochs} epochs, AdamW (lr {p.learning_rate:g}), {p.features} features"),
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


def runs_by_state(material: Material) -> Table | None:
    """How many planned runs of each setting are where."""
    known = [s for s in material.settings if s.states]
    if not known:
        return None
    shown = [x for x in STATES if any(s.counts[x] for s in known)]
    rows = [
        (s.title, str(sum(s.counts.values())), *(str(s.counts[x]) if s.counts[x] else "-" for x in shown))
        for s in known
    ]
    columns = (Column("setting"), Column("planned"), *(Column(x) for x in shown))
    return Table("runs", "Runs", columns, tuple(rows))


def failures(material: Material) -> Table | None:
    """The last line of each failed run."""
    rows = {
        key: (key, s.title, state.message)
        for s in material.settings
        for key, state in s.states.items()
        if state.state == "failed"
    }
    if not rows:
        return None
    return Table(
        "failures",
        "Failed runs",
        (Column("run"), Column("setting"), Column("what happened")),
        tuple(rows.values()),
    )


def verdicts(findings: tuple[Finding, ...]) -> Table:
    """Every claim of the paper that was checked; what differs stands first."""
    order = {"differs": 0, "not derivable": 1, "reproduces": 2}
    ranked = sorted(findings, key=lambda f: order[f.verdict])
    rows = tuple((f.verdict, f.where, f.what, f.printed, f.computed, f.comment) for f in ranked)
    counts = ", ".join(f"{sum(f.verdict == v for f in findings)} {v}" for v in VERDICTS)
    columns = tuple(Column(t) for t in ("verdict", "where", "claim", "printed", "computed", "remark"))
    return Table("verdicts", f"{len(findings)} claims checked: {counts}", columns, rows)
