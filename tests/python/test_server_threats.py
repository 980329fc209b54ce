"""What somebody who means no good does to a server: real processes on this machine."""

import base64
import contextlib
import json
import pickle
import resource
import socket
import uuid
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from local_server import check_trained, make_model, make_tensors, wait_until

import ravnest
from ravnest import _C


def save_program(path: Path) -> Path:
    inputs, target = make_tensors()
    loss = torch.nn.functional.cross_entropy
    ravnest.capture(make_model(), (inputs[:4],), loss=loss, target=target[:4]).save(path)
    return path


def write_with_operator(path: Path, target: str) -> None:
    """A Program of ours whose first operator is another."""
    good = save_program(path.with_suffix(".good"))
    with zipfile.ZipFile(good) as before, zipfile.ZipFile(path, "w") as after:
        for entry in before.infolist():
            content = before.read(entry)
            if entry.filename.endswith("models/model.json"):
                model = json.loads(content)
                model["graph_module"]["graph"]["nodes"][0]["target"] = target
                content = json.dumps(model).encode()
            after.writestr(zipfile.ZipInfo(entry.filename), content)


def write_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(print))


def write_pt(path: Path) -> None:
    with path.open("wb") as file:
        torch.save(make_model().state_dict(), file)


def write_npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, a=np.zeros(3))


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda path: write_with_operator(path, "torch.ops.aten.from_file.default"), "from_file"),
        (lambda path: write_with_operator(path, "torch.ops.aten.save.default"), "save"),
        (lambda path: write_with_operator(path, "os.system"), "os.system"),
        (write_pickle, "the job's Program"),
        (write_pt, "the job's Program"),
        (write_npz, "the job's Program"),
    ],
    ids=["from_file", "save", "os.system", "pkl", "pt", "npz"],
)
def test_what_is_no_program_of_ours_is_refused_by_name(pool, tmp_path, write, sentence):
    names = pool.lend(1)
    path = tmp_path / "model.pt2"
    write(path)
    job = _C.RemoteJob(pool.address, pool.requester_token, "", False, False, lambda *_: None)
    number = job.submit(
        str(path),
        name="hostile",
        key=uuid.uuid4().hex,
        seed=1,
        clusters=1,
        least=1,
        most=1,
        batch=4,
        optimizer="adam",
        training="{}",
        one_result=True,
    )
    wait_until(lambda: pool.job(number)["phase"] == "failed", "it is refused")
    assert sentence in pool.job(number)["reason"]
    job.close()
    pool.wait_for_free(*names)


def secrets_of(token: str) -> list[bytes]:
    """As it is typed, and the 32 bytes after the role, as they are and in digits."""
    raw = base64.urlsafe_b64decode(token.removeprefix("ravnest1"))[1:33]
    return [token.encode(), raw, raw.hex().encode(), base64.b64encode(raw)[:-1]]


def test_a_token_is_written_down_nowhere(pool):
    pool.lend(2)
    check_trained(pool.fit(epochs=2, providers=2))
    searched = 0
    for path in pool.folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            searched += 1
            for token in (pool.token, pool.requester_token):
                for secret in secrets_of(token):
                    assert secret not in content, path
    assert searched > 10
    for name in ("ca.key", "owner.secret"):
        path = pool.data / name
        assert not path.exists() or path.stat().st_mode & 0o077 == 0


@contextlib.contextmanager
def descriptors(pool, count):
    """So many, for the server; afterwards as before."""
    pid = pool.server.popen.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_training_outlives_a_flood_of_connections(pool):
    pool.lend(3)
    flood = []

    def connect() -> None:
        host, port = pool.address.split(":")
        for _ in range(300):
            with contextlib.suppress(OSError):  # refused: as it should
                flood.append(socket.create_connection((host, int(port)), timeout=1.0))

    def hang_up() -> None:
        while flood:
            flood.pop().close()

    with descriptors(pool, 96):
        fit = pool.fit(epochs=12, at={3: connect, 9: hang_up})
        check_trained(fit)
        assert "is lost" not in pool.notes()
        pool.lend(4)  # somebody new is served, too
