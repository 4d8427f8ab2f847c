"""Files of the user's code that are unusual: nothing is known of them, or all is in its place."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from collectrace.align.reading.rank_records import RankRecords
from collectrace.align.reading.source import LocalBlob
from collectrace.align.reading.source_files import SourceFiles
from collectrace.align.reading.vocabulary import Vocabulary

DEEP = ["for x in y:", "    if x:", "        gather(x)", *["    elif x:", "        f(x)"] * 2500]
LONG = [f"x = {'1 + ' * 900}1", "for x in y:", "    gather(x)"]


def code_of(*files: str) -> SourceFiles:
    """What is known of these files, of a run whose only rank has recorded their texts."""
    records, blobs = RankRecords(0, Vocabulary()), []
    for path in map(Path, files):
        data = path.read_bytes()
        sha256 = records.source_files[str(path)] = hashlib.sha256(data).hexdigest()
        blobs.append(LocalBlob(f"sources/{sha256}.py", len(data), path))
    return SourceFiles({0: records}, blobs)


def program(folder: Path, lines: list[str]) -> str:
    """The path of a file with such lines."""
    file = folder / "train.py"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


@pytest.mark.parametrize("lines", [DEEP, LONG], ids=["deep", "long"])
def test_a_program_that_is_too_deep_is_read_line_by_line(lines: list[str], tmp_path: Path) -> None:
    file = program(tmp_path, lines)
    code, site = code_of(file), f"{file}:3"
    assert code.line(site) == "gather(x)"


def test_lines_are_counted_as_the_parser_counts_them(tmp_path: Path) -> None:
    file = program(tmp_path, ["import x", "\f", "if x:  # \u2028", "    gather(x)"])
    code = code_of(file)
    assert code.line(f"{file}:4") == "gather(x)"


@pytest.mark.parametrize("name", ["gone.py", "data.txt", ""])
def test_without_a_file_nothing_is_known(name: str) -> None:
    code = code_of()
    assert code.line(f"{name}:1") == ""
