"""Run the whole diagnosis: read, compare, judge, explain."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Final

from collectrace import words
from collectrace.align.causes import explain
from collectrace.align.excerpts import build as excerpts
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, build
from collectrace.align.judging.judge import MOST_OF_A_KIND, first_of_each_kind, judge
from collectrace.align.judging.reach import incomplete_logs
from collectrace.align.matching.compare import compare
from collectrace.align.matching.comparison import Comparison, Unclear
from collectrace.align.observations import lost_lines, omitted_values
from collectrace.align.observations.collect import information
from collectrace.align.overview import build as overview
from collectrace.align.ranks.detail import detail
from collectrace.align.ranks.standing import Standing
from collectrace.align.reading import run_reader
from collectrace.align.reading.evidence import RankLog, RunEvidence
from collectrace.align.reading.job import describe
from collectrace.align.reading.source import Folder
from collectrace.errors import CollectraceError
from collectrace.findings import (
    KINDS,
    Alignment,
    BlindSpot,
    Evidence,
    Finding,
    GroupInfo,
    RankState,
    Severity,
    Status,
)
from collectrace.internal import Faults

CONTEXT: Final = 6
"""Rows shown before and after a difference."""

_MOST_ATTEMPTS: Final = 2
"""Earlier attempts that are described."""

_DEFAULT: Final = ("default", "the default group", words.DEFAULT_GROUP)
"""User names for the group of all ranks, which torch calls 0 and default_pg."""

_SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")


def align(
    path: str | os.PathLike[str] | Folder,
    *,
    run: str | None = None,
    full: bool = False,
    group: str | None = None,
    context: int = CONTEXT,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    executor: Executor | None = None,
) -> Alignment:
    """Find the first point where the ranks of a run diverge.

    Args:
        path: a log_dir, or the folder of one run, or a URL of either that fsspec understands; a
            rank file, which represents its run, or a ``.tar.gz`` of a folder; or a folder that is
            open already, see ``reading.through_store``.
        run: which run, by its id; the latest by default.
        full: read every line, however large the logs are.
        group: look at this process group only, by its name or description.
        context: rows to show before and after a difference.
        strict: warnings count: the exit status of an aligned run with a warning is 1.
        progress: called repeatedly with the bytes that are done, and their total.
        executor: reads the rank files, 256 at a time, such as a ``ProcessPoolExecutor`` or Dask's
            ``client.get_executor()``. Its processes must see the files under the same path.

    Raises:
        LogError: the logs cannot be used at all: missing, not readable, not rank files.
        CollectraceError: no group has this name.

    """
    evidence = run_reader.read(path, run, full, on_progress=progress, executor=executor)
    comparison = compared(evidence)
    if group is not None:
        comparison = _only(comparison, group)
    alignment = judged(comparison, context)
    earlier = comparison.evidence.earlier
    if alignment.job is not None and earlier:
        faults = Faults()
        told = tuple(
            faults.attempt("earlier", f"{run}: its end is not known", _attempt, path, run)
            for run in earlier[-_MOST_ATTEMPTS:]
        )
        alignment = replace(
            alignment,
            job=replace(alignment.job, earlier=told),
            internal_errors=(*(alignment.internal_errors or ()), *faults.found) or None,
        )
    return replace(alignment, strict=True) if strict else alignment


def _attempt(path: str | os.PathLike[str] | Folder, run: str) -> str:
    """Return how an earlier attempt of the job ended."""
    try:
        before = judged(compared(run_reader.read(path, run)), 0)
    except CollectraceError:
        return f"{run} left no log that can be read"
    number = before.job.attempt if before.job is not None else 1
    wrong = next((f.headline for f in before.findings if f.severity != "info"), before.outcome)
    return f"attempt {number} ended: {wrong} (--run {run})"


def compared(evidence: RunEvidence) -> Comparison:
    """Return the differences between ranks, reading whole logs where parts are not enough."""
    while True:
        try:
            return compare(evidence)
        except Unclear as unclear:
            if evidence.read_whole is None:
                raise
            whole = evidence.read_whole(unclear.ranks)
            evidence = replace(whole, cut=evidence.cut, still_exists=evidence.still_exists)


def judged(comparison: Comparison, context: int = CONTEXT, *, brief: bool = False) -> Alignment:
    """Judge and explain a comparison.

    ``brief``: without observations and excerpts.
    """
    case, evidence = build(comparison), comparison.evidence
    candidates = judge(case)
    findings = explain.findings(case, candidates, context)
    if not brief:
        told = first_of_each_kind(case, information(case, candidates), attrgetter("kind"))
        findings = _merge(findings, told)
        findings = excerpts.add_excerpts(case, findings, case.program)
    ranks = tuple(_rank_state(case, standing) for standing in case.standings.values())
    job = case.faults.attempt("overview", None, describe, evidence.logs)
    lost = case.faults.attempt("observations", (), lost_lines.notes, comparison)
    logs = evidence.logs.values()
    lost = (*lost, *case.faults.attempt("observations", (), omitted_values.notes, logs, findings))
    return Alignment(
        status=_status(case, candidates),
        run=evidence.run,
        world_size=evidence.world_size,
        findings=tuple(findings),
        ranks=ranks,
        evidence=Evidence(
            agreed=sum(comparison.agreed.values())
            - sum(min(window.first - 1, window.last) for window in comparison.windows),
            messages=sum(comparison.messages.values()),
            other_lines=tuple(comparison.other_lines) or None,
            blind_spots=_blind_spots(evidence) or None,
            missing_ranks=evidence.missing,
            damaged_lines=evidence.damaged_lines,
            dropped=sum(log.dropped for log in logs),
            notes=(
                *evidence.notes,
                *lost,
                *_left_out(case),
                *evidence.source_files.notes,
            ),
            imported=tuple(dict.fromkeys(log.imported.tool for log in logs if log.imported))
            or None,
            other_runs=evidence.other_runs or None,
        ),
        job=job,
        internal_errors=case.faults.found or None,
        overview=partial(overview, case),
    )


def _merge(findings: list[Finding], more: list[Finding]) -> list[Finding]:
    """Return findings by severity, in the given order; consequences stay after their cause."""
    chunks: list[list[int]] = []
    for n, finding in enumerate(findings):
        if finding.caused_by is None:
            chunks.append([])
        chunks[-1].append(n)
    out: list[Finding] = []
    moved: dict[int, int] = {}
    for severity in _SEVERITIES:
        for chunk in chunks:
            if findings[chunk[0]].severity == severity:
                for n in chunk:
                    moved[n] = len(out)
                    out.append(findings[n])
        out += [finding for finding in more if finding.severity == severity]
    return [f if f.caused_by is None else replace(f, caused_by=moved[f.caused_by]) for f in out]


def _status(case: Case, candidates: list[Candidate]) -> Status:
    errors = {KINDS[c.kind].status for c in candidates if c.severity == "error"}
    if errors:
        return "diverged" if "diverged" in errors else "hung"
    return "aligned" if _is_complete(case, candidates) else "unknown"


def _is_complete(case: Case, candidates: list[Candidate]) -> bool:
    """Return whether the evidence shows that all is well.

    Every log must have its end, and every call its line, or digests that replace it.
    """
    conflicts = (c for c in case.comparison.conflicts if not c.harmless)
    disputed = bool(case.evidence.disputed or case.evidence.without_members) or any(conflicts)
    is_judged = all(KINDS[kind].family == "information" for kind in case.left_out)
    if (
        disputed
        or not is_judged
        or incomplete_logs(case)
        or any(c.severity == "info" for c in candidates)
    ):
        return False
    is_apart = any(window.first > window.last for window in case.comparison.windows)
    if case.comparison.unproven or is_apart:
        return False
    return not case.evidence.missing and all(
        s.log is not None and not s.log.provisional and not _ended_by_peer(s)
        and (s.complete or _had_completed(s.log, s))
        for s in case.standings.values()
    )  # fmt: skip


def _left_out(case: Case) -> Iterator[str]:
    for kind, count in sorted(case.left_out.items()):
        yield (
            f"{count} more findings of the kind {kind} are left out: of each kind at most "
            f"{MOST_OF_A_KIND} are told"
        )


def _had_completed(log: RankLog, standing: Standing) -> bool:
    """Return whether a rank without a last line had completed all its calls when it was ended.

    Launchers that kill their workers when all is done, such as Ray, end them so.
    """
    if standing.ended == "alive" or standing.state not in ("busy", "running"):
        return False
    # Without any call, nothing shows that none is lost.
    return bool(log.counts) and all(
        (done := log.dones.get(key)) is not None and done.seq >= last
        for key, last in log.counts.items()
    )


def _ended_by_peer(standing: Standing) -> bool:
    """Return whether a peer's failure ended the rank: what it was doing is not known."""
    return standing.state == "raised" and standing.by_peers


