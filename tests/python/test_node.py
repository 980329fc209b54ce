"""Node: what it refuses, and that its stages learn what one process would."""

import copy
import socket
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import zoo
from local_cluster import Cluster, free_ports, plan, read_numbers, write_pool
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

import ravnest
from ravnest import Node, Program
from ravnest.leaf import DataMismatchError, Leaf, count_correct
from ravnest.optim import PythonRule, Rule

UPDATES = 50


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def make_cnn():
    return without_dropout(zoo.CNN_Net())


def make_gpt():
    return zoo.GPT(zoo.GPTConfig(vocab=40, seq=8, layers=3, heads=2, width=16))


def make_unet():
    return zoo.UNet(width=4, depth=2)


def make_mlp():
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)
    )


def class_loss(output, batch):
    return F.cross_entropy(output, batch[1])


def token_loss(output, batch):
    return F.cross_entropy(output.flatten(0, 1), batch[1].flatten())


MODELS = {
    "cnn": (
        make_cnn,
        lambda n: torch.randn(n, 1, 8, 8),
        lambda n: torch.randint(10, (n,)),
        class_loss,
    ),
    "gpt": (
        make_gpt,
        lambda n: torch.randint(40, (n, 8)),
        lambda n: torch.randint(40, (n, 8)),
        token_loss,
    ),
    "unet": (
        make_unet,
        lambda n: torch.randn(n, 3, 8, 8),
        lambda n: torch.randint(2, (n, 8, 8)),
        class_loss,
    ),
    "mlp": (make_mlp, lambda n: torch.randn(n, 6), lambda n: torch.randint(3, (n,)), class_loss),
}


class Task:
    """A model and its data, the same each time."""

    def __init__(self, name, batch=4, batches=UPDATES):
        make, inputs, targets, self.loss = MODELS[name]
        torch.manual_seed(0)
        self.model = make()
        self.data = TensorDataset(inputs(batch * batches), targets(batch * batches))
        self.batch = batch

    def loader(self, _=None):
        return DataLoader(self.data, batch_size=self.batch)

    def shuffling_loader(self, _=None):
        generator = torch.Generator().manual_seed(3)
        return DataLoader(self.data, batch_size=self.batch, shuffle=True, generator=generator)

    def plan(self, folder, nodes, clusters=1):
        example = (self.data.tensors[0][: self.batch],)
        return plan(folder, copy.deepcopy(self.model), example, nodes=nodes, clusters=clusters)

    def eager_losses(self, optimizer, params, scheduler=None, per_update=False, epochs=1, every=1):
        model = copy.deepcopy(self.model).train()
        stepper = optimizer(model.parameters(), **params)
        scheduler = scheduler(stepper) if scheduler else None
        losses = []
        for epoch in range(epochs):
            if scheduler and not per_update and epoch > 0:
                scheduler.step()
            for number, batch in enumerate(self.loader()):
                loss = self.loss(model(batch[0]), batch)
                (loss / every).backward()
                losses.append(loss.item())
                if (number + 1) % every == 0:
                    stepper.step()
                    stepper.zero_grad()
                    if scheduler and per_update:
                        scheduler.step()
        return losses


def assert_close(found, wanted, tolerance=1e-5):
    assert len(found) == len(wanted)
    worst = max(abs(a - b) for a, b in zip(found, wanted, strict=True))
    assert worst <= tolerance, f"losses differ by {worst}"


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["cnn", "gpt", "unet"])
def test_sync_losses_are_those_of_one_process(tmp_path, name, stages):
    task = Task(name, batch=16)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, stages),
        schedule="sync",
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": 0.01, "momentum": 0.9},
        criterion=task.loss,
        labels=task.loader,
    )
    cluster.train(task.loader)
    assert not cluster.errors
    wanted = task.eager_losses(torch.optim.SGD, {"lr": 0.01, "momentum": 0.9})
    assert_close(cluster.losses(), wanted)


class SignDescent(torch.optim.Optimizer):
    """An optimizer that nobody else has: tensors and numbers in its state."""

    def __init__(self, params, lr=0.01, momentum=0.5):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                state["steps"] = state.get("steps", 0) + 1
                average = state.setdefault("average", torch.zeros_like(parameter))
                average.mul_(group["momentum"]).add_(parameter.grad)
                parameter.sub_(average.sign(), alpha=group["lr"] / state["steps"])


def warmup(optimizer, steps):
    """A function that makes a scheduler, as transformers has them."""
    return lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / steps))


