"""Make the notes for the lines of an excerpt: what ranks did there, by stack."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from collectrace import roles, words
from collectrace.align.code.between import Finished, Raised
from collectrace.align.code.files import Frame
from collectrace.align.code.program import Stack
from collectrace.align.deciding import frames
from collectrace.align.deciding.endings import find_ending
from collectrace.align.judging import patience
from collectrace.align.judging.case import Case
from collectrace.align.ranks import detail
from collectrace.align.ranks.last_seen import last_seen
from collectrace.align.ranks.last_stall import thread_at_work
from collectrace.align.ranks.standing import Standing, Waiting, failure
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import StreamKey
from collectrace.dumps import own as own_frames
from collectrace.findings import (
    Decision,
    DecisionSide,
    DependsOn,
    Finding,
    Left,
    Side,
)
from collectrace.records import Call, Group
from collectrace.signature import is_user

What = Literal["decision", "call", "place"]

WHO: Final = "\0"
"""Placeholder for the ranks. Equal notes of one line are merged, and their ranks joined."""
S: Final = "\1"
"""Placeholder for the ending of a verb, which depends on the number of ranks."""
HELD: Final = "\2"
"""Placeholder for the longest time that one of them has been there."""

ITERATES: Final = f"next iteration on {WHO}"
"""The note for a loop that goes on."""

EVERY: Final = "every rank"

_UNTOLD: Final[Collection[DependsOn]] = ("unknown", "agreed")

_OPEN: Final[Mapping[DependsOn, str]] = {
    origin: "may have decided" if origin in _UNTOLD else f"depends on {told}"
    for origin, told in words.ORIGINS.items()
} | {"chosen": "differs by rank"}
"""Notes for a statement with an unknown outcome: what it depends on."""

_MOST_DECISIONS: Final = 3
_MOST_CITED: Final = 8
_SITE: Final = re.compile(r"(?<![^\s`'\"():,])([^\s`'\"():,]+):(\d{1,8})\b")
"""A source line as sentences name it: ``train.py:12``."""
_MOST_RANKS: Final = 256
"""Ranks that get a note about where they are now."""

_MOST_SPLITS: Final = 8
"""Ranks of a side whose split sizes are shown."""

_LEAST_SHOWN: Final = 1.0
"""Least time in a failed call that is shown, s."""

_LONGEST: Final = 60
"""Characters of an exception's text that are shown."""

_HERE: Final[Mapping[Left, str]] = {
    "stall": f"{WHO}: here{HELD}",
    "interrupt": f"{WHO}: here{HELD}, until Ctrl-C",
    "terminated": f"{WHO}: here{HELD}, until SIGTERM",
    "fatal": f"{WHO}: last seen here{HELD}",
}
"""Notes for the last known line of a busy rank."""

_COMMON: Final = ("data", "length", "received", "random")
"""Origins of most values."""

_NO_BRANCH: Final = frozenset({"next", "value", "no_handler", None})
"""Outcomes that do not select what runs next."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A source line, and what some ranks did there."""

    stack: Stack
    """The line and its callers, innermost first."""
    what: What
    note: str
    """The text, with the placeholders ``WHO``, ``S`` and ``HELD``."""
    ranks: tuple[int, ...]
    """The ranks that did it."""
    held: float = 0.0
    """Seconds; 0: not known."""
    is_past: bool = False
    """The ranks have been at this line again since: values that were read later are of another
    iteration."""

    @property
    def site(self) -> tuple[str, int]:
        """File and line."""
        return self.stack[0].path, self.stack[0].line


def marks(case: Case, finding: Finding) -> list[Mark]:
    """Return the decisions, then the calls of the sides, then where else their ranks are now."""
    sides = [*(finding.parted or ()), *finding.sides]
    called = [mark for side in sides for mark in _called(case, finding, side)]
    called += _skipped(finding)
    known = {mark.site for mark in called}
    open_ = _OPEN.values()
    decided = [m for m in _decided(case, finding) if m.note not in open_ or m.site not in known]
    came = {rank for mark in called for rank in mark.ranks}
    ranks = {rank for side in finding.sides for rank in side.ranks} | {*finding.suspects}
    now = [
        mark
        for rank in sorted(ranks & case.standings.keys())[:_MOST_RANKS]
        for mark in _current_places(case, case.standings[rank])
        # The note of a call already says what its ranks do there. If others ended a rank, what it
        # came to after that call is a consequence.
        if rank not in came or not (case.standings[rank].by_peers or mark.site in known)
    ]
    found = [*decided, *_merged([*called, *now])]
    return [*found, *_cited(finding, found)]


