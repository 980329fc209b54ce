"""What is shown of a provider and of a run. What a provider says, and when, is in
tests/provider/display_test.cpp."""

import io
import threading
import time

import pytest

from ravnest import _C
from ravnest.display import Board, Display


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return Clock(monkeypatch)


def notice(kind, text, channel="forward"):
    return _C.Notice(getattr(_C.NoticeKind, kind), "node_1", channel, text)


def say_everything(display):
    display.notice(notice("OPEN", "open"))
    display.notice(notice("LOST", "lost"))
    display.notice(notice("FAILED", "nothing saved", channel=""))
    display.averaged(3, 0.007, 5200, ["node_0", "node_4"])
    display.kept("checkpoint", 100)
    display.saved("weights", 120)
    display.say("said")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"level": "debug"}, ["open", "lost", "nothing saved", "node_0: averaging 3 with node_4 "]),
        ({"level": "info"}, ["lost", "nothing saved", "said"]),
        ({"level": "warning"}, ["lost", "nothing saved"]),
        ({"level": "error"}, ["nothing saved"]),
        ({"quiet": True}, []),
    ],
    ids=["debug", "info", "warning", "error", "quiet"],
)
def test_each_level_says_what_it_is_for(options, wanted):
    out = io.StringIO()
    say_everything(Display("node_0", "root", out=out, **options))
    lines = out.getvalue().splitlines()
    if options.get("level") == "debug":
        assert len(lines) == 7
        lines = [line[: len(start)] for line, start in zip(lines, wanted, strict=False)]
    assert lines == wanted


def test_a_terminal_that_can_do_nothing_gets_plain_lines(monkeypatch):
    for kind, wanted in (("dumb", "lost\n"), ("xterm", "lost\n\r\033[K\033[?7llost\033[?7h")):
        monkeypatch.setenv("TERM", kind)
        out = Terminal()
        display = Display("node_0", "root", out=out)
        display.notice(notice("LOST", "lost"))
        display.notice(notice("LOST", "lost"))
        assert out.getvalue() == wanted


def test_a_level_that_is_none():
    with pytest.raises(ValueError, match="log_level to be debug, info, warning or error"):
        Display("node_0", "root", level="loud")


class Slow(io.StringIO):
    """Counts who writes at once."""

    def __init__(self):
        super().__init__()
        self.writers = 0
        self.most = 0

    def write(self, text):
        self.writers += 1
        self.most = max(self.most, self.writers)
        time.sleep(0.001)
        self.writers -= 1
        return super().write(text)


def test_threads_write_one_after_the_other():
    out = Slow()
    display = Display("node_0", "root", out=out)
    threads = [
        threading.Thread(target=lambda i=i: [display.say(f"line of {i}") for _ in range(20)])
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert out.most == 1
    assert len(out.getvalue().splitlines()) == 80


def test_a_board_shows_all_providers_in_place(clock):
    out = Terminal()
    board = Board(quiet=False, out=out)
    board.tick(lambda: "epoch 1/2, batch 1/10", ["node_0 a", "node_1 b"], 0.05)
    clock.now += 1.0
    board.tick(lambda: "epoch 1/2, batch 2/10", ["node_0 c" * 100, "node_1 d"], 0.10)
    first, second = out.getvalue().split("\r\033[2A\033[J")
    assert first == "epoch 1/2, batch 1/10\nnode_0 a\nnode_1 b"
    head, long, last = second.split("\n")
    assert head == "epoch 1/2, batch 2/10, 18 s left"
    assert len(long) == 199, "a line that wrapped could not be taken away"
    assert last == "node_1 d"
    board.clear()
    assert out.getvalue().endswith("node_1 d\r\033[2A\033[J")


def test_a_board_says_seldom_how_it_goes_where_there_is_no_terminal(clock):
    out = io.StringIO()
    board = Board(quiet=False, out=out)
    for second in range(25):
        board.tick(lambda at=second: f"batch {at}", ["node_0"], second / 100)
        clock.now += 1.0
    board.clear()
    assert out.getvalue().splitlines() == ["batch 10, 1 min 30 s left", "batch 20, 1 min 20 s left"]


def test_the_time_before_it_begins_says_nothing_of_the_time_left(clock):
    out = Terminal()
    board = Board(quiet=False, out=out)
    board.tick(lambda: "job 1: queued", [], None)
    clock.now += 3600.0
    board.tick(lambda: "batch 0", [], 0.0)
    clock.now += 10.0
    board.tick(lambda: "batch 1", [], 0.5)
    assert out.getvalue().endswith("batch 1, 10 s left")
    assert out.getvalue().count("left") == 1


def test_a_quiet_board_says_nothing(clock):
    out = Terminal()
    Board(quiet=True, out=out).tick(lambda: "x", [], 0.5)
    assert out.getvalue() == ""
