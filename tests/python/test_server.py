"""serve, join, fit and the commands around them: real processes on this machine."""

import contextlib
import itertools
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest
import torch
from local_cluster import Cluster, free_ports
from local_server import (
    BATCHES,
    PATIENCE,
    RAVNEST,
    Pool,
    Process,
    check_trained,
    make_model,
    make_tensors,
    wait_until,
)
from test_node import Task

import ravnest


def test_fit_trains_on_those_who_joined_and_they_stay_for_the_next(pool):
    names = pool.lend(3)
    pids = {name: box.popen.pid for name, box in pool.boxes.items()}
    for number in (1, 2):
        check_trained(pool.fit(epochs=6))
        job = pool.job()
        assert (job["id"], job["phase"]) == (number, "done")
        pool.wait_for_free(*names)
    assert {name: box.popen.pid for name, box in pool.boxes.items()} == pids


def test_the_commands_of_an_owner_and_of_a_requester(pool, tmp_path):
    names = pool.lend(3)
    check_trained(pool.fit(epochs=4, name="walk"))
    number = str(pool.job()["id"])
    table = pool.ask("status")
    assert names[0] in table and "walk" in table and "done" in table
    assert "It is done: every stage of cluster 1 gave its weights." in pool.ask("logs", number)
    assert f"{names[1]} joined." in pool.ask("logs")
    nodes = json.loads(pool.ask("pool"))
    assert sorted(node["name"] for node in nodes.values()) == sorted(names)
    file = tmp_path / "node_data" / "node_configs.json"  # a project's first file
    pool.ask("pool", "--write", str(file))
    assert json.loads(file.read_text()).keys() == nodes.keys()
    for who in (["--data", str(pool.data)], ["--server", pool.address]):
        out = tmp_path / who[0]
        answer = pool.run("fetch", number, "--out", str(out), *who)
        assert answer.returncode == 0, answer.stderr
        state = torch.load(out / "trained_state_dict.pt", weights_only=True)
        make_model().load_state_dict(state, strict=True)


def test_machines_meet_over_ipv6_without_the_relay(tmp_path):
    pool = Pool(tmp_path, listen="[::1]:0")
    try:
        names = pool.lend(3)
        assert not any(pool.providers()[name]["is_relayed"] for name in names)
        wait_until(lambda: len(pool.links()) > 0, "they measure their link")
        check_trained(pool.fit(epochs=4))
        assert "relay" not in pool.notes()
    finally:
        pool.end()


def test_scripts_train_on_the_machines_that_are_lent(pool, tmp_path):
    """While they are: the ports of the agents are not those of the scripts."""
    pool.lend(2)
    data = tmp_path / "node_data"
    data.mkdir()
    nodes = data / "node_configs.json"
    wait_until(lambda: len(pool.links()) > 0, "they listen, to be measured")
    pool.ask("pool", "--write", str(nodes), "--port", str(free_pair()))
    task = Task("mlp")
    example = (task.data.tensors[0][: task.batch],)
    made = ravnest.clusterize(task.model, example, nodes=nodes, out=data, verbose=False)
    names = [f"node_{stage['node']}" for each in made.clusters for stage in each["stages"]]
    params = {"optimizer": torch.optim.Adam, "criterion": task.loss, "labels": task.loader}
    cluster = Cluster(tmp_path, names, **params)
    cluster.train(task.loader)
    assert not cluster.errors
    assert len(cluster.losses()) == len(task.loader())


def free_pair() -> int:
    """The first of two ports that follow each other."""
    while True:
        with socket.socket() as one, socket.socket() as other, contextlib.suppress(OSError):
            (port,) = free_ports(1)
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port


