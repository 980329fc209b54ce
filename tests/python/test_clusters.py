"""Clusters that average: of different lengths, as scripts, with machines that die or stop."""

import copy
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from local_cluster import Cluster, Scripts, write_pool
from safetensors.torch import load_file
from test_node import SignDescent, Task
from test_trainer import CLUSTER, MODEL, PROVIDER
from torch.utils.data import DataLoader, Subset

import ravnest
from ravnest import _C, Node, Trainer

EPOCHS = 60  # of the second cluster, each of ten batches
GATES = {30: "go", EPOCHS: "end"}  # epochs before which it waits for a file


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
import json, sys
from test_clusters import EPOCHS, Gated, make_node
from ravnest import Trainer
folder, name, options = sys.argv[1:]
node = make_node(folder, name, **json.loads(options))
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
        if gate := GATES.get(self.epoch):
            (self.folder / "waits").touch()
            while not (self.folder / gate).exists():
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


def fuse(folder):
    """The weights of both clusters."""
    return [ravnest.model_fusion(i, folder / "node_data", folder / f"{i}.pt") for i in (0, 1)]


def assert_same(one, two):
    for name, value in one.items():
        assert torch.equal(value, two[name]), name


@pytest.mark.parametrize(
    ("how", "options"),
    [
        ("killed", {}),
        ("killed", {"reduce": "gloo"}),
        ("killed", {"outer": "nesterov"}),
        ("killed", {"averaging_codec": "int8"}),
        ("stopped", {}),
        ("stopped", {"reduce": "gloo", "compression": True}),
        ("stopped", {"outer": "nesterov"}),
        ("stopped", {"averaging_codec": "int8"}),
    ],
)
def test_a_cluster_that_was_away_averages_again(tmp_path, how, options):
    first, second = Task("mlp", batches=10).plan(tmp_path, 2, clusters=2)
    (tmp_path / "alone.py").write_text(ALONE)
    given = json.dumps(options)
    with Scripts(tmp_path) as scripts:
        cluster = First(tmp_path, first, **options)
        victim = scripts.start(second, "alone.py", tmp_path, second, given)
        cluster.wait_for(members=2, count=2)
        victim.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        cluster.wait_for(members=1, count=1)
        (tmp_path / "waits").unlink(missing_ok=True)
        if how == "killed":
            victim.wait()
            scripts.start(second, "alone.py", tmp_path, second, given)
            scripts.wait_for((tmp_path / "waits").exists, "return")
        else:
            victim.send_signal(signal.SIGCONT)
        (tmp_path / "go").touch()
        cluster.wait_for(members=2, count=1)
        (tmp_path / "end").touch()
        cluster.end()
        assert set(scripts.exit_codes().values()) == {0}, scripts.logs()
    assert len(cluster.averaged[-1]) == 2, "the last is of both"
    assert_same(*fuse(tmp_path))


def parts_of(task, counts):
    """The data in loaders of so many batches, without overlap."""
    edges = [0]
    for count in counts:
        edges.append(edges[-1] + count * task.batch)
    return [
        DataLoader(Subset(task.data, range(*pair)), batch_size=task.batch)
        for pair in zip(edges, edges[1:], strict=False)
    ]


def train_side_by_side(task, folder, names, loaders, **options):
    """Clusters in this process, each with a loader of its own; their nodes, as plans have them."""
    nodes = [_C.read_node(os.fspath(folder / "node_data"), name) for name in names]
    clusters, threads = [], []
    for number, loader in enumerate(loaders):
        cluster = Cluster(
            folder,
            [name for name, node in zip(names, nodes, strict=True) if node["cluster"] == number],
            criterion=task.loss,
            labels=lambda _, loader=loader: loader,
            **{"schedule": "sync", "optimizer": torch.optim.SGD, "optimizer_params": {"lr": 0.05}}
            | options,
        )
        clusters.append(cluster)
        threads.append(
            threading.Thread(
                target=cluster.train,
                args=(lambda loader=loader: loader,),
                kwargs={"save": True},
                daemon=True,
            )
        )
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a cluster does not end"
    assert [cluster.errors for cluster in clusters] == [{} for _ in clusters]
    return nodes


