"""Causes CT7xx: messages."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import Cause, kinds

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT701", "message-order",
        "Ranks wait for each other's messages, because they make their calls in other orders.",
        kinds("deadlock"), ("root",), yields_to=("CT702", "CT710", "CT712"),
        example="p2p/both_receive_first", counter_example="p2p/gradient_that_was_not_sent",
    ),
    Cause(
        "CT702", "wrong-peer-or-too-early",
        "A send closes a cycle of waits: it went to the wrong rank, or it comes too early.",
        kinds("deadlock"), ("root",), yields_to=("CT710", "CT712"),
        example="p2p/wrong_peer_in_a_ring", counter_example="p2p/wrong_peer",
    ),
    Cause(
        "CT703", "broken-exchange",
        "A rank departed from an exchange of messages that had worked before.",
        kinds("deadlock"), ("root",),
        yields_to=("CT104", "CT701", "CT702", "CT704", "CT710", "CT712"),
        example="p2p/gradient_that_was_not_sent", counter_example="p2p/both_receive_first",
    ),
    Cause(
        "CT704", "message-without-other-end",
        "A send has no receive, or a receive has no send.",
        kinds("deadlock", "p2p_unmatched"), ("root",),
        yields_to=(
            "CT302", "CT701", "CT702", "CT705", "CT710", "CT712",
        ),
        example="p2p/five_sends_four_recvs", counter_example="p2p/answers_to_a_full_batch",
    ),
    Cause(
        "CT705", "other-tag-or-peer",
        "A send and a receive would match but for one thing: the tag, the peer, or the group.",
        kinds("p2p_unmatched"), ("root",), yields_to=("CT710",),
        example="p2p/wrong_tag", counter_example="p2p/wrong_peer_in_a_ring",
    ),
    Cause(
        "CT706", "group-rank-as-peer",
        "Messages name their peers by ranks in a group, where global ranks are expected.",
        kinds("p2p_unmatched"), status="retired",
        reason="CT705 says it: a rank in the group was passed as the peer; gone in 0.2.",
    ),
    Cause(
        "CT707", "message-size",
        "The two ends of a message differ in size or dtype.",
        kinds("p2p_mismatch"), ("root",), yields_to=("CT708",),
        example="p2p/size_differs", counter_example="p2p/wrong_tag",
    ),
    Cause(
        "CT708", "messages-crossed",
        "The messages of a channel are in another order, or of another list, at its two ends.",
        kinds("p2p_mismatch"), ("root",),
        example="p2p/neighbour_on_both_sides", counter_example="p2p/one_of_alternating_left_out",
    ),
    Cause(
        "CT709", "sender-left",
        "A rank left before a message that it had begun to send arrived.",
        kinds("p2p_unmatched"), status="retired",
        reason="CT704 says it: the message lacks an end, as its sender left; gone in 0.2.",
    ),
    Cause(
        "CT710", "partners-not-mutual",
        "Ranks exchange messages in pairs, and one named another partner than the others expect.",
        kinds("deadlock", "p2p_unmatched"), ("root",),
        example="p2p/partner_of_another_round", counter_example="p2p/wrong_peer",
    ),
    Cause(
        "CT711", "message-and-collective",
        "Some ranks wait in a message, others in a collective, and each comes before the other.",
        kinds("deadlock"), status="retired",
        reason="CT701 says it: messages and collectives are made in other orders; gone in 0.2.",
    ),
    Cause(
        "CT712", "recomputed-message",
        "A message of a forward was made again within backward().",
        kinds("deadlock"), ("root",),
        example="p2p/part_received_again", counter_example="p2p/gradient_that_was_not_sent",
    ),
    Cause(
        "CT713", "received-from-any",
        "A receive from any rank took a message that was meant for another receive.",
        kinds("p2p_mismatch"), status="retired",
        reason="CT707 says it: a receive without a source took another message; gone in 0.2.",
    ),
)  # fmt: skip
