"""Finds who is to blame for a message that lacks its other end, or does not fit it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from collectrace import ops
from collectrace.align.code.origins import Origin
from collectrace.align.judging import announced, led
from collectrace.align.judging.absence import culprits
from collectrace.align.judging.by_number import named_by_number
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.evidence import Evidence
from collectrace.align.judging.led import At
from collectrace.align.judging.own_calls import calls_of
from collectrace.align.judging.own_round import kept_round, program_of
from collectrace.align.judging.partners import out_of_pair
from collectrace.align.judging.undelivered import senders
from collectrace.align.matching import habit
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.ranks import waitgraph
from collectrace.align.reading.evidence import ChannelKey
from collectrace.align.reading.vocabulary import CallPlace
from collectrace.records import Call
from collectrace.signature import channel_text, is_user


class Sent(NamedTuple):
    """A rank's end of a message."""

    key: ChannelKey
    seq: int
    place: CallPlace
    text: str
    """What both ends must agree in."""


def _issue(candidate: Candidate, *attributes: str) -> ChannelIssue | None:
    """Return a message in which one of some attributes is wrong."""
    source = candidate.source
    return source if isinstance(source, ChannelIssue) and source.attribute in attributes else None


def ends_of(case: Case, rank: int) -> list[Sent]:
    """Return a rank's ends of messages, in their order; empty if some calls are not known."""
    log = case.log(rank)
    found = []
    for one in calls_of(case, rank):
        if isinstance(one.key, ChannelKey) and log is not None:
            rows = log.channel_rows(one.key)
            at = rows.find(one.seq)
            text = (
                channel_text(rows.vocabulary.examples[rows.meaning[at]]) if at is not None else ""
            )
            found.append(Sent(one.key, one.seq, one.place, text))
    return found


# -- messages that have no other end ---------------------------------------------------------------


