"""What the text of an exception tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import _utils

from collectrace import exceptions
from collectrace.exceptions import both_ends, original


def read(number: int) -> None:
    if number == 37:
        raise ValueError(f"corrupt JPEG: sample {number}")


def carried(number: int = 37) -> str:
    """The text with which torch reraises what a DataLoader's worker raised."""
    try:
        try:
            Path("/nowhere/shard").read_bytes()
        except OSError:
            read(number)
    except ValueError:
        wrapped: Any = _utils.ExceptionWrapper(  # type: ignore[no-untyped-call]
            where="in DataLoader worker process 0"
        )
        with pytest.raises(ValueError, match="Caught ValueError") as problem:
            wrapped.reraise()
        return str(problem.value)
    raise AssertionError


def test_a_workers_exception_is_told_as_it_was_raised() -> None:
    found = original(carried())
    assert found is not None
    line = read.__code__.co_firstlineno + 2
    assert found == ("ValueError", "corrupt JPEG: sample 37", f"{__file__}:{line}")


def test_of_a_dotted_type_and_several_lines() -> None:
    text = (
        "Caught OutOfMemoryError in DataLoader worker process 1.\n"
        "Original Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.11/site-packages/torch/utils/data/x.py", line 3, in fetch\n'
        "    data = dataset[i]\n"
        "torch.cuda.OutOfMemoryError: no memory\nfree some\n"
    )
    assert original(text) == (
        "OutOfMemoryError", "no memory\nfree some",
        "/usr/lib/python3.11/site-packages/torch/utils/data/x.py:3",
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "loss is nan", "Original Traceback (most recent call last):"])
def test_a_text_that_carries_none(text: str) -> None:
    assert original(text) is None


def test_a_long_text_keeps_its_end() -> None:
    text = "a" * 5000 + "sample 37"
    cut = both_ends(text, 2000)
    assert len(cut) == 2000
    assert cut.startswith("aaa")
    assert cut.endswith("sample 37")
    assert both_ends("short", 2000) == "short"


@pytest.mark.parametrize(
    ("error", "message", "blames"),
    [
        ("RuntimeError", "Connection closed by peer [127.0.0.1]:1185", True),
        ("DistBackendError", "whatever", True),
        ("RuntimeError", "invalid tensor size at index 0", False),
        ("ValueError", "loss is nan", False),
    ],
)
def test_whether_peers_are_to_blame(error: str, message: str, blames: bool) -> None:
    assert exceptions.blames_peers(error, message) == blames
