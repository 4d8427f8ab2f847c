"""Find everything that disagrees between the ranks of a run, before ranks are blamed."""

from __future__ import annotations

from collections.abc import Mapping

from collectrace.align.matching.channels import compare_channels
from collectrace.align.matching.comparison import Comparison, Unclear, Unproven
from collectrace.align.matching.crossed import crossed
from collectrace.align.matching.cut_short import cut_short
from collectrace.align.matching.streams import Verdict, compare_stream
from collectrace.align.reading.evidence import RankLog, RunEvidence, StreamKey
from collectrace.findings import GroupInfo
from collectrace.records import DEFAULT_GROUP


def compare(evidence: RunEvidence) -> Comparison:
    """Compare every stream and channel of a run, by digest if a log was read in part.

    Raises:
        Unclear: what was read of some logs is not enough; it names all logs that are needed.

    """
    logs = evidence.logs
    disputed = {
        name
        for conflict in evidence.conflicts
        if len([record for _, record in conflict.variants if record is not None]) > 1
        for name in evidence.groups
        if name == conflict.name or name.startswith(f"{conflict.name} [")
    }
    shared = {
        name: one
        for name, one in evidence.groups.items()
        # After a conflict the ranks count groups differently, and may call two groups by one name.
        if not (evidence.conflicts and " [" in name)
    }
    unproven = cut_short(shared, logs, evidence.cut)
    cut = {fact.rank for fact in unproven}
    unproven += [fact for log in logs.values() for fact in _of_the_whole(log, evidence.groups)]
    streams: dict[StreamKey, tuple[int, ...]] = {}
    verdicts: dict[StreamKey, Verdict] = {}
    needed: set[int] = set()
    for stream in sorted({key for log in logs.values() for key in log.last_seq}):
        group = evidence.groups[stream.group]
        streams[stream] = group.ranks
        if stream.group in disputed:
            # Ranks that mean different groups by one name never shared a stream.
            continue
        try:
            verdicts[stream] = compare_stream(stream, group, logs, cut)
        except Unclear as unclear:
            needed |= unclear.ranks
    try:
        channels, messages, lost = compare_channels(evidence.groups, logs, cut)
    except Unclear as unclear:
        needed |= unclear.ranks
    # Looking up rows has read more of the logs.
    needed |= {rank for rank, log in logs.items() if not log.scanned and log.is_doubtful()}
    if needed:
        raise Unclear(needed)
    found = verdicts.values()
    warnings = [one for verdict in found for one in verdict.warnings]
    other_lines = {key: v.other_lines for key, v in verdicts.items() if v.other_lines is not None}
    return Comparison(
        evidence=evidence,
        groups=evidence.groups,
        streams=streams,
        divergences=tuple(one for verdict in found for one in verdict.divergences),
        channels=tuple(channels),
        conflicts=tuple(evidence.conflicts),
        agreed={stream: verdict.agreed for stream, verdict in verdicts.items()},
        messages=messages,
        unproven=(*unproven, *(one for verdict in found for one in verdict.unproven), *lost),
        bridged={stream: v.bridged for stream, v in verdicts.items() if v.bridged},
        windows=tuple(verdict.window for verdict in found if verdict.window is not None),
        other_lines=tuple(other_lines.values()),
        warnings=(*warnings, *crossed(other_lines, evidence.groups, logs)),
    )


def _of_the_whole(log: RankLog, groups: Mapping[str, GroupInfo]) -> list[Unproven]:
    """Return the losses of one rank's log that do not concern a single stream or channel."""
    if log.unaccounted and log.exit is not None:
        billed = log.exit.calls
        return [Unproven(log.rank, "count", None, billed - log.unaccounted, billed)]
    told = {record.group for record in log.groups}
    # The order in which a program makes groups matters, except for the first one.
    made = (key for key in log.last_seq if groups[key.group].description != DEFAULT_GROUP)
    unrecorded = min((key for key in made if key.group not in told), default=None)
    if unrecorded is not None and log.imported is None:
        return [Unproven(log.rank, "group", unrecorded)]
    if log.lacks_groups:
        return [Unproven(log.rank, "group")]
    return [Unproven(log.rank, "end")] if not log.counts and log.is_open(StreamKey("", "")) else []
