"""The intermediary server: how soon it is there, what it costs, what a thousand providers cost it.

A ratio is over what the figure may be, unless it says of what else. All on this machine.
"""

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from _compare import Effort, Ratio, summary
from _pool import free_ports
from pipeline import MODELS, planned, rate, stages
from pipeline_worker import make_work

import ravnest

ROOT = Path(__file__).resolve().parents[1]
RAVNEST = Path(sys.executable).with_name("ravnest")
PROGRAMS = ROOT / "build/release/benchmarks"
PATIENCE = 120.0  # seconds; whatever takes longer hangs
PROVIDERS = 1000
MEGABYTES = 400
CHECKPOINT_EVERY = 100  # updates: fit()'s own
FLOOD_SECONDS = 2.0  # many times what it takes to use up the descriptors


def within(name: str, values: list[float], most: float, unit: str) -> Ratio:
    return summary(name, [(value, most) for value in values], 1.0, unit=unit, scale=1.0)


def wait_for(is_so: Callable[[], object], what: str) -> object:
    deadline = time.monotonic() + PATIENCE
    while not (found := is_so()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"[benchmarks] expected within {PATIENCE} s: {what}")
        time.sleep(0.002)
    return found


class Server:
    """`ravnest serve` in a folder of its own, and those who join it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.data = folder / "server"
        self.http = f"http://127.0.0.1:{free_ports(1)[0]}"
        words = ["serve", "--listen", "127.0.0.1:0", "--data", self.data]
        start = time.perf_counter()
        self.process = self.start([*words, "--http", self.http.removeprefix("http://")], "server")
        self.joined: list[subprocess.Popen] = []
        wait_for(self._is_healthy, "the server is ready")
        self.seconds = time.perf_counter() - start
        where = self.data / "server.json"
        wait_for(where.exists, "the server says where it is")
        self.address = json.loads(where.read_text())["address"]

    def start(self, words: list, name: str) -> subprocess.Popen:
        with (self.folder / f"{name}.log").open("w") as log:
            return subprocess.Popen([RAVNEST, *map(str, words)], stdout=log, stderr=log)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.http}/healthz", timeout=PATIENCE) as answer:
                return answer.status == 200
        except OSError:
            return False

    def token(self, role: str, uses: int = 100) -> str:
        words = ["token", "--data", self.data, "--role", role, "--uses", str(uses)]
        return subprocess.check_output([RAVNEST, *words], text=True).strip()

    def state(self) -> dict:
        with urllib.request.urlopen(f"{self.http}/api/state", timeout=PATIENCE) as answer:
            return json.load(answer)

    def join(self, name: str) -> None:
        words = ["join", self.address, "--token", self.token("provider"), "--name", name]
        words += ["--data", self.folder / name, "--threads", "1"]
        self.joined.append(self.start(words, name))

    def wait_for_free(self, count: int) -> None:
        def are_free() -> bool:
            found = self.state()["providers"]
            return sum(p["presence"] == "present" and p["place"] is None for p in found) == count

        wait_for(are_free, f"{count} providers are there")

    def end(self) -> None:
        for process in [*self.joined, self.process]:
            process.terminate()
        for process in [*self.joined, self.process]:
            process.wait(PATIENCE)


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    with (
        tempfile.TemporaryDirectory(prefix="ravnest-bench-") as folder,
        patched("RAVNEST_HOME", folder),
    ):
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.end()


@contextlib.contextmanager
def patched(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


class Times(list):
    """A list that knows when each of its values came."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[float] = []

    def append(self, value: float) -> None:
        self.at.append(time.perf_counter())
        super().append(value)


def train(
    server: Server,
    model: str,
    passes: int,
    providers: int,
    first: Callable = int,
    losses: Times | None = None,
) -> Times:
    """Trains an epoch of one batch, then one of so many, whose losses it gives. `first` is called
    after the former."""
    module, inputs, target, loss_of, _ = make_work(model)
    losses = Times() if losses is None else losses

    class Batches:
        count = 1

        def __iter__(self):
            yield from [(inputs, target)] * self.count

    batches = Batches()

    def on_epoch(run: ravnest.Run) -> None:
        if run.epoch == 1:
            first()
            run.history["loss"] = losses
            batches.count = passes

    ravnest.fit(
        module,
        batches,
        criterion=loss_of,
        epochs=2 if passes else 1,
        server=server.address,
        token=server.token("requester"),
        providers=providers,
        callbacks=[on_epoch],
        quiet=True,
    )
    return losses


