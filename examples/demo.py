"""What `make demo` runs: a CNN learns digits as three sub-models that share nothing but tensors.

The model is captured, planned for three unequal machines (made up; everything runs here), trained
stage by stage in C++ as the plan cuts it, and the trained state dict is loaded back into plain
PyTorch, which must then give the same predictions.
"""

import json
import sys
import time
from pathlib import Path

import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split
from torch.nn.functional import mse_loss, one_hot

import ravnest

sys.path.insert(0, str(Path(__file__).parent))
from zoo import CNN_Net  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
MACHINES = [  # RAM in GB, bandwidth in Mbps, GFLOP/s
    {"ram": 8, "bandwidth": 100, "speed": 20},
    {"ram": 4, "bandwidth": 50, "speed": 10},
    {"ram": 16, "bandwidth": 100, "speed": 40},
]
EPOCHS = 15
BATCH = 64
BAR = 24


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


def epoch(runner, optimizer, images, labels) -> float:
    """One pass over the data; the mean loss."""
    losses = []
    for batch in torch.randperm(len(images)).split(BATCH):
        optimizer.zero_grad()
        loss, _ = runner(images[batch], labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main() -> int:
    torch.manual_seed(42)
    torch.set_num_threads(1)  # more do not help a model this small
    train_images, test_images, train_labels, test_labels = digits()
    model = CNN_Net()

    start = time.perf_counter()
    program = ravnest.capture(
        model, args=(train_images[:BATCH],), loss=loss_of, target=train_labels[:BATCH]
    )
    print(f"captured: {program.num_ops} ops in {time.perf_counter() - start:.1f} s")

    plan = plan_for(program, ROOT / "build/demo")
    stages = program.slice([stage["ops"][0] for stage in plan.clusters[0]["stages"][1:]])

    optimizer = torch.optim.Adam(program.parameters().values())
    start = time.perf_counter()
    for number in range(1, EPOCHS + 1):
        loss = epoch(stages, optimizer, train_images, train_labels)
        done = "█" * (BAR * number // EPOCHS)
        end = "\r" if sys.stdout.isatty() and number < EPOCHS else "\n"
        if end == "\n" and number < EPOCHS:
            continue
        print(f"training {done:<{BAR}} epoch {number}/{EPOCHS}, loss {loss:.4f}", end=end)
    seconds = time.perf_counter() - start

    model.load_state_dict(program.state_dict())
    model.eval()
    stages.eval()
    with torch.no_grad():
        expected = model(test_images)
        _, actual = stages(test_images, test_labels)
    accuracy = (expected.argmax(1) == test_labels).float().mean().item() * 100
    same = torch.equal(expected, actual)
    print(
        f"{EPOCHS} epochs in {seconds:.1f} s, {EPOCHS * len(train_images) / seconds:,.0f} samples/s"
    )
    print(f"accuracy in plain PyTorch with the trained state dict: {accuracy:.2f} %")
    print(f"PyTorch and the three stages agree bit for bit: {'yes' if same else 'NO'}")
    return 0 if same and accuracy > 90 else 1


if __name__ == "__main__":
    sys.exit(main())
