"""Decisions of one line that become one."""

from __future__ import annotations

from collectrace.align.code.decisions import Decision, merged
from collectrace.align.code.origins import Origin
from collectrace.align.code.places import Site

BEFORE = Site("train.py", 3)


def part(origin: Origin, comes_from: Site | None) -> Decision:
    at = Site("train.py", 9)
    text = "if step == start and rank == 0:"
    return Decision(at, text, "main", (None, None), (origin,), comes_from=comes_from)


def test_a_condition_that_asks_for_the_rank_has_it_from_no_earlier_line() -> None:
    earlier, itself = part(Origin.RANK, BEFORE), part(Origin.RANK, None)
    assert merged(earlier, itself).comes_from is None
    assert merged(itself, earlier).comes_from is None


def test_the_part_that_tells_most_says_where_its_origin_comes_in() -> None:
    data, clock = part(Origin.DATA, Site("train.py", 2)), part(Origin.CLOCK, BEFORE)
    for both in (merged(data, clock), merged(clock, data)):
        assert both.origins == (Origin.CLOCK, Origin.DATA)
        assert both.comes_from == BEFORE


def test_of_two_parts_alike_the_first_says_it() -> None:
    one, other = part(Origin.DATA, BEFORE), part(Origin.DATA, Site("train.py", 2))
    assert merged(one, other).comes_from == BEFORE
