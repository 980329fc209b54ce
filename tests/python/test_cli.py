"""The `ravnest` command: what it prints, where, and with which exit code."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import zoo
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode
from zoo_cases import CASES

import ravnest

COMMAND = Path(sys.executable).parent / "ravnest"
UTF8 = {"LC_ALL": "C.UTF-8", "TERM": "xterm"}


def run(*arguments, **variables):
    environment = {**os.environ, **UTF8, **variables}
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=60
    )


def inspect(*arguments):
    done = run("inspect", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(code, *arguments):
    """The sentence on standard error; nothing may be on standard output."""
    done = run(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("ravnest: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture(scope="module")
def cnn(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("models") / "cnn.pt2"
    ravnest.capture(zoo.CNN_Net(), args=(torch.rand(4, 1, 8, 8),)).save(path)
    return path


def test_help_names_only_what_there_is():
    done = run("--help")
    assert done.returncode == 0
    listed = done.stdout.split("Subcommands:\n")[1]
    commands = [line.split()[0] for line in listed.splitlines() if line.strip()]
    for there in ("serve", "join", "status", "inspect", "clusterize", "simulate", "fuse", "plot"):
        assert there in commands
    for command in commands:
        assert run(command, "--help").returncode == 0, command
    assert run("inspect", "--help").stdout.count("--optimizer") == 1


def test_version():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("ravnest 0.")


def test_bad_usage():
    assert "Did you mean 'inspect'?" in refused(2, "inspekt", "x.pt2")
    assert "Did you mean" not in refused(2, "frobnicate")
    assert "expected a command" in refused(2)
    assert "FILE is required" in refused(2, "inspect")
    assert "--colour" in refused(2, "inspect", "x.pt2", "--colour")
    assert "from 1 to" in refused(2, "inspect", "x.pt2", "--batch", "0")
    assert "got 'many'" in refused(2, "inspect", "x.pt2", "--batch", "many")
    assert "sgd, momentum or adam" in refused(2, "inspect", "x.pt2", "--optimizer", "lion")
    assert "excludes" in refused(2, "inspect", "x.pt2", "--json", "--text")


def test_table_fits_a_terminal(cnn):
    done = run("inspect", cnn)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("cnn.pt2, ")
    assert "captured with 4" in lines[0]
    assert max(map(len, lines)) <= 100
    assert all(line == line.rstrip() for line in lines)
    for part in ("parameters  16,426", "Memory for training, batch 4, adam", "conv2d_2", "█"):
        assert part in done.stdout


def test_long_names_are_shortened_in_the_middle(tmp_path):
    model = nn.Sequential()
    inner = model
    for part in ("encoder_of_everything", "layer_with_a_long_name", "attention_of_the_layer"):
        inner.add_module(part, nn.Sequential())
        inner = inner.get_submodule(part)
    inner.add_module("projection_to_the_output", nn.Linear(8, 8))
    ravnest.capture(model, args=(torch.rand(2, 8),)).save(tmp_path / f"{'model' * 20}.pt2")
    done = run("inspect", tmp_path / f"{'model' * 20}.pt2")
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "…" in done.stdout


def test_plain_ascii_where_the_locale_is(cnn):
    done = run("inspect", cnn, LC_ALL="C")
    assert done.stdout.isascii()
    assert "#" in done.stdout


def on_a_terminal(*arguments, **variables):
    """Standard output when it is a terminal."""
    leader, follower = pty.openpty()
    environment = {**os.environ, **UTF8, **variables}
    with subprocess.Popen([COMMAND, *arguments], stdout=follower, env=environment) as process:
        os.close(follower)
        chunks = []
        while True:
            try:
                chunks.append(os.read(leader, 65536))
            except OSError:  # how Linux says that the other side has closed
                break
            if not chunks[-1]:
                break
    os.close(leader)
    assert process.returncode == 0
    return b"".join(chunks).decode()


def test_colour_on_a_terminal_alone(cnn):
    assert "\x1b[" in on_a_terminal("inspect", cnn, NO_COLOR="")
    assert "\x1b[" not in on_a_terminal("inspect", cnn, NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal("inspect", cnn, NO_COLOR="", TERM="dumb")
    assert "\x1b[" not in run("inspect", cnn).stdout


def test_json_says_what_the_model_is(cnn):
    found = inspect(cnn)
    model = zoo.CNN_Net()
    assert found["file_bytes"] == cnn.stat().st_size
    assert (found["batch"], found["captured_batch"], found["batch_is_dynamic"]) == (4, 4, True)
    assert found["graphs"] == ["train"]
    assert found["costs_known"] is True
    assert found["parameters"]["count"] == sum(p.numel() for p in model.parameters())
    assert found["parameters"]["bytes"] == sum(p.nbytes for p in model.parameters())
    assert found["buffers"]["bytes"] == sum(b.nbytes for b in model.buffers())
    assert found["operators"]["by_target"]["aten.conv2d.padding"] == 2
    assert sum(found["operators"]["by_target"].values()) == found["operators"]["count"]
    memory = found["memory"]
    assert memory["optimizer_kind"] == "adam"
    assert memory["optimizer"] == 2 * memory["gradients"] == 2 * found["parameters"]["bytes"]
    parts = [part for key, part in memory.items() if key not in ("total", "optimizer_kind")]
    assert memory["total"] == sum(parts)
    assert sum(place["share"] for place in found["places"]) == pytest.approx(1)
    assert sum(place["flops"] for place in found["places"]) == found["flops"]["forward"]


def test_batch_and_optimizer_change_what_they_should(cnn):
    small, large = inspect(cnn), inspect(cnn, "--batch", 40, "--optimizer", "sgd")
    assert large["batch"] == 40
    assert large["memory"]["optimizer"] == 0
    assert large["memory"]["weights"] == small["memory"]["weights"]
    assert 9 < large["memory"]["activations"] / small["memory"]["activations"] < 10
    assert inspect(cnn, "--optimizer", "momentum")["memory"]["optimizer"] == 16426 * 4


def test_top_limits_the_places(cnn):
    done = run("inspect", cnn, "--top", 2)
    assert "16 others" in done.stdout
    assert "Heaviest" not in run("inspect", cnn, "--top", 0).stdout


def test_text_is_the_text_form(cnn):
    done = run("inspect", cnn, "--text")
    assert done.returncode == 0
    assert done.stdout.startswith("program\n")
    assert "aten.conv2d.padding(" in done.stdout
    assert done.stdout == str(ravnest.Program.load(cnn))


def saved_bytes(model, case, batch):
    """What autograd keeps at the end of the forward: unique storages, weights aside."""
    weights = [*model.parameters(), *model.buffers()]
    known = {weight.untyped_storage().data_ptr() for weight in weights}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(*batch.args, **batch.keywords)
        if case.loss:
            output = case.loss(output, batch.target), output
    return sum(storage.nbytes() for storage in kept.values())


# The oneDNN workspace of an LSTM is fitted; everything else is known.
TOLERANCE = {"cnn": 1e-3, "resnet18": 1e-3, "gpt": 1e-3, "bert": 1e-3, "lstm": 0.05}
TOLERANCE |= {"unet": 1e-3, "vit": 1e-3, "two_in_two_out": 1e-3}


@pytest.mark.parametrize("name", TOLERANCE)
def test_activations_are_those_that_autograd_keeps(name, tmp_path):
    """Estimated from shapes, at a batch that was not captured."""
    (case,) = (case for case in CASES if case.name == name)
    model = case.build().train()
    example = case.make_batch(case.batches[0])
    with_loss = {"loss": case.loss, "target": example.target} if case.loss else {}
    program = ravnest.capture(model, args=example.args, kwargs=example.keywords, **with_loss)
    program.save(tmp_path / "model.pt2")
    found = inspect(tmp_path / "model.pt2", "--batch", case.batches[1])
    measured = saved_bytes(model, case, case.make_batch(case.batches[1]))
    assert found["memory"]["activations"] == pytest.approx(measured, rel=TOLERANCE[name])


class Products(nn.Module):
    """Little but products, as torch counts them."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 16, 3, stride=2, padding=1)
        self.dilated = nn.Conv2d(16, 8, 3, dilation=2, padding=2)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        rows = self.linear(self.up(self.dilated(self.conv(x))).flatten(2))
        return rows @ rows.transpose(1, 2)


