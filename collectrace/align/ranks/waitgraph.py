"""Build the wait graph: which thread of which rank waits for which other.

A collective waits for every member that has not issued it (AND). A receive from any rank waits for
one of them (OR), another message for its peer. To find deadlocked threads, threads that some other
thread can release are removed repeatedly; the remaining ones wait in cycles.

Source: Knapp, Deadlock detection in distributed databases, ACM Computing Surveys 19(4), 1987.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from collectrace import dumps
from collectrace.align.matching.comparison import Comparison
from collectrace.align.ranks import host_waits
from collectrace.align.ranks.clocks import Clocks
from collectrace.align.ranks.standing import HOST, Standing, Waiting
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey, is_placed
from collectrace.dumps import MAIN
from collectrace.ops import ANY_SOURCE

Node = tuple[int, str]
"""Rank and thread."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One thread waits for another."""

    waiting: Waiting
    target: Node
    row: int | None
    """The first row of the stream (message of the channel) that the target has not issued."""
    queued: bool = False
    """The target has issued it, and its device is blocked in an earlier call."""


@dataclass(frozen=True)
class WaitGraph:
    """Which thread waits for which."""

    edges: Mapping[Node, tuple[Edge, ...]] = field(default_factory=dict)
    """Every waiting thread; without edges if all that it needs has been issued."""
    any_of: frozenset[Node] = frozenset()
    """Threads that any one of their targets can release."""

    @cached_property
    def _by_rank(self) -> Mapping[int, Sequence[Edge]]:
        found: dict[int, list[Edge]] = {}
        for (rank, _), edges in self.edges.items():
            found.setdefault(rank, []).extend(edges)
        return found

    def of(self, rank: int) -> Sequence[Edge]:
        """Return everything that a rank waits for."""
        return self._by_rank.get(rank, ())


Cycle = tuple[Edge, ...]
"""Edges that each start where the one before ends; the first starts where the last ends."""


def build(standings: Mapping[int, Standing], comparison: Comparison, clocks: Clocks) -> WaitGraph:
    """Return the wait graph at the end of the evidence, for ranks that are blocked or raised."""
    waiting = {
        (s.rank, w.thread): w
        for s in standings.values()
        if s.state in ("blocked", "raised")
        for w in s.waiting
    }
    threads: dict[int, list[Node]] = {}
    for node in waiting:
        threads.setdefault(node[0], []).append(node)
    needs = _Needs(standings, comparison)
    edges = {
        node: tuple(
            Edge(w, _thread(rank, w, waiting, threads.get(rank, ())), row)
            for rank, row in needs.of(w)
        )
        + tuple(_queued(w, waiting, standings, comparison, clocks))
        for node, w in waiting.items()
    }
    edges |= {(e.waiting.rank, MAIN): (e,) for e in _of_hosts(standings, edges, clocks)}
    any_of = (n for n, w in waiting.items() if w.channel is not None and w.channel.source < 0)
    return WaitGraph(edges, frozenset(any_of))


def _of_hosts(
    standings: Mapping[int, Standing], known: Mapping[Node, object], clocks: Clocks
) -> Iterator[Edge]:
    """Yield waits outside calls for what another rank holds, such as a file lock."""
    for standing in standings.values():
        wait = standing.host_wait
        if wait is None or wait.holder is None or wait.holder == standing.rank:
            continue
        if (standing.rank, MAIN) in known or standing.log is None:
            continue
        seen = clocks.when(standing.rank, wait.t)
        if _may_have_released(standings[wait.holder], seen):
            continue
        w = Waiting(
            standing.rank, MAIN, HOST, seen, "", wait.row.noun, site=host_waits.place(standing.log),
        )  # fmt: skip
        yield Edge(w, (wait.holder, MAIN), None)


def _may_have_released(holder: Standing, seen: int) -> bool:
    """Return whether a rank may have released what it holds, or another of its threads may."""
    if holder.state not in ("blocked", "busy", "running", "silent"):
        return True  # a process that ended holds nothing
    if not holder.waiting:
        return False
    if min(w.since for w in holder.waiting) > seen:
        return True
    stall = holder.log.stall if holder.log is not None else None
    at_work = sum(bool(dumps.own(frames)) for frames in (stall.stacks if stall else {}).values())
    return at_work != 1


