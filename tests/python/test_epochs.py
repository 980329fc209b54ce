"""The numbers of an epoch come from the losses that arrive."""

import pytest

from ravnest.epochs import Epochs
from ravnest.run import Run


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

    clock = Clock()
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    return clock


def deal(epochs, number, batches):
    epochs.begin()
    for _ in range(batches):
        epochs.add_batch(number, 8)
    epochs.close(number)


def test_epochs_that_are_dealt_out_ahead_end_with_their_losses(clock):
    run = Run()
    epochs = Epochs(run)
    deal(epochs, 0, 2)
    deal(epochs, 1, 2)
    assert run.history["seconds"] == []
    for number, now in ((0, 101.0), (1, 103.0), (0, 104.0), (1, 106.0)):  # of two clusters
        clock.now = now
        epochs.add_loss(number)
    assert run.history["seconds"] == [4.0, 2.0]
    assert run.history["samples_per_second"] == [4.0, 8.0]


def test_what_is_done_between_two_epochs_belongs_to_none(clock):
    run = Run()
    epochs = Epochs(run)
    for number in range(2):
        deal(epochs, number, 1)
        clock.now += 2.0
        epochs.add_loss(number)
        clock.now += 10.0  # a validation
    assert run.history["seconds"] == [2.0, 2.0]


def test_an_epoch_that_the_run_has_behind_it_took_no_time(clock):
    run = Run()
    epochs = Epochs(run)
    deal(epochs, 4, 0)
    assert run.history["seconds"] == run.history["samples_per_second"] == [0.0]


def test_an_epoch_without_the_last_of_its_losses_ends_when_none_comes_any_more(clock):
    run = Run()
    epochs = Epochs(run)
    deal(epochs, 0, 2)
    clock.now += 1.0
    epochs.add_loss(0)
    clock.now += 3.0
    epochs.settle()
    assert run.history["seconds"] == [4.0]
    assert run.history["samples_per_second"] == [4.0]