@pytest.mark.parametrize(
    ("optimizer", "params", "scheduler", "scheduler_params", "per_update"),
    [
        (
            torch.optim.Adam,
            {"lr": 0.01},
            lr_scheduler.StepLR,
            {"step_size": 1, "gamma": 0.5},
            False,
        ),
        (torch.optim.Adam, {"lr": 0.01}, warmup, {"steps": 20}, True),
        (SignDescent, {"lr": 0.02}, None, {}, False),
        (SignDescent, {"lr": 0.02}, lr_scheduler.ExponentialLR, {"gamma": 0.9}, True),
        (torch.optim.Rprop, {"lr": 0.001}, lr_scheduler.LinearLR, {}, False),
    ],
    ids=[
        "native",
        "python-scheduler",
        "own-optimizer",
        "own-optimizer-scheduled",
        "other-of-torch",
    ],
)
def test_optimizers_and_schedulers(
    tmp_path, optimizer, params, scheduler, scheduler_params, per_update
):
    task = Task("mlp", batches=10)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        schedule="sync",
        optimizer=optimizer,
        optimizer_params=params,
        lr_scheduler=scheduler,
        lr_scheduler_params=scheduler_params,
        lr_step_on_epoch_change=not per_update,
        criterion=task.loss,
        labels=task.loader,
    )
    cluster.train(task.loader, epochs=3)
    assert not cluster.errors
    make = scheduler and (lambda made: scheduler(made, **scheduler_params))
    assert_close(cluster.losses(), task.eager_losses(optimizer, params, make, per_update, epochs=3))


@pytest.mark.parametrize(
    ("optimizer", "scheduler", "params"),
    [
        (SignDescent, None, {}),
        (torch.optim.Rprop, lr_scheduler.LinearLR, {}),
        (torch.optim.Adam, warmup, {"steps": 7}),
        (torch.optim.SGD, lr_scheduler.ReduceLROnPlateau, {"patience": 0}),
        (
            torch.optim.Adafactor,
            lr_scheduler.CyclicLR,
            {"base_lr": 0.1, "max_lr": 0.2, "cycle_momentum": False},
        ),
    ],
)
def test_the_state_of_an_optimizer_in_python_goes_into_tensors_and_text(
    optimizer, scheduler, params
):
    def make():
        rule = Rule(optimizer, {"lr": 0.1}, max_norm=2.0, warmup_updates=5)
        rule.schedule(scheduler, params, step_on_epoch=False)
        values = {
            "b": torch.linspace(0, 1, 6).reshape(2, 3),
            "a": torch.ones(3),
            "still": torch.ones(1),
        }
        rule._native = None  # whatever could be native
        return rule.make(), values

    def work(rule, values, steps):
        for step in steps:
            rule.note_loss(float(step))  # as the stage does, before each update
            gradients = {name: torch.full_like(values[name], 0.1 * step) for name in ("a", "b")}
            rule.step(values, gradients, delay=2)

    whole, wanted = make()
    work(whole, wanted, range(12))
    first, values = make()
    work(first, values, range(6))
    tensors, texts = first.state()
    assert all(isinstance(text, str) for text in texts.values())
    second, _ = make()
    second.load_state({k: v.clone() for k, v in tensors.items()}, texts, values)
    assert second.rate() == first.rate()
    work(second, values, range(6, 12))
    for name, value in wanted.items():
        assert torch.equal(values[name], value), name
    with pytest.raises(ValueError, match="got one of another"):
        second.load_state({}, {}, values)


def test_gradients_of_several_batches_make_an_update(tmp_path):
    task = Task("mlp", batches=12)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        schedule="sync",
        optimizer="sgd",
        optimizer_params={"lr": 0.1},
        update_frequency=4,
        criterion=task.loss,
        labels=task.loader,
    )
    cluster.train(task.loader)
    assert_close(cluster.losses(), task.eager_losses(torch.optim.SGD, {"lr": 0.1}, every=4))


@pytest.mark.parametrize("on_epoch", [True, False])
def test_a_scheduler_that_follows_the_loss(tmp_path, on_epoch):
    task = Task("mlp", batches=5)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        schedule="sync",
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": 0.0},
        lr_scheduler=lr_scheduler.ReduceLROnPlateau,
        lr_scheduler_params={"patience": 0, "factor": 0.5, "mode": "min"},
        lr_step_on_epoch_change=on_epoch,
        criterion=task.loss,
        labels=task.loader,
    )
    rule = cluster.root.rule
    told = []

    def make():
        made = PythonRule(rule)
        step = made._take_step
        made._take_step = lambda loss: told.append(loss) or step(loss)
        return made

    rule.make = make
    cluster.train(task.loader, epochs=4)
    assert not cluster.errors
    losses = cluster.losses()
    if on_epoch:
        assert len(told) == 3, "a step between two epochs"
        assert told[0] == pytest.approx(sum(losses[:5]) / 5)
    else:
        assert told == pytest.approx(losses), "a step at every update, by its own loss"


