"""A forward ran again within backward() on some ranks only, as a checkpointed module's does.

What it means
    ``torch.utils.checkpoint`` keeps a module's inputs and runs its forward a second time during
    backward(). So its collectives are made twice. Every rank must do so.

Example
    ::

        if len(rows) > 8:                       # long inputs on rank 1 only
            return checkpoint(self.mixer, rows)
        return self.mixer(rows)

Not to be confused with
    CT503, if a rank ran another forward by itself.

How to fix it
    Checkpoint a module that makes collectives on every rank, or on none.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectrace.align.causes import apart, backwards, control, phrases
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains

Found = tuple[NextCall, str]


def find(situation: Situation) -> Found | None:
    """Return which side ran a forward again, and the line of its backward()."""
    sides = [*(apart.next_calls(situation) or ()), *apart.at_finding(situation)]
    ran = [(step, line) for step, _ in apart.called(sides) if (line := _within(situation, step))]
    ranks = {step.rank for step, _ in ran}
    return ran[0] if len(ranks) == 1 else None


def _within(situation: Situation, step: NextCall) -> str:
    """Return the line of the backward() that ran the forward of a call, or nothing."""
    stack = step.stack
    at = backwards.rerunning_depth(situation.case, stack)
    if not at:
        return ""
    is_alone = backwards.is_alone(situation.case, stack[at])
    is_it = is_alone or _ran_before(situation, step, stack[:at])
    return chains.site(stack[at]) if is_it else ""


def _ran_before(situation: Situation, step: NextCall, inner: Sequence[str]) -> bool:
    """Whether the same forward ran before from other lines, through a checkpoint."""
    case, stream, call = situation.case, situation.candidate.stream, step.call
    for one in case.before(step.rank, stream, call.seq) if call is not None else ():
        stack = case.stack(step.rank, one) if one is not None else ()
        through = stack[: len(inner)] == tuple(inner) and len(stack) > len(step.stack)
        if through and any("checkpoint" in phrases.text(case, f).lower() for f in stack):
            return True
    return False


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a forward that ran again."""
    step, line = found
    call = phrases.call(step.call) if step.call is not None else "the call"
    return Words(
        f"{step.subject} called {call} in a forward() that ran again",
        (
            "A checkpointed module runs its forward a second time in backward() "
            f"(torch.utils.checkpoint): this one ran again within backward(){phrases.line(line)}.",
            *control.why(situation)[:1],
        ),
        (
            "Checkpoint a module that makes collectives on every rank or on none, for the same "
            "inputs. Or keep its collectives out of what is recomputed.",
            *control.fixes(situation),
        ),
    )
