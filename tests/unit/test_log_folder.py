"""What runs and their files are called fits what such names are known by."""

from __future__ import annotations

import datetime

import pytest

from collectrace.log_folder import RANK_FILE, RUN_ID, STAMP, rank_file


@pytest.mark.parametrize("rank", [0, 12, 99_999, 123_456])
def test_a_rank_file_tells_its_rank(rank: int) -> None:
    found = RANK_FILE.fullmatch(rank_file(rank))
    assert found is not None
    assert (int(found[1]), found[2]) == (rank, None)


def test_rank_files_sort_by_rank() -> None:
    assert rank_file(7) == "rank00007.jsonl"


def test_a_later_segment_tells_its_ordinal() -> None:
    found = RANK_FILE.fullmatch("rank00003.0012.jsonl")
    assert found is not None
    assert (int(found[1]), int(found[2])) == (3, 12)


def test_an_id_tells_when_its_run_began() -> None:
    began = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    found = RUN_ID.fullmatch(f"{began.strftime(STAMP)}-00aaff")
    assert found is not None
    assert datetime.datetime.strptime(f"{found[1]}+0000", f"{STAMP}%z") == began


@pytest.mark.parametrize(
    "name", ["20260102-030405", "20260102-030405-00AAFF", "x20260102-0304-00aaff"]
)
def test_what_is_no_id(name: str) -> None:
    assert RUN_ID.fullmatch(name) is None
