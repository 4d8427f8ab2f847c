"""Sum up the state of this rank in one digest: a reader needs only one rank of each digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from collectrace.exchange import CARD
from collectrace.records import Activity
from collectrace.tracer.record.groups import GroupState


def stands(groups: Iterable[GroupState], inside: Iterable[Activity]) -> bytes:
    """Return a digest of this rank's groups and calls, and of what it is in now.

    It has :data:`exchange.CARD` bytes. Streams contribute their digests. Channels contribute only
    the number of their messages, so ranks that have sent some are rarely equal.
    """
    told = hashlib.blake2b(digest_size=CARD)
    for group in sorted(groups, key=lambda group: group.name):
        told.update(repr((group.name, group.ranks)).encode())
        for device, stream in sorted(group.streams.copy().items()):
            at = stream.seq, stream.digest, stream.program, stream.pairs
            told.update(repr((device, *at)).encode())
        for key, channel in sorted(group.channels.copy().items()):
            told.update(repr((key, channel.seq)).encode())
    for activity in inside:
        told.update(
            repr((activity.thread, activity.what, activity.group, activity.seq, activity.op,
                  activity.peer, activity.site)).encode()
        )  # fmt: skip
    return told.digest()
