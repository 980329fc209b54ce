"""fit: one call that trains a model on providers of this machine."""

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ravnest import _C
from ravnest.capture import capture
from ravnest.display import Board
from ravnest.optim import find_native, find_native_scheduler
from ravnest.planning import clusterize
from ravnest.program import Program
from ravnest.seed import current_seed, set_seed
from ravnest.utils import model_fusion

_TICK = 200  # milliseconds in C++ before Python looks for Ctrl-C and shows how it goes
_GOODBYE = 10_000  # milliseconds, and for the providers to end
_INTERRUPTED = 130
_ALWAYS = ("--save", "--quiet", "--lines", "--with-parent")  # said to every provider

Callback = Callable[["Run"], Any]


class Run:
    """A training: its trained weights and how it went.

    Attributes:
        history: Lists by name: ``"loss"`` of every batch; of every epoch ``"val_loss"``,
            ``"val_accuracy"`` (percent), ``"samples_per_second"`` and ``"seconds"``.
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


def fit(
    model: nn.Module,
    train_loader: Iterable,
    *,
    criterion: Callable[[Any, Any], torch.Tensor],
    optimizer: type | str = "adam",
    optimizer_params: Mapping[str, Any] | None = None,
    lr_scheduler: type | str | None = None,
    lr_scheduler_params: Mapping[str, Any] | None = None,
    lr_step_on_epoch_change: bool = True,
    epochs: int = 1,
    val_loader: Iterable | None = None,
    providers: int = 3,
    clusters: int = 1,
    schedule: str = "async",
    micro_batches: int = 1,
    update_frequency: int = 1,
    memory: str = "stash",
    codec: str = "none",
    threads: int | None = None,
    max_norm: float | None = None,
    warmup_updates: int = 0,
    compensation: float = 0.0,
    predict_weights: bool = False,
    reduce_factor: int | None = None,
    averaging: str = "overlapped",
    average_optim: bool = False,
    averaging_codec: str = "none",
    robust: str | None = None,
    reduce: str = "grpc",
    outer: str = "mean",
    outer_lr: float = 0.7,
    outer_momentum: float = 0.9,
    streams: int = 1,
    patience: float = 10.0,
    seed: int | None = None,
    folder: str | os.PathLike | None = None,
    checkpoint_every: int = 100,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> Run:
    """Trains a model on this machine: cut into `providers` stages, each a process without Python.

    Loss and model are captured as one graph; batches are streamed to the providers.

    Args:
        model: Stays as it is; the trained weights are those of the result.
        train_loader: Yields ``(inputs, target)``; inputs are a tensor, a tuple of positional
            inputs or a dict of keyword inputs.
        criterion: ``criterion(output, target)`` gives the loss.
        optimizer: A class of `torch.optim` or a name: sgd, adam, adamw, nadam, rmsprop, adagrad.
        lr_scheduler: A class of `torch.optim.lr_scheduler` or its name: StepLR, MultiStepLR,
            ExponentialLR, CosineAnnealingLR, OneCycleLR, LinearLR.
        lr_step_on_epoch_change: Step it at every epoch; else at every update.
        epochs: Times that the loader is gone through.
        val_loader: Validates after every epoch.
        providers: Processes in all; each has a stage of its cluster.
        clusters: Copies of the model that train side by side, each on its own batches (they are
            dealt out in turn), and average their weights.
        schedule: ``"async"`` (no flush; gradients may be late) or ``"sync"`` (as in one process).
        micro_batches: Parts that a batch is cut into, so that a synchronous pipeline fills.
        update_frequency: Batches whose gradients are averaged for one update.
        memory: ``"stash"`` keeps what autograd saved, ``"recompute"`` computes it again.
        codec: Of what travels: none, fp16, bf16, int8, with ``+zstd`` to pack it.
        threads: Of each provider; by default the machine's cores are shared among them.
        reduce_factor: Updates between two averagings among clusters; by default at every epoch.
        averaging, average_optim, averaging_codec, robust, reduce, outer, outer_lr,
            outer_momentum, streams, patience: How clusters average, as on `Node`.
        seed: As `set_seed`.
        folder: Keeps plan and checkpoints; a run that was cut off goes on from there, after Ctrl-C
            too.
        checkpoint_every: Updates between two checkpoints.
        callbacks: Called with the run after every epoch.
        quiet: Print nothing.

    Raises:
        ValueError: If the model cannot be captured, or optimizer and scheduler are not native.
        ravnest.Error: If a provider was lost and did not come back.
    """
    counts = {
        "epochs": epochs,
        "providers": providers,
        "clusters": clusters,
        "micro_batches": micro_batches,
        "update_frequency": update_frequency,
        "streams": streams,
        **({} if reduce_factor is None else {"reduce_factor": reduce_factor}),
    }
    for name, value in counts.items():
        _check_count(name, value)
    if clusters > providers:
        raise ValueError(
            f"[fit] expected a provider or more for each cluster, got {providers} for {clusters}."
        )
    if seed is not None:
        set_seed(seed)
    flags = [
        *_rule_flags(optimizer, optimizer_params, lr_scheduler, lr_scheduler_params),
        *([] if lr_step_on_epoch_change else ["--step-on-update"]),
        *_flags("--schedule", schedule, "--memory", memory, "--codec", codec),
        *_flags("--update-frequency", update_frequency * micro_batches),
        *_flags("--warmup-updates", warmup_updates, "--compensation", compensation),
        *_flags("--checkpoint-every", checkpoint_every if folder is not None else 0),
        *([] if max_norm is None else _flags("--max-norm", max_norm)),
        *([] if threads is None else _flags("--threads", threads)),
        *(["--predict-weights"] if predict_weights else []),
        *_flags("--reduce-factor", reduce_factor or 0, "--averaging", averaging),
        *_flags("--averaging-codec", averaging_codec, "--robust", robust or "none"),
        *_flags("--outer", outer, "--outer-lr", outer_lr, "--outer-momentum", outer_momentum),
        *_flags("--reduce", reduce, "--streams", streams, "--patience", patience),
        *(["--keep-stopped"] if folder is not None else []),
        *(["--average-optim"] if average_optim else []),
    ]
    inputs, target = _split(_peek(train_loader))
    args, kwargs = _call(inputs)
    program = capture(model, args, kwargs, criterion, target=target)
    with _workplace(folder) as place:
        _plan(program, (*args, target), kwargs, providers, clusters, place)
        return _Training(program, place, epochs, micro_batches, flags, callbacks, quiet).run(
            train_loader, val_loader
        )


class _Feed:
    """What goes to one cluster, and what comes of it."""

    def __init__(self, place: Path, root: str, run: Run):
        self.root = root
        self.done = _C.read_progress(os.fspath(place), root) or 0  # passes, of a run cut off
        self.dealt = 0  # batches
        self._run = run
        self._batch_loss = 0.0
        self.requester = _C.Requester(os.fspath(place), root, self._on_result)

    def _on_result(
        self, _: int, epoch: int, samples: int, part: int, parts: int, weight: float, loss: float
    ) -> None:
        self._batch_loss += loss * weight / parts
        if part + 1 == parts:
            self._run.history["loss"].append(self._batch_loss)
            self._batch_loss = 0.0


class _Training:
    """The processes of one call of fit, and what they say."""

    def __init__(
        self,
        program: Program,
        place: Path,
        epochs: int,
        micro_batches: int,
        flags: list[str],
        callbacks: Sequence[Callback],
        quiet: bool,
    ):
        self._program = program
        self._place = place
        self._epochs = epochs
        self._parts = micro_batches
        self._flags = flags
        self._callbacks = callbacks
        self._board = Board(quiet=quiet)
        self._run = Run()
        self._processes: dict[str, subprocess.Popen] = {}
        self._lines: dict[str, str] = {}  # what each provider last said of itself
        nodes = _nodes(place)
        self._names = [_name(node) for node in nodes]
        self._feeds = [_Feed(place, _name(node), self._run) for node in nodes if node["stage"] == 0]
        self._turns = itertools.cycle(self._feeds)

    def run(self, train_loader: Iterable, val_loader: Iterable | None) -> Run:
        try:
            self._start()
            for feed in self._feeds:
                feed.requester.start_at(feed.done)
            for epoch in range(self._epochs):
                if self._train(train_loader, epoch):
                    self._end_epoch(val_loader, epoch)
            for feed in self._feeds:
                feed.requester.end_training()
            for feed in self._feeds:
                self._wait(feed.requester.wait_for_training)
            for feed in self._feeds:
                feed.requester.close(_GOODBYE)
            self._join()
        except KeyboardInterrupt:
            self._stop("interrupted")
            raise
        except _C.StoppedRun as error:
            self._stop(str(error))
            raise RuntimeError(f"[fit] a provider failed: {error}") from None
        except BaseException:
            self._stop("the requester failed")
            raise
        finally:
            self._board.clear()
        trained = self._place / "trained" / "trained_state_dict.pt"
        self._run._state = model_fusion(0, self._place, trained)
        return self._run

    def _start(self) -> None:
        command = _find_command()
        feeds = {feed.root: feed for feed in self._feeds}
        for name in self._names:
            flags = _flags("--name", name, "--node-data", self._place, "--seed", current_seed())
            if name in feeds:
                flags += _flags("--requester", f"requester@{feeds[name].requester.address}")
            self._processes[name] = subprocess.Popen(
                [command, "provider", *flags, *self._flags, *_ALWAYS],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C is ours to pass on
            )
            threading.Thread(target=self._listen, args=(name,), daemon=True).start()

    def _listen(self, name: str) -> None:
        with self._processes[name].stdout as said:
            for line in said:
                self._lines[name] = line.rstrip()

    def _train(self, loader: Iterable, epoch: int) -> bool:
        """Deals an epoch's batches out to the clusters, but for those that a resumed run has behind
        it. False where it has the whole epoch behind it."""
        started = time.monotonic()
        samples = 0
        self._count = 0
        for batch, feed in zip(loader, self._turns):  # noqa: B905 - turns never end
            is_behind = feed.dealt * self._parts < feed.done
            feed.dealt += 1
            if is_behind:
                continue
            inputs, target = _split(batch)
            args, kwargs = _call(inputs)
            leaves = self._program._train_signature.flatten((*args, target), kwargs)
            samples += self._submit(feed, "train", leaves, epoch, self._parts)
            self._show(epoch, loader)
        self._epoch_started, self._epoch_samples = started, samples
        return samples > 0

    def _submit(self, feed: "_Feed", purpose: str, leaves: list, epoch: int, parts: int) -> int:
        size = next((x.shape[0] for x in leaves if isinstance(x, torch.Tensor) and x.dim()), 0)
        parts = min(parts, size) if size else 1
        if parts != self._parts and purpose == "train":
            raise ValueError(
                f"[fit] a batch of {size} samples cannot be cut into {self._parts} micro-batches."
            )
        for part, piece in enumerate(_pieces(leaves, size, parts)):
            count = next((x.shape[0] for x in piece if isinstance(x, torch.Tensor) and x.dim()), 0)
            weight = count * parts / size if size else 1.0
            self._wait(
                lambda timeout, piece=piece, count=count, part=part, weight=weight: (
                    feed.requester.submit(
                        purpose, piece, count, epoch, part, parts, weight, timeout
                    )
                )
            )
        return size

    def _end_epoch(self, val_loader: Iterable | None, epoch: int) -> None:
        history = self._run.history
        if val_loader is not None:
            for feed in self._feeds:
                self._wait(feed.requester.wait_until_idle)  # all of the epoch is learned from
            judge = self._feeds[0]
            total = 0
            for batch in val_loader:
                inputs, target = _split(batch)
                args, kwargs = _call(inputs)
                leaves = self._program._eval_signature.flatten((*args, target), kwargs)
                total += self._submit(judge, "validate", leaves, epoch, 1)
            judge.requester.end_validation()
            loss, correct, counted = self._wait(judge.requester.wait_for_validation)
            history["val_loss"].append(loss / max(total, 1))
            if counted:
                history["val_accuracy"].append(100.0 * correct / counted)
        seconds = time.monotonic() - self._epoch_started
        history["seconds"].append(seconds)
        history["samples_per_second"].append(self._epoch_samples / max(seconds, 1e-9))
        self._run.epoch = epoch + 1
        for callback in self._callbacks:
            callback(self._run)

    def _wait(self, step: Callable[[int], Any]) -> Any:
        """Tries until it gives something; between two tries Ctrl-C comes through."""
        while True:
            result = step(_TICK)
            if result:
                return result
            for name, process in self._processes.items():
                if process.poll() not in (None, 0):
                    said = (process.stderr.read() if process.stderr else "").strip()
                    raise RuntimeError(
                        f"[fit] {name} ended with exit code {process.returncode}: {said}"
                    )

    def _stop(self, reason: str) -> None:
        for feed in self._feeds:
            with contextlib.suppress(Exception):
                feed.requester.stop(_INTERRUPTED, reason)
        self._join(2.0)

    def _join(self, patience: float = _GOODBYE / 1000) -> None:
        deadline = time.monotonic() + patience
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stderr:
                process.stderr.close()

    def _show(self, epoch: int, loader: Any) -> None:
        self._count += 1
        if not self._run.history["loss"]:
            return
        batches = len(loader) if hasattr(loader, "__len__") else None

        def head() -> str:
            accuracy = self._run.history["val_accuracy"]
            return (
                f"epoch {epoch + 1}/{self._epochs}, batch {self._count}"
                f"{f'/{batches}' if batches else ''}, loss {self._run.history['loss'][-1]:.4g}"
                f"{f', accuracy {accuracy[-1]:.2f} %' if accuracy else ''}"
            )

        share = (epoch + self._count / batches) / self._epochs if batches else 0.0
        self._board.tick(head, [self._lines.get(name, name) for name in self._names], share)


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"[fit] expected {name} to be a whole number of 1 or more, got {value!r}.")


def _flags(*pairs: Any) -> list[str]:
    return [str(each) for each in pairs]


def _rule_flags(optimizer: Any, params: Any, scheduler: Any, scheduler_params: Any) -> list[str]:
    native = find_native(optimizer, dict(params or {}))
    if native is None:
        raise ValueError(
            f"[fit] the providers run without Python, and {optimizer!r} with {params!r} has no "
            "native form. Use a name (sgd, adam, adamw, nadam, rmsprop, adagrad), or Node and "
            "Trainer, which run any optimizer."
        )
    flags = _flags("--optimizer", native[0], "--optimizer-options", json.dumps(native[1]))
    if scheduler is not None:
        native = find_native_scheduler(scheduler, dict(scheduler_params or {}))
        if native is None:
            raise ValueError(
                f"[fit] the providers run without Python, and {scheduler!r} has no native form. "
                "Use Node and Trainer, which run any scheduler."
            )
        flags += _flags("--scheduler", native[0], "--scheduler-options", json.dumps(native[1]))
    return flags


def _split(batch: Any) -> tuple[Any, Any]:
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise ValueError(
            f"[fit] expected a loader that yields (inputs, target), got {type(batch).__name__}"
            + (f" of {len(batch)}." if isinstance(batch, (tuple, list)) else ".")
        )
    return batch[0], batch[1]


def _call(inputs: Any) -> tuple[tuple, dict]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, (tuple, list)) else ((inputs,), {})


def _peek(loader: Iterable) -> Any:
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


def _pieces(leaves: list, size: int, parts: int) -> Iterator[list]:
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


@contextlib.contextmanager
def _workplace(folder: str | os.PathLike | None) -> Iterator[Path]:
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="ravnest-fit-") as temporary:
        yield Path(temporary)


def _plan(
    program: Program, args: tuple, kwargs: dict, providers: int, clusters: int, place: Path
) -> None:
    """Cuts the model for this machine, unless the folder has a run that was cut off."""
    nodes = _nodes(place)
    roots = [_name(node) for node in nodes if node["stage"] == 0]
    is_same = len(nodes) == providers and len(roots) == clusters
    if is_same and any(_C.read_progress(os.fspath(place), root) for root in roots):
        return
    pool = {
        str(i): {
            "IP": f"127.0.0.1:{port}",
            "benchmarks": {"ram": 1024, "bandwidth": 10_000, "speed": 50},
        }
        for i, port in enumerate(_free_ports(providers))
    }
    path = place / "node_configs.json"
    path.write_text(json.dumps(pool, indent=1))
    batch = next(
        (x.shape[0] for x in pytree.tree_leaves(args) if isinstance(x, torch.Tensor) and x.dim()),
        None,
    )
    clusterize(
        program, args, kwargs, clusters=clusters, nodes=path, out=place, batch=batch, verbose=False
    )


def _name(node: dict) -> str:
    return f"node_{node['id']}"


def _nodes(place: Path) -> list[dict]:
    names = [path.stem for path in (place / "nodes").glob("node_*.json")]
    return sorted(
        (_C.read_node(os.fspath(place), name) for name in names),
        key=lambda node: (node["cluster"], node["stage"]),
    )


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _find_command() -> str:
    beside = Path(sys.executable).with_name("ravnest")
    found = os.fspath(beside) if beside.exists() else shutil.which("ravnest")
    if found is None:
        raise FileNotFoundError("[fit] expected the command `ravnest` beside Python, got none.")
    return found
