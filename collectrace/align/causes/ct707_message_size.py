"""The two ends of a message differ in size or dtype.

What it means
    The n-th send of a channel meets the n-th receive. Backends do not check that they match: bytes
    are reinterpreted or truncated, or the receive waits forever. A receive without a source takes
    the message that arrives first, which may be meant for another receive.

Example
    ::

        dist.send(torch.ones(4), 1)     # rank 0
        dist.recv(torch.empty(6), 0)    # rank 1

Not to be confused with
    CT708, if the sizes match in another order.

How to fix it
    Give the receive buffer the size and dtype of the tensor that is sent. If the size varies, send
    the shape first. Name the source if the receive names none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from collectrace import words as words_
from collectrace.align.causes import arguments, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.facts_of_misfits import Sent, ends_of
from collectrace.align.judging.passed_on import dependent_ranks
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks.standing import failure
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call
from collectrace.signature import numel

_UNCHECKED: Final = (
    "Backends do not check it: bytes are reinterpreted, cut off, or awaited for ever."
)


class Unlike(NamedTuple):
    """How a suspect's message differs from those of peers at the same line."""

    what: Literal["value", "order"]
    """``value``: another size or dtype. ``order``: the same tensors in another order."""
    rank: int
    likes: tuple[int, ...]
    """The peers that did otherwise."""
    usual: Call | None = None
    """The peers' message."""
    before: int = 0
    """Equal messages of the rank and its peers before."""


class Unfit(NamedTuple):
    """A message with two different ends."""

    issue: ChannelIssue
    send: Call
    recv: Call
    unlike: Unlike | None
    """How the suspect's end differs from its peers' messages from the same line."""


def find(situation: Situation) -> Unfit | None:
    """Return the message with two different ends."""
    issue = situation.candidate.source
    if not isinstance(issue, ChannelIssue) or issue.send is None or issue.recv is None:
        return None
    if issue.attribute not in ("dtype", "count"):
        return None
    is_known = not issue.is_from_any
    unlike = _compare_with_peers(situation, issue) if is_known else None
    return Unfit(issue, issue.send, issue.recv, unlike)


def _compare_with_peers(situation: Situation, issue: ChannelIssue) -> Unlike | None:
    """Return how a suspect's end of a message differs from its peers; None: not known."""
    case = situation.case
    ends = ((issue.channel.source, issue.send), (issue.channel.destination, issue.recv))
    found = next(((r, call) for r, call in ends if r in situation.suspects and call), None)
    if found is None:
        return None
    rank, call = found
    own = ends_of(case, rank)
    others = {r: made for r in case.evidence.logs if r != rank and (made := ends_of(case, r))}
    mine = next((one for one in own if (one.key, one.seq) == (issue.channel, call.seq)), None)
    if mine is None:
        return None
    texts = [one.text for one in own if one.place == mine.place]
    before = [one.text for one in own[: own.index(mine)] if one.place == mine.place]
    theirs = {
        r: same
        for r, made in others.items()
        if (same := [o for o in made if o.place == mine.place])
    }
    for made in theirs.values():
        other = [one.text for one in made]
        if other != texts and len(texts) > 1 and Counter(other) == Counter(texts):
            return Unlike("order", rank, tuple(theirs))
    usual = next(((r, o) for r, made in theirs.items() for o in made if o.text != mine.text), None)
    if usual is None:
        return None
    return Unlike(
        "value", rank, tuple(theirs), _call(situation, *usual), before.count(usual[1].text)
    )


def _call(situation: Situation, rank: int, sent: Sent) -> Call | None:
    return situation.case.call(rank, sent.key, sent.seq)


def words(situation: Situation, found: Unfit) -> Words:
    """Return the words for a message with two different ends."""
    issue, send, recv, unlike = found
    if issue.is_from_any:
        return _from_any(issue, send, recv)
    source, destination = f"rank {issue.channel.source}", f"rank {issue.channel.destination}"
    lists = length(send), length(recv)
    is_list = None not in lists and lists[0] != lists[1]
    sites = {side.ranks[0]: call.site for side, call in situation.called}
    sent = _what(send, lists[0] if is_list else None, sites.get(issue.channel.source))
    wanted = _what(recv, lists[1] if is_list else None, sites.get(issue.channel.destination))
    headline = f"{source} sends {sent}, {destination} awaits {wanted}"
    if situation.is_tie:
        ranks = words_.ranges((issue.channel.source, issue.channel.destination))
        headline = f"ranks {ranks} disagree: {sent} sent, {wanted} awaited"
    # The statement that led to these lines does not explain what was passed there.
    is_led = _are_others(send, recv)
    what = "dtype" if issue.attribute == "dtype" else "size"
    why = [
        f"The {words_.ordinal(issue.seq)} message from {source} to {destination} differs in "
        f"{what}: {source} sends {_sized(send)}, {destination} awaits {_sized(recv)}."
    ]
    fixes = [f"Give the receive buffer the {what} of the tensor that is sent."]
    if is_list:
        fixes = [
            f"Pass recv_object_list a list with as many entries as {source} sends: send their "
            "number first, or send the whole list as one object."
        ]
    elif unlike is not None:
        said, fixes = _of_suspect(unlike, issue)
        why[:0] = [said, *_ends_of_all(situation, unlike.rank)]
    elif is_led:
        why.append("They differ in more than that, so they may not be meant for each other.")
        fixes = [
            "Let both ends make the same messages in the same order: one of them skipped a message "
            "or made one more.",
            f"If they are meant for each other: {words_.lower(fixes[0])}",
        ]
    elif what == "size":
        fixes.append(
            "Or if it varies, send the shape first, or bring what is sent to one size on every "
            f"rank (pad it).{_first_dimension(send, recv)}"
        )
    made = not is_led and (unlike is None or unlike.what == "value")
    passed = arguments.why(situation) if made and arguments.are_values(situation) else ()
    why += [*passed, *_stumbled(situation), _UNCHECKED]
    if passed:
        fixes = arguments.computed_first(situation, fixes)
    is_decided = is_led or bool(passed)
    return replace(Words.of(headline, why, fixes), undecided=not is_decided)


