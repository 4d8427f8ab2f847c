"""The messages between ranks, and readers of their files, through the job's store.

A *turn* is one query of all ranks; only one is open at a time. Whoever opened it may ask, and every
rank answers for its own files until it is closed. Messages are small and untrusted: a malformed one
is a :class:`ValueError`, never anything else.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, TypeVar

from collectrace.job_store import JobStore

_ROOT: Final = "collectrace/online"

SCHEME: Final = "tcpstore://"
"""The scheme of the URL of a job's store."""

ANNOUNCED: Final = f"{_ROOT}/run"
"""Key of the :class:`Announced` of the latest run."""

LARGEST_ANSWER: Final = 256 << 10
"""Most bytes of a file in one answer."""

_LARGEST_MESSAGE: Final = 64 << 10
_LONGEST_TEXT: Final = 4000

CARD: Final = 16
"""Bytes of the digest of a rank's position."""

LARGEST_LEFT: Final = 1 << 20
"""Most bytes of its files that a rank leaves when it ends."""

MOST_FILES: Final = 64
"""Most files of one rank: segments, and what signal handlers wrote."""

MOST_TURNS: Final = 10**9
"""Limit of the numbers of turns; the store may hold any number."""

T = TypeVar("T")


TEXTS: Final = -2
"""The file index that means the list of source texts, by hash."""

MOST_TEXT: Final = 4 << 20
"""Most bytes of source text in one turn."""


@dataclass(frozen=True, slots=True)
class Announced:
    """The current run."""

    run: str
    world_size: int
    heartbeat: float
    """Seconds; ranks check for an open turn more often than that."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One query of all ranks: the value of ``Keys.turn``."""

    number: int
    """Its number, from 1."""
    by: str
    """Who opened it, in words."""
    is_open: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to one rank: which files it has (``file`` -1), or bytes of one of them.

    With ``file`` :data:`TEXTS`: which texts of the program it has, from the one numbered ``start``
    on; with ``TEXTS - 1 - n``: bytes of the n-th of them.
    """

    number: int
    file: int = -1
    """Index in its list of files."""
    start: int = 0
    stop: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of one rank: names without a folder, and sizes, bytes."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """What an ended rank left of its files: all of them, or separate parts."""

    run: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    files: tuple[int, ...]
    """For each part: the index of its file, its start there, and its length."""
    starts: tuple[int, ...]
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a turn: one line for all ranks, and whether to act on it."""

    turn: int
    by: str
    status: str
    headline: str
    """Empty: no error was found."""
    kind: str
    is_proven: bool
    """Whether digests or ends prove it, not time alone."""
    also: tuple[str, ...] = ()
    """Further, independent errors, one line each."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one run, separate from those of other runs in the same store."""

    run: str

    @property
    def turn(self) -> str:
        """The key of the :class:`Turn` that is open, or was last."""
        return f"{_ROOT}/{self.run}/turn"

    @staticmethod
    def position(stream: str) -> str:
        """The key of a rank's position in a stream; the value names the run."""
        return f"{_ROOT}/at/{stream}"

    def card(self, turn: int, rank: int) -> str:
        """The key of the digest, :data:`CARD` bytes, of a rank's position in this turn.

        Ranks with equal digests have identical histories and state.
        """
        return f"{_ROOT}/{self.run}/{turn}/card/{rank}"

    def ask(self, turn: int, rank: int) -> str:
        """The key of an :class:`Ask`."""
        return f"{_ROOT}/{self.run}/{turn}/ask/{rank}"

    def answer(self, turn: int, rank: int) -> str:
        """The key of an answer, see :func:`pack`."""
        return f"{_ROOT}/{self.run}/{turn}/answer/{rank}"

    @staticmethod
    def left(rank: int) -> str:
        """The key of what :func:`pack_left` makes; the value names the run.

        There is one key per rank for all runs, so that none has to be removed.
        """
        return f"{_ROOT}/left/{rank}"

    def verdict(self, turn: int) -> str:
        """The key of a :class:`Verdict`."""
        return f"{_ROOT}/{self.run}/{turn}/verdict"


def encode(message: Any) -> bytes:
    """Encode one of the messages above."""
    return json.dumps(asdict(message), separators=(",", ":")).encode()


def decode(kind: type[T], data: bytes) -> T:
    """Decode a message.

    Raises:
        ValueError: it is not a message of this class.

    """
    if len(data) > _LARGEST_MESSAGE:
        raise ValueError("a message that is too long")
    try:
        fields = json.loads(data)
    except RecursionError:
        raise ValueError("a message that is nested too deep") from None
    wanted: dict[str, Any] = _SHAPES[kind]
    if not isinstance(fields, dict) or fields.keys() != wanted.keys():
        raise ValueError("a message with other fields")
    return kind(**{name: _checked(fields[name], wanted[name]) for name in wanted})


