"""One seed for all generators that a training program may use."""

import os
import random
import sys
from importlib.util import find_spec


def seed_everything(seed: int) -> None:
    """Seed `random`, numpy and torch, if they are installed, and make torch use deterministic algorithms.

    Hashes of strings become fixed in processes started from now on, not in this one.

    Args:
        seed: a whole number from 0 on; numpy takes its remainder modulo 2**32.

    Example:
        >>> seed_everything(3)
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"a seed must be a whole number from 0 on; got {seed!r}")
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed % 2**32)
    if find_spec("numpy"):
        import numpy as np  # noqa: PLC0415 - only if installed

        np.random.seed(seed % 2**32)  # noqa: NPY002 - the global generator, which other people's code uses
    if "torch" in sys.modules or find_spec("torch"):
        import torch  # noqa: PLC0415 - only if installed

        torch.manual_seed(seed % 2**63)  # CPU, CUDA and MPS
        # cuBLAS needs it before its first use; without it, deterministic algorithms raise an error.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
