"""One provider of six: python provider.py node_0 [epochs [sequences]]

And node_1 to node_5, in any order.
"""

import sys

import torch
from task import loss_fn, make_data, make_loader

from ravnest import Node, Trainer, set_seed, shard

set_seed(42)

if __name__ == "__main__":
    name = sys.argv[1]
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    count = int(sys.argv[3]) if len(sys.argv) > 3 else None
    train_loader = make_loader(shard(make_data(count), name))  # each cluster has half of the data

    node = Node(
        name=name,
        optimizer=torch.optim.AdamW,
        optimizer_params={"lr": 1e-3},
        criterion=lambda output, batch: loss_fn(output, batch[1]),
        labels=train_loader,
        reduce_factor=16,
    )

    trainer = Trainer(
        node=node,
        train_loader=train_loader,
        val_freq=0,
        epochs=epochs,
        save=True,
    )

    trainer.train()
