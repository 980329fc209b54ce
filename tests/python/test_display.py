"""The line that a provider shows of itself."""

import io

import pytest

from ravnest.display import Board, Display, Silence

STATUS = {
    "epoch": 1,
    "passes": 15,
    "resumed": 0,
    "samples": 960,
    "loss": 0.25,
    "samples_per_second": 320.0,
    "delay": 2,
    "max_delay": 4,
    "averagings": 0,
    "averaged_bytes": 0,
}


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


def make(out, **options):
    display = Display("node_0", "root", out=out, **options)
    display.epochs, display.batches = 3, 10
    return display


def test_it_says_seldom_how_it_goes(clock):
    out = io.StringIO()
    display = make(out)
    display.tick(lambda: {**STATUS, "passes": 5})
    for _ in range(30):
        clock.now += 1.0
        display.tick(lambda: STATUS)
    lines = out.getvalue().splitlines()
    assert len(lines) == 3, "every ten seconds"
    assert lines[0].startswith(
        "node_0 (root), epoch 2/3, batch 5/10, loss 0.25, 320 samples/s, delay 2, "
    )
    assert lines[0].endswith("15 s left"), "10 batches took 10 s, and 15 are left"


def test_on_a_terminal_it_stays_in_its_line(clock):
    out = Terminal()
    display = make(out)
    display.tick(lambda: {**STATUS, "passes": 5})
    for _ in range(10):
        clock.now += 1.0
        display.tick(lambda: STATUS)
    assert out.getvalue().count("\r") == 10 and "\n" not in out.getvalue()
    display.summary(STATUS)
    last = out.getvalue().split("\r")[-1]
    assert last.startswith("node_0 (root): trained on 15 batches in 3.0 s, 320 samples/s")
    assert last.endswith("\n")


def test_waits_are_worth_a_line_when_they_are_long(clock):
    out = io.StringIO()
    display = make(out)
    for second in range(25):
        clock.now += 1.0
        display.notice("waiting", "node_1", f"node_0 waits for node_1 ({second} s)")
    display.notice("open", "node_1", "node_0 is connected to node_1")
    assert out.getvalue().splitlines() == [
        "node_0 waits for node_1 (2 s)",
        "node_0 waits for node_1 (12 s)",
        "node_0 waits for node_1 (22 s)",
        "node_0 is connected to node_1",
    ]


def test_a_lost_neighbour_is_named_at_once(clock):
    out = io.StringIO()
    make(out, level="warning").notice("lost", "node_1", "node_0 lost node_1")
    assert out.getvalue() == "node_0 lost node_1\n"


def test_quiet(clock, capsys):
    silent = Silence("node_0", "root")
    silent.notice("lost", "node_1", "lost")
    silent.tick(lambda: STATUS)
    silent.say("done")
    silent.summary(STATUS)
    assert capsys.readouterr() == ("", "")


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


def test_a_quiet_board_says_nothing(clock):
    out = Terminal()
    Board(quiet=True, out=out).tick(lambda: "x", [], 0.5)
    assert out.getvalue() == ""
