"""A job on a server, as the process that feeds it sees it."""

import contextlib
import json
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from ravnest import _C
from ravnest.deal import Deal, Log, Room
from ravnest.display import Board
from ravnest.epochs import Epochs
from ravnest.program import Program
from ravnest.run import Run
from ravnest.utils import model_fusion

_LOOK = 1.0  # seconds between two looks at what the providers do
TICK = 200  # milliseconds in C++ before Python looks for Ctrl-C and shows how it goes
_SUBMIT = 30.0  # seconds for a server that is lost while it is asked to come back
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0  # seconds until it is asked again
_OVER = ("done", "failed", "cancelled")


class Place:
    """Where a job is trained: a server, and its providers."""

    identity = ""  # the file of it; empty: where this user's are
    is_local = False  # server and providers are this call's own
    keeps_learned = True  # batches, for a job that is set back to a restore point

    def __init__(
        self,
        server: str,
        token: str = "",
        number: int | None = None,
        on_number: Callable[[int], Any] | None = None,
    ):
        self.server = server
        self.token = token
        self.number = number  # of a job that is come back to
        if on_number is not None:
            self.on_number = on_number

    def on_number(self, number: int) -> None:
        """The job has it."""

    def deal_file(self, number: int) -> Path:
        """What was not dealt in turn, beside the identity that the job belongs to."""
        identity = Path(self.identity or _C.requester_file(self.server))
        return identity.with_name(f"{identity.stem}-job-{number}.deal")

    def greet(self, number: int, comes_back: bool) -> str:
        """What there is to say of a job that begins, or goes on."""
        return f"job {number} at {self.server}"

    def check(self, lost: str = "") -> None:
        """Throws where it cannot go on. The server has lost the provider of that name."""

    def leave(self, job: "Job") -> str:
        """What becomes of a job that is cut off by its user; in a sentence."""
        has_checkpoint = job.has_checkpoint()
        job.cancel()
        said = f"job {job.number} is cancelled"
        if has_checkpoint:
            fetch = f"ravnest fetch {job.number} --server {self.server}"
            said += f"; `{fetch}` brings its last checkpoint"
        return said

    @contextlib.contextmanager
    def results(self) -> Iterator[Path]:
        """A folder for what was trained."""
        with tempfile.TemporaryDirectory(prefix="ravnest-fit-") as folder:
            yield Path(folder)


class Losses:
    """Collects the losses of one cluster's passes into those of batches."""

    def __init__(self, run: Run, epochs: Epochs):
        self._run = run
        self._epochs = epochs
        self._batch = 0.0

    def add(self, epoch: int, part: int, parts: int, weight: float, loss: float) -> None:
        self._batch += loss * weight / parts
        if part + 1 == parts:
            self._run.history["loss"].append(self._batch)
            self._batch = 0.0
            self._epochs.add_loss(epoch)


