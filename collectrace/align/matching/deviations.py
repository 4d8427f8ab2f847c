"""Find the ranks that left the program that most of the same kind continued, and how.

Ranks differ legally: stages of a pipeline, a rank with separate groups, a work queue, one replica
that evaluates. So a deviation is reported only if all of this holds:

- The ranks of a kind agreed for at least one iteration before.
- More than half of the kind (two or more) continued the pattern of that iteration.
- Every other rank differs by one small edit, after which it agrees again or is blocked.
- Some rank in a group of that edit did not make it.

Two cases need no iteration before. One is the same call from the same place on a group of another
dimension. In the other, most wait for a rank that waits for them in a call of its loop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from collectrace import dumps
from collectrace.align.matching import habit, programs
from collectrace.align.matching.dimensions import Dimension, Dimensions
from collectrace.align.matching.programs import END, Kind, Line, Program, Steps
from collectrace.align.reading.evidence import Key, RunEvidence, StreamKey
from collectrace.findings import GroupInfo
from collectrace.records import Call

CAN_OUTVOTE: Final = 3
"""Ranks of a kind of which two can outvote one."""

_MOST_STEPS: Final = 512
"""Calls that one edit may span."""

_BEYOND: Final = -2
"""Replaces the steps after the end of a rank that finished."""

What = Literal["missing", "extra", "swapped", "other group", "ended", "longer"]


@dataclass(frozen=True, slots=True)
class Deviation:
    """Ranks that left their program at one position, all in the same way."""

    what: What
    ranks: tuple[int, ...]
    """The ranks that left it."""
    others: tuple[int, ...]
    """The ranks that continued it: more than half of the kind."""
    calls: tuple[Call, ...]
    """The missing or extra calls; the two swapped; the one with another group and the expected one;
    the next not made, or made after the others' end."""
    rows: Mapping[int, Mapping[Key, int]]
    """Per deviating rank and stream concerned: the first call out of place."""


@dataclass(frozen=True, slots=True)
class _Edit:
    what: What
    count: int
    told: int = 0
    """The number of the rank's following steps that it explains, extra ones not included."""


