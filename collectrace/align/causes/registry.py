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
        yields_to=("CT104", "CT108"),
        example="matching/missing", counter_example="healthy/leader_and_followers",
    ),
    Cause(
        "CT102", "decided-by-data",
        "A condition that can differ between ranks decided which calls they made.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT101", "CT104", "CT107", "CT108"),
    ),
    Cause(
        "CT103", "loop-length",
        "A loop had more iterations on some ranks than on others.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT104", "CT108"),
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
        yields_to=("CT104", "CT107", "CT108"),
    ),
    Cause(
        "CT106", "other-value",
        "One line computed different values, and the calls after it differ.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT104", "CT107", "CT108"),
    ),
    Cause(
        "CT107", "iteration-order",
        "A loop gave the ranks other items, or the same items in another order.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
    ),
    Cause(
        "CT108", "other-order",
        "A rank made the same calls as the others, in another order.",
        ROWS, ("root",), yields_to=("CT104", "CT107"),
    ),
    Cause(
        "CT601", "other-group",
        "At one place in the program, ranks created groups with different members.",
        _kinds("group_mismatch"), ("root",), yields_to=("CT602", "CT603"),
        example="groups/created_with_other_ranks", counter_example="groups/created_on_one_rank",
    ),
    Cause(
        "CT602", "group-skipped",
        "Some ranks did not create a group that the others created.",
        _kinds("group_mismatch", "missing_call"), ("root",), yields_to=("CT603",),
        example="groups/created_on_one_rank", counter_example="groups/created_with_other_ranks",
    ),
    Cause(
        "CT603", "members-make-group",
        "Members of a group that is made by its members only wait for each other.",
        _kinds("group_mismatch", "missing_call", "deadlock"), ("root",),
        example="groups/local_groups_in_a_ring", counter_example="groups/created_in_other_order",
    ),
    Cause(
        "CT604", "wrong-group",
        "One line called a collective on different groups.",
        _kinds("deadlock", "role_mismatch"), ("root",), yields_to=("CT603",),
        example="groups/wrong_group_same_members", counter_example="groups/rank_without_tokens",
    ),
    Cause(
        "CT605", "opposite-group-order",
        "Ranks entered two groups in opposite order, and wait for each other.",
        _kinds("deadlock"), ("root",), yields_to=("CT603", "CT604", "CT606"),
        example="groups/barrier_among_leaders", counter_example="groups/opposite_order",
    ),
    Cause(
        "CT606", "skipped-in-group",
        "A rank departed from its usual calls, and waits in one group while others wait in another."
        "",
        _kinds("deadlock"), ("root",), yields_to=("CT603", "CT604"),
        example="groups/rank_without_tokens", counter_example="groups/opposite_order",
    ),
    Cause(
        "CT607", "repeated",
        "The error of another group, or of another message, once more.",
        ALL,
        example="groups/first_of_each_pair", counter_example="groups/rank_without_tokens",
    ),
    Cause(
        "CT701", "message-order",
        "Ranks wait for each other's messages, because each begins with the same operation.",
        _kinds("deadlock"), ("root",), yields_to=("CT702", "CT710", "CT712"),
        example="p2p/both_receive_first", counter_example="p2p/gradient_that_was_not_sent",
    ),
    Cause(
        "CT702", "wrong-peer-or-too-early",
        "A send closes a cycle of waits: it went to the wrong rank, or it comes too early.",
        _kinds("deadlock"), ("root",), yields_to=("CT710", "CT712"),
        example="p2p/wrong_peer_in_a_ring", counter_example="p2p/wrong_peer",
    ),
    Cause(
        "CT703", "broken-exchange",
        "A rank departed from an exchange of messages that had worked before.",
        _kinds("deadlock"), ("root",), yields_to=("CT701", "CT702", "CT704", "CT710", "CT712"),
        example="p2p/gradient_that_was_not_sent", counter_example="p2p/both_receive_first",
    ),
    Cause(
        "CT704", "message-without-other-end",
        "A send has no receive, or a receive has no send.",
        _kinds("deadlock", "p2p_unmatched"), ("root",),
        yields_to=("CT701", "CT702", "CT705", "CT706", "CT709", "CT710", "CT712"),
        example="p2p/five_sends_four_recvs", counter_example="p2p/wrong_tag",
    ),
    Cause(
        "CT705", "other-tag-or-peer",
        "A send and a receive would match but for one thing: the tag, the peer, or the group.",
        _kinds("p2p_unmatched"), ("root",), yields_to=("CT706", "CT710"),
        example="p2p/wrong_tag", counter_example="p2p/stage_numbers",
    ),
    Cause(
        "CT706", "group-rank-as-peer",
        "Messages name their peers by ranks in a group, where global ranks are expected.",
        _kinds("p2p_unmatched"), ("root",),
        example="p2p/stage_numbers", counter_example="p2p/wrong_peer",
    ),
    Cause(
        "CT707", "message-size",
        "The two ends of a message differ in size or dtype.",
        _kinds("p2p_mismatch"), ("root",), yields_to=("CT708", "CT713"),
        example="p2p/size_differs", counter_example="p2p/neighbour_on_both_sides",
    ),
    Cause(
        "CT708", "messages-crossed",
        "The messages of a channel are in another order, or of another list, at its two ends.",
        _kinds("p2p_mismatch"), ("root",),
        example="p2p/neighbour_on_both_sides", counter_example="p2p/one_of_alternating_left_out",
    ),
    Cause(
        "CT709", "sender-left",
        "A rank left before a message that it had begun to send arrived.",
        _kinds("p2p_unmatched"), ("root",),
        example="p2p/summaries_left_behind", counter_example="p2p/missing_send",
    ),
    Cause(
        "CT710", "partners-not-mutual",
        "Ranks exchange messages in pairs, and one named another partner than the others expect.",
        _kinds("deadlock", "p2p_unmatched"), ("root",),
        example="p2p/partner_of_another_round", counter_example="p2p/wrong_peer",
    ),
    Cause(
        "CT711", "message-and-collective",
        "Some ranks wait in a message, others in a collective, and each comes before the other.",
        _kinds("deadlock"), ("root",), yields_to=("CT702", "CT703", "CT704", "CT710", "CT712"),
        example="p2p/crossed_with_collective", counter_example="p2p/gossip_without_news",
    ),
    Cause(
        "CT712", "recomputed-message",
        "A message of a forward was made again within backward().",
        _kinds("deadlock"), ("root",),
        example="p2p/part_received_again", counter_example="p2p/gradient_that_was_not_sent",
    ),
    Cause(
        "CT713", "received-from-any",
        "A receive from any rank took a message that was meant for another receive.",
        _kinds("p2p_mismatch"), ("root",),
        example="p2p/score_of_whoever", counter_example="p2p/size_differs",
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
