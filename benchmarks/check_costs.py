"""Is the cost model right? Estimates of `ravnest inspect` against measured training steps.

    python benchmarks/check_costs.py [--only gpt] [--command .venv/bin/ravnest]

For every model, at two batch sizes: the bytes that autograd keeps at the end of the
forward (unique storages, weights aside), the FLOPs that torch counts, and the peak of a
whole step with weights, gradients and momentum. A ratio is estimate over measurement;
those of FLOPs are for information, as torch counts products alone, and not those inside
oneDNN's LSTM and the fused attention.
Exits with 1 when activations are off by more than 10 % or the peak by more than 15 %.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import zoo  # noqa: E402
from torch import nn  # noqa: E402
from torch.autograd.graph import saved_tensors_hooks  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402
from zoo.bert import bert_inputs, small_bert  # noqa: E402

ACTIVATION_LIMIT = 0.10
PEAK_LIMIT = 0.15


@dataclass
class Case:
    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], dict]  # the model's keyword arguments at a batch size
    loss: Callable  # of the model's output
    batches: tuple[int, int] = (8, 32)


def images(name, channels, side):
    return lambda batch: {name: torch.randn(batch, channels, side, side)}


def tokens(vocab, length):
    return lambda batch: {"tokens": torch.randint(0, vocab, (batch, length))}


def classes(output):
    """Cross entropy over dimension 1, with made-up targets."""
    shape = (output.shape[0], *output.shape[2:])
    return F.cross_entropy(output, torch.zeros(shape, dtype=torch.int64))


def next_token(logits):
    return zoo.next_token_loss(logits, torch.zeros(logits.shape[:2], dtype=torch.int64))


def squares(output):
    return F.mse_loss(output, torch.zeros_like(output))


def houses(batch):
    house = {"photo": torch.randn(batch, 3, 12, 12), "facts": torch.randn(batch, 6)}
    return {"inputs": house}


def house_squares(output):
    return output.price.square().mean() + classes(output.rooms)


def both_heads(output):
    """Inception gives its auxiliary head in training alone."""
    if isinstance(output, torch.Tensor):
        return classes(output)
    return classes(output.logits) + classes(output.aux_logits)


class Encoder(nn.Module):
    """PyTorch's own transformer layers, whose attention is written out in the graph."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.gru = nn.GRU(64, 32, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        states, _ = self.gru(self.layers(x))
        return self.head(states.mean(1))


CASES = [
    Case("cnn", zoo.CNN_Net, images("x", 1, 8), squares, (64, 256)),
    Case(
        "resnet18",
        lambda: zoo.resnet18(num_classes=10, small_input=True),
        images("x", 3, 32),
        classes,
    ),
    Case("resnet50", lambda: zoo.resnet50(num_classes=10), images("x", 3, 64), classes),
    Case(
        "inception",
        lambda: zoo.inception_v3(num_classes=10, width=0.25, small_input=True),
        images("x", 3, 75),
        both_heads,
    ),
    Case("gpt", zoo.GPT, tokens(1000, 128), next_token, (4, 16)),
    Case(
        "gpt_dropout",
        lambda: zoo.GPT(dropout=0.1, layers=3),
        tokens(1000, 128),
        next_token,
        (4, 16),
    ),
    Case("bert", small_bert, bert_inputs, lambda out: out.loss, (8, 64)),
    Case("lstm", zoo.LSTMClassifier, tokens(1000, 40), classes, (16, 64)),
    Case("unet", lambda: zoo.UNet(width=16, depth=3), images("x", 3, 64), classes, (4, 16)),
    Case("vit", zoo.ViT, images("x", 3, 32), classes, (8, 32)),
    Case("two_in_two_out", zoo.HouseNet, houses, house_squares, (16, 64)),
    Case("encoder", Encoder, lambda batch: {"x": torch.randn(batch, 20, 64)}, classes, (8, 64)),
]


class WithLoss(nn.Module):
    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, inputs):
        return self.loss(self.model(**inputs))


def dynamic(value):
    if isinstance(value, dict):
        return {key: dynamic(item) for key, item in value.items()}
    return {0: torch.export.Dim.AUTO} if isinstance(value, torch.Tensor) else None


def estimate(command, module, inputs, batches):
    exported = torch.export.export(
        module,
        (inputs,),
        dynamic_shapes=({key: dynamic(v) for key, v in inputs.items()},),
        strict=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.pt2"
        torch.export.save(exported, file)
        call = [command, "inspect", file, "--json", "--optimizer", "momentum", "--batch"]
        texts = [subprocess.check_output([*call, str(batch)]) for batch in batches]
    return [json.loads(text) for text in texts]


def saved_bytes(module, inputs):
    weights = [*module.parameters(), *module.buffers()]
    known = {weight.untyped_storage().data_ptr() for weight in weights}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = module(inputs)
    return sum(storage.nbytes() for storage in kept.values()), loss


def counted_flops(module, inputs):
    with FlopCounterMode(display=False) as forward:
        loss = module(inputs)
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    module.zero_grad()
    return forward.get_total_flops(), backward.get_total_flops()


def peak_bytes(module, inputs):
    """Of a step in the middle of training: weights, gradients and momentum are there."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)

    def step():
        module(inputs).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    step()
    fixed = sum(w.nbytes for w in [*module.parameters(), *module.buffers()])
    fixed += 2 * sum(p.nbytes for p in module.parameters() if p.requires_grad)
    fixed += sum(t.nbytes for t in torch.utils._pytree.tree_leaves(inputs))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    events = profiler.profiler.kineto_results.events()
    changes = [event for event in events if event.name() == "[memory]"]
    now = peak = 0
    for change in sorted(changes, key=lambda event: event.start_ns()):
        now += change.nbytes()
        peak = max(peak, now)
    return fixed + peak


def check(case, command):
    torch.manual_seed(0)
    module = WithLoss(case.make(), case.loss).train()
    small = case.inputs(case.batches[0])
    failures = 0
    for batch, found in zip(
        case.batches, estimate(command, module, small, case.batches), strict=True
    ):
        inputs = case.inputs(batch)
        kept, _ = saved_bytes(module, inputs)
        forward, backward = counted_flops(module, inputs)
        peak = peak_bytes(module, inputs)
        activations = found["memory"]["activations"] / kept
        total = found["memory"]["total"] / peak
        failures += abs(activations - 1) > ACTIVATION_LIMIT
        failures += abs(total - 1) > PEAK_LIMIT
        print(
            f"{case.name:<16} {batch:>5} {kept / 1e6:>9.2f} MB {activations:>6.3f}"
            f" {peak / 1e6:>9.2f} MB {total:>6.3f}"
            f" {forward / 1e6:>10.1f} M {found['flops']['forward'] / max(forward, 1):>6.3f}"
            f" {found['flops']['backward'] / max(backward, 1):>6.3f}",
            flush=True,
        )
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/ravnest"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{'model':<16} {'batch':>5} {'activations':>12} {'ratio':>6} {'peak':>12} {'ratio':>6}"
        f" {'FLOPs':>12} {'fwd':>6} {'bwd':>6}"
    )
    chosen = [case for case in CASES if not options.only or case.name in options.only]
    failures = sum(check(case, options.command) for case in chosen)
    print("all within their limits" if failures == 0 else f"{failures} outside their limits")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
