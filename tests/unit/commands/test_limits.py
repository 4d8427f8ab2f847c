"""Files that claim more than they hold cost no more memory and time than others."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import tarfile
import typing
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

from collectrace.align.reading import rank_records
from collectrace.align.reading.vocabulary import Vocabulary
from collectrace.records import (
    KINDS,
    Activity,
    Alive,
    FrameValues,
    KernelWait,
    Record,
    decode,
    encode,
)
from tests.support import bounded, commands, hostile_text, kind_examples
from tests.support.synthetic import Run
from tests.zoo import corpus

HUGE: Final = (3 << 30, 8 << 40)
EXABYTE: Final = 10**18


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A healthy run of two ranks."""
    run = Run(world=2)
    run.all("all_reduce")
    run.finish()
    run.write(tmp_path / "logs")
    return tmp_path / "logs" / "run-1"


# -- files of which most is a hole -----------------------------------------------------------------


@pytest.mark.parametrize(("size", "option"), [*zip(HUGE, ["--full", "--brief"], strict=True)])
def test_a_rank_file_with_a_hole_behind_its_lines(
    logs: Path, tmp_path: Path, size: int, option: str
) -> None:
    os.truncate(logs / "rank00001.jsonl", size)
    status, _, _ = bounded.run("align", logs, option, "--markdown", "a.md", cwd=tmp_path)
    assert status in (0, 3)
    assert "1 line could not be read" in (tmp_path / "a.md").read_text()


@pytest.mark.parametrize("command", ["align", "runs", "show", "diff", "doctor"])
def test_lines_on_both_sides_of_a_hole(logs: Path, tmp_path: Path, command: str) -> None:
    file = logs / "rank00001.jsonl"
    whole = file.read_bytes()
    os.truncate(file, HUGE[1])
    with file.open("ab") as out:
        out.write(whole)
    more = {"show": ["--rank", "1"], "diff": [str(logs)]}.get(command, [])
    assert bounded.run(command, logs, *more, cwd=tmp_path)[0] in (0, 1, 3)


@pytest.mark.parametrize("size", HUGE)
def test_a_packed_file_with_a_hole_behind_it(logs: Path, tmp_path: Path, size: int) -> None:
    file = logs / "rank00001.jsonl"
    sent = file.with_name("rank00001.jsonl.gz")
    sent.write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    os.truncate(sent, size)
    assert bounded.run("align", logs, cwd=tmp_path)[0] == 0


def test_gather_leaves_what_no_disk_has_room_for(logs: Path, tmp_path: Path) -> None:
    os.truncate(logs / "rank00001.jsonl", HUGE[1])
    status, told, said = bounded.run("gather", logs, "-o", "all", cwd=tmp_path)
    assert "for rank00001.jsonl (8388608 MiB)" in told + said
    assert status in (1, 2)


# -- archives --------------------------------------------------------------------------------------


