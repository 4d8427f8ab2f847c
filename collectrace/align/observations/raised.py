"""Find ranks that ended with an exception although their streams agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.judging.case import Case
from collectrace.align.observations.unwaited import unwaited_work
from collectrace.align.ranks import detail
from collectrace.align.ranks.standing import Standing
from collectrace.findings import Finding, Side

_MOST_NAMES: Final = 4


def raised(case: Case) -> Finding | None:
    """Return a finding if exceptions ended ranks; None if there were none."""
    those = [s for s in case.standings.values() if s.state == "raised"]
    if not those:
        return None
    first = min(those, key=lambda s: s.end)
    headline, fix = _headline_and_fix(case, those)
    doubts = _doubts(case, those)
    if doubts:
        fix = "\n".join(
            ("First see whether it comes of that. " + doubts[0].fix, *(d.fix for d in doubts[1:]))
        )
        fix += "\nIf it raises all the same, fix what raised."
    known = _of_ddp(first)
    return Finding(
        kind="raised",
        severity="warning",
        headline=headline,
        cause=f"{_by_detail(those)}. Rank {first.rank} was the first."
        + "".join(f" {doubt.cause}" for doubt in doubts)
        + (f" {known.cause}" if known is not None else ""),
        fix=known.fix if known is not None else fix,
        sides=tuple(Side(ranks=(s.rank,), call=None, state=s.state) for s in those[:_MOST_NAMES]),
    )


def _by_detail(those: Sequence[Standing]) -> str:
    ranks: dict[str, list[int]] = {}
    for standing in those:
        ranks.setdefault(detail.detail(standing), []).append(standing.rank)
    parts = [f"{words.ranks(alike)}: {text}" for text, alike in ranks.items()]
    more = f"; and {len(parts) - _MOST_NAMES} more" if len(parts) > _MOST_NAMES else ""
    return words.upper("; ".join(parts[:_MOST_NAMES])) + more


def _headline_and_fix(case: Case, those: Sequence[Standing]) -> tuple[str, str]:
    who, missing = words.ranks(s.rank for s in those), words.ranks(case.evidence.missing)
    headline = f"the job crashed: {who} ended with an exception, though the collectives agree"
    fix = "Fix what raised: the collectives agree."
    if not any(log.groups or log.last_seq for log in case.evidence.logs.values()):
        headline = f"the job crashed before init_process_group: {who} ended with an exception"
        return headline, "Fix what raised. No collective was issued."
    if all(s.by_peers for s in those):
        lost = f"{who} lost a connection or timed out"
        headline = f"the job crashed: {lost}, though the collectives agree"
        fix = (
            "Look at the network, and for a rank that came late or died; a longer timeout goes to "
            "init_process_group."
        )
        if case.evidence.missing:
            headline = f"{lost}, and nothing is known of {missing}"
            fix = (
                f"Have {missing} traced: enable() belongs at the top of the script, on every rank "
                "and host, or their files gathered and readable. What broke the connection is told "
                "there."
            )
    return headline, fix


def _of_ddp(first: Standing) -> _Doubt | None:
    """Return the meaning of an exception from DDP; None if it is not a known one.

    From ``Reducer::ensure_prior_reduction_finished`` and ``verify_params_across_processes``.
    """
    message = first.message
    if "Expected to have finished reduction" in message:
        return _Doubt(
            f"DDP says so if gradients are missing: on rank {first.rank}, some parameters took no "
            f"part in the loss of the iteration before. {detail.without_gradient(first)}".rstrip(),
            "Let every parameter take part in the loss on every rank, or pass "
            "find_unused_parameters=True to DistributedDataParallel on every rank.",
        )
    if "expects same model across all ranks" in message or "appears not to match" in message:
        return _Doubt(
            "DDP's constructor compared the models of the ranks, and they differ.",
            "Build the same model on every rank: the same parameters, in the same order, with the "
            "same shapes and the same requires_grad.",
        )
    return None


# -- what may be behind it -------------------------------------------------------------------


class _Doubt(NamedTuple):
    """A possible source of the values that ranks raised over: a check of the replicas, a NaN."""

    cause: str
    fix: str


def _doubts(case: Case, those: Sequence[Standing]) -> list[_Doubt]:
    """Return as doubts the asynchronous work of ranks that raised and never waited for it."""
    if all(s.by_peers for s in those):
        return []
    ranks = {s.rank for s in those}
    unwaited = [found for found in unwaited_work(case) if ranks & {*found.suspects}]
    return [
        _Doubt(
            f"{words.upper(one.headline)}: until then nothing says what the tensor holds, and what "
            "raised may come of that.",
            one.fix,
        )
        for one in unwaited[:_MOST_NAMES]
    ]
