"""Groups of one dimension: what they show about each other, and errors that they repeat."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching import habit
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import StreamKey
from collectrace.findings import GroupInfo, Side
from collectrace.records import Call
from collectrace.signature import program_text


def groups_of_dimension(case: Case, info: GroupInfo) -> list[GroupInfo]:
    """Return the groups of the same dimension and stage as a group, including it."""
    groups, known = case.comparison.groups, case.dimensions
    if info.name not in known.kinships:
        return [info]
    sisters = (groups[name] for name in known.sisters(info.name, groups))
    return [other for other in sisters if known.same_stages(other.ranks, info.ranks)]


def side_of_sisters(case: Case, candidate: Candidate, called: Sequence[Side]) -> Side | None:
    """Return the side that did what sister groups did at the same call, or None.

    Pipeline stages are no sisters. A rank that kept to its own iteration followed its program,
    whatever others did.
    """
    stream, seq = candidate.stream, candidate.seq
    own = candidate.group
    said = {_text(info, call) for info, call in _sister_calls(case, candidate)}
    right = [side for side in called if side.call and own and _text(own, side.call) in said]
    if len(right) != 1 or len(said) != 1 or stream is None or seq is None:
        return None
    wrong = [side for side in called if side is not right[0]]
    if any(_goes_on(case, rank, stream, seq) for side in wrong for rank in side.ranks):
        return None
    return right[0]


def sisters_agree(case: Case, candidate: Candidate, call: Call) -> bool:
    """Whether ranks of sister groups made the same call at a candidate."""
    text = program_text(call)
    return any(program_text(one) == text for _, one in _sister_calls(case, candidate))


def _sister_calls(case: Case, candidate: Candidate) -> list[tuple[GroupInfo, Call]]:
    stream, seq = candidate.stream, candidate.seq
    if candidate.group is None or stream is None or seq is None:
        return []
    return [
        (info, call)
        for info in groups_of_dimension(case, candidate.group)
        if (sister := stream._replace(group=info.name)) in case.comparison.streams
        and info.name != candidate.group.name
        for rank in info.ranks
        if (call := case.call(rank, sister, seq)) is not None and not call.void
    ]


def _text(info: GroupInfo, call: Call) -> str:
    """Return ``program_text`` with the root as its position in the group, which sisters share.

    A root other than the usual one has another position, too.
    """
    if call.root not in info.ranks:
        return program_text(call)
    return program_text(replace(call, root=info.ranks.index(call.root)))


def _goes_on(case: Case, rank: int, stream: StreamKey, seq: int) -> bool:
    """Whether a rank's call is the one that its own iterations lead to."""
    log = case.log(rank)
    if log is None or not log.scanned:
        return False
    rows, shift = log.rows(stream)
    at = rows.find(seq - shift)
    if at is None:
        return False
    steps = list(zip(rows.meaning[: at + 1], rows.appearance[: at + 1], strict=True))
    ids = {step: n for n, step in enumerate(dict.fromkeys(steps))}
    numbers = [ids[step] for step in steps]
    place = habit.expected(numbers, at)
    return place is not None and numbers[place] == numbers[at]


# -- one error in many groups ----------------------------------------------------------------


def repeats(case: Case, one: Candidate, other: Candidate) -> bool:
    """Whether two candidates are the same error in two groups of one dimension.

    Also true for messages of other ranks of one group, if they are from the same lines and differ
    in the same way; and for two cycles of other ranks in the same lines.
    """
    if one is other or one.group is None or other.group is None:
        return False
    if one.kind != other.kind:
        return _raised_behind_it(case, one, other)
    issues = one.source, other.source
    if isinstance(issues[0], ChannelIssue) and isinstance(issues[1], ChannelIssue):
        pattern = _message(case, issues[0])
        return pattern is not None and pattern == _message(case, issues[1])
    if one.cycle and other.cycle and not {*one.ranks} & {*other.ranks}:
        return _pattern(case, one) == _pattern(case, other)
    if set(one.group.ranks) & set(other.group.ranks) or one.mark != other.mark:
        return False
    is_kin = any(info.name == other.group.name for info in groups_of_dimension(case, one.group))
    return is_kin and _pattern(case, one) == _pattern(case, other)


