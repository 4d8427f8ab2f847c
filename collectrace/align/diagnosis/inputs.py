"""How many batches each rank got, and which rank ran out of them first."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from collectrace import words
from collectrace.align.diagnosis import come_out, join_inputs
from collectrace.align.judging.by_rank import chosen_by_rank
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.models import of_one_model
from collectrace.align.reading import code_lines, statements
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.findings import Side
from collectrace.records import Batch
from collectrace.roles import is_shadow


@dataclass(frozen=True, slots=True)
class Inputs:
    """Batches that each rank got, and the ranks that had no more.

    ``told_by`` is what counted them: ``join()``, a DataLoader, or forwards of one DDP model.
    """

    counts: Mapping[int, int]
    ended: frozenset[int]
    told_by: Literal["join", "loader", "forwards"]
    loader: str | None = None
    """The line that goes through the DataLoader which counted them, where there are several."""

    @property
    def uneven(self) -> bool:
        """A rank ran out of inputs while another had got further."""
        if not self.ended:
            return False
        return min(self.counts[r] for r in self.ended) < max(self.counts.values())

    def phrase(self) -> str:
        """``rank 0 had 5 batches and rank 1 got to its 6th``."""
        by_count: dict[tuple[int, bool], list[int]] = {}
        for rank, count in sorted(self.counts.items()):
            by_count.setdefault((count, rank in self.ended), []).append(rank)
        parts: list[str] = []
        for (count, ended), ranks in sorted(by_count.items()):
            whose = words.verb(ranks, "its", "their")
            what = words.counted(count, *self._noun) if ended else words.ordinal(count)
            what = what if not (ended and parts) else f"{count:,}"
            verb = self._verbs[0] if ended else f"{self._verbs[1]} {whose}"
            parts.append(f"{words.ranks(ranks)} {verb} {what}")
        return words.listed(parts)

    @property
    def witness(self) -> str:
        """Who counted, a sentence after a space, where it is a DataLoader."""
        if self.loader is not None:
            return f" The DataLoader of the loop{words.at_site(self.loader)} counted them."
        return " The ranks' DataLoader counted them." if self.told_by == "loader" else ""

    def after(self, ranks: Iterable[int]) -> str:
        """`` after 5 batches``; empty where the ranks did not end alike."""
        counts = {self.counts[r] for r in ranks if r in self.ended}
        return f" after {words.counted(counts.pop(), *self._noun)}" if len(counts) == 1 else ""

    @property
    def _noun(self) -> tuple[str, str]:
        passes = self.told_by == "forwards"
        return ("forward pass", "forward passes") if passes else ("batch", "batches")

    @property
    def _verbs(self) -> tuple[str, str]:
        return ("ran", "began") if self.told_by == "forwards" else ("had", "got to")


def of_ranks(
    case: Case,
    ranks: Iterable[int],
    ended: Iterable[int] = (),
    until: Mapping[int, int] | None = None,
    out: Collection[int] = (),
) -> Inputs | None:
    """What the logs tell of some ranks' inputs; None where not all of them tell.

    ``ended``: ranks known to have left the loop, by what they did next. ``until``: when ranks made
    the call by which they parted, ns. ``out``: ranks seen to be out of a loop that others go on in.
    """
    chosen = sorted({rank for rank in ranks if case.log(rank) is not None})
    logs = {rank: log for rank in chosen if (log := case.log(rank)) is not None}
    finished = {rank for rank in logs if case.standings[rank].state == "finished"}
    over = finished | set(ended)
    over -= {rank for rank, log in logs.items() if _left_over(log) is not None}
    forwards = _by_forwards(logs, over) if of_one_model(case, logs) else None
    for found in (_by_join(logs), _by_loader(logs, until or {}, out), forwards):
        if found is not None and len(found.counts) == len(chosen) and len(chosen) > 1:
            return found
    return None


@once
def of_candidate(case: Case, candidate: Candidate) -> Inputs | None:
    """The inputs of the ranks concerned, if they are uneven and explain a candidate; else None."""
    ended = {r for side in candidate.sides for r in side.ranks if _has_left(case, side, candidate)}
    members = candidate.group.ranks if candidate.group is not None else candidate.ranks
    known = [rank for rank in members if rank in case.standings]
    until = {
        rank: call.t
        for rank in known
        if candidate.stream is not None
        and candidate.seq is not None
        and (call := case.call(rank, candidate.stream, candidate.seq)) is not None
    }
    left = come_out.out_of(case, candidate)
    out = left.gone.ranks if left is not None else ()
    found = of_ranks(case, known, ended, until, out)
    if found is None or not found.uneven:
        return None
    # Only a rank that ran out can be missing, or be somewhere else, because of that.
    affected = set(candidate.absent) or {r for side in candidate.sides for r in side.ranks}
    return found if affected & found.ended else None


def left_over(case: Case, ranks: Sequence[int], stack: Sequence[str]) -> str:
    """That inputs were left to ranks which are gone: a sentence after a space, or nothing.

    ``stack``: the user's frames above the call that waits for them, which a loop over the same
    DataLoader is around. Of another, as of one that was only looked into, it would tell nothing.
    """
    logs = [case.log(rank) for rank in ranks]
    latest = [_left_over(log) if log is not None else None for log in logs]
    had = {(b.batch, b.length, b.site) if b is not None else None for b in latest}
    if len(had) != 1 or (one := had.pop()) is None:
        return ""
    count, length, site = one
    loops = {f"{file}:{statements.number_of(line)}" for file, line in case.loops(stack)}
    if site not in loops:
        return ""
    of = f"the {length:,}" if length is not None else "the"
    return (
        f" {words.upper(words.ranks(ranks))} had got {count:,} of {of} batches of the DataLoader"
        f"{words.at_site(site)}: what ended the work there was not the end of the inputs."
    )


def of_loop(
    case: Case, site: str, gone: Sequence[int], within: Sequence[int], stream: StreamKey, seq: int
) -> Inputs | None:
    """The batches that a DataLoader gave ranks in a loop, if it ended sooner on some; else None.

    Args:
        case: the run.
        site: ``path:line`` of the loop.
        gone: ranks that are out of it at a call.
        within: ranks that are in it there.
        stream: of the call.
        seq: its number.

    """
    calls = {rank: case.call(rank, stream, seq) for rank in (*gone, *within)}
    until = {rank: call.t for rank, call in calls.items() if call is not None}
    return _in_passes(case, site, gone, within, until) if len(until) == len(calls) else None


def in_passes(
    case: Case, heads: Sequence[str], gone: Sequence[int], within: Sequence[int]
) -> Inputs | None:
    """The same of the latest passes, by whichever of some loops goes through a DataLoader.

    ``heads``: ``path:line`` of these loops.
    """
    until = dict.fromkeys((*gone, *within), sys.maxsize)
    found = (_in_passes(case, site, gone, within, until) for site in heads)
    return next((one for one in found if one is not None), None)


def _in_passes(
    case: Case, site: str, gone: Sequence[int], within: Sequence[int], until: Mapping[int, int]
) -> Inputs | None:
    """The same of one loop; ``until``: per rank the time to which its passes are looked at."""
    counts, ended = dict[int, int](), set[int]()
    for rank in (*gone, *within):
        log = case.log(rank)
        passed = _pass_at(log, site, until[rank]) if log is not None else None
        if passed is None:
            return None
        counts[rank] = passed.batch
        if passed.end:
            ended.add(rank)
    found = Inputs(counts, frozenset(ended), "loader", site)
    return found if found.uneven and ended == set(gone) else None


def at_last_batch(
    case: Case, rank: int, stack: Sequence[str], until: int
) -> tuple[int, bool] | None:
    """How many batches a rank's DataLoader has, in whose loop a call is, and if it was at the last.

    ``stack``: the user's frames above the call, made at ``until``, ns. None: nothing is seen of it.
    """
    log = case.log(rank)
    seen = [batch for batch in log.batches if batch.t < until] if log is not None else []
    if not seen or seen[-1].end:
        return None
    own = (b for b in reversed(seen) if b.loader == seen[-1].loader)
    first = next((b for b in own if b.length is not None), None)
    loops = {f"{file}:{statements.number_of(line)}" for file, line in case.loops(stack)}
    if first is None or first.length is None or first.site not in loops:
        return None
    return first.length, first.length == seen[-1].batch


def _pass_at(log: RankLog, site: str, until: int) -> Batch | None:
    """What a rank's latest pass at a line had come to at a time: its latest batch, or its end."""
    found: Batch | None = None
    for batch in log.batches:
        if batch.t > until:
            break
        if batch.site == site or (found is not None and batch.loader == found.loader):
            found = batch
    return found


