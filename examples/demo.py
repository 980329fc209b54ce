"""What `make demo` runs: a CNN learns digits on three providers, processes without Python.

The model is captured and planned for three unequal machines (made up), then trained here: cut into
three stages, each a process of its own, as one asynchronous pipeline over the network. The trained
sub-models are fused, and loaded back into plain PyTorch; the same training in one process stands
beside it.

    python examples/demo.py [--epochs 30] [--out build/demo]
"""

import argparse
import copy
import json
import sys
import time
from pathlib import Path

import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split
from torch.nn.functional import mse_loss, one_hot
from torch.utils.data import DataLoader, TensorDataset

import ravnest

sys.path.insert(0, str(Path(__file__).parent))
from zoo import CNN_Net  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
MACHINES = [  # RAM in GB, bandwidth in Mbps, GFLOP/s
    {"ram": 8, "bandwidth": 100, "speed": 20},
    {"ram": 4, "bandwidth": 50, "speed": 10},
    {"ram": 16, "bandwidth": 100, "speed": 40},
]
BATCH = 64
PICTURES = ("plan.svg", "timeline.svg", "run.png")


def digits():
    """8x8 images and their labels, as scikit-learn ships them."""
    data = datasets.load_digits()
    images = torch.tensor(data.data, dtype=torch.float32).reshape(-1, 1, 8, 8)
    return train_test_split(images, torch.tensor(data.target), test_size=0.4, random_state=1)


def loss_of(output, target):
    return mse_loss(output, one_hot(target, 10).float())


def say(number: int, title: str) -> None:
    print(f"\n{number}. {title}\n", flush=True)


def shown(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def plan_for(program: ravnest.Program, folder: Path) -> None:
    """Who holds which part of the model, and how fast that would be."""
    pool = folder / "node_configs.json"
    nodes = {
        str(i): {"IP": f"192.168.1.{10 + i}:8080", "benchmarks": machine}
        for i, machine in enumerate(MACHINES)
    }
    pool.write_text(json.dumps(nodes, indent=1))
    plan = ravnest.clusterize(
        program, nodes=pool, out=folder, picture=folder / "plan.svg", verbose=False
    )
    print(plan)
    print(plan.simulate(minutes=1, picture=folder / "timeline.svg"))


def train_here(model, loader, epochs: int) -> float:
    """The same training in plain PyTorch, on one thread; seconds for an epoch."""
    optimizer = torch.optim.Adam(model.parameters())
    start = time.perf_counter()
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()
    return (time.perf_counter() - start) / epochs


def accuracy_of(model, images, labels) -> float:
    model.eval()
    with torch.no_grad():
        return 100 * (model(images).argmax(1) == labels).sum().item() / len(labels)


def train_on_providers(model, train, test, epochs: int) -> ravnest.Run:
    return ravnest.fit(
        model,
        train,
        criterion=loss_of,
        optimizer=torch.optim.Adam,
        epochs=epochs,
        val_loader=test,
        providers=len(MACHINES),
    )


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def main() -> int:
    parser = argparse.ArgumentParser(description="Digits, learned on three providers")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "demo")
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    ravnest.set_seed(42)
    torch.set_num_threads(1)  # more do not help a model this small
    train_images, test_images, train_labels, test_labels = digits()
    train = DataLoader(TensorDataset(train_images, train_labels), batch_size=BATCH, shuffle=True)
    test = DataLoader(TensorDataset(test_images, test_labels), batch_size=BATCH)
    model = CNN_Net()
    alone = copy.deepcopy(model)

    say(1, "The model is captured, and planned for three unequal machines")
    start = time.perf_counter()
    program = ravnest.capture(
        model, args=(train_images[:BATCH],), loss=loss_of, target=train_labels[:BATCH]
    )
    print(f"captured with its loss: {program.num_ops} ops in {time.perf_counter() - start:.1f} s")
    plan_for(program, flags.out)

    say(2, f"Three providers train it here: {flags.epochs} epochs of {len(train)} batches")
    start = time.perf_counter()
    run = train_on_providers(model, train, test, flags.epochs)
    took = time.perf_counter() - start
    run.plot(flags.out / "run.png")
    told = run.history["val_accuracy"]
    print(
        f"trained in {took:.1f} s, starting and fusing included: loss {run.history['loss'][0]:.4f} "
        f"to {run.history['loss'][-1]:.4f}, validation {told[0]:.2f} to {told[-1]:.2f} %"
    )

    say(3, "The fused state dict in plain PyTorch, beside one process that trained alone")
    model.load_state_dict(run.state_dict())
    accuracy = accuracy_of(model, test_images, test_labels)
    together = median(run.history["seconds"][1:] or run.history["seconds"])  # the first starts up
    seconds = train_here(alone, train, flags.epochs)
    print("                   accuracy    an epoch")
    print(f"three providers    {accuracy:>6.2f} %    {together:.3f} s")
    print(
        f"one process        {accuracy_of(alone, test_images, test_labels):>6.2f} %    "
        f"{seconds:.3f} s on one thread"
    )
    is_same = abs(accuracy - told[-1]) < 1e-9
    print(
        "\nThe fused model is right on just as many digits as the providers' validation said."
        if is_same
        else f"\nThe providers' validation said {told[-1]:.2f} %: the fused model is another one!"
    )
    print(f"Pictures: {', '.join(str(shown(flags.out / name)) for name in PICTURES)}")
    is_learned = accuracy > 90 or flags.epochs < 30
    return 0 if is_same and is_learned else 1


if __name__ == "__main__":
    sys.exit(main())