def archive(logs: Path, *, name: str = "run-1/junk", kind: bytes = b"0", size: int = 0) -> bytes:
    """Two rank files, and before the second a header that claims a size."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(logs / "rank00000.jsonl", "run-1/rank00000.jsonl")
    data = out.getvalue().rstrip(b"\0")
    data += bytes(-len(data) % tarfile.BLOCKSIZE)
    odd = tarfile.TarInfo(name)
    odd.type, odd.size = kind, size
    return data + odd.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("name", ["run-1/junk", "run-1/rank00001.jsonl", "rank00001.jsonl.gz"])
@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar sparse"])
def test_a_member_that_claims_a_terabyte(
    logs: Path, tmp_path: Path, name: str, suffix: str
) -> None:
    data = archive(logs, name=name, size=1 << 40)
    sent = tmp_path / f"sent{suffix.split()[0]}"
    sent.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    if suffix.endswith("sparse"):
        os.truncate(sent, HUGE[1])
    status, told, _ = bounded.run("align", sent, cwd=tmp_path)
    assert status == 3
    assert ("is cut short or damaged" in told) == (not suffix.endswith("sparse"))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_name_of_gigabytes(logs: Path, tmp_path: Path, kind: bytes) -> None:
    sent = tmp_path / "sent.tar"
    sent.write_bytes(archive(logs, kind=kind, size=2 << 30))
    os.truncate(sent, 4 << 30)
    status, told, _ = bounded.run("align", sent, cwd=tmp_path)
    assert status == 3
    assert "sent.tar is cut short or damaged" in told


@pytest.mark.parametrize(
    "told",
    [
        b"12 path=a\n", b"x path=a\n", b"99999999999999999999 a=b\n", b"11 size=1x\n\n",
        b"30 mtime=999999999999999e999\n\n", b"22 GNU.sparse.map=a,b\n", b"20 GNU.sparse.size=x\n",
        b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n", b"12 path=\xff\xfe\n", b"\0" * 40,
        b"-1 path=a\n", b"0 path=a\n", b"9" * 5000 + b" a=b\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_global", [True, False])
def test_odd_fields_before_a_member(
    logs: Path, tmp_path: Path, told: bytes, *, is_global: bool
) -> None:
    kind = tarfile.XGLTYPE if is_global else tarfile.XHDTYPE
    data = archive(logs, kind=kind, size=len(told))
    data += told + bytes(-len(told) % tarfile.BLOCKSIZE)
    data += archive(logs)
    sent = tmp_path / "sent.tar"
    sent.write_bytes(data)
    assert commands.run("align", str(sent))[0] == 3
    sent.write_bytes(data[tarfile.BLOCKSIZE * 2 :])
    assert commands.run("align", str(sent))[0] in (2, 3)


def test_fields_before_fields(logs: Path, tmp_path: Path) -> None:
    field = b"12 path=abc\n".ljust(tarfile.BLOCKSIZE, b"\0")
    header = archive(logs, kind=tarfile.XHDTYPE, size=12)[-tarfile.BLOCKSIZE :]
    sent = tmp_path / "sent.tar"
    sent.write_bytes(archive(logs)[: -tarfile.BLOCKSIZE] + (header + field) * 3000)
    assert commands.run("align", str(sent))[0] == 3


def test_what_nobody_asked_for_may_not_unpack_for_ever(logs: Path, tmp_path: Path) -> None:
    sent = tmp_path / "sent.tar.bz2"
    zeros = bz2.compress(bytes(1 << 24))  # streams one behind the other are one
    sent.write_bytes(bz2.compress(archive(logs, size=2 << 30)) + zeros * 128)
    status, _, said = bounded.run("align", sent, cwd=tmp_path)
    assert status == 2
    assert "sent.tar.bz2: it unpacks to more than 64 MiB. Unpack it yourself" in said


# -- numbers ---------------------------------------------------------------------------------------


def _huge(record: Record | Activity | FrameValues | KernelWait, number: int) -> None:
    """Put a number wherever a field may hold one."""
    hints = typing.get_type_hints(type(record))
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, list) and value and isinstance(value[0], Activity | KernelWait):
            for part in value:
                _huge(part, number)
        else:
            found = next(_numbers(hints[field.name], number), None)
            if found is not None:
                setattr(record, field.name, found)


def _numbers(hint: Any, number: int) -> Iterator[Any]:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint in (int, float):
        yield number
    elif origin in (list, Sequence):
        yield from ([one, one] for one in _numbers(inside[0], number))
    elif origin is not dict:
        for arm in inside:
            yield from _numbers(arm, number)


@pytest.mark.parametrize("number", [EXABYTE, -1])
@pytest.mark.parametrize("kind", KINDS)
def test_a_number_in_every_field(kind: str, number: int, tmp_path: Path) -> None:
    run = kind_examples.KINDS["deadlock"]()
    for record in hostile_text.one_of_each():
        if record.kind not in ("header", "exit", "checkpoint"):
            run.rank(0).items.insert(-1, record)
    for rank in run:
        for item in (rank.header, *rank.items):
            if isinstance(item, Record) and item.kind == kind:
                _huge(item, number)
    where = str(run.write(tmp_path / "logs"))
    page = tmp_path / "a.html"
    status, told, said = commands.run("align", where, "--html", str(page), "--json", "-")
    assert status in (0, 1, 2, 3), said
    assert "internal_errors" not in told
    if status != 2:
        assert "out of memory" not in page.read_text()
        assert "Internal error" not in page.read_text()
    for argv in ("show", where, "--rank", "0"), ("runs", where), ("diff", where, where):
        assert commands.run(*argv)[0] in (0, 1, 2, 3)


@pytest.mark.parametrize("count", [10**9, EXABYTE])
def test_a_count_that_no_picture_has_room_for(count: int, tmp_path: Path) -> None:
    run = Run(world=2)
    run.all("all_reduce")
    run.finish()
    where = run.write(tmp_path / "logs")
    for file in where.glob("rank*.jsonl"):
        lines = [x for x in file.read_bytes().splitlines(keepends=True) if b'"exit"' not in x]
        data = b"".join(lines).partition(b',"digest":')[0] + b"}\n"
        file.write_bytes(data.replace(b'"seq":1,', b'"seq":%d,' % count))
    bounded.run("align", where, "--html", "a.html", cwd=tmp_path)
    page = (tmp_path / "a.html").read_text()
    assert "out of memory" not in page
    assert "The calls of 1 group." in page


# -- heartbeats ------------------------------------------------------------------------------------


def test_heartbeats_that_say_the_same_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def counted(line: bytes) -> Record | None:
        decoded.append(line)
        return decode(line)

    monkeypatch.setattr(rank_records, "decode", counted)
    busy = [Activity(thread="MainThread", what="call", since=7, op="all_reduce")]
    beats = [Alive(t=t, in_=busy if 4001 <= t < 9001 else []) for t in range(1, 10_001)]
    records = rank_records.RankRecords(0, Vocabulary())
    lines = [encode(beat).rstrip(b"\n") for beat in beats]
    records.feed(0, lines, -1, calls_only=False)
    assert len(decoded) == 3
    assert records.alive == beats[-1]
    before = records.alive
    records.feed(10**6, [lines[4000], lines[-1].replace(b"10000", b"12345")], -1, calls_only=False)
    assert (before.t, records.alive and records.alive.t) == (10_000, 12345)
    assert records.lines == 10_002


# -- where nobody reads ----------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--html", "--json", "--markdown", "--perfetto"])
def test_a_report_for_a_pipe_that_nobody_reads(logs: Path, tmp_path: Path, option: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    status, _, said = bounded.run("align", logs, option, "pipe", cwd=tmp_path)
    assert (status, said) == (
        2,
        "collectrace: pipe: it cannot be written (nobody reads from it). Name another file.\n",
    )


def test_a_message_that_claims_to_be_the_last_of_very_many(tmp_path: Path) -> None:
    name = "p2p/one_of_alternating_left_out"
    logs = corpus.unpack(corpus.index()[name].files(), tmp_path)
    file = next(logs.rglob("rank00000.jsonl"))
    lines = file.read_bytes()
    assert lines.count(b'"seq":5,') == 1
    file.write_bytes(lines.replace(b'"seq":5,', b'"seq":%d,' % EXABYTE))
    assert bounded.run("align", logs, cwd=tmp_path)[0] in (1, 3)
