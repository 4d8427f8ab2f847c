"""The files of ranks that run now, asked of the ranks themselves through the job's store.

The store is named by ``tcpstore://HOST:PORT``, or with the run's id behind it:
``tcpstore://HOST:PORT/RUN``. With ``?turn=N`` the turn is one that has been opened already, and
who has opened it closes it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from collectrace import exchange, words
from collectrace.align.reading.source import Blob, Folder
from collectrace.errors import LogError, NotThere
from collectrace.exchange import LARGEST_ANSWER, SCHEME, Announced, Ask, Keys, Listing, Turn
from collectrace.job_store import JobStore, StoreError

_TIMEOUT: Final = 5.0
"""Seconds that a request to the store may take."""

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

_URL: Final = re.compile(
    r"tcpstore://(?P<host>\[[0-9a-fA-F:.]+\]|[^/:?]+):(?P<port>\d{1,5})"
    r"(?:/(?P<run>[^/?]+)?/?)?(?:\?turn=(?P<turn>\d{1,9}))?"
)

_NAME: Final = re.compile(r"rank(\d{1,9})(\+\d+)?(\.\d+)?\.(jsonl|stacks\.txt|ends\.txt)")


@dataclass(slots=True)
class Ranks:
    """The ranks of a run, asked in one turn."""

    store: JobStore
    keys: Keys
    turn: int
    asked: dict[int, int] = field(default_factory=dict)
    """By rank, how often it was asked."""
    received: int = 0
    """Bytes of files."""

    def present(self, world_size: int, patience: float) -> list[int]:
        """The ranks that say that they will answer; waits for the others ``patience`` seconds."""
        waiting, found = list(range(world_size)), []
        until = time.monotonic() + patience
        while True:
            cards = self.store.read_all([self.keys.card(self.turn, rank) for rank in waiting])
            found += [rank for rank, card in zip(waiting, cards, strict=True) if card is not None]
            waiting = [rank for rank, card in zip(waiting, cards, strict=True) if card is None]
            if not waiting or time.monotonic() > until:
                return sorted(found)
            time.sleep(_pause(len(waiting)))

    def ask(self, asks: Sequence[tuple[int, int, int, int]]) -> list[bytes | None]:
        """Bytes of files: rank, file, start and stop of each, of a rank one at a time.

        None: it does not answer, or not as it should.
        """
        found: list[bytes | None] = [None] * len(asks)
        waiting: dict[int, int] = {}  # rank: index of its ask
        for n, (rank, file, start, stop) in enumerate(asks):
            number = self.asked[rank] = self.asked.get(rank, 0) + 1
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

    def clean_up(self, world_size: int) -> None:
        """Remove what was said in this turn, but for its verdict."""
        for rank in range(world_size):
            for key in (self.keys.card, self.keys.ask, self.keys.answer):
                self.store.delete(key(self.turn, rank))


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
    parts: dict[int, bytes] = field(default_factory=dict)
    """What is known of it, by offset."""

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`collectrace.align.reading.source.Blob`."""
        stop = min(stop, self.size)
        found = []
        while start < stop:
            part = self._known(start) or self._fetch(start, stop)
            found.append(part[: stop - start])
            start += len(found[-1])
        return b"".join(found)

    def _known(self, start: int) -> bytes:
        """What is known from an offset on; nothing, where that is not known."""
        for offset, part in self.parts.items():
            if offset <= start < offset + len(part):
                return part[start - offset :]
        return b""

    def _fetch(self, start: int, stop: int) -> bytes:
        stop = min(stop, start + LARGEST_ANSWER)
        try:
            (part,) = self.ranks.ask([(self.rank, self.file, start, stop)])
        except StoreError as problem:
            raise LogError(str(problem)) from None
        # Shorter than the file was: it is gone, or shrunk. Nothing is concluded from a part.
        if part is None or len(part) != stop - start:
            raise LogError(f"rank {self.rank} has stopped answering; ask again")
        self.parts[start] = part
        return part


