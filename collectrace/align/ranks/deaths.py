"""Find ranks that died, as opposed to those that were stopped with all the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from collectrace.align.ranks.standing import Standing, Waiting, patience
from collectrace.align.reading.evidence import RunEvidence
from collectrace.findings import Ended


def find_dead(
    evidence: RunEvidence, found: dict[int, Standing], now: int, cut: Collection[int]
) -> None:
    """Replace the standings of ranks that died, or that have a process that does nothing.

    The same for the ranks ``cut``: their actions after the end of their log are not known. ``now``:
    ns since 1970.
    """
    latest = max((s.end for s in found.values()), default=0)
    survivors = any(s.ended == "alive" for s in found.values())
    alone = sum(s.log is not None for s in found.values()) == 1
    traceless = _traceless(found)
    for rank, standing in found.items():
        log = standing.log
        if log is None or log.exit is not None:
            continue
        exists = evidence.still_exists(log)
        behind = latest - standing.end
        is_behind = behind > patience(log)
        # If no other rank is left to compare with, only the present shows how old the last line is.
        is_old = alone and now - standing.end > patience(log)
        if rank in cut and not log.stack_dumps.fatal:
            if standing.ended != "alive" or is_behind or is_old:
                found[rank] = _cut(found, standing)
        elif exists and (is_behind or is_old):
            # Its heartbeats have stopped too, so the recorded activity says little.
            may_be_copy = is_behind and not log.is_original and not evidence.is_live
            found[rank] = replace(
                standing, state="silent", behind=behind, doing="", may_be_copy=may_be_copy
            )
        elif (log.stack_dumps.fatal or rank in traceless) or (
            (is_behind or (exists is False and survivors)) and not _was_terminated(found, standing)
        ):
            if log.stack_dumps.is_gil_held:
                # It stopped before it was ended, perhaps together with the others.
                found[rank] = replace(standing, state="silent", behind=behind, doing="")
                continue
            is_proven = log.stack_dumps.end is not None or (exists is False and survivors)
            found[rank] = _dead(found, replace(
                standing, behind=behind, left_nothing=rank in traceless,
                may_be_copy=not (is_proven or rank in traceless or log.is_original),
            ))  # fmt: skip
    for standing in _lost_by_peers(found, evidence.missing):
        found[standing.rank] = _dead(found, replace(standing, lost_by_peer=True, may_be_copy=False))


def _traceless(found: Mapping[int, Standing]) -> set[int]:
    """Return the ranks that ended without a trace, if SIGTERM ended all others at work.

    A launcher sends SIGTERM to all ranks that are left after one has ended. Each of them writes its
    stacks then. If others had waited for long, that says more of why somebody ended the job.
    """
    ends = {rank: s.log.stack_dumps.end if s.log is not None else None for rank, s in found.items()}
    gone = {rank for rank, s in found.items() if _is_gone(s) and ends[rank] is None}
    left = [s for rank, s in found.items() if rank not in gone]
    are_at_work = all(
        (s.state in ("busy", "running") or _waited_briefly(s))
        and (end := ends[s.rank]) is not None
        and end.fatal is None
        for s in left
    )
    return gone if left and are_at_work else set()


_BRIEF: Final = 2_000_000_000
"""A wait in which a launcher may not have noticed yet that a rank has ended, ns."""


def _waited_briefly(standing: Standing) -> bool:
    return standing.state == "blocked" and all(
        standing.end - one.since < _BRIEF for one in standing.waiting
    )


def _was_terminated(found: Mapping[int, Standing], standing: Standing) -> bool:
    """Return whether SIGTERM ended a rank after another failed, as launchers do."""
    end = standing.log.stack_dumps.end if standing.log is not None else None
    if end is None or end.fatal is not None:
        return False
    others = [s for s in found.values() if s is not standing and s.log is not None]
    return any(s.state == "raised" or (s.log and s.log.stack_dumps.fatal) for s in others)


def _cut(found: Mapping[int, Standing], standing: Standing) -> Standing:
    """Return a rank with a log that lost its end; keeps the waits that were observed."""
    ended: Ended = "unknown" if standing.ended == "gone" else standing.ended
    if any(w.observed and _is_held_up(found, w) for w in standing.waiting):
        return replace(standing, ended=ended)
    return replace(standing, state="unknown", ended=ended, waiting=(), doing="")


def _dead(found: Mapping[int, Standing], standing: Standing) -> Standing:
    """Return a rank that ended before the others: it died, or kept waiting until then."""
    standing = replace(standing, early=not standing.may_be_copy)
    if any(w.observed and _is_held_up(found, w) for w in standing.waiting):
        return standing  # whatever killed it, it was blocked before
    if standing.may_be_copy:
        return replace(standing, state="silent", ended="unknown", waiting=(), doing="")
    return replace(standing, state="died", waiting=(), doing="")


def _is_held_up(found: Mapping[int, Standing], w: Waiting) -> bool:
    """Return whether a rank was still in the call in which its last sign of life saw it.

    If all other members have issued later calls, so had the rank.
    """
    if w.stream is None or w.seq is None:
        return True
    others = [s.log for s in found.values() if s.rank != w.rank and s.log is not None]
    members = [log for log in others if w.stream in log.last_seq]
    return not members or any(log.last_seq[w.stream] <= w.seq for log in members)


def _lost_by_peers(found: Mapping[int, Standing], missing: Sequence[int]) -> list[Standing]:
    """Return the ranks that a peer lost its connection to, by the first such exception.

    Empty if another rank explains the loss: one that ended before with a last line, or one of which
    nothing is known, being ``missing``.
    """
    raised = [s for s in found.values() if s.lost_peer]
    if not raised:
        return []
    first = min(raised, key=lambda s: s.end)
    others = [s for s in found.values() if s is not first]
    if any(s.complete and s.end < first.end for s in others):
        return []
    gone = [s for s in others if _is_gone(s) and s.end <= first.end]
    gone = [s for s in gone if not _was_terminated(found, s)] or gone
    if missing and not any(s.log is not None and s.log.stack_dumps.fatal for s in gone):
        return []
    if len(gone) == 1:
        return gone
    # Ranks that wait in the same row as the peer that raised are victims, too.
    rows = {(w.stream, w.seq) for w in first.waiting if w.stream is not None}
    return [s for s in gone if not any((w.stream, w.seq) in rows for w in s.waiting)]


def _is_gone(standing: Standing) -> bool:
    """Return whether a rank left a file without a last line, and its process may have ended."""
    return standing.log is not None and standing.log.exit is None and standing.ended != "alive"
