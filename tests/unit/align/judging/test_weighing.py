"""Who is to blame by rows of evidence, and the table of facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collectrace.align.judging import finders, weighing
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.evidence import ENOUGH, FACTS, Evidence, evidence_rows
from collectrace.align.judging.judge import judge
from collectrace.align.judging.weighing import Finder, Weighed, weigh
from tests.support.judging import case_of
from tests.support.synthetic import Run

ALL = tuple(one for those in finders.ALL.values() for one in those)


def row(fact: str, *ranks: int) -> Evidence:
    return Evidence(fact, ranks)


@pytest.mark.parametrize(
    ("rows", "suspects"),
    [
        pytest.param([], (), id="nothing speaks for blame"),
        pytest.param([row("outvoted", 1)], (1,), id="one fact decides alone"),
        pytest.param([row("outvoted")], (), id="a fact about no rank"),
        pytest.param([row("left_own_rounds", 1)], (), id="too little"),
        pytest.param(
            [row("left_own_rounds", 1), row("in_handler", 1)], (1,), id="two that are enough"
        ),
        pytest.param(
            [row("left_own_rounds", 1), row("left_own_rounds", 1)], (), id="one fact, found twice"
        ),
        pytest.param(
            [row("left_own_rounds", 1), row("in_handler", 0)], (), id="two about other ranks"
        ),
        pytest.param(
            [row("left_own_rounds", 1), row("in_handler", 1), row("led_past_by_rank", 0)],
            (),
            id="what decides only together is disputed",
        ),
        pytest.param(
            [row("outvoted", 1), row("led_past_by_rank", 0)], (1,), id="the heavier one decides"
        ),
        pytest.param(
            [row("rank_condition", 0), row("holds_up_others", 1)], (1,), id="in whatever order"
        ),
        pytest.param([row("outvoted", 1), row("fewer_finished", 2)], (), id="a tie"),
        pytest.param([row("outvoted", 1), row("fewer_finished", 1, 2)], (), id="more ranks, too"),
        pytest.param(
            [row("outvoted", 1), row("root_alone_had_value", 1, 2)], (), id="it is forbidden"
        ),
        pytest.param(
            [row("root_alone_had_value", 1, 2), row("outvoted", 0, 1)],
            (0, 1),
            id="not all of them are protected",
        ),
        pytest.param(
            [row("holds_up_others", 1), row("root_alone_had_value", 1, 2)],
            (1,),
            id="a fact that does not yield to it",
        ),
    ],
)
def test_who_is_to_blame(rows: list[Evidence], suspects: tuple[int, ...]) -> None:
    assert weigh(rows).suspects == suspects


def test_what_decided_is_told() -> None:
    deciding = [row("left_own_rounds", 1), row("in_handler", 1)]
    assert weigh(deciding).evidence == tuple(deciding)
    veto = row("root_alone_had_value", 0, 1)
    assert weigh([row("outvoted", 1), veto]) == Weighed((), (veto,))


def test_evidence_as_a_finding_has_it() -> None:
    rows = evidence_rows(
        [Evidence("outvoted", (1,), ("train.py:3",)), row("root_alone_had_value", 1)]
    )
    assert rows is not None
    assert [(one.fact, one.speaks, one.ranks, one.sites) for one in rows] == [
        ("outvoted", "for", (1,), ("train.py:3",)),
        ("root_alone_had_value", "against", (1,), None),
    ]
    assert rows[0].weight == FACTS["outvoted"].weight
    assert evidence_rows([]) is None


def test_only_what_can_matter_is_asked(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).call("barrier")
    run.rank(1).call("all_reduce", shape=[4])
    case = case_of(run, tmp_path)
    (candidate,) = judge(case)
    asked: list[str] = []

    def finder(fact: str, *ranks: int) -> Finder:
        def find(case: Case, candidate: Candidate) -> Iterator[Evidence]:
            asked.append(fact)
            yield row(fact, *ranks)

        return Finder(find, (fact,))

    those = (
        finder("left_own_rounds", 1),
        finder("root_alone_had_value", 0),
        finder("outvoted", 1),
        finder("called_at_intervals", 0, 1),
    )
    found = weighing.judge(case, candidate, {type(candidate.source): those})
    assert found.suspects == (1,)
    assert asked == ["outvoted", "root_alone_had_value"]


def test_every_fact_has_a_finder_and_every_veto_a_fact() -> None:
    assert {fact for one in ALL for fact in one.facts} == {*FACTS}
    for name, fact in FACTS.items():
        assert 0 < fact.weight <= 100, name
        assert fact.summary.endswith("."), name
        assert all(FACTS[veto].speaks == "against" for veto in fact.vetoed_by), name
        assert fact.speaks == "for" or not fact.vetoed_by, name
        yields = any(name in other.vetoed_by for other in FACTS.values())
        assert yields is (fact.speaks == "against"), name


def test_a_finder_finds_facts_of_one_kind() -> None:
    for one in ALL:
        assert len({FACTS[fact].speaks for fact in one.facts}) == 1, one
        assert len({FACTS[fact].weight >= ENOUGH for fact in one.facts}) == 1, one