def test_providers_measure_the_links_between_them(pool):
    names = pool.lend(3)
    pairs = {frozenset(pair) for pair in itertools.combinations(names, 2)}
    wait_until(lambda: pairs <= pool.links().keys(), "every pair is measured")
    for pair in pairs:
        assert pool.links()[pair]["mbps"] > 0
        assert pool.links()[pair]["latency_ms"] >= 0
    assert "2 from" in pool.ask("status")
    nodes = json.loads(pool.ask("pool"))
    links = [(key, to) for key in nodes for to in nodes[key]["benchmarks"].get("links", {})]
    assert {frozenset((nodes[a]["name"], nodes[b]["name"])) for a, b in links} == pairs
    check_trained(pool.fit(epochs=2))  # the ports are the stages' now
    assert pairs <= pool.links().keys()


def test_jobs_side_by_side_and_one_that_queues(pool):
    names = pool.lend(4)
    gate = threading.Event()
    fits = []

    def begin(name: str) -> dict:
        fits.append(pool.fit(epochs=4, at={2: lambda: gate.wait(PATIENCE)}, providers=2, name=name))
        return pool.job()

    def held(number: int) -> set[str]:
        clusters = pool.job(number)["clusters"]
        return {stage["name"] for cluster in clusters for stage in cluster["stages"]}

    try:
        numbers = [begin(name)["id"] for name in ("one", "two")]
        for number in numbers:
            wait_until(lambda: pool.job(number)["phase"] == "running", "two jobs run")  # noqa: B023
        assert held(numbers[0]) | held(numbers[1]) == set(names)
        third = begin("three")
        assert third["phase"] == "queued"
        assert third["reason"] == "It waits for providers: 2 wanted, 0 free."
    finally:
        gate.set()
    for fit in fits:
        check_trained(fit)


def test_as_many_clusters_as_there_are_machines_for(pool):
    pool.lend(2)
    before = []

    def join() -> None:
        before.append(len(pool.job()["clusters"]))
        pool.wait_for_free(pool.start(), pool.start())

    def look() -> None:
        wait_until(lambda: "spare providers" in pool.notes(), "they form a cluster")
        assert len(pool.job()["clusters"]) > before[0]

    # Clusters grow at restore points: batches are dealt out in between.
    check_trained(pool.fit(epochs=30, at={2: join, 24: look}, providers=None))


def test_cancelling_frees_the_providers(pool):
    boxes = pool.lend(3)
    fit = pool.fit(epochs=4, at={2: lambda: pool.ask("cancel", str(pool.job()["id"]))})
    with pytest.raises(RuntimeError, match="is cancelled: It was cancelled by the server's owner"):
        fit.result()
    pool.wait_for_free(*boxes)


def test_a_cancelled_job_gives_its_last_checkpoint(pool, tmp_path):
    pool.lend(3)

    def cancel() -> None:
        for box in pool.boxes.values():
            box.popen.send_signal(signal.SIGUSR1)  # keeps a checkpoint
        wait_until(lambda: pool.job()["restore_point"], "a restore point")
        pool.ask("cancel", str(pool.job()["id"]))

    with pytest.raises(RuntimeError, match="is cancelled"):
        pool.fit(epochs=4, at={2: cancel}).result()
    out = tmp_path / "out"
    number = str(pool.job()["id"])
    answer = pool.run("fetch", number, "--out", str(out), "--data", str(pool.data))
    assert answer.returncode == 0, answer.stderr
    state = torch.load(out / "trained_state_dict.pt", weights_only=True)
    make_model().load_state_dict(state, strict=True)


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        (None, "expected --token, since"),
        ("rav-nonsense", "token"),
        ("requester", "expected a token for a provider, got one for a requester"),
    ],
)
def test_join_refuses_tokens_that_are_not_good(pool, tmp_path, token, sentence):
    words = [] if token is None else ["--token", token]
    if token == "requester":
        words = ["--token", pool.requester_token]
    answer = pool.run("join", pool.address, "--data", str(tmp_path / "box"), *words)
    assert answer.returncode == 2
    assert answer.stderr.startswith("ravnest: ") and answer.stderr.count("\n") == 1
    assert sentence in answer.stderr
    assert "nonsense" not in answer.stderr and pool.requester_token not in answer.stderr
    assert not (tmp_path / "box").exists()


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("", "expected a token for 127.0.0.1"),
        ("rav-nonsense", "token"),
        ("provider", "expected a token for a requester .* got one for a provider"),
    ],
)
def test_fit_refuses_tokens_that_are_not_good(pool, tmp_path, monkeypatch, token, sentence):
    monkeypatch.setenv("RAVNEST_HOME", str(tmp_path))
    monkeypatch.delenv("RAVNEST_TOKEN", raising=False)
    with pytest.raises(ValueError, match=sentence):
        pool.fit(token=pool.token if token == "provider" else token).result()