def _raised_behind_it(case: Case, one: Candidate, other: Candidate) -> bool:
    """Whether ranks of a sister group skipped a call too, and raised before their next one."""
    own, sister = one.group, other.group
    if not isinstance(one.source, Divergence) or not isinstance(other.source, Divergence):
        return False
    if own is None or sister is None or one.seq != other.seq or not other.absent:
        return False
    places = ([own.ranks.index(rank) for rank in one.suspects if rank in own.ranks],
              [sister.ranks.index(rank) for rank in other.absent])  # fmt: skip
    if places[0] != places[1] or sister.name not in (
        info.name for info in groups_of_dimension(case, own)
    ):
        return False
    right = {_of_call(call) for rank, call in one.source.calls.items() if rank not in one.suspects}
    made = [(rank, call) for rank, call in other.source.calls.items() if call is not None]
    return {_of_call(call) for _, call in made} == right and all(
        _is_behind(case, rank, case.stack(*made[0])) for rank in other.absent
    )


def _is_behind(case: Case, rank: int, frames: Sequence[str]) -> bool:
    """Whether a rank raised at a line behind the one that led others to a call."""
    leaving = case.standings[rank].exit
    if leaving is None or leaving.site is None:
        return False
    raised, called = [leaving.site, *leaving.through], [chains.site(frame) for frame in frames]
    shared = next((n for n, site in enumerate(raised) if n and site in called[1:]), None)
    if shared is None:
        return False
    line, due = raised[shared - 1], called[called.index(raised[shared], 1) - 1]
    (path, number), (file, before) = chains.split(line), chains.split(due)
    return path == file and number > before


def _pattern(case: Case, candidate: Candidate) -> Hashable:
    """Return what is equal if sister groups repeat an error: calls, lines, and sides.

    Ranks are represented by their position in the group.
    """
    if candidate.group is None:
        return None
    if candidate.cycle:
        return frozenset(_edge(case, edge) for edge in candidate.cycle)
    order = {rank: n for n, rank in enumerate(candidate.group.ranks)}
    return frozenset(
        (tuple(sorted(order.get(r, -1) for r in side.ranks)), side.state, *_of_call(side.call))
        for side in candidate.sides
    )


def _message(case: Case, issue: ChannelIssue) -> Hashable:
    """Return what is equal in two messages with the same error, without their ranks.

    The error is a dtype or count that differs, a send that a finished rank lacks, or a near miss by
    group, device, tag or numbering. None for other errors.
    """
    near, channel = issue.near, issue.channel
    if issue.attribute in ("dtype", "count"):
        ends = (issue.send, issue.recv)
        shapes = tuple(str(call.shape) for call in ends if call is not None)
        return issue.attribute, issue.seq, shapes, *map(_of_call, ends)
    sender = case.standings.get(channel.source)
    if near is None and issue.send is None and sender is not None and sender.state == "finished":
        return channel._replace(destination=-1), issue.attribute, issue.seq, _of_call(issue.recv)
    if near is None or near.differs not in ("group", "device", "tag", "numbering"):
        return None
    sent = near.channel
    return (
        (
            near.differs,
            _kin(case, channel.group),
            channel.device,
            channel.tag,
            _of_call(issue.recv),
        ),
        issue.seq - 1 + issue.taken > 0,
        (_kin(case, sent.group), sent.device, sent.tag, _of_call(near.send)),
        near.numbered,
    )


def _kin(case: Case, name: str) -> Hashable:
    return case.dimensions.kinships.get(name, name)


def _edge(case: Case, edge: Edge) -> Hashable:
    w = edge.waiting
    return w.op, w.site, case.dimensions.kinships.get(w.group)


def _of_call(call: Call | None) -> tuple[str, ...]:
    # A root is a global rank, which differs between groups.
    return (call.op, str(call.dtype), call.role, call.site or "") if call is not None else ()
