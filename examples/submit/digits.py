"""What digits.toml trains: a function that gives fit's model, loaders and criterion."""

import torch
from sklearn import datasets
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make() -> dict:
    data = datasets.load_digits()
    images = torch.tensor(data.data, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    labels = torch.tensor(data.target)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 64, 10),
    )
    train = TensorDataset(images[:1400], labels[:1400])
    return {
        "model": model,
        "train_loader": DataLoader(train, batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(images[1400:], labels[1400:]), batch_size=128),
        "criterion": nn.functional.cross_entropy,
    }
