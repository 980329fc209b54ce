"""One provider: python provider.py node_0 (and node_1, node_2, in any order)."""

import sys

import torch
from bert_trainer import BertTrainer
from task import make_loaders

from ravnest import Node, set_seed

set_seed(42)


def loss_fn(output, batch):
    """Of the model's own output and the whole batch that the loader yields."""
    return torch.nn.functional.cross_entropy(
        output["logits"], batch["labels"], label_smoothing=0.05
    )


def warmup(optimizer, updates):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / updates))


if __name__ == "__main__":
    train_loader, val_loader = make_loaders()

    node = Node(
        name=sys.argv[1],
        optimizer=torch.optim.AdamW,
        optimizer_params={"lr": 1e-3},
        lr_scheduler=warmup,
        lr_scheduler_params={"updates": 30},
        lr_step_on_epoch_change=False,
        criterion=loss_fn,
        labels=train_loader,
        test_labels=val_loader,
    )

    trainer = BertTrainer(
        node=node,
        train_loader=train_loader,
        val_loader=val_loader,
        epochs=int(sys.argv[2]) if len(sys.argv) > 2 else 6,
        save=True,
    )

    trainer.train()
    trainer.evaluate()
