"""Read the JSON form of a report: every communicator and every rank, without a judgement.

Source: NVIDIA/nccl v2.28.7-1 to v2.30.7-1, ``src/ras/client_support.cc``: ``rasDumpCommsToJSON``
and the ``jsonWrite...`` functions. Differences between ranks are computed here, as
``rasClientRunComms`` does for the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from collectrace.ras.report import (
    Communicator,
    Difference,
    Failed,
    InStatus,
    Launched,
    Level,
    Member,
    NotReadable,
    Place,
    Processes,
    Report,
)

_SUCCESS: Final = 0
_IN_PROGRESS: Final = 7

_ERRORS: Final = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
}
"""``ncclErrorToString``, by ``ncclResult_t`` (src/nccl.h.in)."""

_NOT_A_MEMBER: Final = "NOCOMM"

_UNKNOWN_HOST: Final = "unknown"
"""The host that RAS writes if it does not know it; the pid is -1 then."""

Row = Mapping[str, Any]


def is_one(head: bytes) -> bool:
    """Return whether a file is such a report, by its beginning (``jsonWriteHeader``)."""
    return head.lstrip()[:1] == b"{" and b'"nccl_version"' in head and b'"communicators' in head


def read(data: bytes) -> Report:
    """Read a report.

    Raises:
        NotReadable: it is cut short, damaged, or something else.

    """
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise NotReadable("is cut short, or not JSON") from None
    try:
        return _report(found)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        what = f"{type(problem).__name__}: {problem}".strip()[:100]
        raise NotReadable(f"is not a NCCL RAS report as NCCL writes it ({what})") from None


def _report(found: Row) -> Report:
    rows = list(found["communicators"])
    absent = [row for communicator in rows for row in communicator["missing_ranks"]]
    silent = [row for row in absent if row["status"]["unresponsive"]]
    ras = found.get("ras") or {}
    communicators = sorted(map(_communicator, rows), key=lambda one: -(one.size or 0))
    return Report(
        version=str(found["nccl_version"]),
        communicators=communicators,
        marked=sum(one.has_remark for one in communicators),
        communicators_in_all=int(found.get("communicators_count", len(rows))),
        dead=_processes([row for row in silent if row["status"]["considered_dead"]]),
        silent=_processes([row for row in silent if not row["status"]["considered_dead"]]),
        timeouts=int(ras.get("timeouts_count", 0)),
        seconds=float(ras["collection_time_sec"]) if "collection_time_sec" in ras else None,
    )


def _processes(rows: list[Row]) -> Processes:
    """Return the processes of ranks: one may have several communicators and GPUs."""
    gpus: dict[tuple[str, int], set[int]] = {}
    for row in rows:
        gpus.setdefault((str(row["host"]), int(row["pid"])), set()).add(int(row["cuda_dev"]))
    places = [
        Place(host, pid, ",".join(map(str, sorted(devices))))
        for (host, pid), devices in sorted(gpus.items())
        if pid >= 0
    ]
    return Processes(len(gpus), places)


def _communicator(row: Row) -> Communicator:
    ranks = sorted(row["ranks"], key=lambda rank: int(rank["rank"]))
    missing = sorted(row["missing_ranks"], key=lambda rank: int(rank["rank"]))
    gone = [_member(rank) for rank in missing if not rank["status"]["unresponsive"]]
    silent = [_member(rank) for rank in missing if rank["status"]["unresponsive"]]
    differences = _differences(ranks)
    return Communicator(
        name=f"{int(str(row['hash']), 16):016x}",
        size=int(row["size"]),
        differences=differences,
        statuses=_statuses(ranks, gone),
        failures=_failures(ranks, "init_state") + _failures(ranks, "async_error"),
        silent=Level(len(silent), silent) if silent else None,
        counts=_counts(ranks[0]) if ranks and not differences else None,
    )


def _member(row: Row) -> Member:
    host, pid = str(row["host"]), int(row["pid"])
    gpu, physical = int(row["cuda_dev"]), int(row["nvml_dev"])
    if host == _UNKNOWN_HOST or pid < 0:
        return Member(int(row["rank"]))
    device = str(gpu) if gpu == physical else f"{gpu} (NVML {physical})"
    return Member(int(row["rank"]), Place(host, pid, device))


def _counts(rank: Row) -> dict[str, int]:
    return {str(op): int(n) for op, n in rank["collective_counts"].items()}


def _differences(ranks: list[Row]) -> list[Difference]:
    counted = [(_member(rank), _counts(rank)) for rank in ranks]
    found = []
    for op in counted[0][1] if counted else ():
        by_count: dict[int, list[Member]] = {}
        for member, counts in counted:
            by_count.setdefault(counts[op], []).append(member)
        if len(by_count) > 1:
            levels = [
                Launched(len(members), members, operations)
                for operations, members in sorted(by_count.items(), reverse=True)
            ]
            found.append(Difference(op, levels))
    return found


def _status(rank: Row) -> str:
    status = rank["status"]
    if status["abort_flag"]:
        return "ABORT"
    if status["finalize_called"] or status["destroy_flag"]:
        return "FINALIZE"
    return "RUNNING" if status["init_state"] == _SUCCESS else "INIT"


def _statuses(ranks: list[Row], gone: list[Member]) -> list[InStatus]:
    found: dict[str, list[Member]] = {}
    for rank in ranks:
        found.setdefault(_status(rank), []).append(_member(rank))
    if gone:
        found[_NOT_A_MEMBER] = gone
    if len(found) < 2:
        return []
    most_first = sorted(found.items(), key=lambda item: -len(item[1]))
    return [InStatus(len(members), members, name) for name, members in most_first]


def _failures(ranks: list[Row], field: str) -> list[Failed]:
    found: dict[int, list[Member]] = {}
    for rank in ranks:
        code = int(rank["status"][field])
        if code not in (_SUCCESS, _IN_PROGRESS):
            found.setdefault(code, []).append(_member(rank))
    is_initialization = field == "init_state"
    return [
        Failed(len(members), members, _ERRORS.get(code, "Unexpected error"), is_initialization)
        for code, members in found.items()
    ]
