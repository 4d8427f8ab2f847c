"""Find the calls of a rank that findings are about."""

from __future__ import annotations

from collectrace import ops
from collectrace.findings import KINDS, Alignment
from collectrace.records import Call


def place_of(call: Call) -> tuple[object, ...]:
    """Return a key of a call that is unique in its rank."""
    if call.op in ops.POINT_TO_POINT:
        return call.group, call.device, call.seq, call.op, call.peer, call.tag or 0
    return call.group, call.seq


def places(alignment: Alignment, rank: int) -> dict[tuple[object, ...], int]:
    """Return by call of a rank the index of the first finding about it."""
    found: dict[tuple[object, ...], int] = {}
    for n, finding in enumerate(alignment.findings):
        family = KINDS[finding.kind].family
        if family == "call" and finding.group is not None and finding.seq is not None:
            found.setdefault((finding.group.name, finding.seq), n)
        elif family in ("message", "together"):
            for side in finding.sides:
                if rank in side.ranks and side.call is not None:
                    found.setdefault(place_of(side.call), n)
    return found
