"""The leaf's part that stays in Python: labels in the root's order, the loss, the accuracy."""

import collections
import copy
import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from ravnest import _C
from ravnest.structure import Structure

_SAME_DATA = (
    "Give Node(labels=…) on the leaf and Trainer(train_loader=…) on the root loaders of the same "
    "data with the same batch_size and drop_last (for validation: test_labels and val_loader)."
)


class DataMismatchError(ValueError):
    """Root and leaf do not draw the same batches."""


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors and arrays of a batch, however it is nested."""
    if isinstance(value, torch.Tensor):
        yield value
    elif hasattr(value, "__array__"):
        yield torch.as_tensor(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


def samples_in(value: Any) -> int | None:
    """The size of the first dimension; None where there is none."""
    return next((x.shape[0] for x in tensors_in(value) if x.dim() > 0), None)


def batches_in(loader: Any) -> int | None:
    """Of an epoch, where that is known; a tensor is yet to be cut."""
    if loader is None or hasattr(loader, "__array__"):
        return None
    try:
        return len(loader)
    except TypeError:
        return None


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same batch with its tensors changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return type(value)({key: map_tensors(item, change) for key, item in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(item, change) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(item, change) for item in value)
    return value


def _sampler_of(loader: Any) -> Any:
    """What draws a DataLoader's order; None where that is not known."""
    batches = getattr(loader, "batch_sampler", None)
    if batches is None:
        return getattr(loader, "sampler", None)
    return batches.sampler if type(batches) is BatchSampler else None


def shuffles_alone(loader: Any) -> bool:
    """A loader whose order comes from the process's random state, which no other shares."""
    sampler = _sampler_of(loader)
    return (
        isinstance(sampler, torch.utils.data.RandomSampler)
        and sampler.generator is None
        and getattr(loader, "generator", None) is None
    )


def is_ordered(loader: Any) -> bool:
    """Every iteration gives the same batches."""
    if isinstance(loader, DataLoader):
        return isinstance(_sampler_of(loader), SequentialSampler)
    return isinstance(loader, torch.Tensor | list | tuple)


def twin(loader: Any) -> Any:
    """A loader that will give what this one would, beside it: its own order, the same dataset. One
    of another kind is taken to give the same each time."""
    if not isinstance(loader, DataLoader):
        return loader
    own = ("sampler", "batch_sampler", "generator")
    shared = {id(value): value for name, value in vars(loader).items() if name not in own}
    shared[id(loader._iterator)] = None  # of workers that stay
    try:
        return copy.deepcopy(loader, shared)
    except Exception:  # a sampler that cannot be copied
        return loader


def _begun(loader: Iterable) -> Iterator:
    """An iteration. The stage's thread, on which a leaf works, is none of Python's: a worker that
    is forked there fails when it ends, and its loader takes that for a loss."""
    if not getattr(loader, "num_workers", 0):
        return iter(loader)
    begun: Future[Iterator] = Future()

    def begin() -> None:
        try:
            begun.set_result(iter(loader))
        except BaseException as error:
            begun.set_exception(error)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    return begun.result()


class _Stream:
    """Batches of a loader by the number of the pass, epoch after epoch.

    The last few are kept, for passes that come again. Where older ones do, because the root was
    started anew from its last checkpoint, the loader is gone through from the beginning.
    """

    def __init__(self, loader: Iterable, keep: int):
        self._fresh = twin(loader)
        self._keep = keep
        self._begin(loader)

    def _begin(self, loader: Iterable) -> None:
        self._batches = _endless(loader)
        self._kept: dict[int, tuple[int, Any]] = {}
        self._next = 0

    def at(self, number: int, epoch: int, samples: int) -> Any:
        """`epoch` is the root's, or below 0 where it does not know."""
        if number < self._next and number not in self._kept:
            self._begin(twin(self._fresh))
        while self._next <= number:
            self._kept[self._next] = next(self._batches)
            self._kept.pop(self._next - self._keep, None)
            self._next += 1
        drawn_in, batch = self._kept[number]
        if 0 <= epoch != drawn_in:
            raise DataMismatchError(
                f"[node] batch {number} is in the root's epoch {epoch + 1}, but in epoch "
                f"{drawn_in + 1} of the leaf's labels: their loaders differ in length. {_SAME_DATA}"
            )
        return batch


def _endless(loader: Iterable) -> Iterator[tuple[int, Any]]:
    for epoch in itertools.count():
        is_empty = True
        for batch in _begun(loader):
            is_empty = False
            yield epoch, batch
        if is_empty:
            raise DataMismatchError("[node] the labels have no batch (left).")


