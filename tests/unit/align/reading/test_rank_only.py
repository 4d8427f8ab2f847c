"""Decorators that run a function on one rank."""

from __future__ import annotations

import ast

import pytest

from collectrace.align.reading import rank_only


@pytest.mark.parametrize(
    "text",
    [
        "@rank_zero_only",
        "@utilities.rank_zero_only",
        "    @accelerator.on_main_process  # for the log",
        "@PartialState().on_process(process_index=2)",
        "@on_local_main_process",
        "@master_only",
        "@idist.one_rank_only(rank=get_rank_of_the_writer())",
    ],
)
def test_names_of_frameworks(text: str) -> None:
    node = ast.parse(f"\n{text.strip()}\ndef log(): pass\n").body[0]
    assert rank_only.lines_of(node) == [2]


@pytest.mark.parametrize(
    "text",
    [
        "@rank_zero_first",
        "@idist.one_rank_first()",
        "@cached",
        "@on_main",
        "@rank_zero_only_if(ready)",
        "@lru_cache()",
    ],
)
def test_others(text: str) -> None:
    assert not rank_only.is_one(text)
    node = ast.parse(f"\n{text}\ndef log(): pass\n").body[0]
    assert rank_only.lines_of(node) == []


def test_what_is_no_decorator() -> None:
    assert not rank_only.is_one("rank_zero_only(log)")
    assert rank_only.lines_of(ast.parse("x = 1").body[0]) == []
