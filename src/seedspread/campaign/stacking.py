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


def stack_sizes(
    wanted: Mapping[str, Literal["auto"] | int], configs: Mapping[str, str], workers: int, threads: int = 1
) -> dict[str, int]:
    """Of each run, with how many it is trained together; never so many that a worker would be idle.

    Args:
        wanted: `campaign.stack` of the study that names a run, by the run's key.
        configs: the runs to do, as JSON configs by key.
        workers: how many share them.
        threads: of a run whose config leaves them open; with more than one, runs are trained alone.
    """
    known = {key: RunConfig.model_validate_json(config) for key, config in configs.items()}
    shapes = {
        key: stack_shape(config) if (config.runtime.threads or threads) == 1 else None
        for key, config in known.items()
    }
    times = Counter(shapes.values())
    most = {
        key: worthwhile(config) if wanted[key] == "auto" else int(wanted[key])
        for key, config in known.items()
    }
    return {
        key: _size(times[shape], workers, most[key]) for key, shape in shapes.items() if shape is not None
    }


def _size(runs: int, workers: int, most: int) -> int:
    """The largest stacks that give every worker one, and as even as can be: 24 runs of two are four of 6."""
    each = math.ceil(runs / workers)
    size = math.ceil(each / math.ceil(each / most))
    while size > 1 and math.ceil(runs / size) < workers:
        size -= 1
    return size


def worthwhile(config: RunConfig) -> int:
    """Many where a step is small, one where its products fill a core by themselves."""
    length, dim = (32 // config.model.patch_size) ** 2, config.model.dim
    tokens = 2 * config.training.batch_size * length
    operations = 2 * tokens * (20 * dim**2 + 6 * length * dim)
    return _MOST if operations <= _SMALL else 1
