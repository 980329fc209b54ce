"""What `make demo` runs: a CNN learns digits on three providers, processes without Python.

The model is captured and planned for three unequal machines (made up), then trained here: cut into
three stages, each a process of its own, as one asynchronous pipeline over the network. The trained
state dict is loaded back into plain PyTorch, and the same training in one process stands beside it.
"""

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
EPOCHS = 30
BATCH = 64


def digits():
    """8x8 images and their labels, as scikit-learn ships them."""
    data = datasets.load_digits()
    images = torch.tensor(data.data, dtype=torch.float32).reshape(-1, 1, 8, 8)
    return train_test_split(images, torch.tensor(data.target), test_size=0.4, random_state=1)


def loss_of(output, target):
    return mse_loss(output, one_hot(target, 10).float())


def plan_for(program, folder: Path) -> ravnest.Plan:
    """Who holds which part of the model, and how fast that would be."""
    folder.mkdir(parents=True, exist_ok=True)
    pool = folder / "node_configs.json"
    nodes = {
        str(i): {"IP": f"192.168.1.{10 + i}:8080", "benchmarks": machine}
        for i, machine in enumerate(MACHINES)
    }
    pool.write_text(json.dumps(nodes, indent=1))
    plan = ravnest.clusterize(
        program, nodes=pool, out=folder, picture=folder / "plan.svg", verbose=False
    )
    print(f"\n{plan}")
    print(plan.simulate(minutes=1, picture=folder / "timeline.svg"))
    shown = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    print(f"pictures: {shown}/plan.svg, {shown}/timeline.svg\n")
    return plan


def train_here(model, loader) -> float:
    """The same training in plain PyTorch, on one thread; seconds for an epoch."""
    optimizer = torch.optim.Adam(model.parameters())
    start = time.perf_counter()
    for _ in range(EPOCHS):
        for images, labels in loader:
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()
    return (time.perf_counter() - start) / EPOCHS


def accuracy_of(model, images, labels) -> float:
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item() * 100


def main() -> int:
    ravnest.set_seed(42)
    torch.set_num_threads(1)  # more do not help a model this small
    train_images, test_images, train_labels, test_labels = digits()
    train = DataLoader(TensorDataset(train_images, train_labels), batch_size=BATCH, shuffle=True)
    test = DataLoader(TensorDataset(test_images, test_labels), batch_size=BATCH)
    model = CNN_Net()
    alone = copy.deepcopy(model)
    folder = ROOT / "build/demo"

    start = time.perf_counter()
    program = ravnest.capture(
        model, args=(train_images[:BATCH],), loss=loss_of, target=train_labels[:BATCH]
    )
    print(f"captured: {program.num_ops} ops in {time.perf_counter() - start:.1f} s")
    plan_for(program, folder)

    print(f"training on {len(MACHINES)} providers, {EPOCHS} epochs of {len(train)} batches")
    run = ravnest.fit(
        model,
        train,
        criterion=loss_of,
        optimizer=torch.optim.Adam,
        epochs=EPOCHS,
        val_loader=test,
        providers=len(MACHINES),
    )
    run.plot(folder / "run.png")
    model.load_state_dict(run.state_dict())
    accuracy = accuracy_of(model, test_images, test_labels)
    # The first epoch waits for the providers to start.
    epochs = sorted(run.history["seconds"][1:])
    together = epochs[len(epochs) // 2]
    seconds = train_here(alone, train)
    print(f"validation while training: {run.history['val_accuracy'][-1]:.2f} %")
    print(f"accuracy in plain PyTorch with the trained state dict: {accuracy:.2f} %")
    print(
        f"one process alone: {accuracy_of(alone, test_images, test_labels):.2f} %; an epoch takes "
        f"{seconds:.3f} s, on the providers {together:.3f} s with validation "
        f"({together / seconds:.2f} of it)"
    )
    shown = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    print(f"picture: {shown}/run.png")
    same = abs(accuracy - run.history["val_accuracy"][-1]) < 1e-9
    return 0 if same and accuracy > 90 else 1


if __name__ == "__main__":
    sys.exit(main())
