"""Which rank looks, when another takes over, and when nobody has to."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from collectrace.log_folder import LOOK, QUIET, TOLD, look_file, rank_file
from collectrace.tracer.life import reporter
from collectrace.tracer.life.reporter import Reporter
from collectrace.tracer.record.scopes import now

SECOND = 10**9


class Started:
    """A process that does nothing until it is over."""

    all: list[Started]

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self.number, self.rank = int(arguments[1]), int(arguments[2])
        self.over = False
        Started.all.append(self)

    def is_over(self) -> bool:
        return self.over

    def end(self, folder: Path, mark: str, read_at: float | None = None) -> None:
        file = folder / look_file(self.number, mark)
        file.touch()
        os.utime(file, (read_at or time.time(),) * 2)
        self.over = True


@pytest.fixture(autouse=True)
def _processes(monkeypatch: pytest.MonkeyPatch) -> None:
    Started.all = []
    monkeypatch.setattr(reporter, "AlignerProcess", Started)
    monkeypatch.setattr(Reporter, "_can_print", lambda _: True)


def ranks(folder: Path, world: int = 2, files: int = 2) -> list[Reporter]:
    for rank in range(files):
        (folder / rank_file(rank)).touch()
    return [
        Reporter(
            cast(Any, SimpleNamespace(
                writer=SimpleNamespace(home=folder), last_t=now() - SECOND
            )),
            rank, world, 60.0,
        )
        for rank in range(world)
    ]  # fmt: skip


def test_without_a_reason_nothing_is_done(tmp_path: Path) -> None:
    for one in ranks(tmp_path):
        one.step()
        assert not one.linger()
    assert Started.all == []
    assert not list(tmp_path.glob("verdict*"))


def test_the_first_looks_for_all(tmp_path: Path) -> None:
    one, other = ranks(tmp_path)
    one.want()
    other.want()
    for _ in range(3):
        other.step()
        one.step()
    [started] = Started.all
    assert (started.number, started.rank) == (1, 1)
    started.end(tmp_path, TOLD)
    for rank in (one, other):
        rank.step()
        assert rank.is_explained()
        rank.want()
        rank.step()
    assert len(Started.all) == 1


def test_a_rank_that_has_gone_on_since_may_ask_again(tmp_path: Path) -> None:
    one, _ = ranks(tmp_path)
    one.want()
    one.step()
    Started.all[0].end(tmp_path, TOLD)
    one._recorder.last_t = now() + SECOND
    assert not one.is_explained()
    one.want()
    one.step()
    assert [started.number for started in Started.all] == [1, 2]


def test_the_wall_clock_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = ranks(tmp_path)
    one.want()
    one.step()
    Started.all[0].end(tmp_path, TOLD)
    one.step()
    assert one.is_explained()
    before = time.time()
    monkeypatch.setattr(time, "time", lambda: before - 3600)
    one._recorder.last_t = now()
    assert not one.is_explained()
    one.want()
    one.step()
    assert [started.number for started in Started.all] == [1, 2]


def test_a_look_covers_who_had_stalled_before_it_read(tmp_path: Path) -> None:
    one, other = ranks(tmp_path)
    one.want()
    one.step()
    other.want()
    Started.all[0].end(tmp_path, QUIET, time.time() + 1)
    other.step()
    assert len(Started.all) == 1
    other.want()
    other._wanted_at = now() + 2 * SECOND  # it stalls later
    other.step()
    assert [(started.number, started.rank) for started in Started.all] == [(1, 0), (2, 1)]


def test_another_takes_over_where_there_is_no_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = ranks(tmp_path)
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    one.want()
    one.step()
    other.want()
    look = tmp_path / look_file(1, LOOK)
    for second in range(1, 20):  # touched all the time
        clock[0] += 1
        os.utime(look, (second, second))
        other.step()
    assert len(Started.all) == 1
    for number in (2, 3):
        Started.all[-1].over = True  # killed
        for _ in range(11):
            clock[0] += 1.1
            other.step()
        assert [started.number for started in Started.all] == list(range(1, number + 1))
    for _ in range(40):
        clock[0] += 1.1
        other.step()
    assert len(Started.all) == 3, "three in vain are enough"


def test_files_of_all_ranks_are_needed(tmp_path: Path) -> None:
    one, *_ = ranks(tmp_path, world=3, files=2)
    one.want()
    one.step()
    assert not one.explain()
    assert Started.all == []
    (tmp_path / rank_file(2)).touch()
    one.want()
    one.step()
    assert len(Started.all) == 1


def test_an_exception_waits_for_the_verdict_and_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "_TO_TELL", 0.2)
    one, other = ranks(tmp_path)
    assert one.explain()
    assert not one.linger()
    Started.all[0].end(tmp_path, TOLD)
    assert one.linger()
    assert other.explain(), "another has found out"
    assert len(Started.all) == 1


@pytest.mark.parametrize("problem", [OSError(28, "full"), RuntimeError("can't fork at shutdown")])
def test_what_cannot_be_started_is_left_to_others(
    problem: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise problem

    one, _ = ranks(tmp_path)
    monkeypatch.setattr(reporter, "AlignerProcess", fails)
    assert not one.explain()
    assert not one.linger()
    one.want()
    one.step()


def test_a_folder_that_takes_no_file_is_left_alone(tmp_path: Path) -> None:
    one, _ = ranks(tmp_path)
    for file in tmp_path.iterdir():
        file.unlink()
    tmp_path.rmdir()
    assert not one.explain()
    tmp_path.mkdir()
