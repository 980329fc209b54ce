"""Which of torch's optimizers and schedulers run natively, and with which options."""

import inspect
from numbers import Real
from typing import Any

import torch
from torch.optim import lr_scheduler

from ravnest import _C

_OPTIMIZERS = {
    torch.optim.SGD: "sgd",
    torch.optim.Adam: "adam",
    torch.optim.AdamW: "adamw",
    torch.optim.NAdam: "nadam",
    torch.optim.RMSprop: "rmsprop",
    torch.optim.Adagrad: "adagrad",
}
_SCHEDULERS = {getattr(lr_scheduler, name): name for name in _C.Scheduler.known_names()}

# How torch computes, not what.
_HARMLESS = {"foreach", "fused"}
# Gradients through the step, and rates that are tensors.
_PYTHON_ONLY = {"capturable", "differentiable"}

Native = tuple[str, dict[str, Any]]


def find_native(optimizer: type | str, params: dict[str, Any] | None = None) -> Native | None:
    """The native name and options of an optimizer given by class or name; None where it must run
    in Python.

    Raises:
        ValueError: If a name or its options are not known. (A class that the native one cannot
            stand for is left to torch, whose own error the user then sees.)
    """
    params = dict(params or {})
    if isinstance(optimizer, str):
        return _checked(_C.Optimizer, optimizer.lower(), params)
    name = _OPTIMIZERS.get(optimizer)
    if name is None or not _knows(optimizer, params) or any(map(params.get, _PYTHON_ONLY)):
        return None
    options = {k: v for k, v in params.items() if k not in _HARMLESS | _PYTHON_ONLY}
    if name == "adam" and options.pop("decoupled_weight_decay", False):
        name = "adamw"
        options.setdefault("weight_decay", 0.0)
    return _fitting(_C.Optimizer, name, options)


def find_native_scheduler(
    scheduler: type | str, params: dict[str, Any] | None = None
) -> Native | None:
    """The same for a scheduler of `torch.optim.lr_scheduler`, by class or by the class's name."""
    params = dict(params or {})
    if isinstance(scheduler, str):
        return _checked(_make_scheduler, scheduler, params)
    name = _SCHEDULERS.get(scheduler)
    if name is None or not _knows(scheduler, params) or params.pop("last_epoch", -1) != -1:
        return None
    return _fitting(_make_scheduler, name, {k: v for k, v in params.items() if v is not None})


def _make_scheduler(name: str, options: dict[str, Any]) -> "_C.Scheduler":
    return _C.Scheduler(name, options, 1.0)


def _knows(kind: type, params: dict[str, Any]) -> bool:
    return params.keys() <= inspect.signature(kind).parameters.keys()


def _fitting(make: Any, name: str, options: dict[str, Any]) -> Native | None:
    try:
        return _checked(make, name, options)
    except ValueError:
        return None


def _checked(make: Any, name: str, options: dict[str, Any]) -> Native:
    options = {key: _plain(value) for key, value in options.items()}
    make(name, options)
    return name, options


def _plain(value: Any) -> Any:
    """Numbers of other libraries as Python's; tensors stay, and are refused where they arrive."""
    if isinstance(value, bool | int | float | str | torch.Tensor):
        return value
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
