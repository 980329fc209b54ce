"""Optimizers and schedulers: which of torch's run natively, and how the others run beside them."""

import inspect
import json
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


class Rule:
    """How gradients become weights, as `Node` and `Trainer` were told: natively where all of it can
    be, else by torch's own classes.

    Raises:
        ValueError: If there is no optimizer, or one that has parameters already.
    """

    def __init__(
        self,
        optimizer: type | str | None,
        params: dict[str, Any] | None = None,
        *,
        max_norm: float | None = None,
        warmup_updates: int = 0,
    ):
        if optimizer is None or isinstance(optimizer, torch.optim.Optimizer):
            raise ValueError(
                "[optim] expected optimizer to be a class such as torch.optim.Adam, with its "
                f"options in optimizer_params, got {optimizer!r}."
            )
        self.optimizer = optimizer
        self.params = dict(params or {})
        self.scheduler: Any = None
        self.scheduler_params: dict[str, Any] = {}
        self.step_on_epoch = True
        self.max_norm = max_norm
        self.warmup_updates = warmup_updates
        self._native = find_native(optimizer, self.params)
        if self._native is None:
            PythonRule(self)  # whose complaint comes now, and not in mid-run

    def schedule(
        self, scheduler: Any, params: dict[str, Any] | None, step_on_epoch: bool = True
    ) -> None:
        """Moves the rate with a class of `torch.optim.lr_scheduler`, its name, or a function that
        makes a scheduler for an optimizer."""
        if scheduler is None:
            return
        if self.scheduler is not None:
            raise ValueError("[optim] expected one lr_scheduler, on Node or on Trainer, got two.")
        if not callable(scheduler) and not isinstance(scheduler, str):
            raise ValueError(
                "[optim] expected lr_scheduler to be a class such as "
                f"torch.optim.lr_scheduler.StepLR, got {scheduler!r}."
            )
        self.scheduler = scheduler
        self.scheduler_params = dict(params or {})
        self.step_on_epoch = step_on_epoch
        if not self.is_native:
            PythonRule(self)

    @property
    def is_native(self) -> bool:
        return self._native is not None and (
            self.scheduler is None or self._native_scheduler is not None
        )

    @property
    def _native_scheduler(self) -> Native | None:
        return find_native_scheduler(self.scheduler, self.scheduler_params)

    def make(self) -> "dict[str, Any] | PythonRule":
        """For the stage's thread: the options of a native rule, or what does it in Python. A
        stage may make one to try something out."""
        if not self.is_native:
            return PythonRule(self)
        name, options = self._native
        scheduler, scheduler_options = (
            (None, {}) if self.scheduler is None else self._native_scheduler
        )
        return {
            "optimizer": name,
            "optimizer_options": options,
            "scheduler": scheduler,
            "scheduler_options": scheduler_options,
            "step_on_epoch": self.step_on_epoch,
            "max_norm": self.max_norm,
            "warmup_updates": self.warmup_updates,
        }

    def make_torch(self, parameters: list[torch.nn.Parameter]) -> tuple[Any, Any]:
        """An optimizer of torch's kind over these, and its scheduler."""
        kind = self.optimizer
        if isinstance(kind, str):
            name = self._native[0]
            kind = next(known for known, each in _OPTIMIZERS.items() if each == name)
        optimizer = kind(parameters, **self.params)
        optimizer._opt_called = True  # schedulers are stepped before updates where a run goes on
        if self.scheduler is None:
            return optimizer, None
        scheduler = self.scheduler
        if isinstance(scheduler, str):
            scheduler = getattr(lr_scheduler, scheduler, None)
            if not isinstance(scheduler, type):
                raise ValueError(
                    "[optim] expected lr_scheduler to be a class of torch.optim.lr_scheduler, or "
                    f"its name, got {self.scheduler!r}."
                )
        return optimizer, scheduler(optimizer, **self.scheduler_params)


