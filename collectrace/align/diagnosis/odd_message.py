"""One of several ranks that exchange the same with another sent, or awaited, something else."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.odd_message import odd_message


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """What its like did, after a space, and what to change; None: nobody is alone in it."""
    odd = odd_message(case, candidate)
    if odd is None:
        return None
    likes, usual = words.ranks(odd.likes), words.tensors(odd.usual)
    who, hub, is_sent = f"rank {odd.rank}", f"rank {odd.hub}", odd.end == "source"
    did = f"sent {hub} {usual}" if is_sent else f"awaited {usual} of {hub}"
    cause = (
        f" {words.upper(likes)} {did} from the same line each time, in the "
        f"{words.ordinal(odd.before + 1)} message as in the {odd.before:,} before; and so had "
        f"{who} in those before."
    )
    if odd.by_turn:
        sent = "sent" if is_sent else "awaited"
        cause = (
            f" In each of the {odd.before:,} such messages before, {likes} and {who} {sent} the "
            f"same from the same line, and in the {words.ordinal(odd.before + 1)} {likes} {sent} "
            f"{usual}: {who} alone {sent} something else."
        )
    if not is_sent:
        return Reason(
            cause, f"Let {who} receive into a tensor like that of {likes}: {usual} is what {hub} "
            f"sends{'' if odd.by_turn else ' to each'}. Where it varies, send the shape first."
        )  # fmt: skip
    return Reason(
        cause,
        f"Let {who} send {usual}, as {likes} {words.verb(odd.likes, 'does', 'do')}: bring what is "
        f"sent to one size and dtype on every rank (pad it). Or send the shape first, and let "
        f"{hub} make its receive buffer by that.",
    )
