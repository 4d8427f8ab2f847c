"""The files of ranks that run now, asked of the ranks themselves through the job's store.

The store is named by ``tcpstore://HOST:PORT``, or with the run's id behind it:
``tcpstore://HOST:PORT/RUN``. With ``?turn=N`` the turn is one that has been opened already, and
who has opened it closes it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from collectrace import exchange, words
from collectrace.align.reading.source import Blob, Folder
from collectrace.align.reading.unasked import LeftBlob, alike_blobs, is_of, left_blobs
from collectrace.errors import LogError, NotNow, NotThere
from collectrace.exchange import LARGEST_ANSWER, SCHEME, Announced, Ask, Keys, Listing, Turn
from collectrace.job_store import JobStore, StoreError

_PATIENCE: Final = 5.0
"""Seconds without any answer after which those ranks that were asked count as silent."""

_TO_COME: Final = 2.0
"""Seconds, beyond a heartbeat, in which a rank must have said that it will answer."""

_PAUSE: Final = 0.02
"""Seconds between two looks for answers of a few ranks."""

_RANKS_PER_SECOND: Final = 5000
"""Keys that are looked at in a second: the store has one thread, and it is the job's."""

_MOST_BYTES: Final = 128 << 20
"""Bytes that are asked for in one turn."""

_AHEAD: Final = 32 << 20
"""Bytes that are asked for before anything is read, divided among the ranks: of a file that is
longer than its share both ends, half of the share each."""

_SMALLEST_END: Final = 16 << 10
"""Bytes of an end that are asked for at least: a header, or a rank's last words."""

_MOST_RANKS: Final = 100_000

_ALL_ASKED: Final = 32
"""Ranks that are asked one by one, whether they stand in one place or not."""

_ASKED_OF_A_CLASS: Final = 4
"""Ranks that are asked of more who stand in one place."""

_URL: Final = re.compile(
    r"tcpstore://(?P<host>\[[0-9a-fA-F:.]+\]|[^/:?]+):(?P<port>\d{1,5})"
    r"(?:/(?P<run>[^/?]+)?/?)?(?:\?turn=(?P<turn>\d{1,9}))?"
)


