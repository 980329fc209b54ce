"""A training of fit: deals batches out to a job, validates, shows it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ravnest import _C
from ravnest.batches import call, pieces, size_of, split, too_small
from ravnest.display import Board
from ravnest.epochs import Epochs
from ravnest.job import Job, Place
from ravnest.program import Program
from ravnest.run import Run

Callback = Callable[[Run], Any]


class Training:
    """One call of fit, once the model is captured."""

    def __init__(
        self,
        program: Program,
        place: Place,
        options: dict[str, Any],
        epochs: int,
        *,
        micro_batches: int = 1,
        callbacks: Sequence[Callback] = (),
        quiet: bool = False,
    ):
        self._program = program
        self._epochs = epochs
        self._parts = micro_batches
        self._callbacks = callbacks
        self._board = Board(quiet=quiet)
        self._run = Run()
        self._ends = Epochs(self._run)
        self._job = Job(place, options, micro_batches, self._run, self._ends, self._board)
        self._count = 0  # batches of this epoch
        self._unproven: int | None = None  # an epoch that is behind us, perhaps not validated

    def run(self, train_loader: Iterable, val_loader: Iterable | None) -> Run:
        try:
            if self._job.start(self._program):
                for epoch in range(self._epochs):
                    self._train(train_loader, val_loader, epoch)
                self._end_unproven(val_loader)
                self._job.wait_for_all("wait_until_idle")  # every loss is there
                self._ends.settle()
                self._job.finish()
            self._run._state = self._job.fetch()
        except _C.StoppedRun as error:
            self._job.stop()
            raise RuntimeError(f"[fit] a provider failed: {error}") from None
        except BaseException:
            self._job.stop()
            raise
        finally:
            self._job.close()
            self._board.clear()
        return self._run

    def _train(self, loader: Iterable, val_loader: Iterable | None, epoch: int) -> None:
        """Deals an epoch's batches out to the clusters, but for those that are behind us."""
        self._ends.begin()
        is_behind_us = True
        self._count = 0
        for batch in loader:
            requester, is_behind = self._job.take_turn()
            if is_behind:
                self._unproven = None  # who has learned from this epoch has validated the last
            else:
                self._end_unproven(val_loader)
            if requester is None:
                continue
            inputs, target = split(batch)
            args, kwargs = call(inputs)
            leaves = self._program._train_signature.flatten((*args, target), kwargs)
            if not is_behind:
                is_behind_us = False
                self._ends.add_batch(epoch, size_of(leaves))
            self._submit(requester, "train", leaves, epoch, self._parts)
            self._show(epoch, loader)
        if not is_behind_us:
            self._end_epoch(val_loader, epoch)
            return
        self._unproven = epoch
        if val_loader is not None:  # draws from the random state as the run before did
            next(iter(val_loader), None)

    def _submit(self, requester: Any, purpose: str, leaves: list, epoch: int, parts: int) -> int:
        size = size_of(leaves)
        parts = min(parts, size) if size else 1
        if parts != self._parts and purpose == "train":
            raise ValueError(too_small(size, self._parts))
        for part, piece in enumerate(pieces(leaves, size, parts)):
            count = size_of(piece)
            weight = count * parts / size if size else 1.0
            self._job.wait(
                lambda timeout, piece=piece, count=count, part=part, weight=weight: (
                    requester.submit(purpose, piece, count, epoch, part, parts, weight, timeout)
                )
            )
        return size

    def _end_unproven(self, val_loader: Iterable | None) -> None:
        if self._unproven is not None:
            epoch, self._unproven = self._unproven, None
            self._end_epoch(val_loader, epoch)

    def _end_epoch(self, val_loader: Iterable | None, epoch: int) -> None:
        history = self._run.history
        self._ends.close(epoch)
        if val_loader is not None or self._callbacks:
            self._job.wait_for_all("wait_until_idle")  # all of the epoch is learned from
            self._ends.settle()
        if val_loader is not None:
            judge = self._job.requesters()[0]
            total = 0
            for batch in val_loader:
                inputs, target = split(batch)
                args, kwargs = call(inputs)
                leaves = self._program._eval_signature.flatten((*args, target), kwargs)
                total += self._submit(judge, "validate", leaves, epoch, 1)
            judge.end_validation()
            loss, correct, counted = self._job.wait(judge.wait_for_validation)
            history["val_loss"].append(loss / max(total, 1))
            if counted:
                history["val_accuracy"].append(100.0 * correct / counted)
        self._run.epoch = epoch + 1
        for callback in self._callbacks:
            callback(self._run)

    def _show(self, epoch: int, loader: Any) -> None:
        self._count += 1
        if not self._run.history["loss"]:
            return
        batches = len(loader) if hasattr(loader, "__len__") else None

        def head() -> str:
            accuracy = self._run.history["val_accuracy"]
            providers = self._job.line()
            return (
                f"epoch {epoch + 1}/{self._epochs}, batch {self._count}"
                f"{f'/{batches}' if batches else ''}, loss {self._run.history['loss'][-1]:.4g}"
                f"{f', accuracy {accuracy[-1]:.2f} %' if accuracy else ''}"
                f"{f', {providers}' if providers else ''}"
            )

        share = (epoch + self._count / batches) / self._epochs if batches else 0.0
        self._board.tick(head, self._job.lines(), share)
