"""Trainer: from loaders to a trained model, on every node of a run with the same script."""

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from ravnest.batches import is_one_shot
from ravnest.ending import end_well
from ravnest.leaf import batches_in, is_ordered, map_tensors, shuffles_alone
from ravnest.node import Node


def _whole_training(train: Callable) -> Callable:
    """A `train` that drives the run at the root; on the other nodes it waits for the end. It ends
    the training for all when it returns, whoever wrote it."""

    @functools.wraps(train)
    def run(self: "Trainer", *args: Any, **kwargs: Any) -> Any:
        if self._is_training:  # a subclass calls ours
            return train(self, *args, **kwargs)

        def work() -> Any:
            self._configure()
            # Whatever was given, prelim_checks complains of it.
            epochs = self.epochs if isinstance(self.epochs, int) else None
            self.node.display.expect(epochs, self._length)
            result = None
            if self.node.is_root:
                self.node.start()
                result = train(self, *args, **kwargs)
            else:
                self.prelim_checks()
            self.node.finish_training()
            return result

        self._is_training = True
        try:
            return end_well(self.node, work)
        finally:
            self._is_training = False

    return run


def _ends_well(method: Callable) -> Callable:
    @functools.wraps(method)
    def run(self: "Trainer", *args: Any, **kwargs: Any) -> Any:
        if self._is_training:
            return method(self, *args, **kwargs)
        self._configure()
        return end_well(self.node, functools.partial(method, self, *args, **kwargs))

    return run


