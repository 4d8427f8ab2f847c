"""Whether no other rank was under a condition that a call stands under.

Others may have gone through the condition and come by the call: what it calls is another method
there, or a statement between the two sent them away.
"""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.conditions import Condition
from collectrace.align.judging.by_rank import by_rank
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, code_lines, guards, statements
from collectrace.signature import is_user


def is_known(case: Case, candidate: Candidate, one: Condition) -> bool:
    """Whether it is known of the ranks of a side that they alone were under their condition."""
    if is_proven(case, candidate, one):
        return True
    if len(one.ranks) == 1 and guards.lets_one_rank(case.spelled_out(one.site, one.line)):
        return True
    return not candidate.absent and _is_right_above(case, one)


def is_proven(case: Case, candidate: Candidate, one: Condition) -> bool:
    """Whether they alone ever were, and the rank alone has let them through."""
    found = by_rank(case, candidate)
    if found is None or set(found.ranks) != set(one.ranks):
        return False
    return one.is_guard or found.line == (one.file, one.line)


def _is_right_above(case: Case, one: Condition) -> bool:
    """Whether who comes through the condition makes the call, whatever else may differ."""
    lines = case.statements(one.call.site)
    if one.site != one.call.site or not lines or not is_user(one.call):
        return False
    if statements.deciding(lines)[-1:] != [one.line] or statements.decides_itself(lines[-1:]):
        return False
    if not set(words.name(one.call).split()) & guards.names_called(lines[-1]):
        return False
    between = range(statements.number_of(one.line) + 1, chains.split(one.site)[1])
    if not between:
        return True
    ways = (statements.number_of(way) for way in case.ways(one.site))
    caught = code_lines.handlers(case.code, one.site)
    return not caught and not any(number in between for number in ways)
