"""Ranks with several DDP models, whose forward passes are counted for each by itself."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

from collectrace import roles
from collectrace.align.judging.case import Case, once_of
from collectrace.align.reading.evidence import RankLog
from collectrace.align.reading.rows import Rows

_SEVERAL: Final = -1


def of_one_model(case: Case, ranks: Iterable[int]) -> bool:
    """Whether the latest iterations of these ranks count the forward passes of one DDP model.

    With several that take turns, an iteration is that of the model which ran last: compared with
    another's it tells nothing.
    """
    latest = {_latest(case, rank) for rank in ranks} - {0}
    return len(latest) < 2 and _SEVERAL not in latest


@once_of
def _latest(case: Case, rank: int) -> int:
    """The number of the model that a rank works with; 0: none is known, _SEVERAL: of several."""
    log = case.log(rank)
    return _one_in_use(log) if log is not None else 0


def _one_in_use(log: RankLog) -> int:
    """The model that has taken the place of all others, if one has.

    That is one constructed after others were trained, since when these have made no call.
    """
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    trained: list[int] = []
    for stream in log.last_seq:
        rows, _ = log.rows(stream)
        for n, span in _spans(rows, rows.meaning).items():
            call = rows.vocabulary.examples[n]
            # Of a bucket it may not be known, and a communication hook reduces in other groups.
            if call.role.startswith("ddp.") and not roles.of(call.role).in_backward:
                _widen(spans, (stream.group, call.model or 1), span)
        for n, span in _spans(rows, rows.appearance).items():
            seen = rows.vocabulary.appearances[n]
            if roles.of(seen.role).in_backward:
                trained.append(span[0])
                if seen.model:
                    _widen(spans, (stream.group, seen.model), span)
    if not spans:
        return 0
    latest = max(spans, key=lambda model: spans[model][1])
    began, _ = spans.pop(latest)
    took_over = bool(trained) and min(trained) < began
    if spans and not (took_over and all(last < began for _, last in spans.values())):
        return _SEVERAL
    return latest[1]


def _spans(rows: Rows, column: array[int]) -> dict[int, tuple[int, int]]:
    """When the first and the last of the rows of a kind were issued, ns on the rank's own clock."""
    first = dict(zip(reversed(column), reversed(rows.t), strict=True))
    last = dict(zip(column, rows.t, strict=True))
    return {n: (first[n], last[n]) for n in last}


def _widen(
    spans: dict[tuple[str, int], tuple[int, int]], model: tuple[str, int], span: tuple[int, int]
) -> None:
    first, last = spans.get(model, span)
    spans[model] = min(first, span[0]), max(last, span[1])
