"""Trainer: the reference's scripts as users run them, and loops of one's own."""

import _thread
import copy
import signal
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from local_cluster import Cluster, Scripts, plan, read_numbers, write_pool
from test_node import Task
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ravnest
from ravnest import Node, Trainer

MODEL = """
import torch.nn as nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_1 = nn.Conv2d(1, 8, 3, padding='same')
        self.norm_1 = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.1)
        self.conv_2 = nn.Conv2d(8, 16, 3, padding='same')
        self.flatten = nn.Flatten()
        self.dense_1 = nn.Linear(256, 64)
        self.dense_2 = nn.Linear(64, 10)
        self.soft = nn.Softmax(dim=-1)

    def forward(self, x):
        x = self.norm_1(self.conv_1(x).relu())
        x = self.conv_2(self.drop(self.pool(x))).relu()
        x = self.dense_1(self.flatten(x)).relu()
        return self.soft(self.dense_2(x))
"""

CLUSTER = """
import torch
from ravnest import clusterize, set_seed
from model import Net

set_seed(42)
clusterize(model=Net(), example_args=(torch.rand((64, 1, 8, 8)),))
"""

PROVIDER = """
import sys
import numpy as np
import torch
from torch.utils.data import DataLoader
from ravnest import Node, Trainer, set_seed

set_seed(42)
name, epochs = sys.argv[1], int(sys.argv[2])

def preprocess_dataset():
    random = np.random.RandomState(1)
    y = random.randint(10, size=700)
    x = random.rand(700, 1, 8, 8)
    x[np.arange(700), 0, y % 8, y // 2] += 3
    one_hot = np.eye(10)[y]
    generator = torch.Generator()
    generator.manual_seed(42)
    rows = list(zip(x, torch.tensor(one_hot, dtype=torch.float32)))
    train = DataLoader(rows[:500], generator=generator, shuffle=True, batch_size=64)
    return train, DataLoader(rows[500:], shuffle=False, batch_size=64)

def loss_fn(preds, targets):
    return torch.nn.functional.mse_loss(preds, targets[1])

if __name__ == '__main__':
    train_loader, val_loader = preprocess_dataset()

    node = Node(name=name, optimizer=torch.optim.Adam, optimizer_params={'lr': 0.005},
                device=torch.device('cpu'), criterion=loss_fn, labels=train_loader,
                test_labels=val_loader)

    trainer = Trainer(node=node, train_loader=train_loader, val_loader=val_loader, val_freq=8,
                      epochs=epochs, batch_size=64, inputs_dtype=torch.float32, save=True)

    trainer.train()
    trainer.evaluate()
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A folder with the scripts and their plan; names from root to leaf."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, text in (("model", MODEL), ("cluster", CLUSTER), ("provider", PROVIDER)):
        (folder / f"{name}.py").write_text(text)
    write_pool(folder, 3)
    with Scripts(folder) as scripts:
        scripts.start("cluster", "cluster.py")
        assert scripts.exit_codes() == {"cluster": 0}, scripts.logs()
    return folder


def clean(folder):
    """As before the first run."""
    for path in [*folder.glob("*.log"), *folder.glob("*.txt"), *folder.rglob("*.safetensors")]:
        path.unlink()


@pytest.fixture
def scripts(planned):
    clean(planned)
    with Scripts(planned) as scripts:
        yield scripts


def start_all(scripts, epochs):
    for i in (2, 0, 1):
        scripts.start(f"node_{i}", "provider.py", f"node_{i}", epochs)


def roles(folder):
    """Names by stage."""
    nodes = [
        Node(f"node_{i}", optimizer="sgd", criterion=len, labels=[], node_data=folder / "node_data")
        for i in range(3)
    ]
    return [node.name for node in sorted(nodes, key=lambda node: node.place.stage)]


def test_the_scripts_of_the_reference(scripts):
    start_all(scripts, epochs=6)
    assert set(scripts.exit_codes().values()) == {0}, scripts.logs()
    folder = scripts.folder
    losses = read_numbers(folder / "losses.txt")
    assert len(losses) == 6 * 8
    assert sum(losses[-8:]) < 0.7 * sum(losses[:8]), "it learns"
    accuracies = (folder / "val_accuracies.txt").read_text().split()
    assert len(accuracies) == 6 + 1, "every 8 batches, and evaluate()"
    assert all(len(text.split(".")[1]) == 2 for text in accuracies), "two decimals"
    assert float(accuracies[-1]) > 50
    assert len(list(folder.rglob("submod_?.safetensors"))) == 3
    assert not list(folder.rglob("*checkpoint*")), "the run is whole"
    for log in scripts.logs().values():
        assert len(log.splitlines()) <= 8 and "Traceback" not in log, log
    root = scripts.log(roles(folder)[0])
    assert "trained on 48 batches" in root and f"validation accuracy {accuracies[-1]} %" in root


@pytest.mark.parametrize(
    ("victim", "number"),
    [(0, signal.SIGINT), (1, signal.SIGINT), (2, signal.SIGINT), (1, signal.SIGTERM)],
    ids=["root", "stem", "leaf", "terminated"],
)
def test_interrupting_one_ends_all(scripts, victim, number):
    start_all(scripts, epochs=100_000)
    losses = scripts.folder / "losses.txt"
    scripts.wait_for(lambda: losses.exists() and losses.stat().st_size > 0, "loss")
    name = roles(scripts.folder)[victim]
    scripts.interrupt(name, number)
    codes = scripts.exit_codes(within=20)
    assert set(codes.values()) == {130}, scripts.logs()
    for log in scripts.logs().values():
        assert "Traceback" not in log, log
        assert f"{name} was interrupted" in log.splitlines()[-1], log
    fused = ravnest.model_fusion(0, scripts.folder / "node_data", scripts.folder / "state.pt")
    assert "conv_1.weight" in fused, "what was saved can be fused"


def test_loaders_that_disagree_end_the_run(tmp_path, capfd):
    task = Task("mlp", batch=4, batches=4)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        optimizer="sgd",
        criterion=task.loss,
        labels=lambda name: DataLoader(task.data, batch_size=2),
    )
    cluster.run(
        lambda node: Trainer(
            node=node, train_loader=None if node.is_leaf else task.loader()
        ).train()
    )
    assert {error.code for error in cluster.errors.values()} == {1}
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2, "a sentence from each, and no traceback"
    assert all("batch 0 has 4 samples at the root, but 2 in the leaf's labels" in x for x in said)
    assert not (tmp_path / "losses.txt").exists()


def make_trainer(folder, name, epochs=150, **options):
    """Of a node that may be in a process of its own (see below)."""
    task = Task("mlp", batches=10)
    node = Node(
        name,
        optimizer=torch.optim.Adam,
        optimizer_params={"lr": 0.005},
        criterion=task.loss,
        labels=task.shuffling_loader(),
        node_data=Path(folder) / "node_data",
        loss_filename=Path(folder) / "losses.txt",
        **{"checkpoint_every": 5, "threads": 1, "return_within": 30, **options},
    )
    return Trainer(node=node, train_loader=task.shuffling_loader(), epochs=epochs, save=True)


ALONE = """
import sys
from test_trainer import make_trainer
make_trainer(sys.argv[1], sys.argv[2], epochs=int(sys.argv[3])).train()
"""


class Neighbours:
    """Two nodes in this process, and one in a script, which can be killed."""

    def __init__(self, scripts, folder, victim, **options):
        self.names = Task("mlp", batches=10).plan(folder, 3)
        self.victim = self.names[victim]
        self.scripts = scripts
        self.options = options
        (folder / "alone.py").write_text(ALONE)
        self.ends = {}

    def start_victim(self):
        self.scripts.start(self.victim, "alone.py", self.scripts.folder, self.victim, 150)

    def start(self):
        self.threads = [
            threading.Thread(target=self._train, args=(name,), daemon=True)
            for name in self.names
            if name != self.victim
        ]
        for thread in self.threads:
            thread.start()

    def _train(self, name):
        try:
            trainer = make_trainer(self.scripts.folder, name, quiet=True, **self.options)
            trainer.train()
            trainer.node.close()
            self.ends[name] = trainer.node.status
        except BaseException as error:
            self.ends[name] = error

    def wait(self):
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), f"a node does not end: {self.scripts.logs()}"
        return self.ends

    def kill_victim(self):
        checkpoints = self.scripts.folder.rglob
        self.scripts.wait_for(
            lambda: len(list(checkpoints("*checkpoint.safetensors"))) == 3, "checkpoint"
        )
        self.scripts.started[self.victim].kill()
        self.scripts.started[self.victim].wait()


@pytest.mark.parametrize("victim", [0, 1, 2], ids=["root", "stem", "leaf"])
def test_a_provider_that_was_killed_goes_on(tmp_path, victim):
    with Scripts(tmp_path) as scripts:
        neighbours = Neighbours(scripts, tmp_path, victim)
        neighbours.start()
        neighbours.start_victim()
        neighbours.kill_victim()
        neighbours.start_victim()
        ends = neighbours.wait()
        assert set(scripts.exit_codes().values()) == {0}, scripts.logs()
        log = scripts.log(neighbours.victim)
    assert [end["passes"] for end in ends.values()] == [1500, 1500], "none is learned from twice"
    assert "(and " in log, "it had batches behind it"
    losses = read_numbers(tmp_path / "losses.txt")
    assert len(losses) == 1500 if victim < 2 else 1400 <= len(losses) <= 1500
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])
    assert not list(tmp_path.rglob("*checkpoint.safetensors")), "the run is whole"


def test_a_provider_that_does_not_come_back_ends_the_run(tmp_path, capfd):
    with Scripts(tmp_path) as scripts:
        neighbours = Neighbours(scripts, tmp_path, victim=2, return_within=0.5)
        neighbours.start()
        neighbours.start_victim()
        neighbours.kill_victim()
        ends = neighbours.wait()
    assert [end.code for end in ends.values()] == [1, 1]
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2 and all(neighbours.victim in line for line in said), said


def test_interrupting_while_waiting_for_others(tmp_path, capfd):
    task = Task("mlp", batches=10)
    _, stem, _ = task.plan(tmp_path, 3)
    trainer = make_trainer(tmp_path, stem)
    waits = threading.Event()
    trainer.node.display.notice = lambda *_: waits.set()

    def interrupt():
        assert waits.wait(20)
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(SystemExit) as ended:
        trainer.train()
    assert ended.value.code == 130
    assert capfd.readouterr().err == f"{stem} was interrupted; the run has ended.\n"
    with make_trainer(tmp_path, stem, quiet=True).node as other:
        assert other.status["passes"] == 0, "the port is free again"
        other.stop()


def test_a_taken_port_ends_a_script_with_a_sentence(tmp_path, capfd):
    (name,) = Task("mlp").plan(tmp_path, 1)
    with make_trainer(tmp_path, name, quiet=True).node as node:
        with pytest.raises(SystemExit) as ended:
            make_trainer(tmp_path, name).train()
        assert ended.value.code == 1
        port = node.place.address.split(":")[1]
        assert f"port {port} is taken" in capfd.readouterr().err


class TwoInputs(nn.Module):
    """By name, with an output that has structure."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.hidden = nn.Linear(8, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, input_ids=None, attention_mask=None):
        weights = attention_mask.unsqueeze(-1).float()
        pooled = (self.embed(input_ids) * weights).sum(1) / weights.sum(1)
        hidden = self.hidden(pooled).tanh()
        return {"logits": self.head(hidden), "hidden": hidden}