class _Needs:
    """The ranks that threads wait for, cached: a thousand ranks may wait in one call."""

    def __init__(self, standings: Mapping[int, Standing], comparison: Comparison) -> None:
        self._standings, self._comparison = standings, comparison
        self._logs: dict[str, dict[int, RankLog]] = {}
        self._lacking: dict[tuple[StreamKey, int], list[tuple[int, int]]] = {}
        self._asked: dict[str, set[int]] | None = None

    def of(self, w: Waiting) -> Iterator[tuple[int, int | None]]:
        """Yield the ranks that have not issued what a thread waits for.

        Each has the first row (message) that it has not issued; None if rows do not show it. A rank
        with a log that has lost its end may have issued it, and is skipped.
        """
        logs = self._of_members(w.group)
        if w.channel is not None:
            for rank, row in _message(w.channel, w, logs, self._standings[w.rank].log):
                if not self._comparison.may_have_issued(rank, w.channel):
                    yield rank, row
        elif w.stream is not None and w.seq is not None:
            for rank, row in self._behind(w.stream, w.seq, logs):
                if rank != w.rank:
                    yield rank, row
        else:
            asked = self._requesters(w.group)
            for rank in logs:
                if rank != w.rank and rank not in asked:
                    yield rank, None

    def _of_members(self, group: str) -> dict[int, RankLog]:
        found = self._logs.get(group)
        if found is None:
            info = self._comparison.groups.get(group)
            members = [self._standings.get(rank) for rank in (info.ranks if info else ())]
            found = {one.rank: one.log for one in members if one is not None and one.log}
            self._logs[group] = found
        return found

    def _behind(
        self, stream: StreamKey, seq: int, logs: Mapping[int, RankLog]
    ) -> Sequence[tuple[int, int]]:
        found = self._lacking.get((stream, seq))
        if found is None:
            last = ((rank, log.last_seq.get(stream, 0)) for rank, log in logs.items())
            found = self._lacking[stream, seq] = [
                (rank, issued + 1)
                for rank, issued in last
                if issued < seq
                and is_placed(logs[rank], stream)
                and not self._comparison.may_have_issued(rank, stream)
            ]
        return found

    def _requesters(self, group: str) -> set[int]:
        if self._asked is None:
            self._asked = {}
            for rank, standing in self._standings.items():
                for record in standing.log.groups if standing.log is not None else ():
                    self._asked.setdefault(record.group, set()).add(rank)
        return self._asked.get(group, set())


def _queued(
    w: Waiting,
    waiting: Mapping[Node, Waiting],
    standings: Mapping[int, Standing],
    comparison: Comparison,
    clocks: Clocks,
) -> Iterator[Edge]:
    """Yield the ranks that have issued a call which their device has not reached.

    A device runs the calls of its host in the order of issue. That holds within one group. Calls of
    several groups run side by side if a device has room for both; otherwise they block each other
    (NCCL, "Using multiple NCCL communicators concurrently").
    """
    info = comparison.groups.get(w.group)
    if w.stream is None or w.seq is None or w.device in ("", "cpu") or info is None:
        return
    for node, front in waiting.items():
        log = standings[node[0]].log
        if node[0] not in info.ranks or node[0] == w.rank or log is None:
            continue
        if front.device != w.device or front.stream == w.stream:
            continue
        call = log.call(w.stream, w.seq)
        if call is not None and clocks.when(node[0], call.t) > front.since:
            yield Edge(w, node, w.seq, queued=True)


def _message(
    channel: ChannelKey, w: Waiting, logs: Mapping[int, RankLog], mine: RankLog | None
) -> Iterator[tuple[int, int | None]]:
    """Yield the peer that has not issued a message, or all who may send to a receive from any."""
    if channel.source >= 0:
        peer = channel.destination if channel.source == w.rank else channel.source
        if peer not in logs or peer == w.rank or mine is None or w.seq is None:
            return
        # Numbered in the order of sending: receives from any source have taken some, too.
        issued = logs[peer].last_channel_seq.get(channel, 0) + logs[peer].taken(channel)
        if issued < w.seq + mine.taken(channel):
            yield peer, issued + 1
        return
    logs = {rank: log for rank, log in logs.items() if rank != w.rank}
    sent = sum(
        log.last_channel_seq.get(channel._replace(source=rank), 0) for rank, log in logs.items()
    )
    received = sum(
        n for key, n in (mine.last_channel_seq.items() if mine is not None else ())
        if key._replace(source=ANY_SOURCE) == channel
    )  # fmt: skip
    if sent < received:
        for rank in logs:
            yield rank, None


