"""The answer as one JSON object, for programs.

Its fields are a contract: some may be added, none may change (``findings.FORMAT`` says which
version it is).
"""

from __future__ import annotations

import json
from typing import Any

from collectrace.findings import (
    FORMAT,
    Alignment,
    Evidence,
    Finding,
    GroupInfo,
    RankState,
    Side,
    Table,
)
from collectrace.records import Call, to_dict


def dumps(alignment: Alignment) -> str:
    """One JSON object and a newline, in ASCII: whatever a log says, any stream can take it."""
    return json.dumps(as_dict(alignment), indent=1) + "\n"


def as_dict(alignment: Alignment) -> dict[str, Any]:
    """The whole answer in plain values."""
    return {
        "format": FORMAT,
        "status": alignment.status,
        "run": alignment.run,
        "world_size": alignment.world_size,
        "findings": [_finding(finding) for finding in alignment.findings],
        "ranks": [_rank(rank) for rank in alignment.ranks],
        "evidence": _evidence(alignment.evidence),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "caused_by": finding.caused_by,
        "group": None if finding.group is None else _group(finding.group),
        "seq": finding.seq,
        "sides": [_side(side) for side in finding.sides],
        "suspects": list(finding.suspects),
        "headline": finding.headline,
        "cause": finding.cause,
        "fix": finding.fix,
        "notes": list(finding.notes),
        "table": None if finding.table is None else _table(finding.table),
        "sources": [{"site": line.site, "text": line.text} for line in finding.sources],
    }


def _group(group: GroupInfo) -> dict[str, Any]:
    return {
        "name": group.name,
        "description": group.description,
        "backend": group.backend,
        "ranks": list(group.ranks),
    }


def _side(side: Side) -> dict[str, Any]:
    told = {"ranks": list(side.ranks), "call": _call(side.call), "state": side.state}
    return told if side.site is None else told | {"site": side.site}


def _table(table: Table) -> dict[str, Any]:
    return {
        "columns": [list(column) for column in table.columns],
        "rows": [
            {"seq": row.seq, "mark": row.mark, "cells": [_call(cell) for cell in row.cells]}
            for row in table.rows
        ],
    }


def _rank(rank: RankState) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "state": rank.state,
        "ended": rank.ended,
        "last_call": _call(rank.last_call),
        "detail": rank.detail,
        "held": rank.held,
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "agreed": evidence.agreed,
        "missing_ranks": list(evidence.missing_ranks),
        "damaged_lines": evidence.damaged_lines,
        "dropped": evidence.dropped,
        "notes": list(evidence.notes),
    }


def _call(call: Call | None) -> dict[str, Any] | None:
    return None if call is None else to_dict(call)
