"""Whether this rank's streams agree with the others', asked of one key of the store per stream.

The key holds where some rank stood, and its prefix digests there. Every rank that comes to it
compares, and puts its own place there if it is further: digests that are equal at a call say that
all calls before it are equal, so nobody has to see every value, and no rank has to read another's.
That is a request per stream and look, whatever the number of ranks and of calls.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from collectrace.job_store import JobStore
from collectrace.tracer.record.groups import GroupState
from collectrace.tracer.record.streams import Stream

_MOST_STREAMS: Final = 4
"""Streams that are compared in one look; the others have their turn at the next ones."""

_VALUE: Final = re.compile(rb"(\d{1,18}) (\d{1,19}) (\d{1,19})")

_ATTEMPTS: Final = 2
"""How often a rank tries to put its place there in one look: another may be faster."""

Digests = tuple[int, int]
"""``digest`` and ``program``, as in a ``call`` record."""

OwnDigests = Callable[[str, str, int], Digests | None]
"""This rank's digests at an earlier call: by group, device type and number; None: not known."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a rank stood."""

    seq: int
    digests: Digests

    def encode(self) -> bytes:
        return b"%d %d %d" % (self.seq, *self.digests)


def _place(value: bytes) -> _Place | None:
    """What a value tells; None: it is damaged."""
    found = _VALUE.fullmatch(value)
    if found is None:
        return None
    seq, digest, program = map(int, found.groups())
    return _Place(seq, (digest, program))


@dataclass(slots=True)
class _Known:
    """What is known of one stream at the store."""

    value: bytes = b""
    """What its key held last."""
    to_compare: _Place | None = None
    """Another rank's place, which this rank has not come to yet, or not compared with."""
    seq: int = 0
    """This rank's own place when it looked last."""
    differs: bool = False
    """It does not agree; from then on it is not compared any more."""


class Agreement:
    """One rank's comparisons, look after look.

    ``key`` makes the key of a stream from its name.
    """

    def __init__(self, key: Callable[[str], str], own: OwnDigests) -> None:
        self._key, self._own = key, own
        self._known: dict[str, _Known] = {}
        self._next = 0

    def look(self, store: JobStore, groups: list[GroupState]) -> bool:
        """Compare some of the streams; whether one was found to differ, which is told once.

        Raises:
            StoreError: the store does not answer.

        """
        streams = dict(_named(groups))
        for name in self._known.keys() - streams.keys():
            del self._known[name]
            store.delete(self._key(name))  # its group is gone
        moved = [name for name in streams if self._is_due(name, streams[name])]
        if not moved:
            return False
        first = self._next % len(moved)
        some = (moved[first:] + moved[:first])[:_MOST_STREAMS]
        self._next += len(some)
        found = [self._compare(store, name, streams[name]) for name in some]
        return any(found)

    def forget(self, store: JobStore) -> None:
        """Remove the keys: the run is over.

        Raises:
            StoreError: the store does not answer.

        """
        for name in self._known:
            store.delete(self._key(name))
        self._known = {}

    def _is_due(self, name: str, stream: Stream) -> bool:
        known = self._known.setdefault(name, _Known())
        return stream.seq > known.seq and not known.differs

    def _compare(self, store: JobStore, name: str, stream: Stream) -> bool:
        known = self._known[name]
        # Read without a lock that the training would have to wait for. The recorder assigns them
        # with no call in between, and so no other thread sees them half done (Recorder._number).
        seq, digest, program = stream.seq, stream.digest, stream.program
        mine = _Place(seq, (digest, program))
        if self._has_parted(known, stream, mine):
            return True
        for _ in range(_ATTEMPTS):
            there = _place(known.value)
            if there is not None and there.seq >= seq:
                known.seq = seq
                return False  # somebody is further: it is compared with when this rank comes there
            known.value = store.compare_set(self._key(name), known.value, mine.encode())
            if known.value == mine.encode():
                known.seq = seq
                return False
            known.to_compare = _place(known.value)
            if self._has_parted(known, stream, mine):
                return True
        return False

    def _has_parted(self, known: _Known, stream: Stream, mine: _Place) -> bool:
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
    """Every stream, by a name that is the same on all members of the group, and on no others."""
    for group in groups:
        for stream in list(group.streams.values()):
            told = f"{stream.group}|{stream.device}|{group.ranks}".encode()
            yield hashlib.blake2b(told, digest_size=8).hexdigest(), stream
