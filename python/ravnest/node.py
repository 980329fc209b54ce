"""Node: one provider's stage, as a script sees it."""

import contextlib
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ravnest import _C, ending
from ravnest.display import Display
from ravnest.leaf import Leaf, batches_in, samples_in, twin
from ravnest.optim import Rule
from ravnest.place import Place
from ravnest.structure import Structure

# Milliseconds of a wait in C++, which ends at once when there is something. In between Python looks
# for Ctrl-C, whose handler runs nowhere else, and shows how it goes.
_TICK = 100
_LAST_WORK = 2000  # milliseconds for what the loop is at when a run is ended
_GOODBYE = 10_000  # milliseconds for the others to answer
_LAST_GOODBYE = 500  # where the run has ended, and they may have gone
_NEVER = 2**62  # trainings that have ended
_ACCURACIES = "val_accuracies.txt"
_VALIDATIONS = ("val_accuracy", "accuracy")


class Node:
    """One provider: reads its part of the plan, finds its neighbours, and trains its stage.

    Everything that runs during training is C++; what is here hands over batches, criterion,
    optimizer and labels. The same script runs on every provider: where a method has nothing to do
    for a node's role, it waits for the root or returns.

    Args:
        name: ``'node_0'``, as in the plan in `node_data`; the role follows from it.
        model: In place of the stored sub-model: takes and gives what that one does.
        optimizer: A class of torch's kind, or the name of a native one (``"adam"``). Those of
            `torch.optim` run natively where they can.
        optimizer_params: Its options.
        lr_scheduler: A class of `torch.optim.lr_scheduler`, or a function that makes a scheduler
            for an optimizer. `Trainer` may have it in place of the node.
        lr_scheduler_params: Its options.
        lr_step_on_epoch_change: Step it at every epoch; else at every update.
        criterion: At the leaf: ``criterion(output, batch)`` gives the loss, for the model's own
            output and the whole batch that `labels` yields.
        update_frequency: Batches whose gradients are averaged for one update.
        reduce_factor: Updates between two averagings among clusters; by default at every epoch.
        labels: A loader that yields the root's batches in the root's order, or a tensor.
        test_labels: The same for validation. The label is the last element of a batch: class
            indices, or one-hot; of others no accuracy is counted.
        device: Where the stage computes.
        loss_filename: Gets the loss of every batch, a line each, at the leaf; val_accuracies.txt
            beside it the accuracy of every validation. (Those of a second cluster are called
            losses_1.txt and val_accuracies_1.txt, and so on.)
        compression: Send tensors in half precision.
        average_optim: Average the optimizers' states among clusters, too.
        averaging: ``"overlapped"`` (beside training) or ``"blocking"`` (training waits for it).
        averaging_codec: Of what averaging sends; by default fp16 with `compression`, else none.
        robust: ``"trimmed"``: among three clusters or more, without the largest and the smallest.
        reduce: Who moves what is averaged: ``"grpc"``, or ``"gloo"`` (c10d's, without a codec) for
            machines on one network that is trusted.
        outer: What clusters go on from: the ``"mean"``, or DiLoCo's ``"nesterov"`` step, with
            `outer_lr` and `outer_momentum`.
        streams: Parts of the stage that are averaged in turn, so that less is sent at once; 64
            at most.
        patience: Seconds that a fast cluster waits for a slow one, but for the first averaging,
            which all are waited for, and the last.
        schedule: ``"async"`` (no flush; gradients may be late) or ``"sync"`` (as in one process).
        memory: ``"stash"`` keeps what autograd saved, ``"recompute"`` computes it again.
        threads: Of this provider; by default the machine's cores are shared among its providers.
        codec: Of what travels: none, fp16, bf16, int8, with ``+zstd`` to pack it.
        checkpoint_every: Updates between two checkpoints; 0 keeps none.
        resume: Go on from the last checkpoint where a run was cut off.
        return_within: Seconds that a lost neighbour is waited for.
        max_norm: Clips the norm of the stage's gradients.
        warmup_updates: PipeMare's caution with late gradients, for so many updates.
        compensation: Strength of DC-ASGD's correction of late gradients.
        predict_weights: Forward with the weights that are expected at the backward; for optimizers
            that run natively.
        trusted_network: Allow addresses beyond this machine without encryption.
        quiet: Print nothing but the sentence that ends a run badly.
        log_level: ``"debug"`` (every connection, averaging and checkpoint), ``"info"`` (how it
            goes, whom it waits for), ``"warning"`` (what went wrong) or ``"error"`` (what failed).
        node_data: Where the plan is.
        kwargs: What this version does not know; a warning names it.

    Attributes:
        batches_per_epoch: By which a script's own passes are told apart into epochs: schedulers
            step at each, and clusters average where there is no `reduce_factor`. By default the
            length of `labels`; a `Trainer` sets that of its loader. None where neither is known.
        epoch: Of the passes that are submitted next, for scripts that count themselves. None: by
            `batches_per_epoch`.

    Raises:
        ValueError: If the plan has no such node, or the node lacks what its role needs.
        ravnest.Error: In `start`, if the node's port is taken.
    """

    def __init__(
        self,
        name: str | None = None,
        model: nn.Module | None = None,
        optimizer: type | str | None = None,
        optimizer_params: dict[str, Any] | None = None,
        lr_scheduler: Any = None,
        lr_scheduler_params: dict[str, Any] | None = None,
        lr_step_on_epoch_change: bool = True,
        criterion: Callable[[Any, Any], torch.Tensor] | None = None,
        update_frequency: int = 1,
        reduce_factor: int | None = None,
        labels: Any = None,
        test_labels: Any = None,
        device: torch.device | str | type = torch.device,
        loss_filename: str | os.PathLike = "losses.txt",
        compression: bool = False,
        average_optim: bool = False,
        *,
        averaging: str = "overlapped",
        averaging_codec: str | None = None,
        robust: str | None = None,
        reduce: str = "grpc",
        outer: str = "mean",
        outer_lr: float = 0.7,
        outer_momentum: float = 0.9,
        streams: int = 1,
        patience: float = 10.0,
        schedule: str = "async",
        memory: str = "stash",
        threads: int | None = None,
        codec: str | None = None,
        checkpoint_every: int = 100,
        resume: bool = True,
        return_within: float = 60.0,
        max_norm: float | None = None,
        warmup_updates: int = 0,
        compensation: float = 0.0,
        predict_weights: bool = False,
        trusted_network: bool = False,
        quiet: bool = False,
        log_level: str = "info",
        node_data: str | os.PathLike = "node_data",
        **kwargs: Any,
    ):
        if not isinstance(name, str):
            raise ValueError(f"[node] expected a name such as 'node_0', got {name!r}.")
        if kwargs:
            warnings.warn(
                f"[node] {', '.join(kwargs)}: no option of this version, and left out.",
                stacklevel=2,
            )
        _check_count("update_frequency", update_frequency)
        if reduce_factor is not None:
            _check_count("reduce_factor", reduce_factor)
        self.name = name
        self.place = Place(node_data, name)
        self.criterion = criterion
        self.labels = labels
        self.test_labels = test_labels
        self.update_frequency = update_frequency
        self.reduce_factor = reduce_factor
        self.average_optim = average_optim
        self.device = torch.device("cpu" if device in (None, torch.device) else device)
        self.rule = Rule(
            optimizer, optimizer_params, max_norm=max_norm, warmup_updates=warmup_updates
        )
        self._steps_on_epoch = lr_step_on_epoch_change
        self.rule.schedule(lr_scheduler, lr_scheduler_params, lr_step_on_epoch_change)
        self.display = Display(name, self.node_type, level=log_level, quiet=quiet)
        self._loss_file = Path(loss_filename)
        self.save = False
        self._program = None if model is None else self.place.capture(model)
        self._options = {
            "schedule": schedule,
            "memory": memory,
            "threads": threads,
            "codec": codec or ("fp16" if compression else "none"),
            "reduce_factor": reduce_factor,
            "averaging": averaging,
            "average_optim": average_optim,
            "averaging_codec": averaging_codec
            or ("fp16" if compression and reduce != "gloo" else "none"),
            "robust": robust,
            "reduce": reduce,
            "outer": outer,
            "outer_lr": outer_lr,
            "outer_momentum": outer_momentum,
            "streams": streams,
            "patience": patience,
            "checkpoint_every": checkpoint_every,
            "resume": resume,
            "return_within": int(return_within * 1000),
            "compensation": compensation,
            "predict_weights": predict_weights,
            "trusted_network": trusted_network,
        }
        self._leaf = self._make_leaf() if self.is_leaf else None
        self.batches_per_epoch = batches_in(labels)
        self.batch_size: int | None = None  # of the root's loader, where a Trainer knows it
        self._begin()

    def _begin(self) -> None:
        self._provider: _C.Provider | None = None
        self._is_closed = False
        self._last_status: dict[str, Any] = {}
        self.epoch: int | None = None  # of the data; None: by the passes and batches_per_epoch
        self._passes = 0  # submitted for training
        self._epochs = 0  # begun by them
        self._has_said = False  # what it goes on from
        self._ended_passes = 0  # of them, when the last training was ended
        self._trainings = 0  # that have ended
        self._validations = 0  # that were begun; elsewhere than at the root: waited for
        self._validation_batches: int | None = None  # submitted in the open one

    # Who this is.

    @property
    def node_type(self) -> str:
        """root, stem or leaf. The only node of a cluster is a root, and its leaf as well."""
        return self.place.role

    @property
    def is_root(self) -> bool:
        return self.place.is_root

    @property
    def is_leaf(self) -> bool:
        return self.place.is_leaf

    @property
    def input_names(self) -> list[str]:
        """Of the whole model's inputs, where they have one, at the root."""
        return [name for name, _ in self.place.signature._slots if name]

    @property
    def stages(self) -> int:
        """In the node's cluster."""
        return self.place.stages

    @property
    def status(self) -> dict[str, Any]:
        """How it goes: passes, loss, rate, delay and so on; empty before the start."""
        return self._last_status if self._provider is None else self._provider.status().to_dict()

    # Starting.

    def start(self) -> None:
        """Takes the port, finds the neighbours in the background, and begins. Only the first call
        does something, and all other methods call it.

        Raises:
            ravnest.Error: If the port is taken, naming it.
        """
        if self._provider is not None:
            return
        if self._is_closed:
            raise ValueError(f"[node] {self.name} was closed; make a new Node.")
        provider = _C.Provider(
            **self._options,
            node_data=self.place.node_data,
            name=self.name,
            program=None if self._program is None else self._program._core,
            make_rule=self.rule.make,
            device=str(self.device),
            update_frequency=self.update_frequency,
            save=self.save,
            loss_file=os.fspath(self._loss_file),
            accuracy_file=os.fspath(self._loss_file.with_name(_ACCURACIES)),
            criterion=None if self.criterion is None or not self._leaf else self._leaf.grade,
            score=self._leaf.score if self._leaf and self._leaf.scores else None,
            on_notice=self.display.notice,
            on_averaged=self.display.averaged,
            on_checkpoint=self.display.kept,
            on_saved=self.display.saved,
        )
        if self._leaf is not None:
            source = provider if self._program is None else self._program._core
            self._leaf.structure = _structure(source.out_spec(True))
            self._leaf.eval_structure = _structure(source.out_spec(False))
            self._leaf.expect(self.batch_size, self.batches_per_epoch)
        self._provider = provider
        ending.keep(self)
        provider.start()

    def start_grpc_server(self) -> None:
        """As `start`: the server runs in C++, on threads of its own."""
        self.start()

    def init_server(
        self,
        load_forward_buffer: Any = None,
        load_backward_buffer: Any = None,
        reduce_ring_buffers: Any = None,
        gather_ring_buffers: Any = None,
        latest_weights_buffer: Any = None,
        forward_lock: Any = None,
        backward_lock: Any = None,
        reduce_lock: Any = None,
        gather_lock: Any = None,
        latest_weights_lock: Any = None,
        reduce_iteration: Any = None,
        gather_iteration: Any = None,
    ) -> None:
        """As `start`. Buffers and locks are the C++ core's own; those given are not used."""
        self.start()

    def reset(self) -> None:
        """Removes the checkpoint, so that the next run starts anew; a node that was closed may be
        started again. Trained weights stay.

        Raises:
            ValueError: If the node is running.
        """
        if self._provider is not None:
            raise ValueError(f"[node] {self.name} is running; close it before reset().")
        self.place.checkpoint.unlink(missing_ok=True)
        self._begin()

    def configure(
        self,
        *,
        save: bool = False,
        lr_scheduler: Any = None,
        lr_scheduler_params: dict[str, Any] | None = None,
        step_size: int = 1,
    ) -> None:
        """What a `Trainer` knows of the node's work.

        Raises:
            ValueError: If the node has started and works otherwise, or was told otherwise before.
        """
        if self._provider is not None and (
            lr_scheduler is not None or step_size > 1 or (save and not self.save)
        ):
            raise ValueError(
                f"[node] {self.name} has started: give lr_scheduler, step_size and save to its "
                "first Trainer."
            )
        if step_size > 1:
            if self.update_frequency not in (1, step_size):
                raise ValueError(
                    f"[node] expected one number of batches to an update, got update_frequency="
                    f"{self.update_frequency} and step_size={step_size}."
                )
            self.update_frequency = step_size
        self.rule.schedule(lr_scheduler, lr_scheduler_params, self._steps_on_epoch)
        self.save = self.save or save

    # Passes, at the root. Elsewhere there is nothing to submit.

    def forward_compute(self, tensors: Any = None, **kwargs: Any) -> None:
        """Starts a training pass, as soon as there is room for one more.

        Args:
            tensors: The model's input; a tuple for several, a dict for inputs by name.
            kwargs: Inputs by name.

        On a stem or leaf it returns when the root has ended the training.
        """
        if not self.is_root:
            self.wait_for_training()
            return
        self.start()
        self.end_validation()
        epoch = self._epoch_now()
        self._submit("train", self._inputs(tensors, kwargs), epoch=epoch)
        self._passes += 1
        self._epochs = max(self._epochs, epoch + 1)

    def no_grad_forward_compute(self, tensors: Any = None, output_type: str | None = None) -> Any:
        """A pass without gradients, on the newest weights, in evaluation.

        Args:
            tensors: As in `forward_compute`.
            output_type: ``'val_accuracy'`` counts right predictions at the leaf, against the next
                batch of its `test_labels`; the validation ends with the next call of another kind.
                ``None`` returns the model's output.
        """
        if output_type is not None and output_type not in _VALIDATIONS:
            raise ValueError(
                f"[node] expected output_type to be 'val_accuracy' or None, got {output_type!r}."
            )
        self.start()
        if not self.is_root:
            return None
        inputs = self._inputs(tensors, {})
        if output_type is None:
            self.end_validation()
            self._submit("predict", inputs)
            leaves = self._until(lambda: self._provider.take_prediction(_TICK))
            return self.place.signature.result(leaves)
        number = self._validation_batches or 0
        self._submit("validate", inputs, epoch=self._validations, part=number)
        self._validation_batches = number + 1
        return None

    def check_load_forward_buffer(self) -> None:
        """Returns when all passes that were submitted have begun; the C++ core works on them."""
        if self.is_root and self._provider is not None:
            self._until(lambda: self._provider.wait_until_begun(_TICK))

    def wait_for_backwards(self) -> None:
        """Returns when every pass that was submitted is done and learned from. On a stem or leaf,
        when the root has ended the training."""
        if not self.is_root:
            self.wait_for_training()
            return
        self.start()
        self.end_validation()
        self._until(lambda: self._provider.wait_until_idle(_TICK))

    # Ends.

    def finish_training(self) -> None:
        """At the root: ends a training on all nodes, which then save where they were told to.
        Elsewhere waits for that. `Trainer.train` calls it; other scripts may."""
        if not self.is_root:
            self.wait_for_training()
            return
        self.wait_for_backwards()
        if self._passes > self._ended_passes:
            self._provider.end_training()
            self._ended_passes = self._passes
            self.wait_for_training()

    def wait_for_training(self) -> None:
        """Until the root has ended a training after the last one seen, or the run."""
        self.start()
        seen = self._trainings
        self._trainings = self._until(
            lambda: self._more(self._provider.wait_for_training(seen, _TICK), seen)
        )
        if self._trainings > seen:
            self.display.summary(self._provider.status())
        self._trainings = max(self._trainings, seen)

    def end_validation(self) -> None:
        """At the root: the validation that is open ends after the passes before."""
        if self._validation_batches is not None:
            self._provider.end_validation()
            self._validation_batches = None
            self._validations += 1

    def skip_validation(self) -> None:
        """At the root: counts one that the run had before this process joined it."""
        self._provider.skip_validation()
        self._validations += 1

    @property
    def epochs_begun(self) -> int:
        """At the root: by its training passes."""
        return self._epochs

    @property
    def is_behind(self) -> bool:
        """At the root: the run had its last training pass behind it when this process joined it."""
        return self._passes <= self.status.get("resumed", 0)

    def finish_validation(self) -> float | None:
        """At the root: ends the validation that is open, and waits for it; elsewhere waits for the
        next one's end. Returns the accuracy in percent, or None where nothing was counted."""
        self.start()
        if self.is_root:
            if self._validation_batches is None:
                return None
            self.end_validation()
            seen = self._validations - 1  # one before may be on its way
        else:
            seen = max(self._validations, self._provider.validations_in_training())
            self._validations = seen + 1
        self._until(lambda: self._more(self._provider.wait_for_validation(seen, _TICK), seen))
        _, correct, counted = self._provider.last_validation()
        return 100.0 * correct / counted if counted else None

    def trigger_save_submodel(self) -> None:
        """Writes the stage's weights as they are now, for `model_fusion`."""
        self._wait_for_stage()
        self._provider.save()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The stage's weights as they are now, copied."""
        self._wait_for_stage()
        return self._provider.weights()

    def stop(self, exit_code: int = ending.INTERRUPTED, reason: str = "") -> None:
        """Ends the run on all nodes, at once."""
        if self._provider is None:
            return
        self._provider.stop(exit_code, reason or f"{self.name} ended the run.")
        self._provider.wait_until_over(_LAST_WORK)
        self.leave()

    def leave(self) -> None:
        """Lets go of a run that has ended."""
        self._close_provider(_LAST_GOODBYE)

    def close(self) -> None:
        """Leaves the run well: the root ends it for all, and the others wait for that. Happens by
        itself when the script ends.

        Raises:
            ravnest.Error, StoppedRun: If the run did not end well.
        """
        if self._provider is None:
            self._is_closed = True
            return
        if self.is_root:
            self.finish_training()
        else:
            # The wait throws what ended the run, where that was no good end.
            self._until(lambda: self._more(self._provider.wait_for_training(_NEVER, _TICK), _NEVER))
        self._close_provider(_GOODBYE)

    def __enter__(self) -> "Node":
        self.start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or ending.is_good_end(error):
            self.close()
        else:
            self.stop(*ending.reason_of(self, error))

    def _close_provider(self, timeout: int) -> None:
        self._is_closed = True
        ending.forget(self)
        provider, self._provider = self._provider, None
        if provider is not None:
            # What does not answer any more has been reported before.
            with contextlib.suppress(_C.Error, _C.StoppedRun, ValueError, RuntimeError):
                provider.close(timeout)
            self._last_status = provider.status().to_dict()

    # Inside.

    def _make_leaf(self) -> Leaf:
        if self.criterion is None and not self.place.has_loss:
            raise ValueError(
                f"[node] {self.name} is the leaf and needs criterion=…: a function of the model's "
                "output and a batch of labels."
            )
        if self.criterion is not None and self.labels is None:
            raise ValueError(
                f"[node] {self.name} is the leaf and needs labels=…: the loader of the root's "
                "batches, or a tensor."
            )
        both = self.is_root  # and so iterates the loaders, too
        return Leaf(
            self.criterion,
            twin(self.labels) if both else self.labels,
            twin(self.test_labels) if both else self.test_labels,
            keep=max(4 * self.stages, self.update_frequency) + 8,  # may come again
            device=self.device,
            say=self.display.say,
        )

    def _epoch_now(self) -> int:
        if self.epoch is not None:
            return self.epoch
        if self.batches_per_epoch:
            return self._passes // self.batches_per_epoch
        if self._passes == 0:
            self._warn_of_no_epochs()
        return -1

    def _warn_of_no_epochs(self) -> None:
        missed = []
        if self.rule.scheduler is not None and self.rule.step_on_epoch:
            missed.append("lr_scheduler does not step")
        if self.place.clusters > 1 and self.reduce_factor is None:
            missed.append("clusters average at the end alone")
        if missed:
            warnings.warn(
                "[node] how many batches make an epoch is not known, so that "
                f"{' and '.join(missed)}: set batches_per_epoch of {self.name}, or epoch before "
                "its passes.",
                stacklevel=4,
            )

    def _inputs(self, tensors: Any, kwargs: dict[str, Any]) -> list:
        if isinstance(tensors, Mapping):
            args, kwargs = (), {**tensors, **kwargs}
        elif isinstance(tensors, tuple | list):
            args = tuple(tensors)
        else:
            args = () if tensors is None else (tensors,)
        return self.place.signature.flatten(args, kwargs)

    def _submit(self, purpose: str, inputs: list, epoch: int = 0, part: int = 0) -> None:
        samples = samples_in(inputs) or 1
        self._until(lambda: self._provider.submit(purpose, inputs, samples, epoch, part, _TICK))
        self.display.tick(self._provider.status)

    def _more(self, count: int, seen: int) -> int | None:
        """Something that ends a wait: there are more, or there will be none."""
        return count if count > seen or self._provider.is_over() else None

    def _wait_for_stage(self) -> None:
        """Until the root has begun the run."""
        self.start()
        self._until(lambda: self._provider.wait_until_ready(_TICK))

    def _until(self, attempt: Callable[[], Any]) -> Any:
        """Asks until there is an answer. Between two attempts Python handles signals."""
        while True:
            answer = attempt()
            if not self._has_said:
                self._say_what_is_behind()
            if answer is not None and answer is not False:
                return answer
            self.display.tick(self._provider.status)

    def _say_what_is_behind(self) -> None:
        status = self.status
        self._has_said = status["passes"] > 0
        if status["resumed"]:
            self.display.say(
                f"{self.name}: goes on from its checkpoint, with {status['resumed']} batches "
                "behind it; Node(resume=False) begins anew."
            )


def _structure(spec: str) -> Structure | None:
    return Structure.parse(spec) if spec else None


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"[node] expected {name} to be a whole number from 1, got {value!r}.")
