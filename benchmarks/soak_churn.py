"""A training on a server while its providers, and the server itself, are killed in turn.

    python benchmarks/soak_churn.py [--minutes 10] [--kill-every 6] [--seed N]

Two clusters of three stages and two spares; whoever is killed is followed by a new one. Before it,
the same is trained undisturbed for a tenth of the time. Prints how long faults lasted and what
share of the undisturbed speed is left; exits with 1 where what tests/python/churn.py holds a
training to does not hold.
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import churn
import torch
from local_server import Pool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kill-every", type=float, default=6.0, help="seconds")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="ravnest-soak-") as folder:
        os.environ["RAVNEST_HOME"] = str(Path(folder) / "home")
        pool = Pool(Path(folder))
        try:
            soak(pool, 60.0 * options.minutes, options.kill_every, options.seed)
        finally:
            pool.end()


def soak(pool: Pool, seconds: float, kill_every: float, seed: int) -> None:
    undisturbed = churn.train(pool, churn.Plan(seconds=max(5.0, seconds / 10), seed=seed))
    print(f"undisturbed: {undisturbed.describe()}", flush=True)
    report = churn.train(pool, churn.Plan(seconds=seconds, seed=seed, kill_every=kill_every))
    print(f"{report.describe()}\nspeed: {report.rate / undisturbed.rate:.0%} of the undisturbed")
    churn.check(report)


if __name__ == "__main__":
    try:
        main()
    except AssertionError as failure:
        sys.exit(f"it does not hold: {failure or 'see above'}")
