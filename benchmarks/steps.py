"""The training steps that are measured: eager PyTorch and the same as a Program."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import zoo

import ravnest


@dataclass
class Work:
    name: str
    make: Callable[[], torch.nn.Module]
    inputs: torch.Tensor
    target: torch.Tensor
    loss: Callable
    time_target: float
    memory_target: float = 1.02


def works() -> list[Work]:
    torch.manual_seed(0)
    images, classes = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    tokens = torch.randint(0, 1000, (16, 129))
    digits = torch.rand(64, 1, 8, 8)
    digit_labels = F.one_hot(torch.randint(0, 10, (64,)), 10).float()
    return [
        Work(
            "resnet18",
            lambda: zoo.resnet18(num_classes=10, small_input=True),
            images,
            classes,
            F.cross_entropy,
            time_target=1.02,
        ),
        # The 224x224 stem on the same images: an eighth of the arithmetic for the same
        # calls, so what a call costs shows more.
        Work(
            "resnet18_stem7",
            lambda: zoo.resnet18(num_classes=10),
            images,
            classes,
            F.cross_entropy,
            time_target=1.02,
        ),
        Work(
            "gpt",
            lambda: zoo.GPT(layers=6, width=256, heads=8, seq=128, vocab=1000),
            tokens[:, :-1].contiguous(),
            tokens[:, 1:].contiguous(),
            zoo.next_token_loss,
            time_target=1.02,
        ),
        Work("cnn", zoo.CNN_Net, digits, digit_labels, F.mse_loss, time_target=0.90),
    ]


@dataclass
class Step:
    """One forward and backward; `clear` drops the gradients of the step before."""

    run: Callable[[], None]
    clear: Callable[[], None]

    def __call__(self) -> None:
        self.clear()
        self.run()


def clearer(parameters) -> Callable[[], None]:
    parameters = list(parameters)

    def clear():
        for parameter in parameters:
            parameter.grad = None

    return clear


def eager_step(work: Work) -> Step:
    torch.manual_seed(0)
    model = work.make().train()

    def run():
        output = model(work.inputs)
        loss = work.loss(output, work.target)
        loss.backward()

    return Step(run, clearer(model.parameters()))


def program_step(work: Work) -> Step:
    torch.manual_seed(0)
    program = ravnest.capture(
        work.make().train(), args=(work.inputs,), loss=work.loss, target=work.target
    )
    program.train()

    def run():
        loss, output = program(work.inputs, work.target)  # noqa: RUF059 - held as in eager
        loss.backward()

    return Step(run, clearer(program.parameters().values()))
