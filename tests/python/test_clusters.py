"""Clusters whose machines die, or stand still, while others average: each a process of its own."""

import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from local_cluster import Scripts
from test_node import Task

import ravnest
from ravnest import Node, Trainer

EPOCHS = 60  # of the second cluster, each of ten batches
WAITS = 30  # the epoch before which it waits for the file "go"


def make_node(folder, name, **options):
    task = Task("mlp", batches=10)
    return Node(
        name,
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": 0.01},
        criterion=task.loss,
        labels=task.loader(),
        reduce_factor=5,
        node_data=Path(folder) / "node_data",
        loss_filename=Path(folder) / "losses.txt",
        **{"checkpoint_every": 5, "threads": 1, "patience": 1, **options},
    )


ALONE = """
import sys
from test_clusters import EPOCHS, Gated, make_node
from ravnest import Trainer
folder, name, reduce = sys.argv[1:]
node = make_node(folder, name, reduce=reduce)
Trainer(node=node, train_loader=Gated(folder), epochs=EPOCHS, save=True).train()
"""


class Gated:
    """The task's batches, of which the later ones wait for a file."""

    def __init__(self, folder):
        self.loader = Task("mlp", batches=10).loader()
        self.folder = Path(folder)
        self.epoch = 0

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        self.epoch += 1
        if self.epoch == WAITS:
            (self.folder / "waits").touch()
            while not (self.folder / "go").exists():
                time.sleep(0.01)
        return iter(self.loader)


class UntilReleased(Trainer):
    """A training that goes on for as long as it is wanted."""

    def train(self):
        self.prelim_checks()
        while not self.is_released.is_set():
            for data in self.train_loader:
                self.node.forward_compute(data[0])


class First:
    """The first cluster, in this process."""

    def __init__(self, folder, name, **options):
        self.averaged = []  # names of those who took part, by averaging
        self.changed = threading.Condition()
        self.node = make_node(folder, name, quiet=True, **options)
        self.node.display.averaged = self._on_averaged
        loader = Task("mlp", batches=10).loader()
        self.trainer = UntilReleased(node=self.node, train_loader=loader, save=True)
        self.trainer.is_released = threading.Event()
        self.error = None
        self.thread = threading.Thread(target=self._train, daemon=True)
        self.thread.start()

    def _on_averaged(self, round_, seconds, nbytes, members):
        with self.changed:
            self.averaged.append(list(members))
            self.changed.notify_all()

    def _train(self):
        try:
            self.trainer.train()
            self.node.close()
        except BaseException as error:
            self.error = error

    def wait_for(self, members, count):
        """Until so many more averagings had so many members."""
        with self.changed:
            start = len(self.averaged)
            assert self.changed.wait_for(
                lambda: [len(each) for each in self.averaged[start:]].count(members) >= count, 60
            ), self.averaged[start:]

    def end(self):
        self.trainer.is_released.set()
        self.thread.join(60)
        assert not self.thread.is_alive() and self.error is None, self.error


@pytest.mark.parametrize("reduce", ["grpc", "gloo"])
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_cluster_that_was_away_averages_again(tmp_path, how, reduce):
    first, second = Task("mlp", batches=10).plan(tmp_path, 2, clusters=2)
    (tmp_path / "alone.py").write_text(ALONE)
    with Scripts(tmp_path) as scripts:
        cluster = First(tmp_path, first, reduce=reduce)
        victim = scripts.start(second, "alone.py", tmp_path, second, reduce)
        cluster.wait_for(members=2, count=2)
        victim.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        cluster.wait_for(members=1, count=1)
        (tmp_path / "waits").unlink(missing_ok=True)
        if how == "killed":
            victim.wait()
            scripts.start(second, "alone.py", tmp_path, second, reduce)
            scripts.wait_for((tmp_path / "waits").exists, "return")
        else:
            victim.send_signal(signal.SIGCONT)
        (tmp_path / "go").touch()
        cluster.wait_for(members=2, count=1)
        cluster.end()
        assert set(scripts.exit_codes().values()) == {0}, scripts.logs()
    assert len(cluster.averaged[-1]) == 2, "the last is of both"
    one, two = (
        ravnest.model_fusion(i, tmp_path / "node_data", tmp_path / f"{i}.pt") for i in (0, 1)
    )
    for name, value in one.items():
        assert torch.equal(value, two[name]), name