def test_flops_are_those_that_torch_counts(tmp_path):
    model, x = Products(), torch.randn(3, 4, 8, 4)
    with FlopCounterMode(display=False) as forward:
        output = model(x)
    with FlopCounterMode(display=False) as backward:
        output.sum().backward()
    ravnest.capture(model, args=(x,)).save(tmp_path / "model.pt2")
    found = inspect(tmp_path / "model.pt2")
    assert found["flops"] == {
        "forward": forward.get_total_flops(),
        "backward": backward.get_total_flops(),
    }


def test_torchscript_is_read(tmp_path):
    torch.jit.save(torch.jit.script(zoo.CNN_Net()), tmp_path / "cnn.pt")
    found = inspect(tmp_path / "cnn.pt")
    assert found["parameters"]["count"] == 16426
    assert found["costs_known"] is False
    assert found["batch"] is None
    assert "not known" in run("inspect", tmp_path / "cnn.pt").stdout
    sentence = refused(2, "inspect", tmp_path / "cnn.pt", "--batch", "8")
    assert "without example inputs" in sentence


def test_the_content_decides_not_the_name(cnn, tmp_path):
    (tmp_path / "renamed.pt").write_bytes(cnn.read_bytes())
    assert inspect(tmp_path / "renamed.pt")["batch"] == 4


