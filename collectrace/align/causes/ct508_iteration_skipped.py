"""A rank skipped a backward() that the others ran, or ran it inside ``no_sync()``.

What it means
    All iterations make the same calls, and so do models of one size. After a rank skips a
    backward(), its next one meets a different backward() of the others, and nothing fails until the
    end. The results are wrong. A backward() inside ``no_sync()`` reduces no gradients. So ranks
    that accumulate different numbers of micro-batches diverge in the same way.

Example
    ::

        if not loss.isfinite():
            continue                # skips backward() on one rank
        loss.backward()

Not to be confused with
    CT204, if a rank had fewer batches. CT505, if a backward() ran only partly.

How to fix it
    Agree before backward() which batches to skip. Choose ``no_sync()`` by the step number, with the
    same number of micro-batches on every rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from collectrace import roles
from collectrace import words as text
from collectrace.align.causes import apart, caught, control, deciders, phrases
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.deciding import named
from collectrace.align.judging import departures
from collectrace.align.judging.departures import Departure
from collectrace.records import Call, NoSync
from collectrace.signature import is_user


class Skipped(NamedTuple):
    """What the suspects skipped."""

    call: Call
    rank: int
    """A rank that ran it."""
    iteration: int | None = None
    """The iteration that was skipped as a whole; None: only the call was skipped."""
    who: tuple[int, ...] = ()
    """The ranks that skipped it; empty: the suspects."""
    entered: str = ""
    """How often the ranks of each side entered ``no_sync()``; empty: it is not involved."""


def find(situation: Situation) -> Skipped | None:
    """Return the backward() that the suspects skipped."""
    case, candidate = situation.case, situation.candidate
    if caught.caught(situation):
        return None  # an exception made the rank skip it
    both = apart.next_calls(situation)
    for mine, other in (both, both[::-1]) if both is not None else ():
        if (skipped := _other_boundaries(situation, mine, other)) is not None:
            return skipped
    found = departures.skipped_iterations(case, candidate)
    if found is not None and not all(map(is_user, found.calls)):
        entered = _entered_more(situation, found)
        return Skipped(found.calls[0], found.others[0], found.iteration, found.ranks, entered)
    if not situation.suspects:
        return None
    first = control.first(situation)
    if both is None or first is None or not control.is_condition(first):
        return None
    (mine, call), (other, due) = ((step, step.call) for step in both)
    if call is None or due is None or not control.lets_one_side(situation, first, other, mine):
        return None
    in_backward = roles.of(call.role).in_backward and roles.of(due.role).in_backward
    return Skipped(due, other.rank) if in_backward and call.model != due.model else None


def _other_boundaries(situation: Situation, mine: NextCall, other: NextCall) -> Skipped | None:
    """Return the backward() of one side, if ranks entered ``no_sync()`` in different ones.

    Up to one gradient bucket, ranks that decide alike have entered it equally often. A rank that
    hung, died or left its loop between two of them has not: the other must have gone on as far.
    """
    due, ahead = other.call, mine.call
    if due is None or ahead is None or not roles.of(due.role).is_bucket:
        return None
    if roles.of(ahead.role).in_backward or (ahead.iteration or 0) < (due.iteration or 0):
        return None
    ends = ((mine.rank, ahead), (other.rank, due))
    entered = [_entered(situation, rank, 0, call.t) for rank, call in ends]
    if entered[0] == entered[1]:
        return None
    told = _told(zip((mine.ranks, other.ranks), entered, strict=True))
    return Skipped(due, other.rank, who=mine.ranks, entered=told)


def _entered_more(situation: Situation, found: Departure) -> str:
    """Return how often each side entered ``no_sync()``, if the suspects did in these iterations."""
    case, stream, seq = situation.case, situation.candidate.stream, found.seq
    if stream is None or seq is None:
        return ""
    ahead, behind = found.ranks[0], found.others[0]
    later = case.call(ahead, stream, seq)
    last, before = (case.call(rank, stream, seq - 1) for rank in (ahead, behind))
    if later is None or not roles.of(found.calls[0].role).in_backward:
        return ""
    since, first = (last.t, last.iteration or 0) if last is not None else (0, 0)
    inside = _entered(situation, ahead, since, later.t)
    others = _entered(situation, behind, before.t if before else 0, found.calls[0].t)
    if inside <= others or inside < (later.iteration or 0) - first - 1:
        return ""
    return _told(
        (side.ranks, _entered(situation, side.ranks[0], 0, call.t))
        for side, call in situation.called
    )


def _told(counts: Iterable[tuple[Sequence[int], int]]) -> str:
    """Return ``rank 1 entered it 3 times and ranks 0,2 entered it 5 times``."""
    return text.listed(
        [f"{text.ranks(who)} entered it {text.counted(n, 'time')}" for who, n in counts]
    )


def _entered(situation: Situation, rank: int, since: int, until: int) -> int:
    """Return how often a rank entered no_sync() between two moments of its clock."""
    return sum(since < one.t <= until for one in _entries(situation, rank))


def _entries(situation: Situation, rank: int) -> list[NoSync]:
    log = situation.case.log(rank)
    return [one for one in (log.no_syncs if log is not None else ()) if one.phase == "entered"]


def _site(situation: Situation, found: Skipped) -> str | None:
    """Return the line that last entered ``no_sync()``, or else that of the backward()."""
    entries = reversed(_entries(situation, found.rank))
    return next((one.site for one in entries if one.site), found.call.site)


_LONGEST: Final = 60
"""Characters of a test that are quoted."""


def words(situation: Situation, found: Skipped) -> Words:
    """Return the words for a backward() that was skipped."""
    ranks = found.who or situation.suspects
    who, call = text.ranks(ranks), phrases.call(found.call)
    if found.entered:
        headline = f"{who} ran iteration {found.iteration} inside no_sync(), others did not"
        if found.iteration is None:
            headline = f"{who} entered no_sync() in other micro-batches than rank {found.rank}"
        site = _site(situation, found) or ""
        decision = named.condition_at(situation.case, found.rank, site, "no_sync")
        decided = ""
        if decision is not None:
            test = text.brief(decision.text, _LONGEST)
            decided = deciders.depends(decision, f"`{test}` decides, and")
        return Words.of(
            headline,
            (
                "no_sync() was not entered for the same micro-batches on all ranks"
                f"{phrases.line(site)}: up to the error {found.entered}.",
                decided,
                "A backward() inside it sends no gradients, outside it does: since then gradients "
                "of different iterations have met.",
            ),
            (
                "Decide about no_sync() by the step number, with the same number of micro-batches "
                f"on every rank{phrases.line(site)}; never by the length of a rank's own data.",
            ),
        )
    model = text.of_model(found.call)
    is_ = text.verb(ranks, "is", "are")
    which = f" in iteration {found.iteration}" if found.iteration is not None else model
    why = control.why(situation)
    fixes: tuple[str, ...] = (
        "Make the call on every rank or on none: agree on what to leave out before "
        f"{call} (all_reduce of a flag), or go through it with zeros.",
        *control.fixes(situation),
    )
    is_backward = roles.of(found.call.role).in_backward
    if is_backward and situation.decisions and control.first(situation) is None:
        why = (
            f"No condition can have kept {who} from that backward(). So it ran there, too, but its "
            "loss did not depend on the model: it was a constant, or detached.",
        )
        fixes = (
            "Let the loss depend on the model in every iteration: add 0 * (the sum of its output) "
            "to a loss that may be a constant.",
            fixes[0],
        )
    return Words(
        f"{who} skipped {call}{which}",
        (
            *why,
            f"From call {found.call.seq} on, {who} {is_} ahead of the others: results are wrong "
            "from there.",
        ),
        fixes,
    )
