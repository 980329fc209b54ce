"""What loaders yield, and how it is cut."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch


def split(batch: Any) -> tuple[Any, Any]:
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise ValueError(
            f"[fit] expected a loader that yields (inputs, target), got {type(batch).__name__}"
            + (f" of {len(batch)}." if isinstance(batch, (tuple, list)) else ".")
        )
    return batch[0], batch[1]


def call(inputs: Any) -> tuple[tuple, dict]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, (tuple, list)) else ((inputs,), {})


def peek(loader: Iterable) -> Any:
    """The first batch, with the random state left as it was."""
    generator = getattr(loader, "generator", None)
    own = None if generator is None else generator.get_state()
    state = torch.get_rng_state()
    try:
        return next(iter(loader))
    except StopIteration:
        raise ValueError("[fit] expected a loader with a batch or more, got none.") from None
    finally:
        torch.set_rng_state(state)
        if own is not None:
            generator.set_state(own)


def pieces(leaves: list, size: int, parts: int) -> Iterator[list]:
    if parts == 1:
        yield leaves
        return
    cut = [
        torch.tensor_split(x, parts)
        if isinstance(x, torch.Tensor) and x.dim() and x.shape[0] == size
        else [x] * parts
        for x in leaves
    ]
    yield from (list(piece) for piece in zip(*cut, strict=True))
