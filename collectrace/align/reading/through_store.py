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
from pathlib import PurePosixPath
from typing import Final

import orjson

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

_ALL_ASKED: Final = 32
"""Ranks that are asked one by one, whether they stand in one place or not."""

_ASKED_OF_A_CLASS: Final = 4
"""Ranks that are asked of more who stand in one place."""

_LONGEST_HEADER: Final = 64 << 10
"""Bytes of a record's first line."""

_CHECKPOINT: Final = b'\n{"kind":"checkpoint"'

_OF_ALL: Final = ("t", "format", "run", "world_size", "wall", "heartbeat", "stall_after")
"""What of a header is the same on all ranks, or nearly: they all began together."""

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

    def ended(self, among: Sequence[int]) -> dict[int, list[LeftBlob]]:
        """The files of those ranks that have ended, and left them."""
        values = self.store.read_all([Keys.left(rank) for rank in among])
        found = {}
        for rank, value in zip(among, values, strict=True):
            with suppress(ValueError):
                if value is not None and (blobs := _left_blobs(self.keys.run, rank, value)):
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


def _known(parts: dict[int, bytes], start: int) -> bytes:
    """What is known from an offset on; nothing, where that is not known."""
    for offset, part in parts.items():
        if offset <= start < offset + len(part):
            return part[start - offset :]
    return b""


def _pause(ranks: int) -> float:
    return max(_PAUSE, ranks / _RANKS_PER_SECOND)


@dataclass(frozen=True, slots=True)
class LeftBlob:
    """A file that a rank has left when it ended, or an end of one."""

    name: str
    data: bytes

    @property
    def size(self) -> int:
        """See :class:`collectrace.align.reading.source.Blob`."""
        return len(self.data)

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`collectrace.align.reading.source.Blob`."""
        return self.data[start:stop]


@dataclass(slots=True)
class AlikeBlob:
    """The record of a rank that stands where another does, which was read in its place."""

    name: str
    rank: int
    other: Blob
    _begins: bytes = b""
    """Its first line, which says whose record it is."""
    _instead_of: int = 0
    """Bytes of the other's first line."""

    def __post_init__(self) -> None:
        line = self.other.read(0, min(self.other.size, _LONGEST_HEADER)).partition(b"\n")[0]
        self._instead_of = len(line)
        header = orjson.loads(line)
        if not isinstance(header, dict):
            raise TypeError("a record that begins with no header")
        # Where it runs, and what else its own header would say, is not known.
        known = {name: header[name] for name in _OF_ALL if name in header}
        self._begins = orjson.dumps({"kind": "header", **known, "rank": self.rank})

    @property
    def size(self) -> int:
        """See :class:`collectrace.align.reading.source.Blob`."""
        return self.other.size + len(self._begins) - self._instead_of

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`collectrace.align.reading.source.Blob`."""
        shift = self._instead_of - len(self._begins)
        first = self._begins[start:stop]
        return first + self.other.read(
            max(start, len(self._begins)) + shift, max(stop, len(self._begins)) + shift
        )


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
            part = _known(self.parts, start) or self._fetch(start, stop)
            found.append(part[: stop - start])
            start += len(found[-1])
        return b"".join(found)

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
def opened(url: str) -> Iterator[Folder]:
    """The files of the ranks that answer, as long as they are to be read.

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
            announced = _announced(store, url)
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
    ended = ranks.ended(range(world_size))
    others = [rank for rank in range(world_size) if rank not in ended]
    cards = ranks.present(others, announced.heartbeat + _TO_COME)
    # Who has ended meanwhile is not silent.
    ended |= ranks.ended([rank for rank in others if rank not in cards])
    asked, alike = _representatives(cards)
    listed = dict[int, list[StoreBlob]]()
    listings = ranks.ask([(rank, -1, 0, 0) for rank in asked])
    for rank, listing in zip(asked, listings, strict=True):
        with suppress(ValueError):
            listed[rank] = list(_blobs(rank, listing or b"", ranks))
    lost = _read_ends(ranks, [blob for blobs in listed.values() for blob in blobs])
    read: dict[int, list[Blob]] = {
        rank: list[Blob](blobs) for rank, blobs in listed.items() if blobs and rank not in lost
    }
    for rank, other in alike.items():
        if other in read:
            read[rank] = list(_alike(rank, read[other], run))
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