def test_a_used_up_token_and_a_requesters_limits(pool, tmp_path):
    once = pool.ask("token", "--role", "requester").strip()
    homes = [os.environ | {"RAVNEST_HOME": str(tmp_path / name)} for name in ("first", "second")]
    words = ["status", "--server", pool.address, "--token", once]
    answers = [pool.run(*words, env=home) for home in homes]
    assert [answer.returncode for answer in answers] == [0, 2]
    assert "used up" in answers[1].stderr
    answer = pool.run("cancel", "1", "--server", pool.address, env=homes[0])
    assert answer.returncode == 2
    assert "Expected a job of yours" in answer.stderr


@pytest.mark.parametrize("as_owner", [True, False], ids=["owner", "itself"])
def test_pause_hands_the_stage_over_and_resume_lends_again(pool, as_owner):
    pool.lend(4)
    names = []

    def whom(command: str) -> None:
        who = [names[0], "--data", str(pool.data)]
        if not as_owner:
            who = ["--data", str(pool.folder / names[0])]
        answer = pool.run(command, *who)
        assert answer.returncode == 0, answer.stderr

    def pause() -> None:
        names.append(pool.holder(1))
        whom("pause")

    def resume() -> None:
        wait_until(lambda: f"{names[0]} has handed over" in pool.notes(), "a hand-over")
        assert pool.holder(1) != names[0]
        whom("resume")
        pool.wait_for_free(names[0])

    def pause_the_other() -> None:
        names.insert(0, pool.holder(1))
        pool.ask("pause", names[0])

    def look() -> None:
        wait_until(lambda: f"{names[0]} has handed over" in pool.notes(), "another hand-over")
        assert pool.holder(1) == names[1], "who was resumed holds it again"
        pool.ask("resume", names[0])

    at = {2: pause, 5: resume, 7: pause_the_other, 10: look}
    check_trained(pool.fit(epochs=12, at=at))


@pytest.mark.parametrize("how", ["SIGINT", "SIGHUP"])  # Ctrl-C; a terminal that is closed
def test_ctrl_c_of_a_provider_hands_over(pool, how):
    pool.lend(4)
    names = []

    def interrupt() -> None:
        names.append(pool.holder(0))
        box = pool.boxes[names[0]]
        box.popen.send_signal(signal.Signals[how])
        if how == "SIGHUP":  # once by the shell, once by the system
            wait_until(lambda: "hands its stage over" in box.said(), "it hands over")
            box.popen.send_signal(signal.SIGHUP)

    def look() -> None:
        box = pool.boxes[names[0]]
        wait_until(lambda: not box.is_running(), "it leaves")
        assert box.popen.returncode == 0
        assert "left" in box.said().splitlines()
        assert f"{names[0]} has handed over" in pool.notes()
        assert pool.holder(0) != names[0]

    check_trained(pool.fit(epochs=8, at={2: interrupt, 5: look}))


SCRIPT = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import ravnest
from local_server import *
def stand_still():
    print("here", flush=True)
    threading.Event().wait()
ravnest.fit(make_model(), Batches({2: stand_still}), epochs=40,
            val_loader=Batches({}),  # an epoch ends when all of it was learned from
            criterion=nn.functional.cross_entropy, server=sys.argv[2], **eval(sys.argv[3]))
