"""Which runs of the paper's training may be trained as one program, and how many are worth it.

Needs no torch.
"""

import json

from seedspread.cff.config import RunConfig
from seedspread.cff.identity import shape
from seedspread.cff.implementations import features_of

# Operations of a layer's step up to which calling for them costs so much that stacking pays:
# `python benchmarks/stack.py` measures it.
_SMALL = 2e9
_MOST = 8


def stack_of(config: RunConfig, threads: int, device: str = "cpu") -> str | None:
    """Runs with the same answer may be trained together; None for one that is always trained alone.

    That a run's numbers do not depend on those beside it has been seen on CPUs with one thread; elsewhere a
    reduction may be split in another way. With an odd width it is not so: the features of the second run
    then begin between the words that a product reads at once, and round otherwise than alone.

    Args:
        config: the run.
        threads: that it is trained with.
        device: on which it is trained.
    """
    if not features_of(config).stacks or config.runtime.compile or threads > 1 or device != "cpu":
        return None
    if config.model.dim % 2:
        return None
    runtime = config.runtime.model_dump(mode="json", exclude={"threads"})
    partial = config.data.allow_partial  # the same images only if both may see a part of them
    return json.dumps([shape(config), runtime, partial], sort_keys=True)


def worthwhile(config: RunConfig) -> int:
    """Many where a step is small, one where its products fill a core by themselves."""
    length, dim = config.model.tokens, config.model.dim
    tokens = 2 * config.training.batch_size * length
    operations = 2 * tokens * (20 * dim**2 + 6 * length * dim)
    return _MOST if operations <= _SMALL else 1
