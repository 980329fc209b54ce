"""The examples as a stranger runs them, each in a folder of its own, with fewer epochs."""

import re
import shutil
from pathlib import Path

import pytest
from local_cluster import Scripts, read_numbers, write_pool

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BATCHES = 17  # of an epoch of the digits


@pytest.fixture
def example(tmp_path, request):
    """A copy of an example, on free ports, with its plan."""
    for path in (EXAMPLES / request.param).iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    write_pool(tmp_path, 3)
    with Scripts(tmp_path) as scripts:
        scripts.start("plan", "cluster_formation.py")
        assert scripts.exit_codes() == {"plan": 0}, scripts.logs()
        yield scripts


def start_providers(scripts, epochs, order=(0, 2, 1)):
    for i in order:
        scripts.start(f"node_{i}", "provider.py", f"node_{i}", epochs)


def ends_well(scripts):
    assert set(scripts.exit_codes(within=240).values()) == {0}, scripts.logs()


def evaluated(scripts):
    """The accuracy of the fused model in plain PyTorch."""
    scripts.start("evaluate", "evaluate.py")
    ends_well(scripts)
    return re.findall(r"in plain PyTorch: ([\d.]+) %", scripts.log("evaluate"))[-1]


def stored(folder):
    """Of the plan: what no run may change."""
    return {path: path.read_bytes() for path in folder.rglob("submod.pt2")}


@pytest.mark.parametrize("example", ["walkthrough"], indirect=True)
def test_the_walkthrough(example):
    folder = example.folder
    plan = stored(folder)
    assert len(plan) == 3
    start_providers(example, epochs=8)
    ends_well(example)
    losses = read_numbers(folder / "losses.txt")
    assert len(losses) == 8 * BATCHES
    assert sum(losses[-BATCHES:]) < 0.5 * sum(losses[:BATCHES]), "it learns"
    accuracies = (folder / "val_accuracies.txt").read_text().split()
    assert len(accuracies) == 8 * BATCHES // 64 + 1, "every 64 batches, and evaluate()"
    assert evaluated(example) == accuracies[-1], "the fused model is the one that was trained"
    for name, log in example.logs().items():
        assert "Traceback" not in log and len(log.splitlines()) < 30, (name, log)

    # Again, at once: two of the three find the files of the run before, and leave them alone.
    before = {path: path.read_bytes() for path in [*folder.glob("*.txt"), *plan]}
    for i in (2, 1):
        example.start(f"again_{i}", "provider.py", f"node_{i}", 2)
    example.wait_for(lambda: "waits for node_0" in example.log("again_1"), "wait")
    for path, content in before.items():
        assert path.read_bytes() == content, path
    example.start("again_0", "provider.py", "node_0", 2)
    ends_well(example)
    assert len(read_numbers(folder / "losses.txt")) == 2 * BATCHES, "replaced, not added to"
    assert len((folder / "val_accuracies.txt").read_text().split()) == 1
    assert stored(folder) == plan
    assert evaluated(example) == (folder / "val_accuracies.txt").read_text().split()[-1]


@pytest.mark.parametrize("example", ["bert"], indirect=True)
def test_a_small_bert(example):
    start_providers(example, epochs=1, order=(2, 1, 0))
    ends_well(example)
    losses = read_numbers(example.folder / "losses.txt")
    assert len(losses) == 32, "a batch of 32 sentences each"
    assert len(list(example.folder.rglob("submod_?.safetensors"))) == 3
    accuracies = (example.folder / "val_accuracies.txt").read_text().split()
    said = "".join(example.logs().values())
    assert f"epoch 1 of 1: {accuracies[0]} %" in said and len(accuracies) == 2


def test_the_demo(tmp_path):
    with Scripts(tmp_path) as scripts:
        scripts.start("demo", EXAMPLES / "demo.py", "--epochs", 4, "--out", tmp_path / "demo")
        ends_well(scripts)
        said = scripts.log("demo")
    accuracies = re.findall(r"([\d.]+) %", said)
    assert len(accuracies) >= 2, said
    for name in ("plan.svg", "timeline.svg", "run.png"):
        assert (tmp_path / "demo" / name).stat().st_size > 1000, name