class PythonRule:
    """An optimizer that runs in Python, behind a native stage, on the stage's thread.

    Its parameters are pointed at the newest weights before every step, and change them in place.
    """

    def __init__(self, rule: Rule):
        self._rule = rule
        self._parameters: dict[str, torch.nn.Parameter] = {}
        self._optimizer, self._scheduler = rule.make_torch([torch.nn.Parameter(torch.zeros(1))])
        if _wants_closure(self._optimizer):
            raise ValueError(
                f"[optim] expected an optimizer that steps by the gradients of a pass, got "
                f"{self._name()}, whose step() calls the model again (a closure)."
            )
        self._updates = 0
        self._steps = 0  # the scheduler's
        self._losses: list[float] = []  # since then, where it goes by them

    def step(
        self,
        values: dict[str, torch.Tensor],
        gradients: dict[str, torch.Tensor],
        delay: int,
        is_rest: bool = False,
    ) -> None:
        """One update. `values` are all of the stage's parameters; some may have no gradient. The
        rest of a training, less than an update, is no step of the scheduler."""
        self._bind(values)
        for name, parameter in self._parameters.items():
            parameter.grad = gradients.get(name)
        if self._rule.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters.values(), self._rule.max_norm)
        self._update(_C.warmup_factor(delay, self._updates, self._rule.warmup_updates))
        for parameter in self._parameters.values():
            parameter.grad = None
        self._updates += 1
        if not self._rule.step_on_epoch and not is_rest:
            self._step_scheduler()

    def start_epoch(self) -> None:
        if self._rule.step_on_epoch:
            self._step_scheduler()

    @property
    def follows_loss(self) -> bool:
        """The scheduler steps by how the loss goes, which `note_loss` tells before each update."""
        return isinstance(self._scheduler, lr_scheduler.ReduceLROnPlateau)

    def note_loss(self, loss: float) -> None:
        self._losses.append(loss)

    def rate(self) -> float:
        return float(self._optimizer.param_groups[0].get("lr", 0.0))

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        """Tensors by name, and the rest as JSON."""
        tensors: dict[str, torch.Tensor] = {}
        kept = {
            "updates": self._updates,
            "steps": self._steps,
            "losses": self._losses,
            "plateau": _packed(self._scheduler.state_dict(), "plateau", tensors)
            if self.follows_loss
            else None,
            "group": _packed(self._group(), "group", tensors),
            "state": {
                name: _packed(dict(self._optimizer.state.get(parameter, {})), name, tensors)
                for name, parameter in self._parameters.items()
            },
        }
        return tensors, {"optimizer": self._name(), "python": json.dumps(kept)}

    def load_state(
        self,
        tensors: dict[str, torch.Tensor],
        texts: dict[str, str],
        values: dict[str, torch.Tensor],
    ) -> None:
        if texts.get("optimizer") != self._name():
            raise ValueError(
                f"[optim] expected a checkpoint of {self._name()}, got one of "
                f"{texts.get('optimizer', 'another optimizer')} (Node(resume=False) begins anew)."
            )
        kept = json.loads(texts["python"])
        self._bind(values)
        self._updates = kept["updates"]
        self._losses = kept["losses"]
        if self.follows_loss:
            self._steps = kept["steps"]
            self._scheduler.load_state_dict(_unpacked(kept["plateau"], tensors))
        else:
            for _ in range(kept["steps"]):
                self._take_step()
        self._optimizer.param_groups[0].update(_unpacked(kept["group"], tensors))
        for name, parameter in self._parameters.items():
            state = _unpacked(kept["state"].get(name, {"dict": []}), tensors)
            if state:
                self._optimizer.state[parameter] = _moved(state, parameter.device)

    def _bind(self, values: dict[str, torch.Tensor]) -> None:
        if self._parameters.keys() != values.keys():
            # Empty at first: a parameter made of a weight would count its changes among the
            # weight's, and passes that saved that one would find it changed.
            self._parameters = {k: torch.nn.Parameter(x.new_empty(0)) for k, x in values.items()}
            self._point_at(values)
            if self._parameters:
                made = self._rule.make_torch(list(self._parameters.values()))
                self._optimizer, self._scheduler = made
        self._point_at(values)

    def _point_at(self, values: dict[str, torch.Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.data = values[name]

    def _update(self, rate_factor: float) -> None:
        groups = self._optimizer.param_groups
        rates = [group.get("lr") for group in groups]
        if rate_factor != 1.0:
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate * rate_factor
        self._optimizer.step()
        if rate_factor != 1.0:
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate

    def _step_scheduler(self) -> None:
        if self._scheduler is None:
            return
        if not self.follows_loss:
            self._take_step()
        elif self._losses:  # else nothing was learned from since the last step
            self._take_step(sum(self._losses) / len(self._losses))
            self._losses.clear()

    def _take_step(self, *loss: float) -> None:
        self._steps += 1
        self._scheduler.step(*loss)

    def _group(self) -> dict[str, Any]:
        return {k: v for k, v in self._optimizer.param_groups[0].items() if k != "params"}

    def _name(self) -> str:
        kind = type(self._optimizer)
        return f"{kind.__module__}.{kind.__qualname__}"


def _wants_closure(optimizer: Any) -> bool:
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _packed(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """What JSON can hold; tensors go by their path."""
    if isinstance(value, torch.Tensor):
        tensors[path] = value.detach()
        return {"tensor": path}
    if isinstance(value, dict):
        items = [[key, _packed(item, f"{path}/{key}", tensors)] for key, item in value.items()]
        return {"dict": items}
    if isinstance(value, list | tuple):
        items = [_packed(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]
        return {type(value).__name__ if type(value) in (list, tuple) else "list": items}
    value = _plain(value)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(
            f"[optim] a checkpoint holds tensors, numbers and words, got {type(value).__name__} at "
            f"'{path}' of the optimizer's state; checkpoint_every=0 keeps none."
        )
    return value


def _unpacked(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _unpacked(item, tensors) for key, item in content}
    items = [_unpacked(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items


def _moved(value: Any, device: torch.device) -> Any:
    """Counters stay where they are, as torch has them."""
    if isinstance(value, torch.Tensor):
        return value.to(device) if value.dim() > 0 else value
    if isinstance(value, dict):
        return {key: _moved(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(item, device) for item in value)
    return value
