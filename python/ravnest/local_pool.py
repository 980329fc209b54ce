"""A server in this process with providers of this machine, for one call of fit."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ravnest import _C
from ravnest.job import Job, Place

_GOODBYE = 2.0  # seconds for a provider to end
_KEEP = 2.0  # seconds for what was learned to be kept


@contextlib.contextmanager
def local_pool(
    folder: str | os.PathLike | None, shape: dict[str, int], threads: int | None
) -> Iterator["LocalPool"]:
    """Without a folder, nothing is left of it."""
    with contextlib.ExitStack() as stack:
        if folder is None:
            where = stack.enter_context(tempfile.TemporaryDirectory(prefix="ravnest-fit-"))
        path = Path(where if folder is None else folder)
        stack.enter_context(_alone_in(path))
        pool = LocalPool(path, shape, folder is not None)
        stack.callback(pool.end)
        pool.start(threads)
        yield pool


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"[fit] expected a folder of its own, got {os.fspath(folder)!r}, where another "
                "fit is running."
            ) from None
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # also where a loader's process has it open


class LocalPool(Place):
    """Its folder gets what was trained; until then, and after a run that was cut off, `unfinished`
    has what server and providers keep."""

    is_local = True

    def __init__(self, folder: Path, shape: dict[str, int], keeps: bool):
        """A run that was cut off is gone on with where it is of the same shape."""
        self._folder = folder
        self._data = folder / "unfinished"
        self._shape = shape
        self._processes: dict[str, subprocess.Popen] = {}
        self._is_over = False
        number = self._find_job()
        self._server = _C.LocalServer(os.fspath(self._data / "server"))
        super().__init__(
            self._server.address, self._server.make_token("requester", 1), number=number
        )
        self.identity = os.fspath(self._data / "requester.pem")
        self.keeps_learned = keeps

    def _find_job(self) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            kept = json.loads((self._data / "job.json").read_text())
            if kept.items() >= self._shape.items():
                return kept["job"]
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(parents=True)
        return None

    def start(self, threads: int | None) -> None:
        """Lends this machine, as often as there are providers."""
        command = find_command()
        count = self._shape["providers"]
        token = self._server.make_token("provider", count)
        for name in (f"node_{i}" for i in range(count)):
            words = [command, "join", self.server, "--local", "--name", name]
            words += ["--data", os.fspath(self._data / name)]
            words += [] if threads is None else ["--threads", str(threads)]
            with self._log(name).open("wb") as log:
                self._processes[name] = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=os.environ | {"RAVNEST_TOKEN": token},
                    start_new_session=True,  # Ctrl-C is ours to pass on
                )

    def _log(self, name: str) -> Path:
        return self._data / f"{name}.log"

    def on_number(self, number: int) -> None:
        self.number = number
        new = self._data / "job.new"
        new.write_text(json.dumps(self._shape | {"job": number}))
        new.replace(self._data / "job.json")

    def greet(self, number: int, comes_back: bool) -> str:
        if not comes_back:
            return ""
        return (
            f"goes on with the run that was cut off in '{self._folder}', with the options of then; "
            "in another folder it begins anew"
        )

    def check(self, lost: str = "") -> None:
        if lost in self._processes:  # its connections close a little before it has ended
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._processes[lost].wait(_GOODBYE)
        if (reason := self._server.broken()) is not None:
            raise RuntimeError(f"[fit] the server of this process cannot go on: {reason}")
        for name, process in self._processes.items():
            if process.poll() is not None:
                said = self._log(name).read_text(errors="replace").strip().rpartition("\n")[2]
                raise RuntimeError(
                    f"[fit] {name} ended with exit code {process.returncode}: {said}"
                )

    def leave(self, job: Job) -> str:
        self._is_over = job.is_over()
        if not self.keeps_learned:
            return "what was learned is gone; fit with a folder keeps it"
        if not self._is_over:
            for process in self._processes.values():
                process.send_signal(signal.SIGUSR1)  # keep a checkpoint
            job.wait_until_kept(_KEEP)
        return f"fit with folder='{self._folder}' goes on from what was learned"

    @contextlib.contextmanager
    def results(self) -> Iterator[Path]:
        for former in (self._folder / "nodes", *self._folder.glob("cluster_*")):
            shutil.rmtree(former, ignore_errors=True)
        yield self._folder
        self._is_over = True

    def end(self) -> None:
        """Nothing of it runs any more."""
        self._server.close()  # who has lost it leaves at once
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + _GOODBYE
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._is_over or self.number is None:
            shutil.rmtree(self._data, ignore_errors=True)


def find_command() -> str:
    beside = Path(sys.executable).with_name("ravnest")
    found = os.fspath(beside) if beside.exists() else shutil.which("ravnest")
    if found is None:
        raise FileNotFoundError("[fit] expected the command `ravnest` beside Python, got none.")
    return found
