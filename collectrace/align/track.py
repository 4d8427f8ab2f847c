"""The rows of one stream (or channel) of one rank: what was read of each, in flat arrays.

A trace may hold millions of calls, so a row is a few numbers: where its line is, and two
interned ids that say what the call is without decoding the line again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from collectrace.records import Call
from collectrace.signature import program_text

MAX_SEQ: Final = 1 << 60
"""Beyond it a number is damage, not a sequence number."""

NO_ITERATION: Final = -1
VOID: Final = "void"

SHAPED: Final = frozenset({"all_reduce", "broadcast", "reduce"})
"""Ops that pair values by position in one tensor: another shape pairs others."""


_HOLDING: Final = frozenset(
    {"all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_single", "reduce_scatter",
     "reduce_scatter_tensor", "reduce_scatter_single", "barrier"}
)  # fmt: skip
"""Ops whose result, on every rank, needs something of every rank."""


class Sight(NamedTuple):
    """What a call looks like beside its meaning."""

    site: str
    shape: str
    """As text, for ops that mix up values where shapes differ; else empty."""
    role: str
    op: str


@dataclass(slots=True)
class Vocabulary:
    """What many calls share, interned for all ranks of a run."""

    meanings: dict[str, int] = field(default_factory=dict)
    """``program_text`` of a call, or VOID."""
    examples: list[Call] = field(default_factory=list)
    """A call for each meaning."""
    looks: dict[Sight, int] = field(default_factory=dict)
    sights: list[Sight] = field(default_factory=list)
    holds: list[bool] = field(default_factory=list)
    """Per look: whether such a call returns only when every rank has come to it."""

    def meaning(self, call: Call) -> int:
        """The id of what a call means, the same on every rank."""
        text = VOID if call.void else program_text(call)
        found = self.meanings.get(text)
        if found is None:
            found = self.meanings[text] = len(self.examples)
            self.examples.append(call)
        return found

    def look(self, call: Call) -> int:
        """The id of what a call looks like."""
        shape = str(call.shape) if call.op in SHAPED else ""
        sight = Sight(call.site or "", shape, call.role, call.op)
        found = self.looks.get(sight)
        if found is None:
            found = self.looks[sight] = len(self.sights)
            self.sights.append(sight)
            # On a GPU the host runs ahead of what it issued, except through a barrier.
            waits = not call.async_ and (call.device == "cpu" or call.op == "barrier")
            self.holds.append(waits and call.op in _HOLDING)
        return found


class Track:
    """Rows in order of their sequence number, and marks: how many calls lie before an offset."""

    __slots__ = (
        "iteration", "look", "marks", "meaning", "offset", "seq", "standing", "steps", "t",
        "vocabulary",
    )  # fmt: skip

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.seq = array("q")
        self.t = array("q")
        self.offset = array("q")
        self.meaning = array("i")
        self.look = array("i")
        self.iteration = array("q")
        self.steps: dict[int, int | None] = {}
        """all_to_all: the rank's share by sequence number; None: it cannot be told."""
        self.marks: list[tuple[int, int]] = [(0, 0)]
        """(calls before it, offset), ascending in both."""
        self.standing: dict[int, tuple[int | None, int | None, int | None]] = {}
        """Digest, program, pairs after a call, from checkpoints."""

    def __len__(self) -> int:
        return len(self.seq)

    def add(self, seq: int, t: int, offset: int, meaning: int, look: int, iteration: int) -> bool:
        """Take a row; false where it is there already."""
        at = bisect_left(self.seq, seq)
        if at < len(self.seq) and self.seq[at] == seq:
            return False
        self.seq.insert(at, seq)
        self.t.insert(at, t)
        self.offset.insert(at, offset)
        self.meaning.insert(at, meaning)
        self.look.insert(at, look)
        self.iteration.insert(at, iteration)
        return True

    def mark(self, count: int, offset: int) -> None:
        """So many calls lie before an offset."""
        if (count, offset) not in self.marks[-1:]:
            insort(self.marks, (count, offset))

    def find(self, seq: int) -> int | None:
        """The index of a row."""
        at = bisect_left(self.seq, seq)
        return at if at < len(self.seq) and self.seq[at] == seq else None

    def bracket(self, seq: int, size: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The closest (count, offset) on either side of where a row's line begins."""
        low, high = (0, 0), (seq, size)
        at = bisect_left(self.marks, (seq, -1))
        if at:
            low = self.marks[at - 1]
        if at < len(self.marks):
            high = self.marks[at]
        row = bisect_left(self.seq, seq)
        if row:
            # The line of the row before begins here, so the one looked for lies behind.
            low = max(low, (self.seq[row - 1], self.offset[row - 1] + 1))
        if row < len(self.seq):
            high = min(high, (self.seq[row] - 1, self.offset[row]))
        return low, high

    def holds(self, at: int) -> bool:
        """Whether the call of a row returned only when every rank had come to it.

        As its like at the same line did when it was first seen.
        """
        return self.vocabulary.holds[self.look[at]]

    def last(self) -> int:
        """The number of the latest call, its row lost or not."""
        latest = self.seq[-1] if self.seq else 0
        return max(latest, self.marks[-1][0], max(self.standing, default=0))

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """Stretches without a gap: first number, last number, index of the first."""
        seq, total, start = self.seq, len(self.seq), 0
        while start < total:
            # A run ends where numbers outgrow indices; both ascend, so that is found by halving.
            shift = seq[start] - start
            end = bisect_right(range(start, total), shift, key=lambda i: seq[i] - i)
            end += start
            yield seq[start], seq[end - 1], start
            start = end
