"""Signatures, which must agree between the ranks of a group, and their digests.

Two calls that meet in a backend must agree in what the backend assumes: the op, the dtype, the
number of elements, the reduce op and the root. Everything else (the shape, who waits, which line)
may differ without harm to the bytes.

Each stream has the chained digest of its history, a polynomial hash over the Mersenne prime
2**61 - 1 (Karp and Rabin, 1987)::

    d(n) = (d(n-1) * BASE + s(n)) mod PRIME

with s(n) a hash of the n-th signature. Equal digests at n mean equal histories up to n, so the
first difference is found by binary search. The chain is linear, so the digest of any stretch (i, j]
follows from its two ends: ``stretch(d(i), d(j), j - i)``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Final, Literal

from collectrace import ops, roles
from collectrace.records import NCCL, Call, Shape
from collectrace.roles import UNKNOWN, USER, pairing_class

PRIME: Final = (1 << 61) - 1
BASE: Final = 1_500_450_271_926_437_093
"""The base of the hash: not small, because a small one would not mix short histories."""

EMPTY: Final = 0
"""The digest of no history."""

_INVERSE: Final = pow(BASE, -1, PRIME)
"""Undoes a step of a digest."""

Attribute = Literal["op", "dtype", "count", "reduce_op", "root", "role"]
"""What can differ between two calls at one position, in order of priority."""


def stable_hash(text: str) -> int:
    """Return a residue mod PRIME that is the same on every rank, machine and Python."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % PRIME


def extend(digest: int, step: int) -> int:
    """Return the digest after one more signature with the hash ``step``."""
    return (digest * BASE + step) % PRIME


def retract(digest: int, step: int) -> int:
    """Return the digest before its last signature with the hash ``step``."""
    return (digest - step) * _INVERSE % PRIME


@lru_cache(maxsize=4096)
def _power(length: int) -> int:
    return pow(BASE, length, PRIME)


def skip(digest: int, length: int) -> int:
    """Return the digest after ``length`` more signatures with the hash 0."""
    return digest * _power(length) % PRIME


def stretch(before: int, after: int, length: int) -> int:
    """Return the digest of the ``length`` calls between two digests of one stream."""
    return (after - before * _power(length)) % PRIME


def numel(shape: Shape | None) -> list[int]:
    """Return element counts, one per tensor."""
    if shape is None:
        return []
    if shape and isinstance(shape[0], list):
        return [prod(one) for one in shape if isinstance(one, list)]
    return [prod(n for n in shape if isinstance(n, int))]


def counts(call: Call) -> list[int]:
    """Return the element counts that must agree between ranks; empty: none must."""
    counted = ops.of(call.op).counted
    if counted == "nothing":
        return []
    return numel(call.out_shape if counted == "output" else call.shape)


def _dtype(call: Call) -> str:
    if call.dtype is None:
        return ""
    return call.dtype if isinstance(call.dtype, str) else ",".join(call.dtype)


def _plain(call: Call) -> tuple[str, str, tuple[int, ...], str, int | None]:
    # A barrier's tensor is the backend's own business.
    dtype = "" if call.op in ops.BARRIERS else _dtype(call)
    return ops.canonical_op(call.op), dtype, tuple(counts(call)), call.reduce_op or "", call.root


def _wire(call: Call, backend: str) -> tuple[str, str, tuple[int, ...], str, int | None]:
    # NCCL has no barrier: it issues an all_reduce of one float32, which can match another one.
    if call.op == "barrier" and backend in NCCL:
        return "all_reduce", "float32", (1,), "SUM", None
    return _plain(call)


def wire_text(call: Call, backend: str) -> str:
    """Return what is fatal on the wire if it differs, as one string.

    ``backend`` is the one that serves the call's device, such as ``gloo``.
    """
    return "|".join(map(str, _wire(call, backend)))


def program_text(call: Call) -> str:
    """Return the wire's string plus the meaning: barriers and roles differ in it."""
    # It is not always known of a gradient bucket.
    model = 0 if roles.of(call.role).in_backward else (call.model or 1) - 1
    return "|".join(map(str, (*_plain(call), pairing_class(call.role, model, call.part))))


def other_counts(call: Call) -> list[int]:
    """The element counts that follow from those in the digests and the number of ranks.

    What an all_gather_single gives, and what a reduce_scatter_single takes; empty for others, and
    where they are not known. torch refuses a call on which they do not fit, most of the time.
    """
    name = ops.canonical_op(call.op)
    if name == "all_gather_single":
        return numel(call.out_shape)
    return numel(call.shape) if name == "reduce_scatter_single" else []


def fits_itself(call: Call, size: int) -> bool:
    """Return whether inputs and outputs fit in a group of ``size`` ranks."""
    mine, others = counts(call), other_counts(call)
    return not mine or not others or [n * size for n in mine] == others


def channel_text(call: Call) -> str:
    """Return what a send and its recv must agree in, as one string."""
    return f"{_dtype(call)}|{numel(call.shape)}"


def difference(a: Call, b: Call, backend: str) -> Attribute | None:
    """Return the first attribute in which two calls at one position differ; None: they match.

    A void call and an unknown role pair with anything, because they prove nothing. ``role`` means
    that the bytes agree and the meaning does not.
    """
    if a.void or b.void:
        return None
    if _wire(a, backend) != _wire(b, backend):
        # In the user's terms: a barrier that meets a large all_reduce differs in op.
        names: tuple[Attribute, ...] = ("op", "dtype", "count", "reduce_op", "root")
        for name, mine, theirs in zip(names, _plain(a), _plain(b), strict=True):
            if mine != theirs:
                return name
    if (left := other_counts(a)) and (right := other_counts(b)) and left != right:
        return "count"
    if UNKNOWN in (a.role, b.role):
        return None
    return "role" if program_text(a) != program_text(b) else None


def is_user(call: Call) -> bool:
    """Return whether the user's own code issued it, as far as is known."""
    return call.role in (USER, UNKNOWN)


def is_asked(call: Call) -> bool:
    """Return whether the user's own line requests it by name, directly or through a framework."""
    return is_asked_by(call.role)


def is_asked_by(role: str) -> bool:
    """Return whether a line requests calls of this role by name, see :func:`is_asked`."""
    return role in (USER, UNKNOWN) or roles.of(role).is_asked


def stands_at_its_line(call: Call) -> bool:
    """Return whether the code around its line decides if it is issued.

    False for calls of DDP, ``join()`` and ZeRO: a parameter, or another rank, may decide them.
    """
    return is_asked(call) or not call.role.startswith(("ddp.", "join.", "zero."))


@lru_cache(maxsize=65536)
def pair_weight(source: int, destination: int) -> int:
    """Return the weight of an ordered pair of group ranks in :func:`pair_step`."""
    return stable_hash(f"pair|{source}|{destination}")


def pair_step(rank: int, sent: Sequence[int], expected: Sequence[int]) -> int:
    """Return one rank's share of an all_to_all.

    Summed over the group it is zero exactly when every pair fits (up to a collision of hashes).
    ``rank`` is the group rank; ``sent[j]`` elements go to group rank j, ``expected[j]`` are
    awaited from it.
    """
    total = 0
    for other, (out, back) in enumerate(zip(sent, expected, strict=True)):
        total += pair_weight(rank, other) * out - pair_weight(other, rank) * back
    return total % PRIME
