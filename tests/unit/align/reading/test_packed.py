"""Logs as people send them: one file, packed, or a whole folder in an archive."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from collectrace.align import align
from collectrace.align.reading import packed
from collectrace.errors import LogError
from tests.support.synthetic import Run


def wrong(world: int = 2, name: str = "run-1", **fields: object) -> Run:
    run = Run(world, name, **fields)  # type: ignore[arg-type]
    for rank in run:
        rank.calls(40, "all_reduce", shape=[4], site="/job/train.py:10")
        rank.call("all_reduce", shape=[4 + rank.rank], site="/job/train.py:12")
    run.finish()
    return run


def pack(file: Path) -> Path:
    to = file.with_name(f"{file.name}.gz")
    to.write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    return to


def archive(folder: Path, to: Path, mode: str = "w:gz") -> Path:
    with tarfile.open(to, mode) as out:  # type: ignore[call-overload]
        out.add(folder, arcname=folder.name)
    return to


def test_a_rank_file_stands_for_its_run(tmp_path: Path) -> None:
    wrong().write(tmp_path)
    newer = Run(2, "run-2", start=1_770_000_000_000_000_000)
    newer.all("all_reduce")
    newer.finish()
    newer.write(tmp_path)
    assert align(tmp_path).run == "run-2"
    found = align(tmp_path / "run-1" / "rank00001.jsonl")
    assert (found.run, found.status, found.world_size) == ("run-1", "diverged", 2)
    assert found.evidence.missing_ranks == ()


def test_a_rank_file_of_a_folder_with_several_runs(tmp_path: Path) -> None:
    wrong().write(tmp_path)
    late = Run(1, "run-2", start=1_770_000_000_000_000_000)
    late.finish()
    late.write(tmp_path)
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for rank in range(2):
        shutil.copy(tmp_path / "run-1" / f"rank0000{rank}.jsonl", mixed)
    shutil.copy(tmp_path / "run-2" / "rank00000.jsonl", mixed / "rank00002.jsonl")
    assert align(mixed / "rank00001.jsonl").run == "run-1"
    assert align(mixed / "rank00002.jsonl").run == "run-2"


def test_a_rank_file_by_another_name_is_read_alone(tmp_path: Path) -> None:
    wrong().write(tmp_path)
    file = tmp_path / "sent by ann.jsonl"
    (tmp_path / "run-1" / "rank00001.jsonl").rename(file)
    found = align(file)
    assert (found.status, found.evidence.missing_ranks) == ("unknown", (0,))
    assert align(pack(file)).evidence.missing_ranks == (0,)


def test_packed_files_are_read_in_a_folder_and_by_name(tmp_path: Path) -> None:
    wrong(3).write(tmp_path)
    plain = align(tmp_path)
    folder = tmp_path / "run-1"
    one = pack(folder / "rank00001.jsonl")
    assert align(tmp_path) == plain
    pack(folder / "rank00002.jsonl")
    assert align(folder) == plain
    assert align(one) == plain


def test_a_file_beside_its_packed_copy_counts_once(tmp_path: Path) -> None:
    wrong().write(tmp_path)
    plain = align(tmp_path)
    file = tmp_path / "run-1" / "rank00000.jsonl"
    file.with_name("rank00000.jsonl.gz").write_bytes(gzip.compress(file.read_bytes()[:2000]))
    assert align(tmp_path) == plain


def test_a_packed_file_that_is_cut_short_tells_what_it_holds(tmp_path: Path) -> None:
    wrong().write(tmp_path)
    file = pack(tmp_path / "run-1" / "rank00001.jsonl")
    file.write_bytes(file.read_bytes()[:-40])
    found = align(tmp_path)
    assert found.evidence.agreed > 0
    assert found.evidence.missing_ranks == ()


@pytest.mark.parametrize(
    ("mode", "name"),
    [("w:gz", "logs.tar.gz"), ("w:gz", "logs.tgz"), ("w", "logs.tar"), ("w:xz", "logs.tar.xz")],
)
def test_an_archive_of_a_log_folder(tmp_path: Path, mode: str, name: str) -> None:
    logs = tmp_path / "logs"
    wrong().write(logs)
    plain = align(logs)
    pack(logs / "run-1" / "rank00001.jsonl")
    sent = archive(logs, tmp_path / name, mode)
    assert align(sent) == plain
    shutil.rmtree(logs)
    assert align(sent, run="run-1", full=True).findings == plain.findings


def test_an_archive_of_one_runs_files(tmp_path: Path) -> None:
    wrong().write(tmp_path / "logs")
    sent = tmp_path / "mine.tar.gz"
    with tarfile.open(sent, "w:gz") as out:
        for file in sorted((tmp_path / "logs" / "run-1").iterdir()):
            out.add(file, arcname=f"./{file.name}")
    assert align(sent).run == "run-1"


def entry(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, io.BytesIO(data)


def test_nothing_in_an_archive_reaches_beyond_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong().write(tmp_path / "logs")
    zero, one = (
        (tmp_path / "logs" / "run-1" / f"rank0000{n}.jsonl").read_bytes() for n in range(2)
    )
    inside = tmp_path / "in" / "here"
    inside.mkdir(parents=True)
    secret = tmp_path / "rank00007.jsonl"
    secret.write_bytes(one)
    sent = inside / "logs.tar.gz"
    with tarfile.open(sent, "w:gz") as out:
        out.addfile(*entry("../../run-1/rank00000.jsonl", zero))
        out.addfile(*entry("/tmp/run-1/rank00001.jsonl", one))
        out.addfile(*entry("run-1/rank00002.jsonl", type=tarfile.SYMTYPE, linkname=str(secret)))
        out.addfile(*entry("run-1/rank00003.jsonl", type=tarfile.LNKTYPE, linkname=str(secret)))
        out.addfile(*entry("run-1/rank00004.jsonl", type=tarfile.FIFOTYPE))
        out.addfile(*entry("run-1/evil.py", b"import os"))
        out.addfile(*entry("/".join(["a"] * 40) + "/rank00005.jsonl", one))
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(inside)
    found = align(sent)
    assert sorted(tmp_path.rglob("*")) == before
    assert [rank.rank for rank in found.ranks] == [0, 1]
    assert found.status == "diverged"


def test_an_archive_that_grows_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "_ALWAYS", 1 << 20)
    sent = tmp_path / "rank00000.jsonl.gz"
    sent.write_bytes(gzip.compress(b"\0" * (8 << 20)))
    with pytest.raises(LogError, match=r"file of rank 0 .*: it unpacks to more than 2 MiB"):
        align(sent)
    bomb = tmp_path / "bomb.tar.gz"
    with tarfile.open(bomb, "w:gz") as out:
        out.addfile(*entry("run-1/rank00000.jsonl.gz", sent.read_bytes()))
    with pytest.raises(LogError, match="unpacks to more than"):
        align(bomb)


def made_unreadable(file: Path, how: str) -> None:
    """Put something in the place of a rank's file that cannot be read."""
    file.unlink()
    gz = file.with_name(f"{file.name}.gz")
    if how == "bomb":
        gz.write_bytes(gzip.compress(b"\0" * (8 << 20)))
    elif how == "link":
        gz.symlink_to("nowhere")
    elif how == "folder":
        gz.mkdir()
    else:
        os.mkfifo(file)