def _alike(rank: int, blobs: Sequence[Blob], run: str) -> Iterator[AlikeBlob]:
    """The record of a rank, told from that of another."""
    for blob in blobs:
        match = _NAME.fullmatch(PurePosixPath(blob.name).name)
        if match is not None and match[4] == "jsonl":
            name = f"{run}/rank{rank:05d}{match[2] or ''}{match[3] or ''}.jsonl"
            with suppress(ValueError, TypeError):
                yield AlikeBlob(name, rank, blob)


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
        if _is_of(rank, name) and 0 <= size < 1 << 50:
            yield StoreBlob(f"{ranks.keys.run}/{name}", size, rank, file, ranks)


def _left_blobs(run: str, rank: int, value: bytes) -> list[LeftBlob]:
    """The files that a rank has left; none, where it has left them to another run.

    Of a long record it has left the ends. They become segments between which others are gone,
    which is what a record looks like whose middle was rotated away.

    Raises:
        ValueError: it is not as it should be.

    """
    left, data = exchange.unpack_left(value)
    if left.run != run:
        return []
    names = [_NAME.fullmatch(name) for name in left.names]
    parts = dict[int, list[tuple[int, bytes]]]()
    for file, start, part in sorted(zip(left.files, left.starts, data, strict=True)):
        parts.setdefault(file, []).append((start, part))
    found, records = list[LeftBlob](), list[tuple[int, str, int]]()
    for n, match in enumerate(names):
        if match is None or int(match[1]) != rank or n not in parts:
            continue
        if match[4] == "jsonl":
            records.append((int((match[3] or ".0")[1:]), match[2] or "", n))
        else:
            found.append(LeftBlob(f"{run}/{left.names[n]}", parts[n][0][1]))
    to, found_any = 0, False
    before = -1, False
    """The file of the last segment, and whether it reaches to the end of that."""
    for ordinal, twin, n in sorted(records):
        for start, part in _merged(parts[n]):
            follows = before == (ordinal - 1, True) and not start
            to = to + (1 if follows else 2) if found_any else ordinal
            ends = start + len(part) >= left.sizes[n]
            before, found_any = (ordinal, ends), True
            name = f"{run}/rank{rank:05d}{twin}{f'.{to:04d}' if to else ''}.jsonl"
            found.append(LeftBlob(name, _whole_lines(part, begins=not start, ends=ends)))
    return found


def _merged(parts: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Parts of one file, in order of their starts; those that touch each other as one."""
    found = list[tuple[int, bytes]]()
    for start, part in parts:
        if found and start <= found[-1][0] + len(found[-1][1]):
            at, known = found[-1]
            found[-1] = at, known + part[at + len(known) - start :]
        else:
            found.append((start, part))
    return found


def _whole_lines(part: bytes, *, begins: bool, ends: bool) -> bytes:
    """A part of a record without a line that is cut; the later one from a checkpoint on."""
    if not begins:
        first = part.find(_CHECKPOINT)
        part = part[first + 1 :] if first >= 0 else part[part.find(b"\n") + 1 :]
    return part if ends else part[: part.rfind(b"\n") + 1]


def _is_of(rank: int, name: str) -> bool:
    """Whether a name is that of one of a rank's own files."""
    match = _NAME.fullmatch(name)
    return match is not None and int(match[1]) == rank


def _read_ends(ranks: Ranks, blobs: Sequence[StoreBlob]) -> list[int]:
    """Read both ends of all files, of all ranks together; the ranks that have stopped answering."""
    silent: set[int] = set()
    count = max(1, len({blob.rank for blob in blobs}))
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
