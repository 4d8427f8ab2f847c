"""One rank is at an end of every message that does not fit, and the others' fit each other."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.odd_end import odd_end
from collectrace.align.matching.comparison import ChannelIssue


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """What the others did with each other, after a space, and what to change; None: no such."""
    odd, issue = odd_end(case, candidate), candidate.source
    if odd is None or not isinstance(issue, ChannelIssue):
        return None
    is_sent = issue.channel.source == odd.rank
    call = issue.recv if is_sent else issue.send
    usual = words.tensors(call) if call is not None else "the same"
    who, peers = f"rank {odd.rank}", words.ranks(odd.peers)
    all_others = words.ranks(sorted({*odd.peers, *odd.others}))
    cause = (
        f" {words.upper(who)} is at one end of every message that does not fit; at the other are "
        f"{peers}."
    )
    if odd.way == "permuted":
        did = "sent" if is_sent else "awaited"
        return Reason(
            f"{cause} It {did} the same as {words.ranks(odd.others)} from the same line, in "
            "another order.",
            f"Let {who} go through them in the order of {words.ranks(odd.others)}: by a list that "
            "all ranks make alike, such as sorted(names), rather than in the order in which each "
            "has filled a dict or a set.",
        )
    if odd.way == "dtype":
        dtype = call.dtype if call is not None and isinstance(call.dtype, str) else "one dtype"
        return Reason(
            f"{cause} {words.upper(all_others)} exchange {dtype} with each other, from the same "
            "lines.",
            f"Let {who} send and await {dtype} as {all_others} do: cast what it sends, and make "
            "what it receives into by the same setting on every rank.",
        )
    return Reason(
        f"{cause} {words.upper(all_others)} exchange what they did in the {issue.seq - 1:,} "
        f"messages before; {who} alone has come to another size.",
        f"Let {who} exchange {usual}, as {all_others} do and as it did before. Where the size is "
        "to change, let all change it in the same step: decide it by something that all ranks "
        "know (an all_reduce of it), or send it first.",
    )
