"""capture: a PyTorch model of any form becomes a Program."""

import contextlib
import inspect
import linecache
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

from ravnest import _C
from ravnest.program import Program
from ravnest.structure import register_types

_NO_TARGET = object()


def capture(
    model: nn.Module | torch.jit.ScriptModule | str | os.PathLike,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    loss: Callable[[Any, Any], torch.Tensor] | None = None,
    *,
    target: Any = _NO_TARGET,
) -> Program:
    """Captures a model as a Program: a flat list of ATen calls that runs without Python.

    Args:
        model: an ``nn.Module``; a scripted, traced or ``torch.jit.load``ed module; or the path of
            a TorchScript ``.pt`` file of your own or of a ``.pt2`` file.
        args: example positional inputs. Shapes and dtypes matter, values do not; the first
            dimension is the batch and may vary later. Without examples an ``nn.Module`` is
            scripted, and shapes stay unknown.
        kwargs: example keyword inputs.
        loss: captured with the model. The Program then takes the target as last positional
            argument and returns ``(loss(output, target), output)``.
        target: an example target for ``loss``; by default the last of ``args``.

    The model, its mode and the random state stay as they are; the Program has its own copy of the
    weights. Both modes are captured: where the eval forward differs in structure, the Program
    holds a second graph.
    """
    args = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    kwargs = dict(kwargs or {})
    if isinstance(model, (str, os.PathLike)):
        return _from_file(Path(model), args, kwargs, loss)
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"[capture] expected an nn.Module, a TorchScript module or a path, "
            f"got {type(model).__name__}."
        )
    if loss is None and target is not _NO_TARGET:
        raise ValueError("[capture] expected a loss to go with the target, got none.")
    if loss is not None and target is _NO_TARGET:
        if not args:
            raise ValueError(
                "[capture] expected an example target: pass target=…, or make it the last of args."
            )
        *args, target = args
        args = tuple(args)
    if isinstance(model, torch.jit.ScriptModule) and loss is not None:
        raise ValueError(
            "[capture] a loss cannot be captured with a scripted module; pass the nn.Module."
        )
    if isinstance(model, torch.jit.ScriptModule):
        return _from_script(model, args, kwargs, frozenset())
    if not args and not kwargs:
        if loss is not None:
            raise ValueError("[capture] expected example inputs to capture a loss with, got none.")
        return _from_script(_script(model), args, kwargs, _transient_buffers(model))
    return _from_module(model, args, kwargs, loss, target)


def _from_file(path: Path, args: tuple, kwargs: dict, loss: Callable | None) -> Program:
    if loss is not None:
        raise ValueError(f"[capture] a loss cannot be added to the file '{path}'; load the module.")
    if not path.is_file():
        raise FileNotFoundError(f"[capture] expected a model's file, got '{path}'.")
    return Program(_noted(_C.load_model(os.fspath(path), args, kwargs), args, kwargs))


def _from_script(
    model: torch.jit.ScriptModule, args: tuple, kwargs: dict, transient: frozenset[str]
) -> Program:
    core = _read_script(model.save_to_buffer(), args, kwargs, transient)
    return Program(core, model.training)


def _read_script(
    data: bytes, args: tuple, kwargs: dict, transient: frozenset[str]
) -> "_C.BoundProgram":
    return _noted(_C.read_torchscript(data, args, kwargs, set(transient)), args, kwargs)


def _noted(core: "_C.BoundProgram", args: tuple, kwargs: dict) -> "_C.BoundProgram":
    note = core.metadata.get("import_note")
    if note and (args or kwargs):
        warnings.warn(f"[capture] {note}", stacklevel=5)
    return core


def _script(model: nn.Module) -> torch.jit.ScriptModule:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.script(model)
    except Exception as error:
        raise ValueError(
            f"[capture] without example inputs the model has to be scripted, and TorchScript "
            f"refused it: {_first_line(error)} Pass example inputs: capture(model, args=(x,))."
        ) from error


def _transient_buffers(model: nn.Module) -> frozenset[str]:
    return frozenset(
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        for name in module._non_persistent_buffers_set
    )


class _Flat(nn.Module):
    """The model, and perhaps its loss, taking flat leaves; names get the prefix `model.`."""

    def __init__(self, model: nn.Module, loss: Callable | None, spec: pytree.TreeSpec):
        super().__init__()
        self.model = model
        self.loss = loss
        self._spec = spec

    def forward(self, *leaves):
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        if self.loss is None:
            output = self.model(*args, **kwargs)
            register_types(output)
            return output
        *args, target = args
        output = self.model(*args, **kwargs)
        register_types(output)
        return self.loss(output, target), output