@pytest.mark.parametrize("how", ["bomb", "link", "folder", "pipe"])
def test_a_file_that_cannot_be_read_costs_its_rank(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "_ALWAYS", 1 << 20)
    folder = wrong(3).write(tmp_path)
    made_unreadable(folder / "rank00002.jsonl", how)
    found = align(tmp_path)
    assert (found.status, found.evidence.missing_ranks) == ("diverged", (2,))
    (gap,) = (f for f in found.findings if f.kind == "evidence_gap")
    assert gap.headline.startswith("rank 2: its file cannot be read (")


@pytest.mark.parametrize("how", ["bomb", "link", "folder", "pipe"])
@pytest.mark.parametrize("at", [0, 1, -1])
def test_a_segment_that_cannot_be_read_counts_as_lost_lines(
    tmp_path: Path, how: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "_ALWAYS", 1 << 20)
    run = Run(2, segment=4000, keep=9, checkpoint=1000)
    for _ in range(40):
        run.all("all_reduce")
    run.finish()
    segments = run.write(tmp_path).glob("rank00001*")
    first, *others, last = sorted(segments, key=lambda path: (len(path.name), path.name))
    assert others
    made_unreadable((first, others[0], last)[at], how)
    found = align(tmp_path)
    assert found.status in ("aligned", "unknown")
    assert not [finding for finding in found.findings if finding.severity == "error"]
    (note,) = (note for note in found.evidence.notes if "cannot be read" in note)
    assert note.startswith("run-1/rank00001")


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_bomb_in_an_archive_costs_its_rank(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "_ALWAYS", 1 << 18)
    monkeypatch.setattr(packed, "_RATIO", 100)
    folder = wrong(3).write(tmp_path / "logs")
    for rank in range(2):
        pack(folder / f"rank0000{rank}.jsonl")
    made_unreadable(folder / "rank00002.jsonl", "bomb")
    found = align(archive(tmp_path / "logs", tmp_path / "logs.tar", mode))
    assert (found.status, found.evidence.missing_ranks) == ("diverged", (2,))


@pytest.mark.parametrize("name", ["logs.tar.gz", "logs.tar", "rank00000.jsonl.gz", "a.jsonl"])
def test_what_is_not_what_its_name_says(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"\x89PNG\r\n" * 200)
    with pytest.raises(LogError, match=r"not a readable archive|no readable record|no record"):
        align(file)


@pytest.mark.parametrize("name", ["logs.zip", "logs.tar.zst", "rank00000.jsonl.zst"])
def test_what_is_packed_in_another_way_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"(\xb5/\xfd" * 99)
    if name.endswith(".zip"):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("../rank00000.jsonl", b"\0" * (8 << 20))
    with pytest.raises(LogError, match=r"; unpack other formats first\.$") as refused:
        align(file)
    assert "\n" not in str(refused.value)


def test_an_archive_that_is_cut_short_tells_what_it_holds(tmp_path: Path) -> None:
    wrong().write(tmp_path / "logs")
    sent = archive(tmp_path / "logs", tmp_path / "logs.tar", "w")
    whole = sent.read_bytes()
    sent.write_bytes(whole[: len(whole) * 3 // 5])
    assert align(sent).ranks
