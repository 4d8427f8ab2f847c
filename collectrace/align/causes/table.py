"""The calls of a stream around a difference, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, Literal

from collectrace.align.causes import phrases
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains
from collectrace.findings import Table, TableRow
from collectrace.records import Call
from collectrace.signature import program_text

_FAR: Final = 40
"""Distance between two marked calls from which the calls in the middle are omitted."""

_BESIDE: Final = 2
"""Calls shown before and after the one at which the ranks diverged, at most."""

_COLUMNS: Final = 8
"""Number of columns from which ranks are grouped by their calls without lines."""


def around(
    case: Case, root: Candidate, fatal: Candidate | None, context: int, diverged: int | None = None
) -> Table | None:
    """Return the calls around a stream's root and fatal difference; None if it has no stream.

    Args:
        case: the run.
        root: the first difference.
        fatal: the first difference that fails, if it is another one.
        context: calls before and after each.
        diverged: an earlier call that the ranks made from different lines.

    """
    stream, seq = root.stream, root.seq
    if stream is None or seq is None or root.group is None:
        return None
    ranks = [rank for rank in root.group.ranks if case.log(rank) is not None]
    marks: dict[int, Literal["parted", "root", "fatal"]] = {seq: "root"}
    if diverged is not None and diverged < seq:
        marks[diverged] = "parted"
    if fatal is not None and fatal.seq is not None and fatal.seq > seq:
        marks[fatal.seq] = "fatal"
    wanted = _rows({row: min(context, _BESIDE) if row == diverged else context for row in marks})
    cells = {rank: [case.call(rank, stream, row) for row in wanted] for rank in ranks}
    _show_callers(case, cells)
    columns = _columns(cells)
    return Table(
        columns=columns,
        rows=tuple(
            TableRow(
                seq=row,
                cells=tuple(cells[column[0]][n] for column in columns),
                mark=marks.get(row, ""),
            )
            for n, row in enumerate(wanted)
            if row in marks or any(cells[rank][n] is not None for rank in ranks)
        ),
    )


def _rows(marked: Mapping[int, int]) -> list[int]:
    """Return the call numbers to show, sorted: the context of each, and short gaps between."""
    rows: set[int] = set()
    for row, context in marked.items():
        rows |= set(range(max(1, row - context), row + context + 1))
    for row, later in pairwise(sorted(marked)):
        if later - row <= _FAR:
            rows |= set(range(row, later))
    return sorted(rows)


def _show_callers(case: Case, cells: dict[int, list[Call | None]]) -> None:
    """Give calls of one helper the lines of its callers, if their own lines are equal."""
    for row in zip(*cells.values(), strict=True):
        stacks = [case.stack(rank, call) for rank, call in zip(cells, row, strict=True) if call]
        depth = phrases.differing_depth(stacks)
        if depth:
            helper = chains.place(stacks[0][0])
            for rank, column in cells.items():
                column[:] = [call and _called(case, rank, call, helper, depth) for call in column]
            return


def _called(case: Case, rank: int, call: Call, helper: chains.Place, depth: int) -> Call:
    frames = case.stack(rank, call)
    is_of_helper = bool(frames) and chains.place(frames[0]) == helper
    return phrases.at_depth(call, frames, depth) if is_of_helper else call


def _columns(cells: dict[int, list[Call | None]]) -> tuple[tuple[int, ...], ...]:
    """Return ranks grouped by equal calls, by line too if that gives few columns."""
    columns = _grouped(cells, by_line=True)
    return columns if len(columns) <= _COLUMNS else _grouped(cells, by_line=False)


def _grouped(cells: dict[int, list[Call | None]], *, by_line: bool) -> tuple[tuple[int, ...], ...]:
    columns: dict[tuple[object, ...], list[int]] = {}
    for rank, column in cells.items():
        key = tuple(
            None if c is None
            else (program_text(c), c.role, str(c.shape), c.site if by_line else "")
            for c in column
        )  # fmt: skip
        columns.setdefault(key, []).append(rank)
    return tuple(tuple(ranks) for ranks in columns.values())
