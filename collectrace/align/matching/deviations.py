"""Which rank left the program that most ranks of its kind went on with, and how.

Ranks legally differ: stages of a pipeline, a rank with groups of its own, a queue of work, one
replica that evaluates. So this says something only where the ranks of a kind have agreed up to a
place for at least one round, more than half of the kind (two or more) went on in the way of that
round, every other rank differs by one small edit after which it agrees again or is held up, and
somebody in a group of that edit did not make it. A group of another dimension, given to the same
call from the same place, needs no round before it; nor does a call in which most wait for a rank
that waits for them in a call of its round. Anything else proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from collectrace import dumps
from collectrace.align.matching import habit, programs
from collectrace.align.matching.dimensions import Dimension, Dimensions
from collectrace.align.matching.programs import END, Key, Kind, Line, Program, Steps
from collectrace.align.reading.evidence import RunEvidence, StreamKey
from collectrace.findings import GroupInfo
from collectrace.records import Call

CAN_OUTVOTE: Final = 3
"""Ranks of which two can outvote one."""

_MOST_STEPS: Final = 512
"""Calls that one edit may be about."""

_BEYOND: Final = -2
"""Stands for the steps after the end of a rank that finished."""

What = Literal["missing", "extra", "swapped", "other group", "ended", "longer"]


@dataclass(frozen=True, slots=True)
class Deviation:
    """Ranks that left their program at one place, all in the same way."""

    what: What
    ranks: tuple[int, ...]
    """Who left it."""
    others: tuple[int, ...]
    """Who went on with it: more than half of the kind."""
    calls: tuple[Call, ...]
    """The calls that are missing or extra; the two swapped; the one with another group, and the
    one it stands for; the next that was not made, or that was made beyond the others' end."""
    rows: Mapping[int, Mapping[Key, int]]
    """Per rank that left it: the first row that is out of place, in each stream concerned."""
    then: Call | None = None
    """`missing`: what the rank came to instead, where it is held up in that, so that it may
    have meant to make the missing calls later."""
    is_turn: bool = False
    """`missing`: one place issues them and `then`, each on another group, one after the other."""


@dataclass(frozen=True, slots=True)
class _Edit:
    what: What
    count: int
    told: int = 0
    """Steps of the rank that it accounts for: all from it on but those that are extra."""
    is_turn: bool = False
    """`missing`: it is another turn of one place."""


def find(
    evidence: RunEvidence,
    groups: Mapping[str, GroupInfo],
    dimensions: Dimensions,
    finished: Collection[int],
) -> list[Deviation]:
    """The first deviations of a run, of each kind of ranks.

    Args:
        evidence: the run; nothing is said of it where logs of a kind have been read in part.
        groups: by their unique names.
        dimensions: of the run.
        finished: ranks that ended by themselves, without an exception.

    """
    logs = evidence.logs.values()
    used = {key.group for log in logs for key in programs.keys_of(log)}
    kinds: dict[Kind, list[int]] = {}
    for rank in sorted({*evidence.missing, *evidence.logs}):
        kinds.setdefault(programs.kind(rank, dimensions, used), []).append(rank)
    found: list[Deviation] = []
    for (own, _), ranks in kinds.items():
        # In one group alone its stream tells all there is to tell.
        if len(ranks) < CAN_OUTVOTE or len(own) < 2:
            continue
        steps, known = Steps(), dict[int, Program]()
        for rank in ranks:
            log = evidence.logs.get(rank)
            if log is not None and programs.is_whole(log):
                program = programs.read(log, groups, dimensions, steps, finished=rank in finished)
                if program is not None:
                    known[rank] = program
        at = _first_apart([program.steps for program in known.values()]) if known else None
        if at is None:
            continue
        of_kind = _of_kind(dict(known), len(ranks), groups, steps)
        if not of_kind and len(known) == len(ranks):
            for part in _by_place(known, at, dimensions, groups):
                of_part = {rank: known[rank] for rank in part}
                of_kind += _of_kind(of_part, len(part), groups, steps)
        found += of_kind
    return found


