import numpy as np
import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader


def digits():
    """Images to train on and to test with, and their labels as one-hot rows."""
    data = datasets.load_digits()
    labels = np.eye(10)[data.target]
    split = train_test_split(data.data, labels, test_size=0.4, random_state=1)
    train_images, test_images, train_labels, test_labels = split
    return (
        train_images.reshape(-1, 1, 8, 8),
        test_images.reshape(-1, 1, 8, 8),
        torch.tensor(train_labels, dtype=torch.float32),
        torch.tensor(test_labels, dtype=torch.float32),
    )


def make_loaders(seed=42):
    """The same on every provider: the generator is the loader's own."""
    train_images, test_images, train_labels, test_labels = digits()
    generator = torch.Generator()
    generator.manual_seed(seed)
    train = list(zip(train_images, train_labels, strict=True))
    test = list(zip(test_images, test_labels, strict=True))
    train_loader = DataLoader(train, generator=generator, shuffle=True, batch_size=64)
    return train_loader, DataLoader(test, shuffle=False, batch_size=64)
