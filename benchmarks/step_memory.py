"""Peak memory of a training step, interpreter over eager PyTorch.

Counted are the bytes that the step itself takes from libtorch's CPU allocator
(activations, temporaries, gradients), as the profiler sees every allocation and
release in order: their running sum starts at nothing and its highest value is the
peak. Unlike the resident set this is the same in every run to a few kilobytes, is not
blurred by what malloc keeps, and leaves out the weights, which are equal on both
sides and would make the ratio look better than it is.
"""

from _compare import Effort, Ratio
from steps import Step, Work, eager_step, program_step
from torch.profiler import ProfilerActivity, profile


def peak_bytes(step: Step) -> int:
    step()
    step.clear()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step.run()
    events = profiler.profiler.kineto_results.events()
    changes = [event for event in events if event.name() == "[memory]"]
    if not changes:
        raise RuntimeError("[benchmarks] expected the profiler to see allocations, got none.")
    now = peak = 0
    for change in sorted(changes, key=lambda event: event.start_ns()):
        now += change.nbytes()
        peak = max(peak, now)
    return peak


def measure(work: Work, effort: Effort) -> Ratio:
    repetitions = 2 if effort.min_pairs < 9 else 3
    ours, theirs = program_step(work), eager_step(work)
    pairs = [(peak_bytes(ours), peak_bytes(theirs)) for _ in range(repetitions)]
    ratios = sorted(mine / other for mine, other in pairs)
    return Ratio(
        name=f"memory/{work.name}",
        median=ratios[len(ratios) // 2],
        low=ratios[0],
        high=ratios[-1],
        target=work.memory_target,
        ours=pairs[-1][0] / 1e6,
        theirs=pairs[-1][1] / 1e6,
        unit="MB",
        pairs=len(pairs),
    )
