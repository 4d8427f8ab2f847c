"""Variables are read from outside, and the program does not notice: not by a reference, not at all.

Needs no torch, so that it can be run on every Python.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from collectrace.tracer.values import stack
from collectrace.tracer.values.stack import Level
from collectrace.tracer.values.variables import global_variables, local_names, variables
from tests.support.stopped import Pause, stopped

COPIES = sys.version_info < (3, 12)
"""Python has no way to read one variable: all are copied."""


class Thing:
    """As a tensor: it can be seen to be freed."""


def held(level: Level) -> dict[str, Any] | None:
    """What a frame holds, where it may be read."""
    frame = level.frame
    found = variables(frame, local_names(frame)) if level.may_read else None
    return None if found is None else dict(found)


def innermost(levels: list[Level], name: str) -> Level:
    return next(level for level in levels if level.frame.f_code.co_name == name)


# -- what is freed -----------------------------------------------------------------------------


def lets_go(pause: Pause) -> list[bool]:
    deleted, rebound = Thing(), Thing()
    seen = [weakref.ref(deleted), weakref.ref(rebound)]

    def uses() -> Thing:
        return rebound  # so it lies in a cell

    pause()
    del deleted
    rebound = Thing()
    freed = [reference() is None for reference in seen]
    return [*freed, uses() is rebound]


def test_del_and_another_value_free_an_object_after_a_read() -> None:
    with stopped(lets_go) as thread:
        found = held(innermost(thread.stack().users, "lets_go"))
        assert found is not None
        assert {"deleted", "rebound", "seen", "pause", "uses"} <= set(found)
        assert type(found["rebound"]) is Thing
        del found
        assert thread.result() == [True, True, True]


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="f_locals holds nothing there")
def test_f_locals_by_itself_would_keep_it_alive() -> None:
    with stopped(lets_go) as thread:
        assert "deleted" in innermost(thread.stack().users, "lets_go").frame.f_locals
        assert thread.result() == [False, False, True]


def fails() -> None:
    thing = Thing()
    raise ValueError(weakref.ref(thing))


def test_an_exceptions_frames_are_freed_with_it() -> None:
    try:
        fails()
    except ValueError as problem:
        (reference,) = problem.args
        found = stack.of_traceback(problem.__traceback__).users
        assert [level.frame.f_code.co_name for level in found[:1]] == ["fails"]
        inside = held(found[0])
        assert inside is not None
        assert type(inside.pop("thing")) is Thing
        found[0].frame.clear()
    assert reference() is None


# -- what is changed ---------------------------------------------------------------------------


def asks(pause: Pause) -> tuple[set[str], int]:
    early = 1
    mine = locals()
    late = 2
    pause()
    return set(mine), early + late


def test_what_locals_returned_before_does_not_change() -> None:
    with stopped(asks) as thread:
        found = held(innermost(thread.stack().users, "asks"))
        assert found is None if COPIES else found is not None and found["late"] == 2
        assert thread.result() == ({"pause", "early"}, 3)


def is_looked_at(pause: Pause) -> set[str]:
    value = 1

    def look() -> Any:
        return sys._getframe(1).f_locals

    theirs = look()
    pause()
    return set(theirs) - {"theirs"} if value else set()


def test_a_copy_that_somebody_holds_is_not_emptied() -> None:
    with stopped(is_looked_at) as thread:
        found = held(innermost(thread.stack().users, "is_looked_at"))
        assert found is not None
        assert found["value"] == 1
        assert thread.result() == {"pause", "value", "look"}


@pytest.mark.parametrize("event", ["call", "return", "c_call", "c_return"])
def test_a_function_with_a_profile_function_at_work_on_it_keeps_its_variables(event: str) -> None:
    """On Python 3.11 variables are written back from the copy when that returns."""

    def profiled(x: int) -> tuple[int, int]:
        y = x + len("1")
        return x, y

    def run(pause: Pause) -> Any:
        def profile(frame: FrameType, what: str, _: Any) -> None:
            if frame.f_code is profiled.__code__ and what == event:
                sys.setprofile(None)
                pause()

        sys.setprofile(profile)
        return profiled(3)

    with stopped(run) as thread:
        level = innermost(thread.stack().users, "profiled")
        assert level.may_read is not COPIES
        found = held(level)
        assert found is None if COPIES else found is not None and found["x"] == 3
        assert thread.result() == (3, 4)


def test_a_function_with_a_trace_function_at_work_on_it_keeps_its_variables() -> None:
    def traced(x: int) -> tuple[int, int]:
        y = x + 1
        return x, y

    def run(pause: Pause) -> Any:
        def trace(frame: FrameType, what: str, _: Any) -> Any:
            if frame.f_code is traced.__code__ and what == "return":
                sys.settrace(None)
                pause()
            return trace

        sys.settrace(trace)
        return traced(3)

    with stopped(run) as thread:
        assert innermost(thread.stack().users, "traced").may_read is not COPIES
        assert thread.result() == (3, 4)


# -- what is read ------------------------------------------------------------------------------


def makes(pause: Pause) -> Iterator[int]:
    for number in range(3):
        pause()
        yield number


def uses_many(pause: Pause, *args: int, **kwargs: int) -> Any:
    unbound: int
    cell = 5

    def inner() -> int:
        local = cell + args[0]
        list(makes(pause))
        return local

    result = inner()
    unbound = result
    return unbound


def test_arguments_cells_free_variables_and_generators() -> None:
    with stopped(lambda pause: uses_many(pause, 1, 2, key=3)) as thread:
        levels = thread.stack().users
        generator, inner, outer = (
            held(innermost(levels, name)) for name in ("makes", "inner", "uses_many")
        )
        assert generator is not None and inner is not None and outer is not None  # noqa: PT018
        assert generator["number"] == 0
        assert (inner["local"], inner["cell"], inner["args"]) == (6, 5, (1, 2))
        assert (outer["cell"], outer["kwargs"]) == (5, {"key": 3})
        assert not {"unbound", "result"} & set(outer)
        assert thread.result() == 6


class Namespace(dict[str, Any]):
    """Of a class, or of executed code: it counts who looks into it."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        Namespace.looks += 1
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        Namespace.looks += 1
        super().__setitem__(key, value)


class Prepared(type):
    """Its classes are made in such a namespace."""

    @classmethod
    def __prepare__(cls, *_: Any, **__: Any) -> Namespace:
        return Namespace()


def makes_a_class(pause: Pause) -> int:
    class Made(metaclass=Prepared):
        looked = Namespace.looks
        pause()
        looks = Namespace.looks - looked

    return Made.looks


def test_the_body_of_a_class_is_left_alone() -> None:
    with stopped(makes_a_class) as thread:
        level = innermost(thread.stack().users, "Made")
        assert held(level) == {}
        assert global_variables(level.frame) is None
        looks = thread.result()
    unread = Pause()
    unread.go_on()
    assert looks == makes_a_class(unread), "as many as where nobody reads"


def test_global_variables_are_those_of_modules_and_functions() -> None:
    code = compile("pause()", "train.py", "exec")
    for namespaces in (1, 2):
        names: dict[str, Any] = {"x": namespaces}

        def run(pause: Pause, names: dict[str, Any] = names, count: int = namespaces) -> None:
            names["pause"] = pause
            if count == 1:
                exec(code, names)
            else:
                exec(code, names, {"x": "another"})

        with stopped(run) as thread:
            levels = thread.stack().users
            found = global_variables(innermost(levels, "<module>").frame)
            assert (found is names) == (namespaces == 1)
            assert global_variables(innermost(levels, "run").frame) is globals()
