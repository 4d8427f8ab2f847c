"""What a header says that a text must mention."""

from __future__ import annotations

import pytest

from tests.zoo.mentions import Mentions

MARKS = {"BUG": ["case.py:4", "case.py:17"], "CALLER": ["case.py:30"]}


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("rank 0", "Rank 0 left it out"),
        ("rank 0; barrier", "the barrier of rank 0"),
        ("order | permut*", "in permuted order"),
        ("permut*", "a permutation"),
        ("float32[8, 2]", "all_reduce(float32[8, 2], SUM)"),
        ("BUG", "called at case.py:17, alone"),
        ("CALLER | branch", "since case.py:30"),
        ("comm.py:8", "through comm.py:8"),
        (r"/\d+ of \d+ groups/", "in 4 of 4 groups"),
        ("", "anything"),
    ],
)
def test_it_is_mentioned(wanted: str, text: str) -> None:
    assert Mentions.parse(wanted, MARKS).missing_in(text) == []


@pytest.mark.parametrize(
    ("wanted", "text", "missing"),
    [
        ("rank 0", "rank 01", ["rank 0"]),
        ("call 4", "call 41", ["call 4"]),
        ("in", "join() ended", ["in"]),
        ("order", "at order_swapped.py:17", ["order"]),
        ("order*", "at order_swapped.py:17", ["order*"]),
        ("BUG", "case.py:174", ["BUG"]),
        ("BUG", "a bug", ["BUG"]),
        ("CALLER", "case.py:4", ["CALLER"]),
        ("rank 0; barrier |  loop", "rank 1", ["rank 0", "barrier | loop"]),
    ],
)
def test_it_is_not(wanted: str, text: str, missing: list[str]) -> None:
    assert Mentions.parse(wanted, MARKS).missing_in(text) == missing


def test_what_is_found_is_told_word_for_word() -> None:
    never = Mentions.parse("ragged | drop_last; unused", MARKS)
    assert never.found_in("A Ragged batch") == ["Ragged"]
    assert never.found_in("nothing of the kind") == []


def test_a_bar_between_slashes_parts_nothing() -> None:
    mentions = Mentions.parse(r"/(step|iteration) 5\b/ | fifth", {})
    assert mentions.missing_in("Step 5 on rank 1") == []
    assert mentions.missing_in("the fifth") == []
    assert mentions.missing_in("iteration 6") != []