class Job:
    """Its clusters come and go while it runs. Every wait throws where it cannot go on."""

    def __init__(
        self,
        place: Place,
        options: dict[str, Any],
        parts: int,
        run: Run,
        epochs: Epochs,
        board: Board,
    ):
        self._place = place
        self._options = options
        self._parts = parts
        self._board = board
        self._deal = Deal()
        self._log: Log | None = None
        self.number = place.number  # None: it is still to be submitted
        self._seen: dict[str, Any] = {"clusters": []}
        self._over = threading.Event()
        self._job = _C.RemoteJob(
            place.server,
            place.token,
            place.identity,
            place.is_local,
            place.keeps_learned,
            _collect_into(run, epochs),
        )

    def start(self, program: Program) -> bool:
        """Until it trains; or comes back to it. False where it is trained already."""
        comes_back = self.number is not None
        if comes_back:
            if json.loads(self._job.view(self.number))["phase"] == "done":
                return False
            self._job.attach(self.number)
        else:
            self.number = self._submit(program)
        self._place.on_number(self.number)
        if greeting := self._place.greet(self.number, comes_back):
            self._board.say(greeting)
        threading.Thread(target=self._look, daemon=True).start()
        self.wait(self._has_feeds)
        self._log = Log(self._place.deal_file(self.number))
        if comes_back:
            self._log.read()
            self._go_on()
        else:
            self._log.begin(self._job.feeds())
            self._deal = Deal(log=self._log)
        return True

    def _submit(self, program: Program) -> int:
        """By its key the server knows a job that it was asked for before it was lost."""
        key = uuid.uuid4().hex
        deadline = time.monotonic() + _SUBMIT
        pause = _FIRST_PAUSE
        with tempfile.TemporaryDirectory(prefix="ravnest-fit-") as folder:
            path = os.path.join(folder, "program.pt2")
            program.save(path)
            while True:
                try:
                    return self._job.submit(path, key=key, **self._options)
                except _C.Error:
                    if time.monotonic() > deadline:
                        raise
                self._over.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _has_feeds(self, timeout: int) -> bool:
        """Whether every cluster of the plan trains: those that begin together average together."""
        seen = self._job.wait_for_change(-1, 0)
        standing = self._job.standing()
        feeds = self._job.feeds()
        if standing and feeds and len(feeds) >= len(standing["clusters"]):
            return True
        self._board.tick(lambda: self._describe(standing), [], None)
        self._job.wait_for_change(seen, timeout)
        return False

    def _describe(self, standing: dict | None) -> str:
        if standing is None:
            return "asks the server"
        return f"job {self.number}: {standing['phase']}. {standing['reason']}"

    def _go_on(self) -> None:
        """Finds out what is behind the job, by what its roots say."""
        feeds = self._job.feeds()
        learned = {
            cluster: self.wait(lambda timeout, each=each: _some(each.wait_for_root(timeout)))[0]
            for cluster, each in feeds.items()
        }
        standing = self._job.standing()
        restored = standing["restored_cluster"]
        sure = {restored: standing["restored"]} if restored else dict.fromkeys(feeds, 0)
        batches = {cluster: passes // self._parts for cluster, passes in learned.items()}
        kept = {cluster: sure[cluster] // self._parts for cluster in feeds if cluster in sure}
        first = {cluster: passes // self._parts for cluster, passes in standing["clusters"].items()}
        self._deal = Deal(batches, kept, self._log, first)
        for cluster, requester in feeds.items():
            if self._deal.is_exact and cluster in kept:
                requester.start_at(kept[cluster] * self._parts)
            else:  # where it is set back, others have what it had learned
                requester.start_at(learned[cluster])
                requester.forget_learned()

    def take_turn(self) -> tuple[Any | None, bool]:
        """The requester for the next batch, None where nobody needs it; whether it is behind us."""
        while True:
            seen = self._job.wait_for_progress(-1, 0)
            feeds = self._job.feeds()
            turn = self._deal.take(feeds, self._rooms(feeds))
            if turn is not None:
                return (None if turn.cluster is None else feeds[turn.cluster]), turn.is_behind
            self._job.wait_for_progress(seen, TICK)
            self.check()

    def _rooms(self, feeds: dict[int, Any]) -> dict[int, Room]:
        if len(feeds) < 2:  # nobody else waits
            return {}
        return self.wait(
            lambda _: {
                cluster: Room(each.has_room(), each.under_way()) for cluster, each in feeds.items()
            }
        )

    def requesters(self) -> list:
        """Those of the clusters that there are."""
        return [requester for _, requester in sorted(self._job.feeds().items())]

    def lines(self) -> list[str]:
        """What each provider does."""
        return list(stage_lines(self._seen))

    def line(self) -> str:
        """What all of them do, in short; empty before they have told."""
        return short_line(self._seen)

    def finish(self) -> None:
        """All batches were dealt out."""
        self._job.end_training()
        self.wait(self._is_done)
        if self._log is not None:
            self._log.forget()

    def _is_done(self, timeout: int) -> bool:
        seen = self._job.wait_for_change(-1, 0)
        standing = self._job.standing()
        if standing and standing["phase"] == "done":
            return True
        self._job.wait_for_change(seen, timeout)
        return False

    def fetch(self) -> dict[str, torch.Tensor]:
        """The trained weights."""
        with self._place.results() as folder:
            cluster = self._job.fetch(self.number, os.fspath(folder))
            return model_fusion(cluster, folder, folder / "trained" / "trained_state_dict.pt")

    def wait(self, step: Callable[[int], Any]) -> Any:
        """Tries until it gives something; between two tries Ctrl-C comes through."""
        while True:
            try:
                result = step(TICK)
            except _C.Error as error:
                raise self._explain(error) from None
            if result:
                return result
            self.check()

    def wait_for_all(self, name: str) -> None:
        """Until a wait of this name has come to its end for every cluster that there is."""
        self.wait(lambda timeout: all(getattr(each, name)(timeout) for each in self.requesters()))

    def check(self) -> None:
        """Throws where it cannot go on."""
        self._place.check()
        standing = self._job.standing()
        if standing and standing["phase"] in ("failed", "cancelled"):
            raise RuntimeError(
                f"[fit] job {self.number} is {standing['phase']}: {standing['reason']}"
            )

    def _explain(self, error: Exception) -> Exception:
        """Where batches are not kept, what set the job back is the end of it."""
        if self._place.keeps_learned:
            return error
        notes = [note["text"] for note in json.loads(self._job.view(self.number))["notes"]]
        why = [text for text in notes if " failed at " in text or " is lost with " in text]
        if not why:
            return error
        self._place.check(lost=why[-1].partition(" is lost with ")[0])
        return RuntimeError(f"[fit] a provider failed: {why[-1]}")

    def is_over(self) -> bool:
        standing = self._job.standing()
        return standing is not None and standing["phase"] in _OVER

    def has_checkpoint(self) -> bool:
        standing = self._job.standing()
        return standing is not None and standing["restored_cluster"] != 0

    def wait_until_kept(self, seconds: float) -> None:
        """Until the restore point has all that was dealt out, or it takes too long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            seen = self._job.wait_for_change(-1, 0)
            if self._is_kept():
                return
            self._job.wait_for_change(seen, TICK)

    def _is_kept(self) -> bool:
        standing, feeds = self._job.standing(), self._job.feeds()
        if standing is None or not feeds:
            return True  # nothing was
        requester = feeds.get(standing["restored_cluster"])
        return requester is not None and standing["restored"] >= requester.submitted()

    def cancel(self) -> None:
        self._job.cancel(self.number)
        if self._log is not None:
            self._log.forget()

    def stop(self) -> None:
        """It was cut off by its user, who is told what becomes of it."""
        if self.number is None:
            return
        with contextlib.suppress(Exception):
            is_over = self.is_over()
            said = self._place.leave(self)
            if not is_over:
                self._board.say(said)

    def close(self) -> None:
        self._over.set()
        self._job.close()

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            with contextlib.suppress(Exception):
                self._seen = json.loads(self._job.view(self.number))


def _collect_into(run: Run, epochs: Epochs) -> Callable[..., None]:
    """What gets the losses. It does not know the job, which could else never be freed."""
    losses: dict[int, Losses] = {}

    def collect(
        cluster: int, epoch: int, part: int, parts: int, weight: float, loss: float
    ) -> None:
        losses.setdefault(cluster, Losses(run, epochs)).add(epoch, part, parts, weight, loss)

    return collect


def _some(value: Any) -> tuple | None:
    """What is true whenever there is something."""
    return None if value is None else (value,)


def stage_lines(job: dict[str, Any]) -> Iterator[str]:
    """Of a job as the server shows it: one for each stage."""
    for cluster in job["clusters"]:
        for stage in cluster["stages"]:
            report = stage["report"]
            said = stage["doing"]
            if report:
                said += (
                    f", batch {report['version']}, {report['samples_per_second']:.3g} samples/s, "
                    f"delay {report['delay']:.0f}, {report['memory_bytes'] / 1e6:.0f} MB"
                )
                if report["averaging"]:
                    said += f", {report['averaging']}"
            yield f"{stage['name']} ({stage['role']}): {said}"


def short_line(job: dict[str, Any]) -> str:
    """Of the same, one for all: samples of all clusters, the memory of all stages, the greatest
    delay, the first averaging that one has told of."""
    clusters = [[stage["report"] for stage in each["stages"]] for each in job["clusters"]]
    reports = [report for cluster in clusters for report in cluster if report]
    if not reports:
        return ""
    rate = sum(cluster[-1]["samples_per_second"] for cluster in clusters if cluster[-1])
    delay = max(report["delay"] for report in reports)
    memory = sum(report["memory_bytes"] for report in reports)
    averaging = next((report["averaging"] for report in reports if report["averaging"]), "")
    said = f"{rate:.3g} samples/s, delay {delay:.0f}, {memory / 1e6:.0f} MB"
    return f"{said}, {averaging}" if averaging else said