"""


@contextlib.contextmanager
def requester_process(pool, **options):
    """Who feeds a job, and stands still in the middle of the third epoch."""
    words = [sys.executable, "-c", textwrap.dedent(SCRIPT), os.path.dirname(__file__), pool.address]
    words.append(repr({"providers": 3, "optimizer_params": {"lr": 0.01}} | options))
    env = os.environ | {"RAVNEST_TOKEN": pool.requester_token}
    pipe = subprocess.PIPE
    script = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=env)
    try:
        assert script.stdout is not None and script.stdout.readline().strip() == "here"
        yield script
    finally:
        script.kill()
        script.communicate()


@pytest.mark.parametrize(
    ("providers", "clusters", "schedule"), [(3, 1, "sync"), (3, 1, "async"), (4, 2, "async")]
)
def test_a_requester_that_was_killed_comes_back(pool, providers, clusters, schedule):
    boxes = pool.lend(providers)
    options = {"providers": providers, "clusters": clusters, "schedule": schedule}
    # Clusters of which one hardly gets on would end far apart if they averaged but once an epoch.
    options |= {"checkpoint_every": 16, "reduce_factor": 4}
    with requester_process(pool, **options) as script:
        script.kill()
    wait_until(lambda: not pool.job()["is_fed"], "the server sees that nobody feeds it")
    assert pool.job()["phase"] == "running"
    number = pool.job()["id"]
    epochs = 40
    run = pool.begin(epochs=epochs, job=number, **options).result()
    assert pool.job()["id"] == number and pool.job()["phase"] == "done"
    assert len(run.history["loss"]) <= (epochs - 2) * BATCHES, "two epochs were behind the job"
    inputs, target = make_tensors()
    model = make_model()
    model.load_state_dict(run.state_dict(), strict=True)
    assert torch.nn.functional.cross_entropy(model(inputs), target).item() < 0.5
    pool.wait_for_free(*boxes)
    again = pool.begin(epochs=epochs, job=number, **options).result()  # it is trained: at once
    for name, value in run.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


def test_who_comes_back_learns_what_is_left(pool):
    """As if nobody had been away: with one order of batches, one process ends with the same."""
    pool.lend(3)
    options = {"schedule": "sync", "seed": 1}
    with requester_process(pool, **options) as script:
        script.kill()
    wait_until(lambda: not pool.job()["is_fed"], "the server sees that nobody feeds it")
    run = pool.begin(epochs=40, job=pool.job()["id"], **options).result()
    model = make_model()
    losses = losses_here(model, 40)[-len(run.history["loss"]) :]
    # As far as rounding has not grown yet.
    assert run.history["loss"][:100] == pytest.approx(losses[:100], abs=1e-4)
    assert run.history["loss"] == pytest.approx(losses, rel=0.1)


def losses_here(model, epochs: int) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    inputs, target = make_tensors()
    losses = []
    for _ in range(epochs):
        for x, y in zip(inputs.split(32), target.split(32), strict=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def test_who_comes_back_outlives_a_server_that_is_killed(pool):
    pool.lend(3)
    with requester_process(pool) as script:
        script.kill()
    wait_until(lambda: not pool.job()["is_fed"], "the server sees that nobody feeds it")
    number = pool.job()["id"]
    pool.server.end()
    pool.serve()
    wait_until(lambda: pool.job()["phase"] == "running", "the job goes on")
    at = {30: lambda: pool.server.end(), 33: pool.serve}
    run = pool.begin(epochs=40, job=number, at=at, val_loader=None).result()
    assert 0 < len(run.history["loss"]) <= 38 * BATCHES


def test_only_its_requester_comes_back_to_a_job(pool):
    with pytest.raises(ValueError, match="a job"):
        pool.begin(job=999).result()


def test_ctrl_c_of_the_requester_cancels_its_job(pool):
    boxes = pool.lend(3)
    with requester_process(pool) as script:
        script.send_signal(signal.SIGINT)
        _, said = script.communicate(timeout=30)
    assert script.returncode != 0
    assert f"job {pool.job()['id']} is cancelled" in said.splitlines()
    assert pool.job()["phase"] == "cancelled"
    pool.wait_for_free(*boxes)


def test_ctrl_c_says_how_to_get_what_was_learned(pool):
    pool.lend(3)
    with requester_process(pool, checkpoint_every=4) as script:
        wait_until(lambda: pool.job()["restore_point"], "a restore point")
        script.send_signal(signal.SIGINT)
        _, said = script.communicate(timeout=30)
    fetch = f"ravnest fetch {pool.job()['id']} --server {pool.address}"
    assert f"`{fetch}` brings its last checkpoint" in said


def test_on_a_terminal_the_command_to_paste_is_whole(tmp_path):
    ours, theirs = pty.openpty()
    words = ["serve", "--listen", "127.0.0.1:0", "--http", "", "--data", str(tmp_path / "server")]
    server = subprocess.Popen([RAVNEST, *words], stdout=theirs, stderr=theirs)
    os.close(theirs)
    joined = None
    try:
        said = ""
        while "Ctrl-C ends the server" not in said:
            said += os.read(ours, 4096).decode()
        command = re.search(r"ravnest (join 127\.0\.0\.1:\d+ --token \S+)", said)
        assert command and "ravnest.fit(model, loader, server=" in said, said
        more = ["--name", "box", "--data", str(tmp_path / "box"), "--threads", "1"]
        joined = Process([*command[1].split(), *more], tmp_path / "box.log")
        wait_until(lambda: "this machine lends" in joined.said(), "it is lent")
    finally:
        server.send_signal(signal.SIGINT)
        if joined is not None:
            joined.end()
        assert server.wait(30) == 0
        os.close(ours)


def test_a_server_that_cannot_start_leaves_nothing_behind(pool, tmp_path):
    data = tmp_path / "new" / "server"
    words = ("serve", "--http", "", "--data")
    answer = pool.run(*words, str(data), "--listen", pool.address)
    assert answer.returncode == 1
    assert pool.address.rpartition(":")[2] in answer.stderr
    assert not list(tmp_path.iterdir())
    answer = pool.run(*words, "/proc/nope", "--listen", "127.0.0.1:0")
    assert answer.returncode == 1
    assert answer.stderr.startswith("ravnest: cannot make the folder '/proc/nope': ")
    assert answer.stderr.count("\n") == 1


def findings(answer: subprocess.CompletedProcess) -> dict[str, str]:
    """What the doctor said of what: ok, poor, - or wrong."""
    return {line.split()[1]: line.split()[0] for line in answer.stdout.splitlines()}


def test_the_doctor_finds_nothing_wrong_with_a_provider(pool):
    (name, *_) = pool.lend(1)
    answer = pool.run("doctor", pool.address, "--data", str(pool.folder / name))
    assert answer.returncode == 0, answer.stdout
    assert set(findings(answer).values()) <= {"ok", "poor"}
    assert len(findings(answer)) == 9


def test_the_doctor_looks_at_the_server_before_joining(pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAVNEST_HOME", str(tmp_path))
    answer = pool.run("doctor", pool.address, "--token", pool.token)
    assert answer.returncode == 0, answer.stdout
    said = findings(answer)
    assert (said["clock"], said["version"], said["link"]) == ("ok", "ok", "ok")
    assert set(said.values()) <= {"ok", "poor"}


def test_the_doctor_says_what_is_wrong(pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAVNEST_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"

        def answer_in_plain_text() -> None:
            for _ in range(2):  # one looks whether anybody is there
                connection, _ = other.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer_in_plain_text)
        thread.start()
        answer = pool.run("doctor", address, "--token", pool.token)
        thread.join()
    assert answer.returncode == 1
    assert answer.stderr == "ravnest: 1 thing is wrong.\n"
    said = findings(answer)
    assert (said["port"], said["identity"], said["server"]) == ("ok", "ok", "wrong")
    answer = pool.run("doctor", address)
    assert answer.returncode == 1
    said = findings(answer)
    assert (said["port"], said["identity"], said["clock"]) == ("wrong", "wrong", "-")
