"""Ranks that stopped without a word, told from those that were stopped with all the others."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from collectrace import words
from collectrace.align.ranks.standing import Standing, Waiting, patience
from collectrace.align.reading.evidence import RunEvidence


def find_dead(evidence: RunEvidence, found: dict[int, Standing]) -> None:
    """Replace the standings of ranks that died, or whose process no longer runs."""
    latest = max((s.end for s in found.values()), default=0)
    survivors = any(s.ended == "alive" for s in found.values())
    for rank, standing in found.items():
        log = standing.log
        if log is None or log.exit is not None:
            continue
        exists = evidence.still_exists(log)
        behind = latest - standing.end > patience(log)
        if exists and (behind or _last_sign_is_old(found, standing)):
            # Its watchdog has stopped with it, so what it was in says little.
            found[rank] = replace(standing, state="silent", detail=_stopped(standing, latest))
        elif behind or (exists is False and survivors) or log.stack_dumps.fatal:
            found[rank] = _dead(
                found, standing, log.stack_dumps.told() or _stopped(standing, latest)
            )
    for rank in _let_down(found):
        log = found[rank].log
        told = log.stack_dumps.told() if log is not None else ""
        silence = "ended without a word; its peers lost the connection"
        found[rank] = _dead(found, found[rank], told or silence)


def _dead(found: Mapping[int, Standing], standing: Standing, detail: str) -> Standing:
    standing = replace(standing, early=True)
    if any(w.told and _is_held_up(found, w) for w in standing.waiting):
        return standing  # what killed it killed a rank that could not go on
    return replace(standing, state="died", waiting=(), detail=detail)


def _is_held_up(found: Mapping[int, Standing], w: Waiting) -> bool:
    """Whether what a rank is in may still lack a part of somebody else's.

    A sign of life is a moment: where all others have gone past the row since, so has the rank.
    """
    if w.stream is None or w.seq is None:
        return True
    others = [s.log for s in found.values() if s.rank != w.rank and s.log is not None]
    members = [log for log in others if w.stream in log.last_seq]
    return not members or any(log.last_seq[w.stream] <= w.seq for log in members)


def _last_sign_is_old(found: Mapping[int, Standing], standing: Standing) -> bool:
    """The process exists, and nobody else is left to compare it with but the clock."""
    alone = all(s.log is None or s is standing for s in found.values())
    return (
        alone
        and standing.log is not None
        and time.time_ns() - standing.end > patience(standing.log)
    )


def _stopped(standing: Standing, latest: int) -> str:
    return f"its file ends {words.seconds(latest - standing.end)} before the last of its peers'"


def _let_down(found: Mapping[int, Standing]) -> list[int]:
    """The ranks whose lost connection made a peer raise.

    A rank that left earlier in plain sight explains the loss as well, and nobody died then. Of
    several that left without a word, those that wait in the very row in which the peer raised
    were its fellow victims.
    """
    cut = [s for s in found.values() if s.lost_peer]
    if not cut:
        return []
    first = min(cut, key=lambda s: s.end)
    if any(s.complete and s.end < first.end for s in found.values() if s is not first):
        return []
    gone = [
        s for s in found.values()
        if s.log is not None and s.log.exit is None and s.ended != "alive" and s.end <= first.end
    ]  # fmt: skip
    if len(gone) > 1:
        rows = {(w.stream, w.seq) for w in first.waiting if w.stream is not None}
        strangers = [s for s in gone if not any((w.stream, w.seq) in rows for w in s.waiting)]
        gone = strangers
    return [s.rank for s in gone]
