"""Logs whose verdict is known: recorded runs and their correct twins, made-up runs, dumps."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from collectrace.align.reading import source
from tests.support import flight_cases, mutations
from tests.support.flight_cases import FlightCase
from tests.support.synthetic import Run
from tests.zoo import corpus, neutral
from tests.zoo.case import Case, collection

Files = Mapping[str, bytes]
"""A log folder, by path."""

_KEPT: Final = ("finding ", "record ", "file ", "state ", "exit ", "op ")
"""Features of recorded runs of which each occurs in a sample."""

_HERE: Final = b"/repository"
"""Where the program of a recorded run lay."""

DUMPS: Final = (
    "rank 0 alone issues another op", "a rank never enqueued the call",
    "a send that nobody receives", "healthy: plain", "healthy: wrapped", "healthy: batch",
)  # fmt: skip
"""Jobs of which there are Flight Recorder dumps, and the same converted to rank files."""


@dataclass(frozen=True)
class Sample:
    """A log, and whom an answer about it may blame."""

    name: str
    files: Files
    guilty: frozenset[int] = frozenset()
    """Ranks that are wrong, by the header of the recorded script."""


def names() -> list[str]:
    """Return the names of all samples, in an order that does not change."""
    made = [f"made/{sample.name}" for sample in _made()]
    dumps = [f"{kind}/{name}" for kind in ("dump", "converted") for name in DUMPS]
    return [*_recorded(), *made, *dumps]


@cache
def load(name: str) -> Sample:
    """Return a sample by its name."""
    kind, _, rest = name.partition("/")
    if kind == "made":
        return next(_of_run(f"made/{s.name}", s.run, s.guilty) for s in _made() if s.name == rest)
    if kind == "small":
        return next(_of_run(f"small/{n}", run) for n, run in _small() if n == rest)
    if kind in ("dump", "converted"):
        case = next(case for case in flight_cases.CASES if case.name == rest)
        return Sample(name, _dump(case, kind), frozenset(case.suspects or ()))
    return _unpacked(name)


def small() -> list[str]:
    """Return the names of the samples that are cut at every byte: a small one of each kind."""
    return [*(f"small/{name}" for name, _ in _small()), "dump/a send that nobody receives"]


# -- recorded --------------------------------------------------------------------------------


@cache
def _recorded() -> tuple[str, ...]:
    """Return the smallest recordings that have every feature, and their twins."""
    entries = corpus.index()
    sizes = {name: entry.path.stat().st_size for name, entry in entries.items()}
    having: dict[str, list[str]] = {}
    for name, entry in entries.items():
        for feature in entry.features:
            if feature.startswith(_KEPT) and not entry.living:
                having.setdefault(feature, []).append(name)
    chosen: dict[str, None] = {}
    for feature in sorted(having, key=lambda feature: (len(having[feature]), feature)):
        if not any(name in chosen for name in having[feature]):
            script = min(having[feature], key=lambda name: (sizes[name], name))
            script = script.removesuffix(".twin")
            chosen |= {n: None for n in (script, f"{script}.twin") if n in entries}
    return tuple(chosen)


@cache
def _cases() -> dict[str, Case]:
    return {case.name: case for case in collection()}


def _unpacked(name: str) -> Sample:
    entry = corpus.index()[name]
    case = _cases()[name.removesuffix(".twin")]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        logs = corpus.logs_of(corpus.unpack(entry.files(), Path(folder)))
        root = f"{folder}/files".encode()
    files = {name: text.replace(root, _HERE) for name, text in logs.items()}
    assert neutral.REPOSITORY not in b"".join(files.values())
    return Sample(name, files, frozenset() if entry.twin else frozenset(case.suspects))


# -- made up ---------------------------------------------------------------------------------


@cache
def _made() -> tuple[mutations.Sample, ...]:
    return (*mutations.healthy(), *mutations.different())


def _of_run(name: str, run: Run, guilty: frozenset[int] | None = None) -> Sample:
    files = mutations.Sample(name, run).files()
    return Sample(name, {f"run-1/{n}": data for n, data in files.items()}, guilty or frozenset())


def _small() -> Iterator[tuple[str, Run]]:
    """Two ranks and a few calls of each kind."""
    for what in ("calls", "missing", "differs", "messages", "hung message", "rotated"):
        is_rotated = what == "rotated"
        run = Run(2, checkpoint=300, segment=1500, keep=3) if is_rotated else Run(2)
        for rank in run:
            for n in range(20 if is_rotated else 2):
                if what.endswith("messages"):
                    rank.send(1 - rank.rank, shape=[n + 1])
                    rank.recv(1 - rank.rank, shape=[n + 1])
                rank.call("all_reduce", shape=[4 + (what == "differs") * n * rank.rank])
            if what == "missing" and rank.rank == 0:
                rank.stuck_in(rank.call("barrier"))
            elif what == "hung message" and rank.rank == 0:
                rank.stuck_in(rank.recv(1))
            else:
                rank.exit()
        yield what, run


# -- dumps of another tool -------------------------------------------------------------------


def _dump(case: FlightCase, kind: str) -> Files:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = case.build().write(Path(name) / "logs", form="json", without=case.without)
        if kind == "dump":
            return corpus.logs_of(folder)
        blobs = source.open_folder(folder).files
        return {str(PurePosixPath("run") / blob.name): blob.read(0, blob.size) for blob in blobs}