@dataclass(slots=True)
class Ranks:
    """The ranks of a run, asked in one turn."""

    store: JobStore
    keys: Keys
    turn: int
    asked: dict[int, int] = field(default_factory=dict)
    """By rank, the number of its latest ask."""
    first: int = field(default_factory=lambda: time.time_ns() // 1000)
    """The asks of a turn that is gone through again must have numbers that are higher."""
    received: int = 0
    """Bytes of files."""

    def ended(self, among: Sequence[int]) -> dict[int, list[LeftBlob]]:
        """The files of those ranks that have ended, and left them."""
        values = self.store.read_all([Keys.left(rank) for rank in among])
        found = {}
        for rank, value in zip(among, values, strict=True):
            with suppress(ValueError):
                if value is not None and (blobs := left_blobs(self.keys.run, rank, value)):
                    found[rank] = blobs
        return found

    def present(self, among: Sequence[int], patience: float) -> dict[int, bytes]:
        """What those ranks say who will answer; waits for the others ``patience`` seconds."""
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
        """Bytes of files: rank, file, start and stop of each, of a rank one at a time.

        None: it does not answer, or not as it should.
        """
        found: list[bytes | None] = [None] * len(asks)
        waiting: dict[int, int] = {}  # rank: index of its ask
        for n, (rank, file, start, stop) in enumerate(asks):
            number = self.asked[rank] = self.asked.get(rank, self.first) + 1
            ask = exchange.encode(Ask(number, file, start, stop))
            self.store.set(self.keys.ask(self.turn, rank), ask)
            waiting[rank] = n
        until = time.monotonic() + _PATIENCE
        while waiting and time.monotonic() < until:
            ranks = list(waiting)
            keys = [self.keys.answer(self.turn, rank) for rank in ranks]
            for rank, value in zip(ranks, self.store.read_all(keys), strict=True):
                if value is None:
                    continue
                try:
                    data = exchange.unpack(value, self.asked[rank])
                except ValueError:
                    del waiting[rank]  # it is not listened to any more
                    continue
                if data is not None:
                    found[waiting.pop(rank)] = data
                    self.received += len(data)
                    until = time.monotonic() + _PATIENCE
            if self.received > _MOST_BYTES:
                raise LogError(
                    f"the ranks' files are too long to be read through the store: "
                    f"more than {_MOST_BYTES >> 20} MiB were asked for; read the files themselves"
                )
            if waiting:
                time.sleep(_pause(len(waiting)))
        return found


def _pause(ranks: int) -> float:
    return max(_PAUSE, ranks / _RANKS_PER_SECOND)


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
    """Bytes of a stretch of it that is asked for as a whole where one look follows another: an
    answer takes its time, however short it is."""
    parts: dict[int, bytes] = field(default_factory=dict)
    """What is known of it, by offset."""
    near: set[int] = field(default_factory=set)
    """Ordinals of the stretches in which the next look is to bring the whole."""

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`collectrace.align.reading.source.Blob`."""
        stop = min(stop, self.size)
        found = []
        while start < stop:
            part = self.known(start) or self._fetch(start, stop)
            found.append(part[: stop - start])
            start += len(found[-1])
        return b"".join(found)

    def remember(self, earlier: StoreBlob | None) -> None:
        """Take over what was known of the ends of this file when it was shorter."""
        if earlier is not None and earlier.size <= self.size:
            for offset, part in earlier.parts.items():
                if offset == 0 or offset + len(part) > earlier.size - self.reach:
                    self.parts[offset] = part

    def known(self, start: int) -> bytes:
        """What is known from an offset on; nothing, where that is not known."""
        for offset, part in self.parts.items():
            if offset <= start < offset + len(part):
                return part[start - offset :]
        return b""

    def _fetch(self, start: int, stop: int) -> bytes:
        """Ask for what is not known from an offset on, and perhaps for what is near."""
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
            raise NotNow(f"rank {self.rank} has stopped answering; ask again")
        if len(part) != stop - first:  # nothing is concluded from a part
            raise NotNow(f"{self.name} of rank {self.rank} went while it was read; ask again")
        self.parts[first] = part
        return part[start - first :]


@dataclass(slots=True)
class Memory:
    """What one look at a job leaves to the next."""

    heartbeat: float = 0.0
    """As the job has announced it, seconds; 0: it was not asked yet."""
    blobs: dict[str, StoreBlob] = field(default_factory=dict)
    """The files as they were read, by name."""


@contextmanager
def opened(
    url: str, announced: Announced | None = None, memory: Memory | None = None
) -> Iterator[Folder]:
    """The files of the ranks that answer, as long as they are to be read.

    ``announced``: the run, where it is known; nobody looks then what the store says of it. With a
    ``memory`` what an earlier look has read of their ends is not asked for again.

    Raises:
        LogError: the URL is none, the store or every rank does not answer.
        NotThere: no job compares notes there.
        NotNow: somebody else asks.

    """
    memory = memory or Memory()
    match = _URL.fullmatch(url)
    if match is None:
        raise LogError(f"{url} is not {SCHEME}HOST:PORT or {SCHEME}HOST:PORT/RUN")
    try:
        store = JobStore(match["host"].strip("[]"), int(match["port"]))
        try:
            announced = announced or _announced(store, url)
            memory.heartbeat = announced.heartbeat
            keys = Keys(match["run"] or announced.run)
            if match["turn"] is not None:
                yield _folder(url, Ranks(store, keys, int(match["turn"])), announced, memory)
                return
            turn = _turn(store, keys)
            ranks = Ranks(store, keys, turn.number)
            try:
                yield _folder(url, ranks, announced, memory)
            finally:
                exchange.close_turn(store, keys, turn)
                exchange.clean_up(store, keys, turn.number, announced.world_size)
        finally:
            store.close()
    except StoreError as problem:
        raise LogError(str(problem)) from None


def _announced(store: JobStore, url: str) -> Announced:
    """The run that is on; waits for a job that has only just begun."""
    until = time.monotonic() + _PATIENCE
    while (value := store.read(exchange.ANNOUNCED)) is None and time.monotonic() < until:
        time.sleep(_PAUSE)
    if value is None:
        raise NotThere(
            f"{url}: no job compares notes at this store; it must run with COLLECTRACE_ONLINE=1"
        )
    try:
        announced = exchange.decode(Announced, value)
    except ValueError:
        raise LogError(f"{url}: what is announced there is damaged") from None
    if not 0 < announced.world_size <= _MOST_RANKS or not 0 < announced.heartbeat < 1e6:
        raise LogError(f"{url}: what is announced there is damaged")
    return announced


def _turn(store: JobStore, keys: Keys) -> Turn:
    until = time.monotonic() + _PATIENCE
    while True:
        turn = exchange.open_turn(store, keys, "a reader outside the job")
        if turn is not None:
            return turn
        if time.monotonic() > until:
            raise NotNow("somebody else is asking the ranks; try again in a minute")
        time.sleep(_PAUSE)


def _folder(url: str, ranks: Ranks, announced: Announced, memory: Memory) -> Folder:
    """What the ranks have, both ends of it read already."""
    world_size, run = announced.world_size, ranks.keys.run
    ended = ranks.ended(range(world_size))
    others = [rank for rank in range(world_size) if rank not in ended]
    cards = ranks.present(others, announced.heartbeat + _TO_COME)
    # Who has ended meanwhile is not silent.
    ended |= ranks.ended([rank for rank in others if rank not in cards])
    asked, alike = _representatives(cards)
    reach = max(_SMALLEST_END, min(LARGEST_ANSWER, _AHEAD // max(1, len(asked))))
    listed = dict[int, list[StoreBlob]]()
    listings = ranks.ask([(rank, -1, 0, 0) for rank in asked])
    for rank, listing in zip(asked, listings, strict=True):
        with suppress(ValueError):
            listed[rank] = list(_blobs(rank, listing or b"", ranks, reach))
    found = [blob for blobs in listed.values() for blob in blobs]
    for blob in found:
        blob.remember(memory.blobs.get(blob.name))
    _, there = _read_ends(ranks, found)
    memory.blobs = {blob.name: blob for blob in there}
    read = dict[int, list[Blob]]()
    for blob in there:
        read.setdefault(blob.rank, []).append(blob)
    for rank, other in alike.items():
        if other in read:
            read[rank] = list(alike_blobs(rank, read[other], run))
    read |= {rank: list[Blob](blobs) for rank, blobs in ended.items()}
    if not read:
        raise LogError(f"{url}: none of {words.counted(world_size, 'rank')} answers")
    silent = [rank for rank in range(world_size) if rank not in read]
    notes = [_of_silence(silent)] if silent else []
    unread = sorted(alike.keys() & read.keys())
    if unread:
        notes.append(
            f"{words.ranks(unread)} {words.verb(unread, 'stands', 'stand')} where others do, by "
            "what they have called and what they are in, and those were read in their place"
        )
    return Folder(
        url, run, [blob for rank in sorted(read) for blob in read[rank]], None, is_fixed=True,
        is_far=True, notes=tuple(notes),
    )  # fmt: skip


def _representatives(cards: Mapping[int, bytes]) -> tuple[list[int], dict[int, int]]:
    """Whom to ask, and in whose place: by rank the one that stands where it does.

    Of many ranks that stand in one place some are asked, the first and the last among them.
    """
    classes: dict[bytes, list[int]] = {}
    for rank, card in cards.items():
        classes.setdefault(card if len(card) == exchange.CARD else b"%d" % rank, []).append(rank)
    asked, alike = list[int](), dict[int, int]()
    for those in classes.values():
        if len(cards) <= _ALL_ASKED or len(those) <= _ASKED_OF_A_CLASS:
            asked += those
            continue
        chosen = [*those[: _ASKED_OF_A_CLASS - 1], those[-1]]
        asked += chosen
        alike |= {rank: those[0] for rank in those if rank not in chosen}
    return sorted(asked), alike


def _of_silence(ranks: Sequence[int]) -> str:
    return (
        f"{words.ranks(ranks)} {words.verb(ranks, 'does', 'do')} not answer: dead, stopped, or in "
        "something that lets no other thread of the process run"
    )


def _blobs(rank: int, listing: bytes, ranks: Ranks, reach: int) -> Iterator[StoreBlob]:
    """A rank's files, as it lists them; those that are not its own are passed over.

    Raises:
        ValueError: it is no list.

    """
    told = exchange.decode(Listing, listing)
    for file, (name, size) in enumerate(zip(told.names, told.sizes, strict=True)):
        if is_of(rank, name) and 0 <= size < 1 << 50:
            yield StoreBlob(f"{ranks.keys.run}/{name}", size, rank, file, ranks, reach)


def _read_ends(ranks: Ranks, blobs: Sequence[StoreBlob]) -> tuple[list[int], list[StoreBlob]]:
    """Read both ends of all files, of all ranks together.

    The ranks that have stopped answering, and the files of the others that are still there: the
    oldest segments go while others are written.
    """
    silent: set[int] = set()
    gone: set[tuple[int, int]] = set()
    count = max(1, len({blob.rank for blob in blobs}))
    most = max(2 * _SMALLEST_END, min(2 * LARGEST_ANSWER, _AHEAD // count))
    wanted: dict[int, list[tuple[StoreBlob, int, int]]] = {}
    for blob in blobs:
        half = most // 2
        ends = [(0, half), (max(half, blob.size - half), blob.size)]
        for begin, stop in ends:
            start = begin
            while known := blob.known(start):
                start += len(known)
            if start < min(stop, blob.size):
                wanted.setdefault(blob.rank, []).append((blob, start, min(stop, blob.size)))
    while wanted:
        now = [wanted[rank].pop(0) for rank in wanted]
        answers = ranks.ask([(blob.rank, blob.file, start, stop) for blob, start, stop in now])
        for (blob, start, stop), part in zip(now, answers, strict=True):
            if part is None:
                silent.add(blob.rank)
            elif len(part) != stop - start:
                gone.add((blob.rank, blob.file))
            else:
                blob.parts[start] = part
        wanted = {r: left for r, left in wanted.items() if left and r not in silent}
    left = [b for b in blobs if b.rank not in silent and (b.rank, b.file) not in gone]
    return sorted(silent), left
