"""Point-to-point messages: without a partner, or with one that does not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    arguments,
    by_framework,
    circle,
    closing_send,
    crossed,
    gone_in_round,
    inputs,
    list_shift,
    loop_lines,
    numbering,
    object_lists,
    odd_end,
    odd_line,
    odd_message,
    odd_tag,
    partners,
    rank_words,
    sisters,
    tally,
)
from collectrace.align.diagnosis.callers import at_its_line, closed, telling
from collectrace.align.diagnosis.wording import FOLLOWS, Wording, loads_data, too_early
from collectrace.align.judging.blame import failed_by_itself
from collectrace.align.judging.by_number import is_of_numbers, named_by_number
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.closing_send import circle_of
from collectrace.align.judging.owed import owed
from collectrace.align.judging.passed_on import passed_on
from collectrace.align.judging.undelivered import senders
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks.standing import Standing
from collectrace.findings import KINDS
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call
from collectrace.signature import is_user, numel

COUNT_THEM: Final = (
    "Give every send one recv on the other rank, with the same group, peer and tag. Count both: "
    "is a loop one longer on one side? Every rank must go through the same number of steps."
)


_SAME: Final = {
    "group": "Pass the same group to the send and to its recv",
    "device": "Let the tensors of both ends lie on devices of one type",
    "tag": "Pass the same tag to the send and to its recv",
    "destination": "Name each other as the peer, in the send and in its recv",
    "source": "Name each other as the peer, in the send and in its recv",
    "numbering": "Name each other as the peer, in the send and in its recv",
}
"""What to change about a message that met its other end but for one thing."""


def explain(case: Case, candidate: Candidate) -> Wording:
    """One message of a channel in words."""
    issue = candidate.source
    assert isinstance(issue, ChannelIssue)
    if issue.attribute == "absent":
        told = _unmatched(case, candidate, issue)
        again = sisters.reason(case, candidate)
        return told if again is None else Wording(told.headline, again.cause, again.fix)
    if issue.attribute == "undelivered":
        return _undelivered(case, issue)
    return _unfit(case, candidate, issue)


def _unmatched(case: Case, candidate: Candidate, issue: ChannelIssue) -> Wording:
    """A send that nobody receives, or a receive that nobody sends to."""
    if named_by_number(issue) and not is_of_numbers(candidate):
        issue = replace(issue, near=None)
    channel = issue.channel
    here, peer, call = channel.source, channel.destination, issue.send
    missing, way = "recv", "from"
    if issue.recv is not None:
        here, peer, call = channel.destination, channel.source, issue.recv
        missing, way = "send", "to"
    what = _message(case, here, call, issue.seq)
    other = f"rank {peer}" if peer >= 0 else "any rank"
    if candidate.severity == "info":
        return too_early(case, candidate, f"rank {here}'s {what} had met no {missing} of {other}")
    n = issue.seq - 1 + (issue.taken if issue.recv is not None else 0)
    issued = f"only {words.counted(n, missing)}" if n else f"no {missing} at all"
    where = words.group(issue.group)
    makers = other if peer >= 0 else "all other ranks together"
    cause = f"{words.upper(makers)} issued {issued} {way} rank {here}{_tag(issue)} in {where}."
    if call is not None and not is_user(call):
        cause += f" Rank {here} was in {words.issuer(call)}{_part(call)}."
    lines = tally.of_channel(case, channel)
    cause += f" {lines}" if lines else ""
    headline = f"rank {here}'s {what} meets no {missing} of {other}"
    near = near_miss(issue)
    headline += f": {near}" if near else ""
    cause += _sent_instead(case, issue)
    cause += numbering.sentence(case, issue, candidate.suspects)
    if candidate.cause is not None:
        cause += f" {words.upper(other)} {_why_not(case, candidate.cause, peer)}."
        return Wording(headline, cause, FOLLOWS)
    known = odd_tag.reason(case, candidate) or partners.reason(case, candidate)
    if known is not None:
        return Wording(headline, f"{cause} {known.cause}", known.fix)
    left = gone_in_round.reason(case, candidate)
    if left is not None:
        return Wording(headline, f"{cause} {left.cause}", left.fix)
    debtor = owed(case, candidate)
    if debtor is not None and candidate.suspects == (debtor,):
        return _owed(case, debtor, issue, headline)
    standing = case.standings.get(peer)
    ended = _how_it_ended(standing) if standing is not None else ""
    cause += f" {words.upper(other)} {ended}." if ended else ""
    cause += _may_be_longer(case, here, standing, call)
    alike = [rank for rank in candidate.suspects if rank != peer]
    if ended.startswith(_RAISED) and alike:
        cause += f" So did {words.ranks(alike)}, which raised the same at the same line."
    told = by_framework.of_messages(case, ((here, call),))
    same = f"{_SAME[issue.near.differs]}: {near}." if issue.near is not None else COUNT_THEM
    numbered, waits = numbering.fix(issue), circle_of(case, issue)
    if waits is not None and not numbered and not candidate.suspects:
        both = closing_send.readings(case, issue)
        same, cause = both.fix, f"{cause} {circle.steps(case, waits)} {both.cause}"
    fix = told or numbered or same
    if ended.startswith(_RAISED):
        who = words.ranks(candidate.suspects or (peer,))
        fix = f"Fix what raised on {who}: the message was still to come."
        fix += rank_words.hint([case.standings[peer].message])
        fix += f"\n{told}" if told else ""
    return Wording(headline, cause, fix)


def _owed(case: Case, debtor: int, issue: ChannelIssue, headline: str) -> Wording:
    """A receive from any rank, for which one was to send something that ended by itself."""
    receiver = issue.channel.destination
    counted = tally.of_any_source(case, issue.channel._replace(source=ANY_SOURCE))
    cause = words.upper(f"{counted}.") if counted else f"No rank sent rank {receiver} another."
    cause += (
        f" {rank_words.details(case, [debtor])} Its next call would have been such a message, as "
        f"in each round before; the others that send there wait for rank {receiver}."
    )
    ended = "raised" if failed_by_itself(case.standings[debtor]) else "ended it"
    return Wording(
        headline,
        cause,
        f"Fix what {ended} on rank {debtor}: the message was still to come. Where such an error is "
        f"to be got over, catch it there, and send rank {receiver} a message that says so.",
    )


def _undelivered(case: Case, issue: ChannelIssue) -> Wording:
    """A message that was lost because its sender left before it had waited for it."""
    channel, send, recv = issue.channel, issue.send, issue.recv
    assert send is not None
    assert recv is not None
    receiver = channel.destination
    first, *others = senders(case, issue)
    api = send.api or "isend"
    sent_at = at_its_line(case, channel.source, send)
    came = case.issued(receiver, recv) or 0
    when = f"{words.seconds(came - first.left)} before" if came > first.left else "while"
    also = "".join(
        f" Rank {one.rank} left so, too, with {words.counted(one.count, 'message')} begun there."
        for one in others
    )
    who = sorted(one.rank for one in (first, *others))
    return Wording(
        f"{words.ranks(who)} left without waiting for {words.verb(who, 'its', 'their')} {api}"
        f"{sent_at}: rank {receiver}'s {closed(recv.op + at_its_line(case, receiver, recv))} never "
        "got the message",
        f"{api} only begins to send. Rank {first.rank} had begun "
        f"{words.counted(first.count, 'message')} to rank {receiver}{sent_at}, waited for "
        f"none of them to be taken, and left {when} rank {receiver} asked for the "
        f"{words.ordinal(issue.seq)} message, which raised "
        f"{rank_words.detail(case.standings[receiver])}.{also} What is under way when its sender "
        "ends, or destroys the group, is lost.",
        f"Keep the Work that {api} returns, and call wait() on it before the process ends or calls "
        "destroy_process_group(); or use send(), which returns when the message is taken.\n"
        "A barrier() of all ranks before destroy_process_group() keeps every rank there until the "
        "others have what they asked for.",
    )


def _why_not(case: Case, cause: Candidate, rank: int) -> str:
    """Why a rank did not come to a message that goes with a cause."""
    standing = case.standings.get(rank)
    if standing is not None and failed_by_itself(standing):
        raised = f"{_RAISED} ({rank_words.detail(standing)})"
        if rank in cause.suspects and KINDS[cause.kind].is_absence:
            return f"{raised}, as told above"
        if rank in passed_on(case, cause):
            return f"{raised} after what came of the message above had reached it"
    return "could not come to it because of the cause above"


def _message(case: Case, rank: int, call: Call | None, seq: int) -> str:
    if call is None:
        return f"message {seq}"
    return closed(words.message(call) + at_its_line(case, rank, call))


def _how_it_ended(standing: Standing) -> str:
    """How the other side ended, where that is not for want of this very message."""
    if standing.state == "raised" and not standing.by_peers:
        return f"{_RAISED} ({rank_words.detail(standing)})"
    return {"finished": "has finished", "died": "died", "missing": "left no file"}.get(
        standing.state, ""
    )


def _may_be_longer(case: Case, here: int, peer: Standing | None, call: Call | None) -> str:
    """The loops around a message that may have ended sooner on who finished: after a space.

    With the batches that DataLoaders gave in them, where one ended sooner there.
    """
    if peer is None or peer.state != "finished" or call is None:
        return ""
    around = loop_lines.longer_there(case, case.stack(here, call))
    if not around:
        return ""
    had = inputs.in_passes(case, [one.site for one in around], [peer.rank], [here])
    return (
        f" Rank {here} is in {' or '.join(one.quoted for one in around)}, which may have had more "
        f"turns there{f': {had.phrase()}' if had is not None else ''}."
    )


_RAISED: Final = "ended with an exception"


def near_miss(issue: ChannelIssue) -> str:
    """The send that a receive would have met but for one thing; empty where there is none."""
    if issue.near is None:
        return ""
    sent, wanted = issue.near.channel, issue.channel
    match issue.near.differs:
        case "group":
            return (
                f"rank {sent.source} sent it in {words.group(issue.near.group)}, the receive waits "
                f"in {words.group(issue.group)}"
            )
        case "device":
            return f"rank {sent.source} sent a message on another device, {sent.device!r}"
        case "tag":
            return (
                f"rank {sent.source} sent a message with tag {sent.tag}, the receive waits for "
                f"tag {wanted.tag}"
            )
        case "destination":
            return (
                f"rank {sent.source} sent it to rank {sent.destination}, not to rank "
                f"{wanted.destination}"
            )
        case "source":
            return f"rank {sent.source} sent one, the receive waits for rank {wanted.source}"
        case "numbering":
            return (
                f"rank {sent.source} sent it to rank {sent.destination}; they name each other by "
                f"{numbering.what(issue.near)}"
            )


def _sent_instead(case: Case, issue: ChannelIssue) -> str:
    """Where the send of a near miss stands: a sentence after a space."""
    sent = issue.near.send if issue.near is not None else None
    if issue.near is None or sent is None or not sent.site:
        return ""
    rank = issue.near.channel.source
    return f" What rank {rank} sent is its {words.name(sent)}{at_its_line(case, rank, sent)}."


def _other_parts(issue: ChannelIssue) -> str:
    """That a framework sent and received for different purposes: a sentence after a space."""
    send, recv = issue.send, issue.recv
    if send is None or recv is None or is_user(send) or is_user(recv) or send.role == recv.role:
        return ""
    return (
        f" They do not belong together: rank {issue.channel.source} sent it in "
        f"{words.issuer(send)}{_part(send)}{words.at(send)}, rank {issue.channel.destination} "
        f"received it in {words.issuer(recv)}{_part(recv)}{words.at(recv)}. One of them has "
        "begun a step that the other has not, or has left one out."
    )


def _part(call: Call) -> str:
    return f" ({call.part})" if call.part else ""


def _unfit(case: Case, candidate: Candidate, issue: ChannelIssue) -> Wording:
    """A send and a receive that meet and differ in dtype or size."""
    if issue.is_from_any:
        return _taken_from_any(case, candidate, issue)
    channel, send, recv = issue.channel, issue.send, issue.recv
    ends = (channel.source, send), (channel.destination, recv)
    at_source, at_destination = (
        words.at(telling(case, rank, call)) if call is not None else "" for rank, call in ends
    )
    sent = words.tensors(send) + at_source if send is not None else "?"
    wanted = words.tensors(recv) + at_destination if recv is not None else "?"
    what = "dtype" if issue.attribute == "dtype" else "size"
    objects = object_lists.of_message(issue)
    if objects is not None and send is not None and recv is not None:
        return Wording(
            f"rank {channel.source} sends {object_lists.entries(send)}{at_source}, rank "
            f"{channel.destination} awaits {object_lists.entries(recv)}{at_destination}",
            objects.cause + _stumbled(case, candidate),
            objects.fix,
        )
    told = by_framework.of_messages(
        case, ends, "message sizes" if _is_same_message(issue) else "messages"
    )
    known = (
        odd_message.reason(case, candidate)
        or odd_end.reason(case, candidate)
        or odd_line.reason(case, candidate)
        or crossed.reason(case, issue)
        or list_shift.reason(case, issue)
        or crossed.sent_later(case, issue)
    )
    return Wording(
        f"rank {channel.source} sends {sent}, rank {channel.destination} awaits {wanted}",
        f"The {words.ordinal(issue.seq)} message from rank {channel.source} to rank "
        f"{channel.destination}{_tag(issue)} differs in {what} at its two "
        f"ends{_ends(case, issue, what)}.{_taken_before(issue)}"
        f"{known.cause if known is not None else ''} {_UNCHECKED}{_other_parts(issue)}"
        f"{_stumbled(case, candidate)}",
        told
        or (known.fix if known is not None else "")
        or f"Give the receive buffer the {what} of the tensor that is sent"
        + (
            f".{_other_message(issue)}"
            if what == "dtype"
            else "; where it varies, send the shape first, or bring what is sent to one size on "
            "every rank (pad it)." + _ragged(case, issue)
        ),
    )


def _other_message(issue: ChannelIssue) -> str:
    """What to change where two ends are of another dtype and size, as other messages are."""
    ends = [call for call in (issue.send, issue.recv) if call is not None]
    if len({tuple(numel(call.shape)) for call in ends}) < 2:
        return ""
    return (
        "\nIf they are not meant for each other, one end has made a message that the other has "
        "left out: let both make the same messages, in the same order."
    )


def _ends(case: Case, issue: ChannelIssue, what: str) -> str:
    """``: send of float32[2, 8] (16 elements) and recv of float32[2, 5] (10 elements)``.

    With the lines of those that a helper made, as the headline names only who called it.
    """
    told = words.sized if what == "size" else words.tensors
    ends = []
    for rank, call in (
        (issue.channel.source, issue.send),
        (issue.channel.destination, issue.recv),
    ):
        if call is not None:
            in_helper = telling(case, rank, call) is not call
            at = at_its_line(case, rank, call) if in_helper else ""
            comma = "," if at and call is issue.send else ""
            ends.append(f"{words.message(call)} of {told(call)}{at}{comma}")
    return f": {words.listed(ends)}"


def _tag(issue: ChannelIssue) -> str:
    return f" with tag {issue.channel.tag}" if issue.channel.tag else ""


_UNCHECKED: Final = (
    "Backends do not check it: bytes are reinterpreted, cut off, or awaited for ever."
)


def _taken_before(issue: ChannelIssue) -> str:
    """That receives from any source have taken earlier messages: a sentence after a space."""
    if not issue.taken:
        return ""
    return (
        f" Of the {issue.seq - 1:,} before it, receives from any rank took {issue.taken:,}: they "
        "take whatever comes first."
    )


def _taken_from_any(case: Case, candidate: Candidate, issue: ChannelIssue) -> Wording:
    """A receive from any source that took a message that does not fit it."""
    channel, send, recv = issue.channel, issue.send, issue.recv
    assert send is not None
    assert recv is not None
    here, source = channel.destination, f"rank {channel.source}"
    recv = telling(case, here, recv)
    name = f"{recv.api or recv.op}{words.at(recv)}"
    cause = (
        f"The {name} names no source: it takes whatever comes first, from any rank. It took the "
        f"{words.ordinal(issue.seq)} message from {source} to rank {here}{_tag(issue)}, "
        f"its {words.message(send)}{at_its_line(case, channel.source, send)}."
    )
    own_tag = "or give each kind of message a tag of its own, at both ends."
    fix = (
        "Give the receive buffer the dtype and size of the tensor that is sent. Where several "
        f"kinds of messages may come, name the rank (src=), {own_tag}"
    )
    first, after = (issue.before.recv, issue.before.next) if issue.before else (None, None)
    if issue.before is not None and first is not None:
        first = telling(case, here, first)
        at = words.at(first)
        cause += f" The {first.op} before it{at} had taken one of rank {issue.before.source}"
        if after is None:
            cause += "."
        else:
            cause += (
                f", whose next message to rank {here}, "
                f"{words.tensors(after)}{at_its_line(case, issue.before.source, after)}, "
                f"fits: {source}'s came before it."
            )
            rank = f"the rank that the {first.op}{at} returns"
            if first.peer != ANY_SOURCE:
                rank = f"rank {first.peer}, as the {first.op}{at} does"
            elif first.async_:
                rank = f"the rank whose message the {first.op}{at} got"
            fix = f"Name {rank} as the source (src=) of the {name} that belongs to it; {own_tag}"
    return Wording(
        f"rank {here}'s {name} takes from any rank, and took {source}'s {words.tensors(send)}, "
        f"sent{words.at(telling(case, channel.source, send))}, for {words.tensors(recv)}",
        f"{cause} {_UNCHECKED}{_other_parts(issue)}{_stumbled(case, candidate)}",
        fix,
    )


def _is_same_message(issue: ChannelIssue) -> bool:
    """Whether both ends are one part of a framework's schedule, so that only the size differs."""
    ends = [call for call in (issue.send, issue.recv) if call is not None]
    parts = {(call.role, call.part and call.part.rpartition(", ")[2]) for call in ends}
    return issue.attribute == "count" and len(ends) == 2 and len(parts) == 1


def _stumbled(case: Case, candidate: Candidate) -> str:
    """Exceptions on ranks that were sent what came of a message: sentences after a space."""
    return "".join(
        f" What came of it reached rank {rank}, which ended with an exception "
        f"({rank_words.detail(case.standings[rank])})."
        for rank in passed_on(case, candidate)
        if failed_by_itself(case.standings[rank])
    )


def _ragged(case: Case, issue: ChannelIssue) -> str:
    """What to change where the last batch is smaller: a sentence after a space, or nothing."""
    ends = [call for call in (issue.send, issue.recv) if call is not None]
    if not loads_data(case) or not arguments.differs_in_first_only(ends):
        return ""
    return (
        " Only the first dimension differs: if the last batch is smaller, DataLoader("
        "drop_last=True)."
    )
