"""A file that is no model is refused with one sentence that names it, whatever is in it."""

import json
import pickle
import random
import struct
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn

import ravnest

COMMAND = Path(sys.executable).parent / "ravnest"
TERABYTE = 1 << 40


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.out(torch.flatten(x, 1))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("good") / "good.pt2"
    torch.export.save(torch.export.export(Net(), (torch.rand(2, 1, 4, 4),), strict=False), path)
    return path


@pytest.fixture(scope="module")
def content(good):
    return good.read_bytes()


def inspect(path):
    return subprocess.run(
        [COMMAND, "inspect", str(path)], capture_output=True, text=True, timeout=60
    )


def assert_refused_in_one_line(path):
    with pytest.raises((ValueError, ravnest.Error)) as error:
        ravnest.Program.load(path)
    sentence = str(error.value)
    assert str(path) in sentence
    assert "\n" not in sentence.strip()
    assert len(sentence) < 600 + len(str(path))

    done = inspect(path)
    assert done.returncode in (1, 2), done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert path.name in done.stderr
    return error.value


def assert_same_program(program, other):
    assert str(program) == str(other)
    weights, others = program.state_dict(), other.state_dict()
    assert list(weights) == list(others)
    for name, weight in weights.items():
        assert torch.equal(weight, others[name]), name


def replace_entry(good, path, name, change):
    """The archive with one entry's text changed, its checksum right."""
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
        for entry in source.namelist():
            text = source.read(entry)
            target.writestr(entry, change(text) if entry.endswith(name) else text)


def test_the_good_file_is_good(good):
    assert ravnest.Program.load(good)(torch.rand(2, 1, 4, 4)).shape == (2, 3)
    assert inspect(good).returncode == 0


def test_truncated(content, tmp_path):
    path = tmp_path / "truncated.pt2"
    spread = {len(content) * i // 50 for i in range(50)}
    sizes = sorted(spread | {1, 2, 21, 22, 23, 64, *(len(content) - i for i in (1, 2, 21, 22, 23))})
    for size in sizes:
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match="truncated.pt2"):
            ravnest.Program.load(path)


@pytest.mark.parametrize("share", [0, 0.3, 0.9, 0.999])
def test_truncated_for_the_command(content, tmp_path, share):
    path = tmp_path / "truncated.pt2"
    path.write_bytes(content[: int(len(content) * share)])
    assert_refused_in_one_line(path)


def test_flipped_bits(good, content, tmp_path):
    program = ravnest.Program.load(good)
    path = tmp_path / "flipped.pt2"
    source = random.Random(7)
    refused = 0
    for _ in range(300):
        changed = bytearray(content)
        bit = source.randrange(len(content) * 8)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            loaded = ravnest.Program.load(path)
        except ValueError as error:
            refused += 1
            assert "flipped.pt2" in str(error), bit
        else:
            assert_same_program(loaded, program)
    assert refused > 100


def test_a_name_that_is_no_text_can_be_told(content, tmp_path):
    path = tmp_path / "named.pt2"
    changed = bytearray(content)
    changed[content.rindex(b"PK\1\2") + 46 + 3] |= 0x80  # of the name of the last entry
    path.write_bytes(changed)
    with pytest.raises(ValueError, match="named.pt2"):
        ravnest.Program.load(path)
    assert_refused_in_one_line(path)


def write_pickle(path):
    path.write_bytes(pickle.dumps({"weights": [1.0, 2.0]}))


def write_state_dict(path):
    torch.save(Net().state_dict(), path)


def write_module(path):
    torch.save(nn.Linear(2, 2), path)


def write_arrays(path):
    with path.open("wb") as file:
        numpy.savez(file, a=numpy.zeros(3))


def write_compressed(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/archive_format", "pt2" * 100)


@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".bin"])
@pytest.mark.parametrize(
    "write",
    [
        write_pickle,
        write_state_dict,
        write_module,
        write_arrays,
        write_compressed,
        lambda path: path.write_text("hello, I am no model\n"),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"PK\x03\x04"),
        lambda path: path.write_bytes(bytes(100_000)),
        lambda path: path.mkdir(),
    ],
    ids=[
        "pickle",
        "state_dict",
        "module",
        "arrays",
        "compressed",
        "text",
        "empty",
        "beginning_of_a_zip",
        "zeros",
        "folder",
    ],
)
def test_other_files(tmp_path, write, suffix):
    path = tmp_path / f"other{suffix}"
    write(path)
    assert_refused_in_one_line(path)


def test_missing_file(tmp_path):
    error = assert_refused_in_one_line(tmp_path / "missing.pt2")
    assert isinstance(error, ravnest.Error)
    assert not isinstance(error, ValueError)


def test_nothing_in_a_pickle_runs(tmp_path):
    mark = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return Path.touch, (mark,)

    for suffix in (".pt2", ".pt"):
        path = tmp_path / f"bomb{suffix}"
        torch.save({"w": Bomb()}, path)
        assert_refused_in_one_line(path)
    assert not mark.exists()


def claim_a_terabyte_in_the_directory(good, path):
    changed = bytearray(good.read_bytes())
    at = changed.rindex(b"PK\x01\x02")
    changed[at + 20 : at + 28] = struct.pack("<II", 0xFFFFFFF0, 0xFFFFFFF0)
    path.write_bytes(changed)


def claim_a_terabyte_weight(good, path):
    def change(text):
        config = json.loads(text)
        config["config"]["conv.weight"]["tensor_meta"]["sizes"][0] = {"as_int": TERABYTE}
        return json.dumps(config)

    replace_entry(good, path, "weights_config.json", change)


def claim_a_terabyte_value(good, path):
    def change(text):
        model = json.loads(text)
        values = model["graph_module"]["graph"]["tensor_values"]
        values["linear"]["sizes"][0] = {"as_int": TERABYTE}
        return json.dumps(model)

    replace_entry(good, path, "models/model.json", change)


def ask_for_a_terabyte(good, path):
    def change(text):
        model = json.loads(text)
        node = next(n for n in model["graph_module"]["graph"]["nodes"] if "relu" in n["target"])
        node["target"] = "torch.ops.aten.zeros.default"
        node["inputs"] = [{"name": "size", "arg": {"as_ints": [TERABYTE]}, "kind": 1}]
        return json.dumps(model)

    replace_entry(good, path, "models/model.json", change)


def nest_deeply(good, path):
    deep = b'{"config": {"w": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}}"
    replace_entry(good, path, "weights_config.json", lambda text: deep)


MEASURE = textwrap.dedent(
    """
    import resource, sys, ravnest
    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ravnest.Program.load(sys.argv[1])
    before = peak()
    try:
        ravnest.Program.load(sys.argv[2])
    except ValueError:
        print(peak() - before)
    """
)


@pytest.mark.parametrize(
    "write",
    [
        claim_a_terabyte_in_the_directory,
        claim_a_terabyte_weight,
        claim_a_terabyte_value,
        ask_for_a_terabyte,
        nest_deeply,
    ],
)
def test_refusing_a_claim_of_a_terabyte_takes_little_memory(good, tmp_path, write):
    path = tmp_path / "claim.pt2"
    write(good, path)
    assert_refused_in_one_line(path)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(good), str(path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 64 * 1024  # KiB
