"""An alignment for notebooks and data frames: flat rows, and a page's fragment of them.

``pandas.DataFrame(alignment.rows())`` and ``polars.DataFrame(alignment.rank_rows())`` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final, Protocol

from collectrace.printable import clean

Value = str | int | float | bool | None
Row = dict[str, Value]

_MOST_LINES: Final = 10
"""Findings in the text of an alignment."""

_MOST_ROWS: Final = 200
"""Rows of a table in a notebook; :meth:`Tabular.rank_rows` has all."""

_COLOURS: Final = {
    "aligned": "#1a7f37", "diverged": "#cf222e", "hung": "#cf222e", "crashed": "#cf222e",
    "unknown": "#9a6700",
}  # fmt: skip


class Answer(Protocol):
    """The protocol of an alignment, which ``findings.Alignment`` implements."""

    @property
    def status(self) -> str: ...  # noqa: D102 - as there
    @property
    def outcome(self) -> str: ...  # noqa: D102
    @property
    def run(self) -> str: ...  # noqa: D102
    @property
    def world_size(self) -> int: ...  # noqa: D102
    @property
    def findings(self) -> Sequence[Any]: ...  # noqa: D102
    @property
    def ranks(self) -> Sequence[Any]: ...  # noqa: D102
    def rows(self) -> list[Row]: ...  # noqa: D102
    def rank_rows(self) -> list[Row]: ...  # noqa: D102


class Tabular:
    """The methods of an alignment for notebooks."""

    __slots__ = ()

    def rows(self: Answer) -> list[Row]:
        """One flat dict per finding, the root cause first; lists of ranks are text: ``0,2``."""
        return [
            {
                "run": self.run,
                "status": self.status,
                "world_size": self.world_size,
                "finding": n,
                "kind": finding.kind,
                "severity": finding.severity,
                "caused_by": finding.caused_by,
                "group": finding.group.name if finding.group is not None else None,
                "group_description": finding.group.description if finding.group else None,
                "seq": finding.seq,
                "suspects": _joined(finding.suspects),
                "ranks": _joined(rank for side in finding.sides for rank in side.ranks),
                "ops": _joined(dict.fromkeys(s.call.op for s in finding.sides if s.call)),
                "sites": _joined(
                    dict.fromkeys(s.call.site for s in finding.sides if s.call and s.call.site)
                ),
                "headline": finding.headline,
                "cause": finding.cause,
                "fix": finding.fix,
            }
            for n, finding in enumerate(self.findings)
        ]

    def rank_rows(self: Answer) -> list[Row]:
        """One flat dict per rank: what it was doing, and its last call; ``held`` is in seconds."""
        return [
            {
                "run": self.run,
                "rank": rank.rank,
                "state": rank.state,
                "ended": rank.ended,
                "held": rank.held,
                "detail": rank.detail,
                "last_op": rank.last_call.op if rank.last_call is not None else None,
                "last_group": rank.last_call.group if rank.last_call is not None else None,
                "last_seq": rank.last_call.seq if rank.last_call is not None else None,
                "last_site": rank.last_call.site if rank.last_call is not None else None,
            }
            for rank in self.ranks
        ]

    def __str__(self: Answer) -> str:
        """The verdict, and a line for each finding: what ``print`` shows."""
        ranks = f"{self.world_size} rank{'s' * (self.world_size != 1)}"
        lines = [f"{self.outcome}: {ranks}, run {clean(self.run)}"]
        for finding in self.findings[:_MOST_LINES]:
            code = f"[{clean(finding.code)}]" if finding.code else ""
            lines.append(f"{finding.severity}{code}: {clean(finding.headline)}")
        more = len(self.findings) - _MOST_LINES
        return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])])

    def _repr_html_(self: Answer) -> str:
        """Return what a notebook shows: the verdict, the findings, the ranks."""
        colour = _COLOURS.get(self.outcome, "inherit")
        found = [
            {"severity": row["severity"], "kind": row["kind"], "call": row["seq"],
             "suspects": row["suspects"], "what": row["headline"], "fix": row["fix"]}
            for row in self.rows()
        ]  # fmt: skip
        doing = [
            {"rank": row["rank"], "state": row["state"], "detail": row["detail"],
             "last call": row["last_op"], "seq": row["last_seq"], "line": row["last_site"]}
            for row in self.rank_rows()
        ]  # fmt: skip
        ranks = f"{self.world_size} rank{'s' * (self.world_size != 1)}"
        return (
            f'<div><strong style="color:{colour}">{escape(self.outcome)}</strong> '
            f"{_safe(self.run)}, {ranks}{_table(found)}"
            f"<details><summary>ranks</summary>{_table(doing)}</details></div>"
        )


def _joined(parts: Iterable[object]) -> str:
    return ",".join(map(str, parts))


def _safe(value: Value) -> str:
    return "" if value is None else escape(clean(str(value)))


def _table(rows: Sequence[Mapping[str, Value]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{_safe(name)}</th>" for name in rows[0])
    body = "".join(
        f"<tr>{''.join(f'<td>{_safe(value)}</td>' for value in row.values())}</tr>"
        for row in rows[:_MOST_ROWS]
    )
    more = len(rows) - _MOST_ROWS
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"
