"""`ravnest provider` beside a root in Python, as users start them."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from local_cluster import Scripts, plan, read_numbers
from torch import nn
from torch.nn.functional import cross_entropy

import ravnest

COMMAND = Path(sys.executable).parent / "ravnest"
BATCHES = 6

ROOT = """
import sys
import torch
from ravnest import Node, Trainer

class Feed(Trainer):
    def train(self):
        for epoch in range(self.epochs):
            self.node.epoch = epoch
            for images, labels in self.train_loader:
                self.node.forward_compute((images, labels))

name, epochs, level = sys.argv[1:]
said = {"quiet": True} if level == "quiet" else {"log_level": level}
torch.manual_seed(0)
batches = [(torch.randn(8, 6), torch.randint(3, (8,))) for _ in range(6)]
node = Node(name, optimizer="sgd", checkpoint_every=0, **said)
Feed(node=node, train_loader=batches, epochs=int(epochs), save=True).train()
"""


class Providers(Scripts):
    """Roots in Python, and the rest without."""

    def command(self, name, *flags, stderr=None):
        with open(self.folder / f"{name}.log", "a") as log:
            self.started[name] = subprocess.Popen(
                [COMMAND, "provider", "--name", name, "--threads", "1", *map(str, flags)],
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT if stderr is None else stderr,
            )

    def root(self, name, epochs, level="quiet"):
        self.start(name, "root.py", name, epochs, level)


def make_plan(folder, nodes=3, clusters=1):
    """Of a model with its loss; names by cluster and stage."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)
    )
    x, y = torch.randn(8, 6), torch.randint(3, (8,))
    program = ravnest.capture(model, args=(x,), loss=cross_entropy, target=y)
    return plan(folder, program, nodes=nodes, clusters=clusters)


@pytest.fixture
def providers(tmp_path):
    (tmp_path / "root.py").write_text(ROOT)
    with Providers(tmp_path) as providers:
        yield providers


def ends(providers, code):
    codes = providers.exit_codes()
    assert set(codes.values()) == {code}, providers.logs()


def test_quiet_ones_say_nothing_and_save(providers):
    root, stem, leaf = make_plan(providers.folder)
    for name in (leaf, stem):
        providers.command(name, "--quiet", "--save", "--losses", "losses.txt")
    providers.root(root, 2)
    ends(providers, 0)
    assert set(providers.logs().values()) == {""}
    assert len(read_numbers(providers.folder / "losses.txt")) == 2 * BATCHES
    fused = ravnest.model_fusion(0, providers.folder / "node_data", providers.folder / "state.pt")
    assert len(fused) == 6


def test_they_say_what_happens(providers):
    root, stem, leaf = make_plan(providers.folder)
    providers.command(stem, "--log-level", "debug", "--checkpoint-every", 4, "--save")
    providers.wait_for(lambda: f"{stem} waits for " in providers.log(stem), "waiting line")
    providers.command(leaf, "--log-level", "warning")
    providers.root(root, 2, "warning")
    ends(providers, 0)
    assert providers.log(root) == "" and providers.log(leaf) == "", "nothing went wrong"
    said = providers.log(stem)
    for word in (
        f"{stem}: checkpoint after 4 batches in ",
        f"{stem}: weights after 12 batches in ",
        f"{stem} (stem): trained on 12 batches in ",
    ):
        assert word in said, said
    assert f"{stem} waits for {root} at 127.0.0.1:" in said or f"waits for {leaf} at" in said


def test_a_neighbour_that_is_lost_is_named_at_every_level_but_error(providers):
    root, stem, leaf = make_plan(providers.folder)
    for name, level in ((stem, "warning"), (leaf, "info")):
        flags = ("--log-level", level, "--return-within", 1, "--losses", "losses.txt")
        providers.command(name, *flags)
    providers.root(root, 100_000, "error")
    losses = providers.folder / "losses.txt"
    providers.wait_for(lambda: losses.exists() and losses.stat().st_size > 0, "loss")
    providers.started[root].kill()
    codes = providers.exit_codes()
    assert codes[stem] == 1 and codes[leaf] == 1, providers.logs()
    assert f"{stem} lost {root} at" in providers.log(stem)
    assert providers.log(stem).splitlines()[-1].startswith("ravnest: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("victim", [0, 1, 2], ids=["root", "stem", "leaf"])
def test_interrupting_one_ends_all(providers, victim, number):
    names = make_plan(providers.folder)
    for name in names[1:]:
        providers.command(name, "--save", "--losses", "losses.txt")
    providers.root(names[0], 100_000)
    losses = providers.folder / "losses.txt"
    providers.wait_for(lambda: losses.exists() and losses.stat().st_size > 0, "loss")
    providers.interrupt(names[victim], number)
    ends(providers, 130)
    for log in providers.logs().values():
        assert f"{names[victim]} was interrupted" in log.splitlines()[-1], log
    assert len(list(providers.folder.rglob("submod_?.safetensors"))) == 3, "saved"


def test_the_leaf_of_every_cluster_has_a_file_of_its_own(providers):
    names = make_plan(providers.folder, nodes=4, clusters=2)
    files = ("--losses", "losses.txt", "--accuracies", "val_accuracies.txt")
    for i, epochs in ((0, 2), (2, 3)):
        providers.command(names[i + 1], "--quiet", *files)
        providers.root(names[i], epochs)
    ends(providers, 0)
    assert len(read_numbers(providers.folder / "losses.txt")) == 2 * BATCHES
    assert len(read_numbers(providers.folder / "losses_1.txt")) == 3 * BATCHES


def test_on_a_terminal_the_line_stays_in_place(providers):
    root, leaf = make_plan(providers.folder, nodes=2)
    ours, theirs = pty.openpty()
    try:
        providers.command(leaf, "--epochs", 4000, stderr=theirs)
        providers.root(root, 4000)
        said = b""
        while b" left, " not in said:
            said += os.read(ours, 4096)
        providers.interrupt(leaf)
        ends(providers, 130)
    finally:
        os.close(ours)
        os.close(theirs)
    line = said.decode().split("\r")[-1]
    assert line.startswith(f"\033[K\033[?7l{leaf} (leaf), epoch "), said
    for word in ("/4000, batch ", f"/{BATCHES}, loss ", " samples/s, delay 0, ", " left, "):
        assert word in line, line


@pytest.mark.parametrize(
    "flags, words",
    [
        (("--log-level", "loud"), ("debug", "loud")),
        ((), ("--requester NAME@HOST:PORT", "root", "node_0")),
        (("--requester", "me"), ("--requester NAME@HOST:PORT", "'me'")),
        (("--patience", "0"), ("patience", "got 0")),
    ],
    ids=["level", "root", "requester", "patience"],
)
def test_what_it_refuses(tmp_path, flags, words):
    make_plan(tmp_path)
    done = subprocess.run(
        [COMMAND, "provider", "--name", "node_0", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (1, 2)
    assert all(word in done.stderr for word in words), done.stderr
