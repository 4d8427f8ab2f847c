"""Messages that fit again when one end is shifted: it goes through a longer list than the other.

As where one end sends the ``state_dict()`` of a model, and the other receives its ``parameters()``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading.evidence import LOOK_BACK, ChannelKey, RankLog
from collectrace.records import Call
from collectrace.signature import channel_text, is_user, numel

_MOST: Final = 16
"""Messages that one end may have more than the other, as far as is looked."""

_SOME: Final = 2
"""Messages that must fit when shifted, and must not fit as they are."""

_FEW: Final = 3
"""Kinds of messages too many that are told one by one."""


class _Shift(NamedTuple):
    """How the messages of a channel fit again."""

    by: int
    fitting: int
    """Messages that fit so; what is foreseen among them."""
    extra: Sequence[Call]
    """Those of the longer list, from the first that does not fit."""
    is_foreseen: bool
    """Of the shorter list only the first is known, and what came behind it in each round before."""
    can_begin_earlier: bool
    """Those too many may as well be earlier ones, which are of the same sizes."""


class _End(NamedTuple):
    """Who is at one end of a channel, in words."""

    name: str
    does: str
    did: str


def reason(case: Case, issue: ChannelIssue) -> Reason | None:
    """One end of a channel made messages for which the other has no place; None: not known."""
    channel, send, recv = issue.channel, issue.send, issue.recv
    if send is None or recv is None or not (is_user(send) and is_user(recv)):
        return None
    sent, awaited = (
        _messages(case.log(rank), channel, issue.seq)
        for rank in (channel.source, channel.destination)
    )
    if issue.is_from_any or issue.taken or not sent or not awaited:
        return None
    at = min(LOOK_BACK, issue.seq - 1)
    sends, awaits = _shift(sent, awaited, at), _shift(awaited, sent, at)
    source = _End(f"rank {channel.source}", "sends", "sent")
    target = _End(f"rank {channel.destination}", "awaits", "asked for")
    if sends is not None and awaits is None:
        return _told(sends, source, target)
    if awaits is not None and sends is None:
        return _told(awaits, target, source)
    return None


def _messages(log: RankLog | None, channel: ChannelKey, seq: int) -> list[Call]:
    """A rank's messages of a channel around one; empty where they are not all known."""
    if log is None or not programs.is_whole(log):
        return []
    calls = [
        log.channel_call(channel, n)
        for n in range(
            max(1, seq - LOOK_BACK), min(seq + LOOK_BACK, log.last_channel_seq.get(channel, 0) + 1)
        )
    ]
    known = [call for call in calls if call is not None and not call.void]
    return known if len(known) == len(calls) else []


def _shift(longer: Sequence[Call], shorter: Sequence[Call], at: int) -> _Shift | None:
    """By how much the longer list is ahead of the shorter, from index ``at`` on; None: it is not.

    Not by whole rounds: then the tensors of one round may be of other sizes.
    """
    mine, theirs = ([channel_text(call) for call in calls] for calls in (longer, shorter))
    period, _ = habit.repetition(theirs[:at])
    calls, is_foreseen = list(shorter), False
    if period and len(theirs) == at + 1 and theirs[at] == theirs[at - period]:
        is_foreseen = True
        calls += calls[at + 1 - period : at]
        theirs += theirs[at + 1 - period : at]
    for by in range(1, _MOST + 1):
        fitting = min(len(theirs) - at, len(mine) - at - by)
        if fitting < _SOME:
            return None
        here, behind = theirs[at : at + fitting], mine[at + by : at + by + fitting]
        unfit = sum(a != b for a, b in zip(here, mine[at:], strict=False))
        is_round = not by % period if period else here[by:] == here[:-by]
        if here != behind or unfit < _SOME or is_round:
            continue
        if not _is_of_several(calls[at : at + fitting], is_repeated=bool(period)):
            continue
        slides = at > 0 and mine[at - 1] == mine[at + by - 1]
        return _Shift(by, fitting, longer[at : at + by], is_foreseen, slides)
    return None


def _is_of_several(calls: Sequence[Call], *, is_repeated: bool) -> bool:
    """Whether messages are of several tensors, not of one that comes in other sizes each time.

    Those of a round that is repeated are, too, where they do not only grow, or shrink.
    """
    forms = {(str(call.dtype), len(call.shape or ())) for call in calls}
    sizes = [sum(numel(call.shape)) for call in calls]
    is_monotonic = sizes in (sorted(sizes), sorted(sizes, reverse=True))
    return len(forms) > 1 or (is_repeated and not is_monotonic)


def _told(found: _Shift, more: _End, less: _End) -> Reason:
    """``more``: the end with messages for which the other has no place."""
    behind = f" and in the {words.counted(found.fitting - 1, 'message')} behind it"
    text = (
        f" What {less.name} {less.does} in it{'' if found.is_foreseen else behind} is what "
        f"{more.name} {more.did} {words.counted(found.by, 'message')} later"
    )
    if found.is_foreseen:
        text += ", and what came behind it in each round before comes behind it there, too"
    extra = Counter(words.tensors(call) + words.at(call) for call in found.extra)
    which = ""
    if not found.can_begin_earlier and len(extra) <= _FEW:
        which = ", " + words.listed([f"{n} of {one}" for one, n in extra.items()])
    text += (
        f". So by then {more.name} {more.did} {words.counted(found.by, 'message')} more than "
        f"{less.name} {less.does}{which}: the two do not go through the same list of tensors."
    )
    return Reason(
        text,
        "Let both ends go through the same list of tensors, in the same order. state_dict() holds "
        "buffers as well, which parameters() does not; and what is left out at one end (by "
        "requires_grad, grad is None, or a name) must be left out at the other. Where the list "
        "may change, send its names, or its length, first.",
    )
