"""What the aligner does not tell yet, by script, with what is not told.

A script stands here until a mechanism that others need as well tells it; a row for it alone is not
worth its lines. What is right again must leave this list: the tests hold that.
"""

from __future__ import annotations

from typing import Final

_ORDER = "the ranks go through one list in different orders, or stand at different elements of it"
_HANDLER = "a handler and another statement are possible, and the wrong one comes first"
_COUNT = "how many iterations, rows or messages each rank had"
_HABIT = "what this rank did before, at the same place"
_CLEANUP = "which calls a `finally` or a decorator adds"
_OTHER_PASS = "that one rank began the work again, and what it repeated"
_PART = "a part of the cause: a line, or what stands beside it"
_TIE = "who is to blame, where two sides are of one size"

VERDICTS: Final = {
    "ddp/wrapped_anew_by_one": _TIE,
    "groups/slow_step_shown_in_another_group": _TIE,
    "loops/request_failed_on_one_of_two": _TIE,
    "p2p/answers_to_a_full_batch": _TIE,
    "p2p/logger_reports_twice": "that one message of many came from a line of its own",
    "p2p/receive_of_one_rank_alone": _TIE,
}
"""Kind, rank or line differ from the header."""

WORDS: Final = {
    "ddp/one_meter_more": _PART,
    "groups/tied_weight_sent_twice": _PART,
    "groups/unused_in_one_node": _PART,
    "loops/class_without_a_sample": _COUNT,
    "loops/record_that_does_not_parse": _HANDLER,
    "loops/resumed_or_begun_anew": _OTHER_PASS,
    "loops/shard_without_labels": _HANDLER,
    "matching/arms_in_another_order": _ORDER,
    "matching/counts_of_two_meanings": _PART,
    "matching/meter_formatted_on_one_rank": _PART,
    "matching/metric_meets_the_next_loss": _HABIT,
    "matching/released_by_nobody": _CLEANUP,
    "matching/wrong_size_at_the_same_turn": _PART,
    "p2p/answers_to_a_full_batch": _COUNT,
    "p2p/edges_once_more_for_one": _HABIT,
    "p2p/logger_reports_twice": _COUNT,
    "p2p/sizes_told_first_and_read_in_other_order": _ORDER,
    "p2p/summary_of_no_rows": _COUNT,
    "p2p/table_fetched_again": _HABIT,
}
"""The cause, or the fix, lacks what the header asks for, or says what it rules out."""

PLACES: Final = {
    "loops/refused_by_one_of_two": "the line is in the heading of the helper that it calls",
    "matching/helper_other_size": "the headline names a caller, the excerpt the helper",
    "p2p/length_told_when_it_changes": "the lines are in a library",
}
"""A line of the headline is not among the lines of the program that are shown."""

DECIDING: Final = {
    "matching/collective_while_one_goes_first": "a condition on the rank held rank 1 at the entry: "
    "the line only led rank 0 to its call in the body, which the cause tells",
}
"""The line that decided is not among the decisions."""
