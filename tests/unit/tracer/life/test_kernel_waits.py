"""Looking at the kernel's facts takes a bounded time, and a failure leaves them out."""

from __future__ import annotations

import os
import threading

import pytest

from collectrace.tracer.life import kernel_waits, proc
from collectrace.tracer.life.kernel_waits import KernelWaits


def test_a_look_that_hangs_is_given_up_and_not_begun_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leave = threading.Event()
    began: list[str] = []

    def read(path: str) -> str:
        began.append(path)
        leave.wait()
        return ""

    monkeypatch.setattr(proc, "read", read)
    monkeypatch.setattr(kernel_waits, "_WITHIN", 0.05)
    waits = KernelWaits()
    assert waits.look() == ([], [])
    assert waits.look() == ([], [])
    assert len(began) == 1
    leave.set()


def test_where_proc_says_nothing_only_the_threads_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proc, "read", lambda _: "")
    threads, children = KernelWaits().look()
    assert [one.call for one in threads] == [None] * len(threads)
    assert children == []


def test_a_failure_leaves_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> tuple[None, None]:
        raise ValueError("odd")

    monkeypatch.setattr(kernel_waits, "_children", lambda: [os.getpid()])
    monkeypatch.setattr(proc, "name_and_state", fails)
    threads, children = KernelWaits().look()
    assert threads
    assert children == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF", ("1", "", "359", "11691")),
        ("2: -> POSIX  ADVISORY  READ 77 fe:00:5 0 9", ("2", " ->", "77", "5")),
        ("3: OFDLCK ADVISORY  WRITE -1 08:01:4 0 0", ("3", "", "-1", "4")),
    ],
)
def test_lines_of_locks(line: str, expected: tuple[str, ...]) -> None:
    found = proc.LOCK.match(line)
    assert found is not None
    assert found.group("number", "waits", "pid", "inode") == expected


def test_a_path_is_read_from_memory_and_nothing_from_nowhere() -> None:
    with pytest.raises(OSError, match="error"):
        proc.text_at(8)
