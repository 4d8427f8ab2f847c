"""List the runs of a folder, each with its verdict."""

from __future__ import annotations

import os
from collections.abc import Iterator

from collectrace.align.alignment import align
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
