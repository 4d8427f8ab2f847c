"""What repeats in a sequence is told once, and comes back as it was."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectrace.align.overview.repeats import Packer, unpack

NUMBERS = st.lists(st.integers(0, 4), max_size=80)


@given(NUMBERS, NUMBERS, NUMBERS, st.integers(0, 12))
def test_what_was_packed_comes_back(
    known: list[int], loop: list[int], rest: list[int], times: int
) -> None:
    text = loop * times + rest + known + loop
    packed = Packer(array("i", known)).pack(array("i", text))
    assert unpack(packed, known) == text


@pytest.mark.parametrize("period", [1, 3, 4, 7, 900])
def test_a_loop_costs_one_round(period: int) -> None:
    loop = list(range(period)) * (20_000 // period)
    packed = Packer(array("i")).pack(array("i", loop))
    assert len(packed) <= period + 2 + 4
    assert unpack(packed) == loop


def test_what_is_known_costs_nothing_wherever_it_moved_to() -> None:
    program = [n * 7919 % 1000 for n in range(5000)]  # nothing in it repeats within 1,000
    other = [*program[:2000], 1001, *program[2000:4000]]
    packed = Packer(array("i", program)).pack(array("i", other))
    assert len(packed) <= 5
    assert unpack(packed, program) == other