def _by_place(
    known: Mapping[int, Program],
    at: int,
    dimensions: Dimensions,
    groups: Mapping[str, GroupInfo],
) -> list[list[int]]:
    """Ranks of a kind that have one place each in the groups of a dimension, and may outvote one.

    As those that read for their tensor parallel groups: the others have a program of their own. So
    it is where each place has taken a step of its own at the first at which any differ, ``at``. By
    the first dimension, the smallest, in which there are such.
    """
    places: dict[Dimension, dict[int, list[int]]] = {}
    for rank in known:
        for name, dimension in dimensions.of_ranks.get(rank, {}).items():
            place = groups[name].ranks.index(rank) if rank in groups[name].ranks else -1
            places.setdefault(dimension, {}).setdefault(place, []).append(rank)
    for _, parts in sorted(places.items(), key=lambda one: one[0].kinship.size):
        took = [{tuple(known[rank].steps[at : at + 1]) for rank in one} for one in parts.values()]
        large = [one for place, one in parts.items() if place >= 0 and len(one) >= CAN_OUTVOTE]
        are_apart = len(set.union(*took)) == len(parts) > 1 and all(len(one) == 1 for one in took)
        if are_apart and large:
            return large
    return []


def _of_kind(
    known: dict[int, Program], total: int, groups: Mapping[str, GroupInfo], steps: Steps
) -> list[Deviation]:
    """The first deviations among ranks of one kind, of which there are ``total``."""
    while 2 * len(known) > total:
        at = _first_apart([program.steps for program in known.values()])
        if at is None:
            return []
        sides: dict[int, list[int]] = {}
        for rank, program in known.items():
            if at < len(program.steps):
                sides.setdefault(program.steps[at], []).append(rank)
        right = max(sides.values(), key=len)
        if len(right) < 2 or 2 * len(right) <= total:
            return []
        wrong = [rank for ranks in sides.values() if ranks is not right for rank in ranks]
        found = _explained(known, wrong, right, at, steps, groups)
        if found is None:
            return []
        proven = [
            one
            for one in found
            if _is_broken(one, sides[known[one.ranks[0]].steps[at]], known, groups)
        ]
        if proven:
            return proven
        # Whole groups did so together, and nobody waits for them: they are of another kind.
        for rank in wrong:
            del known[rank]
    return []


def _first_apart(all_steps: Sequence[Sequence[int]]) -> int | None:
    """The first position at which two ranks that came so far took different steps."""
    longest = max(all_steps, key=len)
    found = None
    for steps in all_steps:
        stop = len(steps) if found is None else min(len(steps), found)
        if steps[:stop] != longest[:stop]:
            found = next(n for n in range(stop) if steps[n] != longest[n])
    return found


def _explained(
    known: Mapping[int, Program],
    wrong: Sequence[int],
    right: Sequence[int],
    at: int,
    steps: Steps,
    groups: Mapping[str, GroupInfo],
) -> list[Deviation] | None:
    """What each of the ranks that differ did, those that did the same together; None: unclear."""
    model = max((known[rank] for rank in right), key=lambda p: len(p.steps))
    if model.steps[at] == END:
        going_on = [known[rank].steps for rank in wrong]
        rounds = {at - q if (q := habit.earlier(s, at)) is not None else 0 for s in going_on}
        period = max(rounds, default=0)
    else:
        place = habit.earlier(model.steps, at)
        period = 0 if place is None else at - place
    if not period:
        return _given_other_group(known, wrong, right, model, at, steps, groups) or _went_on(
            known, wrong, right, model, at, groups
        )
    expected = _Expected(model.steps, period)
    edits: dict[tuple[_Edit, tuple[int, ...]], list[int]] = {}
    for rank in wrong:
        program = known[rank]
        edit = _turn(program.steps, expected, at, steps) or _edit(
            program.steps, expected, at, steps
        )
        if edit is None:
            return None
        extra = tuple(program.steps[at : at + edit.count]) if edit.what == "extra" else ()
        edits.setdefault((replace(edit, told=0), extra), []).append(rank)
    found = []
    for (edit, _), ranks in edits.items():
        one = _deviation(known, edit, ranks, right, model, at, period)
        if one is None:
            return None
        found.append(one)
    return found


def _given_other_group(
    known: Mapping[int, Program],
    wrong: Sequence[int],
    right: Sequence[int],
    model: Program,
    at: int,
    steps: Steps,
    groups: Mapping[str, GroupInfo],
) -> list[Deviation] | None:
    """Ranks that are held up in the call that most made there too, on a group of their own.

    It is one call from one place: no round before is needed to tell what it should have been.
    """
    if not all(
        len(known[rank].steps) == at + 1
        and _is_other_group(known[rank].steps[at], model.steps[at], steps)
        for rank in wrong
    ):
        return None
    (line, *_), expected = (steps.places[known[wrong[0]].steps[at]], steps.places[model.steps[at]])
    members = {
        groups[known[rank].keys[known[rank].sources[at]].group].ranks for rank in (*wrong, *right)
    }
    if line[0].kinship == expected[0][0].kinship and len(members) > 1:
        return None  # neighbours in a ring: which of two such groups comes first proves nothing
    found = _deviation(known, _Edit("other group", 1), wrong, right, model, at, 0)
    return None if found is None else [found]


