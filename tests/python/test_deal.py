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
