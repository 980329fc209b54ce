"""fit: a model trained by processes without Python."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest
import torch
from local_server import RAVNEST, wait_until
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ravnest
import ravnest.training
from ravnest.display import Board


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(inplace=True), nn.Linear(16, 3)
    )


def make_data(count: int = 96) -> TensorDataset:
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(count, 6, generator=generator)
    return TensorDataset(inputs, inputs[:, :3].argmax(1))


def losses_here(model: nn.Module, loader: DataLoader, epochs: int) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(epochs):
        for inputs, target in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_sync_learns_like_one_process(micro_batches):
    loader = DataLoader(make_data(), batch_size=16)
    run = ravnest.fit(
        make_model(),
        loader,
        criterion=nn.functional.cross_entropy,
        optimizer=torch.optim.Adam,
        optimizer_params={"lr": 0.01},
        epochs=3,
        providers=2,
        schedule="sync",
        micro_batches=micro_batches,
        quiet=True,
    )
    alone = make_model()
    assert run.history["loss"] == pytest.approx(losses_here(alone, loader, 3), abs=1e-5)
    for name, value in alone.state_dict().items():
        assert torch.allclose(run.state_dict()[name], value, atol=1e-5), name


def test_async_learns_and_validates(tmp_path):
    data = make_data()
    seen = []
    run = ravnest.fit(
        make_model(),
        DataLoader(data, batch_size=16, shuffle=True),
        criterion=nn.CrossEntropyLoss(),
        optimizer="adam",
        optimizer_params={"lr": 0.02},
        lr_scheduler=torch.optim.lr_scheduler.StepLR,
        lr_scheduler_params={"step_size": 10},
        epochs=15,
        val_loader=DataLoader(data, batch_size=32),
        providers=3,
        seed=3,
        callbacks=[lambda run: seen.append(run.epoch)],
        quiet=True,
    )
    assert seen == list(range(1, 16))
    assert len(run.history["loss"]) == 15 * 6
    assert run.history["val_accuracy"][-1] > 80.0
    model = make_model()
    model.load_state_dict(run.state_dict(), strict=True)
    model.eval()
    inputs, target = data.tensors
    correct = (model(inputs).argmax(1) == target).float().mean().item() * 100
    assert correct == pytest.approx(run.history["val_accuracy"][-1])
    loss = nn.functional.cross_entropy(model(inputs), target).item()
    assert loss == pytest.approx(run.history["val_loss"][-1], rel=1e-5)
    run.plot(tmp_path / "run.svg")
    assert (tmp_path / "run.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epochs": 0}, "expected epochs to be a whole number of 1 or more, got 0"),
        ({"providers": True}, "expected providers to be a whole number"),
        ({"optimizer": "adamm"}, "adamm"),
        ({"optimizer": torch.optim.LBFGS}, "has no native form"),
        ({"lr_scheduler": torch.optim.lr_scheduler.ReduceLROnPlateau}, "has no native form"),
        ({"train_loader": []}, "expected a loader with a batch or more"),
        ({"train_loader": [torch.ones(2, 6)]}, r"expected a loader that yields \(inputs, target\)"),
        ({"train_loader": iter([])}, "train_loader to give its batches again and again"),
        ({"val_loader": iter([])}, "val_loader to give its batches again and again"),
        (
            {"train_loader": DataLoader(make_data(98), batch_size=16), "micro_batches": 4},
            "4 samples or more for 4 micro-batches, got one of 2: .*drop_last=True",
        ),
    ],
)
def test_bad_input_is_refused(changes, sentence):
    options = {
        "train_loader": DataLoader(make_data(), batch_size=16),
        "criterion": nn.functional.cross_entropy,
        "quiet": True,
    } | changes
    with pytest.raises(ValueError, match=sentence):
        ravnest.fit(make_model(), **options)


def test_a_small_batch_that_nobody_could_foresee_is_told():
    batches = [tuple(x[:count] for x in make_data().tensors) for count in (16, 2)]
    with pytest.raises(ValueError, match="for 4 micro-batches, got one of 2: .*drop_last=True"):
        ravnest.fit(
            make_model(),
            batches,
            criterion=nn.functional.cross_entropy,
            providers=1,
            micro_batches=4,
            quiet=True,
        )


@pytest.mark.parametrize("has_callbacks", [True, False])
def test_an_epoch_ends_with_the_last_of_its_losses(has_callbacks):
    seen = []
    run = ravnest.fit(
        make_model(),
        DataLoader(make_data(), batch_size=48),
        criterion=nn.functional.cross_entropy,
        epochs=12,
        providers=2,
        callbacks=[lambda run: seen.append(len(run.history["loss"]))] if has_callbacks else [],
        quiet=True,
    )
    history = run.history
    assert seen == ([2 * (i + 1) for i in range(12)] if has_callbacks else [])
    assert run.epoch == 12 and len(history["loss"]) == 24
    pairs = list(zip(history["seconds"], history["samples_per_second"], strict=True))
    assert len(pairs) == 12
    assert [seconds * rate for seconds, rate in pairs] == pytest.approx([96] * 12)


def test_a_loader_with_workers(tmp_path):
    loader = DataLoader(make_data(), batch_size=16, num_workers=2)
    run = ravnest.fit(
        make_model(),
        loader,
        criterion=nn.functional.cross_entropy,
        optimizer_params={"lr": 0.01},
        epochs=3,
        val_loader=loader,
        providers=2,
        schedule="sync",
        folder=tmp_path,
        quiet=True,
    )
    wanted = losses_here(make_model(), DataLoader(make_data(), batch_size=16), 3)
    assert run.history["loss"] == pytest.approx(wanted, abs=1e-5)


def test_a_batch_that_does_not_fit_ends_all():
    batches = [(torch.ones(4, 6), torch.zeros(4, dtype=torch.long))] * 3
    batches.append((torch.ones(4, 7), torch.zeros(4, dtype=torch.long)))
    with pytest.raises((RuntimeError, ValueError)):
        ravnest.fit(
            make_model(), batches, criterion=nn.functional.cross_entropy, providers=2, quiet=True
        )


SCRIPT = """
import sys, torch, ravnest
from torch import nn
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
batches = [(torch.randn(8, 6), torch.randint(3, (8,))) for _ in range(50)]
def tell(run):
    print(run.epoch, flush=True)
