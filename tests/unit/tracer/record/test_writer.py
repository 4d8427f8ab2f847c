"""Ranks of one host share the folder of the provisional files, and remove it when they leave."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectrace.tracer.record.writer import Writer

if TYPE_CHECKING:
    import pytest


def test_no_line_is_lost_when_another_rank_removes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pending" / "here.jsonl"
    leaving = [3]
    really = os.open

    def beaten_to_it(name: Any, *rest: Any) -> int:
        if name == path and leaving[0]:
            leaving[0] -= 1
            path.parent.rmdir()
        return really(name, *rest)

    monkeypatch.setattr(os, "open", beaten_to_it)
    writer = Writer(path, 1 << 20, lambda _: b"head\n")
    assert writer.write(b"line\n")
    writer.close()
    assert not leaving[0]
    assert path.read_bytes() == b"head\nline\n"
    assert not writer.dropped
