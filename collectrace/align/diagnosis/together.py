"""What concerns ranks together: groups they disagree about, cycles, rows that do not complete."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace.align import words
from collectrace.align.candidates import IN_INIT
from collectrace.align.case import Candidate, Case, Stillness
from collectrace.align.diagnosis.wording import Wording, place
from collectrace.align.evidence import GroupConflict
from collectrace.align.waitgraph import Edge
from collectrace.records import Group


def conflict(case: Case, candidate: Candidate) -> Wording:
    """A process group that the ranks do not agree about, or that not all came to create."""
    source = candidate.source
    assert isinstance(source, GroupConflict)
    asked = [(ranks, group) for ranks, group in source.variants if group is not None]
    absent = [rank for ranks, group in source.variants if group is None for rank in ranks]
    creates = "init_process_group" if _is_default(asked) else "new_group"
    present = words.ranks(r for ranks, _ in asked for r in ranks)
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
            f"{words.ranks(absent)} never came to {creates}{at}, where {present} came",
            f"{creates} returns when every rank that takes part has called it. {details}".strip(),
            f"Let every rank call {creates} at the same point, before work that takes long on "
            "some ranks only; or give it a longer timeout.",
        )
    listed = [f"{words.ranks(r)} asked for {words.listed([_members(g)])}{_at(g)}" for r, g in asked]
    if absent:
        listed.append(f"{words.ranks(absent)} did not ask for it")
    return Wording(
        f"group {source.name}: {'; '.join(listed)}",
        "torch names groups by counting: every rank must create the same groups in the same "
        f"order, members or not. Here the {words.ordinal(source.seq + 1)} group of the process "
        f"is not the same on all ranks: {'; '.join(listed)}.",
        "Call new_group on every rank, in the same order and with the same ranks, also on ranks "
        "that are not members (or pass use_local_synchronization=True, and then call it on "
        "members only); init_device_mesh does it right.",
    )


def _is_default(asked: Sequence[tuple[tuple[int, ...], Group]]) -> bool:
    return any(group.description == "default_pg" for _, group in asked)


def _members(group: Group) -> str:
    return words.ranks(group.ranks) if group.ranks else "a group of all"


def _at(group: Group) -> str:
    return f" at {words.site(group.site)}" if group.site else ""


def deadlock(case: Case, candidate: Candidate) -> Wording:
    """Ranks that wait for each other."""
    source = candidate.source
    assert isinstance(source, tuple)
    parts = [_edge(case, edge) for edge in source]
    circle = " -> ".join(f"rank {edge.waiting.rank}" for edge in (*source, source[0]))
    messages = [edge for edge in source if edge.waiting.channel is not None]
    cause = f"{words.upper('; '.join(parts))}. Each is right by itself; together they wait for ever"
    if len(messages) == len(source):
        fix = _messages(source)
    elif messages:
        cause += ", some in a message, some in a collective"
        one = messages[0].waiting
        fix = (
            f"Issue the {one.op} of rank {one.rank}{_site(one.site)} and the collective in the "
            "same order on both ranks: finish the exchange (wait() for it) before the collective, "
            "everywhere."
        )
    else:
        groups = {edge.waiting.group for edge in source}
        cause += f", in {len(groups)} groups that they entered in different orders"
        fix = (
            "Enter the groups in the same order on every rank; moving one call suffices: let "
            f"rank {source[0].waiting.rank} issue {_what(source[-1])} before "
            f"{_what(source[0])}. If one of them was meant for the other group, pass that group."
        )
    return Wording(f"{circle}: {'; '.join(parts)}", f"{cause}.", fix)


def _edge(case: Case, edge: Edge) -> str:
    w = edge.waiting
    info = case.comparison.groups.get(w.group)
    where = f" of {words.group(info)}" if info is not None and w.channel is None else ""
    return f"rank {w.rank} waits in {_what(edge)}{where} for rank {edge.target[0]}"


def _what(edge: Edge) -> str:
    w = edge.waiting
    return f"{w.op or 'a call'}{_site(w.site)}"


def _site(site: str | None) -> str:
    return f" at {words.site(site)}" if site else ""


def _messages(cycle: Sequence[Edge]) -> str:
    """Which one call, reordered, unblocks a circle of messages."""
    first = cycle[0].waiting
    other = "send" if first.op == "recv" else "recv"
    return (
        f"Let one of them go the other way round: rank {first.rank} issues its {other} before its "
        f"{first.op}{_site(first.site)}, and the circle is open. Better, let all pass both to "
        "batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)]), which cannot block like this."
    )


def stall(case: Case, candidate: Candidate) -> Wording:
    """Everyone came, and nothing completes."""
    source = candidate.source
    assert isinstance(source, Stillness)
    call = next((c for c in source.calls.values() if c is not None), None)
    what = words.op(call) + words.at(call) if call is not None else "a call"
    who = candidate.suspects
    details = "; ".join(
        f"rank {r}: {case.standings[r].detail}" for r in who if case.standings[r].detail
    )
    if who:
        silent = any(case.standings[r].state == "silent" for r in who)
        state = words.verb(who, "stands", "stand") + " still" if silent else "stopped"
        return Wording(
            f"every rank came to {what}, which never completes: {words.ranks(who)} {state}",
            f"{words.upper(words.ranks(who))} issued it and then gave no sign of life ({details}), "
            "so its part is never sent.",
            f"Look at the process of {words.ranks(who)}: stopped by SIGSTOP or a debugger, killed, "
            "or on a machine that hangs.",
        )
    return Wording(
        f"every rank came to {what}, which never completes",
        f"All ranks of the group issued {place(candidate)} alike, and none is known to have "
        "stopped: what fails lies below the collective (network, driver, a GPU that hangs).",
        "Look at the network between the hosts, and run with NCCL_DEBUG=INFO or "
        "TORCH_DISTRIBUTED_DEBUG=INFO.",
    )
