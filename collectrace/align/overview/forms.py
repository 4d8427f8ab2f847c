"""Intern the calls of a run for a picture: what distinguishes them, and an example of each."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from typing import Final

from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.records import Call

UNREAD: Final = 0
"""In a band: a call that was not read. Any other number is one more than the index of a form."""

_MOST_FORMS: Final = 1500
"""Distinct calls; beyond them, calls are distinguished only by op, role and line."""

Key = tuple[object, ...]


@dataclass(slots=True)
class Forms:
    """The calls of a run, interned: an example of each, without number, time and digests."""

    calls: list[Call] = field(default_factory=list)
    _ids: dict[Key, int] = field(default_factory=dict)

    def number(self, call: Call, key: Key) -> int:
        """Return one more than the index of a call's form; ``key`` distinguishes the form."""
        if key not in self._ids and len(self.calls) >= _MOST_FORMS:
            key, call = (call.op, call.role, call.site), replace(call, peer=None, tag=None)
        known = self._ids.get(key)
        if known is None:
            self.calls.append(
                replace(call, t=0, seq=0, digest=None, program=None, pairs=None, iteration=None,
                        stack=None, splits=None)
            )  # fmt: skip
            known = self._ids[key] = len(self.calls)
        return known


def numbers(log: RankLog, of: StreamKey | ChannelKey, last: int, forms: Forms) -> array[int]:
    """Return the form of each call of a stream or channel; UNREAD if it was not read.

    ``last``: how many calls there are.
    """
    rows, shift = log.rows(of)
    known: dict[tuple[int, int], int] = {}
    pairs = list(zip(rows.meaning, rows.appearance, strict=True))
    for at, pair in enumerate(pairs):
        if pair in known:
            continue
        seen = log.vocabulary.appearances[pair[1]]
        call = log.call(of, rows.seq[at] + shift)
        if call is None:
            known[pair] = UNREAD
            continue
        # What a message means leaves its peer out.
        key = pair[0], seen.site, seen.role, seen.op, seen.model, seen.shape, call.peer, call.tag
        known[pair] = forms.number(call, key)
    numbers = array("i", (known[pair] for pair in pairs))
    calls = array("i", bytes(4 * last))
    for first, end, at in rows.runs():
        start = first + shift - 1
        calls[start : start + end - first + 1] = numbers[at : at + end - first + 1]
    return calls