def _left_over(log: RankLog) -> Batch | None:
    """What a rank's latest pass over a DataLoader had come to, if there were more batches.

    With the length and the line of the pass, which its first batch bears.
    """
    latest = max(log.batches, key=lambda batch: batch.t, default=None)
    if latest is None or latest.end:
        return None
    first = _first(log, latest)
    if first.length is not None and first.length <= latest.batch:
        return None
    return replace(latest, length=first.length, site=first.site)


def _has_left(case: Case, side: Side, candidate: Candidate) -> bool:
    """Whether ranks are known to have left the loop that others are in.

    They shadow in ``join()``, or their call stands behind the loop in the script. If they have
    made that call before, a loop around both brings them back to it, and it proves nothing: the
    others may have left it out, and begun the next round. So they have if only some ranks make it.
    """
    call = side.call
    if call is None:
        return False
    if is_shadow(call.role):
        return True
    if _came_before(case, side, candidate) or chosen_by_rank(case, candidate):
        return False
    return any(
        other.call is not None
        and code_lines.loop_before(case.code, call.site, other.call.site) is not None
        for other in candidate.sides
    )


def _came_before(case: Case, side: Side, candidate: Candidate) -> bool:
    """Whether ranks have issued a call from the same line before."""
    if side.call is None:
        return False
    before = case.before(side.ranks[0], candidate.stream, candidate.seq)
    return any(c is not None and c.site == side.call.site for c in before)