def _went_on(
    known: Mapping[int, Program],
    wrong: Sequence[int],
    right: Sequence[int],
    model: Program,
    at: int,
    groups: Mapping[str, GroupInfo],
) -> list[Deviation] | None:
    """Ranks that are held up in a call of their round, where most made one that is in no round.

    Or in one that is in none either, of a group of the same ranks. Everybody waits there, and
    nobody has gone further: that call of most is what is missing.
    """
    members = _members(model, at, groups)
    if not all(
        len(known[rank].steps) == at + 1
        and (
            habit.earlier(known[rank].steps, at) is not None
            or (_is_new(known, rank, at) and _members(known[rank], at, groups) == members)
        )
        for rank in wrong
    ):
        return None
    went = {known[rank].steps[at] for rank in wrong}
    if len(went) != 1 or any(len(known[rank].steps) != at + 1 for rank in right):
        return None
    found = _deviation(known, _Edit("missing", 1), wrong, right, model, at, 0)
    return None if found is None else [found]


def _members(program: Program, at: int, groups: Mapping[str, GroupInfo]) -> tuple[int, ...]:
    """The ranks of the group of a step."""
    return groups[program.keys[program.sources[at]].group].ranks


def _is_new(known: Mapping[int, Program], rank: int, at: int) -> bool:
    """Whether no rank has ever made a rank's call there before."""
    step = known[rank].steps[at]
    return step >= 0 and not any(step in program.steps[:at] for program in known.values())


@dataclass(frozen=True, slots=True)
class _Expected:
    """What most ranks did, and where they are held up what they did a round before."""

    steps: Sequence[int]
    period: int

    def __getitem__(self, at: int) -> int:
        while at >= len(self.steps):
            if self.steps[-1] == END:
                return _BEYOND
            at -= self.period
        return self.steps[at]


def _edit(mine: Sequence[int], expected: _Expected, at: int, steps: Steps) -> _Edit | None:
    """The smallest edit behind which a rank's steps are the expected ones."""
    rest, period = len(mine) - at, expected.period
    if mine[at] == END:
        return _Edit("ended", 1)

    def agreeing(skipped: int, moved: int) -> int | None:
        """Steps that agree behind an edit: a round or more, or all that there are."""
        for n in range(skipped, rest):
            if mine[at + n] != expected[at + moved + n - skipped]:
                return n - skipped if n - skipped >= period else None
        return rest - skipped

    if expected[at] == END:
        return _Edit("longer", 1)
    found: list[_Edit] = []
    if rest and _is_other_group(mine[at], expected[at], steps):
        found += _some("other group", 1, agreeing(1, 1))
    for count in range(1, min(period, _MOST_STEPS)):
        if expected[at + count - 1] == END:
            break
        found += _some("missing", count, agreeing(0, count))
    for count in range(1, min(rest, _MOST_STEPS) + 1):
        # Where nothing follows, only calls from where nobody ever made one are too many.
        if count < rest or not {*mine[at:]} & {*expected.steps, *mine[:at]}:
            found += _some("extra", count, agreeing(count, 0))
    if rest > 1 and (mine[at + 1], mine[at]) == (expected[at], expected[at + 1]):
        found += _some("swapped", 2, agreeing(2, 2))
    return max(found, key=lambda edit: (edit.told, -edit.count), default=None)


def _turn(mine: Sequence[int], expected: _Expected, at: int, steps: Steps) -> _Edit | None:
    """Calls that one place makes on several groups in turn, where a rank waits at a later turn.

    Each round before has that call on the very group, behind those on the others: so the group is
    right, and its turn is another. None where it is not so.
    """
    if len(mine) != at + 1 or mine[at] not in mine[max(0, at - expected.period) : at]:
        return None
    for ahead in range(min(expected.period, _MOST_STEPS)):
        if ahead and expected[at + ahead] == mine[at]:
            return _Edit("missing", ahead, 1, is_turn=True)
        if not _is_other_group(mine[at], expected[at + ahead], steps):
            return None
    return None


