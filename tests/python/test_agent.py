"""`ravnest provider --agent`: words on standard input, JSON on standard output."""

import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from local_cluster import plan
from torch import nn

import ravnest
from ravnest import _C

COMMAND = Path(sys.executable).parent / "ravnest"
LONG = 30


class Child:
    """A provider, and what it says."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            [COMMAND, "provider", "--agent", "--threads", "1", *map(str, flags)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._events = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self._events.put(json.loads(line))

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def wait_for(self, kind):
        while True:
            event = self._events.get(timeout=LONG)
            if event["event"] == kind:
                return event

    def end(self):
        return self.process.wait(LONG)


@pytest.fixture
def place(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    batch = torch.rand(8, 4), torch.rand(8, 1)
    program = ravnest.capture(model, (batch[0],), loss=nn.functional.mse_loss, target=batch[1])
    return tmp_path, plan(tmp_path, program, batch, nodes=2), batch


class Cluster:
    def __init__(self, place, *flags):
        folder, self.names, self.batch = place
        self.losses = []
        self._flags = ["--node-data", folder / "node_data", "--save", *flags]
        self._requester = _C.Requester(
            str(folder / "node_data"), self.names[0], lambda *result: self.losses.append(result[-1])
        )
        self.children = {name: self.start(name) for name in self.names}

    def start(self, name):
        feeds = ["--requester", f"requester@{self._requester.address}"]
        folder = Path(self._flags[1]).parent / "checkpoints" / name
        folder.mkdir(parents=True, exist_ok=True)
        flags = [*self._flags, "--checkpoints", folder, *(feeds if name == self.names[0] else [])]
        return Child("--name", name, *flags)

    def train(self, passes):
        for _ in range(passes):
            assert self._requester.submit("train", list(self.batch), 8, 0, 0, 1, 1.0, LONG * 1000)
        assert self._requester.wait_until_idle(LONG * 1000)

    def end(self):
        self._requester.end_training()
        assert self._requester.wait_for_training(LONG * 1000)

    def close(self):
        self._requester.close(5000)
        return [child.end() for child in self.children.values()]


def test_keeps_a_checkpoint_at_rest(place):
    cluster = Cluster(place, "--checkpoint-every", 0)
    children = cluster.children.values()
    cluster.train(3)
    for child in children:
        child.say("checkpoint")
    for child in children:
        assert child.wait_for("checkpoint")["version"] == 3
    cluster.train(6)  # what was asked for comes at its time, too
    for child in children:
        assert child.wait_for("checkpoint")["version"] == 8
    cluster.end()
    assert cluster.close() == [0, 0]


def test_tells_how_it_goes_and_ends_with_the_run(place):
    cluster = Cluster(place, "--checkpoint-every", 0)
    children = cluster.children.values()
    for child in children:
        assert child.wait_for("ready") == {"event": "ready"}
    cluster.train(3)
    for child in children:
        child.say("checkpoint")
        child.say("dance")
        assert "'dance'" in child.wait_for("note")["text"]  # so the word before it was heard, too
    cluster.train(6)
    for child in children:
        while (kept := child.wait_for("checkpoint"))["version"] != 8:
            assert kept["version"] == 3  # nothing was learned for a while
        assert Path(kept["file"]).name == "8.safetensors"
        assert Path(kept["file"]).exists()
        report = child.wait_for("report")
        assert 0 < report["version"] <= 9
        assert report["memory_bytes"] > 0
        assert report["accuracy"] is None
        shares = [report[key] for key in ("computing", "waiting", "sending")]
        assert sum(shares) == pytest.approx(1.0, abs=0.01)
        assert min(shares) >= 0
    cluster.end()
    for child in children:
        saved = child.wait_for("saved")
        assert saved["version"] == 9
        assert Path(saved["file"]).exists()
    assert cluster.close() == [0, 0]


@pytest.mark.parametrize("how", ["word", "signal", "end of input"])
def test_keeps_its_state_and_goes_on_when_it_is_started_again(place, how):
    cluster = Cluster(place)
    cluster.train(5)
    leaf = cluster.children[cluster.names[-1]]
    if how == "word":
        leaf.say("keep")
    elif how == "signal":
        leaf.process.send_signal(signal.SIGTERM)
    else:
        leaf.process.stdin.close()
    assert leaf.end() == 0
    cluster.children[cluster.names[-1]] = leaf = cluster.start(cluster.names[-1])
    cluster.train(5)
    cluster.end()
    assert leaf.wait_for("saved")["version"] == 10
    assert len(cluster.losses) == 10
    assert cluster.close() == [0, 0]


def test_a_damaged_checkpoint_is_no_fault_of_the_model(place, tmp_path):
    folder, names, _ = place
    shutil.copytree(folder / "node_data", tmp_path / "damaged")
    for model in (tmp_path / "damaged").rglob("submod.pt2"):
        model.with_name("submod_0_checkpoint.safetensors").write_bytes(b"torn")
    child = Child("--name", names[0], "--node-data", tmp_path / "damaged")
    failed = child.wait_for("failed")
    assert "safetensors" in failed["reason"]
    assert not failed["is_final"]
    assert failed["suspect"] == ""
    assert child.end() != 0


def test_says_why_it_failed(place):
    child = Child("--name", "node_7", "--node-data", place[0] / "node_data")
    failed = child.wait_for("failed")
    assert "node_7" in failed["reason"]
    assert failed["is_final"]
    assert not failed["is_memory"]
    assert child.end() == 2


def test_measures_without_a_node():
    done = subprocess.run(
        [COMMAND, "provider", "--measure", "--threads", "1"], capture_output=True, text=True
    )
    measured = json.loads(done.stdout)
    assert measured["gflops"] > 0
    assert measured["threads"] == 1
