"""A call too many, too few, or in another order: the shortest edit between two streams.

It serves the wording only: rows and blame do not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from collectrace import words
from collectrace.align.diagnosis import loop
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.findings import Side
from collectrace.ops import canonical_op
from collectrace.records import Call
from collectrace.signature import is_user, program_text

_WINDOW: Final = 300
"""Calls after a difference within which the streams are brought together again."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What would have to be changed on some ranks to make them do what the others did."""

    what: Literal["extra", "missing", "swapped", "left"]
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    calls: tuple[Call, ...]
    """The calls that are too many or too few; the two that are swapped; what was issued instead."""
    rounds: int = 0
    """`left`: how often the ranks had repeated the loop that they left."""


@once
def edit(case: Case, candidate: Candidate) -> Edit | None:
    """What some ranks would have to change to issue what the others did; None: not evident.

    Between two sides only, by what follows the row, else by what came before it.
    """
    pair = _two_sides(candidate)
    if pair is None or candidate.stream is None or candidate.seq is None:
        return None
    right, wrong = pair
    a, b = (_after(case, side.ranks[0], candidate) for side in pair)
    one, two = [program_text(c) for c in a], [program_text(c) for c in b]
    if _is_swapped(one, two):
        return Edit("swapped", wrong.ranks, right.ranks, (a[0], a[1]))
    return _by_script(candidate, right, wrong, a, b) or _by_habit(case, candidate, right, wrong)


def _is_swapped(one: Sequence[str], two: Sequence[str]) -> bool:
    """Whether two calls change places, and the streams agree behind them.

    A call that is left out of a loop of two calls looks the same in the first two rows.
    """
    both = min(len(one), len(two))
    turned = both > 1 and one[0] != one[1] and one[:2] == two[1::-1]
    return turned and one[2:both] == two[2:both]


def _two_sides(candidate: Candidate) -> tuple[Side, Side] | None:
    """Who is taken for right, and who for wrong; in a tie the order means nothing."""
    sides = [side for side, _ in called(candidate)]
    suspects = set(candidate.suspects)
    wrong = [side for side in sides if suspects and set(side.ranks) <= suspects]
    right = [side for side in sides if side not in wrong]
    if len(right) == 1 and len(wrong) == 1:
        return right[0], wrong[0]
    return (sides[0], sides[1]) if len(sides) == 2 else None


def _after(case: Case, rank: int, candidate: Candidate) -> list[Call]:
    """A rank's calls from the row on."""
    log, seq, stream = case.log(rank), candidate.seq, candidate.stream
    if log is None or seq is None or stream is None:
        return []
    last = min(seq + _WINDOW, log.last_seq.get(stream, seq) + 1)
    found: list[Call] = []
    for call in log.calls(stream, seq, last):
        if call is None:
            break
        found.append(call)
    return found


def _by_script(
    candidate: Candidate, right: Side, wrong: Side, a: Sequence[Call], b: Sequence[Call]
) -> Edit | None:
    """By what follows the row: the streams agree again after some calls of one side only."""
    from difflib import SequenceMatcher

    one, two = [program_text(c) for c in a], [program_text(c) for c in b]
    script = SequenceMatcher(None, one, two, autojunk=False).get_opcodes()
    if not script or len(script) < 2:
        return None  # nothing follows on which they agree again
    tag, a_start, a_end, b_start, b_end = script[0]
    if tag == "insert":
        return Edit("extra", wrong.ranks, right.ranks, tuple(b[b_start:b_end]))
    if tag == "delete":
        calls = tuple(a[a_start:a_end])
        if candidate.suspects:
            return Edit("missing", wrong.ranks, right.ranks, calls)
        return Edit("extra", right.ranks, wrong.ranks, calls)
    return None


