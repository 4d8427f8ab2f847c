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

from collectrace.exchange import Keys
from collectrace.job_store import JobStore
from collectrace.tracer.record.groups import GroupState
from collectrace.tracer.record.streams import Stream

_MOST_STREAMS: Final = 4
"""Streams that are compared in one look; the others have their turn at the next ones."""

_MOST_GONE: Final = 64
"""Streams of groups that are gone whose places stay in the store."""

_VALUE: Final = re.compile(rb"([\w-]{1,100}) (\d{1,18}) (\d{1,19}) (\d{1,19})")

_ATTEMPTS: Final = 2
"""How often a rank tries to put its place there in one look: another may be faster."""

Digests = tuple[int, int]
"""``digest`` and ``program``, as in a ``call`` record."""

OwnDigests = Callable[[str, str, int], Digests | None]
"""This rank's digests at an earlier call: by group, device type and number; None: not known."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a rank stood."""

    run: bytes
    seq: int
    digests: Digests

    def encode(self) -> bytes:
        return b"%b %d %d %d" % (self.run, self.seq, *self.digests)


def _place(value: bytes, run: bytes) -> _Place | None:
    """What a value tells; None: it is damaged, or was left by another run."""
    found = _VALUE.fullmatch(value)
    if found is None or found[1] != run:
        return None
    seq, digest, program = map(int, found.groups()[1:])
    return _Place(run, seq, (digest, program))


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

    A key is that of a stream, and not of a ``run``, so that nobody has to remove it at the end:
    who comes last compares with who came before, and the next run writes over it.
    """

    def __init__(self, run: str, own: OwnDigests) -> None:
        self._run, self._own = run.encode(), own
        self._known: dict[str, _Known] = {}
        self._streams: dict[str, Stream] = {}
        """By name; also those of groups that are gone, which are compared a last time."""
        self._next = 0

    def look(self, store: JobStore, groups: list[GroupState], most: int = _MOST_STREAMS) -> bool:
        """Compare ``most`` of the streams; whether one was found to differ, which is told once.

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
        """Remove what is told of groups that are gone; not of the latest: others come to it yet."""
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
        # Read without a lock that the training would have to wait for. The recorder assigns them
        # with no call in between, and so no other thread sees them half done (Recorder._number).
        seq, digest, program = stream.seq, stream.digest, stream.program
        mine = _Place(self._run, seq, (digest, program))
        if self._has_parted(known, stream, mine):
            return True
        for _ in range(_ATTEMPTS):
            there = _place(known.value, self._run)
            if there is not None and there.seq >= seq:
                known.seq = seq
                return False  # somebody is further: it is compared with when this rank comes there
            known.value = store.compare_set(Keys.position(name), known.value, mine.encode())
            if known.value == mine.encode():
                known.seq = seq
                return False
            known.to_compare = _place(known.value, self._run)
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
