"""What `make demo` runs: a CNN learns digits as three sub-models that share nothing but tensors.

The model is captured, cut in three, trained stage by stage in C++, and the trained state dict is
loaded back into plain PyTorch, which must then give the same predictions.
"""

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

    stages = program.slice(3)
    for i, stage in enumerate(stages):
        weights = sum(tensor.numel() for tensor in stage.parameters().values())
        print(f"  stage {i}: {stage.num_ops} ops, {weights:,} parameters")

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
