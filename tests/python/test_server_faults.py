"""A training on a server while machines are killed and stopped in the middle of it."""

import os
import signal

import pytest
from local_server import check_trained, wait_until


@pytest.mark.parametrize("stage", [0, 1, -1], ids=["root", "stem", "leaf"])
def test_a_spare_takes_the_place_of_a_provider_that_was_killed(pool, stage):
    pool.lend(4)
    names = []

    def kill() -> None:
        names.append(pool.holder(stage))
        pool.boxes[names[0]].send(signal.SIGKILL)

    check_trained(pool.fit(at={3: kill}))
    assert f"{names[0]} is lost with" in pool.notes()
    assert "takes stage" in pool.notes()


def test_without_a_spare_the_job_is_planned_anew(pool):
    pool.lend(3)
    check_trained(pool.fit(at={3: lambda: pool.boxes[pool.holder(1)].send(signal.SIGKILL)}))
    assert "It is planned on 2 providers" in pool.notes()


def test_without_anybody_the_job_pauses_until_somebody_joins(pool):
    (first,) = pool.lend(1)
    later = []

    def kill() -> None:
        pool.boxes[first].send(signal.SIGKILL)
        wait_until(lambda: pool.job()["phase"] == "paused", "the job is paused")
        later.append(pool.start())

    check_trained(pool.fit(at={3: kill}, providers=1))
    assert f"{later[0]} takes stage 0" in pool.notes()


def test_a_provider_that_was_stopped_is_replaced_and_comes_back(pool):
    pool.lend(4)
    names = []

    def stop() -> None:
        names.append(pool.holder(-1))
        pool.boxes[names[0]].send(signal.SIGSTOP)

    fit = pool.fit(at={3: stop})
    check_trained(fit)
    box = pool.boxes[names[0]]
    assert f"{names[0]} is lost with" in pool.notes()
    box.send(signal.SIGCONT)
    pool.wait_for_free(names[0])
    wait_until(lambda: not box.children(), "it ends the stage that it had")


def test_the_process_of_a_stage_that_was_killed_is_replaced(pool):
    pool.lend(4)

    def kill() -> None:
        (child,) = pool.boxes[pool.holder(1)].children()
        os.kill(child, signal.SIGKILL)

    check_trained(pool.fit(at={3: kill}))
    assert "its process was ended by signal 9 (Killed)." in pool.notes()


def test_training_outlives_a_server_that_was_killed(pool):
    pool.lend(3)

    def kill() -> None:
        pool.server.end()

    check_trained(pool.fit(at={3: kill, 6: pool.serve}))
    assert "The server was started again" in pool.notes()
    assert "is lost" not in pool.notes()


def test_a_requester_that_is_back_before_the_root_waits_for_it(pool):
    pool.lend(3)

    def restart() -> None:
        for box in pool.boxes.values():
            box.popen.send_signal(signal.SIGSTOP)  # not its stage, which goes on
        pool.server.end()
        pool.serve()
        wait_until(lambda: pool.job()["is_fed"], "the requester is back")
        for box in pool.boxes.values():
            box.popen.send_signal(signal.SIGCONT)

    check_trained(pool.fit(at={3: restart}))
    assert "is lost" not in pool.notes()


def test_training_outlives_a_server_that_was_stopped(pool):
    pool.lend(3)

    def go_on() -> None:
        for name, box in pool.boxes.items():
            wait_until(lambda box=box: "It is tried again." in box.said(), f"{name} misses it")
        pool.server.popen.send_signal(signal.SIGCONT)

    check_trained(pool.fit(at={3: lambda: pool.server.popen.send_signal(signal.SIGSTOP), 6: go_on}))
    assert "is lost" not in pool.notes()


@pytest.mark.parametrize("when", ["at", "at_validation"])
@pytest.mark.parametrize("cluster", [0, 1])
def test_what_a_cluster_has_left_to_do_another_does(pool, cluster, when):
    pool.lend(4)

    def kill() -> None:
        stages = pool.job()["clusters"][cluster]["stages"]
        pool.boxes[stages[cluster]["name"]].send(signal.SIGKILL)
        wait_until(lambda: "is dissolved" in pool.notes(), "the cluster is dissolved")

    run = check_trained(pool.fit(providers=4, clusters=2, **{when: {3: kill}}))
    assert len(run.history["val_loss"]) == 12
    assert max(run.history["val_accuracy"]) <= 100.0
