"""Clusters of one job that began at different times, or of which one is behind: no batch is lost
where one of them goes on from what another has kept."""

import signal

import pytest
from counted import BLOCKS, training, updates
from local_server import Batches, Pool, wait_until

ODD = list(Batches({}))[:9]  # the first of two clusters has one more after an odd number of epochs


def keep(pool: Pool, cluster: int, version: int) -> None:
    """The cluster is at rest: what it has becomes the restore point."""
    for stage in pool.job()["clusters"][cluster]["stages"]:
        pool.boxes[stage["name"]].popen.send_signal(signal.SIGUSR1)
    wait_until(lambda: is_restore_point(pool, cluster, version), f"version {version} is kept")


def is_restore_point(pool: Pool, cluster: int, version: int) -> bool:
    job = pool.job()
    number = job["clusters"][cluster]["id"]
    return f"Version {version} of cluster {number} is the restore point." in pool.notes()


def runs(pool: Pool, clusters: int) -> bool:
    found = pool.job()["clusters"]
    return len(found) == clusters and all(each["is_running"] for each in found)


def part(pool: Pool, name: str, how: str) -> None:
    """Its stage is given to another."""
    if how == "pauses":
        pool.ask("pause", name)
    else:
        pool.boxes[name].popen.send_signal(signal.SIGINT)
    wait_until(lambda: f"{name} has handed over" in pool.notes(), "a hand-over")


@pytest.mark.parametrize("how", ["leaves", "pauses"])
def test_who_parts_from_a_cluster_that_came_later_takes_no_batches_along(pool, how):
    pool.lend(1)

    def grow() -> None:
        pool.wait_for_free(pool.start())
        keep(pool, 0, 30)
        wait_until(lambda: runs(pool, 2), "a second cluster trains")

    def hand_over() -> None:
        pool.wait_for_free(pool.start())
        part(pool, pool.holder(0, 1), how)
        wait_until(lambda: runs(pool, 2), "both clusters train")

    at = {2: grow, 4: hand_over}
    fit = pool.fit(epochs=9, at_validation=at, clusters=0, providers=None, **training())
    run = fit.result()
    assert len(run.history["loss"]) == 90
    counts = updates(run.state_dict())
    # The second began where the first was, at 30 or a little later; both then learned from 60.
    assert min(counts) >= (30 + 30 + 60) / 2
    assert max(counts) <= 90


@pytest.mark.parametrize("how", ["leaves", "pauses"])
def test_who_parts_from_the_slower_of_two_clusters_takes_no_batches_along(pool, how):
    pool.lend(3)

    def hand_over() -> None:
        keep(pool, 0, 14)
        part(pool, pool.holder(0, 1), how)  # has learned from 13
        wait_until(lambda: runs(pool, 2), "both clusters train")

    run = fit_odd(pool, hand_over)
    counts = updates(run.state_dict())
    assert min(counts) >= (14 + 13 + 36) / 2
    assert max(counts) <= 63


def test_a_cluster_that_goes_on_from_anothers_restore_point_learns_what_it_has_left(pool):
    pool.lend(2)

    def lose_both() -> None:
        keep(pool, 0, 14)
        first, second = pool.holder(0, 0), pool.holder(0, 1)
        pool.boxes[first].send(signal.SIGKILL)
        wait_until(lambda: "is dissolved" in pool.notes(), "the first is dissolved")
        pool.wait_for_free(pool.start())
        pool.boxes[second].send(signal.SIGKILL)
        wait_until(lambda: "weights: checkpoint" in pool.notes(), "the second is restored")
        wait_until(lambda: runs(pool, 1), "it trains")

    run = fit_odd(pool, lose_both)
    # In place of its own 13 it has the 14 of the first.
    assert updates(run.state_dict()) == [14 + 36] * BLOCKS


def fit_odd(pool: Pool, act):
    """Two clusters that do not average before the end. `act` has the third validation."""
    run = pool.fit(
        epochs=7,
        at_validation={2: act},
        train_loader=ODD,
        clusters=2,
        providers=2,
        reduce_factor=1000,
        **training(),
    ).result()
    assert len(run.history["loss"]) == 63
    return run
