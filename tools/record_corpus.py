"""Record runs of the case collection into tests/corpus: those that are new or have changed.

Each script and each twin runs on real ranks. A recording is kept if its verdict, read back from
the archive, is what its header says; a run that a busy machine has spoilt is run again. What was
recorded before stays if the new run differs from it in times only.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import orjson
import torch

from collectrace.align.reading import run_reader
from collectrace.findings import Alignment
from collectrace.records import FORMAT
from tests.support import decisions
from tests.zoo import corpus, decided
from tests.zoo.corpus import Entry, Run
from tests.zoo.decided import Program
from tests.zoo.neutral import neutral, without_times
from tests.zoo.runner import Outcome, Server
from tests.zoo.verdict import Verdict

ATTEMPTS: Final = 3
"""Runs of one script, until one is as its header says."""


@dataclass(frozen=True)
class Recording:
    """A run, ready to be kept."""

    entry: Entry
    files: Mapping[str, bytes]
    problems: Sequence[str]
    """What is not as the header says, or not as the logs said before they were packed."""


Judge = Callable[[Outcome, Alignment], Sequence[str]]
"""What is wrong with an answer."""


def record(server: Server, run: Run) -> Recording:
    """Run a case, or its twin, until its recording is right, at most ``ATTEMPTS`` times."""
    return _right(server, run, lambda outcome, found: _problems(run, outcome, found))


def record_shape(server: Server, shape: str) -> Recording:
    """Run all programs of one shape, until the recording of each is right."""
    files: dict[str, bytes] = {}
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder, ThreadPoolExecutor(8) as pool:

        def one(program: Program) -> tuple[Program, Recording]:
            run = program.written(Path(folder))
            return program, _right(server, run, lambda _, found: decided.problems(program, found))

        for program, found in pool.map(one, decided.programs(shape)):
            files |= {f"{program.name}/{name}": text for name, text in found.files.items()}
            problems += [f"{program.name}: {problem}" for problem in found.problems]
    entry = Entry(
        name=decided.archive(shape), program=decided.program_hash(shape), torch=torch.__version__,
        format=FORMAT,
    )  # fmt: skip
    return Recording(entry, files, problems)


def _right(server: Server, run: Run, judge: Judge) -> Recording:
    for _ in range(ATTEMPTS):
        found = _record(server, run, judge)
        if not found.problems:
            break
    return found


def _record(server: Server, run: Run, judge: Judge) -> Recording:
    case, began = run.case, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="corpus-") as name:
        folder = Path(name)
        with server.run(case, twin=run.twin, folder=folder / "run") as outcome:
            seconds = time.monotonic() - began
            read = run_reader.read(outcome.logs)
            living = [rank for rank, log in read.logs.items() if read.still_exists(log)]
            before = _told(corpus.align(outcome.logs))
            logs = corpus.logs_of(outcome.logs)
        roots = () if case.path.is_relative_to(corpus.ROOT) else (case.path.parent,)
        logs = neutral(logs, [*roots, corpus.ROOT], folder / "run")
        files = corpus.contents(run, logs)
        read_back = corpus.align(corpus.unpack(files, folder / "read"), living)
    entry = Entry(
        name=run.name,
        program=run.program,
        torch=torch.__version__,
        format=FORMAT,
        exits=outcome.exits,
        seconds=round(seconds, 1),
        living=tuple(living),
        features=tuple(sorted({*_features(logs, read_back)})),
    )
    problems = [*judge(outcome, read_back)]
    if before != (after := _told(read_back)):
        problems.append(f"live it was {before}, read back it is {after}")
    return Recording(entry, files, problems)


def _problems(run: Run, outcome: Outcome, found: Alignment) -> list[str]:
    verdict = Verdict(run.case, run.twin, outcome, found)
    return verdict.problems + verdict.cause_problems + verdict.fix_problems


def _told(alignment: Alignment) -> list[object]:
    """What a reader acts on."""
    findings = [(f.kind, f.severity, f.suspects, f.seq) for f in alignment.findings]
    return [alignment.status, findings, [(r.rank, r.state) for r in alignment.ranks]]


def _features(logs: Mapping[str, bytes], alignment: Alignment) -> Iterator[str]:
    """What a run has an example of: what the tracer wrote, and what the aligner made of it."""
    for name, text in logs.items():
        if not name.endswith(".jsonl"):
            yield f"file {name.partition('.')[2] or name}"
            continue
        for line in text.splitlines():
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            yield f"record {record['kind']}"
            if record["kind"] == "call":
                yield f"op {record['op']}"
                yield f"role {record.get('role')}"
            if record["kind"] == "exit":
                yield f"exit {record['reason']}"
    for finding in alignment.findings:
        yield f"finding {finding.severity} {finding.kind}"
    for rank in alignment.ranks:
        yield f"state {rank.state}, {rank.ended}"
    yield f"status {alignment.status}"


# -- the folder ------------------------------------------------------------------------------


def is_current(entry: Entry | None, program: str) -> bool:
    """Whether a recording is of this very program, and of this torch and format."""
    made = (entry.program, entry.torch, entry.format) if entry is not None else None
    return made == (program, torch.__version__, FORMAT)


def keep(found: Recording, known: Entry | None) -> Entry:
    """Write a recording unless it differs from the one before in times only; its entry."""
    entry = found.entry
    if entry.name.startswith(decided.FOLDER):
        corpus.pack(entry.path, found.files)
        return entry
    packed = corpus.packed_files(entry.path) if entry.path.exists() else {}
    if known is not None:
        before = corpus.of_run(packed, known.logs)
        if without_times(before) == without_times(found.files):
            return replace(entry, seconds=known.seconds, features=known.features)
    corpus.pack(entry.path, corpus.with_run(packed, entry.logs, found.files))
    return entry


def main(argv: Sequence[str] | None = None) -> int:
    """Record, and say which recordings are not as their header says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="regular expression for names")
    parser.add_argument("--again", action="store_true", help="also what has not changed")
    parser.add_argument("--jobs", type=int, default=8, help="runs at a time; most only wait")
    options = parser.parse_args(argv)
    entries = corpus.index()
    jobs: dict[str, tuple[str, Callable[[Server], Recording]]] = {
        run.name: (run.program, partial(record, run=run)) for run in corpus.runs()
    }
    for shape in decisions.SHAPES:
        hashed = decided.program_hash(shape)
        jobs[decided.archive(shape)] = hashed, partial(record_shape, shape=shape)
    for name in entries.keys() - jobs.keys():
        gone = entries.pop(name)
        if not any(entry.path == gone.path for entry in entries.values()):
            gone.path.unlink(missing_ok=True)
    todo = [
        name
        for name, (program, _) in jobs.items()
        if re.search(options.pattern, name)
        and (options.again or not is_current(entries.get(name), program))
    ]
    wrong = []
    with Server() as server, ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(jobs[name][1], server) for name in todo]
        for n, future in enumerate(as_completed(futures), start=1):
            found = future.result()
            name = found.entry.name
            entries[name] = keep(found, entries.get(name))
            if found.problems:
                wrong.append(name)
                print(f"{name}: {'; '.join(found.problems)}", file=sys.stderr)
            if n % 50 == 0:
                corpus.write_index(entries)
                print(f"{n} of {len(todo)}", file=sys.stderr)
    corpus.write_index(entries)
    size = sum(path.stat().st_size for path in {entry.path for entry in entries.values()})
    print(f"recorded {len(todo)} of {len(jobs)} runs; all take {size:,} bytes")
    print(f"not as their headers say: {len(wrong)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