class Sentences:
    def __init__(self, count=64):
        torch.manual_seed(5)
        self.ids = torch.randint(20, (count, 6))
        self.masks = (torch.rand(count, 6) < 0.8).long()
        self.masks[:, 0] = 1
        self.labels = self.ids[:, 0] % 2

    def loader(self, _=None):
        keys = ("input_ids", "attention_mask", "labels")
        rows = zip(self.ids, self.masks, self.labels, strict=True)
        return DataLoader([dict(zip(keys, row, strict=True)) for row in rows], batch_size=8)

    def plan(self, folder):
        torch.manual_seed(0)
        self.model = TwoInputs()
        example = {"input_ids": self.ids[:8], "attention_mask": self.masks[:8]}
        return plan(folder, self.model, kwargs=example, nodes=2)

    def eager(self, epochs):
        """Losses in one process, and how many of the sentences are right in the end."""
        model, losses = self.model.train(), []
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for batch in (batch for _ in range(epochs) for batch in self.loader()):
            loss = sentence_loss(model(batch["input_ids"], batch["attention_mask"]), batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        found = model.eval()(self.ids, self.masks)["logits"].argmax(1)
        return losses, (found == self.labels).sum().item()


def sentence_loss(output, batch):
    return F.cross_entropy(output["logits"], batch["labels"])


class OwnLoop(Trainer):
    """As users write them."""

    def train(self):
        self.prelim_checks()
        for _ in range(self.epochs):
            for data in self.train_loader:
                self.node.forward_compute(
                    tensors=data["input_ids"], attention_mask=data["attention_mask"]
                )
                self.n_forwards += 1
            self.node.wait_for_backwards()


@pytest.mark.parametrize("kind", [OwnLoop, Trainer], ids=["own loop", "dicts"])
def test_inputs_by_name(tmp_path, kind):
    task = Sentences()
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path),
        schedule="sync",
        optimizer=torch.optim.Adam,
        optimizer_params={"lr": 0.01},
        criterion=sentence_loss,
        labels=task.loader,
        test_labels=task.loader,
    )

    def after(trainer):
        return trainer.n_forwards, trainer.evaluate()

    count, accuracy = cluster.train(
        task.loader, kind=kind, epochs=8, val_loader=task.loader(), val_freq=1000, then=after
    )
    assert not cluster.errors
    losses, correct = task.eager(epochs=8)
    assert count == 64
    assert cluster.losses() == pytest.approx(losses, abs=1e-5)
    assert accuracy == pytest.approx(100 * correct / 64)


