"""Causes CT7xx: messages."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import Cause, kinds, retired

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
        yields_to=("CT104", "CT701", "CT702", "CT704", "CT705", "CT710", "CT712"),
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
        "A send and a receive would match except for one thing: the tag, the peer, or the group.",
        kinds("deadlock", "p2p_unmatched"), ("root",), yields_to=("CT710",),
        example="p2p/wrong_tag", counter_example="p2p/wrong_peer_in_a_ring",
    ),
    retired("CT706", "group-rank-as-peer", "CT705"),
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
        example="p2p/neighbour_on_both_sides", counter_example="p2p/short_batch_down_the_line",
    ),
    retired("CT709", "sender-left", "CT704"),
    Cause(
        "CT710", "partners-not-mutual",
        "Ranks exchange messages in pairs, and one named another partner than the others expect.",
        kinds("deadlock", "p2p_unmatched"), ("root",),
        example="p2p/partner_of_another_round", counter_example="p2p/wrong_peer",
    ),
    retired("CT711", "message-and-collective", "CT701"),
    Cause(
        "CT712", "recomputed-message",
        "A message of a forward was made again within backward().",
        kinds("deadlock"), ("root",),
        example="p2p/part_received_again", counter_example="p2p/gradient_that_was_not_sent",
    ),
    retired("CT713", "received-from-any", "CT707"),
)  # fmt: skip
