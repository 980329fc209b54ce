"""Who gets which batch, and which ones a job that is come back to has behind it."""

import pytest

from ravnest.deal import Deal, Log, Room
from ravnest.job import Job

FULL = Room(is_free=False, under_way=68)
IDLE = Room(under_way=1)
BUSY = Room(under_way=40)


def dealt(deal: Deal, clusters, count: int, rooms=None) -> list:
    turns = [deal.take(clusters, rooms) for _ in range(count)]
    return [(turn.cluster, turn.is_behind) for turn in turns]


def test_batches_are_dealt_out_in_turn():
    assert dealt(Deal(), [1, 2], 4) == [(1, False), (2, False), (1, False), (2, False)]
    rooms = {1: BUSY, 2: IDLE}  # one is faster than the other, and both have room
    assert dealt(Deal(), [1, 2], 4, rooms) == [(1, False), (2, False), (1, False), (2, False)]


def test_a_fast_cluster_does_not_wait_for_one_that_has_no_room():
    deal = Deal()
    assert dealt(deal, [1, 2, 3], 3, {1: FULL, 2: IDLE, 3: IDLE}) == [
        (2, False),
        (3, False),
        (2, False),
    ]
    assert dealt(deal, [1, 2, 3], 2, {1: IDLE, 2: IDLE, 3: IDLE}) == [(1, False), (1, False)]


def test_while_all_have_much_to_do_the_turn_is_waited_for():
    deal = Deal()
    assert deal.take([1, 2], {1: FULL, 2: BUSY}) is None
    assert deal.take([1, 2], {1: FULL, 2: FULL}) is None
    assert dealt(deal, [1, 2], 2, {1: BUSY, 2: BUSY}) == [(1, False), (2, False)]


# It used to be passed over: with few batches it never came to the first averaging.
def test_a_cluster_that_is_about_to_begin_is_waited_for():
    assert Deal().take([1, 2], {1: Room(is_free=False, under_way=4), 2: IDLE}) is None


def test_a_new_cluster_begins_with_as_many_as_the_others():
    deal = Deal()
    dealt(deal, [1], 3)
    assert [cluster for cluster, _ in dealt(deal, [1, 4], 4)] == [1, 4, 1, 4]


def test_each_cluster_goes_on_with_its_own():
    deal = Deal({1: 2, 2: 1})
    assert deal.is_exact
    behind = (None, True)
    assert dealt(deal, [1, 2], 5) == [behind, behind, behind, (2, False), (1, False)]


def test_what_is_behind_is_kept_from_the_restore_point_on():
    deal = Deal({1: 3}, {1: 1})
    assert dealt(deal, [1], 4) == [(None, True), (1, True), (1, True), (1, False)]


def check_behind(deal: Deal, clusters, count: int):
    """The first of all, and none more."""
    assert not deal.is_exact
    turns = dealt(deal, clusters, count + 2)
    assert turns[:count] == [(None, True)] * count
    assert turns[count:] == [(cluster, False) for cluster in clusters]


def test_where_one_cluster_was_far_behind_the_first_are_behind():
    check_behind(Deal({1: 200, 2: 100}), [1, 2], 300)


def test_a_cluster_that_came_later_has_learned_from_what_it_was_given_since():
    check_behind(Deal({1: 650, 2: 640}, first={1: 0, 2: 600}), [1, 2], 650 + 40)


def test_what_was_learned_before_all_of_the_clusters_began_is_behind_once():
    check_behind(Deal({7: 650, 8: 640}, first={7: 600, 8: 600}), [7, 8], 600 + 50 + 40)


def test_a_cluster_that_is_alone_goes_on_where_it_is():
    deal = Deal({7: 3}, {7: 2}, first={7: 1})
    assert deal.is_exact
    assert dealt(deal, [7], 4) == [(None, True), (None, True), (7, True), (7, False)]