class _Rounds:
    """Batches of a loader by validation and number: an iteration for each validation. Where older
    ones come again, the loader is gone through from the first."""

    def __init__(self, loader: Iterable, keep: int):
        self._fresh = twin(loader)
        self._loader = loader
        self._keep = keep
        self._kept: dict[int, Any] = {}
        self._next = 0
        self._round = -1
        self._rest: Iterator = iter(())

    def at(self, number: int, round_: int, samples: int) -> Any:
        is_gone = number < self._next and number not in self._kept
        if round_ < self._round or (round_ == self._round and is_gone):
            self._rewind(number, round_)
        if round_ != self._round:
            self._begin(round_)
        while self._next <= number:
            self._kept[self._next] = self._draw()
            self._kept.pop(self._next - self._keep, None)
            self._next += 1
        return self._kept[number]

    def _draw(self) -> Any:
        for batch in self._rest:
            return batch
        raise DataMismatchError(
            f"[node] the root validates on more batches than the {self._next} of the leaf's "
            f"test_labels. {_SAME_DATA}"
        )

    def _rewind(self, number: int, round_: int) -> None:
        if shuffles_alone(self._loader):
            raise DataMismatchError(
                f"[node] batch {number} of validation {round_ + 1} came again, and the leaf's "
                f"test_labels come in another order each time: {self._keep} batches are kept. Give "
                "the loader a generator of its own, DataLoader(generator=…)."
            )
        self._loader = twin(self._fresh)
        self._rest = iter(())
        self._round = -1

    def _begin(self, round_: int) -> None:
        for _ in range(1 if is_ordered(self._loader) else max(1, round_ - self._round)):
            if not is_ordered(self._loader):  # to its end, from where the shuffling goes on
                collections.deque(self._rest, maxlen=0)
            self._rest = _begun(self._loader)
        self._round = round_
        self._kept.clear()
        self._next = 0


