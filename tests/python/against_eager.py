"""One training step of a Program beside the same step of eager PyTorch."""

import copy
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

SEED = 1234


def leaves(tree: Any) -> list:
    """The tensors (and other leaves) of any nesting, in the order torch flattens it."""
    if dataclasses.is_dataclass(tree) and not isinstance(tree, Mapping):
        tree = [getattr(tree, f.name) for f in dataclasses.fields(tree)]
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]


def structure(tree: Any) -> Any:
    """The nesting alone: types and keys, with `*` where the leaves are."""
    if dataclasses.is_dataclass(tree) and not isinstance(tree, Mapping):
        fields = {f.name: structure(getattr(tree, f.name)) for f in dataclasses.fields(tree)}
        return type(tree), fields
    if isinstance(tree, Mapping):
        return type(tree), {key: structure(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree), [structure(item) for item in tree]
    return "*"


@dataclass
class Step:
    """What a step leaves behind, detached and copied."""

    structure: Any
    tensors: dict[str, torch.Tensor | None] = field(default_factory=dict)


def record(output, loss, parameters: Mapping, buffers: Mapping) -> Step:
    step = Step(structure(output))
    for i, leaf in enumerate(leaves(output)):
        step.tensors[f"output {i}"] = leaf
    step.tensors["loss"] = loss
    for name, parameter in parameters.items():
        step.tensors[f"gradient of {name}"] = parameter.grad
    for name, buffer in buffers.items():
        step.tensors[f"buffer {name}"] = buffer
    for name, tensor in step.tensors.items():
        if isinstance(tensor, torch.Tensor):
            step.tensors[name] = tensor.detach().clone()
    return step


def difference(expected, actual, tolerance: float) -> str | None:
    """None where equal (bit for bit with tolerance 0), else what differs."""
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        equal = expected is actual or (expected is not None and expected == actual)
        return None if equal else f"expected {expected}, got {actual}"
    if (expected.shape, expected.dtype) != (actual.shape, actual.dtype):
        return (
            f"expected {expected.dtype} {tuple(expected.shape)}, "
            f"got {actual.dtype} {tuple(actual.shape)}"
        )
    if torch.equal(expected, actual):
        return None
    error = (expected.double() - actual.double()).norm() / expected.double().norm()
    return None if error <= tolerance else f"relative error {error:.3g}"


def differences(expected: Step, actual: Step, tolerance: float = 0.0) -> list[str]:
    found = []
    if expected.structure != actual.structure:
        found.append(f"structure: expected {expected.structure}, got {actual.structure}")
    for name in expected.tensors.keys() | actual.tensors.keys():
        if name not in actual.tensors or name not in expected.tensors:
            found.append(f"{name}: {'extra' if name in actual.tensors else 'missing'}")
            continue
        what = difference(expected.tensors[name], actual.tensors[name], tolerance)
        if what:
            found.append(f"{name}: {what}")
    return sorted(found)


def assert_same(expected: Step, actual: Step, tolerance: float = 0.0) -> None:
    found = differences(expected, actual, tolerance)
    assert not found, "\n".join(found[:10]) + f"\n({len(found)} differences)"


def eager_step(model: torch.nn.Module, args=(), kwargs=None, *, loss: Callable) -> Step:
    """`loss(output)` is what is differentiated. The mode is the model's own."""
    torch.manual_seed(SEED)
    output = model(*args, **(kwargs or {}))
    value = loss(output)
    model.zero_grad(set_to_none=True)
    value.backward()
    return record(output, value, dict(model.named_parameters()), dict(model.named_buffers()))


class Rewound:
    """A Program whose weights return to what they were before every step.

    Recorded are the model's own names: weights with two names have one here.
    """

    def __init__(self, program, model: torch.nn.Module):
        self.program = program
        self._parameters = [name for name, _ in model.named_parameters()]
        self._buffers = [name for name, _ in model.named_buffers()]
        weights = {**program.parameters(), **program.buffers()}
        self._start = {name: tensor.detach().clone() for name, tensor in weights.items()}

    def rewind(self) -> None:
        parameters, buffers = self.program.parameters(), self.program.buffers()
        with torch.no_grad():
            for name, tensor in {**parameters, **buffers}.items():
                tensor.copy_(self._start[name])
        for parameter in parameters.values():
            parameter.grad = None

    def step(self, args=(), kwargs=None, *, training, stages=None, loss=None) -> Step:
        """Without `loss` the Program's first output is the loss it was captured with.

        `stages` of the program run in its place; the gradients land in both.
        """
        self.rewind()
        runner = self.program if stages is None else stages
        runner.train() if training else runner.eval()
        torch.manual_seed(SEED)
        output = runner(*args, **(kwargs or {}))
        value, output = output if loss is None else (loss(output), output)
        value.backward()
        parameters, buffers = self.program.parameters(), self.program.buffers()
        return record(
            output,
            value,
            {name: parameters[name] for name in self._parameters},
            {name: buffers[name] for name in self._buffers},
        )


def check(program, model, args=(), kwargs=None, *, loss, modes=(True, False)):
    """A Program captured without its loss against its model: whole, and cut at every place.

    In training, a submodule that was in eval mode at capture stays in it.
    """
    rewound = Rewound(program, model)
    modes_at_capture = [module.training for module in model.modules()]
    for training in modes:
        reference = copy.deepcopy(model)
        for module, mode in zip(reference.modules(), modes_at_capture, strict=True):
            module.training = training and mode
        expected = eager_step(reference, args, kwargs, loss=loss)
        options = {"training": training, "loss": loss}
        assert_same(expected, rewound.step(args, kwargs, **options))
        for cut in range(1, program.num_ops):
            actual = rewound.step(args, kwargs, stages=program.slice([cut]), **options)
            found = differences(expected, actual)
            assert not found, f"cut at {cut}, training={training}: " + "; ".join(found[:10])
    rewound.rewind()
