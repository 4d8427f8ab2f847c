"""A send has no receive, or a receive has no send.

What it means
    One end of a channel made more messages than the other. A channel is a group, a sender, a
    receiver and a tag. Messages of a channel match in the order in which they are made. Or the
    sender only started its send: ``isend`` loses the message if the process ends or destroys the
    group before ``wait()`` has returned.

Example
    ::

        for _ in range(5 if rank == 0 else 4):
            dist.send(x, 1) if rank == 0 else dist.recv(x, 0)

Not to be confused with
    CT705, if a message matches except for its tag, peer or group. CT703, if both ranks wait for
    each other.

How to fix it
    Match every send with one receive: count both. Loops around them need the same number of
    iterations. Call ``wait()`` on the work that ``isend`` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from collectrace import words as words_
from collectrace.align.causes import (
    channel_counts,
    deciders,
    departed_words,
    phrases,
    remedies,
    wait_cycle,
)
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.undelivered import senders
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks.standing import Standing, failure
from collectrace.findings import State
from collectrace.ops import ANY_SOURCE
from collectrace.signature import is_user

ONE_EACH: Final = "Give every send one recv on the other rank, with the same group, peer and tag."
COUNT: Final = f"{ONE_EACH} Count both: every rank must go through the same number of iterations."
_ENDS: Final[Mapping[State, tuple[str, str]]] = {
    "died": ("died", f"Find out why {{who}} died: look {words_.AT_ITS_END}."),
    "raised": (
        "ended with an exception",
        "Fix what raised on {who}: the message was still to come. If the rank is to go on after "
        "such an error, catch it, and send a message that says so.",
    ),
    "finished": (
        "has finished",
        "Let {who} make its message in its last iteration, too, before it leaves the loop: one "
        "that says that it was the last one.",
    ),
    "missing": ("left no file", ""),
}
"""How ranks ended, and what they should have done before."""


def find(situation: Situation) -> ChannelIssue | tuple[str, ...] | None:
    """Return the message that lacks an end; for a cycle, how uneven its messages were before."""
    source = situation.candidate.source
    if isinstance(source, ChannelIssue):
        return source if source.attribute in ("absent", "undelivered") else None
    return tuple(channel_counts.uneven(situation)) or None if situation.is_tie else None


def words(situation: Situation, found: ChannelIssue | tuple[str, ...]) -> Words:
    """Return the words for a message that lacks an end."""
    if isinstance(found, tuple):
        return _of_cycle(situation, found)
    if found.attribute == "undelivered":
        return _lost(situation, found)
    here, peer = found.channel.source, found.channel.destination
    call, lacks = found.send, "recv"
    if found.recv is not None:
        here, peer, call, lacks = peer, here, found.recv, "send"
    other = f"rank {peer}" if peer >= 0 else "any rank"
    site = {s.ranks[0]: c.site for s, c in situation.called}.get(here)
    made = phrases.call(call, site) if call is not None else f"message {found.seq}"
    n = found.seq - 1 + (found.taken if found.recv is not None else 0)
    counts = channel_counts.of_channel(situation.case, found.channel)
    if not counts:
        issued = f"only {words_.counted(n, lacks)}" if n else f"no {lacks} at all"
        way = "to" if lacks == "send" else "from"
        counts = f"{words_.upper(other)} made {issued} {way} rank {here}."
    elsewhere = ""
    if call is not None:
        elsewhere = channel_counts.met_elsewhere(situation.case, found.channel, call, here)
    why = [counts, elsewhere]
    guilty = situation.suspects or ((peer,) if peer >= 0 else ())
    for rank in guilty[:2]:
        why += _ended(situation, rank)
    standings = [one for rank in guilty if not (one := situation.case.standings[rank]).by_peers]
    states = {one.state for one in standings}
    fixes = _before_they_ended(situation, standings)
    decision = departed_words.deciding_statement(situation, ended=True)
    if decision is not None and deciders.origin(decision) != "exception":
        # Both ends of a message stand under conditions on the rank.
        of_two = decision.sides[0].rank != decision.sides[-1].rank
        if not (of_two and deciders.is_rank_test(decision)):
            why += deciders.reasons(situation, [decision, *deciders.rest(situation, decision)])
        if deciders.form(decision) == "loop":
            fixes += remedies.fixes(situation, decision)[:1]
    if call is not None and not is_user(call):
        part = f" ({call.part})" if call.part else ""
        why.insert(1, f"Rank {here} was in {words_.issuer(call)}{part}.")
    how = f"{min(states)} and " if states in ({"died"}, {"raised"}) else ""
    headline = f"{words_.ranks(guilty)} {how}made no {lacks} for rank {here}'s {made}"
    if situation.is_tie:
        who = words_.ranks({here, peer} - {ANY_SOURCE})
        headline = f"{who} disagree: rank {here}'s {made} has no {lacks} on {other}"
    count = COUNT if found.seq > 1 else ONE_EACH
    return Words.of(headline, why, fixes if how else (*fixes, count))


def _before_they_ended(situation: Situation, standings: Sequence[Standing]) -> list[str]:
    """Return what ranks should have done before they ended, as sentences."""
    fixes = []
    for state, (_, fix) in _ENDS.items():
        those = [one.rank for one in standings if one.state == state]
        if those and fix and not (state == "finished" and situation.is_tie):
            fixes.append(fix.format(who=words_.ranks(those)))
    return fixes


def _ended(situation: Situation, rank: int) -> list[str]:
    """Return how a rank ended, and which ranks wait for it, as sentences."""
    standing = situation.case.standings.get(rank)
    if standing is None or standing.state not in _ENDS or standing.by_peers:
        return []
    error = ""
    if standing.exit is not None and standing.state == "raised":
        said = failure(standing.exit)
        error = f": {words_.exception(said.error, said.text)}{phrases.line(said.site)}"
    told = [f"Rank {rank} {_ENDS[standing.state][0]}{error}."]
    waits = {
        n
        for n in situation.case.standings
        if any(edge.target[0] == rank for edge in situation.case.graph.of(n))
    }
    last = standing.last_call
    if last is not None and len(waits) > 1:
        told.append(
            f"Its last call was {phrases.call(last)}; {words_.ranks(waits)} wait for a message of "
            "it."
        )
    return told


def _lost(situation: Situation, found: ChannelIssue) -> Words:
    """Return the words for a message whose sender exited before it had arrived."""
    send, recv, begun = found.send, found.recv, senders(situation.case, found)
    api, line = (
        (send.api or "isend", phrases.line(send.site)) if send is not None else ("isend", "")
    )
    asked = phrases.line(recv.site) if recv is not None else ""
    who = sorted(one.rank for one in begun)
    counts = [f"rank {one.rank} had begun {words_.counted(one.count, 'message')}" for one in begun]
    receiver = found.channel.destination
    return Words(
        f"{words_.ranks(who)} left without waiting for {words_.verb(who, 'its', 'their')} "
        f"{api}{line}",
        (
            f"{api} only begins to send: {words_.listed(counts)} to rank {receiver}, and did "
            "not wait for them.",
            f"Rank {receiver} asked for the {words_.ordinal(found.seq)} message later "
            f"(recv{asked}), which was lost when its sender ended.",
        ),
        (
            f"Keep the work that {api} returns, and call wait() on it before the process ends "
            "or calls destroy_process_group(). Or use send().",
        ),
    )


def _of_cycle(situation: Situation, uneven: tuple[str, ...]) -> Words:
    who = words_.ranks(edge.waiting.rank for edge in situation.candidate.cycle)
    decision = departed_words.deciding_statement(situation)
    if decision is not None and deciders.origin(decision) == "rank":
        decision = None  # the ends of a message run different code by design
    why = deciders.reasons(situation, [decision])[:1] if decision is not None else ()
    fixes = remedies.fixes(situation, decision)[:1] if decision is not None else ()
    return Words(
        f"{who} disagree on the number of messages that they exchange",
        (wait_cycle.waits(situation), *uneven, *why)[:3],
        (COUNT, *fixes),
    )
