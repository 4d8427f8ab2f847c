"""Whether a rank may have gone past a message by what others had told it, and so rightly."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Final

from collectrace.align.judging import announced, choices
from collectrace.align.judging.case import Case, once_of
from collectrace.align.matching.programs import Program
from collectrace.align.reading import chains, statements
from collectrace.align.reading.bindings import assignments
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call
from collectrace.signature import is_user

BUFFER: Final = re.compile(
    r"\bi?recv(?:_object_list)?[(,] *(?:(?:tensor|object_list) *= *)?"
    r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*) *[,)\[]"
)
"""What is received into, the last of its names: also where it is handed on with the op."""
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_GRADIENT: Final = re.compile(r"[\w.]+\.grad\b")
"""Of what was received it tells nothing."""
_TURN: Final = re.compile(r"\bfor .* in\b")
"""What a loop gives a value, which decides nothing."""
_ATTRIBUTE: Final = re.compile(r"\.([A-Za-z_]\w*)\b(?! *\()")
"""One that is read, and not called."""
_TABLE: Final = re.compile(r"\b[A-Z][A-Z_\d]+(?:\.get\(|\[)|(?:\bin|[!=]=) [A-Z][A-Z_\d]+\b")
"""A look into what the module gives all ranks: a plan."""
_SAYS_NOTHING: Final = frozenset({"barrier", "all_reduce", "reduce"})
_OF_NOTHING: Final = frozenset({"dist", "torch", "distributed", "self", "rank"})
"""Names that stand in whatever line."""
_GATHERED: Final = re.compile(r"[\w.]+ *(\+|-|\*|/|\||&)=")
_OBJECTS: Final = ("send_object_list", "recv_object_list")
"""An example of a message may be of either end."""
_OF_AN_OBJECT: Final = 2
"""Messages: its size, and the object."""


def may_be_told(case: Case, program: Program, left_out: Call, made: Call, hub: int) -> bool:
    """Whether a rank may have gone past a message by what others had told it, or by a plan of all.

    Then whoever waits for it is the one that forgot that. By a collective in which it got something
    of the hub since it last made the message; or where a condition that leads past it reads what
    had come from anybody: by the names of what the rank receives into, and of the functions that do
    so. Or reads an attribute that a function set which received something, or a table of the
    module. What a rank has only gathered, whatever of, tells what came of its own work; so does a
    gradient.

    Args:
        case: the run.
        program: of the rank that left the message out.
        left_out: the message, as the rank had made it before.
        made: what it called instead.
        hub: whom the message was for.

    """
    if _was_told_all(case, program, left_out, made, hub):
        return True
    usual = case.stack(program.rank, left_out)
    site = left_out.site
    past = _past(case, program, left_out, made)
    if past is None:  # a line on the way may decide by itself
        sites = [chains.site(frame) for frame in usual]
        past = [line for one in sites for line in (*case.statements(one), *case.ways(one))]
    lines = [_GRADIENT.sub("", _TURN.sub("", line)) for line in past or case.ways(site)]
    if any(map(_TABLE.search, lines)):
        return True
    told, kept = _told_by_name(case, program, usual, hub)
    if kept & {name for line in lines for name in _ATTRIBUTE.findall(line)}:
        return True
    read = {name for line in lines for name in _NAME.findall(line)}
    for line in case.assigned(site):
        text = _GRADIENT.sub("", line.split(" ", 2)[-1])
        given = [(name.rpartition(".")[2], ast.unparse(value)) for name, value in assignments(text)]
        values = [value for name, value in given if name in read]
        if not given and not _GATHERED.match(text):
            values = [text]
        read |= {name for value in values for name in _NAME.findall(value)}
    return bool(told & read)


def may_be_asked_for(case: Case, program: Program, frames: Sequence[str], hub: int) -> bool:
    """Whether a rank may have made a message because of what others told it, or all agreed on.

    A condition around it, or around its callers, reads what came to the rank, or what it passed to
    a collective: there ``hub`` may have got to know of it.

    Args:
        case: the run.
        program: of the rank.
        frames: above the message.
        hub: whom the message was for.

    """
    lines = [line for _, (_, line) in case.branches(frames)]
    told, _ = _told_by_name(case, program, frames, hub)
    for one in announced.between(program.log):
        if not isinstance(one.key, ChannelKey) and is_user(one.call) and one.where:
            for line in case.statements(chains.site(one.where[0]))[-1:]:
                told |= {*_NAME.findall(statements.code_of(line))} - _OF_NOTHING
    return bool(told & {name for line in lines for name in _NAME.findall(line)})


def _past(case: Case, program: Program, left_out: Call, made: Call) -> list[str] | None:
    """What may have led a rank past a message to a call, as ``number text``; None: not known."""
    usual = case.stack(program.rank, left_out)
    past = choices.of_call(case, usual, case.stack(program.rank, made))
    if past is None:
        return None
    ahead = _made_before(program, made)
    gone_by = _gone_by(case, usual, case.stack(program.rank, ahead)) if ahead else set()
    return [line for line in past if line not in gone_by]


def _made_before(program: Program, made: Call) -> Call | None:
    """What a rank called before a call of its program."""
    places = (n for n in reversed(range(1, len(program.steps))) if program.call(n) == made)
    at = next(places, 0)
    return program.call(at - 1) if at else None


def _gone_by(case: Case, usual: Sequence[str], ahead: Sequence[str]) -> set[str]:
    """The ways past a call that lie behind it, and ahead of what was made before it was left out.

    In one run of a function: these were gone by in the turn before, and in this one the call itself
    would have come first.
    """
    outside = len(usual) - 1
    if len(ahead) <= outside or tuple(ahead[len(ahead) - outside :]) != tuple(usual[1:]):
        return set()
    frame = ahead[len(ahead) - outside - 1]
    if chains.scope(frame) != chains.scope(usual[0]):
        return set()
    if case.loops((frame,)) != case.loops(usual[:1]):
        return set()  # what is in a loop around it may be come to again
    first, last = chains.line(usual[0]), chains.line(frame)
    ways = case.ways(chains.site(usual[0]))
    return {way for way in ways if first < statements.number_of(way) <= last}


def _told_by_name(
    case: Case, program: Program, usual: Sequence[str], hub: int
) -> tuple[set[str], set[str]]:
    """The names of what a rank got of others and of the functions that got it; of what those set.

    Not of messages of those with whom ``hub`` has to do through this rank alone: it knew nothing of
    what they say. ``usual``: the frames above the message that was left out; their functions tell
    nothing.
    """
    names, kept = set[str](), set[str]()
    known = {chains.scope(one) for one in usual}
    for told in announced.between(program.log):
        is_message = isinstance(told.key, ChannelKey)
        if not announced.came_to(program.rank, told) or not (is_message or _is_of_each(told.call)):
            continue
        if isinstance(told.key, ChannelKey) and not share(case, told.key.source, hub, program.rank):
            continue
        for frame in (one for one in told.where if chains.scope(one) not in known):
            names.add(chains.scope(frame)[1].rpartition(".")[2])
            kept |= _set_in(case, frame)
        pattern = BUFFER if is_message else _NAME
        for line in case.statements(chains.site(told.where[0]))[-1:] if told.where else ():
            names |= {*pattern.findall(_GRADIENT.sub("", statements.code_of(line)))}
    return names - _OF_NOTHING, kept


def share(case: Case, source: int, hub: int, rank: int) -> bool:
    """Whether two ranks may know of something by messages other than those of a third.

    Or by a collective of both, unless it only waits or sums.
    """
    known, reached = {hub}, [hub]
    while reached:
        one = reached.pop()
        more = _neighbours(case, one) - known - {rank}
        known |= more
        reached += more
    return source in known


@once_of
def _neighbours(case: Case, rank: int) -> frozenset[int]:
    """The other ends of a rank's messages, and who shares collectives with it that may tell."""
    log = case.log(rank)
    if log is None:
        return frozenset(case.standings)
    found = {end for one in log.last_channel_seq for end in (one.source, one.destination)}
    for told in announced.between(log):
        tells = told.call.op not in _SAYS_NOTHING or announced.is_vector(told.call)
        if tells and not isinstance(told.key, ChannelKey):
            found |= {*case.comparison.groups[told.key.group].ranks}
    return frozenset(found)


