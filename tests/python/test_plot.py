"""`ravnest plot`: pictures of a run's curves."""

import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from ravnest import _C

COMMAND = Path(sys.executable).parent / "ravnest"


@pytest.fixture(autouse=True)
def run_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("losses.txt").write_text("".join(f"{2 / (i + 1)}\n" for i in range(100)))
    Path("val_accuracies.txt").write_text("41.5\n80\n97.25\n")


def plot(*arguments):
    return subprocess.run([COMMAND, "plot", *arguments], capture_output=True, text=True)


def png_size(path):
    content = Path(path).read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


def test_one_file_or_both():
    done = plot("losses.txt", "val_accuracies.txt", "-o", "both.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Drew 100 losses and 3 accuracies into both.png\n"
    assert png_size("both.png") == (1920, 1528)
    assert "100 losses and 0 accuracies" in plot("losses.txt").stdout
    assert png_size("run.png") == (1920, 952)
    assert "0 losses and 3 accuracies" in plot("val_accuracies.txt").stdout


def test_names_tell_which_is_which():
    swapped = plot("val_accuracies.txt", "losses.txt", "-o", "swapped.png")
    assert swapped.stdout.startswith("Drew 100 losses and 3 accuracies")
    plot("losses.txt", "val_accuracies.txt", "-o", "both.png")
    assert Path("swapped.png").read_bytes() == Path("both.png").read_bytes()


def test_svg_by_its_name():
    assert plot("losses.txt", "-o", "run.svg", "--title", "Digits").returncode == 0
    assert ElementTree.parse("run.svg").getroot().get("viewBox") == "0 0 960 476"


def refused(code, *arguments):
    done = plot(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_bad_input_gets_a_sentence():
    Path("odd.txt").write_text("1\n2\nthree\n")
    Path("empty.txt").write_text("")
    Path("acc.txt").write_text("50\n120\n")
    assert "'odd.txt': expected a number in line 3, got 'three'" in refused(2, "odd.txt")
    assert "'empty.txt' has no numbers" in refused(2, "empty.txt")
    assert "from 0 to 100 percent, got 120 as number 2" in refused(2, "acc.txt")
    assert "missing.txt" in refused(1, "missing.txt")
    assert ".png or .svg, got 'run.pdf'" in refused(2, "losses.txt", "-o", "run.pdf")
    assert "FILE is required" in refused(2)


def test_from_python():
    _C.plot_run([3.0, float("nan"), 1.0], [], "run.png", title="Three batches")
    assert png_size("run.png") == (1920, 952)
    with pytest.raises(ValueError, match="got neither"):
        _C.plot_run([], [], "run.png")
    with pytest.raises(OSError, match="no/such/run.svg"):
        _C.plot_run([1.0], [50.0], "no/such/run.svg")
