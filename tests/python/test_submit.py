"""ravnest submit: a job that a file describes."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from local_server import BATCH, PATIENCE, RAVNEST, make_model, make_tensors, wait_until
from torch import nn

import ravnest

DATA = """
[data]
file = "data.safetensors"
inputs = ["x"]
target = "y"
batch = 32
shuffle = true
validation = 0.25
"""


def write_safetensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    header, offset, parts = {}, 0, []
    for name, tensor in tensors.items():
        data = tensor.numpy().tobytes()
        dtype = {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        ends = [offset, offset + len(data)]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": ends}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


@pytest.fixture
def folder(tmp_path):
    inputs, target = make_tensors()
    program = ravnest.capture(
        make_model(), (inputs[:BATCH],), loss=nn.functional.cross_entropy, target=target[:BATCH]
    )
    program.save(tmp_path / "model.pt2")
    write_safetensors(tmp_path / "data.safetensors", {"x": inputs, "y": target})
    return tmp_path


def submit(folder: Path, text: str, *words: str, env: dict | None = None):
    (folder / "job.toml").write_text(text)
    return subprocess.run(
        [RAVNEST, "submit", str(folder / "job.toml"), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=env,
    )


def check_state(path: Path) -> None:
    model = make_model()
    model.load_state_dict(torch.load(path, weights_only=True), strict=True)
    inputs, target = make_tensors()
    before = nn.functional.cross_entropy(make_model()(inputs), target)
    assert nn.functional.cross_entropy(model(inputs), target) < 0.8 * before


def test_a_model_and_its_data_are_trained_on_this_machine(folder):
    fit = "[fit]\nepochs = 8\nproviders = 2\nseed = 1\noptimizer_params = { lr = 0.01 }\n"
    answer = submit(folder, 'model = "model.pt2"\nout = "trained.pt"\n' + DATA + fit)
    assert answer.returncode == 0, answer.stderr
    check_state(folder / "trained.pt")


ENTRY = """
from local_server import *
def make():
    inputs, target = make_tensors()
    return {
        "model": make_model(),
        "train_loader": list(zip(inputs.split(32), target.split(32))),
        "criterion": nn.functional.cross_entropy,
    }
"""


def test_an_entry_on_a_server_is_fetched_by_its_number(pool, folder):
    pool.lend(2)
    (folder / "train.py").write_text(ENTRY)
    path = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"RAVNEST_TOKEN": pool.requester_token, "PYTHONPATH": path}
    text = f'server = "{pool.address}"\nname = "walk"\nentry = "train.py:make"\n'
    text += "[fit]\nepochs = 8\nproviders = 2\noptimizer_params = { lr = 0.01 }\n"
    answer = submit(folder, text, "--detach", env=env)
    assert answer.returncode == 0, answer.stderr
    number = int(answer.stdout.removeprefix("job "))
    wait_until(lambda: pool.job(number)["phase"] == "done", "what was left alone is trained")
    assert pool.job(number)["name"] == "walk"
    assert f"job {number} at {pool.address}" in (folder / "job.log").read_text()
    answer = pool.run("fetch", str(number), "--out", str(folder), "--server", pool.address)
    assert answer.returncode == 0, answer.stderr
    check_state(folder / "trained_state_dict.pt")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model = 1", "expected another 'model'"),
        ("modle = 'm'", "got 'modle'"),
        ("model = ", "to be TOML"),
        ("name = 'x'", "either a model or an entry"),
        ("model = 'm'\nentry = 'e'", "either a model or an entry"),
        ("entry = 'train.py'", "an entry such as"),
        ("entry = 'gone.py:make'", "gone.py"),
        ("model = 'model.pt2'", "expected 'data'"),
        ("model = 'gone.pt2'" + DATA, "gone.pt2"),
        ("model = 'model.pt2'\n[fit]\nepoch = 3" + DATA, "got 'epoch'"),
        ("model = 'model.pt2'\n[fit]\nserver = 'x'" + DATA, "got 'server'"),
        ("model = 'model.pt2'" + DATA.replace('"y"', '"z"'), "to have 'z', got x, y"),
        ("model = 'model.pt2'" + DATA.replace("32", "0"), "a batch of 1 or more"),
        ("model = 'model.pt2'" + DATA.replace("32", "true"), "another 'batch'"),
        ("model = 'model.pt2'" + DATA.replace("0.25", "1.5"), "a validation from 0 to 1"),
        ("model = 'model.pt2'" + DATA.replace("data.", "../data."), "data.safetensors"),
        ("model = 'model.pt2'" + DATA + "[fit]\nepochs = 0", "expected epochs"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(folder, text, sentence):
    answer = submit(folder, text)
    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.startswith("ravnest: ") and answer.stderr.count("\n") == 1
    assert sentence in answer.stderr


def test_nothing_is_unpickled(folder):
    torch.save({"x": torch.ones(4), "y": torch.ones(4)}, folder / "data.safetensors")
    answer = submit(folder, "model = 'model.pt2'" + DATA)
    assert answer.returncode == 2
    assert "data.safetensors" in answer.stderr


def test_a_server_that_is_not_there_is_a_failure(pool, folder):
    text = "model = 'model.pt2'\nserver = '127.0.0.1:1'\n" + DATA
    env = os.environ | {"RAVNEST_TOKEN": pool.requester_token}
    answer = submit(folder, text, env=env)
    assert answer.returncode == 1, answer.stderr
    assert answer.stderr.startswith("ravnest: ")
    answer = submit(folder, text.replace("server", "name"), "--detach")
    assert answer.returncode == 2
    assert sys.executable not in answer.stderr
    assert "expected a server to detach from" in answer.stderr
