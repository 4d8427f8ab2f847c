"""The data that the page's script draws: short keys, ranks as ranges, strings made safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from collectrace import words
from collectrace.findings import KINDS, Alignment, Finding
from collectrace.ops import POINT_TO_POINT
from collectrace.overview import Frame, Overview, Stream
from collectrace.records import Call
from collectrace.report import text
from collectrace.report.ending import rank_told

FAMILIES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("your script", ("user",)),
    ("DDP forward", ("ddp",)),
    ("DDP backward", ("ddp.backward",)),
    ("join()", ("join",)),
    ("optimizer", ("zero", "averaging")),
    ("sharding", ("fsdp", "fsdp_one", "dtensor", "cp", "pp", "dcp", "syncbn", "compile")),
    ("libraries", ()),
    ("not known", ("unknown",)),
)
"""Who issues calls, by colour of the map: a name, and the prefixes of its roles. Roles of packages
without an entry belong to "libraries"."""

_LIBRARIES: Final = 6
_STATES: Final[Mapping[str, str]] = {str(k): v for k, v in text.STATES.items()}


def data(alignment: Alignment, overview: Overview) -> dict[str, Any]:
    """Return everything that the script needs."""
    return {
        "world": alignment.world_size,
        "outcome": alignment.outcome,
        "families": [name for name, _ in FAMILIES],
        "states": _states(alignment),
        "forms": [_form(call) for call in overview.forms],
        "streams": [_stream(stream) for stream in overview.streams],
        "findings": [_finding(f, overview) for f in alignment.findings],
        "waits": _waits(overview),
        "stacks": [_frame(frame) for frame in overview.stacks],
        "lateness": [
            {
                "group": text.named_group(one.group), "device": text.clean(one.device),
                "rows": one.rows, "span": one.span, "totals": one.totals[:256],
                "marks": one.marks, "course": one.course,
            }
            for one in overview.lateness
        ],
        "loading": [[o.rank, o.batches, o.waited, o.longest] for o in overview.loading],
    }  # fmt: skip


def ranges(ranks: Iterable[int]) -> str:
    """Return ``0-3,7``: all ranks, in a form that the script can parse."""
    chosen = sorted(set(ranks))
    if not chosen:
        return ""
    cuts = [0, *(n for n, (a, b) in enumerate(pairwise(chosen), 1) if b != a + 1), len(chosen)]
    runs = [(chosen[a], chosen[b - 1]) for a, b in pairwise(cuts)]
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)


def family(role: str) -> int:
    """Return the index of a role's family: the one with the longest prefix that matches."""
    found = [
        (len(start), n)
        for n, (_, starts) in enumerate(FAMILIES)
        for start in starts
        if role == start or role.startswith(f"{start}.")
    ]
    return max(found)[1] if found else _LIBRARIES


def _states(alignment: Alignment) -> list[dict[str, Any]]:
    """Return what the ranks were doing, with an entry for all ranks that did the same."""
    found: dict[tuple[str, ...], list[int]] = {}
    for rank in alignment.ranks:
        found.setdefault((rank.state, *rank_told(alignment, rank)), []).append(rank.rank)
    return [
        {"ranks": ranges(ranks), "state": key[0], "told": key[1], "detail": key[2], "last": key[3]}
        for key, ranks in found.items()
    ]


def _form(call: Call) -> dict[str, Any]:
    return {
        "op": text.clean(call.op),
        "what": text.call(call),
        "who": text.issuer(call) or "your script",
        "short": text.short_issuer(call),
        "site": text.site(call.site or ""),
        "via": text.site(call.via or ""),
        "f": family(call.role),
    }


def _stream(stream: Stream) -> dict[str, Any]:
    name = text.named_group(stream.group)
    described = text.clean(stream.description)
    is_default = name == words.DEFAULT_GROUP or not described
    told = name if is_default else f"{described} ({text.clean(stream.group)})"
    if stream.channel is not None:
        source, destination, tag = stream.channel
        told = f"messages from rank {source} to rank {destination}" + (
            f", tag {tag}" if tag else ""
        )
    return {
        "name": told,
        "message": stream.channel is not None,
        "group": text.clean(stream.group),
        "device": text.clean(stream.device),
        "ranks": ranges(stream.ranks),
        "agreed": stream.agreed,
        "alike": len(stream.alike),
        "bands": [
            {
                "ranks": ranges(band.ranks), "last": band.last, "done": band.done,
                "codes": band.codes,
                "t": None if band.t is None else [band.t[0] // 1000, band.t[1] // 1000],
            }
            for band in stream.bands
        ],
    }  # fmt: skip


def _finding(finding: Finding, overview: Overview) -> dict[str, Any]:
    return {
        "headline": text.clean(finding.headline),
        "severity": finding.severity,
        "kind": finding.kind,
        "seq": finding.seq,
        "stream": stream_of(finding, overview),
        "suspects": ranges(finding.suspects),
        "caused": finding.caused_by,
        "columns": [ranges(c) for c in finding.table.columns] if finding.table else [],
    }


def stream_of(finding: Finding, overview: Overview) -> int | None:
    """Return the index of the stream with the finding's call; None: it has none."""
    if finding.group is None or finding.seq is None:
        return None
    channels = [
        (rank, c.peer, c.tag or 0) if c.op == "send" else (c.peer, rank, c.tag or 0)
        for side in finding.sides
        if (c := side.call) is not None and c.op in POINT_TO_POINT and c.seq == finding.seq
        for rank in side.ranks[:1]
    ]
    if channels or KINDS[finding.kind].family == "message":
        return next(
            (n for n, s in enumerate(overview.streams)
             if s.group == finding.group.name and s.channel in channels),
            None,
        )  # fmt: skip
    devices = {side.call.device for side in finding.sides if side.call is not None}
    for n, stream in enumerate(overview.streams):
        names = (stream.group, *stream.alike)
        if (
            stream.channel is None
            and finding.group.name in names
            and (not devices or stream.device in devices)
        ):
            return n
    return None


def _waits(overview: Overview) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "ranks": ranges(node.ranks), "thread": text.clean(node.thread),
                "state": node.state, "told": _STATES[node.state],
                "op": text.clean(node.op), "message": node.op in POINT_TO_POINT,
                "group": text.named_group(node.group),
                "seq": node.seq, "site": text.short_site(node.site or ""),
                "held": words.seconds(node.held * 1e9) if node.held else "",
            }
            for node in overview.waits.nodes
        ],
        "edges": [[e.source, e.target, e.row, int(e.circular)] for e in overview.waits.edges],
        "more": overview.waits.more,
    }  # fmt: skip


def _frame(frame: Frame) -> dict[str, Any]:
    return {
        "name": text.clean(frame.name),
        "ranks": ranges(frame.ranks),
        "inner": [_frame(inner) for inner in frame.inner],
    }