def _rank_state(case: Case, standing: Standing) -> RankState:
    return RankState(
        rank=standing.rank,
        state=standing.state,
        ended=standing.ended,
        last_call=standing.last_call,
        detail=case.faults.attempt("overview", "", detail, standing),
        held=_held(standing),
    )


def _blind_spots(evidence: RunEvidence) -> tuple[BlindSpot, ...]:
    found: dict[tuple[str, str, str], list[int]] = {}
    for rank, log in evidence.logs.items():
        for blind in log.blind:
            found.setdefault((blind.name, blind.how, blind.what), []).append(rank)
    return tuple(
        BlindSpot(name=name, ranks=tuple(sorted(ranks)), how=how, what=what)
        for (name, how, what), ranks in sorted(found.items())
    )


def _held(standing: Standing) -> float | None:
    """Return the seconds of a rank's longest wait, or since its last call."""
    since = min((w.since for w in standing.waiting), default=standing.last_issued)
    return None if since is None else max(0, standing.end - since) / 1e9


def groups_named(groups: Mapping[str, GroupInfo], wanted: str) -> set[str]:
    """Return the names of groups with a given name or description: one, or all of the description.

    Raises:
        CollectraceError: there is none.

    """

    def fits(info: GroupInfo) -> bool:
        is_default = words.group(info) == words.DEFAULT_GROUP
        return wanted in (info.name, info.description) or (is_default and wanted in _DEFAULT)

    names = {name for name, info in groups.items() if fits(info)}
    if not names:
        known = ", ".join(
            "default" if words.group(g) == words.DEFAULT_GROUP
            else f"{g.name} ({g.description})" if g.description else g.name
            for g in groups.values()
        )  # fmt: skip
        raise CollectraceError(f"no group {wanted!r} in this run. Its groups: {known or 'none'}.")
    return names


def _only(comparison: Comparison, wanted: str) -> Comparison:
    """Return the part of a comparison on one group, or on all of one description."""
    names = groups_named(comparison.groups, wanted)
    return replace(
        comparison,
        divergences=tuple(d for d in comparison.divergences if d.stream.group in names),
        warnings=tuple(d for d in comparison.warnings if d.stream.group in names),
        channels=tuple(c for c in comparison.channels if c.channel.group in names),
        conflicts=tuple(c for c in comparison.conflicts if c.name in names),
        other_lines=tuple(o for o in comparison.other_lines if o.group in names),
        agreed={key: n for key, n in comparison.agreed.items() if key.group in names},
        messages={name: n for name, n in comparison.messages.items() if name in names},
        unproven=tuple(
            one for one in comparison.unproven if one.key is None or one.key.group in names
        ),
        bridged={key: gaps for key, gaps in comparison.bridged.items() if key.group in names},
        windows=tuple(one for one in comparison.windows if one.group.name in names),
    )
