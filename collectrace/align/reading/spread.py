"""Read the rank files of a run, here, or in other processes or machines.

Each task reads some files with its own vocabulary. Its ids are replaced by those of the run's
vocabulary in file order, so the result equals that of a single process.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

from collectrace.align.reading.rank_reader import OnBytes, RankReader
from collectrace.align.reading.segments import Segments
from collectrace.align.reading.source import LocalBlob, RemoteBlob
from collectrace.align.reading.vocabulary import Vocabulary

_MOST_FILES: Final = 256
_MOST_BYTES: Final = 64 << 20
"""Files of one task, and bytes of those that are read from end to end."""


@dataclass(frozen=True, slots=True)
class Part:
    """The files of one rank, to be read."""

    segments: Segments
    rank: int
    provisional: bool
    whole: bool
    """Read from end to end, not at both ends only."""


def read(
    parts: Sequence[Part],
    vocabulary: Vocabulary,
    executor: Executor | None,
    on_bytes: OnBytes,
) -> Iterator[RankReader]:
    """Yield a reader for each part, in their order.

    Without an executor, or if another process cannot open the files, this process reads.
    """
    if executor is None or not all(map(_can_move, parts)):
        yield from (_read_part(part, vocabulary, on_bytes) for part in parts)
        return
    batches = list(_batches(parts))
    for batch, found in zip(batches, executor.map(_read_batch, batches), strict=True):
        translate = _Translation(found[0].records.vocabulary, vocabulary)
        for part, reader in zip(batch, found, strict=True):
            translate.apply(reader)
            part.segments.bytes_read += reader.segments.bytes_read
            part.segments.unreadable.update(reader.segments.unreadable)
            reader.segments = part.segments
            on_bytes(part.segments.size)
            yield reader


def _can_move(part: Part) -> bool:
    """Return whether another process can open the files: they are neither unpacked nor remote."""
    return all(isinstance(blob, LocalBlob | RemoteBlob) for blob in part.segments.blobs)


def _read_part(part: Part, vocabulary: Vocabulary, on_bytes: OnBytes) -> RankReader:
    reader = RankReader(part.segments, part.rank, vocabulary, provisional=part.provisional)
    if not part.whole:
        reader.skim()
        on_bytes(part.segments.size)
    # Calls that the tracer could not describe may be anywhere, and must be found.
    if part.whole or reader.records.failures:
        reader.scan(on_bytes)
    return reader


def _batches(parts: Sequence[Part]) -> Iterator[list[Part]]:
    batch: list[Part] = []
    size = 0
    for part in parts:
        more = part.segments.size if part.whole else 0
        if batch and (len(batch) >= _MOST_FILES or size + more > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += more
    if batch:
        yield batch


def _read_batch(batch: Sequence[Part]) -> list[RankReader]:
    vocabulary = Vocabulary()
    return [_read_part(part, vocabulary, lambda _: None) for part in batch]


class _Translation:
    """Maps the ids of one vocabulary to those of another."""

    def __init__(self, source: Vocabulary, target: Vocabulary) -> None:
        self._target = target
        self._meanings = [target.adopt_meaning(text, source) for text in source.meanings]
        self._appearances = [
            target.adopt_appearance(one, source.holds[n])
            for n, one in enumerate(source.appearances)
        ]

    def apply(self, reader: RankReader) -> None:
        """Give a reader the target's ids."""
        records = reader.records
        records.vocabulary = self._target
        records.members.update(
            {name: self._target.members(ranks) for name, ranks in records.members.items()}
        )
        for rows in records.rows.values():
            rows.vocabulary = self._target
            rows.meaning = array("i", [self._meanings[n] for n in rows.meaning])
            rows.appearance = array("i", [self._appearances[n] for n in rows.appearance])
