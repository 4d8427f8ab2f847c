"""The table of all finders of evidence, by what they look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectrace.align.judging import facts_against as against
from collectrace.align.judging import facts_of_circles as circles
from collectrace.align.judging import facts_of_code as code
from collectrace.align.judging import facts_of_exchanges as exchanges
from collectrace.align.judging import facts_of_majority as majority
from collectrace.align.judging import facts_of_messages as messages
from collectrace.align.judging import facts_of_misfits as misfits
from collectrace.align.judging import facts_of_states as states
from collectrace.align.judging.candidate import IncompleteRow
from collectrace.align.judging.weighing import Finder
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.reading.evidence import GroupConflict

STALLS: Final = (Finder(states.stalled, ("came_late", "stopped")),)

GROUPS: Final = (
    Finder(states.held_up, ("left_no_log", "holds_up_others")),
    Finder(majority.asked_otherwise, ("asked_otherwise",)),
)

ROWS: Final = (
    Finder(states.refused, ("call_refused",)),
    Finder(states.outside, ("outside_of_group",)),
    Finder(states.held_up, ("holds_up_others",)),
    Finder(majority.intruding, ("call_within_join",)),
    Finder(majority.outvoted, ("outvoted", "unlike_sister_groups")),
    Finder(majority.fewer, ("fewer_finished",)),
    Finder(majority.sizes, ("sizes_changed", "in_every_pair")),
    Finder(majority.of_kind, ("left_program_of_kind",)),
    Finder(code.by_rank, ("rank_condition",)),
    Finder(code.in_hook, ("in_hook_of_one_rank",)),
    Finder(states.raised, ("caught_exception",)),
    Finder(code.from_own_rounds, ("left_own_rounds",)),
    Finder(code.new_in_loop, ("new_in_loop_of_others",)),
    Finder(code.led_past_by_rank, ("led_past_by_rank",)),
    Finder(code.by_exception, ("in_handler",)),
    Finder(code.elsewhere, ("other_line_for_others",)),
    Finder(code.at_intervals, ("called_at_intervals",)),
    Finder(majority.own_number, ("root_by_own_number",)),
    Finder(majority.sharing, ("threads_share_group",)),
    Finder(states.made_usual_call, ("made_usual_call",)),
    Finder(majority.permuted, ("same_calls_in_other_orders",)),
    Finder(majority.at_the_root, ("root_alone_had_value",)),
)

MESSAGES: Final = (
    Finder(messages.held_up, ("holds_up_others",)),
    Finder(messages.left_without_waiting, ("left_without_waiting",)),
    Finder(misfits.took_from_any, ("took_from_any",)),
    Finder(messages.named_by_group_rank, ("named_by_group_rank",)),
    Finder(messages.ended_in_round, ("ended_in_round",)),
    Finder(misfits.odd_message, ("odd_message",)),
    Finder(misfits.end_of_every_misfit, ("end_of_every_misfit",)),
)

CIRCLES: Final = (
    Finder(states.refused, ("call_refused",)),
    Finder(states.outside, ("outside_of_group",)),
    Finder(code.in_hook, ("in_hook_of_one_rank",)),
    Finder(majority.of_kind, ("left_program_of_kind",)),
    Finder(messages.unpaired, ("unpaired",)),
    Finder(misfits.left_its_peer, ("left_its_peer",)),
    Finder(circles.other_group_than_peers, ("other_group_than_peers",)),
    Finder(circles.alone_in_row, ("alone_in_row",)),
    Finder(exchanges.odd_in_round, ("odd_in_round",)),
    Finder(exchanges.fewest_to_any, ("fewest_to_any",)),
    Finder(exchanges.skipped_once, ("kept_an_answer", "skipped_call_once")),
    Finder(circles.led_by_its_rank, ("led_by_its_rank",)),
    Finder(exchanges.by_handler, ("came_by_handler", "left_out_by_handler")),
    Finder(exchanges.odd_hub, ("hub_serves_as_many", "hub_passed_over_one")),
    Finder(circles.left_its_round, ("left_repeated_round",)),
    Finder(against.was_told, ("was_told",)),
    Finder(against.first_message, ("first_message",)),
    Finder(against.by_a_message, ("by_a_message",)),
    Finder(against.by_a_plan, ("by_a_plan",)),
    Finder(against.ordered_by_waiter, ("ordered_by_waiter",)),
    Finder(against.shared_by_rank, ("shared_by_rank",)),
    Finder(against.told_the_waiter, ("told_the_waiter",)),
    Finder(circles.others_may_follow, ("others_may_follow",)),
    Finder(exchanges.peer_has_a_choice, ("peer_has_a_choice",)),
)


ALL: Final[Mapping[type, tuple[Finder, ...]]] = {
    Divergence: ROWS,
    GroupConflict: GROUPS,
    IncompleteRow: STALLS,
    ChannelIssue: MESSAGES,
    tuple: CIRCLES,
}
"""The finders of a candidate, by the type of its source."""
