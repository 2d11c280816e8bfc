"""At what scale a run was: the paper's, or another; and which of the paper's settings it stands for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from seedspread.cff.config import RunConfig, SeedConfig
from seedspread.cff.datasets import dataset_info
from seedspread.cff.identity import canonical
from seedspread.cff.presets import read_config
from seedspread.paper.values import printed, published_runs
from seedspread.report.extension import Published, Scale

# The paper's comparison: what it changes, and what it compares with.
CHANGED, BASELINE = "clamp", "subtract"
# How a run stands to the paper's.
SAME_SCALE, OTHER_SCALE = "the paper's scale", "not the paper's scale"
NOT_A_SETTING = "not a setting of the paper"
# The paper's settings, in its order, and what they are called here.
TITLES = {
    "cifar10": "CIFAR-10",
    "cifar10-low": "CIFAR-10 low margin",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "fashion-mnist": "Fashion-MNIST",
    "svhn-medium": "SVHN medium",
    "svhn-hard": "SVHN hard",
}
_PRESETS = {
    "cifar10": "paper/cifar10",
    "cifar10-low": "paper/cifar10",
    "cifar100": "paper/cifar100",
    "svhn": "paper/svhn-easy",
    "fashion-mnist": "paper/fashion-mnist",
    "svhn-medium": "paper/svhn-medium",
    "svhn-hard": "paper/svhn-hard",
}


PAPER = Scale("the paper's own published numbers", same=True)


def paper_setting(config: RunConfig) -> str | None:
    """The paper's setting that a run stands for: its data, labels, augmentation and margins; None of others.

    Depth, width, epochs and the like are its scale, and may differ.
    """
    name = _candidate(config)
    if name is None or config.training.rule != "layer_local":
        return None  # other data, or another method
    paper = paper_config(name)
    same_data = (config.data.labels, config.data.pipeline) == (paper.data.labels, paper.data.pipeline)
    return name if same_data and _margins_of(config) == _margins_of(paper) else None


def _candidate(config: RunConfig) -> str | None:
    name = config.data.name
    if name == "cifar10":
        return "cifar10-low" if config.objective.margin_first == 0.2 else "cifar10"
    if name == "svhn":
        augment = config.data.augment or "svhn-easy"
        levels = {"svhn-easy": "svhn", "svhn-medium": "svhn-medium", "svhn-hard": "svhn-hard"}
        return levels.get(augment) if isinstance(augment, str) else None
    # The sample inside the package is one of Fashion-MNIST.
    if name in ("fashion-mnist", "fashion-mnist-sample"):
        return "fashion-mnist"
    return name if name == "cifar100" else None


def _margins_of(config: RunConfig) -> tuple[object, ...]:
    o = config.objective
    return o.margin_first, o.margin_last, o.margin_schedule, o.margin_exponent


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
    return read_config(_PRESETS[setting], low)


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


# The paper's number of each kind of table, by setting.
_TABLES = {
    "factorial": {"cifar10": 3},
    "variance-tests": {"cifar10": 4},
    "pooled": {"cifar10": 5, "cifar100": 10, "svhn": 13, "fashion-mnist": 14},
    "per-seed": {
        "cifar10": 16, "cifar10-low": 17, "cifar100": 19, "svhn": 20, "fashion-mnist": 21, "svhn-medium": 22,
        "svhn-hard": 22,
    },
    "normality": dict.fromkeys(TITLES, 23),
}  # fmt: skip
_FIGURES = {"spread": {"cifar10": 1}, "profiles": {"cifar10": 2}}
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
        table, figure = (kinds.get(kind, {}).get(self.name) for kinds in (_TABLES, _FIGURES))
        return f"the paper's Table {table}" if table else f"the paper's Figure {figure}" if figure else ""

    def note(self, kind: str) -> str:
        return _NOTES.get(kind, "") if kind == "pooled" or self.follows(kind) else ""

    def values(self, kind: str, methods: Sequence[str], *arms: str) -> list[str]:
        table = _TABLES.get(kind, {}).get(self.name)
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
        title=TITLES[name],
        order=list(TITLES).index(name),
        same_question=same_question,
        own_heading="computed" if judge else "these runs",
        heading="printed" if judge else scale,
        mixed_heading="paper (scale differs by row)",
        judge=judge,
    )
