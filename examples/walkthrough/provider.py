"""One provider: python provider.py node_0 [epochs] [seed] (and node_1, node_2, in any order)."""

import sys

import torch
from task import make_loaders

from ravnest import Node, Trainer, set_seed

name = sys.argv[1]
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 100
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 42

set_seed(seed)


def loss_fn(preds, targets):
    return torch.nn.functional.mse_loss(preds, targets[1])


if __name__ == "__main__":
    train_loader, val_loader = make_loaders(seed)

    node = Node(
        name=name,
        optimizer=torch.optim.Adam,
        device=torch.device("cpu"),
        criterion=loss_fn,
        labels=train_loader,
        test_labels=val_loader,
    )

    trainer = Trainer(
        node=node,
        train_loader=train_loader,
        val_loader=val_loader,
        val_freq=64,
        epochs=epochs,
        batch_size=64,
        inputs_dtype=torch.float32,
        save=True,
    )

    trainer.train()

    trainer.evaluate()
