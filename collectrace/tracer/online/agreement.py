"""Compare this rank's streams with those of other ranks, through one key of the store per stream.

The key holds a position of some rank and its prefix digests there. A rank that has reached the
position compares its digests. If it is further ahead, it stores its own position. Equal digests at
a call prove that all calls before it are equal, so no rank needs every value. A look costs one
request per stream, independent of the number of ranks and calls.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from collectrace.exchange import Keys
from collectrace.job_store import JobStore
from collectrace.tracer.record.groups import GroupState
from collectrace.tracer.record.streams import Stream

_MOST_STREAMS: Final = 4
"""Streams that are compared in one look; the next looks compare the others."""

_MOST_GONE: Final = 64
"""Streams of destroyed groups that keep their positions in the store."""

_VALUE: Final = re.compile(rb"([\w-]{1,100}) (\d{1,18}) (\d{1,19}) (\d{1,19})")

_ATTEMPTS: Final = 2
"""How often a rank tries to store its position in one look: another may be faster."""

Digests = tuple[int, int]
"""``digest`` and ``program``, as in a ``call`` record."""

OwnDigests = Callable[[str, str, int], Digests | None]
"""This rank's digests at an earlier call: by group, device type and number; None: not known."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a rank in a stream."""

    run: bytes
    seq: int
    digests: Digests

    def encode(self) -> bytes:
        return b"%b %d %d %d" % (self.run, self.seq, *self.digests)


def _decode(value: bytes, run: bytes) -> _Place | None:
    """Decode a value of the store; None: it is damaged, or belongs to another run."""
    found = _VALUE.fullmatch(value)
    if found is None or found[1] != run:
        return None
    seq, digest, program = map(int, found.groups()[1:])
    return _Place(run, seq, (digest, program))


@dataclass(slots=True)
class _Known:
    """What this rank knows about one stream in the store."""

    value: bytes = b""
    """The last known value of its key."""
    to_compare: _Place | None = None
    """Another rank's position that this rank has not reached, or not compared with."""
    seq: int = 0
    """This rank's position at its last look."""
    differs: bool = False
    """Whether it differs. Then it is not compared any more."""


class Agreement:
    """The comparisons of one rank.

    A key belongs to a stream and not to a ``run``, so the next run overwrites it, and nobody has to
    remove it.
    """

    def __init__(self, run: str, own: OwnDigests) -> None:
        self._run, self._own = run.encode(), own
        self._known: dict[str, _Known] = {}
        self._streams: dict[str, Stream] = {}
        """By name; includes streams of destroyed groups, which are compared a last time."""
        self._next = 0

    def look(self, store: JobStore, groups: list[GroupState], most: int = _MOST_STREAMS) -> bool:
        """Compare at most ``most`` streams; return whether one differs for the first time.

        Raises:
            StoreError: the store does not answer.

        """
        self._streams |= _named(groups)
        streams = self._streams
        moved = [name for name in streams if self._is_due(name, streams[name])]
        if not moved:
            return False
        first = self._next % len(moved)
        some = (moved[first:] + moved[:first])[:most]
        self._next += len(some)
        found = [self._compare(store, name, streams[name]) for name in some]
        self._forget(store, groups)
        return any(found)

    def _forget(self, store: JobStore, groups: list[GroupState]) -> None:
        """Remove keys of destroyed groups, except the latest, which other ranks may still need."""
        there = {name for name, _ in _named(groups)}
        gone = [name for name in self._streams if name not in there]
        for name in gone[:-_MOST_GONE]:
            del self._streams[name]
            self._known.pop(name, None)
            store.delete(Keys.position(name))

    def _is_due(self, name: str, stream: Stream) -> bool:
        known = self._known.setdefault(name, _Known())
        return stream.seq > known.seq and not known.differs

    def _compare(self, store: JobStore, name: str, stream: Stream) -> bool:
        known = self._known[name]
        # Read without a lock, on which the training would wait. The recorder assigns all three
        # without a call in between, so no other thread sees a part of them (Recorder._number).
        seq, digest, program = stream.seq, stream.digest, stream.program
        mine = _Place(self._run, seq, (digest, program))
        if self._differs(known, stream, mine):
            return True
        for _ in range(_ATTEMPTS):
            there = _decode(known.value, self._run)
            if there is not None and there.seq >= seq:
                known.seq = seq
                return False  # another rank is ahead: this rank compares when it has caught up
            known.value = store.compare_set(Keys.position(name), known.value, mine.encode())
            if known.value == mine.encode():
                known.seq = seq
                return False
            known.to_compare = _decode(known.value, self._run)
            if self._differs(known, stream, mine):
                return True
        return False

    def _differs(self, known: _Known, stream: Stream, mine: _Place) -> bool:
        theirs = known.to_compare
        if theirs is None or theirs.seq > mine.seq:
            return False
        known.to_compare = None
        if theirs.seq == mine.seq:
            own: Digests | None = mine.digests
        else:
            own = self._own(stream.group, stream.device, theirs.seq)
        known.differs = own is not None and own != theirs.digests
        return known.differs


def _named(groups: list[GroupState]) -> Iterator[tuple[str, Stream]]:
    """Yield every stream with a name that is the same on all members of its group only."""
    for group in groups:
        for stream in list(group.streams.values()):
            told = f"{stream.group}|{stream.device}|{group.ranks}".encode()
            yield hashlib.blake2b(told, digest_size=8).hexdigest(), stream
