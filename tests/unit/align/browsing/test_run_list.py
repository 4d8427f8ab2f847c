"""The runs of a folder, and which ranks and hosts of one are not there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from collectrace.align.browsing.run_list import list_runs
from collectrace.align.reading import run_reader
from collectrace.align.reading.hosts import hosts_missing
from collectrace.errors import LogError
from tests.support.synthetic import SECOND, Run

BEGAN = 1_760_000_000 * SECOND


def write(folder: Path, name: str, later: int = 0, *, split: bool = False) -> Run:
    run = Run(world=2, name=name, start=BEGAN + later * SECOND, argv=["train.py"])
    run.all("all_reduce")
    run.rank(0).call("barrier" if split else "all_reduce")
    run.rank(1).call("all_reduce")
    run.finish()
    run.write(folder)
    return run


def test_the_newest_comes_first_each_with_its_own_verdict(tmp_path: Path) -> None:
    write(tmp_path, "b-old")
    write(tmp_path, "a-new", 60, split=True)
    new, old = list_runs(tmp_path)
    assert (new.run, new.verdict, new.began) == ("a-new", "diverged", BEGAN + 60 * SECOND)
    assert "barrier" in new.headline
    assert (old.run, old.verdict, old.headline) == ("b-old", "aligned", "")
    assert (old.world_size, old.missing_ranks, old.script) == (2, (), "train.py")


def test_a_run_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path, "20200101-000000-aaaaaa")
    empty = tmp_path / "20990101-000000-aaaaaa"
    empty.mkdir()
    (empty / "rank00000.jsonl").touch()
    new, old = list_runs(tmp_path)
    assert (new.run, new.verdict) == (empty.name, "unreadable")
    assert "no readable record" in new.headline
    assert old.verdict == "aligned"


def test_nothing_to_list(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="holds no rank files"):
        list(list_runs(tmp_path))


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, and tests may run as root."""
    (tmp_path / "run-1").mkdir()
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "run-1")
    with pytest.raises(LogError, match="run-1 may not be read"):
        list(list_runs(tmp_path))


@pytest.mark.parametrize(
    ("omitted", "says"),
    [
        ((4, 5, 6, 7), " (all 4 ranks of host no. 2, as launchers number them)"),
        ((5, 6, 7), ""),  # hosts of different sizes are left
        (
            (0, 1, 2, 3, 8, 9, 10, 11),
            " (all 4 ranks of each of the hosts no. 1, 3, as launchers number them)",
        ),
        ((), ""),
    ],
)
def test_whole_hosts_that_are_missing(tmp_path: Path, omitted: tuple[int, ...], says: str) -> None:
    run = Run(world=12)
    for rank in run:
        rank.header = replace(rank.header, host=f"node{rank.rank // 4}")
    run.all("all_reduce")
    run.finish()
    for number in omitted:
        run.omit(number)
    run.write(tmp_path)
    found = run_reader.read(tmp_path)
    assert found.missing == omitted
    assert hosts_missing(found) == says


def test_ranks_dealt_out_in_turn_name_no_host(tmp_path: Path) -> None:
    run = Run(world=8)
    for rank in run:
        rank.header = replace(rank.header, host=f"node{rank.rank % 2}")
    run.finish()
    for number in (4, 5, 6, 7):
        run.omit(number)
    run.write(tmp_path)
    assert hosts_missing(run_reader.read(tmp_path)) == ""
