"""Count each rank's inputs by ``join()``, a DataLoader, or forwards of one DDP model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from collectrace import words
from collectrace.align.causes import apart, deciders, phrases, structure
from collectrace.align.causes.apart import Left
from collectrace.align.causes.situation import Situation
from collectrace.align.deciding import timeline
from collectrace.align.judging.case import Case
from collectrace.align.judging.own_calls import call_of
from collectrace.align.reading.evidence import RankLog
from collectrace.findings import SourceLine
from collectrace.records import DDP_FORWARD, Batch, Call, Join
from collectrace.roles import is_shadow, pairing_class
from collectrace.signature import is_user

NOTICE: Final = pairing_class("ddp.forward.notify_join")
_LOOK_BACK: Final = 4000
"""Calls of a stream among which forwards and notices are searched."""
_MOST: Final = 2
"""Calls of the script's own that are named."""
_RECENT: Final = 64
"""Calls of a rank among which these are searched."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Numbers of inputs of ranks, of which some ran out first."""

    counts: Mapping[int, int]
    ended: frozenset[int]
    """The ranks that ran out."""
    counted_by: Literal["join", "loader", "forwards"]
    left: Left | None = None
    """The loop that they left; None: not known."""
    skip: SourceLine | None = None
    """The condition that may skip forwards in that loop; None: nothing does, or batches count."""

    @property
    def phrase(self) -> str:
        """``rank 0 had 5 batches and rank 1 got to its 6th``."""
        passes = self.counted_by == "forwards"
        noun = ("forward pass", "forward passes") if passes else ("batch", "batches")
        ran = "ran" if passes else "had"
        by_count: dict[tuple[int, bool], list[int]] = {}
        for rank, count in sorted(self.counts.items()):
            by_count.setdefault((count, rank in self.ended), []).append(rank)
        return words.listed([
            f"{words.ranks(those)} {ran} {words.counted(count, *noun)}"
            if is_over
            else f"{words.ranks(those)} got to {words.verb(those, 'its', 'their')} "
            f"{words.ordinal(count)}"
            for (count, is_over), those in sorted(by_count.items())
        ])  # fmt: skip


def uneven(situation: Situation) -> Inputs | None:
    """Return the inputs of a finding's ranks if they were uneven and that explains it.

    It does not if all ranks reached the same line with tensors of different sizes.
    """
    case, group = situation.case, situation.candidate.group
    places = {(call.role, call.site, side.stack) for side, call in situation.called}
    is_one = len(situation.called) > 1 and len(places) == 1
    if group is None or (is_one and situation.kind in ("shape_mismatch", "dtype_mismatch")):
        return None
    logs = {rank: log for rank in group.ranks if (log := case.log(rank)) is not None}
    if len(logs) < 2:
        return None
    lefts = apart.left_loops(situation)
    gone = {rank for left in lefts for rank in left.gone.ranks}
    gone |= {rank for side, call in situation.called if is_shadow(call.role) for rank in side.ranks}
    gone |= {rank for rank in logs if case.standings[rank].state == "finished"}
    both = apart.called(apart.next_calls(situation) or ())
    until = {step.rank: call.t for step, call in both}
    for found in (
        _by_join(logs),
        _by_loader(logs, lefts, until),
        _by_forwards(situation, logs, lefts),
    ):
        if found is not None:
            over = found.ended & gone if found.counted_by == "loader" and lefts else found.ended
            if over and min(found.counts[r] for r in over) < max(found.counts.values()):
                return found
    return None


def of_run(case: Case, ranks: Iterable[int]) -> Inputs | None:
    """Return the inputs of some ranks of a run, by join() or a DataLoader; None: not known."""
    logs = {rank: log for rank in sorted(ranks) if (log := case.log(rank)) is not None}
    if len(logs) < 2:
        return None
    return _by_join(logs, is_over=True) or _by_loader(logs, (), {})


# -- by join() ---------------------------------------------------------------------------------


class _Joined(NamedTuple):
    """One ``join()`` of one rank."""

    entered: Join
    over: Join | None = None
    """The record that it ran out of inputs, or left; None: neither."""


def _by_join(logs: Mapping[int, RankLog], *, is_over: bool = False) -> Inputs | None:
    """Count the inputs of the latest ``join()`` that all ranks entered.

    ``is_over``: also count it if all ranks left it, when it explains nothing later.
    """
    passes = {rank: _passes(log) for rank, log in logs.items()}
    common = min(len(found) for found in passes.values())
    if not common:
        return None
    if not is_over and all(log.joins[-1].phase == "left" for log in logs.values()):
        return None
    latest = {rank: found[common - 1] for rank, found in passes.items()}
    ended = frozenset(r for r, one in latest.items() if one.over and one.over.phase == "joined")
    fetched = {rank: _fetched(logs[rank], one) for rank, one in latest.items()}
    if all(n is not None for n in fetched.values()):
        return Inputs({r: n or 0 for r, n in fetched.items()}, ended, "join")
    counts = {rank: _noticed(logs[rank], one) for rank, one in latest.items()}
    return Inputs(counts, ended, "join")


