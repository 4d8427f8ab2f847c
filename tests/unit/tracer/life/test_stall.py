"""When a rank that does nothing counts as stalled."""

from __future__ import annotations

import linecache
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from collectrace.records import Activity, Record, Stall
from collectrace.tracer.life import stall
from collectrace.tracer.life.stall import Stalls

SECOND = 10**9


@pytest.mark.parametrize(
    ("rank", "last_call", "expected"),
    [
        pytest.param(1, None, 1, id="no call yet, since it is part of the job"),
        pytest.param(1, 15, 0, id="a call soon after, not long ago"),
        pytest.param(1, 5, 1, id="a call long ago"),
        pytest.param(None, None, 0, id="not part of a job yet"),
    ],
)
def test_a_rank_in_nothing(
    rank: int | None, last_call: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Record] = []
    book = SimpleNamespace(joined=0 if rank is None else SECOND)
    recorder = SimpleNamespace(
        sources=None, global_rank=rank, last_t=0, write=written.append, book=book
    )
    stalls = Stalls(cast(Any, recorder), stall_after=lambda: 20, is_explained=lambda: False)
    monkeypatch.setattr(stall.Stalls, "_dump_flight_recorder", lambda _: None)
    for second in range(1, 32):
        monkeypatch.setattr(stall, "now", lambda second=second: second * SECOND)
        if last_call is not None and second >= last_call:
            recorder.last_t = last_call * SECOND
        stalls.check([])
    assert [type(record) for record in written] == [Stall] * expected


@pytest.mark.parametrize("is_explained", [False, True])
def test_a_stall_is_due_to_the_second_and_told_to_who_does_not_know_why(
    is_explained: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = SimpleNamespace(folder=Path("logs/run"))
    recorder = SimpleNamespace(
        sources=None, global_rank=1, last_t=0, write=lambda _: True, writer=writer
    )
    stalls = Stalls(cast(Any, recorder), stall_after=lambda: 20, is_explained=lambda: is_explained)
    monkeypatch.setattr(stall.Stalls, "_dump_flight_recorder", lambda _: None)
    waits = Activity(thread="MainThread", what="call", since=7 * SECOND, op="barrier", seq=3)
    dues = []
    for second in (8, 16, 27, 30):
        monkeypatch.setattr(stall, "now", lambda second=second: second * SECOND)
        stalls.check([waits])
        dues.append(stalls.due // SECOND)
    assert dues == [27, 27, 47, 47]  # the next record takes twice the time
    assert stalls.count == 1
    assert ("To see why, run: " in capsys.readouterr().err) is not is_explained


class Loader:
    """Of a module of the program."""

    asked = 0

    def __getattr__(self, name: str) -> Any:
        Loader.asked += 1
        raise ValueError(name)


def test_stacks_are_taken_without_a_look_at_files_or_loaders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(linecache, "checkcache", looked.append)
    inside, leave = threading.Event(), threading.Event()
    code = compile("inside.set()\nleave.wait()", "/dev/../dev/zero", "exec")
    names = {"inside": inside, "leave": leave, "__name__": "mine", "__loader__": Loader()}
    thread = threading.Thread(target=exec, args=(code, names), name="worker")
    thread.start()
    inside.wait()
    try:
        found = stall.stacks()
    finally:
        leave.set()
        thread.join()
    [stack] = [lines for name, lines in found.items() if name.startswith("worker (")]
    assert "/dev/zero:2 <module>" in stack
    assert stack.index("/dev/zero:2 <module>") > 0, "innermost last"
    assert (looked, Loader.asked) == ([], 0)
