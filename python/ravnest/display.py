"""What a provider says while it works: one line, in place on a terminal, seldom otherwise."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

_IN_PLACE_SECONDS = 0.25
_PLAIN_SECONDS = 10.0
_PATIENCE_SECONDS = 2.0  # before a wait is worth a line
_LEVELS = ("debug", "info", "warning", "error")


class Display:
    """The line of one provider. Called from the waits of its thread, and from the transport's."""

    def __init__(self, name: str, role: str, *, level: str = "info", out: TextIO | None = None):
        if level not in _LEVELS:
            raise ValueError(
                f"[display] expected log_level to be one of {', '.join(_LEVELS)}, got {level!r}."
            )
        self.name = name
        self.role = role
        self.epochs: int | None = None  # in all, where known
        self.batches: int | None = None  # in an epoch, where known
        self._level = _LEVELS.index(level)
        self._out = sys.stdout if out is None else out
        self._is_terminal = self._out.isatty()
        self._shown_at = 0.0
        self._width = 0
        self._first: tuple[float, int] | None = None  # when, and with how many passes
        self._averaging = ""
        self._waits: dict[str, tuple[float, float]] = {}  # by peer: since when, said when

    def tick(self, status: Any) -> None:
        """Shows how it goes, when it is time; `status()` is asked for only then."""
        now = time.monotonic()
        pause = _IN_PLACE_SECONDS if self._is_terminal else _PLAIN_SECONDS
        if self._level > 1 or now - self._shown_at < pause:
            return
        values = status()
        if values["passes"] == values["resumed"]:
            return
        if self._first is None:
            self._first = (now, values["passes"])
            self._shown_at = now if not self._is_terminal else 0.0
            return
        self._shown_at = now
        self._show(self._progress(values, now))

    def notice(self, kind: str, peer: str, text: str) -> None:
        """Something happened between this provider and another."""
        now = time.monotonic()
        if kind in ("waiting", "lost"):
            self._say_waiting(kind, peer, text, now)
            return
        if kind == "open" and self._waits.pop(peer, (now, 0.0))[1] > 0.0 or kind == "refused":
            self._say(text)

    def _say_waiting(self, kind: str, peer: str, text: str, now: float) -> None:
        since, said = self._waits.setdefault(peer, (now, 0.0))
        patience = 0.0 if kind == "lost" else _PATIENCE_SECONDS
        if self._is_terminal and self._level <= 1:
            if now - since >= patience:
                self._waits[peer] = (since, now)
                self._show(text)
        elif now - since >= patience and now - said >= _PLAIN_SECONDS:
            self._waits[peer] = (since, now)
            self._say(text)

    def averaged(self, number: int, seconds: float, nbytes: int, members: list[str]) -> None:
        """The clusters have averaged this provider's stage, or a part of it."""
        others = ", ".join(name for name in members if name != self.name) or "nobody else"
        self._averaging = (
            f"averaging {number} with {others} ({1e3 * seconds:.0f} ms, {_bytes(nbytes)})"
        )

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._level <= 1:
            self._say(text)

    def summary(self, values: dict[str, Any]) -> None:
        """How a training came out."""
        passes = values["passes"] - values["resumed"]
        speed = values["samples_per_second"]
        took = f" in {values['samples'] / speed:.1f} s, {speed:.0f} samples/s" if speed else ""
        resumed = f" (and {values['resumed']} before)" if values["resumed"] else ""
        self.say(
            f"{self.name} ({self.role}): trained on {passes} batches{resumed}{took}, "
            f"last loss {values['loss']:.4g}, greatest delay {values['max_delay']}, "
            f"memory {_memory()}{_averagings(values)}"
        )

    def _progress(self, values: dict[str, Any], now: float) -> str:
        passes = values["passes"]
        parts = [f"{self.name} ({self.role})"]
        epoch = values["epoch"] + 1
        parts.append(f"epoch {epoch}/{self.epochs}" if self.epochs else f"epoch {epoch}")
        if self.batches:
            parts.append(f"batch {(passes - 1) % self.batches + 1}/{self.batches}")
        else:
            parts.append(f"batch {passes}")
        parts.append(f"loss {values['loss']:.4g}")
        parts.append(f"{values['samples_per_second']:.0f} samples/s")
        parts.append(f"delay {values['delay']}")
        if self._averaging:
            parts.append(self._averaging)
        parts.append(_memory())
        left = self._time_left(passes, now)
        if left is not None:
            parts.append(f"{_duration(left)} left")
        return ", ".join(parts)

    def _time_left(self, passes: int, now: float) -> float | None:
        if not self.epochs or not self.batches or self._first is None:
            return None
        start, before = self._first
        if passes <= before:
            return None
        remaining = max(0, self.epochs * self.batches - passes)
        return remaining * (now - start) / (passes - before)

    def _show(self, line: str) -> None:
        """In place where that can be."""
        if not self._is_terminal:
            self._say(line)
            return
        line = line[: shutil.get_terminal_size().columns - 1]
        self._out.write("\r" + line.ljust(self._width))
        self._out.flush()
        self._width = len(line)

    def clear(self) -> None:
        """Takes the line in place away."""
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()
            self._width = 0

    def _say(self, line: str) -> None:
        self.clear()
        self._out.write(line + "\n")
        self._out.flush()


class Board:
    """The line of a run and, on a terminal, those of its providers below, in place."""

    def __init__(self, *, quiet: bool, out: TextIO | None = None):
        self._out = sys.stderr if out is None else out
        self._is_terminal = self._out.isatty()
        self._is_quiet = quiet
        self._shown_at = time.monotonic() if not self._is_terminal else 0.0
        self._height = 0
        self._first: tuple[float, float] | None = None  # when, and with which share done

    def tick(self, head: Callable[[], str], lines: Sequence[str], share: float) -> None:
        """`head()` is asked for when it is time; `share` of the run is done."""
        now = time.monotonic()
        self._first = self._first or (now, share)
        pause = _IN_PLACE_SECONDS if self._is_terminal else _PLAIN_SECONDS
        if self._is_quiet or now - self._shown_at < pause:
            return
        self._shown_at = now
        text = head()
        started, before = self._first
        if share > before:
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

    def clear(self) -> None:
        """Takes the lines away."""
        if self._height:
            up = f"\033[{self._height - 1}A" if self._height > 1 else ""
            self._out.write(f"\r{up}\033[J")
            self._out.flush()
            self._height = 0


class Silence(Display):
    """quiet=True."""

    def __init__(self, name: str, role: str):
        super().__init__(name, role, level="error")

    def notice(self, kind: str, peer: str, text: str) -> None:
        pass


def _averagings(values: dict[str, Any]) -> str:
    count = values["averagings"]
    return f", averaged {count} times ({_bytes(values['averaged_bytes'])} sent)" if count else ""


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def _memory() -> str:
    """What this process holds."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return "?"
    return f"{pages * os.sysconf('SC_PAGE_SIZE') / 2**20:.0f} MB"


def _duration(seconds: float) -> str:
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole // 60 % 60:02d} min"