def _passes(log: RankLog) -> list[_Joined]:
    found: list[_Joined] = []
    for join in log.joins:
        if join.phase == "entered":
            found.append(_Joined(join))
        elif found and found[-1].over is None:
            found[-1] = found[-1]._replace(over=join)
    return found


def _fetched(log: RankLog, one: _Joined) -> int | None:
    """Return the batches of the DataLoader used inside a ``join()``; None unless it is only one."""
    end = one.over.t if one.over is not None else max(log.last_t, one.entered.t)
    inside = [batch for batch in log.batches if one.entered.t <= batch.t <= end]
    is_one = len({batch.loader for batch in inside}) == 1 and log.scanned
    return sum(not batch.end for batch in inside) if is_one else None


def _noticed(log: RankLog, one: _Joined) -> int:
    """Return how many inputs a rank announced to ``join()``.

    If several lines call a model for one input, each of them announces it.
    """
    if one.over is not None:
        told = list[int](one.over.rounds or ())
    else:
        calls = (call for call in calls_of(log, one.entered.t) if not is_shadow(call.role))
        lines = Counter(call.site for call in calls if pairing_class(call.role) == NOTICE)
        told = [*lines.values()]
    if len(told) > 1 and max(told) - min(told) <= 1 and not log.no_syncs:
        return max(told)
    return sum(told)


def calls_of(log: RankLog, since: int = 0) -> list[Call]:
    """Return the latest calls of a rank's streams, in order."""
    found: list[Call] = []
    for stream, seq in log.last_seq.items():
        calls = log.calls(stream, max(1, seq - _LOOK_BACK), seq + 1)
        found += [call for call in calls if call is not None and call.t >= since]
    return sorted(found, key=lambda call: call.t)


# -- by a DataLoader ---------------------------------------------------------------------------


def _by_loader(
    logs: Mapping[int, RankLog], lefts: Sequence[Left], until: Mapping[int, int]
) -> Inputs | None:
    """Count the batches of a DataLoader whose loop only some ranks have left.

    ``until``: when ranks made their first different call, by rank, ns.
    """
    latest = {
        rank: {
            b.loader: b for b in log.batches if rank not in until or b.t <= until[rank]
        }
        for rank, log in logs.items()
    }  # fmt: skip
    shared = set.intersection(*(set(found) for found in latest.values()))
    sites = {left.loop.site: left for left in lefts}
    # A rank that represents no side may be further by now, so its later passes do not count.
    for loader in sorted(shared, key=lambda n: -max(f[n].t for f in latest.values())):
        passes = {rank: found[loader] for rank, found in latest.items()}
        firsts = {rank: _first(logs[rank], one) for rank, one in passes.items()}
        lines = {one.site for one in firsts.values() if one.site}
        site = next(iter(lines), None)
        left = sites.get(site or "")
        # Ranks number their loaders by themselves: two lines are two loaders.
        if len(lines) > 1 or (sites and left is None):
            continue
        out = set(left.gone.ranks) if left is not None else set[int]()
        ended = frozenset(
            rank
            for rank, one in passes.items()
            if one.end or (rank in out and one.batch == firsts[rank].length)
        )
        found = Inputs({r: one.batch for r, one in passes.items()}, ended, "loader", left)
        if ended and min(found.counts[r] for r in ended) < max(found.counts.values()):
            return found
    return None


def _first(log: RankLog, latest: Batch) -> Batch:
    """Return the first batch of a pass, which records the loader's length and line."""
    own = (b for b in reversed(log.batches) if b.loader == latest.loader and b.t <= latest.t)
    return next((b for b in own if b.length is not None or b.site is not None), latest)


def reached(log: RankLog | None, call: Call | None) -> Batch | None:
    """Return the batch, length and line that a rank had at a call; None outside of all passes."""
    batches = log.batches if log is not None else ()
    seen = [one for one in batches if call is None or one.t <= call.t]
    if log is None or not seen or seen[-1].end:
        return None
    first = _first(log, seen[-1])
    return replace(seen[-1], length=first.length, site=first.site)


