"""Calls to which every rank came, and that do not complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import lagging, rank_words
from collectrace.align.diagnosis.wording import FOLLOWS, Wording, place
from collectrace.align.judging.candidate import Candidate, IncompleteRow
from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import StreamKey
from collectrace.records import NATIVE

_MOST_NAMED: Final = 4
"""Ranks of which it is told what they did meanwhile."""


def explain(case: Case, candidate: Candidate) -> Wording:
    """One such call in words."""
    source = candidate.source
    assert isinstance(source, IncompleteRow)
    call = next((c for c in source.calls.values() if c is not None), None)
    what = words.name(call) + words.at(call) if call is not None else "a call"
    if source.late:
        return _late(case, candidate, source, what)
    who = candidate.suspects
    details = "; ".join(
        f"rank {rank}: {detail}"
        for rank in who
        if (detail := rank_words.detail(case.standings[rank]))
    )
    if who:
        silent = any(case.standings[r].state == "silent" for r in who)
        state = words.verb(who, "stands", "stand") + " still" if silent else "stopped"
        return Wording(
            f"{words.ranks(who)} {state} inside {what}, to which every rank came",
            f"{words.upper(words.ranks(who))} issued it and then gave no sign of life ({details}), "
            "so its part is never sent.",
            f"Look at the process of {words.ranks(who)}: stopped (SIGSTOP, a debugger), killed, or "
            "on a machine that hangs.",
            notes=lagging.notes(case, candidate),
        )
    headline = f"every rank came to {what}, and it never completes"
    if _callbacks(case, source) > 1:
        return Wording(
            headline,
            f"Calls after {place(candidate)} were issued by threads of gloo itself, in callbacks "
            "of earlier calls. gloo has a few threads for all calls of a group (2 by default): "
            "once each is held by a callback that waits, none is left to run what they wait for.",
            "Let no callback wait: chain the second call to the future of the first.\n"
            "With a comm hook that issues calls of its own, such as PowerSGD: raise bucket_cap_mb, "
            "so that there is one bucket.",
            notes=lagging.notes(case, candidate),
        )
    alike = f"All ranks of the group issued {place(candidate)} alike"
    if candidate.cause is not None:
        return Wording(headline, f"{alike}, after what is told above had parted them.", FOLLOWS)
    return Wording(
        headline,
        f"{alike}, and none is known to have "
        "stopped. What fails lies below the collective: the network, a driver, a GPU that hangs.",
        "Look at the network between the hosts, and run again with NCCL_DEBUG=INFO or "
        "TORCH_DISTRIBUTED_DEBUG=INFO.",
        notes=lagging.notes(case, candidate),
    )


def _late(case: Case, candidate: Candidate, source: IncompleteRow, what: str) -> Wording:
    """Ranks that came after others had given up."""
    who = tuple(sorted(source.late))
    others = [rank for rank in source.calls if rank not in source.late]
    by = words.seconds(max(source.late.values()))
    there = words.verb(others, "was", "were")
    did = " ".join(_before(case, rank, source) for rank in who[:_MOST_NAMED])
    return Wording(
        f"{words.ranks(who)} came to {what} {by} after the others, which had given up by then",
        f"{words.upper(words.ranks(others))} {there} there, and waited in vain; when "
        f"{words.ranks(who)} came, nobody was left to answer. {did}"
        f"{_gave_up_before(case, others, source)}",
        f"Find out what keeps {words.ranks(who)} so long before this call: work that only some "
        "ranks do (saving, evaluating, loading), or that takes longer there. Move it, or give it "
        "to all; work that is meant to take long needs a longer timeout of init_process_group.",
        notes=lagging.notes(case, candidate),
    )


def _before(case: Case, rank: int, source: IncompleteRow) -> str:
    """What a rank was in between the call before and the one it came late to: a sentence."""
    log, call = case.log(rank), source.calls.get(rank)
    if log is None or call is None:
        return ""
    before = case.call(rank, source.stream, source.seq - 1)
    since = before.t if before is not None else log.header.t
    gap = call.t - since
    where = f" after {words.name(before)}{words.at(before)}" if before is not None else ""
    stood = ""
    if log.stall is not None and since < log.stall.t < call.t:
        top = rank_words.top_frame(case.standings[rank])
        stood = f", at {rank_words.frame(top)}" if top else ""
    spent = [(b.t, b.wait, "waited for data", b.site) for b in log.batches]
    spent += [(s.t, s.wait, "waited for its device", s.site) for s in log.syncs]
    for t, wait, doing, site in spent:
        if since < t <= call.t and 2 * wait > gap:
            return f"Rank {rank} {doing} for {words.seconds(wait)} of that{words.at_site(site)}."
    return f"Rank {rank} was in no collective of this group for {words.seconds(gap)}{where}{stood}."


def _gave_up_before(case: Case, ranks: Sequence[int], source: IncompleteRow) -> str:
    """The call that ranks had given up just before, and gone on: a sentence after a space."""
    told: dict[str, list[int]] = {}
    for rank in ranks:
        log, call = case.log(rank), source.calls.get(rank)
        before = case.call(rank, source.stream, source.seq - 1)
        if log is None or call is None or before is None:
            continue
        for done in log.failed:
            made = case.call(rank, StreamKey(done.group, done.device), done.seq)
            if done.peer is None and made is not None and before.t < done.t < call.t:
                told.setdefault(f"{words.name(made)}{words.at(made)}", []).append(rank)
                break
    each = [f"{words.ranks(who)} had given up {what}" for what, who in told.items()]
    return f" Just before, {words.listed(each)}, and gone on." if each else ""


def _callbacks(case: Case, source: IncompleteRow) -> int:
    """How many threads of gloo, on some rank, issued calls after the row that does not complete."""
    if case.backend(source.stream) != "gloo":
        return 0
    most = 0
    for rank in source.calls:
        log = case.log(rank)
        if log is not None:
            later = log.calls(source.stream, source.seq + 1, log.last_seq[source.stream] + 1)
            threads = {c.thread for c in later if c is not None and c.thread}
            most = max(most, sum(name.startswith(NATIVE) for name in threads))
    return most