def _from_module(
    model: nn.Module, args: tuple, kwargs: dict, loss: Callable | None, target: Any
) -> Program:
    names = _argument_names(model, args, kwargs)
    if loss is not None:
        args = (*args, target)
        names.append("target")
    register_types((args, kwargs))
    leaves, spec = pytree.tree_flatten((args, kwargs))
    leaves, sizes = _dynamic_batch(leaves)
    metadata = {"arguments": ",".join(names)} | ({"loss": "true"} if loss is not None else {})
    wrapper = _Flat(model, loss, spec)
    with tempfile.TemporaryDirectory(prefix="ravnest-") as folder, _as_it_was(model):
        files = []
        training = model.training
        for mode in ("train", "eval"):
            if mode == "eval" or not training:
                model.train(mode == "train")
            files.append(os.path.join(folder, mode + ".pt2"))
            exported = _export(wrapper, leaves, sizes)
            torch.export.save(exported, files[-1])
        try:
            core = _C.read_capture(
                *files,
                "model.",
                pytree.treespec_dumps(spec),
                _leaf_names(args, kwargs, names),
                list(model.state_dict()),
                metadata,
            )
        except ValueError as error:
            # The file is ours and gone; the place in it is what helps.
            text = str(error)
            for file in files:
                text = text.replace(f"[graph] '{file}', ", "[capture] the model cannot be used: ")
            raise ValueError(text) from None
    if sizes is not None and not core.symbols:
        _warn_static(leaves)
    return Program(core, training)


def _argument_names(model: nn.Module, args: tuple, kwargs: dict) -> list[str]:
    """Names of the positional arguments, where forward has names for them."""
    parameters = inspect.signature(model.forward).parameters.values()
    named = [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return named[: len(args)] if len(named) >= len(args) else []


def _leaf_names(args: tuple, kwargs: dict, names: list[str]) -> list[str]:
    """A readable name for every leaf: the argument's, with the path inside it."""
    found = []
    for path, _ in pytree.tree_flatten_with_path((args, kwargs))[0]:
        first, top, *rest = path
        in_args = first.idx == 0
        head = names[top.idx] if in_args and names else f"input_{top.idx}" if in_args else top.key
        parts = [str(head), *(str(getattr(k, "key", getattr(k, "idx", k))) for k in rest)]
        found.append("_".join(parts))
    return found


def _dynamic_batch(leaves: list) -> tuple[list, tuple | None]:
    """Marks the first dimension of every tensor as free; export fixes those that cannot be.

    An example of one sample is doubled: export takes sizes of 1 for constants.
    """
    batches = [x.shape[0] for x in leaves if isinstance(x, torch.Tensor) and x.dim() > 0]
    if not batches or batches[0] == 0:
        return leaves, None

    def is_batched(leaf: Any) -> bool:
        return isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == batches[0]

    if batches[0] == 1:
        leaves = [torch.cat([x, x]) if is_batched(x) else x for x in leaves]
        batches[0] = 2
    auto = torch.export.Dim.AUTO
    free = [isinstance(x, torch.Tensor) and x.dim() > 0 for x in leaves]
    return leaves, tuple({0: auto} if is_free else None for is_free in free)


def _export(wrapper: _Flat, leaves: list, sizes: tuple | None) -> torch.export.ExportedProgram:
    try:
        return _quiet_export(wrapper, leaves, sizes)
    except Exception as error:
        if sizes is None:
            raise _explained(error) from error
        try:
            exported = _quiet_export(wrapper, leaves, None)
        except Exception:
            raise _explained(error) from error
        _warn_static(leaves, error)
        return exported


def _quiet_export(
    wrapper: _Flat, leaves: list, sizes: tuple | None
) -> torch.export.ExportedProgram:
    with warnings.catch_warnings():
        # Recurrent layers keep a list of their weights, which export mistakes for a change.
        warnings.filterwarnings("ignore", message=".*_flat_weights.*")
        return torch.export.export(
            wrapper,
            tuple(leaves),
            strict=False,
            dynamic_shapes=None if sizes is None else (sizes,),
        )


def _warn_static(leaves: list, error: Exception | None = None) -> None:
    batch = next(x.shape[0] for x in leaves if isinstance(x, torch.Tensor) and x.dim() > 0)
    reason = f" ({_first_line(error)})" if error is not None else ""
    warnings.warn(
        f"[capture] the model fixes the batch to {batch}, so that the Program takes this batch "
        f"alone{reason}. Take sizes from the input, as in x.shape[0], to keep it free.",
        stacklevel=4,
    )


def _explained(error: Exception) -> ValueError:
    place = _user_line(error)
    where = f" at {place}" if place else ""
    text = f"{type(error).__name__} {error}"
    depends_on_data = any(word in text for word in ("ata-dependent", "DataDependent", "unbacked"))
    advice = (
        " Control flow that depends on the data has to be written with torch.where or moved out "
        "of the model."
        if depends_on_data
        else ""
    )
    return ValueError(
        f"[capture] the model cannot be captured{where}: {_first_line(error)}{advice}"
    )


def _user_line(error: Exception) -> str | None:
    """The innermost line of the user's own code that led to the error."""
    own = (os.path.dirname(torch.__file__), os.path.dirname(__file__), "<")
    found = None
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not path.startswith(own):
            code = linecache.getline(path, trace.tb_lineno).strip()
            found = f"{os.path.basename(path)}:{trace.tb_lineno} (`{code}`)"
        trace = trace.tb_next
    return found


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    return line if line.endswith(".") else line + "."


@contextlib.contextmanager
def _as_it_was(model: nn.Module) -> Iterator[None]:
    """Puts modes and the random state back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)
        for module, training in modes:
            module.training = training
