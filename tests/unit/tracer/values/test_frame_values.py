"""Which names of a frame are read, in which bounds, and what stays out.

Needs no torch, so that it can be run on every Python.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from collectrace.records import FrameValues, Values, encode
from collectrace.tracer.values import stack
from collectrace.tracer.values.frame_values import Budget, read_frame
from collectrace.tracer.values.plain import PlainValues
from collectrace.tracer.values.stack import Level
from tests.support import hostile_values as hostile
from tests.support.hostile_values import Hostile
from tests.support.stopped import Pause, stopped

LIMIT = 7
UNUSED = 8
NAME = "a token"
TRAPS: dict[str, Any] = {}
BYTES = 24 << 10


def budget(size: int = BYTES, seconds: float = 60.0) -> Budget:
    return Budget(size, seconds)


def read(frame: FrameType, within: Budget | None = None) -> FrameValues:
    level = Level(frame, frame.f_lasti, may_read=True, may_move=False)
    found = read_frame(level, PlainValues(b"of a run"), within or budget())
    assert found is not None
    return found


def size(*found: FrameValues) -> int:
    return len(encode(Values(reason="stall", thread="MainThread", functions=list(found))))


class Settings:
    def __init__(self) -> None:
        self.debug = False
        self.deeper: Any = None
        self.unused = 1


class Trainer:
    shared = "of the class"

    def __init__(self) -> None:
        self.step, self.settings, self.password = 4, Settings(), NAME
        self.settings.deeper = Settings()
        self.settings.deeper.deeper = self
        self.callback: Any = len
        self.prop_was_asked = 0

    @property
    def prop(self) -> int:
        self.prop_was_asked += 1
        return 1

    def train(self, limit: int) -> FrameValues:
        word = NAME
        here = read(sys._getframe())
        # What is below is not run before; the code can use it all the same.
        if self.step < LIMIT and self.settings.debug and self.prop and self.shared:
            return here
        if any(self.step > UNUSED for _ in range(limit)) and self.settings.deeper.debug:
            return here.frame + word + self.password + self.callback(NAME)  # type: ignore[no-any-return]
        return here


def test_the_names_that_a_functions_code_can_use() -> None:
    trainer = Trainer()
    found = trainer.train(3)
    assert found.frame == f"{__file__}:{Trainer.train.__code__.co_firstlineno + 2} Trainer.train"
    assert found.first_line == Trainer.train.__code__.co_firstlineno
    words = {name: value for name, value in found.values.items() if isinstance(value, dict)}
    numbers = {name: value for name, value in found.values.items() if name not in words}
    assert numbers == {
        "self.step": 4, "self.settings.debug": False, "limit": 3, "LIMIT": 7, "UNUSED": 8,
    }  # fmt: skip
    assert {name: value["type"] for name, value in words.items()} == {
        "self": "Trainer", "self.settings": "Settings", "self.settings.deeper": "Settings",
        "self.password": "str", "word": "str", "NAME": "str",
    }  # fmt: skip
    assert words["self.password"] == words["word"]
    assert found.left_out == 0
    assert trainer.prop_was_asked == 0
    assert NAME not in encode(Values(reason="stall", thread="t", functions=[found])).decode()


def a_module(pause: Pause) -> None:
    source = "step = 3\nunused = len\nfor x in range(2):\n    pause()\n"
    exec(compile(source, "train.py", "exec"), {"pause": pause, "hidden": 1})


def test_a_modules_names_are_those_that_its_code_mentions() -> None:
    with stopped(a_module) as thread:
        (level, *_) = [one for one in thread.stack().users if "<module>" in str(one.frame.f_code)]
        found = read(level.frame)
    assert found.values == {"step": 3, "x": 0, "pause": {"type": "Pause"}}
    assert found.frame.endswith("train.py:4 <module>")


@pytest.mark.parametrize(
    "act", [hostile.nothing, hostile.raises, hostile.blocks], ids=lambda act: act.__name__
)
def test_no_code_runs_of_what_lies_in_locals_in_self_and_in_globals(
    act: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Hostile(act)
    monkeypatch.setattr(sys.modules[__name__], "TRAPS", traps := dict(made.objects()))

    class Owner:
        def run(self, one: Any, two: Any, three: Any) -> FrameValues:
            here = read(sys._getframe())
            return here or (self.a, self.b, self.c, one.number, TRAPS)  # type: ignore[attr-defined, return-value]

    found = []
    objects = list(traps.values())
    for n in range(len(objects)):
        three = (objects * 3)[n : n + 3]
        owner = Owner()
        vars(owner).update(zip("abc", three, strict=True))
        made.calls.clear()
        found.append(Owner.run(owner, *three))
        assert made.calls == []
    assert {name for one in found for name in one.values} >= {
        "self.a", "one", "two", "three", "one.number", "self.b.number", "TRAPS",
    }  # fmt: skip


# -- bounds ------------------------------------------------------------------------------------


def many_locals(count: int) -> FrameValues:
    lines = [f"    name_{n} = {n}" for n in range(count)]
    source = "\n".join(["def run(read, frame):", *lines, "    return read(frame())"])
    names: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), names)
    return names["run"](read, _caller)  # type: ignore[no-any-return]


def _caller() -> FrameType:
    frame = sys._getframe().f_back
    assert frame is not None
    return frame


def timed(what: str, run: Callable[[], FrameValues]) -> FrameValues:
    began = time.perf_counter()
    found = run()
    took = 1000 * (time.perf_counter() - began)
    print(f"{what}: {took:.2f} ms, {size(found)} bytes, {len(found.values)} values")
    return found


def test_ten_thousand_locals() -> None:
    found = timed("10,000 locals, with compiling them", lambda: many_locals(10_000))
    assert len(found.values) == 200
    assert found.left_out == 10_002 - 200
    assert size(found) < BYTES


# pytest has the code of a test ask for locals(), and such code is not read on Python 3.11.


def holds_large_values(large: list[int], huge: int, text: str) -> FrameValues:
    here = sys._getframe()
    return timed("10 million elements, bits and characters", lambda: read(here))


def test_a_large_list_and_a_huge_number() -> None:
    found = holds_large_values([0] * 10_000_000, 1 << 10_000_000, "x" * 10_000_000)
    assert found.values["large"] == {"type": "list", "len": 10_000_000}
    assert found.values["huge"] == {"type": "int", "bits": 10_000_001}
    assert found.values["text"]["len"] == 10_000_000
    assert size(found) < 1000


class Wide:
    name: int


def holds(wide: Wide, count: int) -> FrameValues:
    wide.__dict__.update({f"name_{n}": n for n in range(count)})
    wide.name = 1
    return read(sys._getframe())


@pytest.mark.parametrize(("count", "is_read"), [(10_000, True), (30_000, False)])
def test_an_object_with_too_many_attributes_is_not_looked_into(count: int, is_read: bool) -> None:
    found = holds(Wide(), count)
    assert found.values["wide"] == {"type": "Wide"}
    assert ("wide.name" in found.values) is is_read


def deep(levels: int, pause: Pause) -> int:
    if levels:
        return deep(levels - 1, pause) + 1
    pause()
    return 0


def test_deep_recursion() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        with stopped(lambda pause: deep(10_000, pause)) as thread:
            began = time.perf_counter()
            found = thread.stack()
            took = 1000 * (time.perf_counter() - began)
            print(f"a stack of 10,000 frames: {took:.2f} ms to find 24")
            assert len(found.users) == 24
            assert found.left_out == 1000 - 24 - 2, "the walk ends, too"
            assert [read(level.frame).values["levels"] for level in found.users[1:4]] == [0, 1, 2]
    finally:
        sys.setrecursionlimit(limit)


def fails_deep(levels: int) -> None:
    if not levels:
        raise ValueError
    fails_deep(levels - 1)


def test_a_traceback_of_a_thousand_frames() -> None:
    try:
        fails_deep(900)
    except ValueError as problem:
        found = stack.of_traceback(problem.__traceback__)
    assert len(found.users) == 24
    assert [read(level.frame).values["levels"] for level in found.users[:3]] == [0, 1, 2]
    assert found.left_out >= 900 - 24


def test_bytes_are_bounded_and_what_has_no_room_is_counted() -> None:
    names = {f"name_{n}": n for n in range(50)}
    source = "\n".join(
        ["def run(read, frame, within):", *(f"    {name} = {n}" for name, n in names.items()),
         "    return read(frame(), within)"]
    )  # fmt: skip
    run: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), run)
    whole = run["run"](read, _caller, budget())
    assert len(whole.values) == 53
    assert whole.left_out == 0
    for room in (300, 500, 700):
        some = run["run"](read, _caller, budget(room))
        assert 0 < len(some.values) < 53
        assert len(some.values) + some.left_out == 53
        assert len(json.dumps(some.values)) < room
        assert size(some) - size() <= room


def test_when_the_time_is_over_nothing_more_is_read() -> None:
    frame = sys._getframe()
    level = Level(frame, frame.f_lasti, may_read=True, may_move=False)
    assert read_frame(level, PlainValues(None), budget(seconds=-1.0)) is None


def test_a_frame_that_may_not_be_read_tells_what_is_missing() -> None:
    frame = sys._getframe()
    level = Level(frame, frame.f_lasti, may_read=False, may_move=False)
    found = read_frame(level, PlainValues(None), budget())
    assert found is not None
    assert "frame" not in found.values
    assert found.left_out == len(frame.f_code.co_varnames)


def test_a_thread_that_runs_on_meanwhile_is_told() -> None:
    moved = Level(frame := sys._getframe(), frame.f_lasti - 2, may_read=True, may_move=True)
    found = read_frame(moved, PlainValues(None), budget())
    assert found is not None
    assert found.moved
    assert read(frame).moved is None