def _cited(finding: Finding, found: Sequence[Mark]) -> Iterator[Mark]:
    """Yield lines that headline and reasons name, in files that are shown.

    Readers look for them in the excerpt.
    """
    shown = {(frame.path, frame.line) for mark in found for frame in mark.stack}
    paths: dict[str, set[str]] = {}
    for path, _ in shown:
        paths.setdefault(words.site(path), set()).add(path)
    named = [(m[1], int(m[2])) for m in _SITE.finditer(f"{finding.headline}\n{finding.cause}")]
    for file, line in list(dict.fromkeys(named))[:_MOST_CITED]:
        # The short name is ambiguous if two files have it.
        [path] = paths[file] if len(paths.get(file, ())) == 1 else [""]
        if path and (path, line) not in shown:
            yield Mark(frames.parse_sites([f"{path}:{line}"]), "decision", "", found[0].ranks[:1])


def _merged(found: Iterable[Mark]) -> list[Mark]:
    alike: dict[tuple[object, ...], Mark] = {}
    for one in found:
        key = one.stack, one.what, one.note, one.is_past
        first = alike.setdefault(key, replace(one, ranks=()))
        held = max(first.held, one.held)
        alike[key] = replace(first, ranks=(*first.ranks, *one.ranks), held=held)
    return list(alike.values())


# -- decisions -------------------------------------------------------------------------------


def _decided(case: Case, finding: Finding) -> Iterator[Mark]:
    """Yield the outcomes of the deciding statements, as far as they are known."""
    telling = _shown_decisions(finding)
    for one in telling:
        path, line = chains.split(one.site)
        stack = (Frame(path, line, one.function),)
        found = sorted(_outcomes(case, finding, one), key=lambda told: told[0])
        origin: DependsOn = next(iter(one.depends_on), "unknown")
        ranks = tuple(side.rank for side in one.sides)
        # What a test of the rank did on two ranks is certain, whether or not it decided.
        by_rank = origin == "rank" and one.is_control and len({*ranks}) > 1
        is_sure = one.is_certain or len(telling) == 1 or by_rank
        # Which function may have been called says little.
        is_choice = {side.did for side in one.sides} <= {"calls", "calls_other", None}
        if is_sure and found:
            yield from (Mark(stack, "decision", note, those) for those, note in found)
        elif not (found and is_choice):
            is_named = words.names_site(finding.cause, one.site)
            is_plain = not found and (is_named or not one.is_control) and origin in _UNTOLD
            note = "" if one.is_certain or is_plain else _OPEN[origin]
            yield Mark(stack, "decision", note, ranks)
        if one.comes_from is not None and _is_told(finding, one, origin):
            is_here = chains.split(one.comes_from.site)[0] == path
            note = f"{f'line {line}' if is_here else words.site(one.site)} depends on this"
            yield Mark(frames.parse_sites([one.comes_from.site]), "decision", note, ranks)


def _is_told(finding: Finding, decision: Decision, origin: DependsOn) -> bool:
    """Whether the line on which a statement depends says why it may have decided.

    Most tensors are data of the rank: that tells something only of a statement that did decide.
    """
    if origin not in _COMMON or decision.comes_from is None:
        return origin not in _UNTOLD
    return decision.is_certain or words.names_site(finding.cause, decision.comes_from.site)


def _shown_decisions(finding: Finding) -> Sequence[Decision]:
    """Return the decisions to show: the certain ones, otherwise those that the reasons name.

    If there are neither: those with a known branch, then branches with unknown outcomes.
    """
    decisions = finding.decisions or ()
    sure = [one for one in decisions if one.is_certain]
    told = [one for one in decisions if words.names_site(finding.cause, one.site)]
    unequal = [one for one in decisions if one.strength != "equal"] or decisions
    known = [one for one in unequal if any(side.did not in _NO_BRANCH for side in one.sides)]
    open_ = [o for o in unequal if o.is_control and all(side.did is None for side in o.sides)]
    return (sure or told or [*known, *open_] or unequal[:1])[:_MOST_DECISIONS]


