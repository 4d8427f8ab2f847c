"""Read the files of running ranks, from the ranks themselves through the job's store.

The store is named by ``tcpstore://HOST:PORT``, or with the run's id: ``tcpstore://HOST:PORT/RUN``.
``?turn=N`` names a session that is open already; whoever has opened it closes it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from collectrace import exchange, words
from collectrace.align.reading.asked_files import PATIENCE, PAUSE, AskedTexts, Ranks, StoreBlob
from collectrace.align.reading.source import Folder
from collectrace.align.reading.unasked import alike_blobs, is_of
from collectrace.errors import LogError, NotNow, NotThere
from collectrace.exchange import LARGEST_ANSWER, SCHEME, Announced, Keys, Listing, Turn
from collectrace.job_store import JobStore, StoreError
from collectrace.log_folder import Blob

_TO_COME: Final = 2.0
"""Seconds, beyond a heartbeat, within which a rank must announce that it will answer."""

_AHEAD: Final = 32 << 20
"""Bytes that are requested in advance, divided among the ranks: of a file longer than its share
both ends, half of the share each."""

_SMALLEST_END: Final = 16 << 10
"""Least bytes of an end that are requested: a header, or a rank's last lines."""

_MOST_RANKS: Final = 100_000

_ALL_ASKED: Final = 32
"""Number of ranks up to which all are queried, even if they are in the same state."""

_ASKED_OF_A_CLASS: Final = 4
"""Ranks that are queried in a larger group with the same state."""

_URL: Final = re.compile(
    r"tcpstore://(?P<host>\[[0-9a-fA-F:.]+\]|[^/:?]+):(?P<port>\d{1,5})"
    r"(?:/(?P<run>[^/?]+)?/?)?(?:\?turn=(?P<turn>\d{1,9}))?"
)


@dataclass(slots=True)
class Memory:
    """What one read of a job keeps for the next."""

    heartbeat: float = 0.0
    """Seconds, as the job announced it; 0: not read yet."""
    blobs: dict[str, StoreBlob] = field(default_factory=dict)
    """The files as they were read, by name."""


@contextmanager
def opened(
    url: str, announced: Announced | None = None, memory: Memory | None = None
) -> Iterator[Folder]:
    """Yield a folder of the files of all ranks that answer, open during the context.

    ``announced``: the run, if it is known; then the store's announcement is not read. With a
    ``memory`` the ends that an earlier call read are not requested again.

    Raises:
        LogError: the URL is invalid, or the store or every rank does not answer.
        NotThere: no job compares its calls there.
        NotNow: another reader is querying the ranks.

    """
    memory = memory or Memory()
    match = _URL.fullmatch(url)
    if match is None:
        raise LogError(
            f"{url.removeprefix(SCHEME)} is not the address of a store. Give HOST:PORT, or "
            "HOST:PORT/RUN."
        )
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
                ranks.is_over = True
                exchange.close_turn(store, keys, turn)
                exchange.clean_up(store, keys, turn.number, announced.world_size)
        finally:
            store.close()
    except StoreError as problem:
        raise LogError(str(problem)) from None


def _announced(store: JobStore, url: str) -> Announced:
    """Return the announced run; waits for a job that has only just begun."""
    until = time.monotonic() + PATIENCE
    while (value := store.read(exchange.ANNOUNCED)) is None and time.monotonic() < until:
        time.sleep(PAUSE)
    if value is None:
        raise NotThere(
            f"{url}: no job compares its calls at this store. Start it with COLLECTRACE_ONLINE=1."
        )
    try:
        announced = exchange.decode(Announced, value)
    except ValueError:
        raise LogError(
            f"{url}: the announcement of the job is damaged. Read its files instead."
        ) from None
    if not 0 < announced.world_size <= _MOST_RANKS or not 0 < announced.heartbeat < 1e6:
        raise LogError(f"{url}: the announcement of the job is damaged. Read its files instead.")
    return announced


def _turn(store: JobStore, keys: Keys) -> Turn:
    until = time.monotonic() + PATIENCE
    while True:
        turn = exchange.open_turn(store, keys, "a reader outside the job")
        if turn is not None:
            return turn
        if time.monotonic() > until:
            raise NotNow("another reader is querying the ranks. Try again in a minute.")
        time.sleep(PAUSE)


def _folder(url: str, ranks: Ranks, announced: Announced, memory: Memory) -> Folder:
    """Return the files of the ranks, with both ends already read."""
    world_size, run = announced.world_size, ranks.keys.run
    ended = ranks.ended(range(world_size))
    others = [rank for rank in range(world_size) if rank not in ended]
    cards = ranks.present(others, announced.heartbeat + _TO_COME)
    # A rank that has ended meanwhile is not silent.
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
    there = _read_ends(ranks, found)
    memory.blobs = {blob.name: blob for blob in there}
    read = dict[int, list[Blob]]()
    for blob in there:
        read.setdefault(blob.rank, []).append(blob)
    for rank, other in alike.items():
        if other in read:
            read[rank] = list(alike_blobs(rank, read[other], run))
    read |= {rank: list[Blob](blobs) for rank, blobs in ended.items()}
    if not read:
        raise LogError(
            f"{url}: none of {words.counted(world_size, 'rank')} answers. Read their files instead."
        )
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
        is_far=True, notes=tuple(notes), texts=AskedTexts(ranks, listed).of,
    )  # fmt: skip


def _representatives(cards: Mapping[int, bytes]) -> tuple[list[int], dict[int, int]]:
    """Return the ranks to ask, and by other rank the asked one in the same state.

    If many ranks are in the same state, only some are asked, with the first and the last.
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
    """Yield a rank's own files, as it lists them; other names are skipped.

    Raises:
        ValueError: the listing is damaged.

    """
    told = exchange.decode(Listing, listing)
    for file, (name, size) in enumerate(zip(told.names, told.sizes, strict=True)):
        if is_of(rank, name) and 0 <= size < 1 << 50:
            yield StoreBlob(f"{ranks.keys.run}/{name}", size, rank, file, ranks, reach)


def _read_ends(ranks: Ranks, blobs: Sequence[StoreBlob]) -> list[StoreBlob]:
    """Read both ends of all files, of all ranks together; return the files that are left.

    Ranks may have stopped answering, and the oldest segments are removed while others are written.
    """
    silent: set[int] = set()
    gone: set[tuple[int, int]] = set()
    count = max(1, len({blob.rank for blob in blobs}))
    most = max(2 * _SMALLEST_END, min(2 * LARGEST_ANSWER, _AHEAD // count))
    wanted: dict[int, list[tuple[StoreBlob, int, int]]] = {}
    for blob in blobs:
        half = most // 2
        for start, stop in ((0, half), (max(half, blob.size - half), blob.size)):
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
    return [b for b in blobs if b.rank not in silent and (b.rank, b.file) not in gone]
