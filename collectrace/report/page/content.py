"""The texts of the page, for its template. All strings of a log are made safe to show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from collectrace import internal, words
from collectrace.findings import MISMATCHES, Alignment, Decision, Finding, Job, cause_of
from collectrace.ops import POINT_TO_POINT
from collectrace.overview import Overview, Setting
from collectrace.report import ending, opening, tables, text, verbose
from collectrace.report.document import Block, Prose, document
from collectrace.report.opening import STATUS_STYLE
from collectrace.report.page import data
from collectrace.report.tables import Grid
from collectrace.version import __version__

_MOST_FINDINGS: Final = 60
_MOST_RANK_ROWS: Final = 200
_MOST_COLUMNS: Final = 12
_MOST_VALUES: Final = 8


def content(alignment: Alignment, overview: Overview) -> dict[str, Any]:
    """Return the template's variables."""
    findings = alignment.findings
    job = alignment.job or Job()
    told = [_finding(alignment, overview, n) for n in range(min(len(findings), _MOST_FINDINGS))]
    # Evidence gaps are listed with what the logs do not show.
    roots = [o for o in told if o["cause_index"] is None and o["kind"] != "evidence_gap"]
    errors = [one for one in roots if one["severity"] == "error"]
    lead = errors[0] if errors else None
    left_out = [text.clean(one) for one in overview.left_out]
    if len(findings) > _MOST_FINDINGS:
        left_out.append(f"{len(findings) - _MOST_FINDINGS} findings: they are in --json.")
    verdict = ending.verdict(alignment).plain
    alike = ending.alike(alignment)
    left = [rank for one in alike[_MOST_RANK_ROWS:] for rank in one.ranks]
    is_alive = any(rank.ended == "alive" for rank in alignment.ranks)
    return {
        "outcome": alignment.outcome,
        "tone": STATUS_STYLE[alignment.outcome],
        "script": text.clean(job.script),
        "who": words.counted(alignment.world_size, "rank") + opening.hosts(job),
        "when": opening.when(job, is_alive=is_alive),
        "attempt": job.attempt,
        "earlier": [text.clean(one) for one in job.earlier],
        # The exit status is for programs.
        "headline": verdict.partition(" Exit status")[0],
        "lead": lead,
        "roots": [one for one in roots if one is not lead],
        "tables": [one for one in told if one["table"] is not None],
        "rank_rows": alike[:_MOST_RANK_ROWS],
        "ranks_left": words.ranks(left) if left else "",
        "channels": [
            {
                "group": text.named_group(c.group), "source": c.source if c.source >= 0 else "any",
                "destination": c.destination, "tag": c.tag, "sent": c.sent,
                "received": c.received,
            }
            for c in overview.channels
        ],
        "freeing": _freeing(alignment, overview),
        "ranges": words.ranges, "has_waits": bool(overview.waits.nodes),
        "has_stacks": bool(overview.stacks),
        "has_streams": bool(overview.streams),
        "has_time": bool(overview.lateness or overview.loading),
        "clocks": text.clean(overview.clocks),
        "hosts": [(text.clean(h), words.ranks(r)) for h, r in overview.hosts],
        "settings": [_setting(s) for s in overview.settings],
        "own_settings": [text.clean(s.name) for s in overview.settings if s.own],
        "gaps": ending.gaps(alignment),
        "internal_errors": internal.sentences(alignment),
        "blind": [
            (text.clean(s.name), words.ranks(s.ranks), text.clean(s.how), text.clean(s.what))
            for s in alignment.evidence.blind_spots or ()
        ],
        "left_out": left_out,
        "run": text.clean(alignment.run),
        "others": [text.clean(run) for run in alignment.evidence.other_runs or ()],
        "version": __version__,
        "families": [name for name, _ in data.FAMILIES],
    }  # fmt: skip


def _finding(alignment: Alignment, overview: Overview, n: int) -> dict[str, Any]:
    findings = alignment.findings
    finding = findings[n]
    effects = [i for i in range(min(len(findings), _MOST_FINDINGS)) if cause_of(findings, i) == n]
    told = document(alignment, n)
    return {
        "n": n + 1,
        "cause_index": cause_of(findings, n),
        "is_repeat": finding.repeats is not None,
        "severity": finding.severity,
        "kind": finding.kind,
        "code": told.code,
        "headline": told.headline,
        "place": verbose.where(finding),
        # The page shows consequences in full below the finding, and which calls met in the map.
        "blocks": _named(b for b in told.blocks if not _is_beside(b)),
        "then": [b.text for b in told.blocks if isinstance(b, Prose) and b.label == "then"],
        "details": _named(
            [
                *(b for b in told.blocks if isinstance(b, Grid) and b.marks),
                *verbose.details(replace(finding, decisions=_telling(finding))),
            ]
        ),
        "stream": data.stream_of(finding, overview),
        "seq": finding.seq,
        "table": tables.side_by_side(finding, _MOST_COLUMNS),
        "effects": [_finding(alignment, overview, i) for i in effects],
    }


def _is_beside(block: Block) -> bool:
    return (isinstance(block, Prose) and block.label == "then") or (
        isinstance(block, Grid) and bool(block.marks)
    )


def _named(blocks: Iterable[Block]) -> list[tuple[str, Block]]:
    """Return each block with the name of its type, by which the template selects its markup."""
    return [(type(block).__name__.lower(), block) for block in blocks]


def _freeing(alignment: Alignment, overview: Overview) -> str:
    """Return the one call that would unblock most threads, as a sentence.

    Empty: none would, or it would contradict the finding.
    """
    free = overview.waits.freeing
    errors = [one for one in alignment.findings if one.severity == "error"]
    suspects = {rank for one in errors for rank in one.suspects}
    # After calls that do not fit, a further call frees nobody for long.
    if any(one.kind in MISMATCHES for one in errors):
        return ""
    if free is None or (suspects and free.rank not in suspects):
        return ""
    at = f" (its peers are at {text.short_site(free.site)})" if free.site else ""
    numbered = "message" if free.op in POINT_TO_POINT else "call"
    row = (
        f", {numbered} {free.row} of {text.named_group(free.group)}" if free.row is not None else ""
    )
    told = text.clean(free.op)
    if free.peer is not None:
        told += f" {'to' if free.op == 'send' else 'from'} rank {free.peer}"
    is_all = free.frees == free.waiting
    freed = "all that wait" if is_all else f"{free.frees} of the {free.waiting} waiting threads"
    return f"One call could free {freed}: {told} by rank {free.rank}{row}{at}."


def _setting(setting: Setting) -> dict[str, Any]:
    values = setting.values[:_MOST_VALUES]
    more = len(setting.values) - len(values)
    return {
        "name": text.clean(setting.name),
        "values": [(text.clean(value) or "-", words.ranks(ranks)) for value, ranks in values],
        "more": more,
        "own": setting.own,
        "differs": len(setting.values) > 1 and not setting.own,
    }


def _telling(finding: Finding) -> tuple[Decision, ...]:
    """Return the decisions that are certain or that the reasons name, or else the first one."""
    found = finding.decisions or ()
    named = (d for d in found if d.is_certain or words.names_site(finding.cause, d.site))
    return tuple(named) or found[:1]