def _outcomes(
    case: Case, finding: Finding, decision: Decision
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield ranks and a note such as ``true on ranks 0,2`` for each side with a known outcome."""
    for n, side in enumerate(decision.sides):
        did = "" if side.did == "no_handler" and decision.cleans_up else _words(side)
        if did and n and side.rank == decision.sides[0].rank:
            if decision.sides[0].did is not None:
                yield (side.rank,), f"before: {did}"
        elif did and not (side.did == "raised" and _is_shown_as_raised(case, side, decision.site)):
            yield _peers(case, finding, side.rank), f"{did} on {WHO}"


def _is_shown_as_raised(case: Case, side: DecisionSide, site: str) -> bool:
    """Whether another note says that a rank ended with an exception at this line."""
    ending = case.standings[side.rank].exit
    return ending is not None and ending.error is not None and ending.site == site


def _words(side: DecisionSide) -> str:
    is_vague = side.did in ("case", "handler", "calls") and not (side.name or side.line)
    return "" if is_vague or side.did in ("next", "value", None) else words.outcome(side)


def _peers(case: Case, finding: Finding, rank: int) -> tuple[int, ...]:
    """Return the ranks of the same side with the same calls and waits as a rank."""

    def did(one: int, side: Side) -> object:
        if side.call is None and side.site is not None:
            return side.site
        if side.call is None:
            standing = case.standings[one]
            sites = (w.site for w in standing.waiting)
            return standing.state, detail.top_frame(detail.last_stacks(standing)), *sites
        stream = StreamKey(side.call.group, side.call.device)
        own = case.call(one, stream, side.call.seq) if side.call.peer is None else None
        return case.stack(one, own) if own is not None else None

    for side in (*(finding.parted or ()), *finding.sides):
        if rank in side.ranks:
            mine = did(rank, side)
            return tuple(one for one in side.ranks if one == rank or did(one, side) == mine)
    return (rank,)


# -- calls -----------------------------------------------------------------------------------


def _called(case: Case, finding: Finding, side: Side) -> Iterator[Mark]:
    """Yield what ranks called at the first difference, and whether they wait in it."""
    call = side.call
    if call is None:
        if side.site and side.state != "blocked":
            note = f"{WHO}: {_creation(case, finding, side)}"
            yield Mark(frames.parse_sites([side.site]), "call", note, side.ranks)
        return
    for rank in side.ranks:
        own = case.call(rank, StreamKey(call.group, call.device), call.seq)
        # Ranks may make the same call from different lines, such as the root of a collective.
        of_rank = case.stack(rank, own) if own is not None and call.peer is None else ()
        stack = _stack(of_rank or side.stack or (), call.site)
        if not stack:
            continue
        standing = case.standings[rank]
        waits = next((w for w in standing.waiting if _is_of(w, call)), None)
        held = seconds_in(standing, waits.since if waits is not None else None)
        does = f" waited{HELD}" if held >= _LEAST_SHOWN else ""
        if waits is not None and standing.state == "blocked":
            does = _wait_note(waits)
        made = call
        if own is not None and call.splits is not None:  # only these may differ within a side
            made = own if len(side.ranks) <= _MOST_SPLITS else replace(call, splits=None)
        last = standing.last_call
        is_past = own is not None and last is not None and last.t > own.t and last.site == own.site
        note = f"{WHO}{does}: {describe_call(case, made)}"
        yield Mark(stack, "call", note, (rank,), held, is_past=is_past)
        if own is not None and own.peer is None:
            yield from _stalled_before(case, rank, own)


def _stalled_before(case: Case, rank: int, call: Call) -> Iterator[Mark]:
    """Yield where a rank was before a call that it reached late, unless that is the call before."""
    log, stream = case.log(rank), StreamKey(call.group, call.device)
    stall = log.stall if log is not None else None
    last = case.call(rank, stream, call.seq - 1)
    if stall is None or last is None or not last.t < stall.t < call.t:
        return
    stack = frames.parse_stack(
        reversed(own_frames(stall.stacks.get(thread_at_work(stall.stacks), ())))
    )
    if stack and f"{stack[0].path}:{stack[0].line}" != last.site:
        yield Mark(stack, "place", f"{WHO} was here{HELD}", (rank,), (call.t - last.t) / 1e9)


def _skipped(finding: Finding) -> Iterator[Mark]:
    side = finding.skipped
    stack = _stack(side.stack or (), side.call.site) if side is not None and side.call else ()
    if side is not None and stack:
        yield Mark(stack, "call", f"{WHO} skipped this", side.ranks)


def _wait_note(waiting: Waiting) -> str:
    """Return `` waits here (41 s)``, and whether the device started the call, if known."""
    started = {None: "", True: ", started on the device", False: ", not started on the device"}
    return f" wait{S} here{HELD}{started[waiting.started]}"


def _creation(case: Case, finding: Finding, side: Side) -> str:
    """Return ``new_group([0, 1])`` for the group that ranks created at a line."""
    groups = (
        words.creation(group)
        for conflict in case.evidence.conflicts
        for ranks, group in conflict.variants
        if group is not None and group.site == side.site and {*side.ranks} & {*ranks}
    )
    info = finding.group
    is_default = info is not None and words.group(info) == words.DEFAULT_GROUP
    return next(groups, "init_process_group()" if is_default else "new_group()")


def describe_call(case: Case, call: Call) -> str:
    """Return ``call 7, all_reduce float32[1] SUM``, ``call 16, DDP backward(), float32[10]``."""
    told = words.whole(call)
    if roles.of(call.role).shadows:
        told = words.issuer(call)
    elif not is_user(call):
        told = ", ".join(filter(None, (words.name(call), words.tensors(call))))
    info = case.comparison.groups.get(call.group)
    group = words.group(info) if info is not None else words.named_group(call.group)
    of = "" if group == words.DEFAULT_GROUP else f" of {group}"
    return f"{'message' if call.peer is not None else 'call'} {call.seq}{of}, {told}"


def _is_of(waiting: Waiting, call: Call) -> bool:
    awaited = waiting.group, waiting.seq, waiting.channel is not None
    return awaited == (call.group, call.seq, call.peer is not None)


# -- where ranks are now ---------------------------------------------------------------------


def _current_places(case: Case, standing: Standing) -> Iterator[Mark]:
    """Yield where a rank is or ended, if that is a line of the program."""
    if standing.state == "blocked" or standing.by_peers:
        yield from _waits(case, standing)
    else:
        yield from _last_places(case, standing)


def _waits(case: Case, standing: Standing) -> Iterator[Mark]:
    """Yield the calls in which a rank waits, or waited when the others ended it."""
    for waiting in standing.waiting[:2]:
        call = _awaited(case, waiting)
        stack = _stack(case.stack(standing.rank, call) if call else (), waiting.site)
        told = waiting.op
        if isinstance(call, Call):
            told = describe_call(case, call)
        elif call is not None:
            told = words.creation(call)
        held = seconds_in(standing, waiting.since)
        does = f" waited{HELD}" if held >= _LEAST_SHOWN else ""
        does = _wait_note(waiting) if standing.state == "blocked" else does
        if stack:
            yield Mark(stack, "place", f"{WHO}{does}: {told}", (standing.rank,), held)


def _last_places(case: Case, standing: Standing) -> Iterator[Mark]:
    """Yield where a rank is that waits in no call, or where it ended."""
    rank, state = (standing.rank,), standing.state
    if detail.left_by_exit(standing) and standing.exit is not None:
        stack = frames.parse_sites([standing.exit.site or "", *standing.exit.through])
        if stack:
            yield Mark(stack, "place", f"{WHO} left here, by sys.exit()", rank)
    last = find_ending(standing) if state in ("raised", "busy", "died", "silent") else None
    call = standing.last_call
    if isinstance(last, Raised):
        error = failure(standing.exit) if standing.exit is not None else None
        told = words.brief(words.exception(error.error, error.text), _LONGEST) if error else ""
        if last.stack:
            yield Mark(last.stack, "place", f"{WHO} raised here: {told}", rank)
    elif last and not isinstance(last, Finished):
        seen = last_seen(standing.log)
        note = _HERE[seen.left if seen is not None else "stall"]
        if state != "busy":
            note = f"{WHO}: last seen here{HELD}"
        yield Mark(tuple(last), "place", note, rank, seconds_in(standing, standing.last_issued))
        if standing.host_wait is not None and standing.host_wait.thread:
            stack = frames.parse_stack(standing.host_wait.thread)
            yield Mark(stack, "place", f"{WHO}: its thread that holds the lock is here", rank)
    elif state in ("died", "silent") and call is not None:
        stack = _stack(case.stack(standing.rank, call), call.site)
        if stack:
            note = f"{WHO}: the last call before the log ends, {describe_call(case, call)}"
            yield Mark(stack, "place", note, rank)


def _awaited(case: Case, waiting: Waiting) -> Call | Group | None:
    if waiting.stream is not None and waiting.seq is not None:
        return case.call(waiting.rank, waiting.stream, waiting.seq)
    log = case.log(waiting.rank)
    last = log.last_call if log is not None else None
    return last if last is not None and _is_of(waiting, last) else case.asked(waiting)


def _stack(recorded: Sequence[str], site: str | None) -> Stack:
    """Return the frames of a record, or its single line if it has no stack."""
    return frames.parse_stack(recorded) or frames.parse_sites([site or ""])


def seconds_in(standing: Standing, since: int | None) -> float:
    """Return the seconds since ``since``; 0 if not known."""
    if patience.are_undated([standing.log]):
        return 0.0
    return max(0, standing.end - since) / 1e9 if since is not None else 0.0


def name_ranks(case: Case, ranks: Iterable[int]) -> str:
    """Return ``ranks 0,2``, ``every rank``."""
    chosen = set(ranks)
    is_all = len(chosen) == case.evidence.world_size > 1
    return EVERY if is_all else words.ranks(chosen)
