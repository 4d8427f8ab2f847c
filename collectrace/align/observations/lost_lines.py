"""Notes on lost lines, on the proof that replaces them, and on calls that were not compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from collectrace import words
from collectrace.align.matching.comparison import Comparison, Unproven
from collectrace.align.reading.evidence import ChannelKey, StreamKey

_MOST: Final = 8
"""Notes of one kind."""


def notes(comparison: Comparison) -> list[str]:
    """Return sentences on lost lines and on calls that were not compared."""
    sorts = _unproven, _bridged, _disproved, _windows, _unread
    return [note for sort in sorts for note in _few(list(sort(comparison)))]


def _unproven(comparison: Comparison) -> Iterator[str]:
    """Yield why ranks cannot be called aligned; equal facts of several ranks are merged."""
    by_fact: dict[str, list[int]] = {}
    for fact in comparison.unproven:
        by_fact.setdefault(_fact(comparison, fact), []).append(fact.rank)
    for text, ranks in by_fact.items():
        yield f"{words.upper(words.ranks(ranks))}: {text}"


def _fact(comparison: Comparison, fact: Unproven) -> str:
    if fact.why == "count":
        return (
            f"the last line counts {words.counted(fact.last, 'call')}, but by their numbers there "
            f"are {fact.first:,}."
        )
    if fact.why == "unread":
        return "messages in the middle of the log were counted, but not read. --full reads them."
    if fact.why == "torn":
        return "the file ends within a line, or in one of an unknown kind. How it went on is lost."
    if fact.why == "cut" and fact.key is not None:
        what = _calls(comparison, fact.key, fact.first, fact.first)
        return f"the log ends before {what}. Rank {fact.last} returned from it, so lines are lost."
    if fact.why == "group" and fact.key is not None:
        group = words.group(comparison.groups[fact.key.group])
        return f"the log has calls of {group}, but the line that says who is in it is lost."
    if fact.why == "group":
        return "a line that says which group the rank made is lost."
    if fact.key is None:
        return "lines could not be read. They may hold calls."
    what = _calls(comparison, fact.key, fact.first, fact.last or fact.first)
    if fact.why == "end":
        return f"lines at the end are lost. They may hold {what}."
    if isinstance(fact.key, ChannelKey):
        return f"the log has lost {what}. Nothing else records them."
    return f"the log has lost {what}. No digest proves that the ranks agree there."


def _bridged(comparison: Comparison) -> Iterator[str]:
    by_rows: dict[str, list[int]] = {}
    for stream, gaps in comparison.bridged.items():
        for gap in gaps:
            if not comparison.evidence.logs[gap.rank].rotated:
                what = _calls(comparison, stream, gap.first, gap.last)
                by_rows.setdefault(what, []).append(gap.rank)
    for what, ranks in by_rows.items():
        yield (
            f"{words.upper(words.ranks(ranks))}: the log has lost {what}. Equal digests prove that "
            "the ranks agree there."
        )


def _disproved(comparison: Comparison) -> Iterator[str]:
    for rank, log in comparison.evidence.logs.items():
        if log.disproved:
            lines = words.counted(log.disproved, "call")
            yield f"Rank {rank}: the lines of {lines} contradict the digests, and do not count."


def _windows(comparison: Comparison) -> Iterator[str]:
    for window in comparison.windows:
        if window.first > window.last:
            yield f"The rings have no call of {words.group(window.group)} in common."
        else:
            what = _rows("call", window.first, window.last)
            yield (
                f"Of {words.group(window.group)} only {what} "
                f"{'was' if window.first == window.last else 'were'} compared: the rings hold no "
                "others in common."
            )


def _unread(comparison: Comparison) -> Iterator[str]:
    logs = comparison.evidence.logs.values()
    if comparison.streams and not all(log.scanned for log in logs):
        yield (
            "The logs were read in part. Equal digests prove that the ranks agree on the calls in "
            "between; --full reads every line."
        )


def _calls(comparison: Comparison, key: StreamKey | ChannelKey, first: int, last: int) -> str:
    """Return ``calls 5 to 9 of the default group`` or ``message 3 from rank 0 to rank 1``."""
    if isinstance(key, StreamKey):
        return f"{_rows('call', first, last)} of {words.group(comparison.groups[key.group])}"
    source = f"rank {key.source}" if key.source >= 0 else "any rank"
    tag = f", tag {key.tag}" if key.tag else ""
    return f"{_rows('message', first, last)} from {source} to rank {key.destination}{tag}"


def _rows(noun: str, first: int, last: int) -> str:
    return f"{noun} {first}" if first == last else f"{noun}s {first} to {last}"


def _few(told: list[str]) -> Iterable[str]:
    more = len(told) - _MOST
    return [*told[:_MOST], f"And {more} more such gaps."] if more > 0 else told
