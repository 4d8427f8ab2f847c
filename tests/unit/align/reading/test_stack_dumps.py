"""The paths in stacks that signal handlers wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.reading import stack_dumps
from collectrace.align.reading.source import LocalBlob

DUMP = """\
Current thread 0x00007f0000000001 (most recent call first):
  File "{path}", line 10 in save
"""


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("train.py", "/job/run/train.py"),
        ("../train.py", "/job/train.py"),
        ("/job/run/../train.py", "/job/train.py"),
        ("./lib/train.py", "/job/run/lib/train.py"),
        ("<string>", "<string>"),
    ],
)
def test_a_file_has_the_name_that_calls_have(path: str, whole: str, tmp_path: Path) -> None:
    file = tmp_path / "rank00000.stacks"
    file.write_text(DUMP.format(path=path))
    blob = LocalBlob(file.name, file.stat().st_size, file)
    found = stack_dumps.read({"stacks": blob}, "/job/run").held
    assert found is not None
    assert [frame for frames in found.stacks.values() for frame in frames] == [f"{whole}:10 save"]
