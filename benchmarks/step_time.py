"""Time of a training step, interpreter over eager PyTorch, one thread."""

from _compare import Effort, Ratio, compare
from steps import Work, eager_step, program_step


def measure(work: Work, effort: Effort) -> Ratio:
    return compare(
        f"step/{work.name}",
        ours=program_step(work),
        theirs=eager_step(work),
        target=work.time_target,
        effort=effort,
    )
