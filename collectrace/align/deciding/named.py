"""Find the statements that can have led to candidates."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from collectrace.align.code import decide, decisions
from collectrace.align.code.conditions import OPPOSITE
from collectrace.align.code.controls import controls
from collectrace.align.code.decide import Differing
from collectrace.align.code.decisions import Answer, Strength, origin_site
from collectrace.align.code.graph import ENDED, ITERATES, Outcome, Way, called_name
from collectrace.align.code.origins import Origin, sorted_by_weight
from collectrace.align.code.places import Agreements, Place, Site
from collectrace.align.code.program import Program
from collectrace.align.code.slices import Tracer
from collectrace.align.deciding import libraries, sides
from collectrace.align.deciding.agreements import RecordedAgreements
from collectrace.align.deciding.held import Levels, is_one_iteration, values_held
from collectrace.align.deciding.sides import Pair
from collectrace.align.judging import places
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading import chains
from collectrace.findings import KINDS, Decision, DecisionSide, Kind, SourceLine

_MOST_PAIRS: Final = 8
"""Pairs of sides that are tried for a finding."""

_MOST: Final = 20
"""Findings of one run that get decisions."""


class Decided(NamedTuple):
    """The statements that can have led to a candidate, and the two sides that they separate."""

    decisions: tuple[Decision, ...] = ()
    pair: Pair | None = None


def find_decisions(case: Case, candidates: Sequence[Candidate]) -> list[Decided]:
    """Return for each candidate the statements that can have led to it.

    Consequences and candidates of severity "info" have none.
    """
    left = _MOST
    found: list[Decided] = []
    for candidate in candidates:
        if candidate.cause is not None or candidate.severity == "info" or not left:
            found.append(Decided())
            continue
        left -= 1
        found.append(case.faults.attempt("decisions", Decided(), _decided, case, candidate))
    return found


def _decided(case: Case, candidate: Candidate) -> Decided:
    program = case.program
    found = best_pair(case, candidate, program)
    if found is None:
        return Decided()
    pair, answer = found
    levels = _levels(case, pair)
    told = (_to_finding(program, pair, one, levels) for one in answer.decisions)
    owners = libraries.library_names(case.evidence.source_files, pair.ranks)
    those = [replace(one, library=owners.get(chains.file(one.site))) for one in told]
    return Decided(tuple(sorted(those, key=lambda one: one.library is not None)), pair)


def condition_at(case: Case, rank: int, site: str, called: str) -> Decision | None:
    """Return the innermost condition on a call at a line that can differ between the ranks.

    ``text`` is its test. Only the source is read, so there are no sides.
    """
    level = places.level(case, rank, site)
    if level is None:
        return None
    calls = [node for node in level.graph.at(level.line) if called_name(node.tree) == called]
    for one in reversed(controls(level.function, level.graph, calls)) if calls else ():
        sources = Tracer(case.program, Agreements()).sources(
            one.test, Place(level.function, one.node)
        )
        found = sorted_by_weight(source.origin for source in sources)
        if one.test is not None and found[:1] not in ((), (Origin.AGREED,), (Origin.UNKNOWN,)):
            return Decision(
                site=one.site, text=ast.unparse(one.test), function=level.function.qualified,
                sides=(), depends_on=tuple(one.value for one in found), strength="possible",
                comes_from=_line_of(case.program, rank, origin_site(sources, found, one.line)),
            )  # fmt: skip
    return None


def _levels(case: Case, pair: Pair) -> list[Levels]:
    """Return the functions of both sides with variables that were read."""
    return [
        Levels.of(case.log(side.rank), side, t)
        for side, t in zip((pair.one, pair.two), pair.times, strict=True)
    ]


_DIFFERING: Final[Mapping[Kind, Differing]] = {
    "root_mismatch": "root", "reduce_op_mismatch": "others", "shape_mismatch": "data",
    "dtype_mismatch": "dtype",
}  # fmt: skip

_OF_MESSAGE: Final[Mapping[str, Differing]] = {
    "tag": "tag", "destination": "peer", "source": "peer",
}  # fmt: skip


def _differing(candidate: Candidate) -> Differing:
    """Return which arguments of the calls differ."""
    source = candidate.source
    if isinstance(source, ChannelIssue) and source.near is not None:
        return _OF_MESSAGE.get(source.near.differs, "any")
    return _DIFFERING.get(candidate.what, "any")


_Found = tuple[Pair, Answer]


def best_pair(case: Case, candidate: Candidate, program: Program) -> _Found | None:
    """Return the most informative pair of sides and its answer; None if no pair has decisions.

    Pairs with a suspect come first. If two ranks run different code by design, a condition on the
    rank explains nothing.
    """
    found: list[_Found] = []
    is_row = KINDS[candidate.what].family in ("call", "group")
    for pair in islice(sides.pairs(case, candidate), _MOST_PAIRS):
        agreements = RecordedAgreements(case, pair.ranks, pair.made)
        is_shared = partial(is_one_iteration, _levels(case, pair))
        own = pair.one, pair.two
        differing = _differing(candidate)
        if differing in ("data", "dtype") and pair.is_of_one_rank:
            differing = "any"  # a rank may have passed another group than before
        whole = libraries.add_library_frames(case.evidence.source_files, *own)
        # A library may be too large to follow. Then the user's frames alone may still suffice.
        for one, two in dict.fromkeys([whole, own]):
            answer = decide.decide(
                program, one, two, agreements, differing=differing, is_shared=is_shared,
                is_skipped=pair.is_skipped,
            )  # fmt: skip
            if pair.about is not None:
                kept = (one for one in answer.decisions if one.site in pair.about)
                answer = replace(answer, decisions=tuple(kept))
            if answer.decisions:
                found.append((pair, answer))
                break
        if found and is_row and _is_telling(found[-1]):
            return found[-1]

    evidence = candidate.verdict.evidence if candidate.verdict is not None else ()
    led_by_rank = any(row.fact == "led_by_its_rank" for row in evidence)

    def order(one: _Found) -> tuple[bool, bool, bool, bool]:
        by_rank = any(decision.origins == (Origin.RANK,) for decision in one[1].decisions)
        is_other = bool(candidate.suspects) and not {*one[0].ranks} & {*candidate.suspects}
        is_own, is_vague = one[0].is_of_one_rank, not _is_telling(one)
        by_own = led_by_rank and is_own
        at_one_line = one[0].one.next == one[0].two.next  # only its arguments can differ
        is_last = _ended_as_agreed(one) or (by_rank and not is_own and not at_one_line)
        return is_row and is_vague, is_other, by_own or is_vague, is_last

    first = min(found, key=order, default=None)
    if first is None or not first[0].is_of_one_rank:
        return first
    # Prefer two ranks if the statements are the same: then both ranks' values are shown.
    across = (
        one
        for one in found
        if not one[0].is_of_one_rank and _sites(one) == _sites(first) and _agree(first, one)
    )
    return next(across, first)


def _agree(own: _Found, across: _Found) -> bool:
    """Whether a rank compared with itself, and with another one, did the same for one reason."""
    rank, ranks = own[0].one.rank, across[0].ranks
    if rank not in ranks:
        return False
    side = ranks.index(rank)
    known = {one.site: (one.outcomes[0], one.origins) for one in own[1].decisions}
    return all(
        known[one.site][0] in (one.outcomes[side], None) and known[one.site][1] == one.origins
        for one in across[1].decisions
    )


def _ended_as_agreed(one: _Found) -> bool:
    """Whether a rank is compared with itself from before it left a loop of an agreed length."""
    return one[0].is_first_time and any(
        decision.origins == (Origin.AGREED,) and _way(decision.outcomes[0]) is Way.ENDED
        for decision in one[1].decisions
    )


def _is_telling(one: _Found) -> bool:
    """Return whether any statement is more than a loop with a length that the ranks agree on."""
    return any(
        decision.origins != (Origin.AGREED,) or not {*map(_way, decision.outcomes)} & _OF_LOOPS
        for decision in one[1].decisions
    )


def _way(outcome: Outcome | None) -> Way | None:
    return outcome.way if outcome is not None else None


_OF_LOOPS: Final = frozenset({Way.ITERATES, Way.ENDED})


def _sites(one: _Found) -> set[Site]:
    return {decision.site for decision in one[1].decisions}


def _to_finding(
    program: Program, pair: Pair, decision: decisions.Decision, levels: Sequence[Levels]
) -> Decision:
    """Return a decision in the form of findings, with the values of the ranks."""
    known = values_held(program, decision, pair.one.rank, levels)
    is_told = known.strength == "confirmed" or decision.strength is Strength.POSSIBLE
    strength = (known.strength if is_told else None) or decision.strength.value
    return Decision(
        site=f"{decision.site.path}:{decision.site.line}",
        text=decision.text,
        function=decision.function,
        sides=tuple(map(_side, pair.ranks, _both(decision), known.values)),
        depends_on=tuple(origin.value for origin in decision.origins),
        strength=strength,
        read_later=known.later or None,
        comes_from=_line_of(program, pair.ranks[0], decision.comes_from),
    )


def _both(decision: decisions.Decision) -> decisions.Outcomes:
    """Return both outcomes: if nothing else can have decided, one implies the other."""
    one, two = decision.outcomes
    if decision.strength is Strength.ONLY:
        return (
            one or (_OPPOSITE.get(two) if two else None),
            two or (_OPPOSITE.get(one) if one else None),
        )
    return one, two


_OPPOSITE: Final = {**OPPOSITE, ITERATES: ENDED, ENDED: ITERATES}


def _line_of(program: Program, rank: int, site: Site | None) -> SourceLine | None:
    file = program.files.file(rank, site.path) if site is not None else None
    if site is None or file is None:
        return None
    return SourceLine(site=f"{site.path}:{site.line}", text=file.whole_line(site.line))


def _side(rank: int, outcome: Outcome | None, values: Mapping[str, Any]) -> DecisionSide:
    return DecisionSide(
        rank=rank,
        did=outcome.way.value if outcome is not None else None,
        name=(outcome.name or None) if outcome is not None else None,
        line=(outcome.line or None) if outcome is not None else None,
        values=dict(values) or None,
    )
