"""Adds to findings the statements that can have led to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from collectrace.align.code import decide
from collectrace.align.code.decide import Strength
from collectrace.align.code.files import Files
from collectrace.align.code.graph import Outcome, Way
from collectrace.align.code.origins import Origin
from collectrace.align.code.program import Program
from collectrace.align.deciding import sides
from collectrace.align.deciding.texts import RecordedTexts
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.findings import Decision, DecisionSide, DependsOn, Finding
from collectrace.findings import Strength as Sure
from collectrace.findings import Way as Did

_MOST: Final = 20
"""Findings of one run whose decisions are looked for."""

WAYS: Final[dict[Way, Did]] = {
    Way.NEXT: "next",
    Way.TAKEN: "taken",
    Way.NOT_TAKEN: "not_taken",
    Way.ITERATES: "iterates",
    Way.ENDED: "ended",
    Way.CASE: "case",
    Way.NO_CASE: "no_case",
    Way.HANDLER: "handler",
    Way.NO_HANDLER: "no_handler",
    Way.RAISED: "raised",
    Way.CALLS: "calls",
    Way.CALLS_OTHER: "calls_other",
    Way.VALUE: "value",
}

ORIGINS: Final[dict[Origin, DependsOn]] = {
    Origin.RANK: "rank",
    Origin.CLOCK: "clock",
    Origin.RANDOM: "random",
    Origin.FILES: "files",
    Origin.ENVIRONMENT: "environment",
    Origin.RECEIVED: "received",
    Origin.ROOT: "root",
    Origin.EXCEPTION: "exception",
    Origin.ORDER: "order",
    Origin.DATA: "data",
    Origin.LENGTH: "length",
    Origin.UNKNOWN: "unknown",
    Origin.AGREED: "agreed",
}

_STRENGTHS: Final[dict[Strength, Sure]] = {
    Strength.ONLY: "only",
    Strength.POSSIBLE: "possible",
}


def added(
    case: Case, candidates: Sequence[Candidate], findings: Sequence[Finding]
) -> list[Finding]:
    """Return the findings, with the statements that can have led to them.

    Consequences and mere information have none. ``candidates`` are those that the findings were
    made of, in the same order.
    """
    program = Program(Files(RecordedTexts(case.evidence)))
    left = _MOST
    found: list[Finding] = []
    for candidate, finding in zip(candidates, findings, strict=True):
        if candidate.cause is not None or candidate.severity == "info" or not left:
            found.append(finding)
            continue
        left -= 1
        decisions = case.faults.attempt("decisions", (), _decisions, case, candidate, program)
        found.append(replace(finding, decisions=decisions or None))
    return found


def _decisions(case: Case, candidate: Candidate, program: Program) -> tuple[Decision, ...]:
    """Return the statements that can have led to a finding."""
    pair = sides.pair(case, candidate)
    if pair is None:
        return ()
    answer = decide.decide(program, pair.one, pair.two)
    return tuple(
        Decision(
            site=f"{one.site.path}:{one.site.line}",
            text=one.text,
            function=one.function,
            sides=tuple(map(_side, pair.ranks, one.outcomes)),
            depends_on=tuple(ORIGINS[origin] for origin in one.origins),
            strength=_STRENGTHS[one.strength],
        )
        for one in answer.decisions
    )


def _side(rank: int, outcome: Outcome | None) -> DecisionSide:
    if outcome is None:
        return DecisionSide(rank=rank, did=None)
    return DecisionSide(
        rank=rank, did=WAYS[outcome.way], name=outcome.name or None, line=outcome.line or None
    )
