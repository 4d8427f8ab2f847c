"""Loops that try something again, by what leaves them once a try has passed."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from collectrace.align.reading import retries
from tests.support.code import code_of

LEAVES = [
    """
    for _ in range(3):
        try:
            join()  # LINE
            return
        except OSError:
            wait()
    """,
    """
    while tries:
        try:
            join()  # LINE
        except OSError:
            continue
        break
    """,
    """
    for _ in range(3):
        try:
            with lock:
                join()  # LINE
        except OSError:
            wait()
        else:
            return
    """,
    """
    for _ in range(3):
        try:
            return join()  # LINE
        except OSError:
            wait()
    """,
]
GOES_ON = [
    """
    for item in items:
        try:
            join(item)  # LINE
        except OSError:
            wait()
    """,
    """
    while True:
        try:
            join()  # LINE
            if not done():
                continue
            return
        except OSError:
            wait()
    """,
    """
    for item in items:
        try:
            join(item)  # LINE
            if item is last:
                return
        except OSError:
            wait()
    """,
    """
    join()  # LINE
    return
    """,
]


def leaves(folder: Path, text: str) -> bool:
    train = folder / "train.py"
    train.write_text(f"def work():\n{textwrap.indent(textwrap.dedent(text), '    ')}")
    lines = train.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "# LINE" in line)
    return retries.leaves_on_success(code_of(train), f"{train}:{number}")


@pytest.mark.parametrize("text", LEAVES)
def test_who_succeeds_leaves_it(text: str, tmp_path: Path) -> None:
    assert leaves(tmp_path, text)


@pytest.mark.parametrize("text", GOES_ON)
def test_each_turn_may_be_for_something_else(text: str, tmp_path: Path) -> None:
    assert not leaves(tmp_path, text)


def test_a_file_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("while (:\n")
    code = code_of(tmp_path / "train.py")
    assert not retries.leaves_on_success(code, f"{tmp_path}/train.py:1")
    assert not retries.leaves_on_success(code, f"{tmp_path}/none.py:1")
