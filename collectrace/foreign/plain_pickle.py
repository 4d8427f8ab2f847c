"""Load pickles that hold only plain data: dicts, lists, tuples, strings, numbers, None.

A pickle is a program that may call any function. A small machine below executes only the opcodes
that plain data needs, and refuses others by name. They are those of CPython's
``Lib/pickletools.py`` (3.11 to 3.14), protocols 2 to 5.

Two things that let a small file use much memory or time are refused as well. One is more containers
than a dump of that size has. The other is keys that are tuples of tuples, which may take forever to
hash.
"""

from __future__ import annotations

import gc
import pickletools
import re
import struct
from collections.abc import Mapping
from typing import Any, Final

from collectrace.foreign.errors import NotReadable

MOST_BYTES: Final = 256 << 20
"""Of one file. A dump of 2,000 calls has about one megabyte, its stacks included."""

_FREE_CONTAINERS: Final = 100_000
_BYTES_PER_CONTAINER: Final = 5
"""A list or dict for so many bytes of file, beyond the first hundred thousand. The calls of a dump
have one for 15 to 30 bytes."""

_STOP: Final = ord(".")
_STRINGS: Final = {ord("X"): 4, 0x8C: 1, 0x8D: 8}
"""Opcodes of strings, and how many bytes hold their length: BINUNICODE, SHORT_BINUNICODE,
BINUNICODE8."""

_SETITEMS: Final = ord("u")

_GLOBALS: Final = frozenset({"GLOBAL", "INST"})


def loads(data: bytes) -> Any:
    """Return the plain data in a pickle.

    Raises:
        NotReadable: it has other content, is cut short, or is not a pickle.

    """
    if data[:1] != b"\x80" or not 2 <= (data[1] if len(data) > 1 else 0) <= 5:
        raise NotReadable("is not a pickle of protocol 2 to 5")
    check_size(data)
    collecting = gc.isenabled()
    gc.disable()  # thousands of containers, all of which are kept
    try:
        return Machine(data).run()
    except NotReadable:
        raise
    except (IndexError, KeyError):
        raise NotReadable("is cut short, or damaged") from None
    except Exception as problem:  # noqa: BLE001 - damaged opcodes raise what they like
        raise NotReadable(f"is damaged: {type(problem).__name__}") from None
    finally:
        if collecting:
            gc.enable()


def check_size(data: bytes) -> None:
    """Check that a pickle is not too large.

    Raises:
        NotReadable: it is too large, or its data would be.

    """
    if len(data) > MOST_BYTES:
        raise NotReadable(f"has {len(data) >> 20} MiB; at most {MOST_BYTES >> 20} are read")
    containers = data.count(b"]") + data.count(b"}")
    if containers > _FREE_CONTAINERS + len(data) // _BYTES_PER_CONTAINER:
        raise NotReadable("holds more containers than data")


def _refusal(data: bytes, at: int) -> str:
    """Why an opcode is not carried out, by its name and by what it asks for."""
    known = next((op for op in pickletools.opcodes if op.code == chr(data[at])), None)
    if known is None:
        return f"is damaged: byte {at} is not an opcode"
    if known.name in _GLOBALS:
        asked = b".".join(data[at + 1 : at + 200].split(b"\n")[:2]).decode("ascii", "replace")
        wanted = "".join(c for c in asked if c.isprintable())
        return f"refers to {wanted} ({known.name}): that is not plain data, and was not run"
    if known.name == "STACK_GLOBAL":
        return f"refers to {_named_before(data, at)} (STACK_GLOBAL): not plain data, and not run"
    return f"holds {known.name}, which plain data does not need: not run"


def _named_before(data: bytes, at: int) -> str:
    """The two short strings before a place, as ``os.system``."""
    found = re.findall(rb"\x8c[\s\S]([A-Za-z0-9_.]+)\x94?", data[max(0, at - 200) : at])
    return ".".join(one.decode() for one in found[-2:]) or "something by name"