def left_over(situation: Situation) -> str:
    """Return a sentence on batches that ranks did not use when they left a loop, or nothing."""
    gone: dict[int, Call | None] = dict.fromkeys(situation.candidate.absent)
    for left in apart.left_loops(situation) if not gone else ():
        gone |= dict.fromkeys(left.gone.ranks, left.gone.call)
    at = [reached(situation.case.log(rank), call) for rank, call in gone.items()]
    found = {(one.batch, one.length, one.site) if one is not None else None for one in at}
    batch, length, site = (found.pop() if len(found) == 1 else None) or (0, None, None)
    loops = {one.site for one in situation.decisions if deciders.form(one) == "loop"}
    if site not in loops or length is None or length <= batch:
        return ""
    return (
        f"{words.upper(words.ranks(gone))} left the loop after {batch:,} of the {length:,} batches "
        f"of the DataLoader{phrases.line(site)}: the loop had not ended, so it was not the end of "
        "the inputs."
    )


# -- by forwards -------------------------------------------------------------------------------


def _by_forwards(
    situation: Situation, logs: Mapping[int, RankLog], lefts: Sequence[Left]
) -> Inputs | None:
    """Count the forwards of the only DDP model that is trained in a loop that some have left.

    Only if that loop decided: a condition or an outer loop may have left it.
    """
    first = deciders.ranked(situation)[:1]
    left = next((one for one in lefts if [one.loop] == first and len(lefts) == 1), None)
    if left is None:
        return None
    inside = left.inside.call
    if inside is None or not inside.role.startswith("ddp.") or inside.iteration is None:
        return None
    if not structure.is_innermost(situation, left.loop, left.inside.rank, left.inside.stack):
        return None  # its iterations are epochs
    gone = left.gone.call
    made = gone.iteration if gone is not None else last_iteration(logs[left.gone.rank])
    if made is None or made >= inside.iteration:
        return None
    counts = dict.fromkeys(left.gone.ranks, made)
    counts |= dict.fromkeys(left.inside.ranks, inside.iteration)
    skip = structure.may_skip(situation, left.loop, left.inside.stack)
    return Inputs(counts, frozenset(left.gone.ranks), "forwards", left, skip)


def last_iteration(log: RankLog) -> int | None:
    """Return the number of the latest DDP forward of a rank; None: it is not known."""
    if log.unit != DDP_FORWARD:
        return None
    found = [call.iteration for call in calls_of(log) if call.iteration is not None]
    return max(found, default=None)


# -- fixes -------------------------------------------------------------------------------------


def fixes(situation: Situation, found: Inputs) -> tuple[str, ...]:
    """Return fixes: even inputs first, then ``join()`` if it answers the calls of the loop."""
    inside = found.left.inside if found.left is not None else None
    loop = f" in the loop at {words.site(found.left.loop.site)}" if found.left is not None else ""
    loads = any(log.batches for log in situation.case.evidence.logs.values())
    how = (
        ": if all read one data set, DistributedSampler with DataLoader(drop_last=True); if each "
        "has a part of its own, all_reduce its number of batches with MIN first"
        if loads
        else ""
    )
    even = f"Give every rank the same number of batches{loop}{how}."
    if found.skip is not None:
        return (
            f"If {deciders.shown(found.skip)} skipped some: run forward and backward in every "
            "iteration, with a loss times zero where there is nothing to learn.",
            f"If the number of batches differs: {words.lower(even)}",
        )
    if inside is None or inside.call is None or not inside.call.role.startswith("ddp."):
        return (even,)
    own = own_calls(situation, found.left) if found.left is not None else []
    move = (
        f" Move {words.listed(own)} out of the loop first: join() does not answer it."
        if own
        else ""
    )
    if around := _join_around(situation.case.log(inside.rank), inside.call):
        return (
            even,
            f"Or put join(){phrases.line(around.site)} around this loop alone: a rank answers the "
            "others from the end of its `with` block on.",
        )
    return (
        even,
        "Or train inside `with model.join():`, which answers DDP's collectives for ranks that "
        f"ran out of inputs.{move}",
        "Or stop all ranks when the first runs out, and catch the RuntimeError: "
        "Join([model], throw_on_early_termination=True).",
    )


def _join_around(log: RankLog | None, call: Call) -> Join | None:
    """Return the ``join()`` that a rank was in as it made a call; None: it was in none."""
    before = [one for one in log.joins if one.t <= call.t] if log is not None else []
    return before[-1] if before and before[-1].phase == "entered" else None


def own_calls(situation: Situation, left: Left) -> list[str]:
    """Return the names of the script's own collectives inside a loop."""
    log = situation.case.log(left.inside.rank)
    entries = timeline.calls_before(log)[-_RECENT:] if log is not None else []
    inside = [one for one in entries if structure.is_in_loop(situation, left.loop, one.stack)]
    calls = [call_of(situation.case, left.inside.rank, one) for one in inside]
    own = [phrases.call(call) for call in calls if call is not None and is_user(call)]
    return list(dict.fromkeys(own))[:_MOST]