def _is_of_each(call: Call) -> bool:
    """Whether a collective of the user's may tell ranks apart: sums that count nothing do not."""
    return is_user(call) and (call.op != "all_reduce" or announced.is_vector(call))


def _set_in(case: Case, frame: str) -> set[str]:
    """The names that the innermost function around a frame's line gives a value."""
    line = chains.line(frame)
    scopes = case.bindings(chains.site(frame)).scopes[1:]
    around = [one for one in scopes if one.span.holds(line)]
    return {*around[-1].times} if around else set()


def _was_told_all(case: Case, program: Program, left_out: Call, made: Call, hub: int) -> bool:
    """Whether a collective from the hub came between a message and what was called instead."""
    told = announced.telling(program.log, case.comparison.groups, left_out, made)
    return any(one.call.root == hub for one in told)


def may_have_told(log: RankLog, until: Call, waiter: int) -> bool:
    """Whether a rank may have told another, before some call, that a message is not to come.

    Not by an object of which each was of one size: one that says something else has another.
    """
    for told in announced.between(log, end=announced.offset_of(log, until)):
        key = told.key
        if not isinstance(key, ChannelKey) or (key.source, key.destination) != (log.rank, waiter):
            continue
        if announced.carries_numbers(told.call) and not _is_object_of_one_size(log, key, told):
            return True
    return False


def _is_object_of_one_size(log: RankLog, key: ChannelKey, told: announced.Told) -> bool:
    rows = log.channel_rows(key)
    known = rows.vocabulary.appearances
    pairs = zip(rows.appearance, rows.meaning, strict=True)
    kinds = {meaning for seen, meaning in pairs if known[seen].where == told.where}
    return told.call.api in _OBJECTS and len(kinds) <= _OF_AN_OBJECT