_SHAPES: Final[dict[type, dict[str, Any]]] = {
    Announced: {"run": str, "world_size": int, "heartbeat": float},
    Turn: {"number": int, "by": str, "is_open": bool},
    Ask: {"number": int, "file": int, "start": int, "stop": int},
    Listing: {"names": [str], "sizes": [int]},
    Left: {
        "run": str, "names": [str], "sizes": [int], "files": [int], "starts": [int],
        "lengths": [int],
    },
    Verdict: {
        "turn": int, "by": str, "status": str, "headline": str, "kind": str, "is_proven": bool,
        "also": [str],
    },
}  # fmt: skip
"""The types of every message's fields; a list means any number of its element's type."""


def _checked(value: Any, kind: Any) -> Any:
    if isinstance(kind, list):
        if not isinstance(value, list) or len(value) > MOST_FILES:
            raise ValueError("a list that is none, or too long")
        return tuple(_checked(item, kind[0]) for item in value)
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        raise ValueError("a number that is too large")
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (kind is str and len(value) > _LONGEST_TEXT):
        raise ValueError("a field of another type, or too long")
    if kind is str and any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError("a field that is no text")  # half a character: no file or key can hold it
    return value


def pack(number: int, data: bytes) -> bytes:
    """Encode the answer to an ask."""
    return b"%d\n" % number + zlib.compress(data, 1)


def unpack(answer: bytes, number: int) -> bytes | None:
    """Decode an answer; None: it answers another ask than this ``number``.

    Raises:
        ValueError: it cannot be read, or holds more than was asked for.

    """
    told, _, packed = answer.partition(b"\n")
    if told != b"%d" % number:
        return None
    return _inflated(packed, LARGEST_ANSWER)


def pack_left(left: Left, parts: Sequence[bytes]) -> bytes:
    """Encode what a rank leaves, with the bytes of its parts."""
    return encode(left) + b"\n" + zlib.compress(b"".join(parts), 1)


def unpack_left(value: bytes) -> tuple[Left, list[bytes]]:
    """Decode what a rank has left, and the bytes of its parts.

    Raises:
        ValueError: it cannot be read, or is malformed.

    """
    told, _, packed = value.partition(b"\n")
    left = decode(Left, told)
    ends = [0, *accumulate(left.lengths)]
    data = _inflated(packed, LARGEST_LEFT)
    parts = list(zip(left.files, left.starts, left.lengths, strict=True))
    if len(left.names) != len(left.sizes) or ends[-1] != len(data):
        raise ValueError("parts that do not fit")
    for file, start, length in parts:
        if not 0 <= file < len(left.sizes) or length < 0 or start < 0:
            raise ValueError("a part of no file")
    return left, [data[start:stop] for start, stop in pairwise(ends)]


def _inflated(packed: bytes, largest: int) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, largest + 1)
    except zlib.error as problem:
        raise ValueError(str(problem)) from None
    if len(data) > largest:
        raise ValueError("more bytes than are taken")
    return data


def headline_hash(headline: str) -> str:
    """Return a short hash of a headline: many of them fit into one process argument."""
    return hashlib.blake2b(headline.encode(errors="replace"), digest_size=8).hexdigest()


def turn_of(value: bytes | None) -> Turn | None:
    """Decode a turn; None: there has been none, or the value is not one.

    A turn that is not encoded as :func:`encode` does is rejected, because it could not be closed.
    """
    if value is None:
        return None
    try:
        turn = decode(Turn, value)
    except ValueError:
        return None
    return turn if 0 < turn.number < MOST_TURNS and encode(turn) == value else None


def following(last: Turn | None) -> int:
    """Return the number of the turn after this one; None: there has been none."""
    return 1 if last is None or last.number + 1 >= MOST_TURNS else last.number + 1


def open_turn(store: JobStore, keys: Keys, by: str) -> Turn | None:
    """Open a turn; None: one is open, or another process was faster.

    Raises:
        StoreError: the store does not answer.

    """
    before = store.read(keys.turn)
    last = turn_of(before)
    if last is not None and last.is_open:
        return None
    turn = Turn(following(last), by, is_open=True)
    wanted = encode(turn)
    return turn if store.compare_set(keys.turn, before or b"", wanted) == wanted else None


NOBODY: Final = "nobody"
"""The value of ``Turn.by`` if nobody used the turn."""


def close_turn(store: JobStore, keys: Keys, turn: Turn, *, in_vain: bool = False) -> None:
    """Close a turn if it is still open.

    ``in_vain``: no rank was read, so another one has to open the next.

    Raises:
        StoreError: the store does not answer.

    """
    closed = Turn(turn.number, NOBODY if in_vain else turn.by, is_open=False)
    store.compare_set(keys.turn, encode(turn), encode(closed))


def clean_up(store: JobStore, keys: Keys, turn: int, world_size: int) -> None:
    """Remove the messages of a closed turn, except its verdict.

    Whoever closes a turn does this, because answers are long and the store belongs to the job.

    Raises:
        StoreError: the store does not answer.

    """
    for rank in range(world_size):
        for key in (keys.card, keys.ask, keys.answer):
            store.delete(key(turn, rank))
