"""Who gets which batch of a job."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_UNDER_WAY = 68  # batches of a cluster at most, by which clusters that began together may differ


@dataclass(frozen=True)
class Turn:
    cluster: int | None  # None: nobody needs the batch any more
    is_behind: bool = False  # the job has learned from it; it is kept where there is a cluster


class Deal:
    """Deals batches out in turn, and knows those that a job has behind it which is come back to.

    Where its clusters began together, each has learned from the first of those that were its own.
    Otherwise nobody knows whose they were: then they are the first of all, as many as were learned
    from before all of these clusters began, and by each of them since it did.
    """

    def __init__(
        self,
        learned: Mapping[int, int] | None = None,
        kept: Mapping[int, int] | None = None,
        first: Mapping[int, int] | None = None,
    ):
        """Batches by cluster: learned from, from which one on they have to be kept, and with which
        one the cluster began."""
        learned = dict(learned or {})
        counts = learned.values()
        began = [(first or {}).get(cluster, 0) for cluster in learned]
        began_together = (
            not any(began) and max(counts, default=0) - min(counts, default=0) <= _UNDER_WAY
        )
        self.is_exact = len(learned) < 2 or began_together
        self._skipped = 0 if self.is_exact else sum(counts) - sum(began) + min(began)
        self._learned = learned if self.is_exact else {}
        self._kept = {**self._learned, **(kept or {})} if self.is_exact else {}
        self._dealt = dict.fromkeys(self._learned, 0)

    def take(self, clusters: Iterable[int]) -> Turn:
        """The cluster with the fewest; a new one begins with as many as the others."""
        if self._skipped:
            self._skipped -= 1
            return Turn(None, is_behind=True)
        clusters = list(clusters)
        fewest = min((self._dealt[each] for each in clusters if each in self._dealt), default=0)
        self._dealt = {each: self._dealt.get(each, fewest) for each in clusters}
        cluster = min(self._dealt, key=self._dealt.__getitem__)
        number = self._dealt[cluster]
        self._dealt[cluster] += 1
        if number < self._kept.get(cluster, 0):
            return Turn(None, is_behind=True)
        return Turn(cluster, is_behind=number < self._learned.get(cluster, 0))
