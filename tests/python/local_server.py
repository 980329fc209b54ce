"""A server and its providers on this machine: real processes, which a test may kill."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fault_order import FaultOrder
from torch import nn

import ravnest

RAVNEST = str(Path(sys.executable).with_name("ravnest"))
PATIENCE = 60.0  # seconds; whatever takes longer hangs

SAMPLES, BATCH, FEATURES, CLASSES = 320, 32, 8, 3
BATCHES = SAMPLES // BATCH


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(FEATURES, 32),
        nn.Tanh(),
        nn.Linear(32, 32),
        nn.ReLU(),
        nn.Linear(32, 32),
        nn.ReLU(),
        nn.Linear(32, CLASSES),
    )


def make_tensors() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
    return inputs, inputs[:, :CLASSES].argmax(1)


def wait_until(is_so: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    deadline = time.monotonic() + patience
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"expected within {patience} s: {what}"
        time.sleep(0.05)
    return found


class Process:
    """A `ravnest` that runs on, with what it says in a file."""

    def __init__(self, words: list[str], log: Path):
        self.log = log
        self.order = FaultOrder()
        with log.open("a") as file:
            self.popen = subprocess.Popen(
                [RAVNEST, *words], stdout=file, stderr=file, **self.order.passed()
            )

    def children(self) -> list[int]:
        found = []
        for task in Path(f"/proc/{self.popen.pid}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
        return found

    def send(self, number: int) -> None:
        """To it and to the process of its stage."""
        children = self.children()
        self.popen.send_signal(number)
        for child in children:
            os.kill(child, number)

    def is_running(self) -> bool:
        return self.popen.poll() is None

    def end(self) -> None:
        if self.is_running():
            self.send(signal.SIGKILL)
        self.popen.wait()

    def said(self) -> str:
        return self.log.read_text()


class Batches:
    """A loader. `at` acts when so many epochs have ended, in the middle of the next."""

    def __init__(self, at: dict[int, Callable]):
        inputs, target = make_tensors()
        self._batches = list(zip(inputs.split(BATCH), target.split(BATCH), strict=True))
        self._at = dict(at)
        self._epochs = 0

    def __iter__(self):
        for i, batch in enumerate(self._batches):
            if i == BATCHES // 2 and (act := self._at.pop(self._epochs, None)) is not None:
                act()
            yield batch
        self._epochs += 1


class Fit:
    """A training in a thread of its own."""

    def __init__(self, pool: "Pool", epochs: int, at: dict[int, Callable] | None, options: dict):
        self.epochs = epochs
        self.clusters = options.get("clusters", 1)
        self._run: ravnest.Run | None = None
        self._seen: ravnest.Run | None = None
        self._error: BaseException | None = None
        self._call = {
            "model": make_model(),
            "train_loader": Batches(at or {}),
            "val_loader": Batches(
                options.pop("at_validation", {})
            ),  # an epoch ends when all of it was learned from
            "criterion": nn.functional.cross_entropy,
            "optimizer_params": {"lr": 0.01},
            "epochs": epochs,
            "server": pool.address,
            "token": pool.requester_token,
            "providers": 3,
            "seed": 1,
            "checkpoint_every": 16,
            "callbacks": [self._see],
            "quiet": True,
        } | options
        self._thread = threading.Thread(target=self._train, daemon=True)
        self._thread.start()

    def _train(self) -> None:
        try:
            self._run = ravnest.fit(**self._call)
        except BaseException as error:
            self._error = error

    def _see(self, run: ravnest.Run) -> None:
        self._seen = run

    def learned(self) -> int:
        """Batches, as the requester was told; none before the first epoch has ended."""
        return len(self._seen.history["loss"]) if self._seen else 0

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> ravnest.Run:
        wait_until(self.is_over, "the training ends")
        if self._error is not None:
            raise self._error
        assert self._run is not None
        return self._run


class Pool:
    """A server in a folder, its providers by name, and trainings on them."""

    def __init__(self, folder: Path, listen: str = "127.0.0.1:0", http: str = ""):
        self.folder = folder
        self.data = folder / "server"
        self.address = listen
        self.http = http
        self.boxes: dict[str, Process] = {}
        self.fits: list[Fit] = []
        self._started = 0
        self.serve()
        self.token = self.ask("token", "--uses", "100").strip()
        self.requester_token = self.ask("token", "--role", "requester", "--uses", "100").strip()

    def serve(self) -> None:
        """At the same port as before, as members know it."""
        where = self.data / "server.json"
        where.unlink(missing_ok=True)
        words = ["serve", "--listen", self.address, "--http", self.http, "--data", str(self.data)]
        self.server = Process(words, self.folder / "server.log")
        wait_until(lambda: where.exists() or not self.server.is_running(), "the server listens")
        assert self.server.is_running(), self.server.said()
        self.address = json.loads(where.read_text())["address"]

    def start(self) -> str:
        """Lends one more machine; gives its name."""
        self._started += 1
        name = f"box{self._started}"
        words = ["join", self.address, "--token", self.token, "--name", name]
        words += ["--data", str(self.folder / name), "--threads", "1", "--ram", "4"]
        self.boxes[name] = Process(words, self.folder / f"{name}.log")
        return name

    def wait_for_free(self, *names: str) -> None:
        def are_free() -> bool:
            found = self.providers()
            return all(
                name in found
                and found[name]["presence"] == "present"
                and found[name]["place"] is None
                for name in names
            )

        wait_until(are_free, f"{', '.join(names)} are there and free")

    def lend(self, count: int) -> list[str]:
        """So many machines and no others are there, free and without a blemish."""
        known = self.providers()
        for name in list(self.boxes):
            each = known.get(name)
            is_good = each is not None and each["strikes"] == 0 and not each["is_paused"]
            is_good = is_good and self.boxes[name].is_running()
            if not is_good or len(self.boxes) > count:
                self.boxes.pop(name).end()
        while len(self.boxes) < count:
            self.start()
        self.wait_for_free(*self.boxes)
        wait_until(lambda: self._present() == set(self.boxes), "the others are gone")
        return list(self.boxes)

    def _present(self) -> set[str]:
        return {name for name, each in self.providers().items() if each["presence"] != "away"}

    def run(self, *words: str, env: dict | None = None) -> subprocess.CompletedProcess:
        return subprocess.run(
            [RAVNEST, *words], capture_output=True, text=True, timeout=PATIENCE, env=env
        )

    def ask(self, command: str, *words: str) -> str:
        """As the server's owner."""
        answer = self.run(command, *words, "--data", str(self.data))
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def status(self) -> dict:
        return json.loads(self.ask("status", "--json"))

    def providers(self) -> dict[str, dict]:
        return {each["name"]: each for each in self.status()["providers"]}

    def links(self) -> dict[frozenset[str], dict]:
        """What was measured between two providers, by their names."""
        return {
            frozenset((name, link["name"])): link
            for name, each in self.providers().items()
            for link in each["links"]
        }

    def job(self, number: int | None = None) -> dict:
        jobs = self.status()["jobs"]
        return jobs[-1] if number is None else next(job for job in jobs if job["id"] == number)

    def notes(self) -> str:
        return "\n".join(self.log())

    def log(self) -> list[str]:
        """All that happened to the newest job, a line each."""
        return self.ask("logs", str(self.job()["id"])).splitlines()

    def holder(self, stage: int, cluster: int = 0) -> str:
        """The name of who holds a stage of the newest job; -1 is the leaf."""
        return self.job()["clusters"][cluster]["stages"][stage]["name"]

    def fit(self, epochs: int = 12, at: dict[int, Callable] | None = None, **options) -> Fit:
        """Returns when the server has the job: two models cannot be captured at once."""
        jobs = len(self.status()["jobs"])
        fit = self.begin(epochs, at, **options)
        wait_until(lambda: fit.is_over() or len(self.status()["jobs"]) > jobs, "a job is asked for")
        return fit

    def begin(self, epochs: int = 12, at: dict[int, Callable] | None = None, **options) -> Fit:
        """Returns at once."""
        fit = Fit(self, epochs, at, options)
        self.fits.append(fit)
        return fit

    def settle(self) -> None:
        """After a test, also one that failed: nothing is trained any more."""
        if not self.server.is_running():
            self.serve()
        self.server.popen.send_signal(signal.SIGCONT)
        for box in self.boxes.values():
            if box.is_running():
                box.send(signal.SIGCONT)
        self._show()
        for job in self.status()["jobs"]:
            if job["phase"] not in ("done", "failed", "cancelled"):
                self.ask("cancel", str(job["id"]))
        for fit in self.fits:
            wait_until(fit.is_over, "a training that was cancelled ends")
        self.fits.clear()

    def _show(self) -> None:
        """To pytest, which prints it where a test failed."""
        print(self.ask("status"), self.ask("logs"), sep="\n")
        if jobs := self.status()["jobs"]:
            print(self.ask("logs", str(jobs[-1]["id"])))
        for name, box in self.boxes.items():
            print(f"--- {name}, {'runs' if box.is_running() else box.popen.returncode}", box.said())

    def end(self) -> None:
        for box in self.boxes.values():
            box.end()
        self.server.end()


def check_trained(fit: Fit) -> ravnest.Run:
    """Every batch was learned from once, the weights are a model's, and it has learned."""
    run = fit.result()
    losses = run.history["loss"]
    assert len(losses) == fit.epochs * BATCHES
    model = make_model()
    model.load_state_dict(run.state_dict(), strict=True)
    inputs, target = make_tensors()
    assert nn.functional.cross_entropy(model(inputs), target).item() < 0.8 * losses[0]
    return run