def held_up(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find for whom those wait in the end that did not make a message."""
    if _issue(candidate, "absent") is not None:
        yield Evidence("holds_up_others", culprits(case, candidate))


def named_by_group_rank(_: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find two ranks that named each other by their numbers in a group."""
    issue = _issue(candidate, "absent")
    ranks = named_by_number(issue) if issue is not None else ()
    if ranks:
        yield Evidence("named_by_group_rank", ranks)


def unpaired(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the one rank that need have named another partner for all to be mutual."""
    ranks = out_of_pair(case, candidate)
    if ranks:
        yield Evidence("unpaired", ranks)


def left_without_waiting(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find who left before what it had begun to send was there."""
    issue = _issue(candidate, "undelivered")
    if issue is not None:
        yield Evidence("left_without_waiting", tuple(sorted(b.rank for b in senders(case, issue))))


def ended_in_round(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the one rank that ended where its round had always led to a message that is awaited.

    It raised or died, and all others that have ever sent there wait for the receiver. Or it
    finished, by what a collective gave it alone, and all others wait for messages of it.
    """
    issue = _issue(candidate, "absent")
    if issue is None or issue.send is not None:
        return
    ways = (
        case.sent_to_any(issue.channel)
        if issue.is_from_any
        else {issue.channel.source: issue.channel}
    )
    ended = [rank for rank in ways if case.standings[rank].state in ("died", "raised", "finished")]
    ended = [rank for rank in ended if not case.standings[rank].by_peers]
    if len(ended) != 1:
        return
    (rank,) = ended
    others = (*ways, *(issue.group.ranks if not issue.is_from_any else ()))
    goal = issue.channel.destination if issue.is_from_any else rank
    is_awaited = all(
        goal in waitgraph.reachable(case.graph, one) for one in others if one not in (rank, goal)
    )
    due = _due(case, rank)
    if due is None or not is_awaited or due.kind != issue.channel._replace(source=rank)[:2]:
        return
    if case.standings[rank].state != "finished" or _left_by_root(case, rank, due, issue):
        yield Evidence("ended_in_round", (rank,))


class _Due(NamedTuple):
    key: ChannelKey
    usual: Call
    last: Call
    rounds: int

    @property
    def kind(self) -> tuple[str, str]:
        return self.key.group, self.key.device


def _due(case: Case, rank: int) -> _Due | None:
    """Return the message that a rank's round leads to next; None: it is none, or not known."""
    program = program_of(case, rank)
    steps = program.steps if program is not None else ()
    place = habit.expected(steps, len(steps))
    if program is None or place is None:
        return None
    key, usual, last = (
        program.keys[program.sources[place]],
        program.call(place),
        program.call(len(steps) - 1),
    )
    if not isinstance(key, ChannelKey) or key.source != rank or usual is None or last is None:
        return None
    rounds = habit.agreeing(steps, place, len(steps)) // (len(steps) - place) + 1
    return _Due(key, usual, last, rounds)


def _left_by_root(case: Case, rank: int, due: _Due, issue: ChannelIssue) -> bool:
    """Whether a rank finished by what it alone got in its last call, to which all others came."""
    if due.last.op not in ops.TO_ROOT or due.last.root != rank or due.rounds < habit.ENOUGH:
        return False
    others = [one for one in issue.group.ranks if one != rank]
    answer = led.led(
        case, (rank, rank), At(due.last.op, case.stack(rank, due.last)), None,
        At(due.usual.op, case.stack(rank, due.usual)),
    )  # fmt: skip
    is_by_root = any(Origin.ROOT in one.origins for one in answer.decisions)
    return (
        len(others) + 1 >= CAN_OUTVOTE and is_by_root and all(kept_round(case, r) for r in others)
    )


# -- messages that do not fit ------------------------------------------------------------------------


def took_from_any(_: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find who took from any rank what it meant to take of the one before."""
    issue = _issue(candidate, "dtype", "count")
    if issue is not None and issue.before is not None and issue.before.next is not None:
        yield Evidence("took_from_any", (issue.channel.destination,))


def odd_message(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find whose message alone is another than the other end and those of its like agree in.

    Those of the same number, from the same lines. In all before they were the same.
    """
    issue = _issue(candidate, "dtype", "count", "absent")
    if issue is None or issue.recv is None or issue.channel.source < 0 or issue.taken:
        return
    near = issue.near
    send = issue.send or (near.send if near is not None and near.differs == "tag" else None)
    if send is None or not (is_user(send) and is_user(issue.recv)):
        return
    sent = near.channel if issue.send is None and near is not None else issue.channel
    both = (sent.source, sent, send.seq), (issue.channel.destination, issue.channel, issue.recv.seq)
    for (rank, key, seq), (peer, other, theirs) in (both, both[::-1]):
        mine = next((one for one in ends_of(case, rank) if one[:2] == (key, seq)), None)
        usual = next((one for one in ends_of(case, peer) if one[:2] == (other, theirs)), None)
        if mine is not None and usual is not None and _is_alone(case, rank, peer, mine, usual):
            is_told = any(_may_be_told(case, one) for one in (rank, peer))
            if not (_is_announced(case, rank, peer, mine) if issue.send is not None else is_told):
                yield Evidence("odd_message", (rank,), shown_by=usual)


def _is_alone(case: Case, rank: int, peer: int, mine: Sent, usual: Sent) -> bool:
    """Whether the like of a rank made as many messages as it, the last as the other end has it."""
    done = [one for one in ends_of(case, rank) if one.place == mine.place]
    if any(len(ways) > 1 for ways in _ways(case, mine.place)):
        return False  # they go to several ranks, each of which may have a size of its own
    n = done.index(mine)
    before = [(one.key.tag, one.text) for one in done[:n]]
    now = usual.key.tag, usual.text
    rows = [
        [(one.key.tag, one.text) for one in ends_of(case, like) if one.place == mine.place]
        for like in case.evidence.logs
        if like not in (rank, peer)
    ]
    rows = [row[: n + 1] for row in rows if row]
    is_even = all(row == [*before, now][: len(row)] for row in rows)
    likes = sum(len(row) > n for row in rows)
    enough = 1 if mine.key.tag != usual.key.tag else CAN_OUTVOTE - 1
    return n >= habit.ENOUGH and is_even and likes >= enough


def _may_be_told(case: Case, rank: int) -> bool:
    """Whether a rank ever got what may tell of an order, as far as is seen; or by a store."""
    return announced.was_told(case, rank) or announced.may_be_by_store(case)


def _are_users(issue: ChannelIssue) -> bool:
    """Whether the user's own code made both ends of a message."""
    return all(call is None or is_user(call) for call in (issue.send, issue.recv))


def _ways(case: Case, place: CallPlace) -> Iterator[set[ChannelKey]]:
    """Return for each rank by which channels messages go from a place, whatever their tags."""
    for rank in case.evidence.logs:
        yield {one.key._replace(tag=0) for one in ends_of(case, rank) if one.place == place}


def _is_announced(case: Case, rank: int, peer: int, mine: Sent) -> bool:
    """Whether a rank has told of its message since the one before it, or was told of it."""
    log = case.log(rank)
    if log is None:
        return True
    made = [one for one in ends_of(case, rank) if one.place == mine.place]
    before, at = made[made.index(mine) - 1], made.index(mine)
    rows = [log.channel_rows(one.key) for one in (before, mine)]
    begin, end = (
        row.offset[row.position(one.seq)] for row, one in zip(rows, (before, mine), strict=True)
    )
    return at == 0 or any(
        _tells(case, rank, peer, told) for told in announced.between(log, begin, end)
    )


def _tells(case: Case, rank: int, peer: int, told: announced.Told) -> bool:
    key = told.key
    if announced.carries_numbers(told.call):
        return True
    if isinstance(key, ChannelKey) and key.destination != rank:
        return key.destination == peer
    if isinstance(key, ChannelKey) and key.source != peer:
        return False
    ranks = case.comparison.groups[key.group].ranks
    return announced.came_to(rank, told) and announced.may_tell(told, ranks)


def end_of_every_misfit(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the rank at an end of every message that does not fit, if the others' fit each other.

    Its peers exchanged with others what they meant to exchange with it: in the same message of
    the row, from the same lines. Of dtypes that is enough, unless it is the first of its group,
    which often has another part. A size may be its own: there it must have had the usual one in
    each message before, or exchange the same ones in another order.
    """
    issue = _issue(candidate, "dtype", "count")
    if issue is None:
        return
    alike = [
        one for one in case.comparison.channels
        if (one.group.name, one.attribute) == (issue.group.name, issue.attribute)
    ]  # fmt: skip
    common = set.intersection(*({one.channel.source, one.channel.destination} for one in alike))
    if len(common) != 1 or any(one.is_from_any or one.taken for one in alike):
        return
    if not all(map(_are_users, alike)):
        return
    (rank,) = common
    peers = {one.channel.source + one.channel.destination - rank for one in alike}
    if len(peers) + 1 < CAN_OUTVOTE or any(_may_be_told(case, one) for one in {rank, *peers}):
        return
    ends = [_both(case, one, rank) for one in alike]
    fitting = [_fitting(case, mine, theirs, rank) for mine, theirs in ends if mine and theirs]
    others = {rank_of(end, mine, rank) for (mine, _), es in zip(ends, fitting, strict=False) if mine for end in es}
    if len(fitting) < len(alike) or not others or len(peers | others) < CAN_OUTVOTE:
        return
    if issue.attribute == "dtype":
        dtypes = [
            {end.text.partition("|")[0] for end in side if end} for side in zip(*ends, strict=True)
        ]
        is_odd = all(len(one) == 1 for one in dtypes) and rank != issue.group.ranks[0]
    else:
        is_odd = all(
            mine
            and theirs
            and (_has_changed(case, rank, mine, theirs) or _is_permuted(case, rank, mine, others))
            for (mine, theirs), others in zip(ends, fitting, strict=True)
        )
    if is_odd:
        yield Evidence("end_of_every_misfit", (rank,))


def _both(case: Case, issue: ChannelIssue, rank: int) -> tuple[Sent | None, Sent | None]:
    """Return a rank's end of a message, and the other one."""
    key = issue.channel
    peer = key.source + key.destination - rank
    found = (
        next((end for end in ends_of(case, one) if end[:2] == (key, issue.seq)), None)
        for one in (rank, peer)
    )
    mine, theirs = found
    return mine, theirs


def _fitting(case: Case, mine: Sent, theirs: Sent, rank: int) -> list[Sent]:
    """Return ends of messages of others that fit what a peer meant to exchange with a rank."""
    key, found = mine.key, []
    for other in case.evidence.logs:
        if other in (key.source, key.destination):
            continue
        way = key._replace(source=other) if key.source == rank else key._replace(destination=other)
        peer = key.source + key.destination - rank
        ends = [
            next((e for e in ends_of(case, one) if e[:2] == (way, mine.seq)), None)
            for one in (peer, other)
        ]
        if None not in ends and ends[0] is not None and ends[1] is not None:
            same = (
                ends[0].text == ends[1].text
                or ends[0].text.partition("|")[0]
                == theirs.text.partition("|")[0]
                != mine.text.partition("|")[0]
            )
            if same and ends[0].place == theirs.place and _alike(ends[0], theirs, mine):
                found.append(ends[1])
    return found


def _alike(one: Sent, two: Sent, odd: Sent) -> bool:
    """Whether two ends agree, in the dtype if the odd one differs in that."""
    dtypes = [end.text.partition("|")[0] for end in (one, two, odd)]
    return one.text == two.text if dtypes[1] == dtypes[2] else dtypes[0] == dtypes[1]


def _has_changed(case: Case, rank: int, mine: Sent, theirs: Sent) -> bool:
    """Whether a rank had exchanged the usual in each message of a channel before."""
    before = {one.text for one in ends_of(case, rank) if one.key == mine.key and one.seq < mine.seq}
    return mine.seq > habit.ENOUGH and before == {theirs.text}


def _is_permuted(case: Case, rank: int, mine: Sent, others: Sequence[Sent]) -> bool:
    """Whether a rank exchanges the same as another does, in another order."""
    own = [one for one in ends_of(case, rank) if one.key == mine.key]
    texts = sorted(one.text for one in own)
    return len(own) > 1 and any(
        texts
        == sorted(one.text for one in ends_of(case, rank_of(end, mine, rank)) if one.key == end.key)
        for end in others
    )


def rank_of(end: Sent, mine: Sent, rank: int) -> int:
    """Return whose an end of a message is that stands for a rank's."""
    return end.key.source if mine.key.source == rank else end.key.destination


def message_of_its_own(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find who sent one message from a line at which none of its like ever was.

    All others to and from the same rank are from the same lines as theirs. Not if the rank, or
    what came to it, decides that it is made.
    """
    issue = _issue(candidate, "dtype", "count")
    if issue is None or issue.is_from_any or issue.taken or not _are_users(issue):
        return
    key = issue.channel
    for rank, hub, end in (
        (key.source, key.destination, "source"),
        (key.destination, key.source, "destination"),
    ):
        mine = [one.place for one in ends_of(case, rank) if one.key == key and one.seq <= issue.seq]
        treated = [one.place for one in ends_of(case, hub) if one.key == key]
        rows = []
        for like in case.evidence.logs:
            way = key._replace(**{end: like})
            if like not in (rank, hub) and way != key:
                rows.append(
                    (
                        [one.place for one in ends_of(case, like) if one.key == way],
                        [one.place for one in ends_of(case, hub) if one.key == way],
                    )
                )
        rows = [(made, met) for made, met in rows if made or met]
        foreign = {n for n, place in enumerate(mine) if all(place not in made for made, _ in rows)}
        if len(foreign) != 1 or not rows or min(foreign) < habit.ENOUGH:
            continue
        (n,) = foreign
        rest = [*mine[:n], *mine[n + 1 :]]
        m = min(len(rest), *(len(made) for made, _ in rows))
        if any(made[:m] != rest[:m] or met[:m] != treated[:m] for made, met in rows) or m < n:
            continue
        like = next(r for r in case.evidence.logs if r not in (rank, hub))
        if _is_meant(case, rank, like, hub, mine[n]) or _may_be_told(case, rank):
            continue
        yield Evidence("message_of_its_own", (rank,))


def _is_meant(case: Case, rank: int, like: int, hub: int, place: CallPlace) -> bool:
    """Whether a message may be one rank's by design, or have been asked for; or is not alone."""
    made = calls_of(case, rank)
    n = next(n for n, one in enumerate(made) if one.place == place)
    others = [one for r in case.evidence.logs if r != rank for one in calls_of(case, r)]
    if place[1][:1] in [one.stack[:1] for one in others] or not calls_of(case, hub):
        return True
    if not n or n + 1 >= len(made):
        return True
    before, here, then = (At(*made[k].place) for k in (n - 1, n, n + 1))
    answer = led.led(case, (rank, like), before, here, then)
    return not answer.decisions or any(
        Origin.RECEIVED in one.origins or one.origins == (Origin.RANK,) for one in answer.decisions
    )