ravnest.fit(model, batches, criterion=nn.functional.cross_entropy, providers=2, epochs=100000,
            callbacks=[tell])
"""


def test_ctrl_c_leaves_no_provider_behind(tmp_path):
    script = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert script.stdout is not None
    assert script.stdout.readline().strip() == "1"
    children = children_of(script.pid)
    assert len(children) == 2
    children += [stage for child in children for stage in children_of(child)]
    assert len(children) == 4
    script.send_signal(signal.SIGINT)
    _, said = script.communicate(timeout=30)
    assert script.returncode != 0
    assert "what was learned is gone; fit with a folder keeps it" in said.splitlines()
    assert not any(_is_running(child) for child in children)
    assert not list(tmp_path.glob("ravnest-*"))


def children_of(pid: int | str, name: str = "") -> list[str]:
    words = ["ps", "--ppid", str(pid), "-o", "pid=,comm="]
    said = subprocess.run(words, capture_output=True, text=True).stdout
    found = [line.split(maxsplit=1) for line in said.splitlines()]
    return [child for child, command in found if command.startswith(name)]


def _is_running(pid: str) -> bool:
    return subprocess.run(["ps", "-p", pid, "-o", "pid="], capture_output=True).returncode == 0


def fit_clusters(folder, **more):
    return ravnest.fit(
        make_model(),
        DataLoader(make_data(160), batch_size=16),
        criterion=nn.functional.cross_entropy,
        optimizer_params={"lr": 0.01},
        epochs=4,
        val_loader=DataLoader(make_data(), batch_size=48),
        folder=folder,
        quiet=True,
        **more,
    )


@pytest.mark.parametrize(
    "more",
    [
        {"reduce_factor": 4},
        {"reduce_factor": 4, "averaging": "blocking", "average_optim": True},
        {"reduce_factor": 4, "averaging_codec": "int8", "outer": "nesterov", "streams": 2},
        {"reduce_factor": 4, "reduce": "gloo", "patience": 30},
        {},
    ],
    ids=["overlapped", "blocking", "nesterov", "gloo", "each_epoch"],
)
def test_clusters_end_with_the_same_weights(tmp_path, more):
    run = fit_clusters(tmp_path, providers=4, clusters=2, **more)
    assert len(run.history["loss"]) == 40
    assert len(run.history["val_accuracy"]) == 4
    assert run.history["loss"][-1] < run.history["loss"][0]
    states = [ravnest.model_fusion(i, tmp_path, tmp_path / f"{i}.pt") for i in (0, 1)]
    for name, value in run.state_dict().items():
        assert torch.equal(states[0][name], value), name
        assert torch.equal(states[1][name], value), name


def test_three_clusters_of_one_provider_take_the_trimmed_mean(tmp_path):
    run = fit_clusters(tmp_path, providers=3, clusters=3, reduce_factor=2, robust="trimmed")
    state = ravnest.model_fusion(2, tmp_path, tmp_path / "2.pt")
    for name, value in run.state_dict().items():
        assert torch.equal(state[name], value), name


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"clusters": 4, "providers": 3}, "a provider or more for each cluster"),
        ({"clusters": 0}, "expected clusters to be a whole number"),
        ({"clusters": 2, "providers": 2, "averaging": "often"}, "averaging"),
        ({"clusters": 2, "providers": 2, "reduce_factor": 0}, "reduce_factor"),
        (
            {"clusters": 2, "providers": 2, "reduce": "gloo", "averaging_codec": "int8"},
            "without a codec",
        ),
    ],
)
def test_clusters_that_cannot_be_are_refused(tmp_path, more, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        fit_clusters(tmp_path, **more)


def test_a_run_that_was_cut_off_goes_on_from_its_folder(tmp_path):
    def stop(run):
        if run.epoch == 2:
            raise KeyboardInterrupt

    def train(*callbacks):
        return ravnest.fit(
            make_model(),
            DataLoader(make_data(), batch_size=16),
            criterion=nn.functional.cross_entropy,
            optimizer_params={"lr": 0.01},
            epochs=4,
            val_loader=DataLoader(make_data(), batch_size=48),
            providers=2,
            schedule="sync",
            folder=tmp_path / "run",
            callbacks=callbacks,
            quiet=True,
        )

    with pytest.raises(KeyboardInterrupt):
        train(stop)
    resumed = train()
    whole = losses_here(make_model(), DataLoader(make_data(), batch_size=16), 4)
    assert resumed.history["loss"] == pytest.approx(whole[12:], abs=1e-5)
    assert train().history["loss"] == pytest.approx(whole, abs=1e-5)  # the next one begins anew


CRASH = """
import sys
sys.path.insert(0, sys.argv[1])
from test_fit import train_in
def tell(run):
    print(run.epoch, flush=True)
    if run.epoch == 4:
        sys.stdin.read()
