"""What is kept of the program's objects goes when they go, and is never another's."""

from __future__ import annotations

from typing import NoReturn

from collectrace.tracer.user_objects import ByObject


class Thing:
    def __hash__(self) -> NoReturn:
        raise AssertionError("asked for its hash")

    def __eq__(self, other: object) -> NoReturn:
        raise AssertionError("asked whether it is equal")


def test_objects_are_told_apart_without_asking_them() -> None:
    known, one, other = ByObject[int](), Thing(), Thing()
    known[one] = 1
    assert known.get(other) is None
    known[other] = 2
    known[one] = 3
    assert (known.get(one), known.get(other)) == (3, 2)
    assert [reference() is thing for reference, thing in zip(
        known.references(), (one, other), strict=True
    )] == [True, True]  # fmt: skip


def test_nothing_is_kept_of_those_that_are_gone() -> None:
    known = ByObject[int]()
    for n in range(100):  # some of them get the same address
        one = Thing()
        assert known.get(one) is None
        known[one] = n
        known[one] = n + 1
        del one
        assert known.references() == []
