"""At what scale a run was: the paper's, or another; and which of the paper's settings it stands for."""

from dataclasses import dataclass
from typing import Any

from seedspread.config import RunConfig, SeedConfig
from seedspread.datasets import dataset_info
from seedspread.identity import canonical
from seedspread.presets import read_config

# The paper's comparison: what it changes, and what it compares with.
CHANGED, REFERENCE = "clamp", "subtract"
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


@dataclass(frozen=True)
class Scale:
    """How large: `same` as the paper's or not (None: cannot be told), on what data, and what was trained."""

    same: bool | None
    data: str
    size: str = ""

    @property
    def words(self) -> str:
        """All in one line."""
        return "; ".join(part for part in (self.data, self.size) if part)

    @property
    def mark(self) -> str:
        """What stands over a column with the paper's values."""
        if self.same is None:
            return "paper"
        return "paper (same scale)" if self.same else "paper (different scale)"


UNKNOWN = Scale(None, "")
PAPER = Scale(True, "the paper's own published numbers")


def paper_setting(config: RunConfig) -> str | None:
    """The paper's setting that a run stands for: by its data, its CIFAR-10 margins, its SVHN augmentation."""
    if config.training.rule != "layer_local":
        return None  # another method
    name = config.data.name
    if name == "cifar10":
        margins = (config.objective.margin_first, config.objective.margin_last)
        return {(0.4, 0.1): "cifar10", (0.2, 0.1): "cifar10-low"}.get(margins)
    if name == "svhn":
        augment = config.data.augment or "svhn-easy"
        levels = {"svhn-easy": "svhn", "svhn-medium": "svhn-medium", "svhn-hard": "svhn-hard"}
        return levels.get(augment) if isinstance(augment, str) else None
    # The sample inside the package is one of Fashion-MNIST.
    if name in ("fashion-mnist", "fashion-mnist-sample"):
        return "fashion-mnist"
    return name if name == "cifar100" else None


def paper_config(setting: str) -> RunConfig:
    """What the paper ran in a setting."""
    low = ["objective.margin_first=0.2"] if setting == "cifar10-low" else []
    return read_config(_PRESETS[setting], low)


def scale_of(config: RunConfig, setting: str | None, partial: bool) -> Scale:
    """Compares a run with the paper's; margin type and stability, which studies vary, are left out."""
    limit, epochs = config.data.limit_per_class, config.training.epochs
    images = f"{limit} training images per class" if limit else "all images"
    data = f"{dataset_info(config.data.name).title}, {images}{' of partial data' if partial else ''}"
    size = f"ViT d={config.model.dim}, L={config.model.depth}, {epochs} epoch{'s' if epochs > 1 else ''}"
    if setting is None:
        return Scale(False, data, f"{size}; not a setting of the paper")
    same = not partial and _canonical(config) == _canonical(paper_config(setting))
    return Scale(same, data, f"{size}; {'the' if same else 'not the'} paper's scale")


def _canonical(config: RunConfig) -> dict[str, Any]:
    """All that a run is, but for what the paper varies, what a richer probe adds, and rounding."""
    clamping = config.objective.model_copy(update={"margin_type": CHANGED, "stability": "detach"})
    probe = config.probe.model_copy(update={"layers": "last", "repeats": 1})
    runtime = config.runtime.model_copy(update={"implementation": "plain"})
    changes = {"objective": clamping, "probe": probe, "seeds": SeedConfig(), "runtime": runtime}
    return canonical(config.model_copy(update=changes))
