"""What a training leaves: weights, and how it went."""

import os

import torch

from ravnest import _C


class Run:
    """A training: its trained weights and how it went.

    Attributes:
        history: Lists by name: ``"loss"`` of every batch; of every epoch ``"val_loss"``,
            ``"val_accuracy"`` (percent), ``"seconds"`` of training, to its last loss, and
            ``"samples_per_second"``.
        epoch: Epochs that have ended.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {
            name: []
            for name in ("loss", "val_loss", "val_accuracy", "samples_per_second", "seconds")
        }
        self.epoch = 0
        self._state: dict[str, torch.Tensor] | None = None

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The trained weights, with the names, shapes and order of the model's own."""
        if self._state is None:
            raise ValueError("[fit] the training has not ended: there are no trained weights yet.")
        return self._state

    def plot(self, path: str | os.PathLike) -> None:
        """Draws losses and accuracies into a .png or .svg file."""
        _C.plot_run(self.history["loss"], self.history["val_accuracy"], os.fspath(path))

    def __repr__(self) -> str:
        losses = self.history["loss"]
        last = f", last loss {losses[-1]:.4g}" if losses else ""
        return f"<ravnest.Run of {self.epoch} epochs, {len(losses)} batches{last}>"
