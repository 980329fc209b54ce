"""Program: a captured model that runs, trains and is cut in C++."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from ravnest import _C
from ravnest.structure import Structure


class _Callable:
    """What Programs and their stages share: a mode, weights, and a call like the model's."""

    def __init__(self, training: bool):
        self.training = training

    def train(self, mode: bool = True):
        """Switches to training (or, with ``False``, to evaluation); returns itself."""
        self.training = bool(mode)
        return self

    def eval(self):
        """Switches to evaluation; returns itself."""
        return self.train(False)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """All parameters and persistent buffers by name, as ``nn.Module.state_dict`` has them."""
        raise NotImplementedError

    def load_state_dict(self, state: Mapping[str, torch.Tensor], strict: bool = True) -> None:
        """Copies values in by name; with ``strict`` the names must be just these."""
        own = self.state_dict()
        missing = sorted(own.keys() - state.keys())
        unexpected = sorted(state.keys() - own.keys())
        if strict and (missing or unexpected):
            raise ValueError(
                f"[program] expected the names of this model; missing: {missing or 'none'}, "
                f"unexpected: {unexpected or 'none'}."
            )
        for name, tensor in own.items():
            if name in state and state[name].shape != tensor.shape:
                raise ValueError(
                    f"[program] weight '{name}' expected shape {tuple(tensor.shape)}, "
                    f"got {tuple(state[name].shape)}."
                )
        with torch.no_grad():
            for name, tensor in own.items():
                if name in state:
                    tensor.copy_(state[name])


