"""Reduce the wait graph to a picture: threads that wait in one call are one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from collectrace.align.judging.case import Case
from collectrace.align.ranks.standing import Waiting
from collectrace.align.ranks.waitgraph import Edge, Node, WaitGraph, alike, cycles, stuck
from collectrace.dumps import MAIN
from collectrace.overview import Freeing, WaitEdge, WaitNode, Waits

_MOST_NODES: Final = 48
_MOST_TRIED: Final = 200
"""Calls that are tried to find the threads that they would release."""

_Key = tuple[object, ...]


def waits(case: Case) -> Waits:
    """Return the waits at the end, and the one call that would release most threads."""
    graph = case.graph
    waiting = {node: edges for node, edges in graph.edges.items() if edges}
    if not waiting:
        return Waits()
    found = cycles(graph)
    circular = {(e.waiting.rank, e.waiting.thread, e.target) for c in found for e in c}
    inside = {
        (rank, edge.waiting.thread): (edge.waiting.rank, edge.waiting.thread)
        for cycle in found
        for n, edge in enumerate(cycle)
        for rank in alike(graph, cycle, n)
    }
    """By each thread that waits alike, the one that is in the cycle."""
    members: dict[_Key, list[Node]] = {}
    place: dict[Node, _Key] = {}
    heads: dict[Node, Waiting] = {node: edges[0].waiting for node, edges in waiting.items()}
    targets = {edge.target for edges in waiting.values() for edge in edges}
    # Threads in a cycle, and those that they wait for, are drawn first if there is no room for all.
    for node in sorted({*waiting, *targets}, key=lambda n: (n not in inside, n in waiting, n)):
        key = inside.get(node) or _key(case, node, heads)
        members.setdefault(key, []).append(node)
        place[node] = key
    shown = {key: n for n, key in enumerate(list(members)[:_MOST_NODES])}
    nodes = [_node(case, members[key], heads) for key in shown]
    edges: dict[tuple[int, int], WaitEdge] = {}
    for node, out in waiting.items():
        for edge in out:
            a, b = shown.get(place[node]), shown.get(place[edge.target])
            if a is None or b is None or a == b:
                continue
            is_circular = (*node, edge.target) in circular
            known = edges.get((a, b))
            if known is None or (is_circular and not known.circular):
                edges[a, b] = WaitEdge(source=a, target=b, row=edge.row, circular=is_circular)
    return Waits(
        nodes=tuple(nodes),
        edges=tuple(edges.values()),
        freeing=_freeing(graph, waiting),
        more=len(members) - len(shown),
    )


def _key(case: Case, node: Node, heads: Mapping[Node, Waiting]) -> _Key:
    """Return the common key of the threads of one node."""
    rank, thread = node
    standing, w = case.standings[rank], heads.get(node)
    if w is None:
        last = standing.last_call
        return standing.state, thread, last and (last.group, last.seq, last.op)
    return standing.state, thread, w.group, w.op, w.seq, w.channel


def _node(case: Case, members: list[Node], heads: Mapping[Node, Waiting]) -> WaitNode:
    rank, thread = members[0]
    node = WaitNode(
        ranks=tuple(sorted({r for r, _ in members})),
        thread="" if thread == MAIN else thread,
        state=case.standings[rank].state,
    )
    w = heads.get(members[0])
    if w is None:
        return node
    held = max(
        case.standings[r].end - heads[r, t].since for r, t in members if (r, t) in heads
    )  # fmt: skip
    return replace(
        node, op=w.op, group=w.group, seq=w.seq, site=w.site, held=max(0, held) / 1e9
    )  # fmt: skip


def _freeing(graph: WaitGraph, waiting: Mapping[Node, tuple[Edge, ...]]) -> Freeing | None:
    """Return the one call that would release most threads; None if no single one would.

    A thread continues when all that it waits for has been issued; then threads that wait for it
    may, too.
    """
    calls: dict[_Key, Edge] = {}
    for edges in waiting.values():
        for edge in edges:
            calls.setdefault(_call(edge), edge)
    best: tuple[int, Edge] | None = None
    for key, edge in list(calls.items())[:_MOST_TRIED]:
        free = _count_released(graph, waiting, key)
        if free and (best is None or free > best[0]):
            best = free, edge
    if best is None:
        return None
    frees, edge = best
    # A message is released by its other half.
    op = {"recv": "send", "send": "recv"}.get(edge.waiting.op, edge.waiting.op)
    return Freeing(
        rank=edge.target[0], op=op, group=edge.waiting.group, row=edge.row,
        site=edge.waiting.site, frees=frees, waiting=len(waiting),
        peer=edge.waiting.rank if edge.waiting.channel is not None else None,
    )  # fmt: skip


def _call(edge: Edge) -> _Key:
    w = edge.waiting
    return edge.target, w.group, w.device, w.channel, edge.row, edge.queued


def _count_released(graph: WaitGraph, waiting: Mapping[Node, tuple[Edge, ...]], call: _Key) -> int:
    left = {n: tuple(e for e in edges if _call(e) != call) for n, edges in waiting.items()}
    ends = {e.target for edges in left.values() for e in edges} - waiting.keys()
    if not ends:
        cut = WaitGraph(left, graph.any_of)
        return len(waiting) - len(stuck(cut))
    # Threads that still wait for one that is not itself waiting stay blocked.
    held = {node for node, edges in left.items() if any(e.target in ends for e in edges)}
    grown = True
    while grown:
        more = {n for n, es in left.items() if n not in held and any(e.target in held for e in es)}
        held |= more
        grown = bool(more)
    cut = WaitGraph({n: es for n, es in left.items() if n not in held}, graph.any_of)
    return len(waiting) - len(held) - len(stuck(cut))
