"""The zoo as test cases: how to make each model, its batches, its loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import zoo
from zoo.bert import bert_inputs, small_bert


@dataclass(frozen=True)
class Batch:
    args: tuple = ()
    kwargs: dict | None = None
    target: Any = None

    @property
    def keywords(self) -> dict:
        return self.kwargs or {}


@dataclass(frozen=True)
class Case:
    """`loss(output, target)` is captured with the model; where it is None the test
    itself takes `loss_of(output, target)`.

    Captured at the first of `batches`, run at both. `cuts` says how many of the
    positions are tried one by one: 1 is every one, 7 every seventh.
    """

    name: str
    make: Callable[[], torch.nn.Module]
    batch: Callable[[int, torch.Generator], Batch]
    loss: Callable | None = F.cross_entropy
    loss_of: Callable | None = None
    batches: tuple[int, int] = (4, 7)
    cuts: int = 1
    script: bool = False

    def build(self) -> torch.nn.Module:
        torch.manual_seed(0)
        return self.make()

    def make_batch(self, size: int) -> Batch:
        return self.batch(size, torch.Generator().manual_seed(size))

    def loss_for(self, batch: Batch) -> Callable:
        function = self.loss or self.loss_of
        return lambda output: function(output, batch.target)


def images(channels, side, classes):
    def batch(size, random):
        x = torch.randn(size, channels, side, side, generator=random)
        return Batch((x,), target=torch.randint(0, classes, (size,), generator=random))

    return batch


def digits(size, random):
    x = torch.rand(size, 1, 8, 8, generator=random)
    labels = torch.randint(0, 10, (size,), generator=random)
    return Batch((x,), target=F.one_hot(labels, 10).float())


def pixels(size, random):
    x = torch.randn(size, 3, 16, 16, generator=random)
    return Batch((x,), target=torch.randint(0, 2, (size, 16, 16), generator=random))


def text(vocab, seq):
    def batch(size, random):
        tokens = torch.randint(0, vocab, (size, seq + 1), generator=random)
        return Batch((tokens[:, :-1].contiguous(),), target=tokens[:, 1:].contiguous())

    return batch


def sentences(size, random):
    tokens = torch.randint(0, 50, (size, 9), generator=random)
    return Batch((tokens,), target=torch.randint(0, 5, (size,), generator=random))


def bert_batch(size, random):
    return Batch(kwargs=bert_inputs(size, generator=random))


def houses(size, random):
    inputs = {
        "photo": torch.randn(size, 3, 12, 12, generator=random),
        "facts": torch.randn(size, 6, generator=random),
    }
    target = {
        "price": torch.randn(size, generator=random),
        "rooms": torch.randint(0, 8, (size,), generator=random),
    }
    return Batch((inputs,), target=target)


def rows(size, random):
    x = torch.randn(size, 12, generator=random)
    return Batch((x,), target=torch.randint(0, 4, (size,), generator=random))


CASES = [
    Case("cnn", zoo.CNN_Net, digits, loss=F.mse_loss),
    Case(
        "resnet18",
        lambda: zoo.resnet18(num_classes=10, width=8, small_input=True),
        images(3, 32, 10),
    ),
    Case("resnet50", lambda: zoo.resnet50(num_classes=10, width=8), images(3, 64, 10), cuts=3),
    Case(
        "inception",
        lambda: zoo.inception_v3(num_classes=10, width=0.07, small_input=True),
        images(3, 75, 10),
        loss=zoo.inception_loss,
        cuts=7,
    ),
    Case(
        "gpt",
        lambda: zoo.GPT(vocab=50, seq=16, layers=2, heads=4, width=32, dropout=0.1),
        text(50, 16),
        loss=zoo.next_token_loss,
    ),
    Case("bert", small_bert, bert_batch, loss=None, loss_of=lambda output, _: output.loss),
    Case("lstm", lambda: zoo.LSTMClassifier(vocab=50, width=16, hidden=24), sentences),
    Case("unet", lambda: zoo.UNet(width=8, depth=3), pixels),
    Case(
        "vit",
        lambda: zoo.ViT(image=16, patch=4, width=32, layers=2, heads=4),
        images(3, 16, 10),
    ),
    Case("two_in_two_out", zoo.HouseNet, houses, loss=zoo.house_loss),
    Case(
        "branch_on_training",
        zoo.TwoFacedNet,
        rows,
        loss=None,
        loss_of=F.cross_entropy,
        script=True,
    ),
]