@contextmanager
def opened(url: str, announced: Announced | None = None) -> Iterator[Folder]:
    """The files of the ranks that answer, as long as they are to be read.

    ``announced``: the run, where it is known; nobody looks then what the store says of it.

    Raises:
        LogError: the URL is none, the store or every rank does not answer, or somebody else asks.
        NotThere: no job compares notes there.

    """
    match = _URL.fullmatch(url)
    if match is None:
        raise LogError(f"{url} is not {SCHEME}HOST:PORT or {SCHEME}HOST:PORT/RUN")
    try:
        store = JobStore(match["host"].strip("[]"), int(match["port"]), _TIMEOUT)
        try:
            announced = announced or _announced(store, url)
            keys = Keys(match["run"] or announced.run)
            if match["turn"] is not None:
                yield _folder(url, Ranks(store, keys, int(match["turn"])), announced)
                return
            turn = _turn(store, keys)
            ranks = Ranks(store, keys, turn.number)
            try:
                yield _folder(url, ranks, announced)
            finally:
                exchange.close_turn(store, keys, turn)
                ranks.clean_up(announced.world_size)
        finally:
            store.close()
    except StoreError as problem:
        raise LogError(str(problem)) from None


def _announced(store: JobStore, url: str) -> Announced:
    value = store.read(exchange.ANNOUNCED)
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
            raise LogError("somebody else is asking the ranks; try again in a minute")
        time.sleep(_PAUSE)


def _folder(url: str, ranks: Ranks, announced: Announced) -> Folder:
    """What the ranks have, both ends of it read already."""
    world_size, run = announced.world_size, ranks.keys.run
    present = ranks.present(world_size, announced.heartbeat + _TO_COME)
    blobs: list[StoreBlob] = []
    answering = []
    listings = ranks.ask([(rank, -1, 0, 0) for rank in present])
    for rank, listing in zip(present, listings, strict=True):
        try:
            files = list(_blobs(rank, listing or b"", ranks))
        except ValueError:
            continue
        if files:
            answering.append(rank)
            blobs += files
    if not blobs:
        raise LogError(f"{url}: none of {words.counted(world_size, 'rank')} answers")
    silent = sorted(set(range(world_size)) - set(answering))
    silent += _read_ends(ranks, blobs)
    blobs = [blob for blob in blobs if blob.rank not in silent]
    notes = (_of_silence(silent),) if silent else ()
    return Folder(url, run, list[Blob](blobs), None, is_fixed=True, is_far=True, notes=notes)


def _of_silence(ranks: Sequence[int]) -> str:
    return (
        f"{words.ranks(ranks)} {words.verb(ranks, 'does', 'do')} not answer: dead, stopped, or in "
        "something that lets no other thread of the process run"
    )


def _blobs(rank: int, listing: bytes, ranks: Ranks) -> Iterator[StoreBlob]:
    """A rank's files, as it lists them; those that are not its own are passed over.

    Raises:
        ValueError: it is no list.

    """
    told = exchange.decode(Listing, listing)
    for file, (name, size) in enumerate(zip(told.names, told.sizes, strict=True)):
        match = _NAME.fullmatch(name)
        if match is not None and int(match[1]) == rank and 0 <= size < 1 << 50:
            yield StoreBlob(f"{ranks.keys.run}/{name}", size, rank, file, ranks)


def _read_ends(ranks: Ranks, blobs: Sequence[StoreBlob]) -> list[int]:
    """Read both ends of all files, of all ranks together; the ranks that have stopped answering."""
    silent: set[int] = set()
    count = len({blob.rank for blob in blobs})
    most = max(2 * _SMALLEST_END, min(2 * LARGEST_ANSWER, _AHEAD // count))
    wanted: dict[int, list[tuple[StoreBlob, int, int]]] = {}
    for blob in blobs:
        half = most // 2
        ends = [(0, half), (max(half, blob.size - half), blob.size)]
        for start, stop in ends:
            if start < min(stop, blob.size):
                wanted.setdefault(blob.rank, []).append((blob, start, min(stop, blob.size)))
    while wanted:
        now = [wanted[rank].pop(0) for rank in wanted]
        answers = ranks.ask([(blob.rank, blob.file, start, stop) for blob, start, stop in now])
        for (blob, start, stop), part in zip(now, answers, strict=True):
            if part is None or len(part) != stop - start:
                silent.add(blob.rank)
            else:
                blob.parts[start] = part
        wanted = {r: left for r, left in wanted.items() if left and r not in silent}
    return sorted(silent)
