"""One input of the fuzzer: a sample, what is done to it, and what is said of it then."""

from __future__ import annotations

import gzip
import io
import random
import resource
import shutil
import signal
import tarfile
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from collectrace.align.alignment import align, compared, judged
from collectrace.align.reading import run_reader
from collectrace.errors import CollectraceError
from collectrace.report import REPORTS
from tools.fuzz_parts import answers, samples
from tools.fuzz_parts.answers import Answer, Class, Harm
from tools.fuzz_parts.edits import EDITS, WEIGHTS
from tools.fuzz_parts.log import Log, rank_of

SECONDS: Final = 20
BYTES: Final = 1 << 30
"""More memory than an answer may take beside what the fuzzer has."""

Packing = str
"""``folder``, ``gz`` (each file), ``tar`` or ``tar.gz``."""

_MEMORY: Final = Path("/dev/shm")
_SHOWN: Final = {"machine": 1, "page": 64}
"""Of how many inputs one is shown in a report, by its module: making a page takes long."""
_USUAL: Final = 8


@dataclass(frozen=True)
class Step:
    """One edit, and the seed of what it chooses."""

    kind: str
    number: int
    seed: int


@dataclass(frozen=True)
class Input:
    """What is done to which sample, and how it is read."""

    sample: str
    steps: tuple[Step, ...]
    packing: Packing = "folder"
    damage: int | None = None
    """Seed of what happens to the packed file."""
    skimmed: bool = False
    number: int = 0
    """Chooses the reports in which it is shown."""
    cut: tuple[str, int] | None = None
    """A file, and the byte that it is cut at."""

    @property
    def kind(self) -> str:
        """What is counted together."""
        if self.damage is not None:
            return "archives"
        if self.cut is not None:
            return "cut at a byte"
        return self.steps[0].kind if len(self.steps) == 1 else "several"


@dataclass(frozen=True)
class Outcome:
    """What became of an input."""

    kind: str
    found: Class
    failure: str | None = None
    told: Sequence[str] = ()
    """What was done to the log."""


def make(seed: int, n: int) -> Input:
    """Return the n-th input of a seed."""
    random_ = random.Random(f"{seed} {n}")
    steps = []
    for _ in range(random_.choices((1, 2, 4), (80, 14, 6))[0]):
        kind = random_.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        steps.append(Step(kind, random_.randrange(len(EDITS[kind])), random_.getrandbits(32)))
    packing = random_.choices(("folder", "gz", "tar", "tar.gz"), (88, 4, 4, 4))[0]
    damage = random_.getrandbits(32) if packing != "folder" and random_.random() < 0.6 else None
    return Input(
        sample=random_.choice(samples.names()),
        steps=() if damage is not None else tuple(steps),
        packing=packing,
        damage=damage,
        skimmed=random_.random() < 0.25,
        number=n,
    )


def cuts(stride: int = 1) -> Iterator[Input]:
    """Yield a small log of each kind, cut at every byte, or at one of ``stride``."""
    number = 0
    for name in samples.small():
        for path, data in samples.load(name).files.items():
            for at in range(len(name) % stride, len(data), stride):
                number += 1
                yield Input(name, (), number=number, cut=(path, at))


def harmed(one: Input) -> tuple[Log, list[str]]:
    """Return the harmed log of an input, and what was done."""
    log, told = Log(samples.load(one.sample).files), []
    if one.cut is not None:
        log.files[one.cut[0]] = log.files[one.cut[0]][: one.cut[1]]
    for step in one.steps:
        edit = EDITS[step.kind][step.number]
        what = edit(log, random.Random(step.seed))
        told.append(f"{edit.__name__}: {what or 'nothing'}")
    return log, told


# -- laying out ------------------------------------------------------------------------------