class Run:
    """A job of clusters of several speeds, and whoever comes back to it."""

    def __init__(self, path, speeds):
        self.path = path
        self.speeds = speeds
        self.learned = {cluster: [] for cluster in speeds}  # batches, in order

    def go_on(self, until: int) -> None:
        """Deals that many batches out, of a loader that is begun anew, and is then cut off."""
        log = Log(self.path)
        if self.path.exists():
            log.read()
            deal = Deal({each: len(all_of) for each, all_of in self.learned.items()}, log=log)
        else:
            log.begin(self.speeds)
            deal = Deal(log=log)
        assert deal.is_exact
        waiting = {cluster: [] for cluster in self.speeds}
        for number in range(until):
            while (turn := deal.take(self.speeds, self._rooms(waiting))) is None:
                self._learn(waiting)
            if turn.cluster is not None:
                assert not turn.is_behind
                waiting[turn.cluster].append(number)

    @staticmethod
    def _rooms(waiting) -> dict:
        return {
            each: Room(is_free=len(batches) < 68, under_way=len(batches))
            for each, batches in waiting.items()
        }

    def _learn(self, waiting) -> None:
        for cluster, speed in self.speeds.items():
            self.learned[cluster] += waiting[cluster][:speed]
            del waiting[cluster][:speed]


@pytest.mark.parametrize("speeds", [{1: 1, 2: 9}, {1: 7, 2: 1, 3: 2}, {1: 3, 2: 3}])
def test_every_batch_is_learned_from_once_however_often_it_is_come_back(tmp_path, speeds):
    run = Run(tmp_path / "job.deal", speeds)
    for until in (700, 1500, 1600, 4000):
        run.go_on(until)
    learned = [number for batches in run.learned.values() for number in batches]
    assert len(learned) == len(set(learned))
    # The rest was under way when the last of them was cut off.
    assert len(learned) >= 4000 - 68 * len(speeds)
    if max(speeds.values()) > min(speeds.values()):
        fast, slow = (len(run.learned[pick(speeds, key=speeds.get)]) for pick in (max, min))
        assert fast > 2 * slow


def test_the_log_is_of_no_use_once_clusters_change(tmp_path):
    log = Log(tmp_path / "job.deal")
    log.begin([1, 2])
    deal = Deal(log=log)
    dealt(deal, [1, 2], 3, {1: FULL, 2: IDLE})
    dealt(deal, [1, 2, 3], 1)
    again = Log(tmp_path / "job.deal")
    again.read()
    assert again.clusters is None
    assert not Deal({1: 1, 2: 2, 3: 1}, log=again).is_exact


def test_a_line_of_the_log_that_was_not_finished_is_left_out(tmp_path):
    path = tmp_path / "job.deal"
    path.write_text("1 2\n5 2\n17")
    log = Log(path)
    log.read()
    assert (log.clusters, log.turns) == (frozenset({1, 2}), {5: 2})


def test_a_file_that_is_no_log_is_as_none(tmp_path):
    path = tmp_path / "job.deal"
    for text in ("", "one two\n", "1 2\n5\n", "1 2\n5 x\n"):
        path.write_text(text)
        log = Log(path)
        log.read()
        assert log.clusters is None, text


class Feed:
    """A cluster whose passes are done when the test says so."""

    def __init__(self, under_way: int):
        self.passes = under_way

    def has_room(self) -> bool:
        return self.passes < 68

    def under_way(self) -> int:
        return self.passes


class Feeds:
    """In place of the job: at every wait the fast cluster gets on, and the slow one does not."""

    def __init__(self):
        self.slow, self.fast = Feed(68), Feed(40)

    def feeds(self) -> dict:
        return {1: self.slow, 2: self.fast}

    def wait_for_progress(self, seen: int, timeout: int) -> int:
        self.fast.passes -= seen >= 0
        return 0


def test_a_cluster_that_holds_its_passes_stops_no_other(monkeypatch):
    monkeypatch.setattr(Job, "check", lambda self: None)
    job = object.__new__(Job)
    job._job, job._deal = Feeds(), Deal()
    for _ in range(100):
        requester, _ = job.take_turn()
        assert requester is job._job.fast
        requester.passes += 1
    assert job._job.fast.passes > 0
