"""One seed for everything that is random."""

import contextlib
import random

import torch

_seed = 0


def set_seed(seed: int = 42) -> None:
    """Seeds Python, NumPy (where there is one), PyTorch and Ravnest's planner.

    Call it with the same number in every provider's script, so that root and leaf draw their
    batches in the same order.
    """
    global _seed
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ValueError(f"[seed] expected a whole number from 0 to 2**32 - 1, got {seed!r}.")
    _seed = seed
    random.seed(seed)
    torch.manual_seed(seed)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(seed)


def current_seed() -> int:
    """What `set_seed` was last called with; 0 before."""
    return _seed