def test_predictions_have_the_structure_of_the_model(tmp_path):
    task = Sentences()
    names = task.plan(tmp_path)
    cluster = Cluster(tmp_path, names, optimizer="sgd", criterion=sentence_loss, labels=task.loader)
    batch = next(iter(task.loader()))

    def work(node):
        trainer = Trainer(node=node, train_loader=task.loader())
        return trainer.pred(batch), trainer.pred((batch["input_ids"], batch["attention_mask"]))

    by_name, by_place = cluster.run(work)
    assert not cluster.errors
    wanted = task.model.eval()(batch["input_ids"], batch["attention_mask"])
    assert set(by_name) == {"logits", "hidden"}
    for key, value in wanted.items():
        assert torch.allclose(by_name[key], value, atol=1e-6)
        assert torch.equal(by_name[key], by_place[key])


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_the_fused_model_is_the_one_that_was_trained(tmp_path, schedule):
    task = Task("cnn", batches=6)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 3),
        schedule=schedule,
        optimizer=torch.optim.Adam,
        criterion=task.loss,
        labels=task.loader,
    )
    images = task.data.tensors[0]
    predicted = cluster.train(
        task.loader, save=True, val_freq=0, then=lambda trainer: trainer.pred(images)
    )
    assert not cluster.errors
    fused = ravnest.model_fusion(0, tmp_path / "node_data", tmp_path / "trained.pt")
    model = copy.deepcopy(task.model)
    before = model.eval()(images)
    model.load_state_dict(fused, strict=True)
    with torch.no_grad():
        assert torch.equal(model.eval()(images), predicted), "to the last bit"
    assert not torch.equal(before, predicted), "it has learned something"


