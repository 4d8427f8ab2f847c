"""Copies of recorded runs that can be given away: the same finding, and nothing of the original."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any, Final

import pytest

from collectrace.align.reading.source import open_folder
from collectrace.findings import Alignment
from collectrace.log_folder import SOURCES
from collectrace.records import Header, SourceFile, decode
from collectrace.redact import folder as redacted
from collectrace.redact.names import public_part, terms
from tests.zoo import corpus

STEP: Final = 12
"""Each so-manieth run is tried; all of them take five minutes."""

ENTRIES: Final = {
    name: entry for n, (name, entry) in enumerate(corpus.index().items()) if n % STEP == 0
}

_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"\d+(e|e\d+)?|0x[0-9a-fA-F]+")
"""As the structure of a program keeps them; or the address of a thread."""


def errors(alignment: Alignment) -> list[tuple[Any, ...]]:
    """What of each error must be found in a copy: the lines by their numbers."""
    return [
        (
            one.kind, one.suspects, one.seq, one.code,
            [
                (s.ranks, s.call.op, (s.call.site or "").rpartition(":")[2]) if s.call else s.ranks
                for s in one.sides
            ],
        )
        for one in alignment.findings
        if one.severity == "error"
    ]  # fmt: skip


def decisions(alignment: Alignment) -> list[set[str]]:
    """The lines that can have decided, of each error."""
    return [
        {decision.site.rpartition(":")[2] for decision in one.decisions or ()}
        for one in alignment.findings
        if one.severity == "error"
    ]


def words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text) if _NUMBER.fullmatch(word) is None}


def used_words(logs: Path) -> set[str]:
    """The words of the program, of its paths, and of the process."""
    found: set[str] = set()
    for path in logs.rglob("rank*.jsonl"):
        for record in filter(None, map(decode, path.read_bytes().splitlines())):
            if isinstance(record, SourceFile) and not public_part(record.path):
                text = path.parent / SOURCES / f"{record.sha256}.py"
                found |= words(record.path) | (words(text.read_text()) if text.exists() else set())
            elif isinstance(record, Header):
                found |= words(" ".join((record.host, record.cwd, *record.argv)))
    return found


@pytest.fixture
def logs(name: str, tmp_path: Path) -> Path:
    """The logs of a recorded run."""
    if not (files := ENTRIES[name].files()):
        pytest.skip("recorded by its texts alone")
    return corpus.unpack(files, tmp_path)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_copy_gives_the_same_finding(name: str, logs: Path, tmp_path: Path) -> None:
    entry, shared = ENTRIES[name], tmp_path / "shared"
    redacted.redact(open_folder(logs).files, shared, ("values",))
    before, after = corpus.align(logs, entry.living), corpus.align(shared, entry.living)
    assert after.status == before.status
    assert errors(after) == errors(before)
    for mine, theirs in zip(decisions(after), decisions(before), strict=True):
        assert mine >= theirs


@pytest.mark.parametrize("name", ENTRIES)
def test_no_word_of_the_user_is_left(logs: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    redacted.redact(open_folder(logs).files, shared)
    used = used_words(logs)
    assert used
    public = terms() | {*dir(runpy)}  # what runs a script stands in each stack
    own = {word for word in used if public.isdisjoint((word, word.lower()))}
    for path in (path for path in shared.rglob("*") if path.is_file()):
        text = path.read_text(errors="replace")
        assert not own & words(f"{path.relative_to(shared)} {text}")
        for owned in (str(tmp_path), "recorded.invalid", "tests/zoo"):
            assert owned not in text