train_in(sys.argv[2], tell)
"""


def train_in(folder, *callbacks, clusters: int = 1, quiet: bool = True):
    return ravnest.fit(
        make_model(),
        DataLoader(make_data(), batch_size=16),
        criterion=nn.functional.cross_entropy,
        optimizer_params={"lr": 0.01},
        epochs=8,
        val_loader=DataLoader(make_data(), batch_size=48),
        providers=2,
        clusters=clusters,
        schedule="sync",
        folder=folder,
        checkpoint_every=4,
        callbacks=callbacks,
        quiet=quiet,
    )


def test_a_run_that_was_killed_goes_on_from_its_checkpoint(tmp_path):
    folder = tmp_path / "run"
    words = [sys.executable, "-c", CRASH, os.path.dirname(__file__), str(folder)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as script:
        assert [int(script.stdout.readline()) for _ in range(4)] == [1, 2, 3, 4]
        wait_until(lambda: restored(folder) == 24, "all that was learned is kept")
        providers = children_of(script.pid)
        assert len(providers) == 2
        script.kill()
    wait_until(lambda: not any(map(_is_running, providers)), "providers end with who started them")
    whole = losses_here(make_model(), DataLoader(make_data(), batch_size=16), 8)
    assert train_in(folder).history["loss"] == pytest.approx(whole[24:], abs=1e-5)


def restored(folder) -> int | None:
    """The version of the restore point, as the server in there says to its owner."""
    words = [RAVNEST, "status", "--json", "--data", str(folder / "unfinished" / "server")]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (job,) = json.loads(said)["jobs"]
    return job["restore_point"] and job["restore_point"]["version"]


def test_two_clusters_that_were_cut_off_go_on(tmp_path, capfd):
    def stop(run):
        if run.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_in(tmp_path, stop, clusters=2)
    resumed = train_in(tmp_path, clusters=2, quiet=False)
    assert "goes on with the run that was cut off in" in capfd.readouterr().err
    assert 36 <= len(resumed.history["loss"]) <= 48
    assert resumed.history["loss"][-1] < 1.0


def test_a_folder_of_another_shape_begins_anew(tmp_path):
    def stop(run):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_in(tmp_path, stop)
    assert len(train_in(tmp_path, clusters=2).history["loss"]) == 48


@pytest.mark.parametrize(
    ("which", "sentence"),
    [
        ("stage", "a provider failed: node_. failed at .* ended by signal 9"),
        ("provider", "node_. ended with exit code -9"),
    ],
)
def test_a_provider_that_dies_ends_a_run_without_a_folder(which, sentence):
    def kill(run):
        if run.epoch == 2:
            provider = children_of(os.getpid(), "ravnest")[0]
            os.kill(
                int(provider if which == "provider" else children_of(provider)[0]), signal.SIGKILL
            )

    with pytest.raises(RuntimeError, match=sentence):
        ravnest.fit(
            make_model(),
            DataLoader(make_data(), batch_size=16),
            criterion=nn.functional.cross_entropy,
            epochs=1000,
            val_loader=DataLoader(make_data(), batch_size=48),
            providers=2,
            callbacks=[kill],
            quiet=True,
        )
    assert not children_of(os.getpid(), "ravnest")


def test_a_stage_that_dies_is_mended_from_the_folder(tmp_path):
    def kill(run):
        if run.epoch == 2:
            (stage,) = children_of(children_of(os.getpid(), "ravnest")[0])
            os.kill(int(stage), signal.SIGKILL)

    run = train_in(tmp_path, kill)
    whole = losses_here(make_model(), DataLoader(make_data(), batch_size=16), 8)
    assert run.history["loss"] == pytest.approx(whole, abs=1e-5)


def test_the_screen_shows_how_clusters_average(tmp_path, monkeypatch):
    class Screen(Board):
        def tick(self, head, lines, share):
            word = "averaging [0-9]+ with node_[0-9]+ \\([0-9.]+ ms, [0-9.]+ k?B\\)"
            if any(re.search(word, line) for line in lines) and re.search(word, head()):
                assert " samples/s, delay " in head() and " MB, " in head()
                raise KeyboardInterrupt

    monkeypatch.setattr(ravnest.training, "Board", Screen)
    with pytest.raises(KeyboardInterrupt):
        ravnest.fit(
            make_model(),
            DataLoader(make_data(160), batch_size=16),
            criterion=nn.functional.cross_entropy,
            epochs=100_000,
            folder=tmp_path,
            providers=2,
            clusters=2,
            reduce_factor=4,
        )
