"""One process of the digits walkthrough: a provider, or all of it in plain PyTorch.

Prints {"epoch": seconds for one, "ready": when imports were done, "update": when the first update
was}, the last two by the wall clock, as JSON.
"""

import argparse
import json
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import torch
import zoo
from sklearn import datasets
from sklearn.model_selection import train_test_split
from torch.nn.functional import mse_loss, one_hot
from torch.utils.data import DataLoader, TensorDataset

from ravnest import Node, Trainer, set_seed

VALIDATE_EVERY = 64  # batches


def loaders():
    data = datasets.load_digits()
    images = torch.tensor(data.data, dtype=torch.float32).reshape(-1, 1, 8, 8)
    labels = one_hot(torch.tensor(data.target), 10).float()
    parts = train_test_split(images, labels, test_size=0.4, random_state=1)
    generator = torch.Generator().manual_seed(42)
    train = TensorDataset(parts[0], parts[2])
    return (
        DataLoader(train, batch_size=64, shuffle=True, generator=generator),
        DataLoader(TensorDataset(parts[1], parts[3]), batch_size=64),
    )


def run_single(epochs: int) -> dict:
    train, validation = loaders()
    model = zoo.CNN_Net()
    optimizer = torch.optim.Adam(model.parameters())
    count = 0
    start = None
    for _ in range(epochs):
        for images, labels in train:
            start = start or time.perf_counter()
            optimizer.zero_grad()
            mse_loss(model(images), labels).backward()
            optimizer.step()
            count += 1
            if count % VALIDATE_EVERY == 0:
                model.eval()
                with torch.no_grad():
                    for images, labels in validation:  # noqa: PLW2901
                        (model(images).argmax(1) == labels.argmax(1)).sum().item()
                model.train()
    return {"epoch": (time.perf_counter() - start) / epochs}


def run_provider(name: str, node_data: str, epochs: int) -> dict:
    ready = time.time()
    train, validation = loaders()
    times = []

    def criterion(output, batch):
        times.append(time.perf_counter())
        return mse_loss(output, batch[1])

    node = Node(
        name=name,
        optimizer=torch.optim.Adam,
        criterion=criterion,
        labels=train,
        test_labels=validation,
        node_data=node_data,
        loss_filename=Path(node_data, "losses.txt"),
        quiet=True,
    )
    trainer = Trainer(
        node=node,
        train_loader=train,
        val_loader=validation,
        val_freq=VALIDATE_EVERY,
        epochs=epochs,
        save=True,
    )
    first = []

    def watch() -> None:
        while not node.status.get("updates"):
            time.sleep(0.002)
        first.append(time.time())

    watcher = threading.Thread(target=watch, daemon=True)
    node.start()
    watcher.start()
    trainer.train()
    trainer.evaluate()
    watcher.join()
    span = times[-1] - times[0] if times else 0.0
    return {"epoch": span / epochs, "ready": ready, "update": first[0]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", help="the provider; without it plain PyTorch")
    parser.add_argument("--node-data")
    parser.add_argument("--epochs", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    set_seed(42)
    if options.name:
        told = run_provider(options.name, options.node_data, options.epochs)
    else:
        told = run_single(options.epochs)
    print(json.dumps(told), flush=True)
