"""What is written of which type; and that no code of a class runs for it.

Needs no torch, so that it can be run on every Python.
"""

from __future__ import annotations

import enum
import math
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from types import ModuleType
from typing import Any

import numpy
import pytest

from collectrace.tracer.values import numpy_scalars
from collectrace.tracer.values.plain import PlainValues, attributes_of, is_code
from tests.support import hostile_values as hostile
from tests.support.hostile_values import Hostile

PLAIN = PlainValues(b"of a run", rows=numpy_scalars.rows())


class Phase(enum.Enum):
    TRAIN = "train"


class Level(enum.IntEnum):
    HIGH = 3


class Mode(enum.Flag):
    A = 1
    B = 2


class Thing:
    pass


TABLE: list[tuple[Any, Any]] = [
    (None, None), (True, True), (False, False), (0, 0), (-7, -7), (2**63 - 1, 2**63 - 1),
    (2**63, {"type": "int", "value": "9223372036854775808"}),
    (-(2**100), {"type": "int", "value": str(-(2**100))}),
    (10**10_000, {"type": "int", "bits": 33_220}),
    (1.5, 1.5), (math.nan, {"type": "float", "value": "nan"}),
    (-math.inf, {"type": "float", "value": "-inf"}),
    (1 + 2j, {"type": "complex", "value": "(1+2j)"}),
    (Phase.TRAIN, {"type": "Phase", "value": "TRAIN"}),
    (Level.HIGH, {"type": "Level", "value": "HIGH"}),
    (Mode.A | Mode.B, {"type": "Mode", "value": "A|B"}), (Mode(0), {"type": "Mode", "value": 0}),
    ([1, 2], {"type": "list", "len": 2}), ((), {"type": "tuple", "len": 0}),
    ({"a": 1}, {"type": "dict", "len": 1}), ({1}, {"type": "set", "len": 1}),
    (frozenset(), {"type": "frozenset", "len": 0}), (deque([1]), {"type": "deque", "len": 1}),
    (range(5), {"type": "range", "len": 5}), (range(10**30), {"type": "range"}),
    (b"abc", {"type": "bytes", "len": 3}), (bytearray(2), {"type": "bytearray", "len": 2}),
    (defaultdict(int), {"type": "defaultdict", "len": 0}),
    (OrderedDict(a=1), {"type": "OrderedDict", "len": 1}),
    (numpy.float64(2.5), {"type": "float64", "value": 2.5}),
    (numpy.float32("nan"), {"type": "float32", "value": "nan"}),
    (numpy.int8(-3), {"type": "int8", "value": -3}),
    (numpy.uint64(2**64 - 1), {"type": "uint64", "value": str(2**64 - 1)}),
    (numpy.bool_(True), {"type": "bool", "value": True}),
    # Of all else the name of the type.
    (Counter("a"), {"type": "Counter"}), (Decimal(3), {"type": "Decimal"}),
    (numpy.ones(1), {"type": "ndarray"}), (Thing(), {"type": "Thing"}), (Thing, {"type": "type"}),
    (len, {"type": "builtin_function_or_method"}), (sys, {"type": "module"}),
    (ValueError("token"), {"type": "ValueError"}), (iter([1]), {"type": "list_iterator"}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "written"), TABLE, ids=lambda x: type(x).__name__)
def test_what_is_written_of_a_value(value: Any, written: Any) -> None:
    found = PLAIN.written(value)
    assert found == written
    assert type(found) is type(written)


def test_strings_can_be_told_apart_and_are_not_shown() -> None:
    same, other = PLAIN.written("a token"), PLAIN.written("another")
    assert isinstance(same, dict)
    assert isinstance(other, dict)
    assert set(same) == {"type", "len", "hash"}
    assert (same["type"], same["len"]) == ("str", 7)
    assert PLAIN.written("a " + "token") == same
    assert same["hash"] != other["hash"]
    assert 0 <= same["hash"] < 1 << 16
    of_another_run = PlainValues(b"of another").written("a token")
    assert isinstance(of_another_run, dict)
    assert of_another_run["hash"] != same["hash"]
    assert PlainValues(None).written("a token") == {"type": "str", "len": 7}
    shown = PlainValues(b"of a run", shows_text=True)
    assert shown.written("a token") == {"type": "str", "len": 7, "value": "a token"}
    assert shown.written("x" * 5000) == {"type": "str", "len": 5000, "value": "x" * 1000}


def test_long_strings_differ_by_their_ends_and_lengths() -> None:
    texts = ["x" * 100_000, "y" + "x" * 99_999, "x" * 99_999 + "y", "x" * 100_001, "\ud800" * 9000]
    assert len({str(PLAIN.written(text)) for text in texts}) == len(texts)


ACTS: list[Callable[[], Any]] = [hostile.nothing, hostile.raises, hostile.blocks]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_no_code_of_a_class_runs(act: Callable[[], Any]) -> None:
    made = Hostile(act)
    objects = list(made.objects())
    made.calls.clear()
    seen: dict[str, Any] = {}
    for name, x in objects:
        attributes = attributes_of(x)
        seen[name] = PLAIN.written(x), attributes and attributes.get("number"), is_code(x)
    assert made.calls == []
    assert seen["object"] == ({"type": "Trap"}, 3, False)
    assert seen["subclass of str"] == ({"type": "Trap"}, 3, False)
    assert seen["key"] == seen["subclass of dict as __dict__"] == ({"type": "Trap"}, None, False)
    assert seen["member of an enum"] == ({"type": "Phase", "value": "TRAIN"}, None, False)
    assert seen["class"][2]


def test_isinstance_would_run_code_of_each_of_them() -> None:
    made = Hostile(hostile.nothing)
    for name, x in made.objects():
        made.calls.clear()
        isinstance(x, Thing)
        assert made.calls, name


def test_numpy_that_is_none_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise SystemExit

    odd = ModuleType("numpy")
    odd.generic = type("generic", (), {"item": lambda _: SystemExit})  # type: ignore[attr-defined]
    for found in (Module("numpy"), odd, ModuleType("numpy"), None):
        monkeypatch.setitem(sys.modules, "numpy", found)
        assert numpy_scalars.rows() == {}
