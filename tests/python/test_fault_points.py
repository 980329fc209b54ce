"""Machines and the server, killed and stopped at named points of their work."""

import functools
import os
import re
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from counted import check_counted, final_loss, training
from local_server import Fit, Pool, wait_until

SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
ROLES = {"root": 0, "stem": 1, "leaf": 2}
FIRST, APART = 2, 2  # epochs until the first fault, and between two
# Seconds, as promised: the median of all faults of a kind keeps to it. One alone may take twice as
# long as the longest of its kind, on a machine that is busy.
FOUND = {"killed": 1.0, "stopped": 5.0}
FROM_CHECKPOINT, FROM_RING, BACK = 20.0, 10.0, 5.0
ONE_CLUSTER = {"epochs": 14, "providers": 3, "checkpoint_every": 8}
TWO_CLUSTERS = {
    "epochs": 20,
    "providers": 6,
    "clusters": 2,
    "reduce_factor": 2,
    "checkpoint_every": 4,
}


@dataclass
class Fault:
    point: str
    how: str  # of SIGNALS
    stage: int
    cluster: int = 0


class Faults:
    """In one training, each in an epoch of its own. A box is told in mid-epoch where to stop; what
    is done to it there is `strike`'s."""

    def __init__(self, pool: Pool, faults: list[Fault], strike: Callable, spares: int = 1):
        self._pool = pool
        self._faults = faults
        self._strike = strike
        self._spares = spares
        self._struck = 0
        self._told: list[str] = []

    def _tell(self) -> None:
        """On the requester's thread."""
        number = len(self._told)
        wait_until(lambda: self._struck == number, f"fault {number} is over")
        wait_until(lambda: len(free(self._pool)) >= self._spares, "a spare is there")
        fault = self._faults[number]
        name = self._pool.holder(fault.stage, fault.cluster)
        self._pool.boxes[name].order.give(fault.point)
        self._told.append(name)

    def train(self, seed: int = 1, **options) -> Fit:
        at = {FIRST + APART * i: self._tell for i in range(len(self._faults))}
        fit = self._pool.fit(at=at, **training(seed), **options)
        for number, fault in enumerate(self._faults):
            wait_until(lambda n=number: len(self._told) > n or fit.is_over(), f"{fault} is told")
            if fit.is_over():
                fit.result()  # raises what ended it
            name = self._told[number]
            order = self._pool.boxes[name].order
            wait_until(order.hit, f"{name} is at {fault.point}")
            self._strike(fit, name, order.hit(), fault)
            self._struck += 1
        return fit


def free(pool: Pool) -> list[str]:
    return [
        name
        for name, each in pool.providers().items()
        if each["presence"] == "present" and each["place"] is None and not each["banned_seconds"]
    ]


class Times:
    """How long it took, of every fault, by what was promised for its kind."""

    def __init__(self) -> None:
        self._took: dict[tuple[str, float], list[float]] = {}

    def add(self, kind: str, promised: float, seconds: float) -> None:
        self._took.setdefault((kind, promised), []).append(seconds)

    def check(self) -> None:
        late = []
        for (kind, promised), took in self._took.items():
            median = statistics.median(took)
            each = ", ".join(f"{seconds:.1f}" for seconds in sorted(took))
            line = f"{kind}: median {median:.1f} s, promised {promised:.0f} s ({each})"
            print(line)
            late += [line] if median > promised else []
        assert not late, "\n".join(late)


@pytest.fixture(scope="module")
def times():
    """Of the faults of all tests here: looked at after the last."""
    times = Times()
    yield times
    times.check()


def replace(pool: Pool, times: Times, weights: str, promised: float) -> Callable:
    """A box is killed for good, or stopped until it is replaced."""

    def strike(_: Fit, name: str, __: int, fault: Fault) -> None:
        before = count(pool, " trains.")
        lost = count(pool, f"{name} is lost with")
        started = time.monotonic()
        pool.boxes[name].send(SIGNALS[fault.how])
        longest = 2 * max(FOUND.values())
        wait_until(lambda: count(pool, f"{name} is lost with") > lost, f"{name} is lost", longest)
        found = time.monotonic() - started
        if fault.how == "stopped":  # as the server measured it, since it last heard of it
            told = [line for line in pool.log() if f"{name} is lost with" in line][-1]
            found = float(re.search(r"nothing was heard of it for (\d+) s", told)[1])
        wait_until(lambda: count(pool, " trains.") > before, "it trains again", 2 * promised)
        mended = time.monotonic() - started
        print(f"{fault}: found after {found:.1f} s, mended after {mended:.1f} s")
        times.add(f"{fault.how}, found", FOUND[fault.how], found)
        times.add(f"mended from the {weights}", promised, mended)
        if fault.how == "killed":
            pool.boxes.pop(name).end()
            pool.start()
        else:
            pool.boxes[name].send(signal.SIGCONT)

    return strike


def count(pool: Pool, words: str) -> int:
    return sum(words in line for line in pool.log())


