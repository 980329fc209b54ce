"""What loaders yield, and how it is cut."""

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import torch
from torch.utils.data import DataLoader


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


def is_one_shot(loader: Any) -> bool:
    """It gives its batches once only. (A loader is not asked for an iteration, which may draw from
    its random state.)"""
    return isinstance(loader, Iterator) and iter(loader) is loader


def size_of(leaves: list) -> int:
    """In samples; 0 where there is no tensor that says it."""
    return next((x.shape[0] for x in leaves if isinstance(x, torch.Tensor) and x.dim()), 0)


def find_last_size(loader: Any) -> int | None:
    """Of the smaller batch that ends an epoch, where it is known that there is one."""
    if not isinstance(loader, DataLoader) or loader.batch_size is None or loader.drop_last:
        return None
    if not isinstance(loader.sampler, Sized):
        return None
    return len(loader.sampler) % loader.batch_size or None


def too_small(size: int, parts: int) -> str:
    return (
        f"[fit] expected batches of {parts} samples or more for {parts} micro-batches, got one of "
        f"{size}: give DataLoader(drop_last=True), or fewer micro_batches."
    )


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