class _Pieces:
    """A tensor of labels, cut into batches of as many as the passes have samples."""

    def __init__(self, labels: torch.Tensor, keep: int):
        self._labels = labels
        self._keep = keep
        self._kept: dict[int, torch.Tensor] = {}
        self._next = 0
        self._epoch = 0
        self._offset = 0
        self.batch_size: int | None = None  # the root's, but for the batch that ends an epoch
        self.in_epoch: int | None = None  # batches

    def at(self, number: int, epoch: int, samples: int) -> torch.Tensor:
        if number not in self._kept:
            self._find(number, epoch, samples)
            self._kept[number] = self._cut(samples)
            self._kept.pop(number - self._keep, None)
            self._next, self._epoch = number + 1, epoch
        return self._kept[number]

    def _find(self, number: int, epoch: int, samples: int) -> None:
        if number != self._next:  # started in mid-run
            size = self.batch_size or samples  # if need be, those before are taken to be as large
            in_epoch = self.in_epoch or -(-len(self._labels) // size)
            self._offset = (number - max(epoch, 0) * in_epoch) % in_epoch * size
        elif epoch != self._epoch or (epoch < 0 and self._offset == len(self._labels)):
            self._offset = 0

    def _cut(self, samples: int) -> torch.Tensor:
        piece = self._labels[self._offset : self._offset + samples]
        self._offset += len(piece)
        return piece


def _batches(source: Any, keep: int, kind: type) -> "_Stream | _Rounds | _Pieces":
    if hasattr(source, "__array__"):
        source = torch.as_tensor(source)
    if isinstance(source, torch.Tensor):
        return _Pieces(source, keep)
    if not isinstance(source, Iterable):
        raise ValueError(
            f"[node] expected labels to be a DataLoader or a tensor, got {type(source).__name__}."
        )
    return kind(source, keep)


class Leaf:
    """What the last stage asks of Python, on its thread: how good is what the model gave?"""

    def __init__(
        self,
        criterion: Callable | None,
        labels: Any,
        test_labels: Any,
        *,
        keep: int,
        device: torch.device,
        say: Callable[[str], Any] = lambda text: None,
    ):
        self._criterion = criterion
        self._device = device
        self._say = say
        self._counts = True  # right predictions, as far as is known
        self._labels = None if labels is None else _batches(labels, keep, _Stream)
        self._tests = None if test_labels is None else _batches(test_labels, keep, _Rounds)
        self._trained_on: tuple | None = None  # the forms of an output and a batch in training
        # Of the model's outputs, as its file has them; None: a flat tuple.
        self.structure: Structure | None = None
        self.eval_structure: Structure | None = None

    @property
    def scores(self) -> bool:
        """Validation passes are its to score: else the model has its labels among its inputs."""
        return self._criterion is not None or self._tests is not None

    def expect(self, batch_size: int | None, batches_per_epoch: int | None) -> None:
        """Of the root's loader, where they are known."""
        if isinstance(self._labels, _Pieces):
            self._labels.batch_size = batch_size
            self._labels.in_epoch = batches_per_epoch

    def grade(self, header: tuple, outputs: list) -> tuple[float, list[torch.Tensor | None]]:
        """The loss of a training pass, and its gradients with respect to the outputs."""
        number, epoch, samples, _ = header
        batch = self._checked(self._labels.at(number, epoch, samples), number, samples, outputs)
        with torch.enable_grad():
            leaves = [_as_leaf(value) for value in outputs]
            output = _built(self.structure, leaves)
            self._trained_on = self._trained_on or _forms(output, batch)
            loss = self._criterion(output, batch)
            if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
                raise ValueError(
                    f"[node] expected the criterion to return a tensor of one number, got "
                    f"{_described(loss)}."
                )
            wanted = [x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
            found = iter(_gradients(loss, wanted))
        wants = {id(x) for x in wanted}
        return loss.item(), [next(found) if id(x) in wants else None for x in leaves]

    def score(self, header: tuple, outputs: list) -> tuple[float, int, int]:
        """The loss, where output and labels are like those of training; how many predictions are
        right, and of how many."""
        _, round_, samples, number = header
        if self._tests is None:
            raise DataMismatchError(
                "[node] the root validates, but the leaf has no labels for it: give "
                "Node(test_labels=…)."
            )
        if isinstance(self._tests, _Pieces):
            round_ = 0  # every round is the same
        batch = self._checked(self._tests.at(number, round_, samples), number, samples, outputs)
        with torch.no_grad():
            output = _built(self.eval_structure, outputs)
            loss = 0.0
            if self._criterion is not None and _forms(output, batch) == self._trained_on:
                loss = float(self._criterion(output, batch))
            correct, counted = count_correct(output, batch)
        if not counted and self._counts:
            self._counts = False
            self._say(
                "[node] no accuracy is counted: expected class indices as labels, or rows of 0 "
                f"with a single 1, got {_described(_label_of(batch))} for an output like "
                f"{_described(_scores(output))}."
            )
        return loss, correct, counted

    def _checked(self, batch: Any, number: int, samples: int, outputs: list) -> Any:
        found = samples_in(batch)
        if found not in (None, samples, *_predictions(outputs)):
            raise DataMismatchError(
                f"[node] batch {number} has {samples} samples at the root, but {found} in the "
                f"leaf's labels. {_SAME_DATA}"
            )
        if self._device.type == "cpu":
            return batch
        return map_tensors(batch, lambda tensor: tensor.to(self._device))


def count_correct(output: Any, batch: Any) -> tuple[int, int]:
    """How many classes were predicted right, and of how many. The label is the batch's last
    element, or the batch itself: class indices, or one-hot."""
    scores = _scores(output)
    label = _label_of(batch)
    if scores is None or label is None or scores.dim() < 2 or scores.shape[1] < 2:
        return 0, 0
    label = label.to(scores.device)
    if label.dim() == scores.dim() and label.shape[1] == 1:
        label = label.squeeze(1)
    if label.dim() == 1 and len(label) == scores.numel() // max(1, scores.shape[-1]):
        scores = scores.flatten(0, -2)  # as its labels are
    if label.shape != scores.shape:
        label = label.long()
    return _C.count_correct(scores, label)


def _label_of(batch: Any) -> torch.Tensor | None:
    if isinstance(batch, Mapping):
        batch = next((batch[key] for key in ("labels", "label", "target") if key in batch), batch)
    while isinstance(batch, list | tuple) and batch:
        batch = batch[-1]
    return next(tensors_in(batch), None)


def _predictions(outputs: list) -> Iterator[int]:
    """How many there are in a batch, with classes in the second dimension, or in the last: labels
    may come flattened, one for each."""
    for output in outputs:
        if isinstance(output, torch.Tensor) and output.dim() > 1:
            for classes in (1, -1):
                yield math.prod(output.shape) // max(1, output.shape[classes])


def _scores(output: Any) -> torch.Tensor | None:
    if isinstance(output, Mapping) and "logits" in output:
        return output["logits"]
    found = tensors_in(output)
    return next((x for x in found if x.is_floating_point() and x.dim() > 0), None)


def _forms(output: Any, batch: Any) -> tuple:
    return type(output), pytree.tree_structure(batch)


def _as_leaf(value: Any) -> Any:
    """Stages give outputs that are cut off; those that want a gradient say so."""
    if isinstance(value, torch.Tensor) and value.requires_grad:
        return value.detach().requires_grad_()
    return value


def _built(structure: Structure | None, leaves: list) -> Any:
    return tuple(leaves) if structure is None else structure.build(leaves)


def _gradients(loss: torch.Tensor, wanted: list[torch.Tensor]) -> Iterable:
    if not wanted or not loss.requires_grad:
        return [None] * len(wanted)
    return torch.autograd.grad(loss.sum(), wanted, allow_unused=True)


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"one of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"
