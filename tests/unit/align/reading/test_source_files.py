"""The program's text as it was recorded: whose it is, and when it is not believed."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectrace import source_text
from collectrace.align import align
from collectrace.align.reading.evidence import RunEvidence
from collectrace.align.reading.rank_records import RankRecords
from collectrace.align.reading.run_reader import read
from collectrace.align.reading.source_files import SourceFiles
from collectrace.align.reading.vocabulary import Vocabulary
from collectrace.records import Imported, SourceFile, Stack
from tests.support.synthetic import Run

PATH = "/job/train.py"
TEXT = "if rank == 0:\n    reduce()\n"
OTHER = "reduce()\n"


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def written(tmp_path: Path, *recorded: str | None, texts: tuple[str, ...] = (TEXT, OTHER)) -> Path:
    """The folder of a run: what each rank has recorded of a file, and the texts that lie there."""
    run = Run(len(recorded))
    for rank, text in zip(run, recorded, strict=True):
        rank.call("all_reduce", site=f"{PATH}:2")
        if text is not None:
            rank.record(SourceFile(path=PATH, sha256=hash_of(text), size=len(text)))
    run.finish()
    folder = run.write(tmp_path)
    (folder / "sources").mkdir()
    for text in texts:
        (folder / "sources" / f"{hash_of(text)}.py").write_text(text)
    return folder


def told(evidence: RunEvidence, rank: int, path: str = PATH) -> tuple[str, bool] | None:
    """The text of a rank, and whether one was borrowed by now."""
    files = evidence.source_files
    found = files.text(rank, path)
    return None if found is None else (found, any("some ranks" in note for note in files.notes))


def test_each_rank_has_the_text_that_it_recorded(tmp_path: Path) -> None:
    evidence = read(written(tmp_path, TEXT, OTHER))
    assert told(evidence, 0) == (TEXT, False)
    assert told(evidence, 1) == (OTHER, False)
    assert told(evidence, 0, "/job/other.py") is None
    assert evidence.source_files.skewed() == {PATH: {hash_of(TEXT): [0], hash_of(OTHER): [1]}}
    assert evidence.source_files.notes == ()


def test_a_rank_borrows_what_all_its_peers_agree_on(tmp_path: Path) -> None:
    evidence = read(written(tmp_path, TEXT, TEXT, None))
    assert told(evidence, 0) == (TEXT, False)
    assert not evidence.source_files.notes
    assert told(evidence, 2) == (TEXT, True)
    assert told(evidence, 7) == (TEXT, True)
    assert evidence.source_files.skewed() == {}
    assert ["some ranks" in note for note in evidence.source_files.notes] == [True]


def test_a_rank_borrows_nothing_that_its_peers_disagree_on(tmp_path: Path) -> None:
    evidence = read(written(tmp_path, TEXT, OTHER, None))
    assert told(evidence, 2) is None


def test_a_hash_that_is_none_is_not_known(tmp_path: Path) -> None:
    run = Run(1)
    for sha256 in ("", "../../etc/passwd", "0A" * 32, "0a" * 31, "0a" * 32 + "\n"):
        run.rank(0).record(SourceFile(path=PATH, sha256=sha256))
    run.finish()
    evidence = read(run.write(tmp_path))
    assert told(evidence, 0) is None
    assert evidence.source_files.notes == ()


# -- what is not believed --------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["", "cut", "changed", "long"])
def test_a_text_with_another_hash_is_not_used(damage: str, tmp_path: Path) -> None:
    folder = written(tmp_path, TEXT, OTHER)
    path = folder / "sources" / f"{hash_of(TEXT)}.py"
    match damage:
        case "cut":
            path.write_text(TEXT[:-1])
        case "changed":
            path.write_text(TEXT.replace("0", "1"))
        case "long":
            path.write_bytes(b"#" * (source_text.MOST_BYTES + 1))
        case _:
            path.unlink()
    evidence = read(folder)
    assert told(evidence, 0) is None
    assert told(evidence, 0) is None
    assert told(evidence, 1) == (OTHER, False)
    notes = evidence.source_files.notes
    assert len(notes) == (1 if damage else 0)
    assert all(path.name in note for note in notes)


def test_what_is_no_text_is_not_used(tmp_path: Path) -> None:
    folder = written(tmp_path, TEXT)
    for data in (b"# coding: utf-8\n\xff", b"# coding: punycode\nabc", b"# coding: nowhere\n"):
        name = hashlib.sha256(data).hexdigest()
        (folder / "sources" / f"{name}.py").write_bytes(data)
        with (folder / "rank00000.jsonl").open("a") as out:
            out.write(f'{{"kind":"source_file","t":9,"path":"/{name}","sha256":"{name}"}}\n')
    evidence = read(folder)
    assert sum(path != PATH for path in _paths(evidence)) == 3
    assert [told(evidence, 0, path) for path in _paths(evidence) if path != PATH] == [None] * 3


def _paths(evidence: RunEvidence) -> Iterator[str]:
    for known in evidence.source_files._ranks.values():
        yield from known.source_files


# -- this machine ----------------------------------------------------------------------------


@pytest.mark.parametrize(("there", "found"), [(TEXT, (TEXT, False)), (OTHER, None), (None, None)])
def test_a_file_of_this_machine_is_used_only_if_it_is_the_same(
    there: str | None, found: tuple[str, bool] | None, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    if there is not None:
        path.write_text(there)
    run = Run(1)
    run.rank(0).record(SourceFile(path=str(path), sha256=hash_of(TEXT)))
    run.finish()
    evidence = read(run.write(tmp_path / "logs"))
    assert told(evidence, 0, str(path)) == found


def test_a_file_of_this_machine_without_a_hash_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TEXT)
    run = Run(1)
    run.finish()
    assert told(read(run.write(tmp_path / "logs")), 0, str(tmp_path / "train.py")) is None


# -- where the log lies ----------------------------------------------------------------------


def test_in_an_archive(tmp_path: Path) -> None:
    folder = written(tmp_path, TEXT, OTHER)
    with tarfile.open(tmp_path / "run.tar.gz", "w:gz") as archive:
        archive.add(folder, arcname=folder.name)
        data = io.BytesIO(b"import os\n")
        member = tarfile.TarInfo(f"{folder.name}/train.py")
        member.size = len(data.getvalue())
        archive.addfile(member, data)
    shutil.rmtree(folder)
    evidence = read(tmp_path / "run.tar.gz")
    assert (told(evidence, 0), told(evidence, 1)) == ((TEXT, False), (OTHER, False))


def test_behind_a_url(tmp_path: Path) -> None:
    evidence = read(f"file://{written(tmp_path, TEXT, OTHER).parent}")
    assert (told(evidence, 0), told(evidence, 1)) == ((TEXT, False), (OTHER, False))


def test_beside_a_rank_file_and_below_a_log_folder(tmp_path: Path) -> None:
    folder = written(tmp_path / "logs" / "node1", TEXT, OTHER)
    for path in (folder / "rank00001.jsonl", tmp_path / "logs", folder):
        evidence = read(path)
        assert (told(evidence, 0), told(evidence, 1)) == ((TEXT, False), (OTHER, False))


def test_of_logs_that_are_read_in_part(tmp_path: Path) -> None:
    """What lies in between is not known until it is read; peers lend meanwhile."""
    run = Run(2)
    for rank in run:
        rank.calls(2000, "all_reduce", site=f"{PATH}:2")
    run.rank(0).record(SourceFile(path=PATH, sha256=hash_of(TEXT)))
    for rank in run:
        rank.calls(2000, "all_reduce", site=f"{PATH}:2")
    run.finish()
    folder = run.write(tmp_path)
    (folder / "sources").mkdir()
    (folder / "sources" / f"{hash_of(TEXT)}.py").write_text(TEXT)
    evidence = read(folder, small=0)
    assert told(evidence, 1) is None
    assert evidence.read_whole is not None
    whole = evidence.read_whole([0, 1])
    assert (told(whole, 0), told(whole, 1)) == ((TEXT, False), (TEXT, True))


def test_few_texts_are_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectrace.align.reading.source_files._MOST_KEPT", len(TEXT))
    records = RankRecords(0, Vocabulary())
    records.source_files = {PATH: hash_of(TEXT), "/job/b.py": hash_of(OTHER)}
    files = SourceFiles(
        {0: records},
        read(written(tmp_path, TEXT)).source_files._blobs[hash_of(TEXT)],
    )
    for _ in range(2):
        assert files.text(0, PATH) is not None
        assert files.text(0, "/job/b.py") is None
    assert files._kept <= len(TEXT)


# -- what the ranks ran is not known ----------------------------------------------------------


def ran(tmp_path: Path, first_line: int, text: str | None = TEXT) -> RunEvidence:
    """A rank was in a function ``reduce`` that began at a line; and the text that it recorded."""
    run = Run(1)
    rank = run.rank(0)
    if text is not None:
        rank.record(SourceFile(path=PATH, sha256=hash_of(text), size=len(text)))
    rank.record(Stack(stack=1, frames=[f"{PATH}:3 Net.reduce"], first_lines=[first_line]))
    rank.call("all_reduce", site=f"{PATH}:3", stack=1)
    folder = run.write(tmp_path)
    (folder / "sources").mkdir()
    for one in (TEXT, METHOD):
        (folder / "sources" / f"{hash_of(one)}.py").write_text(one)
    return read(folder)


METHOD = "class Net:\n    @no_grad\n    def reduce(self): self.all_reduce()\n"


@pytest.mark.parametrize(("first_line", "is_right"), [(2, True), (3, False), (1, False)])
def test_a_text_in_which_functions_begin_elsewhere_was_changed(
    first_line: int, is_right: bool, tmp_path: Path
) -> None:
    evidence = ran(tmp_path, first_line, METHOD)
    assert (told(evidence, 0) is not None) is is_right
    assert bool(evidence.source_files.line(f"{PATH}:3")) is is_right
    notes = evidence.source_files.notes
    assert [note.partition(":")[0] for note in notes] == ["source changed"] * (not is_right)
    assert all("train.py" in note for note in notes)


@pytest.mark.parametrize("text", [None, "lost()\n"], ids=["off", "lost"])
def test_a_text_that_is_missing_is_told_of(text: str | None, tmp_path: Path) -> None:
    evidence = ran(tmp_path, 2, text)
    assert not evidence.source_files.notes, "nobody has asked for it"
    assert not evidence.source_files.line(f"{PATH}:3")
    note, *more = evidence.source_files.notes
    assert not more
    assert note.startswith("the text of train.py was not recorded")


def test_a_line_of_a_file_that_ranks_ran_in_two_versions_is_not_known(tmp_path: Path) -> None:
    evidence = read(written(tmp_path, TEXT, OTHER))
    assert not evidence.source_files.line(f"{PATH}:1")
    evidence = read(written(tmp_path / "alike", TEXT, TEXT))
    assert evidence.source_files.line(f"{PATH}:2") == "reduce()"


@pytest.mark.parametrize("is_dump", [True, False])
def test_a_file_of_this_machine_is_used_for_the_frames_of_dumps_alone(
    is_dump: bool, tmp_path: Path
) -> None:
    mine = tmp_path / "train.py"
    run = Run(1)
    rank = run.rank(0)
    if is_dump:
        rank.record(Imported(tool="PyTorch Flight Recorder"))
    rank.record(Stack(stack=1, frames=[f"{mine}:2 <module>"]))
    rank.call("all_reduce", site=f"{mine}:2", stack=1)
    folder = run.write(tmp_path)
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_text(TEXT)
    evidence = read(folder)
    assert not evidence.source_files.line(f"{tmp_path}/other.py:2")
    assert evidence.source_files.line(f"{mine}:2") == ("reduce()" if is_dump else "")
    assert told(evidence, 0, str(mine)) == ((TEXT, False) if is_dump else None)
    notes = evidence.source_files.notes
    assert ["on this machine" in note for note in notes] == [True] * is_dump


# -- one process, several runs ----------------------------------------------------------------


def test_a_run_knows_nothing_of_the_texts_of_another(tmp_path: Path) -> None:
    """Both name one path; a file lies there as well."""
    mine = tmp_path / "train.py"
    found = []
    for name, condition in (("first", "if a:"), ("second", "if b:"), ("third", None)):
        run = Run(2, name, texts=condition is not None)
        mine.write_text(f"{condition}\n    reduce()\nbroadcast()\n")
        for rank in run:
            line, op = (2, "all_reduce") if rank.rank else (3, "broadcast")
            rank.record(Stack(stack=1, frames=[f"{mine}:{line} <module>"]))
            call = rank.call(op, shape=[4], site=f"{mine}:{line}", stack=1)
            rank.beat(60, rank.inside(call))
        run.write(tmp_path / name)
        mine.write_text("if of_this_machine:\n    reduce()\nbroadcast()\n")
        found.append(align(tmp_path / name).findings[0])
    for finding, condition in zip(found, ("`if a:`", "`if b:`", None), strict=True):
        assert [one for one in ("`if a:`", "`if b:`") if one in finding.cause] == [
            one for one in (condition,) if one
        ]
        assert bool(finding.sources) is (condition is not None)
        assert "of_this_machine" not in str(finding)
