"""Who gets which batch of a job."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_UNDER_WAY = 68  # batches of a cluster at most, by which clusters that began together may differ
_FEW = 32  # passes under way: with no more, a cluster is served though it is not its turn
_BEGUN = 16  # with fewer, one that has no room has yet to begin, and is waited for


@dataclass(frozen=True)
class Turn:
    cluster: int | None  # None: nobody needs the batch any more
    is_behind: bool = False  # the job has learned from it; it is kept where there is a cluster


@dataclass(frozen=True)
class Room:
    """How much a cluster has to do."""

    is_free: bool = True  # the next batch would be taken at once
    under_way: int = 0  # passes

    @property
    def is_full(self) -> bool:
        """It has begun, and has enough to do, or has lost its root."""
        return not self.is_free and self.under_way >= _BEGUN

    @property
    def is_nearly_idle(self) -> bool:
        return self.is_free and self.under_way <= _FEW


class Log:
    """What was not dealt in turn, in a file: whoever comes back to the job has it from there.

    Its lines are the clusters that it began with, then batches with whoever got them, each written
    before the batch is sent, and where it is of no use any more, the word for that.
    """

    _CHANGED = "other clusters"

    def __init__(self, path: Path):
        self._path = path
        self.clusters: frozenset[int] | None = None  # None: it is not known who got what
        self.turns: dict[int, int] = {}  # clusters by the number of their batch

    def read(self) -> None:
        """As an earlier process has left it."""
        lines: list[str] = []
        with contextlib.suppress(OSError, ValueError):
            lines = self._path.read_text().splitlines(keepends=True)
        with contextlib.suppress(ValueError):  # a last line that was not finished was not followed
            whole = [line.strip() for line in lines if line.endswith("\n")]
            turns = [line for line in whole[1:] if line != self._CHANGED]
            self.turns = dict(tuple(map(int, line.split())) for line in turns)
            if whole and len(turns) + 1 == len(whole):
                self.clusters = frozenset(map(int, whole[0].split()))

    def begin(self, clusters: Iterable[int]) -> None:
        self.clusters = frozenset(clusters)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(" ".join(map(str, sorted(self.clusters))) + "\n")

    def add(self, number: int, cluster: int) -> None:
        """The batch goes to this cluster."""
        if self.clusters is not None:
            self._write(f"{number} {cluster}")

    def check(self, clusters: Iterable[int]) -> None:
        """Where they are others than at the beginning, nobody can tell who got what."""
        if self.clusters is not None and self.clusters != frozenset(clusters):
            self.clusters = None
            self._write(self._CHANGED)

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    def _write(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(line + "\n")


class Deal:
    """Deals batches out in turn, and knows those that a job has behind it which is come back to.

    A cluster that has no room is passed over where another has little left to do. Such turns are in
    the log: by it, or where clusters began together and have learned from about as many in turn,
    each goes on with its own. Otherwise nobody knows whose they were: then they are the first of
    all, as many as were learned from before all of these clusters began, and by each of them since
    it did.
    """

    def __init__(
        self,
        learned: Mapping[int, int] | None = None,
        kept: Mapping[int, int] | None = None,
        log: Log | None = None,
        first: Mapping[int, int] | None = None,
    ):
        """Batches by cluster: learned from, from which one on they have to be kept, and with which
        one the cluster began."""
        learned = dict(learned or {})
        counts = learned.values()
        began = [(first or {}).get(cluster, 0) for cluster in learned]
        is_logged = log is not None and log.clusters == frozenset(learned)
        is_even = not learned or max(counts) - min(counts) <= _UNDER_WAY
        has_turns = log is not None and bool(log.turns)
        are_in_turn = is_logged or (is_even and not has_turns)
        self.is_exact = len(learned) == 1 or (not any(began) and are_in_turn)
        self._log = log
        self._turns = log.turns if log is not None and (is_logged or not learned) else {}
        self._skipped = 0 if self.is_exact else sum(counts) - sum(began) + min(began)
        self._learned = learned if self.is_exact else {}
        self._kept = {**self._learned, **(kept or {})} if self.is_exact else {}
        self._dealt = dict.fromkeys(self._learned, 0)
        self._number = 0  # batches so far, of all
        if log is not None and self.is_exact and not is_logged and learned:
            log.begin(learned)  # all so far was dealt in turn

    def take(self, clusters: Iterable[int], rooms: Mapping[int, Room] | None = None) -> Turn | None:
        """The cluster with the fewest; a new one begins with as many as the others. None: whoever
        may have the next batch has no room."""
        if self._skipped:
            self._skipped -= 1
            return Turn(None, is_behind=True)
        clusters = list(clusters)
        if self._log is not None:
            self._log.check(clusters)
        fewest = min((self._dealt[each] for each in clusters if each in self._dealt), default=0)
        self._dealt = {each: self._dealt.get(each, fewest) for each in clusters}
        cluster = self._choose(rooms or {})
        if cluster is None:
            return None
        number = self._dealt[cluster]
        self._dealt[cluster] += 1
        self._number += 1
        if number < self._kept.get(cluster, 0):
            return Turn(None, is_behind=True)
        return Turn(cluster, is_behind=number < self._learned.get(cluster, 0))

    def _choose(self, rooms: Mapping[int, Room]) -> int | None:
        known = self._turns.get(self._number)
        if known in self._dealt:
            return known
        in_turn = min(self._dealt, key=self._dealt.__getitem__)
        if self._is_learned(in_turn) or rooms.get(in_turn, Room()).is_free:
            return in_turn
        if not rooms[in_turn].is_full:
            return None
        # Who has not had all again that it has learned from goes on with its own.
        others = [
            each
            for each in self._dealt
            if each in rooms and rooms[each].is_nearly_idle and not self._is_learned(each)
        ]
        other = min(others, key=self._dealt.__getitem__, default=None)
        if other is not None and self._log is not None:
            self._log.add(self._number, other)
        return other

    def _is_learned(self, cluster: int) -> bool:
        return self._dealt[cluster] < self._learned.get(cluster, 0)
