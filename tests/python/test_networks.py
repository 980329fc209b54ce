"""Trainings over networks that are slow, far, lossy or closed: namespaces of our own, as root."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from local_server import BATCHES, PATIENCE, Pool, wait_until
from network import HUB, Network, inside

EPOCHS = 8  # late gradients learn slowly
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import ravnest
from local_server import *
run = ravnest.fit(make_model(), Batches({}), val_loader=Batches({}), epochs=int(sys.argv[4]),
                  criterion=nn.functional.cross_entropy, optimizer_params={"lr": 0.01}, quiet=True,
                  server=sys.argv[2], token=sys.argv[3], providers=int(sys.argv[5]), seed=1)
model = make_model()
model.load_state_dict(run.state_dict(), strict=True)
inputs, target = make_tensors()
print(json.dumps([run.history["loss"], nn.functional.cross_entropy(model(inputs), target).item()]))
"""


@pytest.fixture
def network():
    made = Network()
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def hub_pool(network, tmp_path, monkeypatch):
    """A server at the hub, where the test is, too."""
    monkeypatch.setenv("RAVNEST_HOME", str(tmp_path / "home"))
    with inside(network.hub):
        pool = Pool(tmp_path, listen=f"{HUB}:0")
        try:
            yield pool
        finally:
            pool.settle()
            pool.end()


def lend(pool: Pool, boxes: list[str]) -> list[str]:
    names = []
    for box in boxes:
        with inside(box):
            names.append(pool.start())
    pool.wait_for_free(*names)
    return names


def measured_links(pool: Pool, names: list[str]) -> list[dict]:
    """Between all of them, once they are known."""
    pairs = [frozenset(pair) for pair in itertools.combinations(names, 2)]
    wait_until(lambda: pool.links().keys() >= set(pairs), "every pair is measured")
    found = pool.links()
    return [found[pair] for pair in pairs]


def train(pool: Pool, providers: int) -> None:
    """In a process of its own, since gRPC has threads elsewhere; nothing may be lost on the way."""
    words = [str(Path(__file__).parent), pool.address, pool.requester_token, EPOCHS, providers]
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert answer.returncode == 0, answer.stderr
    losses, after = json.loads(answer.stdout.splitlines()[-1])
    assert len(losses) == EPOCHS * BATCHES
    assert after < 0.9 * losses[0]
    job = pool.job()
    assert job["phase"] == "done"
    assert "is lost" not in pool.notes()


def test_a_machine_that_accepts_no_connection_trains_through_the_relay(hub_pool, network):
    boxes = [network.add_far_box("--closed"), network.add_far_box(), network.add_far_box()]
    closed, *open_ = lend(hub_pool, boxes)
    found = hub_pool.providers()
    assert found[closed]["is_relayed"]
    assert not any(found[name]["is_relayed"] for name in open_)
    train(hub_pool, 3)
    assert network.end_links()["refused"] > 0


def test_a_slow_link(hub_pool, network):
    names = lend(hub_pool, [network.add_box(megabits=20) for _ in range(3)])
    found = hub_pool.providers()
    assert all(2.0 < found[name]["mbps"] < 30.0 for name in names)
    assert all(1.0 < link["mbps"] < 60.0 for link in measured_links(hub_pool, names))
    train(hub_pool, 3)


def test_a_far_link_that_loses_packets(hub_pool, network):
    far = ["--delay", 25, "--loss", 0.01]
    names = lend(hub_pool, [network.add_far_box(*far) for _ in range(3)])
    found = hub_pool.providers()
    assert all(found[name]["latency_ms"] > 20.0 for name in names)
    assert all(link["latency_ms"] > 40.0 for link in measured_links(hub_pool, names))
    train(hub_pool, 3)
    assert network.end_links()["lost"] > 0
