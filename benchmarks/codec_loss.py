"""What codecs cost in learning: the loss that two stages end with, by codec and seed.

    python benchmarks/codec_loss.py [--codecs none int8] [--seeds 1 2 3 4 5] [--epochs 6]

The task is convergence.py's sorter, a GPT. What travels between the stages, activations one way and
gradients the other, goes through the codec. A codec is as good as none where the mean of its losses
lies within the spread of none's seeds: it is told over the worst of them.
"""

import argparse
import statistics
import sys

from _compare import Effort, Ratio
from convergence import loss_of, sorter_task
from torch.utils.data import DataLoader, RandomSampler

import ravnest

RATE = 1e-3
SEEDS = (1, 2, 3, 4, 5)
EPOCHS = 6


def train(codec: str, seed: int, epochs: int) -> float:
    task = sorter_task()
    train_set, val_set = task.data()
    ravnest.set_seed(seed)
    sampler = RandomSampler(train_set, num_samples=task.samples)
    run = ravnest.fit(
        task.make_model(),
        DataLoader(train_set, batch_size=task.batch, sampler=sampler),
        criterion=task.loss,
        optimizer=task.optimizer,
        optimizer_params={"lr": RATE},
        epochs=epochs,
        providers=2,
        threads=1,
        codec=codec,
        quiet=True,
    )
    return loss_of(task, run.state_dict(), DataLoader(val_set, batch_size=256))


def measure(effort: Effort, codec: str = "int8") -> list[Ratio]:
    seeds = SEEDS[:3] if effort.min_pairs < 9 else SEEDS
    plain, coded = ([train(each, seed, EPOCHS) for seed in seeds] for each in ("none", codec))
    mean = statistics.mean(coded)
    return [
        Ratio(
            name=f"codec/{codec} final loss",
            median=mean / max(plain),
            low=min(coded) / max(plain),
            high=max(coded) / max(plain),
            target=1.0,
            ours=mean * 1e3,
            theirs=max(plain) * 1e3,
            unit="e-3",
            pairs=len(seeds),
        )
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--codecs", nargs="+", default=["none", "int8"])
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    for codec in options.codecs:
        losses = [train(codec, seed, options.epochs) for seed in options.seeds]
        print(
            f"{codec:<6} mean {statistics.mean(losses):.5f}, by seed "
            + ", ".join(f"{loss:.5f}" for loss in losses),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
