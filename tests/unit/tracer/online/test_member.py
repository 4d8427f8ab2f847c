"""What a rank hears of the turns of its job, and what it leaves at the store."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from collectrace import exchange
from collectrace.exchange import Announced, Keys, Verdict
from collectrace.tracer.online.member import Member
from tests.support.dict_store import DictStore

KEYS = Keys("run-1")


@pytest.fixture
def acted() -> list[Verdict]:
    return []


@pytest.fixture
def member(tmp_path: Path, acted: list[Verdict]) -> Member:
    recorder: Any = SimpleNamespace(
        writer=SimpleNamespace(path=tmp_path / "rank00000.jsonl"), calls=0, active=True,
        sources=None,
        book=SimpleNamespace(states={}), works=SimpleNamespace(oldest_incomplete=list),
        count_failure=None,
    )  # fmt: skip
    announced = Announced("run-1", 2, 5.0)
    return Member(recorder, announced, 0, ("here", 1), lambda: 0, acted.append)


def look(member: Member, store: Any) -> None:
    member._look(store)


def tell(store: Any, by: str, headline: str) -> Verdict:
    """A turn that is opened, finds something, and is closed."""
    turn = exchange.open_turn(store, KEYS, by)
    assert turn is not None
    verdict = Verdict(turn.number, by, "diverged", headline, "op_mismatch", is_proven=True)
    store.set(KEYS.verdict(turn.number), exchange.encode(verdict))
    exchange.close_turn(store, KEYS, turn)
    return verdict


def test_a_verdict_is_heard_though_a_reader_has_opened_the_next_turn(
    member: Member, acted: list[Verdict]
) -> None:
    store: Any = DictStore()
    verdict = tell(store, "rank 1", "rank 0 called barrier")
    exchange.open_turn(store, KEYS, "a reader outside the job")
    look(member, store)
    assert acted == [verdict]
    look(member, store)
    assert acted == [verdict]
    assert store.read(KEYS.card(2, 0)) is not None  # and the reader is answered


def test_a_diagnosis_that_was_killed_leaves_no_open_turn_and_no_answers(member: Member) -> None:
    store: Any = DictStore()
    turn = exchange.open_turn(store, KEYS, "rank 0")
    assert turn is not None
    for rank in range(2):
        for key in (KEYS.card, KEYS.ask, KEYS.answer):
            store.set(key(turn.number, rank), b"x")
    diagnosis: Any = SimpleNamespace(turn=1, is_over=lambda: True, report=lambda: None)
    member._diagnosis = diagnosis
    look(member, store)
    assert list(store.keys) == [KEYS.turn]
    closed = exchange.turn_of(store.read(KEYS.turn))
    assert closed is not None
    assert not closed.is_open