def _some(what: What, count: int, agreeing: int | None) -> list[_Edit]:
    """An edit behind which so many steps agree; none where they do not."""
    if agreeing is None:
        return []
    return [_Edit(what, count, agreeing + (count if what in _REARRANGED else 0))]


_REARRANGED: Final = frozenset({"swapped", "other group"})
"""Edits of which each step stands for one of the others'."""


def _is_other_group(mine: int, expected: int, steps: Steps) -> bool:
    """Whether two steps are one call, made from one place on groups of two dimensions."""
    if mine < 0 or expected < 0:
        return False
    (one, *a), (two, *b) = steps.places[mine], steps.places[expected]
    return a == b and one != two


def _deviation(
    known: Mapping[int, Program],
    edit: _Edit,
    ranks: Sequence[int],
    right: Sequence[int],
    model: Program,
    at: int,
    period: int,
) -> Deviation | None:
    """An edit with its calls; None where they are not known, or come from several threads."""
    first, n = known[ranks[0]], edit.count
    of_mine = range(at, at + n) if edit.what in _OWN else range(0)
    of_model = [_made(model, k, period) for k in range(at, at + n)] if edit.what in _OTHERS else []
    calls = [first.call(k) for k in of_mine] + [model.call(k) for k in of_model]
    if None in calls or _takes_turns(first, at) or _takes_turns(model, at):
        return None
    lines = {first.line(k) for k in of_mine} | {model.line(k) for k in of_model}
    is_held = edit.what == "missing" and len(first.steps) == at + 1
    return Deviation(
        what=edit.what, ranks=tuple(ranks), others=tuple(right),
        calls=tuple(call for call in calls if call is not None),
        rows={
            rank: {
                key: known[rank].next_row(key, at)
                for line in lines
                if (key := _own_key(known[rank], model, line)) is not None
            }
            for rank in ranks
        },
        then=first.call(at) if is_held else None,
        is_turn=edit.is_turn,
    )  # fmt: skip


def _own_key(program: Program, model: Program, line: Line) -> Key | None:
    """A rank's own stream or channel of a line; one that it has not used may be the model's."""
    key = program.lines.get(line) or model.lines.get(line)
    return key if key is not None and key.group in program.groups else None


_OWN: Final = frozenset({"extra", "longer", "swapped", "other group"})
"""Edits that are about calls of the ranks that left the program."""

_OTHERS: Final = frozenset({"missing", "ended", "other group"})
"""Edits that are about calls of those that went on."""


def _made(model: Program, at: int, period: int) -> int:
    """A step, or of one that was not made any more the same step of an earlier round."""
    while at >= len(model.rows):
        at -= period
    return at


def _takes_turns(program: Program, at: int) -> bool:
    """Whether several threads issued the calls around a step: they have no order to leave.

    A thread for which the main one waits takes its turn: its call stands between two of those.
    """
    near = range(max(0, at - 1), min(len(program.rows), at + 2))
    threads = {call.thread for k in near if (call := program.call(k)) is not None}
    return len(threads) > (2 if None in threads and _joins(program) else 1)


def _joins(program: Program) -> bool:
    """Whether the main thread waits for another one when the rank is held up, by its stack."""
    stall, last = program.log.stall, program.log.last_call
    if stall is None or last is None or last.t > stall.t:
        return False
    return dumps.is_joining(dumps.of_main(stall.stacks))


def _is_broken(
    one: Deviation,
    alike: Collection[int],
    known: Mapping[int, Program],
    groups: Mapping[str, GroupInfo],
) -> bool:
    """Whether an edit leaves somebody waiting: a member of a group of it that did not make it.

    Calls in another order harm nobody who got past them. ``alike``: the ranks that took the same
    step at the place; some may be a few steps behind, and look as if they had made another edit.
    """
    together = {*alike}
    keys = [(rank, key, row) for rank, rows in one.rows.items() for key, row in rows.items()]
    if all(isinstance(k, StreamKey) and {*groups[k.group].ranks} <= together for _, k, _ in keys):
        return False
    if one.what != "swapped":
        return True
    return any(
        # Both calls may be of one stream.
        program.is_held_up(key, row + 2 - len(one.rows[rank]))
        for rank, key, row in keys
        for program in known.values()
        if program.rank == rank or program.rank in groups[key.group].ranks
    )