def lay_out(files: Mapping[str, bytes], folder: Path, packing: Packing, damage: int | None) -> Path:
    """Write a log, packed as an input says; return what is to be aligned."""
    random_ = random.Random(damage)

    def harmful(data: bytes) -> bytes:
        return data if damage is None else _damaged(data, random_)

    if packing.startswith("tar"):
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w") as archive:
            for name, data in files.items():
                member = tarfile.TarInfo(f"logs/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        whole = plain.getvalue()
        path = folder / f"logs.{packing}"
        path.write_bytes(harmful(gzip.compress(whole, 1) if packing == "tar.gz" else whole))
        return path
    hurt = random_.choice([*files]) if files and damage is not None else None
    logs = folder / "logs"
    logs.mkdir()
    for name, data in files.items():
        path = logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if packing == "gz" and name.endswith(".jsonl"):
            data = gzip.compress(data, 1)
            path = path.with_name(f"{path.name}.gz")
        path.write_bytes(harmful(data) if name == hurt else data)
    return logs


def _damaged(data: bytes, random_: random.Random) -> bytes:
    at = random_.randrange(len(data)) if data else 0
    other = bytes([random_.randrange(256)])
    return random_.choice((
        data[:at], data[:at] + other + data[at + 1 :], data[:at] + bytes(64) + data[at + 64 :],
        data[:at] + data[at + 1 :], data + data[at:],
    ))  # fmt: skip


# -- judging ---------------------------------------------------------------------------------


class TooLong(BaseException):
    """An answer took more than ``SECONDS``."""


@contextmanager
def bounded() -> Iterator[None]:
    """Raise what ends an answer that takes too long; memory is bounded by :func:`bound_memory`."""

    def give_up(_: int, __: FrameType | None) -> NoReturn:
        raise TooLong

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def bound_memory() -> None:
    """Let this process have ``BYTES`` more than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def answer(path: Path, *, skimmed: bool = False, number: int = 0) -> Answer:
    """Return what is said of a log, and the reports of it."""
    try:
        if skimmed:
            alignment = judged(compared(run_reader.read(path, small=0, page=256)))
        else:
            alignment = align(path)
    except CollectraceError:
        return Answer(None)
    reports = {}
    for report in {report.module: report for report in REPORTS}.values():
        if not number % _SHOWN.get(report.module, _USUAL):
            out = io.StringIO()
            report.write(alignment, out)
            text = reports[report.module] = out.getvalue()
            text.encode()
    return Answer(alignment, reports)


@cache
def baseline(sample: str) -> Answer:
    """Return what is said of a sample as it was."""
    with _folder() as folder:
        path = lay_out(samples.load(sample).files, folder, "folder", None)
        return replace(answer(path), reports={})


@contextmanager
def _folder() -> Iterator[Path]:
    base = _MEMORY if _MEMORY.is_dir() else None
    name = Path(tempfile.mkdtemp(prefix="fuzz-", dir=base))
    try:
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)


def judge(one: Input) -> Outcome:
    """Return what becomes of an input."""
    log, told = harmed(one)
    return judge_log(one, log, told)


def judge_log(one: Input, log: Log, told: Sequence[str] = ()) -> Outcome:
    """Return what becomes of an input whose log was harmed already."""
    sample, base = samples.load(one.sample), baseline(one.sample)
    done = answers.harm(sample.files, log)
    if one.damage is not None:
        # What was unpacked before the damage was noticed may be another text.
        done = Harm(lost=_ranks(log), told=_ranks(log), is_open=True)
    with _folder() as folder:
        path = lay_out(log.files, folder, one.packing, one.damage)
        try:
            with bounded():
                found = answer(path, skimmed=one.skimmed, number=one.number)
        except TooLong:
            return Outcome(one.kind, "failure", f"time: more than {SECONDS} s", told)
        except MemoryError as problem:
            return Outcome(one.kind, "failure", f"memory: {_where(problem)}", told)
        except Exception as problem:  # noqa: BLE001 - that is what is looked for
            return Outcome(one.kind, "failure", f"traceback: {_where(problem)}", told)
    wrong = answers.failure(base, sample.guilty, done, found)
    return Outcome(
        one.kind,
        "failure" if wrong else answers.kind(base, done, found, sample.guilty),
        wrong,
        told,
    )


def _ranks(log: Log) -> set[int]:
    return {rank for path in log.files if (rank := rank_of(path)) is not None}


def _where(problem: BaseException) -> str:
    frames = traceback.extract_tb(problem.__traceback__)
    own = [f for f in frames if "/collectrace/" in f.filename] or list(frames)
    place = f"{own[-1].filename.rpartition('/collectrace/')[2]}:{own[-1].lineno}" if own else "?"
    return f"{type(problem).__name__} at {place}: {str(problem)[:100]}"


# -- making small ----------------------------------------------------------------------------


def minimised(one: Input, failure: str) -> tuple[Input, Log]:
    """Return an input with the fewest edits that fails alike, and its log without needless lines.

    Lines are left out only if the failure is none of the verdict, which they are needed for.
    """

    def fails(other: Input, log: Log) -> bool:
        found = judge_log(other, log).failure
        return found is not None and _sort(found) == _sort(failure)

    for step in one.steps:
        fewer = replace(one, steps=tuple(other for other in one.steps if other is not step))
        if fails(fewer, harmed(fewer)[0]):
            one = fewer
    log = harmed(one)[0]
    if _sort(failure).startswith(("traceback", "memory", "time", "internal", "shown")):
        for path in sorted(log.files):
            _shorten(log, path, lambda: fails(one, log))
    return one, log


def _sort(failure: str) -> str:
    """Return what two failures share that are the same: their words without numbers."""
    return failure.split(": ")[0] + failure.partition(" at ")[2].partition(":")[0]


def _shorten(log: Log, path: str, fails: Callable[[], bool]) -> None:
    """Leave out as many lines of a file as can be, in halves, quarters and so on."""
    lines = log.files[path].splitlines(keepends=True)
    size = len(lines)
    while size:
        at = 0
        while at < len(lines):
            kept = lines[:at] + lines[at + size :]
            log.files[path] = b"".join(kept)
            if fails():
                lines = kept
            else:
                at += size
        size //= 2
    log.files[path] = b"".join(lines)