def find(
    evidence: RunEvidence,
    groups: Mapping[str, GroupInfo],
    dimensions: Dimensions,
    finished: Collection[int],
) -> list[Deviation]:
    """Return the first deviations of a run, of each kind of ranks.

    Args:
        evidence: the run; kinds with logs that were read in part are skipped.
        groups: by their unique names.
        dimensions: of the run.
        finished: ranks that exited without an exception.

    """
    logs = evidence.logs.values()
    used = {key.group for log in logs for key in log.counts}
    kinds: dict[Kind, list[int]] = {}
    for rank in sorted({*evidence.missing, *evidence.logs}):
        kinds.setdefault(programs.kind(rank, dimensions, used), []).append(rank)
    found: list[Deviation] = []
    for (own, _), ranks in kinds.items():
        # If a kind has one group only, that stream shows everything.
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
    """Return the ranks of a kind by their position in the groups of a dimension.

    An example are ranks that read data for their tensor parallel groups: the others have another
    program. So each position must have taken its own step ``at`` the first difference. The smallest
    dimension with such positions counts, and only positions with enough ranks to outvote one.
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
    """Return the first deviations among ranks of one kind with ``total`` members."""
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
        found = _Apart(known, wrong, right, at, steps, groups).explained()
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
    """Return the first position at which ranks with equal earlier steps took different steps."""
    longest = max(all_steps, key=len)
    found = None
    for steps in all_steps:
        stop = len(steps) if found is None else min(len(steps), found)
        if steps[:stop] != longest[:stop]:
            found = next(n for n in range(stop) if steps[n] != longest[n])
    return found


@dataclass(frozen=True, slots=True)
class _Apart:
    """Ranks of one kind that took different steps at one position."""

    known: Mapping[int, Program]
    wrong: Sequence[int]
    """The ranks that left the program."""
    right: Sequence[int]
    """The ranks that continued it."""
    at: int
    """The position: an index of steps."""
    steps: Steps
    groups: Mapping[str, GroupInfo]

    @property
    def model(self) -> Program:
        """The longest program of a rank that continued."""
        return max((self.known[rank] for rank in self.right), key=lambda p: len(p.steps))

    def explained(self) -> list[Deviation] | None:
        """Return the deviation of each group of ranks with one edit; None if one is unclear."""
        model, at = self.model, self.at
        if model.steps[at] == END:
            going_on = [self.known[rank].steps for rank in self.wrong]
            rounds = {at - q if (q := habit.earlier(s, at)) is not None else 0 for s in going_on}
            period = max(rounds, default=0)
        else:
            place = habit.earlier(model.steps, at)
            period = 0 if place is None else at - place
        if not period:
            edit = self._other_group() or self._waits_for_extra_call()
            found = self._deviation(edit, self.wrong, 0) if edit is not None else None
            return None if found is None else [found]
        expected = _Expected(model.steps, period)
        edits: dict[tuple[_Edit, tuple[int, ...]], list[int]] = {}
        for rank in self.wrong:
            mine = self.known[rank].steps
            edit = _edit(mine, expected, at, self.steps)
            if edit is None:
                return None
            extra = tuple(mine[at : at + edit.count]) if edit.what == "extra" else ()
            edits.setdefault((replace(edit, told=0), extra), []).append(rank)
        found_all = [self._deviation(edit, ranks, period) for (edit, _), ranks in edits.items()]
        clear = [one for one in found_all if one is not None]
        return clear if len(clear) == len(found_all) else None

    def _other_group(self) -> _Edit | None:
        """Return the edit of ranks that are blocked in the call of most, but on another group.

        It is one call from one place, so no earlier iteration is needed to know what it should have
        been.
        """
        known, at, expected = self.known, self.at, self.model.steps[self.at]
        if not all(
            len(known[rank].steps) == at + 1
            and _is_other_group(known[rank].steps[at], expected, self.steps)
            for rank in self.wrong
        ):
            return None
        mine, other = self.steps.places[known[self.wrong[0]].steps[at]], self.steps.places[expected]
        members = {self._members(known[rank]) for rank in (*self.wrong, *self.right)}
        if mine[0][0].kinship == other[0][0].kinship and len(members) > 1:
            return None  # neighbours in a ring: the order of two such groups proves nothing
        return _Edit("other group", 1)

    def _waits_for_extra_call(self) -> _Edit | None:
        """Return the edit of ranks blocked in a call of their loop, unlike most.

        Most made a call outside any loop. Their call may also be outside any loop if its group has
        the same ranks. Everybody waits there, and nobody has continued: the call of most is the
        missing one.
        """
        known, at = self.known, self.at
        members = self._members(self.model)
        if not all(
            len(known[rank].steps) == at + 1
            and (
                habit.earlier(known[rank].steps, at) is not None
                or (self._is_new(rank) and self._members(known[rank]) == members)
            )
            for rank in self.wrong
        ):
            return None
        went = {known[rank].steps[at] for rank in self.wrong}
        if len(went) != 1 or any(len(known[rank].steps) != at + 1 for rank in self.right):
            return None
        return _Edit("missing", 1)

    def _members(self, program: Program) -> frozenset[int]:
        return frozenset(self.groups[program.keys[program.sources[self.at]].group].ranks)

    def _is_new(self, rank: int) -> bool:
        """Return whether no rank made a rank's call at this position before."""
        step, programs_ = self.known[rank].steps[self.at], self.known.values()
        return step >= 0 and not any(step in program.steps[: self.at] for program in programs_)

    def _deviation(self, edit: _Edit, ranks: Sequence[int], period: int) -> Deviation | None:
        """Return an edit with its calls; None if they are unknown, or come from several threads."""
        model, at = self.model, self.at
        first, span = self.known[ranks[0]], range(at, at + edit.count)
        of_mine = span if edit.what in _OWN else range(0)
        of_model = [_made(model, k, period) for k in span] if edit.what in _OTHERS else []
        calls = [first.call(k) for k in of_mine] + [model.call(k) for k in of_model]
        if None in calls or _has_threads(first, at) or _has_threads(model, at):
            return None
        lines = {first.line(k) for k in of_mine} | {model.line(k) for k in of_model}
        return Deviation(
            what=edit.what, ranks=tuple(ranks), others=tuple(self.right),
            calls=tuple(call for call in calls if call is not None),
            rows={
                rank: {
                    key: self.known[rank].next_row(key, at)
                    for line in lines
                    if (key := _own_key(self.known[rank], model, line)) is not None
                }
                for rank in ranks
            },
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Expected:
    """The steps of most ranks; after the call that blocks them, those of an iteration before."""

    steps: Sequence[int]
    period: int

    def __getitem__(self, at: int) -> int:
        while at >= len(self.steps):
            if self.steps[-1] == END:
                return _BEYOND
            at -= self.period
        return self.steps[at]


def _edit(mine: Sequence[int], expected: _Expected, at: int, steps: Steps) -> _Edit | None:
    """Return the smallest edit after which a rank's steps are the expected ones."""
    rest, period = len(mine) - at, expected.period
    if mine[at] == END:
        return _Edit("ended", 1)

    def agreeing(skipped: int, moved: int) -> int | None:
        """Return the number of agreeing steps after an edit: an iteration or more, or all."""
        for n in range(skipped, rest):
            if mine[at + n] != expected[at + moved + n - skipped]:
                return n - skipped if n - skipped >= period else None
        return rest - skipped

    if expected[at] == END:
        return _Edit("longer", 1)
    found: list[_Edit] = []
    if rest and _is_other_group(mine[at], expected[at], steps):
        found += _as_edits("other group", 1, agreeing(1, 1))
    for count in range(1, min(period, _MOST_STEPS)):
        if expected[at + count - 1] == END:
            break
        found += _as_edits("missing", count, agreeing(0, count))
    for count in range(1, min(rest, _MOST_STEPS) + 1):
        # At the end of a program, calls are extra only if nobody made one from there before.
        if count < rest or not {*mine[at:]} & {*expected.steps, *mine[:at]}:
            found += _as_edits("extra", count, agreeing(count, 0))
    if rest > 1 and (mine[at + 1], mine[at]) == (expected[at], expected[at + 1]):
        found += _as_edits("swapped", 2, agreeing(2, 2))
    return max(found, key=lambda edit: (edit.told, -edit.count), default=None)


def _as_edits(what: What, count: int, agreeing: int | None) -> list[_Edit]:
    """Return an edit after which so many steps agree, as a list; empty if they do not."""
    if agreeing is None:
        return []
    return [_Edit(what, count, agreeing + (count if what in _REARRANGED else 0))]


_REARRANGED: Final = frozenset({"swapped", "other group"})
"""Edits with a step for each step of the others."""


def _is_other_group(mine: int, expected: int, steps: Steps) -> bool:
    """Return whether two steps are one call from one place on groups of two dimensions."""
    if mine < 0 or expected < 0:
        return False
    (one, *a), (two, *b) = steps.places[mine], steps.places[expected]
    return a == b and one != two


def _own_key(program: Program, model: Program, line: Line) -> Key | None:
    """Return a rank's own stream or channel of a line, or else the model's."""
    key = program.lines.get(line) or model.lines.get(line)
    return key if key is not None and key.group in program.groups else None


_OWN: Final = frozenset({"extra", "longer", "swapped", "other group"})
"""Edits with calls of the ranks that left the program."""

_OTHERS: Final = frozenset({"missing", "ended", "other group"})
"""Edits with calls of the ranks that continued."""


def _made(model: Program, at: int, period: int) -> int:
    """Return a step, or the same step of an earlier iteration if it was not made."""
    while at >= len(model.rows):
        at -= period
    return at


def _has_threads(program: Program, at: int) -> bool:
    """Return whether several threads issued the calls around a step: their order means nothing.

    Exception: the call of a thread that the main thread waits for comes between two of those.
    """
    near = range(max(0, at - 1), min(len(program.rows), at + 2))
    threads = {call.thread for k in near if (call := program.call(k)) is not None}
    return len(threads) > (2 if None in threads and _joins(program) else 1)


def _joins(program: Program) -> bool:
    """Return whether the main thread of a blocked rank waits for another thread, by its stack."""
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
    """Return whether an edit leaves a rank waiting: a group member that did not make the edit.

    Calls in another order do no harm if they completed. ``alike``: the ranks that took the same
    step at the position. Some may be a few steps behind, so their edit looks different.
    """
    together = {*alike}
    keys = [(rank, key, row) for rank, rows in one.rows.items() for key, row in rows.items()]
    if all(isinstance(k, StreamKey) and {*groups[k.group].ranks} <= together for _, k, _ in keys):
        return False
    if one.what != "swapped":
        return True
    return any(
        # Both calls may be in one stream.
        program.is_held_up(key, row + 2 - len(one.rows[rank]))
        for rank, key, row in keys
        for program in known.values()
        if program.rank == rank or program.rank in groups[key.group].ranks
    )
