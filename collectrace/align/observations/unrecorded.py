"""Find ranks with a tracer that failed, gave up, was off, or could not describe some calls."""

from __future__ import annotations

from collectrace import words
from collectrace.align.judging.case import Case
from collectrace.align.judging.reach import incomplete_logs
from collectrace.align.reading.evidence import RankLog
from collectrace.findings import Finding
from collectrace.records import Call


def unrecorded(case: Case) -> Finding | None:
    """Return a finding on how far the records of such ranks extend; None if there are none."""
    found = incomplete_logs(case)
    if not found:
        return None
    by_reason: dict[str, list[int]] = {}
    for rank, log in found.items():
        by_reason.setdefault(_reason(log), []).append(rank)
    failed = any(
        _gave_up(log) or log.first_void is not None or log.first_fault is not None
        for log in found.values()
    )
    switched_off = any(log.disabled and not _gave_up(log) for log in found.values())
    fixes = []
    if failed:
        fixes.append(
            "The tracer's own failure is told on the rank's standard error, as a warning: please "
            "report it."
        )
    if switched_off:
        fixes.append(
            "Leave tracing on until the process groups are destroyed: disable() comes after "
            "destroy_process_group()."
        )
    return Finding(
        kind="evidence_gap",
        severity="warning",
        headline="; ".join(f"{words.ranks(ranks)}: {why}" for why, ranks in by_reason.items()),
        cause="What came after is not known, or may have followed from what is not known: no "
        "difference beyond that place is told.",
        fix=" ".join(fixes),
    )


def _reason(log: RankLog) -> str:
    parts = []
    if log.first_void is not None:
        calls = words.counted(log.void_count, "call")
        parts.append(f"{calls} could not be described, the first is {_place(log.first_void)}")
    elif log.first_fault is not None:
        fault = log.first_fault
        parts.append(f"the tracer failed while {fault.doing} ({fault.error})")
    if log.disabled:
        what = "tracing was switched off"
        if _gave_up(log) and log.exit is not None:
            failures = words.counted(log.exit.failures, "failure")
            what = f"the tracer gave up after {failures} of its own"
            what += f" ({log.exit.error})" if log.exit.error else ""
        last = log.last_call
        after = f"after {_place(last)}" if last is not None else "before any call"
        parts.append(f"{what}, {after}")
    return ", and ".join(parts)


def _gave_up(log: RankLog) -> bool:
    return log.disabled and log.exit is not None and bool(log.exit.failures and log.exit.error)


def _place(call: Call) -> str:
    return f"call {call.seq} of {words.named_group(call.group)}"