class Bomb:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("zipped", [True, False])
def test_nothing_is_unpickled(tmp_path, zipped):
    trace = tmp_path / "trace"
    torch.save(
        {"weights": torch.ones(2), "bomb": Bomb(trace)},
        tmp_path / "state.pt",
        _use_new_zipfile_serialization=zipped,
    )
    sentence = refused(2, "inspect", tmp_path / "state.pt")
    assert "state.pt' is pickled" in sentence
    assert "torch.export.save" in sentence
    assert not trace.exists()


def test_a_world_that_fails(cnn, tmp_path):
    assert "missing.pt2" in refused(1, "inspect", tmp_path / "missing.pt2")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [COMMAND, "inspect", cnn], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "ravnest: cannot write to standard output.\n"


def test_bad_files(cnn, tmp_path):
    def file(name, content):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    assert "neither" in refused(2, "inspect", file("junk.pt", b"hello, not a model"))
    assert "junk.pt2" in refused(2, "inspect", file("junk.pt2", b"hello, not a model"))
    assert "empty.pt2" in refused(2, "inspect", file("empty.pt2", b""))
    assert "half.pt2" in refused(2, "inspect", file("half.pt2", cnn.read_bytes()[:50000]))
    assert "weights alone" in refused(
        2, "inspect", file("w.safetensors", b'\x10\0\0\0\0\0\0\0{"__metadata__":{}')
    )
    assert "folder" in refused(2, "inspect", tmp_path)


def test_a_fixed_batch_is_said(tmp_path):
    exported = torch.export.export(nn.Linear(8, 8), (torch.rand(4, 8),))
    torch.export.save(exported, tmp_path / "fixed.pt2")
    assert "batch fixed to 4" in run("inspect", tmp_path / "fixed.pt2").stdout
    assert "got 8" in refused(2, "inspect", tmp_path / "fixed.pt2", "--batch", "8")


def test_names_from_the_file_do_not_drive_the_terminal(tmp_path):
    model = nn.Sequential()
    model.add_module("bell\x07\x1b[31mred", nn.Linear(8, 8))
    torch.export.save(torch.export.export(model, (torch.rand(4, 8),)), tmp_path / "odd.pt2")
    done = run("inspect", tmp_path / "odd.pt2")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_reading_on_is_not_needed(cnn):
    """`ravnest inspect … | head -1` ends quietly."""
    with subprocess.Popen(
        [COMMAND, "inspect", cnn, "--text"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
