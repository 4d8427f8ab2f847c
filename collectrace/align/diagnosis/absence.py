"""Calls that some ranks never made: what those ranks did instead, and what to change."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from collectrace import dumps, words
from collectrace.align.diagnosis import ddp, inputs, loop
from collectrace.align.diagnosis.wording import (
    EVERY_RANK,
    FOLLOWS,
    Explainer,
    Reason,
    Wording,
    called,
    even_inputs,
    first,
    place,
)
from collectrace.align.judging import patience
from collectrace.align.judging.candidate import Candidate, IncompleteRow
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks import waitgraph
from collectrace.align.ranks.standing import Standing
from collectrace.records import Call


def explain(case: Case, candidate: Candidate) -> Wording:
    """A collective that not all ranks came to."""
    if isinstance(candidate.source, IncompleteRow):
        return _failed_call(case, candidate, candidate.source)
    who, came = candidate.absent, called(candidate)
    what = words.name(came[0][1]) + words.at(came[0][1]) if came else "a call"
    if candidate.severity == "info":
        return _too_early(case, candidate, f"{words.ranks(who)} had not come to {what}")
    found = inputs.of_candidate(case, candidate)
    did = [_did(case, side.ranks, found) for side in candidate.sides if side.call is None]
    here, them = candidate.present, words.verb(who, "it", "them")
    there = f" without {what}, to which {words.ranks(here)} came"
    if patience.waited(case, candidate):
        wait = words.verb(here, "waits", "wait")
        there = f"; {words.ranks(here)} {wait} for {them} in {what}"
    reason = first(_REASONS, case, candidate) or _generic(case, candidate)
    return Wording(words.listed(did) + there, reason.cause, reason.fix)


def _did(case: Case, ranks: tuple[int, ...], found: inputs.Inputs | None = None) -> str:
    """What absent ranks of one state did instead, in a few words."""
    standing = case.standings[ranks[0]]
    leaving = standing.log.exit if standing.log is not None else None
    text = _DID[standing.state]
    if standing.disabled:
        text = "traced no further"
    elif standing.state == "finished" and found is not None:
        text += found.after(ranks)
    elif standing.state == "raised" and leaving is not None and leaving.error is not None:
        text = f"raised {words.brief(leaving.error, 60)}"
        text += f" at {words.site(leaving.site)}" if leaving.site else ""
    elif standing.state == "blocked" and standing.waiting:
        w = standing.waiting[0]
        at = f" at {words.site(w.site)}" if w.site else ""
        text = f"waits in {w.op or 'another call'}{at}" if len(ranks) == 1 else "wait elsewhere"
    elif standing.state == "died" and standing.log is not None and standing.log.last_call:
        text += f" after {words.name(standing.log.last_call)}{words.at(standing.log.last_call)}"
    elif standing.state == "busy" and (frame := _stack(standing)):
        text = f"is busy at {words.site(frame.split(' ')[0])}"
    if len(ranks) > 1:
        text = text.replace("is ", "are ", 1) if text.startswith("is ") else text
        text = text.replace("stands", "stand").replace("was ", "were ")
    return f"{words.ranks(ranks)} {text}"


_DID: Final = {
    "finished": "finished",
    "raised": "raised an exception",
    "died": "died",
    "busy": "is busy, in no collective",
    "silent": "stands still",
    "blocked": "is held up elsewhere",
    "running": "was elsewhere",
    "missing": "left no file",
}


def _too_early(case: Case, candidate: Candidate, headline: str) -> Wording:
    waited = patience.waited(case, candidate)
    return Wording(
        f"{headline} when the logs end ({place(candidate)})",
        f"They had been waited for {words.seconds(waited)} at most. A healthy job that is stopped, "
        "or looked at while it runs, has ranks a call apart: this proves nothing.",
        "If the job hung here, let it hang for longer than a minute before it is stopped, and "
        "align its logs again.",
    )


def _failed_call(case: Case, candidate: Candidate, source: IncompleteRow) -> Wording:
    """Everyone issued it, but on some ranks it raised before it reached the others."""
    who = words.ranks(source.failed)
    waiting = [r for r in source.calls if r not in source.failed]
    others = words.ranks(waiting)
    call = next((source.calls[r] for r in source.failed if source.calls[r]), None)
    what = words.name(call) + words.at(call) if call is not None else place(candidate)
    return Wording(
        f"{what} raised on {who} and never reached {others}",
        f"{_details(case, source.failed)} The call was refused there, and {others} "
        f"{words.verb(waiting, 'waits', 'wait')} for it.",
        "Fix what raised; the other ranks did nothing wrong.",
    )


def _details(case: Case, ranks: Iterable[int]) -> str:
    """What became of ranks; those whose words differ in numbers only are told by their first."""
    alike: dict[str, list[int]] = {}
    for rank in ranks:
        alike.setdefault(_NUMBER.sub("#", case.standings[rank].detail), []).append(rank)
    parts = []
    for those in list(alike.values())[:_MOST_DETAILS]:
        texts = {case.standings[rank].detail for rank in those}
        text = case.standings[those[0]].detail
        if len(texts) > 1:
            more = words.counted(len(those) - 1, "more rank")
            parts.append(f"Rank {those[0]}: {text} ({more} likewise).")
        elif text:
            parts.append(f"{words.upper(words.ranks(those))}: {text}.")
    return " ".join(parts)


_NUMBER: Final = re.compile(r"\d+")
_MOST_DETAILS: Final = 4


# -- reasons, the most telling first ---------------------------------------------------------


def _culprits(case: Case, candidate: Candidate) -> list[Standing]:
    """Who is waited for in the end."""
    ends = waitgraph.follow(case.graph, case.standings, candidate.absent)
    return [case.standings[rank] for rank in sorted(candidate.suspects or ends)]


def _chain(case: Case, candidate: Candidate) -> str:
    """How waiting leads from the absent ranks to others."""
    links = []
    for rank in candidate.absent:
        standing = case.standings[rank]
        edges = case.graph.of(rank)
        if standing.waiting and edges:
            others = words.ranks(edge.target[0] for edge in edges)
            w = standing.waiting[0]
            info = case.comparison.groups.get(w.group)
            where = f" of {words.group(info)}" if info is not None else ""
            at = f" at {words.site(w.site)}" if w.site else ""
            links.append(f"rank {rank} waits for {others} in {w.op}{at}{where}")
    return f" {words.upper('; '.join(links[:4]))}." if links else ""


def _after_cause(case: Case, candidate: Candidate) -> Reason | None:
    cause = candidate.cause
    if cause is None:
        return None
    who = words.ranks(candidate.absent)
    if candidate.stream is not None and cause.stream == candidate.stream:
        text = f"Since call {cause.seq} the ranks are out of step, and one side has calls left."
    else:
        where = f" ({place(cause)})" if cause.group is not None else ""
        text = f"{words.upper(who)} could not come because of the cause above{where}."
    return Reason(text + _chain(case, candidate), FOLLOWS)


def _raised(case: Case, candidate: Candidate) -> Reason | None:
    """Whoever is waited for raised; who raised because it waited here in vain is no reason."""
    waits = set(candidate.present)
    raised = [s for s in _culprits(case, candidate) if s.state == "raised" and s.rank not in waits]
    if not raised:
        return None
    who = words.ranks(s.rank for s in raised)
    text = _details(case, [s.rank for s in raised])
    waiting = f"The others wait for {who}."
    for message in map(_message, raised):
        known = ddp.from_exception(message, who)
        if known is not None:
            return Reason(f"{text} {known.cause} {waiting}", known.fix)
        if "process group" in message.lower() and "init" in message.lower():
            return Reason(
                f"{text} The process group was gone, or had never been made, when the call came. "
                f"{waiting}",
                "Call destroy_process_group() after the last collective on every rank, once.",
            )
    return Reason(
        f"{text} {waiting}{_chain(case, candidate)}",
        "Fix what raised.\n"
        "Where a rank may fail alone, let all ranks learn of it before the next collective (an "
        "all_reduce of an error flag), or let the launcher end the job.",
    )


def _message(standing: Standing) -> str:
    leaving = standing.log.exit if standing.log is not None else None
    return (leaving.message or "") if leaving is not None else ""


def _died(case: Case, candidate: Candidate) -> Reason | None:
    died = [s for s in _culprits(case, candidate) if s.state == "died"]
    if not died:
        return None
    who = words.ranks(s.rank for s in died)
    return Reason(
        f"{_details(case, [s.rank for s in died])} {words.upper(who)} left no last line, as a "
        "process does that is killed (out of memory), aborts in C++, or leaves by os._exit."
        f"{_last_calls(case, died)}",
        f"Look at what {who} printed last, at its exit code in the launcher's output (-9: killed, "
        "-6: aborted), and in the kernel's log for the out-of-memory killer (dmesg).",
    )


def _last_calls(case: Case, standings: list[Standing]) -> str:
    parts = []
    for standing in standings[:4]:
        last = standing.log.last_call if standing.log is not None else None
        if last is not None:
            info = case.comparison.groups.get(last.group)
            where = f" of {words.group(info)}" if info is not None else ""
            parts.append(
                f"rank {standing.rank}'s last call was {words.name(last)}{words.at(last)}, "
                f"number {last.seq}{where}"
            )
    return f" {words.upper('; '.join(parts))}." if parts else ""


def _elsewhere(case: Case, candidate: Candidate) -> Reason | None:
    """Busy or silent ranks."""
    slow = [s for s in _culprits(case, candidate) if s.state in ("busy", "silent", "running")]
    if not slow:
        return None
    who = words.ranks(s.rank for s in slow)
    stacks = [f" Rank {s.rank} was at {_short(top)}." for s in slow[:3] if (top := _stack(s))]
    text = f"{_details(case, [s.rank for s in slow])}{''.join(stacks)}{_last_calls(case, slow)}"
    text += _chain(case, candidate)
    if all(s.state == "silent" for s in slow):
        return Reason(
            f"The process of {who} exists but gives no sign of life: it is stopped (SIGSTOP, a "
            f"debugger), or its machine hangs. {text}",
            f"Look at the process of {who} on its host (`ps -o stat,wchan`, `py-spy dump`).",
        )
    if any("fetching a batch" in s.detail for s in slow):
        return Reason(
            f"{words.upper(who)} {'waits' if len(slow) == 1 else 'wait'} for data: {text}",
            "Make loading faster or more even (num_workers, prefetch_factor, local copies), or "
            "give init_process_group a timeout that covers the slowest batch.",
        )
    return Reason(
        f"{words.upper(who)} showed signs of life, in code without collectives, while the others "
        f"waited. {text}",
        f"Find out what {who} is doing there (`py-spy dump`, the `stall` line of its log): an "
        "endless loop, a lock, or work that only some ranks do. Work that is meant to take long "
        "needs a longer timeout of init_process_group.",
    )


def _short(frame: str) -> str:
    """``train.py:20 (load)`` for ``/job/train.py:20 load``."""
    site, _, function = frame.partition(" ")
    return f"{words.site(site)} ({function})" if function else words.site(site)


def _stack(standing: Standing) -> str:
    """The innermost frame of the main thread that a stall has recorded."""
    stall = standing.log.stall if standing.log is not None else None
    if stall is None:
        return ""
    frames = next((f for name, f in stall.stacks.items() if name.startswith("MainThread")), [])
    return words.brief((dumps.own(frames) or frames)[-1]) if frames else ""


def _uneven(case: Case, candidate: Candidate) -> Reason | None:
    found = inputs.of_candidate(case, candidate)
    came = called(candidate)
    if found is None or not came:
        return None
    (side, call) = came[0]
    gone = words.ranks(set(candidate.absent) & found.ended)
    waits = words.verb(side.ranks, "waits", "wait")
    return Reason(
        f"Uneven inputs: {found.phrase()}. {words.upper(words.ranks(side.ranks))} {waits} in "
        f"{words.name(call)}{words.at(call)} for {gone}, which had no input left to come to it "
        "with.",
        even_inputs(loop.own_calls(case, side.ranks[0], candidate)),
    )


def _evaluated(case: Case, candidate: Candidate) -> Reason | None:
    if any(case.standings[r].state != "finished" for r in candidate.absent):
        return None
    return ddp.evaluated_alone(case, candidate)


def _finished(case: Case, candidate: Candidate) -> Reason | None:
    """A loop that ran longer on some ranks, or a call that only some make at the end."""
    if any(case.standings[r].state != "finished" for r in candidate.absent) or not candidate.absent:
        return None
    came = called(candidate)
    if not came or candidate.stream is None or candidate.seq is None:
        return None
    side, call = came[0]
    who, others = words.ranks(candidate.absent), words.ranks(side.ranks)
    before = loop.before(case, side.ranks[0], candidate.stream, candidate.seq)
    if before is not None and loop.token(before.expected) == loop.token(call):
        rounds = words.counted(before.rounds, "time")
        return Reason(
            f"{words.upper(who)} finished after {rounds} through the loop; {others} began another "
            f"round with {words.name(call)}{words.at(call)}: the loop ran longer there.",
            "Give the loop the same length on every rank: agree on the number of steps first, for "
            "example by an all_reduce (MIN).",
        )
    return Reason(
        f"{words.upper(who)} finished without {words.name(call)}{words.at(call)}, which {others} "
        f"issued as one call more.",
        EVERY_RANK,
    )


def _generic(case: Case, candidate: Candidate) -> Reason:
    who = words.ranks(candidate.absent)
    n = words.counted((candidate.seq or 1) - 1, "call")
    return Reason(
        f"{words.upper(who)} issued {n} in this group, the others one more."
        f"{_chain(case, candidate)} The logs do not show why.",
        EVERY_RANK,
    )


_REASONS: Final[tuple[Explainer, ...]] = (
    _after_cause, _raised, _died, _elsewhere, _evaluated, _uneven, _finished,
)  # fmt: skip


# -- point to point --------------------------------------------------------------------------


def message(case: Case, candidate: Candidate) -> Wording:
    """A message without a partner, or with one that does not fit."""
    issue = candidate.source
    assert isinstance(issue, ChannelIssue)
    channel = issue.channel
    if issue.attribute != "absent":
        return _unfit(issue)
    call: Call | None = issue.recv if issue.recv is not None else issue.send
    here, peer = (
        (channel.destination, channel.source)
        if issue.recv is not None
        else (channel.source, channel.destination)
    )
    what = f"{call.op}{words.at(call)}" if call is not None else f"message {issue.seq}"
    missing, way = ("send", "to") if issue.recv is not None else ("recv", "from")
    other = f"rank {peer}" if peer >= 0 else "any rank"
    if candidate.severity == "info":
        return _too_early(case, candidate, f"rank {here}'s {what} had met no {missing} of {other}")
    headline = f"rank {here}'s {what} meets no {missing} of {other}"
    headline += f": {issue.hint}" if issue.hint else ""
    tag = f" with tag {channel.tag}" if channel.tag else ""
    n = issue.seq - 1
    issued = f"only {words.counted(n, missing)}" if n else f"no {missing} at all"
    cause = f"{words.upper(other)} issued {issued} {way} rank {here}{tag} in this group."
    standing = case.standings.get(peer)
    if candidate.cause is not None:
        cause += f" {words.upper(other)} could not come to it because of the cause above."
    elif standing is not None and (how := _end(standing)):
        cause += f" {words.upper(other)} {how}."
    fix = FOLLOWS if candidate.cause is not None else _P2P_FIX
    if issue.hint and candidate.cause is None:
        fix = f"Name the same peer and the same tag on both sides: {issue.hint}."
    return Wording(headline, cause, fix)


def _end(standing: Standing) -> str:
    """How the other side ended, where that is not for want of this very message."""
    if standing.state == "raised" and not standing.by_peers:
        return f"ended with an exception ({standing.detail})"
    return {"finished": "has finished", "died": "died", "missing": "left no file"}.get(
        standing.state, ""
    )


_P2P_FIX: Final = (
    "Give every send one recv on the other rank, with the same group, peer and tag. Count both: "
    "is a loop over microbatches one longer on one side?\n"
    "Neighbours that exchange do it best through batch_isend_irecv."
)


def _unfit(issue: ChannelIssue) -> Wording:
    channel, send, recv = issue.channel, issue.send, issue.recv
    sent = words.tensors(send) + words.at(send) if send is not None else "?"
    wanted = words.tensors(recv) + words.at(recv) if recv is not None else "?"
    what = "dtype" if issue.attribute == "dtype" else "size"
    return Wording(
        f"rank {channel.source} sends {sent}, rank {channel.destination} awaits {wanted}",
        f"The {words.ordinal(issue.seq)} message from rank {channel.source} to rank "
        f"{channel.destination} differs in {what} at its two ends. Backends do not check it: "
        "bytes are reinterpreted, cut off, or awaited for ever.",
        f"Give the receive buffer the {what} of the tensor that is sent; where it varies, send "
        "the shape first.",
    )
