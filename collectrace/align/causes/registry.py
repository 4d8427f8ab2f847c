"""The one table of causes, and the order in which they are tried."""

from __future__ import annotations

import graphlib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final, Literal

from collectrace.align.causes.situation import NEEDS, Need, Situation
from collectrace.align.causes.words import Words
from collectrace.findings import KINDS, MISMATCHES, Kind

Status = Literal["stable", "preview", "retired"]


@dataclass(frozen=True, slots=True)
class Cause:
    """A row of the table of causes."""

    code: str
    """``CT102``. Codes never change their meaning, and are never used again."""

    name: str
    """``skipped-by-condition``. The module is ``ct102_skipped_by_condition``."""

    summary: str
    """One sentence."""

    kinds: frozenset[Kind]
    """The kinds of finding that it can explain."""

    needs: tuple[Need, ...] = ()
    """Facts without which it is not tried: see ``situation.NEEDS``."""

    yields_to: tuple[str, ...] = ()
    """Codes that are more specific and win if both apply; ``CT2`` stands for all that begin so."""

    example: str = ""
    """A script of ``tests/zoo`` in which it wins."""

    counter_example: str = ""
    """A script of ``tests/zoo`` that looks alike and in which it must not apply."""

    since: str = "0.1.0"
    """The version that had it first."""

    status: Status = "stable"

    reason: str = ""
    """Why it was retired, and in which version."""

    @property
    def module(self) -> str:
        """Name of the module that finds it and words it."""
        return f"{self.code.lower()}_{self.name.replace('-', '_')}"

    def load(self) -> ModuleType:
        """Return its module."""
        return importlib.import_module(f"collectrace.align.causes.{self.module}")

    def find(self, situation: Situation) -> Any:
        """Return what the module finds, None if the cause does not apply."""
        if situation.kind not in self.kinds:
            return None
        if not all(NEEDS[need](situation) for need in self.needs):
            return None
        find: Callable[[Situation], Any] = self.load().find
        return find(situation)

    def words(self, situation: Situation, found: Any) -> Words:
        """Return its words for what it found."""
        words: Callable[[Situation, Any], Words] = self.load().words
        return words(situation, found)


ROWS: Final[frozenset[Kind]] = MISMATCHES - {"lost_mismatch"}
"""Kinds of a call of a stream at which ranks made different calls."""

MESSAGES: Final[frozenset[Kind]] = frozenset({"p2p_unmatched", "p2p_mismatch"})

ALL: Final[frozenset[Kind]] = frozenset(KINDS)


def _kinds(*kinds: Kind) -> frozenset[Kind]:
    return frozenset(kinds)


CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT101", "rank-condition",
        "A condition on the rank let only some ranks make a call.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT104",),
        example="matching/missing", counter_example="healthy/leader_and_followers",
    ),
    Cause(
        "CT102", "decided-by-data",
        "A condition that can differ between ranks decided which calls they made.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT101", "CT104"),
    ),
    Cause(
        "CT103", "loop-length",
        "A loop had more iterations on some ranks than on others.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT104",),
    ),
    Cause(
        "CT104", "handled-exception",
        "Some ranks handled an exception that the others did not have.",
        ROWS | _kinds("missing_call"), ("root",),
    ),
    Cause(
        "CT105", "other-function",
        "One line called different functions on different ranks.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT104",),
    ),
    Cause(
        "CT106", "other-value",
        "One line computed different values, and the calls after it differ.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT104",),
    ),
)  # fmt: skip
"""THE table of causes, by code."""

BY_CODE: Final[Mapping[str, Cause]] = {cause.code: cause for cause in CAUSES}


@cache
def order() -> tuple[Cause, ...]:
    """Return the causes that are in use, those first that others yield to.

    Raises:
        graphlib.CycleError: causes yield to each other in a circle.

    """
    graph: dict[str, set[str]] = {}
    for cause in CAUSES:
        if cause.status != "retired":
            graph[cause.code] = {code for code in winners(cause) if code != cause.code}
    return tuple(BY_CODE[code] for code in graphlib.TopologicalSorter(graph).static_order())


def winners(cause: Cause) -> tuple[str, ...]:
    """Return the codes that win over a cause if both apply."""
    return tuple(
        other.code
        for other in CAUSES
        if other.status != "retired" and other.code.startswith(tuple(cause.yields_to))
    )
