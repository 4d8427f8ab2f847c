"""Pack sequences of numbers by their repetitions.

A packed sequence is also a list of numbers. A number of 0 or above is itself; ``-d, n`` means that
``n`` more follow that equal those ``d`` positions before. A copy may extend into itself, so a loop
costs one iteration and two numbers, whatever its length and period. It may also extend into a
sequence that both sides know, which is placed before it.

Source: Ziv, Lempel, A universal algorithm for sequential data compression, IEEE Transactions on
Information Theory 23(3), 1977.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

_LEAST: Final = 4
"""Least numbers that a copy must replace; it takes two itself."""

_CHUNK: Final = 1024


class Packer:
    """Packs sequences that resemble a known one; numbers are from 0 to 2^31 - 1."""

    def __init__(self, known: array[int]) -> None:
        self._known = known
        self._places = dict(_keys(known, 0, len(known)))

    def pack(self, sequence: array[int]) -> tuple[int, ...]:
        """Return the packed sequence; :func:`unpack` needs the same known one."""
        known = len(self._known)
        text = self._known + sequence
        own: dict[bytes, int] = {}
        out: list[int] = []
        at = known
        while at < len(text):
            key = text[at : at + _LEAST].tobytes()
            places = (at - known, own.get(key, -1), self._places.get(key, -1))
            length, place = max((_common(text, p, at), p) for p in places if p < at)
            step = length if length >= _LEAST else 1
            if step > 1:
                out += place - at, length
            else:
                out.append(text[at])
            # The first positions of a long copy are as good to copy from as all of it.
            own.update(_keys(text, at, min(at + step, at + _CHUNK)))
            at += step
        return tuple(out)


def unpack(codes: Iterable[int], known: Iterable[int] = ()) -> list[int]:
    """Return the original of a packed sequence."""
    out = list(known)
    start = len(out)
    rest = iter(codes)
    for code in rest:
        if code >= 0:
            out.append(code)
            continue
        for _ in range(next(rest)):
            out.append(out[code])
    return out[start:]


def _keys(text: array[int], start: int, stop: int) -> Iterable[tuple[bytes, int]]:
    size = text.itemsize * _LEAST
    raw = text[start : stop + _LEAST].tobytes()
    step = text.itemsize
    return (
        (raw[i : i + size], start + i // step)
        for i in range(0, min((stop - start) * step, len(raw) - size + 1), step)
    )


def _common(text: array[int], a: int, b: int) -> int:
    """Return how many numbers are equal from two positions on; ``a`` is the first."""
    if a < 0:
        return 0
    length = 0
    while b + length < len(text):
        size = min(_CHUNK, len(text) - b - length)
        if text[a + length : a + length + size] == text[b + length : b + length + size]:
            length += size
            continue
        while text[a + length] == text[b + length]:
            length += 1
        break
    return length
