"""Collect all observations of a run; some are made here."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from collectrace import words
from collectrace.align.causes import inputs, registry
from collectrace.align.judging.blame import Gap, gaps
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.observations import config_skew, loading, sampler, straggler, unrecorded
from collectrace.align.observations.raised import raised
from collectrace.align.observations.unwaited import unwaited_work
from collectrace.align.reading.hosts import by_host, hosts_missing
from collectrace.findings import Finding
from collectrace.ops import POINT_TO_POINT
from collectrace.records import DUMPS_ALONE, Call

# torch/distributed/algorithms/join.py (2.13): Join.notify_join_context, _notify_procs_to_terminate.
_TERMINATED: Final = re.compile(r"exhausted( all)? inputs")

_MOST_NAMES: Final = 4


def information(case: Case, judged: Sequence[Candidate]) -> list[Finding]:
    """Return findings beside those of the ``judged`` candidates, the most important first."""

    def seen(observe: Callable[[Case], Finding | None]) -> Finding | None:
        return case.faults.attempt("observations", None, observe, case)

    wrong = any(candidate.severity == "error" for candidate in judged)
    cut_off = seen(unrecorded.unrecorded)
    # Beside an error these would distract. If a record ends early, they may follow from that.
    is_clear = not wrong and cut_off is None
    found = [
        cut_off,
        case.faults.attempt("observations", None, _gap, case, judged),
        *(map(seen, (_ended, _uneven)) if is_clear else ()),
        seen(sampler.sampler_epoch),
        *case.faults.attempt("observations", [], unwaited_work, case),
        seen(straggler.straggler) if is_clear else None,
        seen(config_skew.source_skew),
        seen(config_skew.config_skew),
    ]
    told = (finding for finding in found if finding is not None)
    return [
        replace(f, code=case.faults.attempt("explanation", None, registry.observed, f.kind))
        for f in told
    ]


def _ended(case: Case) -> Finding | None:
    return _early_termination(case) or raised(case)


# -- evidence --------------------------------------------------------------------------------


def _gap(case: Case, judged: Sequence[Candidate]) -> Finding | None:
    """Return a finding on ranks without the evidence that judging needs (rule 12)."""
    found = gaps(case, judged)
    if not found:
        return None
    by_reason: dict[str, list[int]] = {}
    for rank, gap in found.items():
        by_reason.setdefault(_gap_in_words(case, rank, gap), []).append(rank)
    listed = "; ".join(f"{words.ranks(ranks)}: {reason}" for reason, ranks in by_reason.items())
    missing = [rank for rank, gap in found.items() if gap == "no file"]
    waiting = _waits_for(case, [r for r, gap in found.items() if gap in _UNSEEN])
    known = _nothing_known(case, missing)
    cause = "What these ranks did cannot be known: nobody is blamed for what only they could tell."
    if missing and case.evidence.is_live:
        known = ""
        cause += (
            " A process that does not answer is dead, stopped, or in something that lets none of "
            "its other threads run."
        )
    if waiting:
        where = next((w for w in case.standings[waiting[0]].waiting if w.op), None)
        if where is not None:
            cause += f" Rank {waiting[0]} came to {where.op}{words.at_site(where.site)}."
        wait = words.verb(waiting, "waits", "wait")
        cause += f" {words.upper(words.ranks(waiting))} {wait} in a group with them."
    return Finding(
        kind="evidence_gap",
        severity="warning" if waiting else "info",
        headline=listed,
        cause=f"{known} {cause}" if known else cause,
        fix=_where_to_look(case, missing, set(found.values()), is_nothing_known=bool(known)),
    )


def _where_to_look(
    case: Case, missing: Sequence[int], kinds: Collection[Gap], *, is_nothing_known: bool
) -> str:
    if missing and case.evidence.is_live:
        return (
            f"See whether {words.ranks(missing)} still {words.verb(missing, 'runs', 'run')}, and "
            "in what: py-spy dump --pid, on the machine itself."
        )
    if missing and are_dumps(case):
        return _no_dump(case, missing)
    fixes = [advice for gap, advice in _ADVICE.items() if gap in kinds]
    if not fixes or missing:
        fixes.append(
            "Collect the files of every rank (each host writes its own), and see that no disk is "
            "full."
        )
    if missing:
        fixes.append("A rank that never started leaves no file either: look at the launcher.")
    if is_nothing_known:
        fixes.append("One that was not traced leaves none: call enable() on every rank.")
    return " ".join(fixes)


_UNSEEN: Final = ("no file", "unreadable", "empty", "cut")
"""Gaps that leave nothing known of a rank."""

_ADVICE: Final[dict[Gap, str]] = {
    "unreadable": "See to whom the file belongs (`ls -l`), make it readable, or copy it again.",
    "empty": "Copy the file again, and see whether the disk that it was written to is full.",
    "cut": "Copy the whole file again, and see whether the disk that it was written to is full.",
}


def are_dumps(case: Case) -> bool:
    """Return whether all evidence comes from dumps of another tool."""
    logs = case.evidence.logs.values()
    return bool(logs) and all(log.imported is not None for log in logs)


def _no_dump(case: Case, missing: Sequence[int]) -> str:
    """Return why ranks may have left no dump, and how to get one of them."""
    groups = (one for one in case.comparison.groups.values() if {*one.ranks} & {*missing})
    local = sorted({one.backend for one in groups} & DUMPS_ALONE)
    asked = (
        "To have the dump of every rank, ask each for it while the job hangs "
        "(TORCH_NCCL_DEBUG_INFO_PIPE_FILE)."
    )
    if local:
        return (
            f"With {words.listed(local)} this is normal: a rank writes a dump only if it notices "
            f"the failure itself, and a rank that never reached the call does not. {asked}"
        )
    return (
        "Collect the dumps of every rank (each host writes its own). A process that had ended "
        f"before leaves none. {asked}"
    )


def _gap_in_words(case: Case, rank: int, gap: Gap) -> str:
    match gap:
        case "no file":
            if case.evidence.is_live:
                return "does not answer" if len(case.evidence.missing) == 1 else "do not answer"
            return "left no dump" if are_dumps(case) else "left no file"
        case "unreadable":
            return f"its file cannot be read ({case.evidence.unreadable[rank]})"
        case "empty":
            return "its file is empty or damaged: it holds no record"
        case "cut":
            last = case.evidence.logs[rank].last_call
            what = "it holds no call" if last is None else f"its calls are known up to {_at(last)}"
            return f"its file is incomplete, {what}"
        case "dropped":
            return f"lost {words.counted(case.evidence.logs[rank].dropped, 'record')}"
        case "out of reach":
            return "its log does not reach the place in question"


def _at(call: Call) -> str:
    if call.op in POINT_TO_POINT:
        return f"{call.op}{words.at_site(call.site)}"
    return f"call {call.seq} of {words.named_group(call.group)}"


def _nothing_known(case: Case, missing: Sequence[int]) -> str:
    """Return what missing files mean, and which hosts have files; empty if none is missing."""
    if not missing or all(log.provisional for log in case.evidence.logs.values()):
        return ""  # nobody finished init_process_group, so the missing ranks did not call it
    if are_dumps(case):
        return f"Nothing is known of {words.ranks(missing)}: no dump is here."
    who, is_ = words.ranks(missing), words.verb(missing, "its file is", "their files are")
    hosts = by_host(case.evidence)
    listed = [f"{host} ({words.ranks(ranks)})" for host, ranks in hosts.items()]
    here = words.listed(listed, _MOST_NAMES)
    return (
        f"Nothing is known of {who}{hosts_missing(case.evidence)}: not traced there (enable() "
        f"was not called), or {is_} not here. The files that are here come from {here}."
    )


def _waits_for(case: Case, missing: Sequence[int]) -> list[int]:
    """Return ranks that wait in a group with some of the ``missing`` ranks."""
    return [
        standing.rank
        for standing in case.standings.values()
        if any(
            set(missing) & set(info.ranks)
            for w in standing.waiting
            if (info := case.comparison.groups.get(w.group)) is not None
        )
    ]


# -- ends ------------------------------------------------------------------------------------


def _early_termination(case: Case) -> Finding | None:
    """Return a finding if ``join(throw_on_early_termination=True)`` ended the job as intended."""
    asked = [
        rank for rank, log in case.evidence.logs.items() if any(join.throws for join in log.joins)
    ]
    threw = [
        s for s in case.standings.values()
        if s.state == "raised" and _TERMINATED.search(s.message)
    ]  # fmt: skip
    if not asked or not threw:
        return None
    found = inputs.of_run(case, asked)
    counts = f": {found.phrase}" if found is not None else ""
    return Finding(
        kind="early_termination",
        severity="info",
        headline=f"join() ended {words.ranks(s.rank for s in threw)} when the first ran out of "
        "inputs",
        cause="join(throw_on_early_termination=True) raises on every rank at the same iteration"
        f"{counts}. This is what it is for, no fault.",
        fix="Catch the RuntimeError around the loop to go on after it.",
    )


def _uneven(case: Case) -> Finding | None:
    """Return a finding if ranks had uneven batches and no collective lacked ranks because of it."""
    found = inputs.of_run(case, case.evidence.logs)
    if found is None or not found.ended:
        return None
    if min(found.counts[rank] for rank in found.ended) >= max(found.counts.values()):
        return None
    covered = found.counted_by == "join"
    return Finding(
        kind="uneven_inputs",
        severity="info",
        headline=f"uneven inputs: {found.phrase}",
        cause="join() shadowed the collectives of the ranks that ran out."
        if covered
        else "No collective was left without its partners because of it, in this run.",
        fix="Nothing, if it is meant; else DistributedSampler and drop_last=True."
        if covered
        else "DistributedSampler, drop_last=True, or `with model.join():`.",
        notes=loading.table(case),
    )
