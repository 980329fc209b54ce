"""A training while machines and the server are killed, and what must hold of it."""

import contextlib
import random
import re
import statistics
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from counted import RATE, Counted, criterion, training, updates
from local_server import BATCH, BATCHES, CLASSES, FEATURES, Fit, Pool, wait_until

STAGES, SPARES = 3, 2
SERVER_EVERY = 4  # boxes that are killed for every server
HELD_OUT = 4096
FLOOR = 10_000  # batches, after which the loss stays what it is
LONGEST_GAP = 15.0  # seconds between two batches that were learned from
MEND = 20.0  # seconds, as promised: the median; one alone may take twice as long
MOST_DESCRIPTORS = 256
MOST_MEMORY = 1.0e9
_LOOK = 0.5


def make_batch(seed: int, count: int = BATCH) -> tuple[torch.Tensor, torch.Tensor]:
    """Never the same one twice, a third of the labels by chance: the loss comes to a floor."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, FEATURES, generator=generator)
    chance = torch.randint(CLASSES, (count,), generator=generator)
    is_true = torch.rand(count, generator=generator) > 0.3
    return inputs, torch.where(is_true, inputs[:, :CLASSES].argmax(1), chance)


class Stream:
    """A loader that has batches until it is told to end."""

    def __init__(self) -> None:
        self.dealt = 0
        self.is_over = False

    def __iter__(self):
        for _ in range(BATCHES):
            if self.is_over:
                return
            yield make_batch(self.dealt)
            self.dealt += 1


@dataclass
class Kill:
    victim: str  # a box's name, or "server"
    at: float
    mended: float | None = None  # seconds, until every stage is held and trains


@dataclass
class Report:
    """How a training went."""

    seconds: float
    ended: float
    batches: int
    clusters: int
    loss: float
    kills: list[Kill] = field(default_factory=list)
    longest_gap: float = 0.0
    most_descriptors: int = 0
    most_memory: int = 0

    @property
    def rate(self) -> float:
        return self.batches / self.seconds

    def describe(self) -> str:
        mended = sorted(kill.mended for kill in self.kills if kill.mended is not None)
        lines = [
            f"{self.batches} batches in {self.seconds:.0f} s ({self.rate:.0f}/s), loss "
            f"{self.loss:.4f}, longest gap {self.longest_gap:.1f} s, at most "
            f"{self.most_descriptors} descriptors and {self.most_memory / 1e6:.0f} MB in a process"
        ]
        if mended:
            tenths = statistics.quantiles(mended, n=10) if len(mended) > 1 else mended * 9
            lines.append(
                f"{len(self.kills)} kills, {len(mended)} mended before the end: median "
                f"{statistics.median(mended):.1f} s, ninth tenth {tenths[8]:.1f} s, longest "
                f"{mended[-1]:.1f} s"
            )
        return "\n".join(lines)


class Watch:
    """Looks at a training several times a second, on a thread of its own."""

    def __init__(self, pool: Pool, fit: Fit):
        self.kills: list[Kill] = []
        self.longest_gap = 0.0
        self.most_descriptors = 0
        self.most_memory = 0
        self.disorder: list[str] = []
        self._pool = pool
        self._fit = fit
        self._learned = (fit.learned(), time.monotonic())
        self._newest = -1
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_LOOK):
            self._look_at_progress()
            self._look_at_processes()
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                self._look_at_server()  # which may have been killed a moment ago

    def _look_at_progress(self) -> None:
        now = time.monotonic()
        if (learned := self._fit.learned()) > self._learned[0]:
            self._learned = (learned, now)
        self.longest_gap = max(self.longest_gap, now - self._learned[1])

    def _look_at_processes(self) -> None:
        for process in [self._pool.server, *list(self._pool.boxes.values())]:
            for number in [process.popen.pid, *process.children()]:
                try:
                    folder = Path(f"/proc/{number}")
                    descriptors = len(list((folder / "fd").iterdir()))
                    pages = int((folder / "statm").read_text().split()[1])
                except OSError:
                    continue  # it has ended
                self.most_descriptors = max(self.most_descriptors, descriptors)
                self.most_memory = max(self.most_memory, 4096 * pages)

    def _look_at_server(self) -> None:
        if not self._pool.server.is_running():
            return
        now = time.monotonic()
        status = self._pool.status()
        held = holders(status)
        is_whole = held and all(each["is_running"] for each in status["jobs"][-1]["clusters"])
        present = {each["name"] for each in status["providers"] if each["presence"] == "present"}
        for kill in self.kills:
            if is_whole and kill.mended is None and kill.at < now and present.issuperset(held):
                kill.mended = now - kill.at
        self._look_at_versions()

    def _look_at_versions(self) -> None:
        """A version becomes the restore point once, and a later one after it."""
        found = re.findall(r"Version (\d+) of cluster", "\n".join(self._pool.log()))
        versions = [int(version) for version in found]
        if any(a >= b for a, b in zip(versions, versions[1:], strict=False)):
            self.disorder.append(f"versions {versions}")
        if versions:
            if versions[-1] < self._newest:
                self.disorder.append(f"version {versions[-1]} after {self._newest}")
            self._newest = versions[-1]


def holders(status: dict) -> list[str]:
    """Of the stages of the newest job."""
    clusters = status["jobs"][-1]["clusters"]
    return [stage["name"] for each in clusters for stage in each["stages"]]


@dataclass
class Plan:
    """What is trained for how long, and how often somebody is killed, if at all."""

    seconds: float
    seed: int
    clusters: int = 2
    kill_every: float | None = None


def train(pool: Pool, plan: Plan) -> Report:
    """Checks what must hold of every training."""
    providers = plan.clusters * STAGES
    pool.lend(providers + SPARES)
    stream = Stream()
    fit = pool.fit(
        epochs=10**6,
        train_loader=stream,
        val_loader=None,
        providers=providers,
        clusters=plan.clusters,
        reduce_factor=8,
        checkpoint_every=50,
        **training(plan.seed),
    )
    wait_until(lambda: fit.learned() or fit.is_over(), "it is trained")
    watch = Watch(pool, fit)
    started = time.monotonic()
    try:
        kill_in_turn(pool, watch, plan)
        wait_until(
            lambda: fit.is_over() or time.monotonic() > started + plan.seconds,
            "time is up",
            plan.seconds + 1.0,
        )
    finally:
        stream.is_over = True
        run = fit.result()
        watch.end()
    assert len(run.history["loss"]) == stream.dealt, "batches that were told, and were dealt out"
    counts = updates(run.state_dict())
    assert plan.clusters > 1 or counts == [stream.dealt] * len(counts), "each is learned from once"
    assert max(counts) <= stream.dealt
    # Of clusters they are means. What a stage had not averaged yet is lost with it.
    assert min(counts) > 0.9 * stream.dealt / plan.clusters, "hardly a batch is learned by nobody"
    assert not watch.disorder
    ended = time.monotonic()
    return Report(
        seconds=ended - started,
        ended=ended,
        batches=stream.dealt,
        clusters=plan.clusters,
        loss=held_out_loss(run.state_dict()),
        kills=watch.kills,
        longest_gap=watch.longest_gap,
        most_descriptors=watch.most_descriptors,
        most_memory=watch.most_memory,
    )


def held_out_loss(state: dict[str, torch.Tensor]) -> float:
    model = Counted()
    model.load_state_dict(state, strict=True)
    inputs, target = make_batch(2**62, HELD_OUT)
    with torch.no_grad():
        return criterion(model(inputs), target).item()


def kill_in_turn(pool: Pool, watch: Watch, plan: Plan) -> None:
    """Each time somebody who holds a stage, or the server; another box, or server, is started."""
    chance = random.Random(plan.seed)
    started = time.monotonic()
    every = plan.kill_every
    deck: list[str] = []
    for turn in range(int(plan.seconds / every) if every else 0):
        when = started + (turn + 1) * every
        wait_until(lambda when=when: time.monotonic() >= when, "the next turn", 2 * every)
        if not deck:
            deck = ["server"] + ["box"] * SERVER_EVERY
            chance.shuffle(deck)
        victim = deck.pop()
        if victim == "server":
            pool.server.end()
            pool.serve()
            watch.kills.append(Kill(victim, time.monotonic()))  # from when it is back
        else:
            victim = chance.choice(sorted(holders(pool.status())) or sorted(pool.boxes))
            watch.kills.append(Kill(victim, time.monotonic()))
            pool.boxes.pop(victim).end()
            pool.start()


def train_alone(seed: int, batches: int) -> float:
    """The loss of as many batches in one process, without faults and without Ravnest."""
    model = Counted(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for number in range(min(batches, FLOOR)):
        inputs, target = make_batch(number)
        optimizer.zero_grad()
        criterion(model(inputs), target).backward()
        optimizer.step()
    return held_out_loss(model.state_dict())


def check(report: Report) -> None:
    """The figures that a training with faults is held to."""
    alone = [train_alone(seed, report.batches // report.clusters) for seed in (1, 2, 3)]
    print(f"alone: {', '.join(f'{loss:.4f}' for loss in alone)}")
    assert report.loss <= max(*alone, 1.05 * statistics.median(alone))
    assert report.longest_gap < LONGEST_GAP
    for kill in report.kills:
        lasted = report.ended - kill.at if kill.mended is None else kill.mended
        assert lasted < 2 * MEND, f"{kill} is not mended in time"
    mended = [kill.mended for kill in report.kills if kill.mended is not None]
    assert statistics.median(mended) <= MEND
    assert report.most_descriptors < MOST_DESCRIPTORS
    assert report.most_memory < MOST_MEMORY