def measure_ready(effort: Effort) -> list[Ratio]:
    seconds = []
    for _ in range(3 if effort.min_pairs < 9 else 9):
        with serving() as server:
            seconds.append(server.seconds)
    return [within("server/ready", seconds, 0.5, "s")]


def measure_join(effort: Effort) -> list[Ratio]:
    """From the start of `ravnest join` to the first loss of a job that has waited for it."""
    seconds = []
    for _ in range(2 if effort.min_pairs < 9 else 7):
        with serving() as server:
            done: list[float] = []
            told = {"first": lambda done=done: done.append(time.perf_counter())}
            thread = threading.Thread(target=train, args=(server, "cnn", 0, 1), kwargs=told)
            thread.start()
            wait_for(lambda server=server: server.state()["jobs"], "a job waits")
            start = time.perf_counter()
            server.join("box")
            thread.join(PATIENCE)
            seconds.append(done[0] - start)
    return [within("server/join to first pass", seconds, 3.0, "s")]


def measure_rejoin(effort: Effort) -> list[Ratio]:
    """From the start of `ravnest join` to the next loss of a job whose only provider was lost."""
    seconds = []
    for _ in range(2 if effort.min_pairs < 9 else 7):
        with serving() as server:
            losses = Times()
            told = {"losses": losses}
            thread = threading.Thread(target=train, args=(server, "cnn", 2000, 1), kwargs=told)
            server.join("first")
            server.wait_for_free(1)
            thread.start()
            wait_for(lambda losses=losses: losses, "the job trains")
            server.joined[0].kill()
            wait_for(
                lambda server=server: server.state()["jobs"][0]["phase"] == "paused",
                "the job waits for another provider",
            )
            start = time.perf_counter()
            server.join("second")
            wait_for(lambda losses=losses, start=start: losses.at[-1] > start, "it trains again")
            seconds.append(next(at for at in losses.at if at > start) - start)
            thread.join(PATIENCE)
    return [within("server/join to the next pass", seconds, 3.0, "s")]


def measure_rate(effort: Effort) -> list[Ratio]:
    """Two stages of the GPT: by way of a server, over plain scripts.

    As many passes as lie between two checkpoints are timed, and one of these with them; the plain
    scripts keep none.
    """
    load = MODELS["gpt"]
    passes = load.warmup + CHECKPOINT_EVERY + 5  # the last ones find an emptying pipeline
    pairs = []
    with serving() as server, planned("gpt") as (folder, _):
        for name in ("one", "two"):
            server.join(name)
        for _ in range(2 if effort.min_pairs < 9 else 5):
            server.wait_for_free(2)
            times = train(server, "gpt", passes, 2).at[load.warmup : -4]
            batch = len(make_work("gpt")[1])
            ours = batch * (len(times) - 1) / (times[-1] - times[0])
            pairs.append((ours, rate(stages("gpt", folder, load))))
    return [summary("server/gpt", pairs, 0.95, unit="samples/s", scale=1.0, at_least=True)]


def measure_size(_: Effort) -> list[Ratio]:
    with tempfile.TemporaryDirectory(prefix="ravnest-bench-") as folder:
        stripped = Path(folder, "ravnest")
        subprocess.run(["strip", "-o", stripped, RAVNEST], check=True)
        return [within("server/binary", [stripped.stat().st_size / 1e6], 30.0, "MB")]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024 / 1e6


def measure_thousand(effort: Effort) -> list[Ratio]:
    """1,000 providers over TLS, each beating every second."""
    with serving() as server:
        seconds = 5 if effort.min_pairs < 9 else 30
        words = [server.address, server.token("provider", PROVIDERS), PROVIDERS, seconds]
        load = subprocess.Popen(
            [PROGRAMS / "many_providers", *map(str, words)], stdout=subprocess.PIPE, text=True
        )
        try:
            expect(load, "joined")
            before, start = cpu_seconds(server.process.pid), time.perf_counter()
            expect(load, "beaten")
            taken = cpu_seconds(server.process.pid) - before
            percent = 100.0 * taken / (time.perf_counter() - start)
            memory = megabytes(server.process.pid, "VmRSS")
            if load.wait(PATIENCE) != 0:
                raise RuntimeError("[benchmarks] a provider was cut off.")
        finally:
            load.kill()
            load.wait()
    return [
        within("server/1,000 beating, CPU", [percent], 20.0, "%"),
        within("server/1,000 beating, memory", [memory], 200.0, "MB"),
    ]


