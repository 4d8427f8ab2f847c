"""What concerns ranks together: groups they disagree about, cycles, rows that do not complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import lagging
from collectrace.align.diagnosis.wording import Wording, place
from collectrace.align.judging.candidate import Candidate, IncompleteRow
from collectrace.align.judging.candidates import IN_INIT
from collectrace.align.judging.case import Case
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading.evidence import GroupConflict
from collectrace.records import NATIVE, Group


def conflict(case: Case, candidate: Candidate) -> Wording:
    """A process group that the ranks do not agree about, or that not all came to create."""
    source = candidate.source
    assert isinstance(source, GroupConflict)
    asked = [(ranks, group) for ranks, group in source.variants if group is not None]
    absent = [rank for ranks, group in source.variants if group is None for rank in ranks]
    creates = "init_process_group" if _is_default(asked) else "new_group"
    present = [r for ranks, _ in asked for r in ranks]
    at = next((f" at {words.site(g.site)}" for _, g in asked if g.site), "")
    if candidate.severity == "info":
        return Wording(
            f"{words.ranks(absent)} had not come to {creates}{at} when the logs end",
            "They had not been waited for long enough to call it a hang.",
            "",
        )
    if candidate.kind == "missing_call":
        details = " ".join(
            f"Rank {r}: {case.standings[r].detail}." for r in absent if case.standings[r].detail
        )
        if source.seq == IN_INIT:
            details += " They never started, have not come so far, or their files were lost."
        return Wording(
            f"{words.ranks(absent)} never came to {creates}{at}; {words.ranks(present)} "
            f"{words.verb(present, 'waits', 'wait')} there",
            f"{creates} returns when every rank that takes part has called it. {details}".strip(),
            f"Let every rank call {creates} at the same point, before work that takes long on "
            "some ranks only; or give it a longer timeout.",
        )
    if source.harmless:
        return Wording(
            f"{words.ranks(absent)} never called {creates}, as {words.ranks(present)} did{at}",
            "torch counts groups: every rank must create the same groups in the same order, "
            "members or not. It went well this time, for no rank waits for those that are no "
            "members; the next group that all create will have two names, and hang.",
            "Call new_group on every rank, also on ranks that are no members; or pass "
            "use_local_synchronization=True, and call it on members only.",
        )
    told = [f"{words.ranks(r)} called {_call(g)}{_at(g)}" for r, g in asked]
    told += [f"{words.ranks(absent)} called none"] if absent else []
    link = " where " if candidate.suspects else " while "
    wrong = [n for n, (r, _) in enumerate(source.variants) if set(r) <= set(candidate.suspects)]
    order = sorted(range(len(told)), key=lambda n: n not in wrong)
    shown = [told[n] for n in order]
    headline = f"{shown[0]}{link}{words.listed(shown[1:3])}"
    headline += f", and {len(shown) - 3} more variants" if len(shown) > 3 else ""
    return Wording(
        headline,
        "torch counts groups: every rank must create the same groups in the same order, members "
        f"or not. The {words.ordinal(source.seq)} group after the default one is not the same on "
        "all ranks, so what they issue in it, and in every later group, does not meet.",
        "Call new_group on every rank, in the same order and with the same ranks, also on ranks "
        "that are no members; init_device_mesh does it right.\n"
        "Or pass use_local_synchronization=True, and call it on members only.",
    )


def _is_default(asked: Sequence[tuple[tuple[int, ...], Group]]) -> bool:
    return any(group.description == "default_pg" for _, group in asked)


def _call(group: Group) -> str:
    few = len(group.ranks) <= _MOST_MEMBERS
    members = ", ".join(map(str, group.ranks)) if few else words.ranges(group.ranks)
    return f"new_group([{members}])" if group.ranks else "new_group()"


_MOST_MEMBERS: Final = 4
"""Members of a group that are listed as they were passed."""


def _at(group: Group) -> str:
    return f" at {words.site(group.site)}" if group.site else ""


def deadlock(case: Case, candidate: Candidate) -> Wording:
    """Ranks that wait for each other."""
    source = candidate.source
    assert isinstance(source, tuple)
    steps = [_edge(case, edge) for edge in source]
    messages = [edge for edge in source if edge.waiting.channel is not None]
    cause = (
        f"{words.upper('; '.join(steps))}. Each is right by itself; together they wait for ever."
    )
    if len(messages) == len(source):
        fix = _messages(source)
    elif messages:
        one = messages[0].waiting
        cause += " Some wait in a message, some in a collective."
        fix = (
            f"Finish the exchange before the collective, or after it, on every rank alike: move "
            f"the {one.op} of rank {one.rank}{_site(one.site)}, or the collective."
        )
    else:
        one_line = len({(e.waiting.op, e.waiting.site) for e in source}) == 1
        first, last = (_what(case, edge) for edge in (source[0], source[-1]))
        order = (
            f"enter the groups in the same order on every rank; moving one call is enough: rank "
            f"{source[0].waiting.rank} issues {last} before {first}."
        )
        groups = len({edge.waiting.group for edge in source})
        if one_line:
            cause += f" It is one line, and the ranks give it {groups} different groups."
            fix = f"Pass the same group on every rank, if one is meant.\nElse {order}"
        else:
            cause += (
                f" They entered {groups} groups in different orders, or one of them has left out a "
                "call before."
            )
            fix = (
                f"{words.upper(order)}\n"
                "Or, if one of these calls was meant for the other group, pass that.\n"
                "Or, if a branch has left out a call on one of them, make it on every rank."
            )
    return Wording(_circle(case, source), cause, fix)


def _circle(case: Case, cycle: Sequence[Edge]) -> str:
    who = words.ranks(edge.waiting.rank for edge in cycle)
    how = "for each other" if len(cycle) == 2 else "in a circle"
    sites = {edge.waiting.site for edge in cycle}
    at = _site(sites.pop()) if len(sites) == 1 else None
    does = [_what(case, edge) if at is None else _call_of(case, edge) for edge in cycle]
    if at is not None and len(set(does)) == 1:
        return f"{who} wait {how} in {does[0]}{at}"
    told = [f"rank {e.waiting.rank} in {what}" for e, what in zip(cycle, does, strict=True)]
    more = f" and {len(told) - _MOST_SHOWN} more" if len(told) > _MOST_SHOWN else ""
    return f"{who} wait {how}: {', '.join(told[:_MOST_SHOWN])}{more}{', all' + at if at else ''}"


_MOST_SHOWN: Final = 3


def _edge(case: Case, edge: Edge) -> str:
    behind = ", whose device has not come to it" if edge.queued else ""
    return (
        f"rank {edge.waiting.rank} waits in {_what(case, edge)} for rank {edge.target[0]}{behind}"
    )


def _what(case: Case, edge: Edge) -> str:
    return _call_of(case, edge) + _site(edge.waiting.site)


def _call_of(case: Case, edge: Edge) -> str:
    w = edge.waiting
    info = case.comparison.groups.get(w.group)
    of = f" of {words.group(info)}" if info is not None and w.channel is None else ""
    return f"{w.op or 'a call'}{of}"


def _site(site: str | None) -> str:
    return f" at {words.site(site)}" if site else ""


def _messages(cycle: Sequence[Edge]) -> str:
    """Which one call, reordered, unblocks a circle of messages."""
    first = cycle[0].waiting
    other = "send" if first.op == "recv" else "recv"
    return (
        f"Turn one of them round: rank {first.rank} issues its {other} before its "
        f"{first.op}{_site(first.site)}, and nobody waits any longer.\n"
        "Better, let all pass both to batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)]), "
        "which cannot block like this."
    )


def stall(case: Case, candidate: Candidate) -> Wording:
    """Everyone came, and nothing completes."""
    source = candidate.source
    assert isinstance(source, IncompleteRow)
    call = next((c for c in source.calls.values() if c is not None), None)
    what = words.name(call) + words.at(call) if call is not None else "a call"
    who = candidate.suspects
    details = "; ".join(
        f"rank {r}: {case.standings[r].detail}" for r in who if case.standings[r].detail
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
    return Wording(
        headline,
        f"All ranks of the group issued {place(candidate)} alike, and none is known to have "
        "stopped. What fails lies below the collective: the network, a driver, a GPU that hangs.",
        "Look at the network between the hosts, and run again with NCCL_DEBUG=INFO or "
        "TORCH_DISTRIBUTED_DEBUG=INFO.",
        notes=lagging.notes(case, candidate),
    )


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