def test_a_model_planned_without_examples_trains_and_fuses(tmp_path):
    task = Task("cnn", batches=6)
    cluster = Cluster(
        tmp_path,
        plan(tmp_path, copy.deepcopy(task.model)),
        optimizer=torch.optim.Adam,
        criterion=task.loss,
        labels=task.loader,
        test_labels=task.loader,
    )
    accuracy = cluster.train(
        task.loader,
        val_loader=task.loader(),
        val_freq=0,
        save=True,
        epochs=20,
        then=lambda trainer: trainer.evaluate(),
    )
    assert not cluster.errors
    losses = cluster.losses()
    assert sum(losses[-6:]) < 0.8 * sum(losses[:6]), "it learns"
    fused = ravnest.model_fusion(0, tmp_path / "node_data", tmp_path / "trained.pt")
    task.model.load_state_dict(fused, strict=True)
    inputs, targets = task.data.tensors
    right = (task.model.eval()(inputs).argmax(1) == targets).float().mean().item()
    assert accuracy == pytest.approx(100 * right)


def test_the_root_may_fuse_as_soon_as_it_has_trained(tmp_path):
    task = Task("cnn", batches=4)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 3),
        optimizer="adam",
        criterion=task.loss,
        labels=task.loader,
    )

    def fuse(trainer):
        if trainer.node.is_root:
            return ravnest.model_fusion(0, tmp_path / "node_data", tmp_path / "trained.pt")
        return None

    fused = cluster.train(task.loader, save=True, then=fuse)
    assert not cluster.errors
    task.model.load_state_dict(fused, strict=True)