class Program(_Callable):
    """A model as a flat list of ATen calls, with its weights. Made by `capture` or `load`."""

    def __init__(self, core: "_C.BoundProgram", training: bool = True):
        super().__init__(training)
        self._core = core

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Program":
        """Reads a .pt2 file; nothing in it is unpickled, and weights are mapped, not copied."""
        return cls(_C.read_pt2(os.fspath(path)))

    def save(self, path: str | os.PathLike) -> None:
        """Writes a .pt2 file that `torch.export.load` opens; it appears whole or not at all."""
        self._core.save(os.fspath(path))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model and returns its own output structure."""
        signature = self._signature
        return signature.result(self._core.run(signature.flatten(args, kwargs), self.training))

    @property
    def _signature(self) -> "_Signature":
        return self._train_signature if self.training else self._eval_signature

    @cached_property
    def _train_signature(self) -> "_Signature":
        return _Signature(self._core, True)

    @cached_property
    def _eval_signature(self) -> "_Signature":
        return _Signature(self._core, False)

    def parameters(self) -> dict[str, torch.Tensor]:
        """Parameters by their original names. Gradients land in their ``.grad``."""
        return self._core.parameters()

    def buffers(self) -> dict[str, torch.Tensor]:
        """Buffers by their original names, persistent or not."""
        return self._core.buffers()

    def state_dict(self) -> dict[str, torch.Tensor]:
        return self._core.state_dict()

    def to(self, device: torch.device | str) -> "Program":
        """Moves the weights; what the model itself creates is then made there too."""
        self._core.to(str(device))
        return self

    @property
    def num_ops(self) -> int:
        """Number of ops; the model can be cut before each but the first."""
        return self._core.num_ops

    def slice(self, stages: int | Sequence[int | str]) -> "Stages":
        """Cuts the model: into this many parts of about equal cost, or before these ops.

        A cut is an op's index, the name of a value it computes (`str(program)` shows them), or
        the path of a module, which means its first op.
        """
        if isinstance(stages, int):
            if stages < 1:
                raise ValueError(f"[program] expected 1 stage or more, got {stages}.")
            cuts = self._core.near_equal_cuts(stages)
        else:
            cuts = [self._cut_index(cut) for cut in stages]
        return Stages(self, self._core.slice(cuts), cuts)

    def _cut_index(self, cut: int | str) -> int:
        if isinstance(cut, int):
            if cut < 0:
                raise ValueError(f"[program] expected cuts of 1 or more, got {cut}.")
            return cut
        labels = self._core.op_labels()
        for index, (name, _) in enumerate(labels):
            if name == cut:
                return index
        for index, (_, module) in enumerate(labels):
            if module == cut or module.startswith(cut + "."):
                return index
        raise ValueError(f"[program] expected the name of a value or module, got '{cut}'.")

    def __str__(self) -> str:
        return self._core.text()

    def __repr__(self) -> str:
        mode = "training" if self.training else "evaluation"
        return f"<ravnest.Program of {self.num_ops} ops, in {mode}>"


class Stages(_Callable, Sequence):
    """The parts of a cut Program: a sequence of Programs, callable like the whole.

    The parts share the whole's tensors, so that gradients land in the same ``.grad``. Calling
    the sequence routes what crosses the cuts; a part by itself takes and gives flat values.
    """

    def __init__(self, whole: Program, core: "_C.BoundStages", cuts: list[int]):
        super().__init__(whole.training)
        self._whole = whole
        self._core = core
        self._parts = [Program(core.stage(i), whole.training) for i in range(len(core))]
        self.cuts = list(cuts)

    def train(self, mode: bool = True) -> "Stages":
        for part in self._parts:
            part.train(mode)
        return super().train(mode)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        signature = self._whole._train_signature if self.training else self._whole._eval_signature
        return signature.result(self._core.run(signature.flatten(args, kwargs), self.training))

    def parameters(self) -> dict[str, torch.Tensor]:
        return self._whole.parameters()

    def buffers(self) -> dict[str, torch.Tensor]:
        return self._whole.buffers()

    def state_dict(self) -> dict[str, torch.Tensor]:
        return self._whole.state_dict()

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index):
        return self._parts[index]

    def __iter__(self) -> Iterator[Program]:
        return iter(self._parts)

    def __repr__(self) -> str:
        return f"<ravnest.Stages: {len(self)} parts, cut at {self.cuts}>"


class _Signature:
    """Between a call in Python and the flat lists of a graph."""

    def __init__(self, core: "_C.BoundProgram", training: bool):
        self._inputs = core.inputs(training)
        in_spec = core.in_spec(training)
        out_spec = core.out_spec(training)
        self._outputs = Structure.parse(out_spec) if out_spec else None
        if in_spec:
            positional, keywords = Structure.parse(in_spec).children
        else:
            leaves = [Structure(None, None, []) for _ in self._inputs]
            positional = Structure("builtins.tuple", None, leaves)
            keywords = Structure("builtins.dict", [], [])
        names = core.metadata.get("arguments", "").split(",")
        count = len(positional.children)
        names = [name for name in names if name and name not in keywords.keys][:count]
        names += [None] * (count - len(names))
        self._slots = list(
            zip(names + keywords.keys, positional.children + keywords.children, strict=True)
        )

    def flatten(self, args: tuple, kwargs: dict) -> list:
        """The call's leaves in the graph's order; raises ValueError where it does not fit."""
        given = self._bind(args, kwargs)
        leaves = []
        for (name, structure), value in zip(self._slots, given, strict=True):
            try:
                leaves += structure.flatten(value)
            except ValueError as error:
                raise ValueError(f"[program] argument '{name or '?'}': {error}") from None
        for (name, is_literal, literal), leaf in zip(self._inputs, leaves, strict=True):
            if is_literal and leaf != literal:
                raise ValueError(
                    f"[program] argument '{name}' was fixed to {literal!r} when the model was "
                    f"captured, got {leaf!r}. Capture the model again with the other value."
                )
        return leaves

    def _bind(self, args: tuple, kwargs: dict) -> list:
        if len(args) > len(self._slots):
            raise ValueError(f"[program] expected {self._describe()}, got {len(args)}.")
        given = list(args)
        rest = dict(kwargs)
        for name, _ in self._slots[len(args) :]:
            if name is None or name not in rest:
                given_names = [f"{len(args)} positional"] * bool(args) + sorted(kwargs)
                raise ValueError(
                    f"[program] expected {self._describe()}, got "
                    f"{', '.join(given_names) or 'none'}."
                )
            given.append(rest.pop(name))
        if rest:
            raise ValueError(f"[program] expected {self._describe()}, got also {sorted(rest)}.")
        return given

    def _describe(self) -> str:
        names = ", ".join(name or f"argument {i + 1}" for i, (name, _) in enumerate(self._slots))
        return f"{len(self._slots)} argument{'s' * (len(self._slots) != 1)} ({names})"

    def result(self, leaves: list) -> Any:
        if self._outputs is None:
            return tuple(leaves)
        return self._outputs.build(leaves)
