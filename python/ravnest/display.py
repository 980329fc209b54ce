"""What is said while a training goes on: the line of a provider, and the board of a run."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from ravnest import _C

_IN_PLACE_SECONDS = 0.25
_PLAIN_SECONDS = 10.0


class Display:
    """The line of one provider: in place on a terminal, seldom otherwise. What is said, and when,
    is for the core to say, as in `ravnest provider`; here it is written. Called from the waits of
    the script's thread, and from those of the core."""

    def __init__(
        self,
        name: str,
        role: str,
        *,
        level: str = "info",
        quiet: bool = False,
        out: TextIO | None = None,
    ):
        self._out = sys.stdout if out is None else out
        self._core = _C.Display(name, role, level, quiet, _is_terminal(self._out))
        self._lock = threading.Lock()

    def expect(self, epochs: int | None, batches: int | None) -> None:
        """Of the training to come, and of an epoch, where they are known."""
        self._core.expect(epochs or 0, batches or 0)

    def tick(self, status: Callable[[], _C.Status]) -> None:
        """Shows how it goes, when it is time; `status()` is asked for only then."""
        if self._core.is_due():
            self._write(self._core.tick, status())

    def notice(self, notice: _C.Notice) -> None:
        """Something happened between this provider and another."""
        self._write(self._core.notice, notice)

    def averaged(self, number: int, seconds: float, nbytes: int, members: list[str]) -> None:
        """The clusters have averaged this provider's stage, or a part of it."""
        self._write(self._core.averaged, number, seconds, nbytes, members)

    def kept(self, file: str, passes: int) -> None:
        """There is a checkpoint."""
        self._write(self._core.kept, file, passes)

    def saved(self, file: str, passes: int) -> None:
        """There are trained weights."""
        self._write(self._core.saved, file, passes)

    def summary(self, status: _C.Status) -> None:
        """How a training came out."""
        self._write(self._core.summary, status)

    def say(self, text: str) -> None:
        """A line that stays."""
        self._write(self._core.say, text)

    def clear(self) -> None:
        """Takes the line in place away."""
        self._write(self._core.clear)

    def _write(self, make: Callable[..., str], *args: Any) -> None:
        with self._lock:
            text = make(*args)
            if text:
                self._out.write(text)
                self._out.flush()


def _is_terminal(out: TextIO) -> bool:
    return out.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Board:
    """The line of a run and, on a terminal, those of its providers below, in place."""

    def __init__(self, *, quiet: bool, out: TextIO | None = None):
        self._out = sys.stderr if out is None else out
        self._is_terminal = self._out.isatty()
        self._is_quiet = quiet
        self._shown_at = time.monotonic() if not self._is_terminal else 0.0
        self._height = 0
        self._first: tuple[float, float] | None = None  # when, and with which share done

    def tick(self, head: Callable[[], str], lines: Sequence[str], share: float | None) -> None:
        """`head()` is asked for when it is time; `share` of the run is done, None before it has
        begun."""
        now = time.monotonic()
        if share is not None:
            self._first = self._first or (now, share)
        pause = _IN_PLACE_SECONDS if self._is_terminal else _PLAIN_SECONDS
        if self._is_quiet or now - self._shown_at < pause:
            return
        self._shown_at = now
        text = head()
        started, before = self._first or (now, 1.0)
        if share is not None and share > before:
            left = (now - started) * (1.0 - share) / (share - before)
            text += f", {_duration(left)} left"
        if not self._is_terminal:
            self._out.write(text + "\n")
            self._out.flush()
            return
        width = shutil.get_terminal_size().columns - 1
        block = [line[:width] for line in (text, *lines)]
        self.clear()
        self._out.write("\n".join(block))
        self._out.flush()
        self._height = len(block)

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self._is_quiet:
            self.clear()
            self._out.write(text + "\n")
            self._out.flush()

    def clear(self) -> None:
        """Takes the lines away."""
        if self._height:
            up = f"\033[{self._height - 1}A" if self._height > 1 else ""
            self._out.write(f"\r{up}\033[J")
            self._out.flush()
            self._height = 0


def _duration(seconds: float) -> str:
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole // 60 % 60:02d} min"