def _by_join(logs: Mapping[int, RankLog]) -> Inputs | None:
    found = join_inputs.counted(logs)
    return Inputs(found.counts, found.ended, "join") if found is not None else None


def _in_a_pass(
    logs: Mapping[int, RankLog], until: Mapping[int, int], out: Collection[int]
) -> set[int]:
    """The ranks that were in the midst of a pass, which the others had begun too, at these times.

    If they left a loop then, they did so otherwise than by the end of a pass.
    """
    if not until:
        return set()
    latest = {
        rank: {b.loader: b for b in log.batches if rank not in until or b.t < until[rank]}
        for rank, log in logs.items()
    }
    shared = set.intersection(*(set(found) for found in latest.values()))
    return {
        rank
        for rank, found in latest.items()
        if shared
        and not _is_over(
            logs[rank], max((found[n] for n in shared), key=lambda batch: batch.t), rank in out
        )
    }


def _is_over(log: RankLog, latest: Batch, is_out: bool) -> bool:
    """Whether a pass of which this is the latest batch is over.

    Who takes as many batches as ``len()`` says, by ``next()``, never sees its end: ``is_out`` of
    the loop, it has had them all.
    """
    return bool(latest.end) or (is_out and latest.batch == _first(log, latest).length)


def _first(log: RankLog, latest: Batch) -> Batch:
    """The first batch of a pass, which bears its length and line; itself where it is not known."""
    own = (b for b in reversed(log.batches) if b.loader == latest.loader)
    return next((b for b in own if b.length is not None or b.site is not None), latest)


def _by_loader(
    logs: Mapping[int, RankLog], until: Mapping[int, int], out: Collection[int]
) -> Inputs | None:
    """The latest pass over the DataLoader that all ranks have used last.

    A rank that is done with it may have gone on to another one, which the others never came to.
    """
    latest = {rank: {batch.loader: batch for batch in log.batches} for rank, log in logs.items()}
    shared = set.intersection(*(set(found) for found in latest.values())) if latest else set()
    if not shared:
        return None
    counts, ended = dict[int, int](), set[int]()
    going = _in_a_pass(logs, until, out)
    by_time = sorted(shared, key=lambda n: max(f[n].t for f in latest.values()), reverse=True)
    for loader in by_time:
        counts = {rank: found[loader].batch for rank, found in latest.items()}
        over = {r for r, found in latest.items() if _is_over(logs[r], found[loader], r in out)}
        # A pass that ended early somewhere says why the ranks are apart; else the latest counts.
        early = {rank for rank in over - going if counts[rank] < max(counts.values())}
        if early:
            if len(by_time) == 1:
                return Inputs(counts, frozenset(over), "loader")
            sites = {found[loader].site for found in latest.values()}
            line = sites.pop() if len(sites) == 1 else None
            return Inputs(counts, frozenset(early), "loader", line)
        if loader == by_time[0]:
            ended = over
    if len(by_time) > 1:
        return None
    return Inputs(counts, frozenset(ended), "loader")


def _by_forwards(logs: Mapping[int, RankLog], over: set[int]) -> Inputs | None:
    """Forwards of DDP, which do not say that a rank has no more inputs: ``over`` does."""
    counts: dict[int, int] = {}
    for rank, log in logs.items():
        latest = join_inputs.last_iteration(log)
        if latest is None:
            return None
        counts[rank] = latest
    return Inputs(counts, frozenset(over & counts.keys()), "forwards")
