"""Who gets which batch, and which ones a job that is come back to has behind it."""

from ravnest.deal import Deal


def dealt(deal: Deal, clusters, count: int) -> list:
    turns = [deal.take(clusters) for _ in range(count)]
    return [(turn.cluster, turn.is_behind) for turn in turns]


def test_batches_are_dealt_out_in_turn():
    assert dealt(Deal(), [1, 2], 4) == [(1, False), (2, False), (1, False), (2, False)]


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


def test_where_a_cluster_came_later_the_first_are_behind():
    deal = Deal({1: 200, 2: 100})
    assert not deal.is_exact
    turns = dealt(deal, [1, 2], 302)
    assert turns[:300] == [(None, True)] * 300
    assert turns[300:] == [(1, False), (2, False)]
