"""What many calls of a run share, interned: what a call means, and what it looks like.

A row of a trace is a few numbers; two of them are ids of this vocabulary, equal on every rank.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from collectrace import roles
from collectrace.chain import step
from collectrace.ops import HOLDING, SHAPED
from collectrace.records import Call
from collectrace.signature import BASE, PRIME, fits_itself, other_counts, program_text

MAX_SEQ: Final = 1 << 60
"""Beyond it a number is damage, not a sequence number."""

NO_ITERATION: Final = -1
VOID: Final = "void"

_MOST_FOLDED: Final = 4096
_DIGESTED: Final = 64
"""Bytes of a column from which on a hash stands for it."""


CallPlace = tuple[str, tuple[str, ...]]
"""An op, and the user's frames above it."""


class Appearance(NamedTuple):
    """What can be told of a call beside its meaning, and is no part of a digest."""

    site: str
    shape: str
    """As text, for ops that mix up values where shapes differ; else empty."""
    role: str
    op: str
    where: tuple[str, ...] = ()
    """The user's frames from the call outwards; where no stack was recorded, its line and the
    library's."""
    model: int = 0
    """Of a gradient bucket: whose it is, from 1; 0: not known, or no bucket."""
    beside: bool = False
    """Issued by a thread beside the main one, and not by DDP: its iteration is not its own."""
    receiver: str = ""
    """Of a receive: the thread that issued it, as its line says; empty: the main one."""
    blocks: bool = False
    """Of a receive: that thread went on only when the message was there."""

    @property
    def place(self) -> CallPlace:
        """Where a rank calls it, and what."""
        return self.op, self.where


@dataclass(slots=True)
class Vocabulary:
    """What many calls share, interned for all ranks of a run."""

    meanings: dict[str, int] = field(default_factory=dict)
    """``program_text`` of a call, or VOID."""
    examples: list[Call] = field(default_factory=list)
    """A call for each meaning."""
    steps: list[int] = field(default_factory=list)
    """What each meaning adds to the ``program`` digest of its stream."""
    folded: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """Digests that were computed before: ranks that do the same share the work."""
    known_sizes: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    """By the number of ranks of a group: how many examples were looked at, and which are ill."""
    appearance_ids: dict[Appearance, int] = field(default_factory=dict)
    appearances: list[Appearance] = field(default_factory=list)
    """By id."""
    member_lists: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    """The members of groups: each of a thousand ranks lists all of them."""
    holds: list[bool] = field(default_factory=list)
    """Per appearance: whether such a call returns only when every rank has come to it."""

    def members(self, ranks: list[int]) -> list[int]:
        """Return the first list that was given with these ranks."""
        return self.member_lists.setdefault(tuple(ranks), ranks)

    def meaning(self, call: Call) -> int:
        """The id of what a call means, the same on every rank."""
        text = VOID if call.void else program_text(call)
        if not call.void and (others := other_counts(call)):
            text = f"{text}|{others}"  # they are in no digest
        found = self.meanings.get(text)
        if found is None:
            found = self.meanings[text] = len(self.examples)
            self.examples.append(call)
            self.steps.append(step(call, "", None).program)
        return found

    def fold(self, digest: int, meanings: array[int]) -> int:
        """Return the ``program`` digest after calls of these meanings."""
        data = meanings.tobytes()
        key = digest, data if len(data) <= _DIGESTED else blake2b(data, digest_size=16).digest()
        found = self.folded.get(key)
        if found is None:
            if len(self.folded) >= _MOST_FOLDED:
                self.folded.clear()
            steps = self.steps
            for meaning in meanings:
                digest = (digest * BASE + steps[meaning]) % PRIME
            found = self.folded[key] = digest
        return found

    def ill_sized(self, size: int) -> list[int]:
        """The ids of what does not fit itself in a group of ``size`` ranks."""
        if self.known_sizes.get(size, (0, []))[0] < len(self.examples):
            ids = [n for n, call in enumerate(self.examples) if not fits_itself(call, size)]
            self.known_sizes[size] = len(self.examples), ids
        return self.known_sizes.get(size, (0, []))[1]

    def appearance(self, call: Call, frames: Sequence[str] = ()) -> int:
        """The id of how a call appears, the same on every rank. ``frames``: of its stack."""
        shape = str(call.shape) if call.op in SHAPED else ""
        where = tuple(frames) or (call.site or "", call.via or "")
        beside = call.thread is not None and not call.role.startswith(("ddp.", "join."))
        model = (call.model or 0) if roles.of(call.role).in_backward else 0
        is_receive = call.op == "recv"
        seen = Appearance(
            call.site or "", shape, call.role, call.op, where, model, beside,
            (call.thread or "") if is_receive else "",
            is_receive and not call.async_ and call.device == "cpu",
        )  # fmt: skip
        found = self.appearance_ids.get(seen)
        if found is None:
            found = self.appearance_ids[seen] = len(self.appearances)
            self.appearances.append(seen)
            # On a GPU the host runs ahead of what it issued, except through a barrier.
            waits = not call.async_ and (call.device == "cpu" or call.op == "barrier")
            self.holds.append(waits and call.op in HOLDING)
        return found
