"""All finders of evidence, by what they look at: one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectrace.align.judging import facts_of_code as code
from collectrace.align.judging import facts_of_majority as majority
from collectrace.align.judging import facts_of_states as states
from collectrace.align.judging.candidate import IncompleteRow
from collectrace.align.judging.evidence import Finder
from collectrace.align.judging.old_rules import by_old_rules
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.reading.evidence import GroupConflict

OLD: Final = (Finder(by_old_rules, ("old_rules",)),)

STALLS: Final = (Finder(states.stalled, ("failed_in_the_call", "came_late", "stopped")),)

GROUPS: Final = (
    Finder(states.held_up, ("left_no_log", "holds_up_others")),
    Finder(majority.asked_otherwise, ("asked_otherwise",)),
)

ROWS: Final = (
    Finder(states.refused, ("call_refused",)),
    Finder(states.held_up, ("holds_up_others",)),
    Finder(majority.intruding, ("call_within_join",)),
    Finder(majority.outvoted, ("outvoted", "unlike_sister_groups")),
    Finder(majority.fewer, ("fewer_finished",)),
    Finder(majority.sizes, ("sizes_changed", "in_every_pair", "sizes_unlike_sisters")),
    Finder(majority.of_kind, ("left_program_of_kind",)),
    Finder(code.by_rank, ("rank_condition",)),
    Finder(states.raised, ("caught_exception",)),
    Finder(code.from_own_rounds, ("left_own_rounds",)),
    Finder(code.extra_calls, ("extra_calls",)),
    Finder(code.led_past_by_rank, ("led_past_by_rank",)),
    Finder(code.by_exception, ("in_handler",)),
    Finder(code.elsewhere, ("other_line_for_others",)),
    Finder(code.contradicted, ("shut_out_by_rank",)),
    Finder(code.at_intervals, ("called_at_intervals",)),
    Finder(code.ran_out, ("loader_ran_out",)),
    Finder(majority.own_number, ("root_by_own_number",)),
    Finder(majority.sharing, ("threads_share_group",)),
    Finder(majority.permuted, ("same_calls_in_other_orders",)),
    Finder(majority.at_the_root, ("root_alone_had_value",)),
)

MESSAGES: Final[tuple[Finder, ...]] = OLD
CIRCLES: Final[tuple[Finder, ...]] = OLD


ALL: Final[Mapping[type, tuple[Finder, ...]]] = {
    Divergence: ROWS,
    GroupConflict: GROUPS,
    IncompleteRow: STALLS,
    ChannelIssue: MESSAGES,
    tuple: CIRCLES,
}
"""Which finders are asked about a candidate, by the type of its source."""