def _thread(rank: int, w: Waiting, waiting: Mapping[Node, Waiting], others: Sequence[Node]) -> Node:
    """Return the thread of ``rank`` that probably issues what ``w`` waits for.

    The logs do not show which it is. It is the thread with the same name as the waiting one. If
    there is none, it is the only one in ``others``, or the main thread.
    """
    named = (rank, w.thread)
    if named in waiting or w.thread == MAIN:
        return named
    return others[0] if len(others) == 1 else (rank, MAIN)


def stuck(graph: WaitGraph) -> set[Node]:
    """Return threads that nobody can release: each waits only for other such threads."""
    left = {node for node, edges in graph.edges.items() if edges}
    behind: dict[Node, list[Node]] = {}
    holding: dict[Node, int] = {}
    """Targets that must be released before a thread is."""
    for node in left:
        # A target that does not wait is not in a cycle: it may arrive later, or is the culprit.
        targets = [edge.target for edge in graph.edges[node]]
        inside = [target for target in targets if target in left]
        holding[node] = len(inside) == len(targets) if node in graph.any_of else len(inside)
        for target in inside:
            behind.setdefault(target, []).append(node)
    released = deque(node for node in left if not holding[node])
    while released:
        node = released.popleft()
        left.discard(node)
        for waiter in behind.get(node, ()):
            holding[waiter] -= 1
            if not holding[waiter]:
                released.append(waiter)
    return left


def cycles(graph: WaitGraph) -> list[Cycle]:
    """Return one cycle for every set of threads in a deadlock, each thread in one at most."""
    left = stuck(graph)
    found: list[Cycle] = []
    seen: set[Node] = set()
    for start in sorted(left):
        path: list[Node] = []
        steps: list[Edge] = []
        node = start
        while node not in seen:
            seen.add(node)
            edge = next(e for e in graph.edges[node] if e.target in left)
            path.append(node)
            steps.append(edge)
            node = edge.target
        if node in path:
            found.append(tuple(steps[path.index(node) :]))
    return found


def alike(graph: WaitGraph, cycle: Cycle, at: int) -> tuple[int, ...]:
    """Return the ranks that could take the place of the one at index ``at`` of a cycle.

    They wait for the same call and the same thread, and the thread before them waits for all.
    """
    edge, before = cycle[at], cycle[at - 1]
    w = edge.waiting
    if w.stream is None:
        return (w.rank,)
    inside = {one.waiting.rank for one in cycle} - {w.rank}
    waits_too = {other.target for other in graph.edges[before.waiting.rank, before.waiting.thread]}
    return tuple(
        node[0]
        for node in sorted(waits_too)
        if node[0] == w.rank
        or (
            node[0] not in inside
            and any(
                (other.target, other.row, other.waiting.stream, other.waiting.seq)
                == (edge.target, edge.row, w.stream, w.seq)
                for other in graph.edges.get(node, ())
            )
        )
    )


def follow(graph: WaitGraph, standings: Mapping[int, Standing], ranks: Iterable[int]) -> set[int]:
    """Return the ranks at the ends of the waits from these ranks, which are not blocked."""
    ends: set[int] = set()
    todo, seen = list(ranks), set[int]()
    while todo:
        rank = todo.pop()
        if rank in seen:
            continue
        seen.add(rank)
        edges, standing = graph.of(rank), standings[rank]
        if standing.state == "blocked" or (edges and (standing.by_peers or standing.host_wait)):
            todo += [edge.target[0] for edge in edges]
        else:
            ends.add(rank)
    return ends


def reachable(graph: WaitGraph, rank: int) -> set[int]:
    """Return every rank that a rank waits for, directly or through others."""
    found: set[int] = set()
    todo = [rank]
    while todo:
        for edge in graph.of(todo.pop()):
            if edge.target[0] not in found:
                found.add(edge.target[0])
                todo.append(edge.target[0])
    return found
