"""Everything that disagrees between the ranks of a run, before anybody is blamed."""

from __future__ import annotations

from collectrace.align.matching.channels import compare_channels
from collectrace.align.matching.comparison import Comparison, Divergence, Unclear
from collectrace.align.matching.crossed import crossed
from collectrace.align.matching.streams import compare_stream
from collectrace.align.reading.evidence import RunEvidence, StreamKey
from collectrace.findings import OtherLines


def compare(evidence: RunEvidence) -> Comparison:
    """Compare every stream and channel of a run, by digest where a log was read in part.

    Raises:
        Unclear: what was read of some logs does not tell; all that would be needed is named.

    """
    logs = evidence.logs
    disputed = {
        name
        for conflict in evidence.conflicts
        if len([record for _, record in conflict.variants if record is not None]) > 1
        for name in evidence.groups
        if name == conflict.name or name.startswith(f"{conflict.name} [")
    }
    notes: list[str] = []
    streams: dict[StreamKey, tuple[int, ...]] = {}
    agreed: dict[StreamKey, int] = {}
    divergences: list[Divergence] = []
    warnings: list[Divergence] = []
    other_lines: list[tuple[StreamKey, OtherLines]] = []
    needed: set[int] = set()
    for stream in sorted({key for log in logs.values() for key in log.last_seq}):
        group = evidence.groups[stream.group]
        streams[stream] = group.ranks
        if stream.group in disputed:
            # Ranks that mean different groups by one name were never in one stream.
            continue
        try:
            verdict = compare_stream(stream, group, logs)
        except Unclear as unclear:
            needed |= unclear.ranks
            continue
        agreed[stream] = verdict.agreed
        divergences += verdict.divergences
        warnings += verdict.warnings
        notes += verdict.notes
        if verdict.other_lines is not None:
            other_lines.append((stream, verdict.other_lines))
    try:
        channels, messages, unseen = compare_channels(evidence.groups, logs)
    except Unclear as unclear:
        needed |= unclear.ranks
    if needed:
        raise Unclear(needed)
    return Comparison(
        evidence=evidence,
        groups=evidence.groups,
        streams=streams,
        divergences=tuple(divergences),
        channels=tuple(channels),
        conflicts=tuple(evidence.conflicts),
        agreed=agreed,
        messages=messages,
        notes=(*notes, *unseen),
        other_lines=tuple(other for _, other in other_lines),
        warnings=(*warnings, *crossed(other_lines, evidence.groups, logs)),
    )