def test_every_node_takes_part_in_every_evaluation(tmp_path):
    task = Task("mlp", batches=4)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 3),
        optimizer="adam",
        criterion=task.loss,
        labels=task.loader,
        test_labels=task.loader,
    )
    found = {}
    root_is_done, all_are_done = threading.Event(), threading.Barrier(3, timeout=60)

    def evaluate(trainer):
        name = trainer.node.name
        if not trainer.node.is_root:
            assert root_is_done.wait(60)  # both validations are over before the others ask
        found[name] = [trainer.evaluate(), trainer.evaluate()]
        root_is_done.set()
        all_are_done.wait()
        trainer.train()
        found[name].append(trainer.evaluate())

    cluster.train(task.loader, val_loader=task.loader(), val_freq=2, then=evaluate)
    assert not cluster.errors
    assert len(found[cluster.root.name]) == 3
    assert all(each == found[cluster.root.name] for each in found.values()), found


def test_training_twice_goes_on(tmp_path):
    task = Task("mlp", batches=4)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        schedule="sync",
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": 0.1},
        criterion=task.loss,
        labels=task.loader,
    )
    cluster.train(task.loader, then=lambda trainer: trainer.train())
    assert not cluster.errors
    wanted = task.eager_losses(torch.optim.SGD, {"lr": 0.1}, epochs=2)
    assert cluster.losses() == pytest.approx(wanted, abs=1e-5)


def test_a_second_trainer_goes_on_where_the_first_has_ended(tmp_path):
    task = Task("mlp", batches=4)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        schedule="sync",
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": 0.1},
        criterion=task.loss,
        labels=task.loader,
    )

    def again(trainer):
        Trainer(node=trainer.node, train_loader=task.loader()).train()

    cluster.train(task.loader, epochs=2, then=again)
    assert not cluster.errors
    wanted = task.eager_losses(torch.optim.SGD, {"lr": 0.1}, epochs=3)
    assert cluster.losses() == pytest.approx(wanted, abs=1e-5)


def test_an_error_of_the_criterion_comes_as_it_is(tmp_path):
    task = Task("mlp", batches=4)

    def criterion(output, batch):
        raise KeyError("no such label")

    cluster = Cluster(
        tmp_path, task.plan(tmp_path, 2), optimizer="sgd", criterion=criterion, labels=task.loader
    )
    cluster.train(task.loader)
    error = cluster.errors[cluster.leaf.name]
    assert isinstance(error, KeyError) and error.args == ("no such label",)
    assert isinstance(cluster.errors[cluster.root.name], SystemExit)
    assert cluster.errors[cluster.root.name].code == 1


def test_an_error_at_the_root_ends_the_others(tmp_path):
    task = Task("mlp", batches=4)

    class Broken(Trainer):
        def train(self):
            raise OSError("the disk is gone")

    cluster = Cluster(
        tmp_path, task.plan(tmp_path, 2), optimizer="sgd", criterion=task.loss, labels=task.loader
    )
    cluster.train(task.loader, kind=Broken)
    assert isinstance(cluster.errors[cluster.root.name], OSError)
    assert isinstance(cluster.errors[cluster.leaf.name], SystemExit)


@pytest.mark.parametrize(
    ("given", "code", "sentence"),
    [(3, 3, "has ended with exit code 3."), ("no space is left", 1, "no space is left")],
)
def test_an_exit_of_the_script_with_a_code_ends_all_with_it(tmp_path, capfd, given, code, sentence):
    task = Task("mlp", batches=4)

    class Leaving(Trainer):
        def train(self):
            for batch in self.train_loader:
                self.node.forward_compute(batch[0])
            sys.exit(given)

    cluster = Cluster(
        tmp_path, task.plan(tmp_path, 2), optimizer="sgd", criterion=task.loss, labels=task.loader
    )
    cluster.train(task.loader, kind=Leaving, save=True)
    assert cluster.errors[cluster.root.name].code == given
    assert cluster.errors[cluster.leaf.name].code == code
    (said,) = capfd.readouterr().err.splitlines()
    assert cluster.root.name in said and said.endswith(sentence)


def test_an_exit_of_the_script_that_says_all_is_well_is_a_good_end(tmp_path):
    task = Task("mlp", batches=4)
    task.plan(tmp_path, 1)
    trainer = make_trainer(tmp_path, "node_0", quiet=True)
    with pytest.raises(SystemExit), trainer.node as node:
        for batch in task.loader():
            node.forward_compute(batch[0])
        sys.exit()
    assert node.status["passes"] == 4
    assert not list(tmp_path.rglob("*checkpoint*")), "the run is whole"


