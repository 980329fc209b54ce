"""A model whose trained weights say how many updates are behind each of its blocks."""

import torch
from local_server import BATCHES, CLASSES, FEATURES, Fit, make_tensors
from torch import nn

import ravnest

BLOCKS, WIDTH = 6, 256
RATE = 2.0**-6  # a power of two: sums of it are exact


class Block(nn.Module):
    """A layer beside a column of counts: the gradient of its own count is 1 in every batch."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)
        self.count = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.tanh(self.layer(x[:, :-1])), x[:, -1:] + self.count], 1)


class Counted(nn.Module):
    def __init__(self, seed: int = 1):
        super().__init__()
        torch.manual_seed(seed)
        widths = [FEATURES, *[WIDTH] * (BLOCKS - 1), CLASSES]
        self.blocks = nn.Sequential(*map(Block, widths, widths[1:]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(torch.cat([x, 0.0 * x[:, :1]], 1))


def criterion(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The loss of the classes, and a nought with the counts' gradients."""
    counts = output[:, -1].mean()
    return nn.functional.cross_entropy(4.0 * output[:, :-1], target) + counts - counts.detach()


def updates(state: dict[str, torch.Tensor]) -> list[float]:
    """Of each block; those of clusters that averaged are means."""
    return [-state[f"blocks.{i}.count"].item() / RATE for i in range(BLOCKS)]


def final_loss(state: dict[str, torch.Tensor]) -> float:
    model = Counted()
    model.load_state_dict(state, strict=True)
    with torch.no_grad():
        return criterion(model(make_tensors()[0]), make_tensors()[1]).item()


def training(seed: int = 1) -> dict:
    """As options of fit."""
    return {
        "model": Counted(seed),
        "criterion": criterion,
        "optimizer": "sgd",
        "optimizer_params": {"lr": RATE},
    }


def check_counted(fit: Fit) -> ravnest.Run:
    """Every batch was told once, and where one cluster trained it is in the weights once.

    Of several they are means: hardly one is missing that a lost stage had not averaged yet.
    """
    run = fit.result()
    batches = fit.epochs * BATCHES
    assert len(run.history["loss"]) == batches
    if fit.clusters == 1:
        assert updates(run.state_dict()) == [batches] * BLOCKS
    else:
        assert 0.9 * batches / fit.clusters < min(updates(run.state_dict()))
        assert max(updates(run.state_dict())) <= batches
    return run
