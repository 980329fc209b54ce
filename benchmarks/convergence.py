"""How fast 1, 2 and 4 clusters learn, and what rare averaging costs.

    python benchmarks/convergence.py [--task digits|sorter] [--seeds 1 2 3] [--out FOLDER]

Every cluster is one provider on one thread, so that clusters of one run are equally fast and no
gradient is late: what is seen is averaging alone. The loss is that of unseen data, after every
epoch, of the first cluster. Writes <task>.json and <task>.svg.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

import ravnest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))


@dataclass
class Setting:
    """One way to train."""

    name: str
    clusters: int
    averaging: dict = field(default_factory=dict)
    # Of the learning rate: more clusters see more samples between averagings, as with larger
    # batches. Linear for SGD, by the root for Adam.
    factor: float = 1.0


@dataclass
class Task:
    make_model: Callable
    data: Callable  # training set, validation set
    loss: Callable
    optimizer: str
    rate: float
    batch: int
    samples: int  # of an "epoch": a look at the unseen data follows
    epochs: int
    settings: list[Setting]


def digits_task() -> Task:
    from sklearn import datasets
    from sklearn.model_selection import train_test_split
    from zoo import CNN_Net

    def data():
        digits = datasets.load_digits()
        images = torch.tensor(digits.data, dtype=torch.float32).reshape(-1, 1, 8, 8)
        split = train_test_split(images, torch.tensor(digits.target), test_size=0.4, random_state=1)
        return TensorDataset(split[0], split[2]), TensorDataset(split[1], split[3])

    def loss(output, target):
        wanted = torch.nn.functional.one_hot(target, 10).float()
        return torch.nn.functional.mse_loss(output, wanted)

    return Task(CNN_Net, data, loss, "sgd", 0.05, 16, 1078, 40, settings(power=1.0))


def sorter_task() -> Task:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "sorter"))
    import task

    def data():
        whole = task.make_data()
        return (
            torch.utils.data.Subset(whole, range(0, len(whole) - 2048)),
            torch.utils.data.Subset(whole, range(len(whole) - 2048, len(whole))),
        )

    return Task(
        task.make_model, data, task.loss_fn, "adamw", 1e-3, 64, 16_000, 12, settings(power=0.5)
    )


def settings(power: float) -> list[Setting]:
    def times(clusters: int) -> float:
        return clusters**power

    often = {"reduce_factor": 16}
    seldom = {"reduce_factor": 160}
    nesterov = {**seldom, "outer": "nesterov"}
    return [
        Setting("1 cluster", 1),
        Setting("2 clusters, every 16", 2, often, times(2)),
        Setting("4 clusters, every 16", 4, often, times(4)),
        Setting("2 clusters, every 160", 2, seldom, times(2)),
        Setting("2 clusters, every 160, Nesterov", 2, nesterov, times(2)),
    ]


TASKS = {"digits": digits_task, "sorter": sorter_task}


def train(task: Task, setting: Setting, seed: int) -> dict:
    """Losses of unseen data by epoch, with samples, updates of a cluster, and seconds."""
    train_set, val_set = task.data()
    ravnest.set_seed(seed)
    curve: dict[str, list[float]] = {name: [] for name in ("loss", "samples", "updates", "seconds")}
    epoch_updates = -(-task.samples // task.batch) / setting.clusters
    sampler = RandomSampler(train_set, num_samples=task.samples)
    spent = 0.0

    def on_epoch(run: ravnest.Run) -> None:
        nonlocal spent
        spent += run.history["seconds"][-1]
        curve["loss"].append(run.history["val_loss"][-1])
        curve["samples"].append(run.epoch * task.samples)
        curve["updates"].append(run.epoch * epoch_updates)
        curve["seconds"].append(spent)

    started = time.monotonic()
    ravnest.fit(
        task.make_model(),
        DataLoader(train_set, batch_size=task.batch, sampler=sampler),
        criterion=task.loss,
        optimizer=task.optimizer,
        optimizer_params={"lr": task.rate * setting.factor},
        epochs=task.epochs,
        val_loader=DataLoader(val_set, batch_size=256),
        providers=setting.clusters,
        clusters=setting.clusters,
        threads=1,
        callbacks=[on_epoch],
        quiet=True,
        **setting.averaging,
    )
    print(
        f"  {setting.name}, seed {seed}: {curve['loss'][-1]:.5f} after {curve['updates'][-1]:.0f} "
        f"updates of a cluster, {time.monotonic() - started:.0f} s",
        flush=True,
    )
    return curve


def crossing(curve: dict, loss: float, over: str) -> float | None:
    """Where the curve first reaches this loss, between two epochs by a straight line."""
    before = None
    for value, at in zip(curve["loss"], curve[over], strict=True):
        if value <= loss:
            if before is None:
                return at
            share = (before[0] - loss) / (before[0] - value)
            return before[1] + share * (at - before[1])
        before = (value, at)
    return None


def tell(results: dict[str, list[dict]]) -> None:
    names = list(results)
    one, two = results[names[0]], results[names[1]]
    # What one cluster reaches after three quarters of its training, of the worst seed.
    goal = max(curve["loss"][len(curve["loss"]) * 3 // 4] for curve in one)
    print(f"to a loss of {goal:.5f}:")
    for name, curves in results.items():
        places = [crossing(curve, goal, "updates") for curve in curves]
        times = [crossing(curve, goal, "seconds") for curve in curves]
        if all(place is not None for place in places):
            print(
                f"  {name:<34} {statistics.mean(places):7.0f} updates of a cluster, "
                f"{statistics.mean(times):6.1f} s"
            )
        else:
            print(f"  {name:<34} not reached by all seeds")
    ratios = [
        (crossing(b, goal, "updates") or float("nan")) / crossing(a, goal, "updates")
        for a, b in zip(one, two, strict=True)
    ]
    print(f"updates, two clusters over one: {', '.join(f'{ratio:.3f}' for ratio in ratios)}")
    often, nesterov = results[names[1]], results[names[4]]
    ratios = [b["loss"][-1] / a["loss"][-1] for a, b in zip(often, nesterov, strict=True)]
    print(f"final loss, Nesterov every 160 over every 16: {', '.join(f'{r:.3f}' for r in ratios)}")


def draw(task: str, results: dict[str, list[dict]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "ravnest"
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.2), sharey=True)
    labels = {
        "samples": "samples seen by all clusters",
        "updates": "updates of a cluster",
        "seconds": "seconds",
    }
    for axis, (over, label) in zip(axes, labels.items(), strict=True):
        for colour, (name, curves) in enumerate(results.items()):
            for number, curve in enumerate(curves):
                axis.plot(
                    curve[over],
                    curve["loss"],
                    color=f"C{colour}",
                    linewidth=1.2,
                    alpha=0.8,
                    label=name if number == 0 else None,
                )
        axis.set_yscale("log")
        axis.set_xlabel(label)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("loss on unseen data")
    axes[2].legend(fontsize=8, frameon=False)
    figure.suptitle(f"{task}: one line a seed", fontsize=11)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=list(TASKS), action="append")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=Path("."))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.task or TASKS:
        task = TASKS[name]()
        print(f"{name}: {task.optimizer}, rate {task.rate}, batch {task.batch}")
        results = {
            setting.name: [train(task, setting, seed) for seed in options.seeds]
            for setting in task.settings
        }
        (options.out / f"{name}.json").write_text(json.dumps(results))
        tell(results)
        draw(name, results, options.out / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
