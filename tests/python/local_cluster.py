"""Clusters on this machine: all nodes in one process, or each in a script of its own."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from torch import nn

import ravnest
from ravnest import Node, Trainer


def free_ports(count):
    """Ports that nobody has now, each another, and below those that outgoing connections get."""
    with contextlib.ExitStack() as stack:
        ports = []
        while len(ports) < count:
            one = stack.enter_context(socket.socket())
            port = random.SystemRandom().randint(10_000, 32_000)
            with contextlib.suppress(OSError):
                one.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def write_pool(folder, count):
    """node_data/node_configs.json of so many equal machines on free ports."""
    pool = {
        str(i): {"IP": f"127.0.0.1:{port}", "benchmarks": {"ram": 8, "bandwidth": 10}}
        for i, port in enumerate(free_ports(count))
    }
    path = Path(folder) / "node_data" / "node_configs.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(pool))
    return path


def plan(folder, model, args=(), kwargs=None, nodes=3, clusters=1):
    """A plan with a stage on every node; names in the order of clusters and stages."""
    path = write_pool(folder, nodes)
    made = ravnest.clusterize(
        model, args, kwargs, nodes=path, out=path.parent, clusters=clusters, verbose=False
    )
    names = [f"node_{stage['node']}" for each in made.clusters for stage in each["stages"]]
    assert len(names) == nodes, "every node has a stage"
    return names


class Cluster:
    """All nodes of a plan in this process, each with a thread of its own but the root."""

    def __init__(self, folder, names, **options):
        self.folder = Path(folder)
        common = {
            "node_data": self.folder / "node_data",
            "loss_filename": self.folder / "losses.txt",
            "quiet": True,
            "threads": 1,
            "checkpoint_every": 0,
        }
        self.nodes = []
        by_name = ("labels", "test_labels", "model")
        for name in names:
            given = {
                k: v(name) if k in by_name and not isinstance(v, nn.Module) else v
                for k, v in options.items()
            }
            self.nodes.append(Node(name=name, **{**common, **given}))
        self.errors = {}

    @property
    def root(self):
        return self.nodes[0]

    @property
    def leaf(self):
        return self.nodes[-1]

    def run(self, work):
        """`work(node)` on every node, the root's in this thread; then closes all. Errors are in
        `errors` by name."""
        threads = [
            threading.Thread(target=self._do, args=(work, node), daemon=True)
            for node in self.nodes[1:]
        ]
        for thread in threads:
            thread.start()
        result = self._do(work, self.root)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a node does not end"
        return result

    def _do(self, work, node):
        try:
            result = work(node)
            node.close()
            return result
        except BaseException as error:
            self.errors[node.name] = error
            node.stop(1, f"{node.name} failed.")
            return None

    def train(self, loader, kind=Trainer, then=None, **options):
        """Trains on batches of `loader()`; every node has its own. `then(trainer)` follows."""

        def work(node):
            trainer = kind(node=node, train_loader=loader(), **options)
            trainer.train()
            return then(trainer) if then is not None else trainer

        return self.run(work)

    def losses(self):
        return read_numbers(self.folder / "losses.txt")


def read_numbers(path):
    return [float(line) for line in Path(path).read_text().split()]


class Scripts:
    """Providers as users start them. Ends what is left of them."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.started = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.started.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, name, *args):
        paths = os.pathsep.join(path for path in sys.path if path)
        with open(self.folder / f"{name}.log", "a") as log:
            self.started[name] = subprocess.Popen(
                [sys.executable, "-u", *map(str, args)],
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
            )
        return self.started[name]

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def logs(self):
        return {name: self.log(name) for name in self.started}

    def exit_codes(self, within=60):
        deadline = time.monotonic() + within
        for process in self.started.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                raise AssertionError(f"a provider does not end: {self.logs()}") from error
        return {name: process.returncode for name, process in self.started.items()}

    def interrupt(self, name, number=signal.SIGINT):
        self.started[name].send_signal(number)

    def wait_for(self, is_so, what, within=60):
        """For an event in files or logs; never for time to pass."""
        deadline = time.monotonic() + within
        while not is_so():
            assert time.monotonic() < deadline, f"no {what}: {self.logs()}"
            time.sleep(0.02)