@pytest.fixture(scope="module")
def worst_loss(lasting_pool):
    """Of a training without faults: the worst of three seeds, or 5 % over their median."""

    @functools.cache
    def of(clusters: int) -> float:
        options = ONE_CLUSTER if clusters == 1 else TWO_CLUSTERS
        lasting_pool.lend(options["providers"])
        fits = (lasting_pool.fit(**training(seed), **options) for seed in (1, 2, 3))
        losses = [final_loss(check_counted(fit).state_dict()) for fit in fits]
        print(f"without faults, {clusters} clusters: {losses}")
        return max(*losses, 1.05 * statistics.median(losses))

    return of


def check_loss(fit: Fit, worst_loss: Callable[[int], float]) -> None:
    loss = final_loss(check_counted(fit).state_dict())
    print(f"loss {loss:.4f}")
    assert loss <= worst_loss(fit.clusters)


POINTS = {
    "killed": ["forward", "backward", "update", "checkpoint", "upload"],
    "stopped": ["forward", "backward", "checkpoint"],
}


@pytest.mark.parametrize("how", POINTS)
@pytest.mark.parametrize("role", ROLES)
def test_a_stage_is_mended_from_the_restore_point_wherever_it_was(
    pool, times, worst_loss, role, how
):
    pool.lend(4)
    strikes = [Fault(point, how, ROLES[role]) for point in POINTS[how]]
    faults = Faults(pool, strikes, replace(pool, times, "checkpoint", FROM_CHECKPOINT))
    fit = faults.train(**ONE_CLUSTER)
    check_counted(fit)
    assert count(pool, "weights: checkpoint") >= len(POINTS[how])
    check_loss(fit, worst_loss)


@pytest.mark.parametrize("how", SIGNALS)
def test_a_stage_lost_while_clusters_average_is_mended_from_the_ring(pool, times, worst_loss, how):
    pool.lend(7)
    faults = [Fault("averaging", how, stage) for stage in ROLES.values()]
    fit = Faults(pool, faults, replace(pool, times, "ring", FROM_RING)).train(**TWO_CLUSTERS)
    check_counted(fit)
    assert count(pool, "weights: ring") >= len(faults)
    check_loss(fit, worst_loss)


def test_training_outlives_a_server_that_is_lost_at_any_point_of_it(pool, times, worst_loss):
    pool.lend(6)

    def strike(fit: Fit, _: str, process: int, fault: Fault) -> None:
        learned = fit.learned()
        if fault.how == "killed":
            pool.server.end()
            os.kill(process, signal.SIGCONT)
            pool.serve()
            started = time.monotonic()
            wait_until(lambda: len(telling(pool)) == 6, "all are back with their stages", 2 * BACK)
            took = time.monotonic() - started
            print(f"{fault}: all are back after {took:.1f} s")
            times.add("the server was killed, all are back", BACK, took)
        else:
            pool.server.popen.send_signal(signal.SIGSTOP)
            os.kill(process, signal.SIGCONT)
            wait_until(lambda: fit.learned() > learned + 4, "it is trained without a server")
            pool.server.popen.send_signal(signal.SIGCONT)

    points = ("forward", "backward", "averaging", "checkpoint")
    faults = [Fault(point, how, stage=1) for how in SIGNALS for point in points]
    fit = Faults(pool, faults, strike, spares=0).train(**TWO_CLUSTERS)
    check_counted(fit)
    assert count(pool, "The server was started again") == len(points)
    assert count(pool, "is lost") == 0
    check_loss(fit, worst_loss)


def telling(pool: Pool) -> list[str]:
    """Who has a stage, and has told this server how many batches it has learned from."""
    clusters = pool.job()["clusters"]
    return [each["name"] for one in clusters for each in one["stages"] if each["report"]]


@pytest.mark.parametrize("point", ["plan", "assignment"])
def test_a_job_begins_although_the_server_was_killed_at_it(pool, point):
    pool.lend(3)
    jobs = len(pool.status()["jobs"])
    pool.server.order.give(point)
    numbers = []
    fit = pool.begin(**training(), **ONE_CLUSTER, on_submit=numbers.append)
    wait_until(pool.server.order.hit, f"the server is at {point}")  # it may not have answered yet
    pool.server.end()
    pool.serve()
    check_counted(fit)
    assert numbers == [pool.job()["id"]]
    assert len(pool.status()["jobs"]) == jobs + 1, "it was asked for twice, and is one"


@pytest.mark.parametrize("how", SIGNALS)
@pytest.mark.parametrize("point", ["log", "receipt"])
def test_nothing_is_lost_with_a_server_that_was_writing(pool, worst_loss, point, how):
    pool.lend(3)
    server = pool.server
    server.order.take_back()  # the test before may have stopped it, too
    fit = pool.fit(at={4: lambda: server.order.give(point)}, **training(), **ONE_CLUSTER)
    wait_until(server.order.hit, f"the server is at {point}")
    if how == "killed":
        server.end()
        pool.serve()
    else:
        learned = fit.learned()
        wait_until(lambda: fit.is_over() or fit.learned() > learned + 4, "it is trained on")
        server.popen.send_signal(signal.SIGCONT)
    check_counted(fit)
    assert count(pool, "is lost") == 0
    check_loss(fit, worst_loss)
