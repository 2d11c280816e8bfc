"""What each implementation of the training can do and needs, and which runs may be trained as one program.

Plain data, which planning reads without torch.
"""

import json
from dataclasses import dataclass

from seedspread.cff.config import RunConfig
from seedspread.cff.identity import shape
from seedspread.cff.margins import margin_named

# Margin types of the native kernel, in the order of their numbers in loss.cpp.
NATIVE_MARGINS = ("none", "clamp", "soft_clamp", "shift")


@dataclass(frozen=True)
class TrainerFeatures:
    name: str  # its name in `runtime.implementation`
    stacks: bool = False  # whether several runs of one shape may be trained as one program
    uses_gpu: bool = True  # whether it can train on a GPU
    needs_compiler: bool = False  # whether it is compiled on the machine that trains
    has_own_threads: bool = False  # whether its threads are not torch's, which then has one
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
    "fast": TrainerFeatures("fast", stacks=True),
    "native": TrainerFeatures(
        "native", uses_gpu=False, needs_compiler=True, has_own_threads=True, margins=NATIVE_MARGINS
    ),
}


def features_of(config: RunConfig) -> TrainerFeatures:
    """Return the features of what trains a run; what has no kernels has the plain one only."""
    return FEATURES[config.runtime.implementation if config.has_kernels else "plain"]


# Operations of a layer's step up to which calling for them costs so much that stacking pays:
# `python benchmarks/stack.py` measures it.
_SMALL = 2e9
_MOST = 8


def stack_of(config: RunConfig, threads: int, device: str = "cpu") -> str | None:
    """Return a name that runs share if they may be trained as one program; None for one trained alone.

    That a run's numbers do not depend on those beside it has been seen on CPUs with one thread; elsewhere a
    reduction may be split in another way. With an odd width it is not so: the features of the second run
    then begin between the words that a product reads at once, and round otherwise than alone.
    """
    if not features_of(config).stacks or threads > 1 or device != "cpu":
        return None
    if config.model.dim % 2:
        return None
    runtime = config.runtime.model_dump(mode="json", exclude={"threads"})
    partial = config.data.allow_partial  # the same images only if both may see a part of them
    return json.dumps([shape(config), runtime, partial], sort_keys=True)


def worthwhile(config: RunConfig) -> int:
    """Return how many runs to train as one program: many if a step is small, one if it fills a core."""
    length, dim = config.model.tokens, config.model.dim
    tokens = 2 * config.training.batch_size * length
    operations = 2 * tokens * (20 * dim**2 + 6 * length * dim)
    return _MOST if operations <= _SMALL else 1
