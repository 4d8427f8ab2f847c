"""What ranks, and those who read their files, say to each other through the job's store.

A *turn* is one look at all ranks, one at a time: whoever opens it may ask, and as long as it is
open every rank answers for its own files. Every message is small, and read as what a stranger has
written: one that is not as it should be is a :class:`ValueError`, never anything else.
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
"""What the URL of a job's store begins with."""

ANNOUNCED: Final = f"{_ROOT}/run"
"""Key of the :class:`Announced` of the latest run."""

LARGEST_ANSWER: Final = 256 << 10
"""Bytes of a file that one answer holds."""

_LARGEST_MESSAGE: Final = 64 << 10
_LONGEST_TEXT: Final = 4000

CARD: Final = 16
"""Bytes of a digest of where a rank stands."""

LARGEST_LEFT: Final = 1 << 20
"""Bytes of its files that a rank leaves behind."""

MOST_FILES: Final = 64
"""Files of one rank: segments, and what signal handlers wrote."""

MOST_TURNS: Final = 10**9
"""Turns are numbered below this; a stranger may have written any number."""

T = TypeVar("T")


TEXTS: Final = -2
"""In place of a file's index: the list of texts of the program, by their hashes."""

MOST_TEXT: Final = 4 << 20
"""Bytes of the program's text that are asked for in one turn."""


@dataclass(frozen=True, slots=True)
class Announced:
    """The run that is on."""

    run: str
    world_size: int
    heartbeat: float
    """Seconds; a rank looks for an open turn more often than that."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One look at all ranks: the value of ``Keys.turn``."""

    number: int
    """From 1."""
    by: str
    """Who has opened it, in words."""
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
    """What a rank has left of its files when it ended: all of them, or parts that lie apart."""

    run: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    files: tuple[int, ...]
    """Of each part the index of its file, where it starts there, and how long it is."""
    starts: tuple[int, ...]
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a turn has found: in one line for everybody, and what is to be done about it."""

    turn: int
    by: str
    status: str
    headline: str
    """Empty: no error was found."""
    kind: str
    is_proven: bool
    """By digests or by ends, not by time alone."""
    also: tuple[str, ...] = ()
    """Further errors that have nothing to do with that one, in one line each."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one run, told apart from those of other runs at the same store."""

    run: str

    @property
    def turn(self) -> str:
        """Of the :class:`Turn` that is open, or was last."""
        return f"{_ROOT}/{self.run}/turn"

    @staticmethod
    def position(stream: str) -> str:
        """Where a rank stood in a stream, which the others compare with; it says in which run."""
        return f"{_ROOT}/at/{stream}"

    def card(self, turn: int, rank: int) -> str:
        """Of a digest, :data:`CARD` bytes, of where a rank stands that will answer in this turn.

        Ranks whose digests are equal have called the same, and are in the same.
        """
        return f"{_ROOT}/{self.run}/{turn}/card/{rank}"

    def ask(self, turn: int, rank: int) -> str:
        """An :class:`Ask`."""
        return f"{_ROOT}/{self.run}/{turn}/ask/{rank}"

    def answer(self, turn: int, rank: int) -> str:
        """See :func:`pack`."""
        return f"{_ROOT}/{self.run}/{turn}/answer/{rank}"

    @staticmethod
    def left(rank: int) -> str:
        """Where a rank leaves what :func:`pack_left` makes: it says of which run it is.

        One key per rank for all runs, so that nobody has to remove it.
        """
        return f"{_ROOT}/left/{rank}"

    def verdict(self, turn: int) -> str:
        """A :class:`Verdict`."""
        return f"{_ROOT}/{self.run}/{turn}/verdict"


def encode(message: Any) -> bytes:
    """One of the messages above, as it is sent."""
    return json.dumps(asdict(message), separators=(",", ":")).encode()


def decode(kind: type[T], data: bytes) -> T:
    """A message as it came.

    Raises:
        ValueError: it is none of this kind.

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
"""The types of every message's fields; a list stands for some of its element's type."""


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
    """The answer to an ask."""
    return b"%d\n" % number + zlib.compress(data, 1)


def unpack(answer: bytes, number: int) -> bytes | None:
    """What an answer holds; None: it answers another ask than that of this ``number``.

    Raises:
        ValueError: it cannot be read, or holds more than was asked for.

    """
    told, _, packed = answer.partition(b"\n")
    if told != b"%d" % number:
        return None
    return _inflated(packed, LARGEST_ANSWER)


def pack_left(left: Left, parts: Sequence[bytes]) -> bytes:
    """What a rank leaves, with the bytes of its parts."""
    return encode(left) + b"\n" + zlib.compress(b"".join(parts), 1)


def unpack_left(value: bytes) -> tuple[Left, list[bytes]]:
    """What a rank has left, and the bytes of its parts.

    Raises:
        ValueError: it cannot be read, or is not as one is.

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


def told(headline: str) -> str:
    """A short name for what has been told: many of them fit into one argument of a process."""
    return hashlib.blake2b(headline.encode(errors="replace"), digest_size=8).hexdigest()


def turn_of(value: bytes | None) -> Turn | None:
    """The turn that a value tells of; None: there has been none, or it tells of none.

    A turn that is written in another way than :func:`encode` does it is none: it could not be
    closed.
    """
    if value is None:
        return None
    try:
        turn = decode(Turn, value)
    except ValueError:
        return None
    return turn if 0 < turn.number < MOST_TURNS and encode(turn) == value else None


def following(last: Turn | None) -> int:
    """The number of the turn after this one; None: there has been none."""
    return 1 if last is None or last.number + 1 >= MOST_TURNS else last.number + 1


def open_turn(store: JobStore, keys: Keys, by: str) -> Turn | None:
    """Open a turn; None: one is open, or somebody else was faster.

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
"""Stands in ``Turn.by`` once nobody has come to look, though the turn had been opened for that."""


def close_turn(store: JobStore, keys: Keys, turn: Turn, *, in_vain: bool = False) -> None:
    """Close a turn that is open; nothing where it is not open any more.

    ``in_vain``: no rank has been looked at, and so another is to open the next.

    Raises:
        StoreError: the store does not answer.

    """
    closed = Turn(turn.number, NOBODY if in_vain else turn.by, is_open=False)
    store.compare_set(keys.turn, encode(turn), encode(closed))


def clean_up(store: JobStore, keys: Keys, turn: int, world_size: int) -> None:
    """Remove what was said in a turn that is closed, but for its verdict.

    Whoever closes a turn does this: answers are long, and the store is the job's.

    Raises:
        StoreError: the store does not answer.

    """
    for rank in range(world_size):
        for key in (keys.card, keys.ask, keys.answer):
            store.delete(key(turn, rank))