def _by_habit(case: Case, candidate: Candidate, right: Side, wrong: Side) -> Edit | None:
    """By what came before: one side goes on with its loop, the other leaves it or skips a call.

    None unless both were in a loop and exactly one goes on.
    """
    if candidate.stream is None or candidate.seq is None:
        return None
    edits = []
    for side, other in ((right, wrong), (wrong, right)):
        before = loop.before(case, side.ranks[0], candidate.stream, candidate.seq)
        if side.call is None or before is None or before.expected is None:
            return None
        if before.goes_on(side.call):
            continue
        skipped = before.skips_one(side.call)
        edits.append(
            Edit(
                "missing" if skipped else "left",
                side.ranks,
                other.ranks,
                (before.expected if skipped else side.call,),
                before.rounds,
            )
        )
    return edits[0] if len(edits) == 1 else None


def headline(case: Case, candidate: Candidate) -> str:
    """``rank 1 has one extra barrier``; empty where no edit is evident or it adds nothing."""
    found = edit(case, candidate)
    if found is None or found.what == "left" or _same_call(candidate):
        return ""
    if found.what != "swapped" and not all(is_user(c) for c in found.calls):
        return ""  # that a framework issues more or less follows from something else
    who = words.ranks(found.ranks)
    have = words.verb(found.ranks, "has", "have")
    if found.what == "swapped":
        return f"{who} {have} the two calls in the other order"
    n = len(found.calls)
    kinds = {c.op for c in found.calls}
    noun = found.calls[0].op if len(kinds) == 1 else "collective"
    if found.what == "extra":
        return f"{who} {have} {_number(n)} extra {noun}{'s' * (n != 1)}"
    return f"{who} left out {_number(n)} {noun}{'s' * (n != 1)}"


def _number(n: int) -> str:
    return {1: "one", 2: "two", 3: "three"}.get(n, str(n))


def _same_call(candidate: Candidate) -> bool:
    """Whether all ranks made the same call from the same line, and only its arguments differ."""
    return len({(canonical_op(c.op), c.role, c.site) for _, c in called(candidate)}) == 1


def extra_of_users(case: Case, candidate: Candidate) -> Reason | None:
    """Calls of the script's own, after which the streams agree again: the plainest of reasons."""
    found = edit(case, candidate)
    if found is None or found.what != "extra" or not all(is_user(c) for c in found.calls):
        return None
    return reason(case, candidate)


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """The edit as a reason: a branch on the rank, a longer loop, calls in another order."""
    found = edit(case, candidate)
    if found is None or _same_call(candidate):
        return None
    who, others = words.upper(words.ranks(found.ranks)), words.ranks(found.others)
    listed = words.listed([words.name(c) + words.at(c) for c in found.calls[:3]])
    listed += f" and {len(found.calls) - 3} more" if len(found.calls) > 3 else ""
    if found.what == "swapped":
        return Reason(
            f"{who} issued {listed} in the opposite order of {others}.",
            "Issue them in one order on every rank. Orders differ where code iterates over a set, "
            "in callbacks and hooks, and in branches on the rank.",
        )
    if found.what == "left":
        times = words.counted(found.rounds, "time")
        return Reason(
            f"{who} left the loop that all ranks had gone through {times} and called {listed}; "
            f"{others} went on in it. Either only {words.ranks(found.ranks)} took that branch, or "
            "the loop ended earlier there.",
            _ONE_BRANCH,
        )
    if found.what == "missing":
        return Reason(
            f"{who} did not issue {listed}, as {others} did. After it the calls agree again, one "
            "place apart: a branch skipped it on some ranks.",
            _ONE_BRANCH,
        )
    whose = "the script's own" if all(is_user(c) for c in found.calls) else "the framework's"
    return Reason(
        f"{who} issued {listed} ({whose}), and {others} did not. After it the calls agree again, "
        "one place apart: a branch or a loop ran on some ranks only.",
        _ONE_BRANCH,
    )


_ONE_BRANCH: Final = (
    "Make the call on every rank or on none: take it out of `if rank == 0:` and of branches on "
    "data that differs between ranks.\n"
    "If it is in a loop: give the loop the same length on every rank."
)