def measure_plan(_: Effort) -> list[Ratio]:
    """All that the server does for one: makes it, cuts the model, keeps every stage's files."""
    said = subprocess.check_output([PROGRAMS / "coordinator_bench", "--quick"], text=True)
    line = next(line for line in said.splitlines() if line.startswith("plan over 1,000 providers"))
    return [within("server/plan of 1,000, with all files", [float(line.split()[-2])], 1.0, "s")]


def expect(process: subprocess.Popen, word: str) -> str:
    line = process.stdout.readline() if process.stdout else ""
    if not line.startswith(word):
        raise RuntimeError(f"[benchmarks] expected '{word}', got '{line.strip()}'.")
    return line.removeprefix(word).strip()


def measure_distribution(effort: Effort) -> list[Ratio]:
    """A sub-model from server to provider, over a TCP copy of the same file: within one machine,
    and as between two."""
    rounds = 3 if effort.min_pairs < 9 else 9
    ratios = []
    with serving() as server:
        for way in ("local", "tls"):
            name = f"server/distribution {way}"
            words = [server.address, server.data, server.process.pid, MEGABYTES, rounds, way]
            command = [PROGRAMS / "distribution_bench", *map(str, words)]
            told = json.loads(subprocess.check_output(command, text=True))
            pairs = [tuple(pair) for pair in told["pairs"]]
            ratios += [
                summary(name, pairs, 0.5, unit="GB/s", scale=1.0, at_least=True),
                within(f"{name}, server's MB", [told["server_mb"]], 64.0, "MB"),
                within(f"{name}, own MB", [told["own_mb"]], 64.0, "MB"),
            ]
    return ratios


class Flood:
    """Connections that say nothing, so many at a time and, each time one is cut off, another; at
    most a thousand a second."""

    def __init__(self, address: str, count: int):
        host, port = address.split(":")
        self._where = (host, int(port))
        self._held: list[socket.socket] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(count,))
        self._thread.start()

    def _run(self, count: int) -> None:
        while not self._is_over.wait(0.001):
            if len(self._held) >= count:
                self._held.pop(0).close()
            with contextlib.suppress(OSError):  # refused: as it should
                self._held.append(socket.create_connection(self._where, timeout=0.5))

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()
        for each in self._held:
            each.close()


def measure_flood(effort: Effort) -> list[Ratio]:
    """From the end of a flood that had used up the server's descriptors to a newcomer's session;
    and what is trained beside a flood, over what is trained without."""
    rounds = 2 if effort.min_pairs < 9 else 5
    seconds, pairs = [], []
    with serving() as server:
        server.join("box")
        server.wait_for_free(1)
        for number in range(rounds):
            pairs.append((rate_beside_flood(server, True), rate_beside_flood(server, False)))
            words = ["join", server.address, "--token", server.token("provider")]
            words += ["--name", f"late{number}", "--data", server.folder / f"late{number}"]
            pid = server.process.pid
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (96, before[1]))
            flood = Flood(server.address, 300)
            time.sleep(FLOOD_SECONDS)
            flood.end()
            start = time.perf_counter()
            late = server.start([*words, "--ram", "1"], f"late{number}")
            server.wait_for_free(2)
            seconds.append(time.perf_counter() - start)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            late.terminate()
            late.wait(PATIENCE)
            server.wait_for_free(1)
    share = summary("server/flood, trained", pairs, 0.5, unit="batches/s", scale=1.0, at_least=True)
    return [within("server/flood, served again", seconds, 5.0, "s"), share]


def rate_beside_flood(server: Server, is_flooded: bool) -> float:
    flood = Flood(server.address, 300) if is_flooded else None
    try:
        at = train(server, "cnn", 500, 1).at[50:]
    finally:
        if flood:
            flood.end()
    return (len(at) - 1) / (at[-1] - at[0])


JOBS = {
    "ready": measure_ready,
    "join": measure_join,
    "rejoin": measure_rejoin,
    "gpt": measure_rate,
    "binary": measure_size,
    "thousand": measure_thousand,
    "plan": measure_plan,
    "distribution": measure_distribution,
    "flood": measure_flood,
}