def train_here(task, loader):
    model = copy.deepcopy(task.model).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for batch in loader:
        optimizer.zero_grad()
        task.loss(model(batch[0]), batch).backward()
        optimizer.step()
    return model.state_dict()


def test_clusters_of_three_and_two_with_other_cuts_end_with_the_mean(tmp_path):
    task = Task("gpt", batch=8, batches=24)
    names = task.plan(tmp_path, 5, clusters=2)
    loaders = parts_of(task, (12, 12))
    nodes = train_side_by_side(task, tmp_path, names, loaders, reduce_factor=1000)
    lengths = [[node["cluster"] for node in nodes].count(i) for i in (0, 1)]
    assert sorted(lengths) == [2, 3]
    held = [
        {
            frozenset(load_file(path))
            for path in (tmp_path / "node_data").glob(f"cluster_{i}/*/*.safetensors")
        }
        for i in (0, 1)
    ]
    assert not held[0] & held[1], "every cut is at another place"
    one, two = fuse(tmp_path)
    assert_same(one, two)
    apart = [train_here(task, loader) for loader in loaders]
    for name, value in one.items():
        mean = (apart[0][name] + apart[1][name]) / 2
        torch.testing.assert_close(value, mean, rtol=1e-5, atol=1e-6, msg=name)


class Recorded(SignDescent):
    """Those that were made, to look at."""

    made = []

    def __init__(self, params, **options):
        super().__init__(params, **options)
        self.made.append(self)


def test_the_state_of_an_optimizer_in_python_is_averaged(tmp_path):
    task = Task("mlp", batch=8, batches=20)
    names = task.plan(tmp_path, 2, clusters=2)
    Recorded.made.clear()
    train_side_by_side(
        task,
        tmp_path,
        names,
        parts_of(task, (10, 10)),
        reduce_factor=3,
        average_optim=True,
        optimizer=Recorded,
        optimizer_params={"lr": 0.01},
        loss_filename=tmp_path / "curve.txt",
    )
    assert_same(*fuse(tmp_path))
    states = [[each["average"] for each in one.state.values()] for one in Recorded.made]
    one, two = [state for state in states if any(average.abs().max() for average in state)]
    assert len(one) == len(two) > 0
    for mine, other in zip(one, two, strict=True):
        assert torch.equal(mine, other)
    for name in ("curve.txt", "curve_1.txt"):  # each cluster's own
        assert len((tmp_path / name).read_text().split()) == 10


def test_counters_take_the_largest_and_statistics_the_mean(tmp_path):
    task = Task("cnn", batch=8, batches=16)
    names = task.plan(tmp_path, 2, clusters=2)
    loaders = parts_of(task, (6, 10))
    train_side_by_side(task, tmp_path, names, loaders, reduce_factor=1000)
    one, two = fuse(tmp_path)
    assert_same(one, two)
    apart = [train_here(task, loader) for loader in loaders]
    assert [state["bn_1.num_batches_tracked"] for state in apart] == [6, 10]
    assert one["bn_1.num_batches_tracked"] == 10
    for name in ("bn_1.running_mean", "bn_1.running_var"):
        mean = (apart[0][name] + apart[1][name]) / 2
        torch.testing.assert_close(one[name], mean, rtol=1e-4, atol=1e-5, msg=name)


def test_six_scripts_are_two_clusters_with_the_same_weights(tmp_path):
    provider = PROVIDER.replace("criterion=loss_fn,", "criterion=loss_fn, reduce_factor=4,")
    assert provider != PROVIDER
    for name, text in (("model", MODEL), ("cluster", CLUSTER), ("provider", provider)):
        (tmp_path / f"{name}.py").write_text(text)
    write_pool(tmp_path, 6)
    with Scripts(tmp_path) as scripts:
        scripts.start("cluster", "cluster.py")
        assert scripts.exit_codes() == {"cluster": 0}, scripts.logs()
        assert len(list((tmp_path / "node_data").glob("cluster_*"))) == 2
        for i in (5, 0, 4, 1, 3, 2):
            scripts.start(f"node_{i}", "provider.py", f"node_{i}", 3)
        assert set(scripts.exit_codes(within=120).values()) == {0}, scripts.logs()
    assert_same(*fuse(tmp_path))