def _are_others(send: Call, recv: Call) -> bool:
    """Whether two ends differ in both dtype and size, or only one sends a list of objects."""
    if ("object" in (send.api or "")) is not ("object" in (recv.api or "")):
        return True
    return send.dtype != recv.dtype and numel(send.shape) != numel(recv.shape)


def _from_any(issue: ChannelIssue, send: Call, recv: Call) -> Words:
    """Return the words for a receive from any rank that took a message of another kind."""
    here, source = f"rank {issue.channel.destination}", f"rank {issue.channel.source}"
    line, before = phrases.line(recv.site), issue.before
    why = [
        f"The recv{line} names no source: it takes whatever comes first, from any rank.",
        f"It took {source}'s {words_.tensors(send)}, sent{phrases.line(send.site)}, for "
        f"{words_.tensors(recv)}.",
    ]
    which = "the rank (src=)"
    if before is not None and before.recv is not None:
        first = phrases.line(before.recv.site)
        why.append(f"The recv before it{first} had taken a message of rank {before.source}.")
        which = f"the rank that the recv{first} returned as its source (src=)"
        if before.recv.peer != ANY_SOURCE:
            which = f"rank {before.recv.peer} as its source (src=), as the recv{first} does"
    return Words(
        f"{here} took a message of {source} in a recv{line} from any rank, which does not fit",
        tuple(why),
        (
            f"Name {which} in the recv{line}.",
            "Or give each kind of message a tag of its own, at both ends.",
        ),
    )


def length(call: Call) -> int | None:
    """Return the length of the object list to which a message of sizes belongs; or None.

    send_object_list first sends an int64 for each object (distributed_c10d.py, torch 2.13).
    """
    apis = ("send_object_list", "recv_object_list")
    if call.api not in apis or call.dtype != "int64" or len(call.shape or ()) != 1:
        return None
    size = (call.shape or [0])[0]
    return size if isinstance(size, int) else None


def _what(call: Call, objects: int | None, site: str | None) -> str:
    place = phrases.line(site or call.site)
    if objects is not None:
        return f"a list of {words_.counted(objects, 'object')}{place}"
    return words_.tensors(call) + place


def _sized(call: Call) -> str:
    return f"{words_.sized(call)} in {words_.message(call)}{phrases.line(call.site)}"


def _of_suspect(found: Unlike, issue: ChannelIssue) -> tuple[str, list[str]]:
    who, others = f"rank {found.rank}", words_.ranks(found.likes)
    usual = words_.tensors(found.usual) if found.usual is not None else ""
    does = "sent" if found.rank == issue.channel.source else "awaits"
    match found.what:
        case "order":
            return (
                f"{words_.upper(who)} {does} the same tensors as {others} from the same line, "
                "in another order.",
                [
                    f"Let {who} use the order of {others}: iterate over a list that is the "
                    "same on every rank, such as sorted(names).",
                ],
            )
    before = f", as {who} did in the {found.before} messages before" if found.before else ""
    return (
        f"{words_.upper(others)} made {usual} from the same line{before}; {who} alone did not.",
        [
            f"Let {who} send and await {usual}, as {others} "
            f"do{' and as it did before' if found.before else ''}: bring what is sent to one "
            "size and dtype on every rank (cast or pad it).",
            "Or change it on all ranks in the same step, or send the shape first.",
        ],
    )


def _ends_of_all(situation: Situation, rank: int) -> list[str]:
    """Return that a rank is at one end of every mismatched message, or nothing."""
    issues = [one for one in situation.case.comparison.channels if one.attribute != "absent"]
    ends = [(one.channel.source, one.channel.destination) for one in issues]
    is_at_all = len(ends) > 1 and all(rank in one for one in ends)
    return [f"Rank {rank} is at one end of every message that does not fit."] if is_at_all else []


def _first_dimension(send: Call, recv: Call) -> str:
    one, two = send.shape or [], recv.shape or []
    is_first = len(one) == len(two) > 1 and one[0] != two[0] and one[1:] == two[1:]
    return " If the last batch is smaller: DataLoader(drop_last=True)." if is_first else ""


def _stumbled(situation: Situation) -> list[str]:
    """Return that the message made another rank raise."""
    told = []
    for rank in dependent_ranks(situation.case, situation.candidate):
        standing = situation.case.standings[rank]
        if standing.state == "raised" and not standing.by_peers and standing.exit is not None:
            said = failure(standing.exit)
            error = words_.exception(said.error, said.text) + phrases.line(said.site)
            told.append(
                f"What came of it reached rank {rank}, which ended with an exception ({error})."
            )
    return told
