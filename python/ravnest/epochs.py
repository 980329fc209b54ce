"""When the epochs of a run end, by the losses that arrive."""

import threading
import time
from collections import deque
from dataclasses import dataclass

from ravnest.run import Run


@dataclass
class _Epoch:
    number: int
    started: float
    heard: float  # when its last loss arrived
    samples: int = 0
    awaited: int = 0  # losses of batches that were dealt out
    is_dealt: bool = False  # all of it


class Epochs:
    """Writes into a run's history how fast its epochs were: from the first batch, or the end of the
    epoch before, to the last loss. Batches are dealt out by one thread, often epochs ahead; losses
    arrive on the transport's."""

    def __init__(self, run: Run):
        self._run = run
        self._lock = threading.Lock()  # guards what follows
        self._open: deque[_Epoch] = deque()
        self._begun = 0.0  # when the epoch that is dealt out was begun
        self._ended = 0.0  # when the last one ended

    def begin(self) -> None:
        """The next epoch is dealt out from now on."""
        self._begun = time.monotonic()

    def add_batch(self, number: int, samples: int) -> None:
        """Is about to be dealt out."""
        with self._lock:
            epoch = self._open_one(number)
            epoch.samples += samples
            epoch.awaited += 1

    def add_loss(self, number: int) -> None:
        """Of a batch."""
        with self._lock:
            for epoch in self._open:
                if epoch.number == number:
                    epoch.heard = time.monotonic()
                    epoch.awaited -= 1
            self._end()

    def close(self, number: int) -> None:
        """All of it was dealt out."""
        with self._lock:
            self._open_one(number).is_dealt = True
            self._end()

    def settle(self) -> None:
        """Every loss that comes is there; what is missing was lost with who told it."""
        with self._lock:
            for epoch in self._open:
                if epoch.awaited > 0:
                    epoch.awaited, epoch.heard = 0, time.monotonic()
            self._end()

    def _open_one(self, number: int) -> _Epoch:
        if not self._open or self._open[-1].number != number:
            self._open.append(_Epoch(number, self._begun, self._begun))
        return self._open[-1]

    def _end(self) -> None:
        while self._open and self._open[0].is_dealt and self._open[0].awaited <= 0:
            epoch = self._open.popleft()
            seconds = max(0.0, epoch.heard - max(epoch.started, self._ended))
            self._ended = max(epoch.heard, self._ended)
            self._run.history["seconds"].append(seconds)
            self._run.history["samples_per_second"].append(epoch.samples / max(seconds, 1e-9))
