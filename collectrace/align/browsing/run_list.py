"""List the runs of a folder, each with its verdict."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from collectrace.align.alignment import align
from collectrace.align.reading import run_reader
from collectrace.align.reading.hosts import hosts_missing
from collectrace.align.reading.run_reader import each_run
from collectrace.errors import LogError
from collectrace.findings import Alignment
from collectrace.views import RunRow


def list_runs(path: str | os.PathLike[str]) -> Iterator[RunRow]:
    """Yield the runs below a folder, the newest first; each is aligned when it is yielded.

    Raises:
        LogError: there is nothing that can be used.

    """
    for run, folder in each_run(path):
        try:
            yield row(align(folder, run=run))
        except LogError as problem:
            yield RunRow(run=run, verdict="unreadable", headline=str(problem))


def row(alignment: Alignment) -> RunRow:
    """Return the row of a run in the list."""
    job = alignment.job
    telling = (f.headline for f in alignment.findings if f.severity != "info")
    return RunRow(
        run=alignment.run,
        began=job.began if job is not None else None,
        ended=job.ended if job is not None else None,
        is_alive=any(rank.ended == "alive" for rank in alignment.ranks),
        script=job.script if job is not None else "",
        hosts=job.hosts if job is not None else (),
        world_size=alignment.world_size,
        missing_ranks=alignment.evidence.missing_ranks,
        verdict=alignment.outcome,
        headline=next(telling, ""),
    )


@dataclass(frozen=True, slots=True)
class Presence:
    """The ranks of a run that left a file, and those that did not."""

    run: str
    world_size: int
    ranks: tuple[int, ...]
    missing: tuple[int, ...]
    hosts_missing: str
    """Continues a list of the missing ranks: which whole hosts they are; empty if they are not."""


def presence(path: str | os.PathLike[str]) -> Presence:
    """Return which ranks of the newest run left a file.

    Raises:
        LogError: there is nothing that can be used.

    """
    evidence = run_reader.read(path)
    return Presence(
        evidence.run,
        evidence.world_size,
        tuple(sorted(evidence.logs)),
        evidence.missing,
        hosts_missing(evidence),
    )