class Trainer:
    """Trains what the node is part of. Subclass it for a loop of your own: `train` runs on the root
    alone and calls `self.node.forward_compute(…)`; when it returns, the training is ended, and
    saved where `save` says so, on all nodes.

    Args:
        node: This provider's `Node`.
        lr_scheduler: As on `Node`; one of the two.
        lr_scheduler_params: Its options.
        train_loader: Of batches: a tuple or list whose first element is the input, a dict of inputs
            by name, or the input itself. A tensor is cut into batches of `batch_size`.
        val_loader: The same, for validation.
        val_freq: Batches between two validations; 0 for none.
        save: Save every stage's weights after training.
        epochs: How often the loader is gone through; a generator will do for one.
        batch_size: Of a loader that is a tensor.
        step_size: Batches to an update, where the node's `update_frequency` says nothing.
        inputs_dtype: Inputs are converted to it.
    """

    # What a subclass with an __init__ of its own may leave out.
    lr_scheduler: Any = None
    lr_scheduler_params: dict[str, Any] | None = None
    train_loader: Any = None
    val_loader: Any = None
    val_freq = 1
    save = False
    epochs = 1
    batch_size = 64
    step_size = 1
    inputs_dtype: torch.dtype | None = None
    n_forwards = 0
    _is_training = False
    _is_configured = False

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "train" in cls.__dict__:
            cls.train = _whole_training(cls.__dict__["train"])
        for name in ("evaluate", "pred"):
            if name in cls.__dict__:
                setattr(cls, name, _ends_well(cls.__dict__[name]))

    def __init__(
        self,
        node: Node | None = None,
        lr_scheduler: Any = None,
        lr_scheduler_params: dict[str, Any] | None = None,
        train_loader: Any = None,
        val_loader: Any = None,
        val_freq: int = 1,
        save: bool = False,
        epochs: int = 1,
        batch_size: int = 64,
        step_size: int = 1,
        inputs_dtype: torch.dtype | None = None,
    ):
        if not isinstance(node, Node):
            raise ValueError(f"[trainer] expected a Node, got {node!r}.")
        self.node = node
        self.lr_scheduler = lr_scheduler
        self.lr_scheduler_params = dict(lr_scheduler_params or {})
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.val_freq = val_freq
        self.save = save
        self.epochs = epochs
        self.batch_size = batch_size
        self.step_size = step_size
        self.inputs_dtype = inputs_dtype
        self.n_forwards = 0
        self._configure()

    def prelim_checks(self) -> None:
        """What would go wrong later, said now.

        Raises:
            ValueError: If a loader is missing, or a number is out of its range.
        """
        for name, least in (("epochs", 0), ("val_freq", 0), ("batch_size", 1), ("step_size", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f"[trainer] expected {name} to be a whole number from {least}, got {value!r}."
                )
        if self.node.is_root and self.train_loader is None:
            raise ValueError(f"[trainer] {self.node.name} is the root and needs train_loader=….")
        for name in ("train_loader", "val_loader"):
            if self.node.is_root and self.epochs > 1 and is_one_shot(getattr(self, name)):
                raise ValueError(
                    f"[trainer] expected {name} to give its batches in each of {self.epochs} "
                    "epochs, got an iterator, which gives them once: pass a DataLoader, or a list."
                )
        ours, labels = batches_in(self.train_loader), batches_in(self.node.labels)
        if self.node.is_leaf and None not in (ours, labels) and ours != labels:
            raise ValueError(
                f"[trainer] train_loader has {ours} batches and Node(labels=…) has {labels}: they "
                "must yield the same ones."
            )
        if self.node.stages > 1 and shuffles_alone(self.train_loader):
            warnings.warn(
                "[trainer] train_loader shuffles without a generator of its own: root and leaf may "
                "draw different orders. Pass DataLoader(generator=torch.Generator().manual_seed(…)"
                ").",
                stacklevel=3,
            )

    @_whole_training
    def train(self) -> None:
        """At the root: submits every batch of `train_loader`, for `epochs` epochs, validates every
        `val_freq` batches, and ends the training. On the other nodes: waits for that end."""
        self.prelim_checks()
        before = self.node.epochs_begun
        for epoch in range(self.epochs):
            self.node.epoch = before + epoch
            for batch in self._batches(self.train_loader):
                self._forward(batch)
        self.node.epoch = None

    @_ends_well
    def evaluate(self) -> float | None:
        """Validates on all of `val_loader`. Returns the accuracy in percent, None where there is
        none."""
        if self.val_loader is None:
            return None
        if self.node.is_root:
            self._validate()
        accuracy = self.node.finish_validation()
        if self.node.is_root and accuracy is not None:
            self.node.display.say(f"{self.node.name}: validation accuracy {accuracy:.2f} %")
        return accuracy

    @_ends_well
    def pred(self, input: Any) -> Any:
        """At the root: what the model as it is now gives for this input, in its own structure.
        On the other nodes None."""
        return self.node.no_grad_forward_compute(self._inputs(input))

    def _forward(self, batch: Any) -> None:
        self.node.forward_compute(self._inputs(_input_of(batch)))
        self.n_forwards += 1
        if self.val_loader is None or not self.val_freq or self.n_forwards % self.val_freq:
            return
        if not self.node.is_behind:
            self._validate()
            self.node.end_validation()
            return
        self.node.skip_validation()
        if not is_ordered(self.val_loader):
            for _ in self.val_loader:  # whose shuffling goes on from there
                pass

    def _validate(self) -> None:
        for batch in self._batches(self.val_loader):
            self.node.no_grad_forward_compute(self._inputs(_input_of(batch)), "val_accuracy")

    def _batches(self, loader: Any) -> Iterable:
        return loader.split(self.batch_size) if isinstance(loader, torch.Tensor) else loader

    def _inputs(self, given: Any) -> Any:
        """Of the right dtype; of a dict those that the model takes."""
        if isinstance(given, Mapping) and self.node.is_root:
            given = {key: given[key] for key in given if key in self.node.input_names}
        if hasattr(given, "__array__") and not isinstance(given, torch.Tensor):
            given = torch.as_tensor(given)
        if self.inputs_dtype is None:
            return given
        return map_tensors(given, lambda tensor: tensor.to(self.inputs_dtype))

    def _configure(self) -> None:
        """Hands to the node what is the node's, before it starts."""
        if self._is_configured:
            return
        self._is_configured = True
        self.node.configure(
            save=self.save,
            lr_scheduler=self.lr_scheduler,
            lr_scheduler_params=self.lr_scheduler_params,
            step_size=self.step_size,
        )
        length, size = batches_in(self.train_loader), getattr(self.train_loader, "batch_size", None)
        if isinstance(self.train_loader, torch.Tensor):
            length, size = len(self.train_loader.split(self.batch_size)), self.batch_size
        self.node.batches_per_epoch = length or self.node.batches_per_epoch
        self.node.batch_size = size
        self._length = length


def _input_of(batch: Any) -> Any:
    return batch[0] if isinstance(batch, tuple | list) else batch
