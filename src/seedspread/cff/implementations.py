"""The capabilities and needs of each implementation of the training, as data that needs no torch."""

from dataclasses import dataclass

from seedspread.cff.config import RunConfig
from seedspread.cff.margins import margin_named

# Margin types of the native kernel, in the order of their numbers in loss.cpp.
NATIVE_MARGINS = ("none", "clamp", "soft_clamp", "shift")


@dataclass(frozen=True)
class TrainerFeatures:
    name: str  # its name in `runtime.implementation`
    uses_gpu: bool = True  # whether it can train on a GPU
    needs_compiler: bool = False  # whether it is compiled on the machine that trains
    has_own_threads: bool = False  # whether it starts its own threads, and torch uses only one
    margins: tuple[str, ...] | None = None  # the margin types that it can compute; None for all of them

    def why_not(self, config: RunConfig) -> str | None:
        """Return why it cannot train a run, in one line; None if it can."""
        kind = config.objective.margin_type
        # A margin that only adds a constant is trained as none.
        if self.margins is None or kind in self.margins or margin_named(kind).is_inert:
            return None
        return f"implementation = {self.name!r} cannot compute margin_type = {kind!r}; use 'fast' or 'plain'"


FEATURES = {
    "plain": TrainerFeatures("plain"),
    "fast": TrainerFeatures("fast"),
    "native": TrainerFeatures(
        "native", uses_gpu=False, needs_compiler=True, has_own_threads=True, margins=NATIVE_MARGINS
    ),
}


def features_of(config: RunConfig) -> TrainerFeatures:
    """Return the features of the trainer of a run; without kernels, that is always the plain one."""
    return FEATURES[config.runtime.implementation if config.has_kernels else "plain"]
