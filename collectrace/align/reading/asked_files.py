"""Files of ranks that run now: each read is a request to the rank through the job's store."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from collectrace import exchange
from collectrace.align.reading.source_files import is_hash
from collectrace.align.reading.unasked import LeftBlob, left_blobs
from collectrace.errors import LogError, NotNow
from collectrace.exchange import (
    LARGEST_ANSWER,
    MOST_FILES,
    MOST_TEXT,
    TEXTS,
    Ask,
    Keys,
    Listing,
)
from collectrace.job_store import JobStore, StoreError
from collectrace.log_folder import Blob

PATIENCE: Final = 5.0
"""Seconds without any answer after which the ranks that have not answered count as silent."""

PAUSE: Final = 0.02
"""Seconds between two checks for the answers of a few ranks."""

_RANKS_PER_SECOND: Final = 5000
"""Keys read in a second: the store has one thread, and the job needs it."""

_MOST_BYTES: Final = 128 << 20
"""Bytes that are requested in one session."""

_MOST_TEXTS: Final = 1000
"""Texts that a rank lists."""


@dataclass(slots=True)
class Ranks:
    """The ranks of a run, queried in one session of requests (a "turn" of ``exchange``)."""

    store: JobStore
    keys: Keys
    turn: int
    asked: dict[int, int] = field(default_factory=dict)
    """By rank, the number of its latest request."""
    first: int = field(default_factory=lambda: time.time_ns() // 1000)
    """If a session is repeated, the numbers of its requests must be higher than before."""
    received: int = 0
    """Bytes of files."""
    text_left: int = MOST_TEXT
    """Bytes of source text that may still be requested."""
    is_over: bool = False
    """The session is closed: nobody answers any more."""

    def ended(self, among: Sequence[int]) -> dict[int, list[LeftBlob]]:
        """Return the files that ranks left in the store when they ended."""
        values = self.store.read_all([Keys.left(rank) for rank in among])
        found = {}
        for rank, value in zip(among, values, strict=True):
            with suppress(ValueError):
                if value is not None and (blobs := left_blobs(self.keys.run, rank, value)):
                    found[rank] = blobs
        return found

    def present(self, among: Sequence[int], patience: float) -> dict[int, bytes]:
        """Return by rank the cards with which ranks announce that they will answer.

        Waits ``patience`` seconds for ranks that have said nothing yet.
        """
        waiting, found = list(among), dict[int, bytes]()
        until = time.monotonic() + patience
        while waiting:
            cards = self.store.read_all([self.keys.card(self.turn, rank) for rank in waiting])
            came = zip(waiting, cards, strict=True)
            found |= {rank: card for rank, card in came if card is not None}
            waiting = [rank for rank in waiting if rank not in found]
            if not waiting or time.monotonic() > until:
                break
            time.sleep(_pause(len(waiting)))
        return dict(sorted(found.items()))

    def ask(self, asks: Sequence[tuple[int, int, int, int]]) -> list[bytes | None]:
        """Return bytes of files: each request names rank, file, start and stop; one per rank.

        None: the rank does not answer, or its answer is invalid.
        """
        found: list[bytes | None] = [None] * len(asks)
        waiting: dict[int, int] = {}  # rank: index of its ask
        for n, (rank, file, start, stop) in enumerate(asks):
            number = self.asked[rank] = self.asked.get(rank, self.first) + 1
            ask = exchange.encode(Ask(number, file, start, stop))
            self.store.set(self.keys.ask(self.turn, rank), ask)
            waiting[rank] = n
        until = time.monotonic() + PATIENCE
        while waiting and time.monotonic() < until:
            ranks = list(waiting)
            keys = [self.keys.answer(self.turn, rank) for rank in ranks]
            for rank, value in zip(ranks, self.store.read_all(keys), strict=True):
                if value is None:
                    continue
                try:
                    data = exchange.unpack(value, self.asked[rank])
                except ValueError:
                    del waiting[rank]  # its later answers are ignored
                    continue
                if data is not None:
                    found[waiting.pop(rank)] = data
                    self.received += len(data)
                    until = time.monotonic() + PATIENCE
            if self.received > _MOST_BYTES:
                raise LogError(
                    f"the ranks' files are too large to be read through the store (more than "
                    f"{_MOST_BYTES >> 20} MiB). Read the files instead."
                )
            if waiting:
                time.sleep(_pause(len(waiting)))
        return found


def _pause(ranks: int) -> float:
    return max(PAUSE, ranks / _RANKS_PER_SECOND)


@dataclass(slots=True)
class StoreBlob:
    """A file of one rank."""

    name: str
    size: int
    rank: int
    file: int
    """Index in the rank's list."""
    ranks: Ranks
    reach: int
    """Bytes of a stretch that is requested as a whole if one read follows another: an answer takes
    its time, however short it is."""
    parts: dict[int, bytes] = field(default_factory=dict)
    """The known bytes, by offset."""
    near: set[int] = field(default_factory=set)
    """Ordinals of the stretches that the next read requests as a whole."""

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`collectrace.log_folder.Blob`."""
        stop = min(stop, self.size)
        found = []
        while start < stop:
            part = self.known(start) or self._fetch(start, stop)
            found.append(part[: stop - start])
            start += len(found[-1])
        return b"".join(found)

    def remember(self, earlier: StoreBlob | None) -> None:
        """Keep what was known of both ends of this file when it was shorter."""
        if earlier is not None and earlier.size <= self.size:
            for offset, part in earlier.parts.items():
                if offset == 0 or offset + len(part) > earlier.size - self.reach:
                    self.parts[offset] = part

    def known(self, start: int) -> bytes:
        """Return the known bytes from an offset on; empty if there are none."""
        for offset, part in self.parts.items():
            if offset <= start < offset + len(part):
                return part[start - offset :]
        return b""

    def _fetch(self, start: int, stop: int) -> bytes:
        """Request the bytes from an offset on, and perhaps those around them."""
        first, stop = start, min(stop, start + LARGEST_ANSWER)
        stretch = start // self.reach
        if stretch in self.near:
            self.near |= {stretch - 1, stretch + 1}
            first, stop = stretch * self.reach, min((stretch + 1) * self.reach, self.size)
        self.near.add(stretch)
        try:
            (part,) = self.ranks.ask([(self.rank, self.file, first, stop)])
        except StoreError as problem:
            raise LogError(str(problem)) from None
        if part is None:
            raise NotNow(f"rank {self.rank} has stopped answering. Run the command again.")
        if len(part) != stop - first:  # a shorter part proves nothing
            raise NotNow(
                f"rank {self.rank} removed {self.name} while it was read. Run the command again."
            )
        self.parts[first] = part
        return part[start - first :]


class AskedTexts:
    """The source texts of the program, requested from each rank when needed."""

    def __init__(self, ranks: Ranks, answering: Collection[int]) -> None:
        self._ranks, self._answering = ranks, frozenset(answering)
        self._listed: dict[int, dict[str, Blob]] = {}

    def of(self, rank: int) -> Mapping[str, Blob]:
        """Return the texts that a rank has, by hash; none after the session."""
        if rank not in self._listed and rank in self._answering and not self._ranks.is_over:
            self._listed[rank] = dict(self._list(rank))
        return self._listed.get(rank, {})

    def _list(self, rank: int) -> Iterator[tuple[str, Blob]]:
        first = 0
        while first < _MOST_TEXTS:
            try:
                (told,) = self._ranks.ask([(rank, TEXTS, first, first + MOST_FILES)])
                listing = exchange.decode(Listing, told or b"")
                found = list(zip(listing.names, listing.sizes, strict=True))
            except (ValueError, StoreError, LogError):
                return  # its texts are not known; what else was read remains valid
            for n, (sha256, size) in enumerate(found, first):
                if is_hash(sha256) and size >= 0:
                    file = TEXTS - 1 - n
                    yield sha256, _Text(sha256, size, rank, file, self._ranks, LARGEST_ANSWER)
            if len(found) < MOST_FILES:
                return
            first += MOST_FILES


class _Text(StoreBlob):
    """One text that a rank has. All together are limited in size."""

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`collectrace.log_folder.Blob`."""
        stop, ranks = min(stop, self.size), self.ranks
        if ranks.is_over or ranks.text_left < stop - start:
            raise LogError(
                f"{self.name}.py of rank {self.rank} was not read: a query reads at most "
                f"{MOST_TEXT >> 20} MiB of source. Read the rank files instead."
            )
        ranks.text_left -= stop - start
        return super().read(start, stop)
