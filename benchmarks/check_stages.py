"""Does a stage take the memory that the plan foresees? Planned against measured, for the zoo.

    python benchmarks/check_stages.py [--only gpt] [--stages 3]

Every model is planned for machines alike, its sub-models are read back from disk, and a
training step of each is measured by itself: weights, gradients, momentum, and the peak of
one pass. A ratio is plan over measurement, with one pass in flight on both sides.
Exits with 1 when one is off by more than 15 %.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import torch
from check_costs import CASES, WithLoss
from torch.profiler import ProfilerActivity, profile
from torch.utils import _pytree as pytree

import ravnest

LIMIT = 0.15
# What a stage of a few kilobytes takes is lost in what the libraries take.
LEAST_BYTES = 1_000_000


def pool(count):
    machine = {"ram": 64, "bandwidth": 10_000, "speed": 50}
    return {str(i): {"IP": f"node-{i}:1", "benchmarks": machine} for i in range(count)}


def planned_bytes(stage):
    memory = stage["memory"]
    return (
        memory["weights"]
        + memory["gradients"]
        + memory["optimizer"]
        + memory["activations"] // stage["passes_in_flight"]
        + memory["temporary"]
    )


class Step:
    """A training step of one sub-model, as its own machine would run it."""

    def __init__(self, folder, index):
        self.program = ravnest.Program.load(folder / "submod.pt2").train()
        described = json.loads((folder / f"submod_{index}_input.json").read_text())
        self.sources = [each["source"] for each in described["inputs"]]
        parameters = [p for p in self.program.parameters().values() if p.requires_grad]
        self.optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9) if parameters else None

    def inputs(self, model_inputs, before):
        chosen = [
            model_inputs[source["model_input"]]
            if "model_input" in source
            else before[source["output"]]
            for source in self.sources
        ]
        return [
            # As it comes from the wire: in one piece.
            x.detach().contiguous().requires_grad_(x.requires_grad)
            if isinstance(x, torch.Tensor)
            else x
            for x in chosen
        ]

    def forward(self, inputs):
        return pytree.tree_leaves(self.program(*inputs))

    def run(self, inputs):
        outputs = [x for x in self.forward(inputs) if isinstance(x, torch.Tensor)]
        graded = [x for x in outputs if x.requires_grad]
        torch.autograd.backward(graded, [torch.ones_like(x) for x in graded])
        for x in inputs:
            if isinstance(x, torch.Tensor):
                x.grad = None
        if self.optimizer is not None:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=False)

    def peak_bytes(self, inputs):
        self.run(inputs)
        weights = [*self.program.parameters().values(), *self.program.buffers().values()]
        fixed = sum({w.data_ptr(): w.nbytes for w in weights}.values())
        fixed += 2 * sum(
            {
                p.data_ptr(): p.nbytes
                for p in self.program.parameters().values()
                if p.requires_grad
            }.values()
        )
        fixed += sum(x.nbytes for x in inputs if isinstance(x, torch.Tensor))
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            self.run(inputs)
        events = profiler.profiler.kineto_results.events()
        changes = [event for event in events if event.name() == "[memory]"]
        now = peak = 0
        for change in sorted(changes, key=lambda event: event.start_ns()):
            now += change.nbytes()
            peak = max(peak, now)
        return fixed + peak


def check(case, stages):
    torch.manual_seed(0)
    module = WithLoss(case.make(), case.loss).train()
    inputs = case.inputs(case.batches[1])
    failures = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("pool.json").write_text(json.dumps(pool(stages)))
        plan = ravnest.clusterize(
            module, (inputs,), nodes="pool.json", optimizer="momentum", verbose=False
        )
        before = []
        for index, stage in enumerate(plan.clusters[0]["stages"]):
            step = Step(Path(f"node_data/cluster_0/{stage['address']}"), index)
            given = step.inputs(pytree.tree_leaves(inputs), before)
            before = step.forward(given)
            measured = step.peak_bytes(given)
            ratio = planned_bytes(stage) / measured
            counts = measured >= LEAST_BYTES
            failures += counts and abs(ratio - 1) > LIMIT
            print(
                f"{case.name:<16} {index} of {len(plan.clusters[0]['stages'])}"
                f" {measured / 1e6:>10.2f} MB {ratio:>6.3f}{'' if counts else '  too small'}",
                flush=True,
            )
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--stages", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'model':<16} {'stage':<6} {'measured':>12} {'ratio':>6}")
    chosen = [case for case in CASES if not options.only or case.name in options.only]
    failures = sum(check(case, options.stages) for case in chosen)
    print("all within 15 %" if failures == 0 else f"{failures} outside 15 %")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
