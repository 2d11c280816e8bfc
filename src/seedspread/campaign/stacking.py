"""How many runs are worth training as one program. Needs no torch."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from seedspread.config import RunConfig
from seedspread.identity import stack_shape

# Operations of a layer's step up to which calling for them costs so much that stacking pays (bench stack).
_SMALL = 2e9
_MOST = 8


def stack_sizes(wanted: Literal["auto"] | int, configs: Mapping[str, str], workers: int) -> dict[str, int]:
    """Of each run, with how many it is trained together; never so many that a worker would be idle.

    Args:
        wanted: a study's `campaign.stack`.
        configs: the runs to do, as JSON configs by key.
        workers: how many share them.
    """
    known = {key: RunConfig.model_validate_json(config) for key, config in configs.items()}
    shapes = {key: stack_shape(config) for key, config in known.items()}
    times = Counter(shapes.values())
    return {
        key: _even(
            math.ceil(times[shapes[key]] / workers), worthwhile(config) if wanted == "auto" else wanted
        )
        for key, config in known.items()
        if shapes[key] is not None
    }


def _even(runs: int, most: int) -> int:
    """The size of a worker's stacks, as even as can be: 12 runs in stacks of at most 8 are two of 6."""
    return math.ceil(runs / math.ceil(runs / most))


def worthwhile(config: RunConfig) -> int:
    """Many where a step is small, one where its products fill a core by themselves."""
    length, dim = (32 // config.model.patch_size) ** 2, config.model.dim
    tokens = 2 * config.training.batch_size * length
    operations = 2 * tokens * (20 * dim**2 + 6 * length * dim)
    return _MOST if operations <= _SMALL else 1