@pytest.mark.parametrize(
    "optimizer", [torch.optim.Adam, torch.optim.Adamax], ids=["native", "python"]
)
def test_async_learns(tmp_path, optimizer):
    task = Task("mlp", batch=16, batches=20)
    inputs, targets = task.data.tensors
    targets.copy_(inputs[:, :3].argmax(1))
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 3),
        optimizer=optimizer,
        optimizer_params={"lr": 0.01},
        criterion=task.loss,
        labels=task.shuffling_loader,
        test_labels=task.loader,
    )
    accuracy = cluster.train(
        task.shuffling_loader,
        epochs=12,
        val_loader=task.loader(),
        val_freq=0,
        then=lambda trainer: trainer.evaluate(),
    )
    assert not cluster.errors
    assert accuracy > 90, cluster.losses()[-5:]
    delays = [node.status["max_delay"] for node in cluster.nodes]
    assert max(delays) <= 2 * 3, "as many as passes may be in flight"
    for node in cluster.nodes:
        assert sum(node.status["delays"].values()) == node.status["updates"]
        assert max(node.status["delays"]) == node.status["max_delay"]


@pytest.mark.parametrize(
    "options",
    [
        {"compression": True},
        {"codec": "int8+zstd"},
        {"memory": "recompute", "update_frequency": 2},
        {"predict_weights": True, "compensation": 0.04},
        {"max_norm": 0.5, "warmup_updates": 20},
        {"optimizer": SignDescent, "max_norm": 0.5, "warmup_updates": 20},
    ],
    ids=lambda options: "-".join(options),
)
def test_ways_of_training(tmp_path, options):
    task = Task("mlp", batch=16, batches=10)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        **{
            "optimizer": torch.optim.Adam,
            "optimizer_params": {"lr": 0.01},
            "criterion": task.loss,
            "labels": task.loader,
            **options,
        },
    )
    cluster.train(task.loader, epochs=5)
    assert not cluster.errors
    losses = cluster.losses()
    assert len(losses) == 50 and sum(losses[-10:]) < sum(losses[:10])
    assert cluster.root.status["updates"] == 50 // options.get("update_frequency", 1)


@pytest.mark.parametrize("schedule", ["sync", "async"])
def test_one_node_shuffles_its_labels_as_its_inputs(tmp_path, schedule):
    """The root's loader and the leaf's are the same object here."""
    task = Task("mlp", batches=8)
    loader = task.shuffling_loader()
    seen = []

    def criterion(output, batch):
        seen.append(batch[0])
        return task.loss(output, batch)

    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 1),
        schedule=schedule,
        optimizer="sgd",
        criterion=criterion,
        labels=lambda name: loader,
    )
    cluster.train(lambda: loader, epochs=2)
    assert not cluster.errors
    again = task.shuffling_loader()
    wanted = [batch[0] for _ in range(2) for batch in again]
    assert all(torch.equal(a, b) for a, b in zip(seen, wanted, strict=True))


