"""What each implementation of the training can do and needs, as plain data. Needs no torch.

Planning reads it here; `Trainer.features` is the same.
"""

from dataclasses import dataclass

from seedspread.cff.config import RunConfig
from seedspread.cff.objective.margins import margin_named

# Margin types of the native kernel, in the order of their numbers in loss.cpp.
NATIVE_MARGINS = ("none", "clamp", "soft_clamp", "shift")


@dataclass(frozen=True)
class TrainerFeatures:
    """What an implementation can do and needs.

    Attributes:
        name: its name in `runtime.implementation`.
        stacks: whether several runs of one shape may be trained as one program.
        uses_gpu: whether it can train on a GPU.
        needs_compiler: whether it is compiled on the machine that trains.
        has_own_threads: whether its threads are not torch's, which then has one.
        margins: the margin types that it can compute; None for all of them.
    """

    name: str
    stacks: bool = False
    uses_gpu: bool = True
    needs_compiler: bool = False
    has_own_threads: bool = False
    margins: tuple[str, ...] | None = None

    def why_not(self, config: RunConfig) -> str | None:
        """Return why it cannot train a run, in one line; None if it can."""
        kind = config.objective.margin_type
        # A margin that only adds a constant is trained as none.
        if self.margins is None or kind in self.margins or margin_named(kind).is_inert:
            return None
        return f"implementation = {self.name!r} cannot compute margin_type = {kind!r}; use 'fast' or 'plain'"


FEATURES = {
    "plain": TrainerFeatures("plain"),
    "fast": TrainerFeatures("fast", stacks=True),
    "native": TrainerFeatures(
        "native", uses_gpu=False, needs_compiler=True, has_own_threads=True, margins=NATIVE_MARGINS
    ),
}


def features_of(config: RunConfig) -> TrainerFeatures:
    """Return the features of what trains a run; rules other than layer by layer have the plain one only."""
    is_local = config.training.rule == "layer_local"
    return FEATURES[config.runtime.implementation if is_local else "plain"]
