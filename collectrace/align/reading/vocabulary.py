"""Interned data of many calls of a run: what a call means, and how it appears.

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
from collectrace.members import Members
from collectrace.ops import HOLDING, SHAPED
from collectrace.records import Call
from collectrace.signature import BASE, PRIME, fits_itself, other_counts, program_text

MAX_SEQ: Final = 1 << 60
"""A higher number is damage, not a sequence number."""

NO_ITERATION: Final = -1
VOID: Final = "void"

_MOST_SHARED: Final = 20_000
"""Distinct collectives that are known by their bytes; each rank decodes further ones."""

_MOST_FOLDED: Final = 4096
_DIGESTED: Final = 64
"""Bytes of a column from which on its hash is the key."""


CallPlace = tuple[str, tuple[str, ...]]
"""An op, and the user's frames above it."""


class Appearance(NamedTuple):
    """The facts on a call that are neither in its meaning nor in a digest."""

    site: str
    shape: str
    """As text, for ops that mix up values if shapes differ; otherwise empty."""
    role: str
    op: str
    where: tuple[str, ...] = ()
    """The user's frames from the call outwards; without a recorded stack, its line and the
    library's."""
    model: int = 0
    """Of a gradient bucket: its model, from 1; 0: not known, or not a bucket."""
    beside: bool = False
    """Issued by a thread other than the main one, and not by DDP: its iteration is not its own."""
    receiver: str = ""
    """Of a receive: the thread that issued it, as its line says; empty: the main one."""
    blocks: bool = False
    """Of a receive: that thread continued only after the message had arrived."""

    @property
    def place(self) -> CallPlace:
        """The op, and the user's frames above it."""
        return self.op, self.where


class Shared(NamedTuple):
    """A collective that many ranks issue, by the bytes of its line that do not change."""

    call: Call
    """The first such call."""
    frames: tuple[str, ...]
    """The frames of its stack."""
    meaning: int
    appearance: int


@dataclass(slots=True)
class Vocabulary:
    """Interned data of calls, shared by all ranks of a run."""

    meanings: dict[str, int] = field(default_factory=dict)
    """``program_text`` of a call, or VOID."""
    examples: list[Call] = field(default_factory=list)
    """A call for each meaning."""
    steps: list[int] = field(default_factory=list)
    """What each meaning adds to the ``program`` digest of its stream."""
    learned: set[int] = field(default_factory=set)
    """Meanings that contradict their own digests in every line: see ``strands``."""
    folded: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """Digests that were computed before: ranks with the same calls share the work."""
    known_sizes: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    """By the number of ranks of a group: the number of examples checked, and the invalid ones."""
    appearance_ids: dict[Appearance, int] = field(default_factory=dict)
    appearances: list[Appearance] = field(default_factory=list)
    """By id."""
    member_lists: dict[tuple[int, ...], Members] = field(default_factory=dict)
    """The members of groups that records list: each of a thousand ranks lists all of them."""
    shared: dict[bytes, Shared] = field(default_factory=dict)
    """By the bytes of a line between its number and its iteration."""
    holds: list[bool] = field(default_factory=list)
    """Per appearance: whether such a call returns only after every rank has issued it."""

    def members(self, ranks: Sequence[int]) -> Members:
        """Return one object for all equal lists of members."""
        if isinstance(ranks, Members):
            return self.member_lists.setdefault(ranks, ranks)
        key = tuple(ranks)
        found = self.member_lists.get(key)
        if found is None:
            found = Members(key)
            self.member_lists[found] = found
        return found

    def meaning(self, call: Call) -> int:
        """Return the id of a call's meaning, the same on every rank."""
        text = VOID if call.void else program_text(call)
        if not call.void and (others := other_counts(call)):
            text = f"{text}|{others}"  # the counts are in no digest
        return self._meaning(text, call)

    def _meaning(self, text: str, call: Call) -> int:
        found = self.meanings.get(text)
        if found is None:
            found = self.meanings[text] = len(self.examples)
            self.examples.append(call)
            self.steps.append(step(call, "", None).program)
        return found

    def adopt_meaning(self, text: str, source: Vocabulary) -> int:
        """Return the id here of a meaning of another vocabulary."""
        return self._meaning(text, source.examples[source.meanings[text]])

    def share(self, fixed: bytes, call: Call, frames: Sequence[str]) -> None:
        """Remember a collective for other ranks that issue it; ``fixed``: see ``shared``."""
        if len(self.shared) < _MOST_SHARED:
            ids = self.meaning(call), self.appearance(call, frames)
            self.shared.setdefault(fixed, Shared(call, tuple(frames), *ids))

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
        """Return the ids of calls with sizes that are invalid in a group of ``size`` ranks."""
        if self.known_sizes.get(size, (0, []))[0] < len(self.examples):
            ids = [n for n, call in enumerate(self.examples) if not fits_itself(call, size)]
            self.known_sizes[size] = len(self.examples), ids
        return [n for n in self.known_sizes.get(size, (0, []))[1] if n not in self.learned]

    def appearance(self, call: Call, frames: Sequence[str] = ()) -> int:
        """Return the id of a call's appearance, the same on every rank, given its stack."""
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
        # On a GPU the host runs ahead of what it issued, except through a barrier.
        waits = not call.async_ and (call.device == "cpu" or call.op == "barrier")
        return self.adopt_appearance(seen, waits and call.op in HOLDING)

    def adopt_appearance(self, seen: Appearance, holds: bool) -> int:
        """Return the id of an appearance. ``holds``: such a call returns only with all ranks."""
        found = self.appearance_ids.get(seen)
        if found is None:
            found = self.appearance_ids[seen] = len(self.appearances)
            self.appearances.append(seen)
            self.holds.append(holds)
        return found
