"""Every cause, tried on every recorded run: who wins, who must not, and how it is worded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from collectrace.align.causes import phrases
from collectrace.align.causes.cause import Cause
from collectrace.align.causes.words import Words
from tests.support import causes
from tests.support.causes import Causes
from tests.zoo import corpus

_LONGEST_SENTENCES: Final = 3
_MOST_FIXES: Final = 3

_RUNS: Final = {run.name for run in corpus.runs()}
_ENTRIES: Final = {name: one for name, one in corpus.index().items() if name in _RUNS}


@pytest.fixture(scope="module")
def tried() -> Mapping[str, Causes]:
    return {name: causes.of_run(entry) for name, entry in _ENTRIES.items()}


_WITH_EXAMPLE: Final = [one for one in causes.in_use() if one.example]
_WITH_COUNTER_EXAMPLE: Final = [one for one in causes.in_use() if one.counter_example]


@pytest.mark.parametrize("cause", _WITH_EXAMPLE, ids=lambda one: one.code)
def test_it_wins_in_its_example(tried: Mapping[str, Causes], cause: Cause) -> None:
    assert cause.code in tried[cause.example].winning


@pytest.mark.parametrize("cause", _WITH_COUNTER_EXAMPLE, ids=lambda one: one.code)
def test_it_does_not_apply_in_its_counter_example(
    tried: Mapping[str, Causes], cause: Cause
) -> None:
    assert cause.code not in tried[cause.counter_example].applying


def test_of_causes_that_both_apply_one_yields(tried: Mapping[str, Causes]) -> None:
    found = {(one, other): run for one, other, run in causes.undecided(tried)}
    assert found == {}


def test_every_finding_has_a_code(tried: Mapping[str, Causes]) -> None:
    lacking = [(one.run, one.kind) for those in tried.values() for one in those.applied
               if one.winner is None]  # fmt: skip
    assert lacking == []


def _wrong(tried: Mapping[str, Causes], wrong_in: Callable[[Words], str]) -> dict[str, str]:
    """Return by code the first words that are wrong, with the run."""
    found: dict[str, str] = {}
    for those in tried.values():
        for one in those.applied:
            if one.said is not None and one.winner and (text := wrong_in(one.said)):
                found.setdefault(one.winner, f"{one.run}: {text}")
    return found


def test_headlines_are_one_short_line(tried: Mapping[str, Causes]) -> None:
    wrong = _wrong(
        tried,
        lambda said: (
            said.headline
            if len(said.headline) > phrases.HEADLINE or re.search(r"(?<!\.\.)\.$", said.headline)
            else ""
        ),
    )
    assert wrong == {}


def test_reasons_are_few_sentences(tried: Mapping[str, Causes]) -> None:
    wrong = _wrong(tried, lambda said: " | ".join(said.why) if _sentences(said.why) else "")
    assert wrong == {}


_ERROR: Final = r"\w+(Error|Exception): .*?(?= \()"
"""A text of an exception's, before the line that raised it."""


def _sentences(why: tuple[str, ...]) -> bool:
    """Return whether there are too many; quoted code and messages do not count."""
    plain = re.sub(_ERROR, "", re.sub(r"`[^`]*`", "", " ".join(why)))
    plain = re.sub(r"\([^()]*\)", "", plain)
    return len(re.findall(r"[.!?](?= [A-Z]|$)", plain)) > _LONGEST_SENTENCES


def test_fixes_are_few(tried: Mapping[str, Causes]) -> None:
    wrong = _wrong(
        tried, lambda said: " | ".join(said.fixes) if len(said.fixes) > _MOST_FIXES else ""
    )
    assert wrong == {}
