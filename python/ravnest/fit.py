"""fit: one call that trains a model on providers of this machine, or of a server."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ravnest.batches import call, find_last_size, is_one_shot, peek, split, too_small
from ravnest.capture import capture
from ravnest.job import Place
from ravnest.local_pool import local_pool
from ravnest.optim import find_native, find_native_scheduler
from ravnest.program import Program
from ravnest.run import Run
from ravnest.seed import current_seed, set_seed
from ravnest.training import Callback, Training

__all__ = ["Run", "fit"]

_WORDS = {  # as providers know them
    "schedule": ("async", "sync"),
    "memory": ("stash", "recompute"),
    "averaging": ("overlapped", "blocking"),
    "robust": ("none", "trimmed"),
    "reduce": ("grpc", "gloo"),
    "outer": ("mean", "nesterov"),
}


def fit(
    model: nn.Module | Program,
    train_loader: Iterable,
    *,
    criterion: Callable[[Any, Any], torch.Tensor] | None = None,
    optimizer: type | str = "adam",
    optimizer_params: Mapping[str, Any] | None = None,
    lr_scheduler: type | str | None = None,
    lr_scheduler_params: Mapping[str, Any] | None = None,
    lr_step_on_epoch_change: bool = True,
    epochs: int = 1,
    val_loader: Iterable | None = None,
    providers: int | None = None,
    server: str | None = None,
    token: str | None = None,
    name: str = "fit",
    job: int | None = None,
    clusters: int | None = None,
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
    on_submit: Callable[[int], Any] | None = None,
    quiet: bool = False,
) -> Run:
    """Trains a model: cut into stages, each held by a process without Python, on this machine or on
    the machines that have joined a server.

    Loss and model are captured as one graph; batches are streamed to the providers.

    Args:
        model: Stays as it is; the trained weights are those of the result. Or a Program that was
            captured with its loss, without a criterion.
        train_loader: Yields ``(inputs, target)``; inputs are a tensor, a tuple of positional
            inputs or a dict of keyword inputs.
        criterion: ``criterion(output, target)`` gives the loss.
        optimizer: A class of `torch.optim` or a name: sgd, adam, adamw, nadam, rmsprop, adagrad.
        lr_scheduler: A class of `torch.optim.lr_scheduler` or its name: StepLR, MultiStepLR,
            ExponentialLR, CosineAnnealingLR, OneCycleLR, LinearLR.
        lr_step_on_epoch_change: Step it at every epoch; else at every update.
        epochs: Times that the loader is gone through.
        val_loader: Validates after every epoch.
        providers: Processes in all (3 by default); each has a stage of its cluster. With a server:
            how many the job waits for, and takes at most; by default it takes whoever is free.
        server: ``"host:port"`` of a server (`ravnest serve`) whose providers train it.
        token: Of a requester (`ravnest token --role requester`); needed the first time that this
            user speaks with the server. Without it, the variable RAVNEST_TOKEN counts.
        name: What the server calls the job.
        job: Comes back to this job of the server, whose requester was cut off: what it has learned
            from is passed over, so that model, options and the order of batches must be as before.
        clusters: Copies of the model that train side by side, each on its own batches (they are
            dealt out in turn), and average their weights: 1 by default. With a server, 0 is as many
            as there are machines for, three in each or more; who joins while it trains makes them
            more. That is the default there, unless the schedule is ``"sync"``.
        schedule: ``"async"`` (no flush; gradients may be late) or ``"sync"`` (as in one process).
        micro_batches: Parts that a batch is cut into, so that a synchronous pipeline fills; no
            batch may have fewer samples.
        update_frequency: Batches whose gradients are averaged for one update.
        memory: ``"stash"`` keeps what autograd saved, ``"recompute"`` computes it again.
        codec: Of what travels: none, fp16, bf16, int8, with ``+zstd`` to pack it.
        threads: Of each provider; by default the machine's cores are shared among them.
        reduce_factor: Updates between two averagings among clusters; by default at every epoch.
        averaging, average_optim, averaging_codec, robust, reduce, outer, outer_lr,
            outer_momentum, streams, patience: How clusters average, as on `Node`.
        seed: As `set_seed`.
        folder: Keeps checkpoints, and gets the trained sub-models; a run that was cut off goes on
            from there, after Ctrl-C too. With a server, that is `job`.
        checkpoint_every: Updates between two checkpoints, where there is a folder or a server.
        callbacks: Called with the run after every epoch, when all of it is learned from; when a
            run goes on, once more for the last epoch that it has behind it.
        on_submit: Called with the number that the server has given the job: who has it can come
            back to the job.
        quiet: Print nothing.

    Raises:
        ValueError: If the model cannot be captured, or optimizer and scheduler are not native.
        ravnest.Error: If the server is not there, or a provider was lost and did not come back.
        RuntimeError: If the job fails or is cancelled.
    """
    if server is None:
        providers = 3 if providers is None else providers
    if clusters is None:
        clusters = 1 if server is None or schedule == "sync" else 0
    counts = {
        "epochs": epochs,
        "micro_batches": micro_batches,
        "update_frequency": update_frequency,
        "streams": streams,
        **({} if clusters == 0 else {"clusters": clusters}),
        **({} if providers is None else {"providers": providers}),
        **({} if reduce_factor is None else {"reduce_factor": reduce_factor}),
    }
    for count, value in counts.items():
        _check_count(count, value)
    words = {
        "schedule": schedule,
        "memory": memory,
        "averaging": averaging,
        "robust": robust or "none",
        "reduce": reduce,
        "outer": outer,
    }
    for word, value in words.items():
        _check_word(word, value)
    if providers is not None and clusters > providers:
        raise ValueError(
            f"[fit] expected a provider or more for each cluster, got {providers} for {clusters}."
        )
    if server is not None and (folder is not None or reduce != "grpc" or threads is not None):
        raise ValueError(
            "[fit] expected no folder, threads or reduce='gloo' with a server: it keeps the "
            "checkpoints, and its providers say how they compute."
        )
    if server is None and clusters == 0:
        raise ValueError(
            "[fit] expected clusters to be a whole number of 1 or more without a server, got 0: "
            "it is its machines that come and go."
        )
    if server is None and job is not None:
        raise ValueError("[fit] expected a server whose job it is, got none.")
    if seed is not None:
        set_seed(seed)
    rule = _rule(optimizer, optimizer_params, lr_scheduler, lr_scheduler_params)
    options = {
        **rule,
        "step_on_update": not lr_step_on_epoch_change,
        "schedule": schedule,
        "memory": memory,
        "codec": codec,
        "update_frequency": update_frequency * micro_batches,
        "warmup_updates": warmup_updates,
        "compensation": compensation,
        "max_norm": max_norm,
        "predict_weights": predict_weights,
        "reduce_factor": reduce_factor or 0,
        "averaging": averaging,
        "averaging_codec": averaging_codec,
        "robust": words["robust"],
        "outer": outer,
        "outer_lr": outer_lr,
        "outer_momentum": outer_momentum,
        "streams": streams,
        "patience": patience,
        "average_optim": average_optim,
        "checkpoint_every": checkpoint_every if folder is not None or server is not None else 0,
        **({"reduce": reduce} if server is None else {}),
    }
    _check_loaders(train_loader, val_loader, micro_batches)
    inputs, target = split(peek(train_loader))
    args, kwargs = call(inputs)
    program = _captured(model, args, kwargs, criterion, target)
    submitted = {
        "name": name,
        "seed": current_seed(),
        "clusters": clusters,
        "least": providers or 1,
        "most": providers or 0,
        "batch": _batch_size((*args, target), kwargs),
        "optimizer": rule["optimizer"],
        "training": json.dumps({**options, "seed": current_seed()}),
        "one_result": folder is None,
    }
    if server is not None:
        token = token or os.environ.get("RAVNEST_TOKEN", "")
        opened = contextlib.nullcontext(Place(server, token, job, on_submit))
    else:
        opened = local_pool(folder, {"providers": providers, "clusters": clusters}, threads)
    with opened as place:
        return Training(
            program,
            place,
            submitted,
            epochs,
            micro_batches=micro_batches,
            callbacks=callbacks,
            quiet=quiet,
        ).run(train_loader, val_loader)


def _check_word(name: str, value: Any) -> None:
    if value not in _WORDS[name]:
        raise ValueError(
            f"[fit] expected {name} to be one of {', '.join(_WORDS[name])}, got {value!r}."
        )


def _captured(model: Any, args: tuple, kwargs: dict, criterion: Any, target: Any) -> Program:
    if isinstance(model, Program) != (criterion is None):
        raise ValueError(
            "[fit] expected a criterion with a module, or a Program captured with its loss alone."
        )
    return model if criterion is None else capture(model, args, kwargs, criterion, target=target)


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"[fit] expected {name} to be a whole number of 1 or more, got {value!r}.")


def _check_loaders(train_loader: Any, val_loader: Any, micro_batches: int) -> None:
    for name, loader in (("train_loader", train_loader), ("val_loader", val_loader)):
        if is_one_shot(loader):
            raise ValueError(
                f"[fit] expected {name} to give its batches again and again, got an iterator, "
                "which gives them once: pass a DataLoader, or a list."
            )
    last = find_last_size(train_loader)
    if last is not None and last < micro_batches:
        raise ValueError(too_small(last, micro_batches))


def _rule(optimizer: Any, params: Any, scheduler: Any, scheduler_params: Any) -> dict[str, str]:
    native = find_native(optimizer, dict(params or {}))
    if native is None:
        raise ValueError(
            f"[fit] the providers run without Python, and {optimizer!r} with {params!r} has no "
            "native form. Use a name (sgd, adam, adamw, nadam, rmsprop, adagrad), or Node and "
            "Trainer, which run any optimizer."
        )
    rule = {"optimizer": native[0], "optimizer_options": json.dumps(native[1])}
    if scheduler is not None:
        native = find_native_scheduler(scheduler, dict(scheduler_params or {}))
        if native is None:
            raise ValueError(
                f"[fit] the providers run without Python, and {scheduler!r} has no native form. "
                "Use Node and Trainer, which run any scheduler."
            )
        rule |= {"scheduler": native[0], "scheduler_options": json.dumps(native[1])}
    return rule


def _batch_size(args: tuple, kwargs: dict) -> int:
    leaves = pytree.tree_leaves((args, kwargs))
    return next((x.shape[0] for x in leaves if isinstance(x, torch.Tensor) and x.dim()), 0)
