"""Compare a rank's message with those that its peers sent from the same line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from collectrace.align.causes.situation import Situation
from collectrace.align.judging.facts_of_misfits import Sent, ends_of
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.records import Call


@dataclass(frozen=True, slots=True)
class Unlike:
    """How a suspect's message differs from those of peers at the same line."""

    what: Literal["value", "order", "extra"]
    """``value``: another size or dtype. ``order``: the same tensors in another order. ``extra``: a
    message from a line that no other rank ever ran."""
    rank: int
    likes: tuple[int, ...]
    """The peers that did otherwise."""
    usual: Call | None = None
    """The peers' message; for ``extra``, the extra message."""
    before: int = 0
    """Equal messages of the rank and its peers before."""


def compare_with_peers(situation: Situation, issue: ChannelIssue) -> Unlike | None:
    """Return how a suspect's end of a message differs from its peers; None: not known."""
    case = situation.case
    ends = ((issue.channel.source, issue.send), (issue.channel.destination, issue.recv))
    found = next(((r, call) for r, call in ends if r in situation.suspects and call), None)
    if found is None:
        return None
    rank, call = found
    own = ends_of(case, rank)
    others = {r: made for r in case.evidence.logs if r != rank and (made := ends_of(case, r))}
    verdict = situation.candidate.verdict
    for row in verdict.evidence if verdict is not None else ():
        if row.fact == "message_of_its_own" and isinstance(row.shown_by, Sent):
            return Unlike("extra", rank, tuple(others), _call(situation, rank, row.shown_by))
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