class Machine:
    """Executes opcodes one after the other, and only those that plain data needs.

    Its methods raise NotReadable, or IndexError and KeyError where opcodes are damaged.
    """

    def __init__(self, data: bytes, memo: Mapping[int, Any] | None = None) -> None:
        self.memo: Any = {} if memo is None else memo
        """What the pickle puts aside, by number; one that is given may refuse to be added to."""
        self._data = data
        self._at = 2
        self._stack: list[Any] = []
        self._marks: list[int] = []

    def run(self) -> Any:
        """Return the value that the whole pickle builds."""
        self._carry_out(_STOP)
        return self._stack.pop()

    def one(self, at: int) -> tuple[Any, int]:
        """Return the non-empty dict that begins at an offset, and its end."""
        self._at, self._stack, self._marks = at, [], []
        while True:
            self._carry_out(_SETITEMS)
            if not self._marks and len(self._stack) == 1:
                return self._stack[0], self._at

    def values(self) -> list[Any]:
        """Return what all of the data puts on the stack."""
        self._at = 0
        while self._at < len(self._data):
            self._carry_out(None)
        if self._marks:
            raise NotReadable("is cut short")
        return self._stack

    def _carry_out(self, last: int | None) -> None:
        """Opcodes up to one, that included; None: one opcode."""
        data, stack, memo = self._data, self._stack, self.memo
        while True:
            code = data[self._at]
            self._at += 1
            if code == 0x68:  # h, BINGET
                stack.append(memo[data[self._at]])
                self._at += 1
            elif code == 0x71:  # q, BINPUT
                memo[data[self._at]] = stack[-1]
                self._at += 1
            elif code == 0x94:  # MEMOIZE
                memo[len(memo)] = stack[-1]
            elif code == 0x6A:  # j, LONG_BINGET
                stack.append(memo[self._number(4)])
            elif code == 0x72:  # r, LONG_BINPUT
                memo[self._number(4)] = stack[-1]
            elif code in _STRINGS:
                stack.append(str(self._bytes(self._number(_STRINGS[code])), "utf-8", "replace"))
            elif code != _STOP and not self._scalar(code):
                self._container(code)
            if last is None or code == last:
                return
            if code == _STOP:
                raise NotReadable("is damaged: its data continue after its end")

    def _scalar(self, code: int) -> bool:
        push = self._stack.append
        if code in _INTS:
            push(int.from_bytes(self._bytes(_INTS[code]), "little", signed=code == 0x4A))
        elif code == 0x8A:  # LONG1
            push(int.from_bytes(self._bytes(self._number(1)), "little", signed=True))
        elif code == 0x47:  # G, BINFLOAT
            push(struct.unpack(">d", self._bytes(8))[0])
        elif code in _CONSTANTS:
            push(_CONSTANTS[code])
        elif code == 0x95:  # FRAME
            self._bytes(8)
        else:
            return False
        return True

    def _container(self, code: int) -> None:
        stack = self._stack
        if code == 0x7D:  # }
            stack.append({})
        elif code == 0x5D:  # ]
            stack.append([])
        elif code == 0x28:  # (, MARK
            self._marks.append(len(stack))
        elif code == 0x75:  # u, SETITEMS
            self._set(self._since_mark())
        elif code == 0x73:  # s, SETITEM
            self._set([stack.pop(-2), stack.pop()])
        elif code == 0x65:  # e, APPENDS
            self._extend(self._since_mark())
        elif code == 0x61:  # a, APPEND
            self._extend([stack.pop()])
        elif code == 0x74:  # t, TUPLE
            stack.append(_flat(self._since_mark()))
        elif not 0x85 <= code <= 0x87:
            raise NotReadable(_refusal(self._data, self._at - 1))
        else:  # TUPLE1, 2, 3
            parts = stack[-(code - 0x84) :]
            del stack[-(code - 0x84) :]
            stack.append(_flat(parts))

    def _since_mark(self) -> list[Any]:
        start = self._marks.pop()
        found = self._stack[start:]
        del self._stack[start:]
        return found

    def _set(self, items: list[Any]) -> None:
        into = self._stack[-1]
        keys = items[::2]
        if into.__class__ is not dict or not all(key.__class__ in (str, int) for key in keys):
            raise NotReadable("has keys that are neither text nor numbers")
        if len(items) % 2:
            raise NotReadable("is damaged: a key without a value")
        into.update(zip(keys, items[1::2], strict=True))

    def _extend(self, items: list[Any]) -> None:
        into = self._stack[-1]
        if into.__class__ is not list:
            raise NotReadable("is damaged: it appends to something that is not a list")
        into.extend(items)

    def _number(self, size: int) -> int:
        return int.from_bytes(self._bytes(size), "little")

    def _bytes(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            raise NotReadable("is cut short")
        self._at += count
        return found


def _flat(parts: list[Any]) -> tuple[Any, ...]:
    if any(part.__class__ is tuple for part in parts):
        raise NotReadable("has tuples within tuples; a dump has none")
    return tuple(parts)


_INTS: Final = {0x4B: 1, 0x4D: 2, 0x4A: 4}
"""K, M and J: BININT1, BININT2 and BININT, by how many bytes they have."""

_CONSTANTS: Final[dict[int, Any]] = {0x88: True, 0x89: False, 0x4E: None, 0x29: ()}
