"""A small GPT that learns to sort: it reads digits and writes the same ones in order."""

import sys
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from zoo import GPT  # noqa: E402

LENGTH = 8
DIGITS = 4
BATCH = 64
UNSEEN = 2048  # sequences that no training has seen


def make_model():
    return GPT(layers=3, width=48, heads=4, seq=2 * LENGTH - 1, vocab=DIGITS)


def all_sequences():
    """Every sequence there is, in a random order that is always the same."""
    numbers = torch.arange(DIGITS**LENGTH)
    places = DIGITS ** torch.arange(LENGTH)
    sequences = numbers[:, None] // places % DIGITS
    return sequences[torch.randperm(len(sequences), generator=torch.Generator().manual_seed(7))]


def make_data(count=None):
    """What the model reads, and for every place the digit that comes next. Nothing is asked of it
    while it still reads (-1). Of so many sequences; by default of all but the unseen."""
    sequences = all_sequences()[UNSEEN:][:count]
    both = torch.cat([sequences, sequences.sort(1).values], 1)
    wanted = both[:, 1:].clone()
    wanted[:, : LENGTH - 1] = -1
    return TensorDataset(both[:, :-1].contiguous(), wanted)


def make_loader(data):
    """The same on every provider: the generator is the loader's own."""
    generator = torch.Generator().manual_seed(42)
    return DataLoader(data, batch_size=BATCH, shuffle=True, generator=generator, drop_last=True)


def loss_fn(output, wanted):
    return functional.cross_entropy(output.flatten(0, 1), wanted.flatten(), ignore_index=-1)


@torch.no_grad()
def percent_sorted(state):
    """Of the unseen sequences, those that a model with these weights sorts without a mistake."""
    model = make_model().eval()
    model.load_state_dict(state)
    unseen = all_sequences()[:UNSEEN]
    written = unseen
    for _ in range(LENGTH):
        digit = model(written)[:, -1].argmax(1, keepdim=True)
        written = torch.cat([written, digit], 1)
    right = (written[:, LENGTH:] == unseen.sort(1).values).all(1)
    return right.float().mean().item() * 100
