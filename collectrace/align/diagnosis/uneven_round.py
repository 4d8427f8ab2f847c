"""A message that one rank asks for, where the other has closed the round: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import tally
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.uneven_round import UnevenRound, uneven_round


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """One rank wants a message more in this round than the other made before it went on."""
    found = uneven_round(case, candidate)
    if found is None:
        return None
    one, other = f"rank {found.rank}", f"rank {found.other}"
    asks = found.call.op == "recv"
    did, does = ("sent", "asks for") if asks else ("received", "sends")
    call = named(case, found.rank, found.call, brief=True)
    behind = named(case, found.other, found.behind, brief=True)
    gave = f"{found.theirs:,}" if found.theirs else "none"
    text = (
        f"In each of the {found.rounds:,} rounds before, {other} {did} as many messages as "
        f"{one} {'asked for' if asks else 'sent'}, before it came to {behind}. In this one "
        f"{other} {did} {gave} and went on to that, while {one} {does} the "
        f"{words.ordinal(found.theirs + 1)} in {call}. In no round before was one "
        f"{'awaited' if asks else 'sent'} before the collective and "
        f"{'sent' if asks else 'received'} behind it, and the collective waits for {one}."
    )
    counted = tally.of_channel(case, found.channel)
    text += f" {counted}" if counted else ""
    return Reason(text + _balance(found), _fix(found))


def _balance(found: UnevenRound) -> str:
    """Who of the two broke what had been so in each round: sentences after a space."""
    if found.left is None or found.back is None:
        return ""
    went = (
        f"{words.counted(found.back, 'message')} went from rank {found.rank} to rank {found.other}"
    )
    if found.call.op == "send":
        went = f"{words.counted(found.back, 'message')} came from rank {found.other}"
    text = (
        f" In each of those rounds as many messages went one way as the other; in this one {went}"
    )
    if found.left == found.rank:
        return f"{text}: it is rank {found.rank} that goes on for longer."
    return f"{text}: it is rank {found.other} that made fewer back."


def _fix(found: UnevenRound) -> str:
    one, other = f"rank {found.rank}", f"rank {found.other}"
    verb = ("asks for", "sends") if found.call.op == "recv" else ("sends", "asks for")
    if not found.theirs:
        return (
            f"Let both ranks know alike whether there is such a message in the round: where {one} "
            f"{verb[0]} one, {other} {verb[1]} it. Work that out from the same thing on every "
            "rank, or let one rank decide, and broadcast it."
        )
    return (
        f"In every round {one} must make as many of these as {other}: what {one} {verb[0]}, "
        f"{other} {verb[1]}. Work out the number on both from the same thing, at the start of the "
        "round (a number of micro-batches that is smaller this time; a warm-up is at most "
        "min(warm-up, number of micro-batches)), or send it first where only one of them knows it."
    )