WORKERS = """
import sys
import torch
from torch.utils.data import DataLoader
from test_trainer import Node, Task, Trainer

def main(name):
    task = Task("mlp", batches=10)

    def loader(**options):
        generator = torch.Generator().manual_seed(4)
        return DataLoader(task.data, batch_size=4, shuffle=True, generator=generator, **options)

    def make(persistent_workers):
        return loader(num_workers=2, persistent_workers=persistent_workers)

    node = Node(name, optimizer="sgd", criterion=task.loss, labels=make(True),
                test_labels=make(False), threads=1)
    trainer = Trainer(node=node, train_loader=make(True), val_loader=make(False), val_freq=10,
                      epochs=3)
    trainer.train()
    trainer.evaluate()

main(sys.argv[1])
"""


@pytest.mark.parametrize("stages", [1, 2])
def test_loaders_with_workers(tmp_path, stages):
    names = Task("mlp", batches=10).plan(tmp_path, stages)
    (tmp_path / "workers.py").write_text(WORKERS)
    with Scripts(tmp_path) as scripts:
        for name in names:
            scripts.start(name, "workers.py", name)
        assert set(scripts.exit_codes().values()) == {0}, scripts.logs()
    assert len(read_numbers(tmp_path / "losses.txt")) == 30
    assert len(read_numbers(tmp_path / "val_accuracies.txt")) == 4


def test_labels_that_are_tensors(tmp_path):
    task = Task("mlp", batch=5, batches=4)
    inputs, targets = task.data.tensors

    def criterion(output, batch):
        return F.cross_entropy(output, batch)

    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        schedule="sync",
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": 0.1},
        criterion=criterion,
        labels=lambda name: targets,
        test_labels=lambda name: targets,
    )
    accuracy = cluster.train(
        lambda: inputs,
        batch_size=5,
        epochs=3,
        val_loader=inputs,
        val_freq=0,
        then=lambda trainer: trainer.evaluate(),
    )
    assert not cluster.errors
    assert accuracy is not None
    wanted = task.eager_losses(torch.optim.SGD, {"lr": 0.1}, epochs=3)
    assert cluster.losses() == pytest.approx(wanted, abs=1e-5)


def test_what_a_trainer_refuses(tmp_path):
    task = Task("mlp", batches=4)
    (name,) = task.plan(tmp_path, 1)
    data = {"node_data": tmp_path / "node_data", "quiet": True}

    def node(**options):
        return Node(
            name, optimizer="sgd", criterion=task.loss, labels=task.loader(), **data, **options
        )

    with pytest.raises(ValueError, match="expected a Node"):
        Trainer(node=None)
    with pytest.raises(ValueError, match="needs train_loader"):
        Trainer(node=node()).prelim_checks()
    with pytest.raises(ValueError, match="epochs to be a whole number"):
        Trainer(node=node(), train_loader=task.loader(), epochs=2.5).prelim_checks()
    with pytest.raises(ValueError, match="has 2 batches and Node"):
        Trainer(node=node(), train_loader=[1, 2]).prelim_checks()
    with pytest.raises(ValueError, match="train_loader to give its batches in each of 2 epochs"):
        Trainer(node=node(), train_loader=iter(task.loader()), epochs=2).prelim_checks()
    Trainer(node=node(), train_loader=iter(task.loader())).prelim_checks()
    with pytest.raises(ValueError, match="got two"):
        step = torch.optim.lr_scheduler.ConstantLR
        Trainer(node=node(lr_scheduler=step), lr_scheduler=step)
    with pytest.raises(ValueError, match="update_frequency=2 and step_size=3"):
        Trainer(node=node(update_frequency=2), step_size=3)


def test_shuffling_without_a_generator_is_warned_of(tmp_path):
    task = Task("mlp", batches=4)
    root, _ = task.plan(tmp_path, 2)
    node = Node(root, optimizer="sgd", node_data=tmp_path / "node_data", quiet=True)
    loader = DataLoader(TensorDataset(torch.zeros(8, 6)), shuffle=True)
    with pytest.warns(UserWarning, match="without a generator"):
        Trainer(node=node, train_loader=loader).prelim_checks()
    assert ravnest.node.Node is Node and ravnest.trainer.Trainer is Trainer
