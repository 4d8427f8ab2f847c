"""Metrics of a running job in the text format of Prometheus, version 0.0.4.

For node_exporter's textfile collector, or any agent that reads such files. The format is described
at https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from collectrace import words
from collectrace.findings import EXIT_STATUS, Alignment
from collectrace.report import text
from collectrace.views import StreamPosition

OUTCOMES: Final = (*EXIT_STATUS, "crashed")

_HELP: Final = {
    "collectrace_verdict": "1 for the verdict of the logs so far, 0 for all others.",
    "collectrace_world_size": "Ranks in the job.",
    "collectrace_findings": "Findings so far, by severity.",
    "collectrace_ranks": "Ranks by what they are doing.",
    "collectrace_pending_seconds": "How long a rank has been in what it waits for; 0: it does not.",
    "collectrace_last_seq": "Number of the last collective that a rank issued, per group.",
    "collectrace_agreed_seq": "Number of the last collective on which all ranks of a group agree.",
    "collectrace_agreed_collectives": "Collectives on which all ranks agree, over all groups.",
    "collectrace_last_line_timestamp_seconds": "When the last line of any rank was written.",
}


def write(alignment: Alignment, positions: Sequence[StreamPosition], out: TextIO) -> None:
    """Write every metric, all of them gauges.

    Args:
        alignment: the findings and states of the run.
        positions: the last call of each rank in each of its streams.
        out: the stream to write to.

    """
    run = ("run", alignment.run)
    samples: dict[str, Iterator[str]] = {
        "collectrace_verdict": (
            _labels(run, ("verdict", one)) + f" {int(alignment.outcome == one)}" for one in OUTCOMES
        ),
        "collectrace_world_size": iter([f"{_labels(run)} {alignment.world_size}"]),
        "collectrace_findings": _findings(alignment),
        "collectrace_ranks": _states(alignment),
        "collectrace_pending_seconds": (
            _labels(run, ("rank", str(rank.rank)))
            + f" {(rank.held or 0.0) if rank.state == 'blocked' else 0.0:.3f}"
            for rank in alignment.ranks
        ),
        "collectrace_last_seq": (
            _labels(run, ("rank", str(one.rank)), *_stream(one)) + f" {one.seq}"
            for one in positions
            if one.rank is not None
        ),
        "collectrace_agreed_seq": (
            _labels(run, *_stream(one)) + f" {one.seq}" for one in positions if one.rank is None
        ),
        "collectrace_agreed_collectives": iter([f"{_labels(run)} {alignment.evidence.agreed}"]),
        "collectrace_last_line_timestamp_seconds": (
            f"{_labels(run)} {alignment.job.ended / 1e9:.3f}"
            for _ in range(1)
            if alignment.job is not None and alignment.job.ended is not None
        ),
    }
    for name, lines in samples.items():
        out.write(f"# HELP {name} {_HELP[name]}\n# TYPE {name} gauge\n")
        out.writelines(f"{name}{line}\n" for line in lines)


def _findings(alignment: Alignment) -> Iterator[str]:
    counted = Counter(finding.severity for finding in alignment.findings)
    for severity in ("error", "warning", "info"):
        labels = _labels(("run", alignment.run), ("severity", severity))
        yield f"{labels} {counted[severity]}"


def _states(alignment: Alignment) -> Iterator[str]:
    counted = Counter(rank.state for rank in alignment.ranks)
    for state in text.STATES:
        yield f"{_labels(('run', alignment.run), ('state', state))} {counted[state]}"


def _stream(one: StreamPosition) -> tuple[tuple[str, str], ...]:
    """Return a stream's labels, with the group's name: many groups may share a description."""
    return ("group", one.group.name), ("of", words.group(one.group)), ("device", one.device)


def _labels(*pairs: tuple[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}"


def _escaped(value: str) -> str:
    r"""Return a label's value with backslash, quote and line break as ``\\``, ``\"``, ``\n``."""
    shown = text.clean(value, lines=True)
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