class Elsewhere(nn.Module):
    """A module in place of the stored sub-model."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, *inputs):
        return inputs[0][:, :3] * self.scale


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


class Twice(nn.Module):
    def forward(self, x):
        return x, x


def test_a_module_in_place_of_the_stored_sub_model(tmp_path):
    task = Task("mlp", batches=3)
    (name,) = task.plan(tmp_path, 1)
    outputs = []

    def criterion(output, batch):
        outputs.append(output.detach().clone())
        return task.loss(output, batch)

    cluster = Cluster(
        tmp_path,
        [name],
        model=Elsewhere(),
        optimizer="sgd",
        criterion=criterion,
        labels=task.loader,
    )
    state = cluster.train(task.loader, then=lambda trainer: trainer.node.state_dict())
    assert not cluster.errors
    assert outputs[0].abs().sum() == 0, "the scale begins at zero"
    assert set(state) == {"scale"}
    with pytest.raises(ValueError, match="outputs of node_0's sub-model"):
        Node(
            name=name,
            model=Twice(),
            optimizer="sgd",
            criterion=criterion,
            labels=task.loader(),
            node_data=tmp_path / "node_data",
        )


def test_a_module_in_place_of_one_of_several(tmp_path):
    task = Task("mlp", batches=6)
    names = task.plan(tmp_path, 2)
    address = Node(names[0], optimizer="sgd", node_data=tmp_path / "node_data").place.address
    first = Program.load(tmp_path / "node_data" / "cluster_0" / address / "submod.pt2")
    given = [None, Elsewhere()]
    cluster = Cluster(
        tmp_path,
        names,
        model=lambda name: given[names.index(name)],
        schedule="sync",
        optimizer="sgd",
        optimizer_params={"lr": 0.1},
        criterion=task.loss,
        labels=task.loader,
    )
    cluster.train(task.loader)
    assert not cluster.errors

    last, wanted = Elsewhere(), []
    optimizer = torch.optim.SGD([*first.parameters().values(), *last.parameters()], lr=0.1)
    for batch in task.loader():
        loss = task.loss(last(*as_tuple(first(batch[0]))), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    assert_close(cluster.losses(), wanted)


def test_a_scheduler_and_a_step_size_of_the_trainer(tmp_path):
    task = Task("mlp", batches=8)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        schedule="sync",
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": 0.1},
        criterion=task.loss,
        labels=task.loader,
    )
    halves = {"step_size": 1, "gamma": 0.5}
    cluster.train(
        task.loader,
        epochs=3,
        step_size=2,
        lr_scheduler=lr_scheduler.StepLR,
        lr_scheduler_params=halves,
    )
    assert not cluster.errors
    assert cluster.root.status["updates"] == 3 * 8 // 2
    assert cluster.root.status["rate"] == pytest.approx(0.1 / 4)
    make = lambda made: lr_scheduler.StepLR(made, **halves)  # noqa: E731
    wanted = task.eager_losses(torch.optim.SGD, {"lr": 0.1}, make, epochs=3, every=2)
    assert_close(cluster.losses(), wanted)


def test_passes_without_gradients(tmp_path):
    task = Task("mlp", batches=3)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        optimizer="sgd",
        criterion=task.loss,
        labels=task.loader,
        test_labels=task.loader,
    )

    def work(node):
        if not node.is_root:
            assert node.no_grad_forward_compute(torch.zeros(4, 6)) is None
            return node.finish_validation()
        for batch in task.loader():
            assert node.no_grad_forward_compute(batch[0], output_type="val_accuracy") is None
        accuracy = node.finish_validation()
        with pytest.raises(ValueError, match="'val_accuracy' or None, got 'loss'"):
            node.no_grad_forward_compute(batch[0], output_type="loss")
        return accuracy, node.no_grad_forward_compute(batch[0])

    accuracy, output = cluster.run(work)
    assert not cluster.errors
    inputs, targets = task.data.tensors
    model = task.model.eval()
    with torch.no_grad():
        found = (model(inputs).argmax(1) == targets).float().mean().item()
        assert torch.equal(output, model(inputs[-4:]))
    assert accuracy == pytest.approx(100 * found)
    assert read_numbers(tmp_path / "val_accuracies.txt") == [pytest.approx(100 * found, abs=0.01)]
    assert cluster.leaf.status["passes"] == 0, "nothing was learned"


def test_a_validation_is_waited_for_behind_the_one_before(tmp_path):
    task = Task("mlp", batches=6)
    cluster = Cluster(
        tmp_path,
        task.plan(tmp_path, 2),
        optimizer="sgd",
        criterion=task.loss,
        labels=task.loader,
        test_labels=task.loader,
    )

    def work(node):
        if not node.is_root:
            return node.start()
        for count in (6, 1):
            for batch in list(task.loader())[:count]:
                node.no_grad_forward_compute(batch[0], output_type="val_accuracy")
            if count > 1:
                node.end_validation()
        return node.finish_validation()

    accuracy = cluster.run(work)
    assert not cluster.errors
    inputs, targets = task.data.tensors
    found = (task.model.eval()(inputs[:4]).argmax(1) == targets[:4]).float().mean().item()
    assert accuracy == pytest.approx(100 * found), "that of the second"
    assert len(read_numbers(tmp_path / "val_accuracies.txt")) == 2


def test_a_validation_that_the_leaf_has_no_labels_for_ends_with_a_sentence(tmp_path, capfd):
    task = Task("mlp", batches=3)
    cluster = Cluster(
        tmp_path, task.plan(tmp_path, 2), optimizer="sgd", criterion=task.loss, labels=task.loader
    )
    cluster.train(task.loader, val_loader=task.loader(), then=lambda trainer: trainer.evaluate())
    assert {error.code for error in cluster.errors.values()} == {1}
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2 and all("give Node(test_labels=…)" in line for line in said), said


def train_bare(node, loader, epochs=3):
    """As a script without a Trainer."""
    for _ in range(epochs):
        for batch in loader:
            node.forward_compute(batch[0])
    node.wait_for_backwards()
    return node.status["rate"]


def test_a_bare_node_sees_the_epochs_of_its_labels(tmp_path):
    task = Task("mlp", batches=5)
    task.plan(tmp_path, 1)
    halves = {"lr_scheduler": lr_scheduler.StepLR, "lr_scheduler_params": {"step_size": 1}}
    with make_single(tmp_path, optimizer_params={"lr": 1.0}, **halves) as node:
        assert train_bare(node, task.loader()) == pytest.approx(0.01), "two steps of a tenth each"
    labels = task.data.tensors[1]  # cut as the passes are, which nobody knows before
    loss = lambda output, batch: F.cross_entropy(output, batch)  # noqa: E731
    unknown = {"labels": labels, "criterion": loss, "optimizer_params": {"lr": 1.0}, **halves}
    with (
        make_single(tmp_path, **unknown) as node,
        pytest.warns(UserWarning, match="lr_scheduler does not step: set batches_per_epoch"),
    ):
        assert train_bare(node, task.loader()) == 1.0
    with make_single(tmp_path, **unknown) as node:
        node.batches_per_epoch = 5
        assert train_bare(node, task.loader()) == pytest.approx(0.01)


def make_single(folder, **options):
    task = Task("mlp", batches=5)
    return Node(
        "node_0",
        node_data=Path(folder) / "node_data",
        loss_filename=Path(folder) / "losses.txt",
        **{
            "optimizer": "sgd",
            "criterion": task.loss,
            "labels": task.loader(),
            "quiet": True,
            "threads": 1,
            **options,
        },
    )


def test_the_rest_of_a_training_is_no_step_of_a_scheduler(tmp_path):
    Task("mlp").plan(tmp_path, 1)
    steps = []

    def schedule(optimizer):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: steps.append(step) or 1.0)

    node = make_single(
        tmp_path, update_frequency=2, lr_scheduler=schedule, lr_step_on_epoch_change=False
    )
    for inputs, _ in Task("mlp", batches=5).loader():
        node.forward_compute(inputs)
    node.finish_training()
    assert node.status["updates"] == 3
    node.close()
    assert max(steps) == 2


@pytest.mark.parametrize("method", ["start", "start_grpc_server", "init_server"])
def test_what_takes_the_port(tmp_path, method):
    Task("mlp").plan(tmp_path, 1)
    node = make_single(tmp_path)
    host, port = node.place.address.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=10)
    getattr(node, method)()
    socket.create_connection((host, int(port)), timeout=10).close()
    getattr(node, method)()  # only the first call does something
    node.close()
    with pytest.raises(ValueError, match="was closed"):
        node.start()


def test_weights_are_written_when_they_are_asked_for(tmp_path):
    task = Task("mlp", batches=5)
    task.plan(tmp_path, 1)
    with make_single(tmp_path) as node:
        for batch in task.loader():
            node.forward_compute(batch[0])
        node.check_load_forward_buffer()
        assert node.status["queued"] == 0, "all have begun"
        node.wait_for_backwards()
        assert not list(tmp_path.rglob("submod_0.safetensors"))
        node.trigger_save_submodel()
        fused = ravnest.model_fusion(0, tmp_path / "node_data", tmp_path / "state.pt")
        for name, value in node.state_dict().items():
            assert torch.equal(fused[name], value), name


def test_a_node_that_was_reset_begins_anew(tmp_path, capsys):
    task = Task("mlp", batches=5)
    task.plan(tmp_path, 1)

    def train(node):
        for batch in task.loader():
            node.forward_compute(batch[0])
        node.wait_for_backwards()
        return node.status["resumed"]

    node = make_single(tmp_path, checkpoint_every=1)
    assert train(node) == 0
    with pytest.raises(ValueError, match="is running; close it before reset"):
        node.reset()
    node.stop(1, "as after an error")
    assert node.place.checkpoint.exists()
    other = make_single(tmp_path, checkpoint_every=1, quiet=False)
    assert train(other) == 5, "it goes on"
    said = capsys.readouterr().out
    assert said.count("node_0: goes on from its checkpoint, with 5 batches behind it") == 1
    assert "Node(resume=False) begins anew" in said
    other.stop(1, "as after an error")
    other.reset()
    assert not other.place.checkpoint.exists()
    assert train(other) == 0, "the same node, anew"
    other.close()


@pytest.mark.parametrize("other", ["adam", SignDescent], ids=["native", "python"])
def test_a_checkpoint_of_another_optimizer_is_refused_with_the_way_out(tmp_path, other):
    task = Task("mlp", batches=5)
    task.plan(tmp_path, 1)
    node = make_single(tmp_path, checkpoint_every=1)
    train_bare(node, task.loader(), epochs=1)
    node.stop(1, "as after an error")
    node = make_single(tmp_path, checkpoint_every=1, optimizer=other)
    with pytest.raises(ValueError, match=r"got one of .* \(Node\(resume=False\) begins anew\)"):
        train_bare(node, task.loader(), epochs=1)
    node.leave()


@pytest.fixture(scope="module")
def one_stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one_stage")
    Task("mlp").plan(folder, 1)
    return folder / "node_data"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"name": None}, ValueError, "name such as 'node_0'"),
        ({"name": "node_7"}, ValueError, "node_7"),
        ({"optimizer": None}, ValueError, "expected optimizer to be a class"),
        ({"optimizer": "adamm"}, ValueError, "adamm"),
        ({"optimizer": torch.optim.Adam, "optimizer_params": {"rate": 1}}, TypeError, "rate"),
        ({"criterion": None}, ValueError, "is the leaf and needs criterion"),
        ({"labels": None}, ValueError, "is the leaf and needs labels"),
        ({"labels": 5}, ValueError, "expected labels to be a DataLoader or a tensor, got int"),
        ({"update_frequency": 0}, ValueError, "update_frequency"),
        ({"reduce_factor": 0}, ValueError, "reduce_factor"),
        ({"lr_scheduler": 3}, ValueError, "expected lr_scheduler to be a class"),
        ({"log_level": "loud"}, ValueError, "log_level"),
        ({"optimizer": torch.optim.LBFGS}, ValueError, "LBFGS, whose step.* closure"),
    ],
)
def test_what_a_node_refuses(one_stage, options, error, words):
    good = {"name": "node_0", "optimizer": "sgd", "criterion": class_loss, "labels": [1, 2]}
    with pytest.raises(error, match=words):
        Node(**{**good, "node_data": one_stage, **options})


def test_words_that_a_node_does_not_know_are_left_out_with_a_warning(tmp_path):
    Task("mlp").plan(tmp_path, 1)
    with pytest.warns(UserWarning, match="batchsize, shuffle: no option of this version"):
        make_single(tmp_path, batchsize=3, shuffle=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schedule": "later"}, "async or sync"),
        ({"memory": "none"}, "stash or recompute"),
        ({"codec": "zip"}, "zip"),
        ({"optimizer": torch.optim.Adamax, "predict_weights": True}, "runs in Python"),
    ],
)
def test_what_it_refuses_when_it_starts(one_stage, options, words):
    options = {"optimizer": "sgd", **options}
    node = Node("node_0", criterion=class_loss, labels=[1], node_data=one_stage, **options)
    with pytest.raises(ValueError, match=words):
        node.start()


def test_a_port_that_is_taken_is_named(one_stage):
    def make():
        return Node(
            "node_0",
            optimizer="sgd",
            criterion=class_loss,
            labels=[1],
            node_data=one_stage,
            quiet=True,
        )

    with make() as first:
        port = first.place.address.rsplit(":")[1]
        with pytest.raises(ravnest.Error, match=port):
            make().start()
    with make():
        pass  # it is free again


def test_where_there_is_no_plan(tmp_path):
    write_pool(tmp_path, 1)
    with pytest.raises(ValueError, match="node_data"):
        Node("node_0", optimizer="sgd", node_data=tmp_path / "node_data")
    assert len(set(free_ports(3))) == 3


def header(number, samples, epoch=0, part=0):
    return number, epoch, samples, part


def make_leaf(labels, tests=None, criterion=lambda output, batch: output[0].sum()):
    return Leaf(criterion, labels, tests, keep=4, device=torch.device("cpu"))


def test_labels_of_a_pass_that_comes_again_are_the_same():
    seen = {}

    def criterion(output, batch):
        seen.setdefault(number, []).append(batch)
        return output[0].sum()

    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(torch.arange(40), batch_size=4, shuffle=True, generator=generator)
    leaf = make_leaf(loader, criterion=criterion)
    order = [*range(15), 12, 13, 14, 15, *range(2, 16), *range(5, 18)]  # 4 are kept
    for number in order:
        leaf.grade(header(number, 4, epoch=number // 10), [torch.zeros(4, requires_grad=True)])
    for number, batches in seen.items():
        assert all(torch.equal(batch, batches[0]) for batch in batches), number
    assert len(seen[6]) == 3 and not torch.equal(seen[0][0], seen[1][0])


def test_a_leaf_that_starts_in_mid_run_winds_forward():
    seen = []
    criterion = lambda output, batch: seen.append(batch.tolist()) or output[0].sum()  # noqa: E731
    for labels in (torch.arange(10), DataLoader(torch.arange(10), batch_size=4)):
        leaf = make_leaf(labels, criterion=criterion)
        leaf.grade(header(4, 4, epoch=1), [torch.zeros(4, requires_grad=True)])
        leaf.grade(header(5, 2, epoch=1), [torch.zeros(2, requires_grad=True)])
        leaf.grade(header(6, 4, epoch=2), [torch.zeros(4, requires_grad=True)])
    assert seen == [[4, 5, 6, 7], [8, 9], [0, 1, 2, 3]] * 2


def test_a_leaf_that_starts_at_the_short_batch_of_a_tensor_finds_it():
    seen = []
    criterion = lambda output, batch: seen.append(batch.tolist()) or output[0].sum()  # noqa: E731
    leaf = make_leaf(torch.arange(10), criterion=criterion)
    leaf.expect(4, 3)
    leaf.grade(header(5, 2, epoch=1), [torch.zeros(2, requires_grad=True)])
    leaf.grade(header(6, 4, epoch=2), [torch.zeros(4, requires_grad=True)])
    leaf = make_leaf(torch.arange(10), criterion=criterion)
    leaf.expect(4, 2)  # drop_last
    leaf.grade(header(3, 4, epoch=1), [torch.zeros(4, requires_grad=True)])
    assert seen == [[8, 9], [0, 1, 2, 3], [4, 5, 6, 7]]


def test_as_many_validation_passes_may_come_again_as_are_under_way(tmp_path):
    Task("mlp").plan(tmp_path, 1)
    node = make_single(tmp_path, test_labels=[torch.zeros(4, dtype=torch.long)] * 12)
    scores = torch.eye(3)[[0, 0, 1, 2]]
    for number in [*range(12), 0]:
        assert node._leaf.score(header(number, 4, part=number), [scores])[1:] == (2, 4)


def test_validation_passes_that_were_long_ago_are_found_again():
    labels = [torch.tensor([k % 3]) for k in range(9)]
    leaf = make_leaf([], tests=labels)  # 4 are kept
    for number in [*range(9), 0, 1, 8]:
        scores = torch.eye(3)[labels[number]]
        assert leaf.score(header(number, 1, part=number), [scores])[1:] == (1, 1), number
    leaf = make_leaf([], tests=DataLoader(torch.arange(9) % 3, shuffle=True))
    for number in range(9):
        leaf.score(header(number, 1, part=number), [torch.eye(3)[:1]])
    with pytest.raises(DataMismatchError, match="batch 0 of validation 1 came again"):
        leaf.score(header(0, 1, part=0), [torch.eye(3)[:1]])


@pytest.mark.parametrize("is_cut_by_sampler", [False, True])
def test_shuffled_validations_that_come_again_have_their_labels(is_cut_by_sampler):
    """As after a root was started again from its checkpoint."""
    labels = torch.arange(9) % 3

    def make():
        own = torch.Generator().manual_seed(1)
        if is_cut_by_sampler:
            drawn = RandomSampler(labels, generator=own)
            return DataLoader(labels, batch_sampler=BatchSampler(drawn, 1, drop_last=False))
        return DataLoader(labels, shuffle=True, generator=own)

    loader = make()
    drawn = [[batch.item() for batch in loader] for _ in range(3)]
    assert drawn[0] != drawn[1]
    leaf = make_leaf([], tests=make())
    for round_ in (0, 1, 2, 0, 1, 1, 2):
        for number in (*range(9), 0):
            scores = torch.eye(3)[[drawn[round_][number]]]
            found = leaf.score(header(number, 1, epoch=round_, part=number), [scores])
            assert found[1:] == (1, 1), (round_, number)


def test_labels_may_be_flattened_one_for_each_prediction():
    def criterion(output, batch):
        return F.cross_entropy(output[0].flatten(0, 1), batch)

    tokens = torch.arange(6) % 3
    leaf = make_leaf([tokens], tests=[tokens], criterion=criterion)
    scores = torch.eye(3)[tokens].reshape(2, 3, 3).requires_grad_()
    leaf.grade(header(0, 2), [scores])
    assert leaf.score(header(0, 2), [scores.detach()])[1:] == (6, 6)
    with pytest.raises(DataMismatchError, match="batch 0 has 3 samples at the root, but 6 in the"):
        make_leaf([tokens]).grade(header(0, 3), [torch.zeros(3, 5, requires_grad=True)])


def test_targets_of_a_regression_are_no_classes_and_it_is_said_once():
    said = []
    targets = torch.randn(4, 3)
    leaf = Leaf(
        lambda output, batch: F.mse_loss(output[0], batch),
        [targets],
        [targets, targets],
        keep=4,
        device=torch.device("cpu"),
        say=said.append,
    )
    for number in range(2):
        assert leaf.score(header(number, 4, part=number), [SCORES])[1:] == (0, 0)
    assert len(said) == 1 and "expected class indices as labels, or rows of 0" in said[0]


def test_batches_that_disagree_are_told_apart():
    leaf = make_leaf(DataLoader(torch.arange(10), batch_size=4))
    with pytest.raises(DataMismatchError, match="batch 0 has 5 samples at the root, but 4 in the"):
        leaf.grade(header(0, 5), [torch.zeros(5, requires_grad=True)])
    with pytest.raises(DataMismatchError, match="root's epoch 1, but in epoch 2 of the leaf's"):
        leaf.grade(header(3, 4), [torch.zeros(4, requires_grad=True)])
    with pytest.raises(DataMismatchError, match=r"test_labels=…"):
        leaf.score(header(0, 4), [torch.zeros(4, 2)])
    leaf = make_leaf([1], tests=[torch.arange(4)])
    with pytest.raises(DataMismatchError, match="more batches than the 1 of"):
        leaf.score(header(1, 4, part=1), [torch.zeros(4, 2)])


def test_gradients_of_outputs():
    def criterion(output, batch):
        return (output[0] * batch).sum()

    leaf = make_leaf([torch.tensor([1.0, 2.0])], criterion=criterion)
    outputs = [
        torch.ones(2, requires_grad=True),
        torch.ones(2, requires_grad=True),
        torch.ones(2),
        7,
    ]
    loss, gradients = leaf.grade(header(0, 2), outputs)
    assert loss == 3.0
    assert gradients[0].tolist() == [1.0, 2.0]
    assert gradients[1:] == [None, None, None]
    with pytest.raises(ValueError, match="a tensor of one number, got a float"):
        make_leaf([torch.ones(2)], criterion=lambda output, batch: 0.5).grade(header(0, 2), outputs)


SCORES = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])


@pytest.mark.parametrize(
    ("output", "batch", "wanted"),
    [
        (SCORES, torch.tensor([0, 1, 1, 0]), (3, 4)),
        (SCORES, (torch.zeros(4, 9), torch.tensor([0, 1, 2, 0])), (4, 4)),
        (SCORES, [torch.zeros(4, 9), F.one_hot(torch.tensor([0, 1, 0, 0]), 3).float()], (3, 4)),
        (SCORES, torch.tensor([[0], [1], [2], [2]]), (3, 4)),
        (SCORES, torch.tensor([0.0, 1.0, 2.0, 0.0]), (4, 4)),
        ((SCORES, SCORES.flip(0)), torch.tensor([0, 1, 2, 0]), (4, 4)),
        (
            {"loss": torch.zeros(()), "logits": SCORES},
            {"labels": torch.tensor([0, 1, 2, 0])},
            (4, 4),
        ),
        (SCORES.t()[None].expand(2, 3, 4), torch.tensor([[0, 1, 2, 0]] * 2), (8, 8)),
        (SCORES[None], F.one_hot(torch.tensor([[0, 1, 2, 1]]), 3).float(), (3, 4)),
        (SCORES, SCORES + 0.25, (0, 0)),
        (SCORES, torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 0]]), (0, 0)),
        (torch.zeros(4, 1), torch.zeros(4, 1), (0, 0)),
        (torch.zeros(4), torch.zeros(4), (0, 0)),
    ],
    ids=[
        "indices",
        "last",
        "one-hot",
        "column",
        "floats",
        "first",
        "logits",
        "images",
        "one-hot-last",
        "targets",
        "several-labels",
        "regression",
        "flat",
    ],
)
def test_accuracy(output, batch, wanted):
    assert count_correct(output, batch) == wanted
