"""One process of the pipeline benchmark; prints {"seconds": ..., "samples": ...} as JSON.

`single`: plain PyTorch. `stage`: a provider of a plan. `torch`: torch.distributed.pipelining.
All of them run on one thread, in float32, with Adam, on the same batch over and over.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import torch
import zoo
from torch import nn
from torch.nn import functional

TAIL = 4  # passes at the end that are not timed: those before them may be out of work


class Cut(nn.Module):
    """One of the two halves that torch.distributed.pipelining gets."""

    def __init__(self, *modules: nn.Module):
        super().__init__()
        self.layers = nn.Sequential(*modules)

    def forward(self, x):
        return self.layers(x)


class Embedding(nn.Module):
    def __init__(self, gpt: zoo.GPT):
        super().__init__()
        self.wte, self.wpe = gpt.wte, gpt.wpe

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe(torch.arange(tokens.size(1)))


def halve_gpt(gpt: zoo.GPT) -> tuple[nn.Module, nn.Module]:
    return Cut(Embedding(gpt), *gpt.h[:3]), Cut(*gpt.h[3:], gpt.ln_f, gpt.lm_head)


def halve_resnet(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    parts = list(model.children())
    at = next(i for i, (name, _) in enumerate(model.named_children()) if name == "layer3")
    return Cut(*parts[:at]), Cut(*parts[at:-1], nn.Flatten(), parts[-1])


def halve_cnn(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    parts = list(model.children())
    at = next(i for i, (name, _) in enumerate(model.named_children()) if name == "bn_1")
    return Cut(*parts[:at]), Cut(*parts[at:])


def make_work(name: str, tied: bool = False):
    """Model, input, target, criterion and how to halve it for torch.distributed.pipelining."""
    torch.manual_seed(0)
    if name == "gpt":
        tokens = torch.randint(0, 1000, (16, 129))
        model = zoo.GPT(layers=6, width=256, heads=8, seq=128, vocab=1000, tied=tied)
        loss = zoo.next_token_loss
        return model, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), loss, halve_gpt
    if name == "resnet18":
        model = zoo.resnet18(num_classes=10, small_input=True)
        images, classes = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
        return model, images, classes, functional.cross_entropy, halve_resnet
    labels = functional.one_hot(torch.randint(0, 10, (64,)), 10).float()
    return zoo.CNN_Net(), torch.rand(64, 1, 8, 8), labels, functional.mse_loss, halve_cnn


def resident_kb(what: str = "VmRSS") -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


def peak_kb() -> int:
    """Not by getrusage, which counts the parent's memory before exec as ours."""
    return resident_kb("VmHWM")


def warm_up() -> None:
    """Brings in the libraries' code that a step needs: a fixed cost of the process."""
    model = zoo.GPT(layers=1, width=64, heads=2, seq=8, vocab=10)
    tokens = torch.zeros(2, 8, dtype=torch.long)
    zoo.next_token_loss(model(tokens), tokens).backward()
    torch.optim.Adam(model.parameters()).step()


def report(times: list[float], batch: int, warmup: int, **more) -> None:
    timed = times[warmup : len(times) - TAIL]
    print(
        json.dumps(
            {
                "seconds": timed[-1] - timed[0],
                "samples": batch * (len(timed) - 1),
                "peak_kb": peak_kb(),
                **more,
            }
        ),
        flush=True,
    )


def run_single(options) -> None:
    model, inputs, target, loss_of, _ = make_work(options.model, options.tied)
    optimizer = torch.optim.Adam(model.parameters())
    times = []
    for _ in range(options.passes):
        optimizer.zero_grad()
        loss_of(model(inputs), target).backward()
        optimizer.step()
        times.append(time.perf_counter())
    report(times, len(inputs), options.warmup)


def run_stage(options) -> None:
    from ravnest import Node

    _, inputs, target, loss_of, _ = make_work(options.model, options.tied)
    times, losses = [], []

    def criterion(output, batch):
        times.append(time.perf_counter())
        loss = loss_of(output, batch[1])
        losses.append(loss.item())
        return loss

    def labels() -> Iterator:
        return ((inputs, target) for _ in range(options.passes))

    node = Node(
        name=options.name,
        optimizer=torch.optim.Adam,
        criterion=None if options.with_loss else criterion,
        labels=None if options.with_loss else labels(),
        threads=1,
        codec=options.codec,
        reduce_factor=options.reduce_factor,
        averaging=options.averaging,
        averaging_codec=options.averaging_codec,
        node_data=options.node_data,
        loss_filename=Path(options.node_data) / "losses.txt",
        trusted_network=True,
        quiet=True,
    )
    warm_up()
    fixed = resident_kb()
    for _ in range(options.passes):
        node.forward_compute((inputs, target) if options.with_loss else inputs)
        if not node.is_root:
            break
    node.finish_training()
    status = node.status
    node.close()
    if times:
        more = {"status": status, "fixed_kb": fixed, "loss": losses[-1]}
        report(times, len(inputs), options.warmup, **more)
    else:
        print(json.dumps({"status": status, "fixed_kb": fixed, "peak_kb": peak_kb()}), flush=True)


def run_torch(options) -> None:
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    dist.init_process_group("gloo", init_method=options.rendezvous, rank=options.rank, world_size=2)
    model, inputs, target, loss_of, halve = make_work(options.model)
    half = halve(model)[options.rank]
    stage = PipelineStage(half, options.rank, 2, torch.device("cpu"))
    kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[options.torch_schedule]
    schedule = kind(stage, n_microbatches=options.micro_batches, loss_fn=loss_of)
    optimizer = torch.optim.Adam(half.parameters())
    times = []
    for _ in range(options.passes):
        optimizer.zero_grad()
        if options.rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=target)
        optimizer.step()
        times.append(time.perf_counter())
    if options.rank == 1:
        report(times, len(inputs), options.warmup)
    dist.barrier()
    dist.destroy_process_group()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["single", "stage", "torch"])
    parser.add_argument("--model", choices=["gpt", "resnet18", "cnn"], required=True)
    parser.add_argument("--passes", type=int, required=True)
    parser.add_argument("--warmup", type=int, required=True)
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--with-loss", action="store_true", help="the loss is in the plan's model")
    parser.add_argument("--name")
    parser.add_argument("--node-data")
    parser.add_argument("--codec", default="none")
    parser.add_argument("--reduce-factor", type=int)
    parser.add_argument("--averaging", default="overlapped")
    parser.add_argument("--averaging-codec")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--rendezvous")
    parser.add_argument("--torch-schedule")
    parser.add_argument("--micro-batches", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen = parse()
    {"single": run_single, "stage": run_stage, "torch": run_torch}[chosen.kind](chosen)
