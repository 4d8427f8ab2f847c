"""The rules of blame that are not facts yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from collectrace.align.judging import refusals, sisters, threads
from collectrace.align.judging.absence import came_to_nothing, culprits
from collectrace.align.judging.at_the_root import at_the_root
from collectrace.align.judging.by_number import named_by_number
from collectrace.align.judging.by_rank import chosen_by_rank
from collectrace.align.judging.candidate import Candidate, IncompleteRow
from collectrace.align.judging.candidates import IN_INIT
from collectrace.align.judging.case import Case
from collectrace.align.judging.caught import by_handler, caught
from collectrace.align.judging.circles.departed import suspects_of_circle
from collectrace.align.judging.evidence import Evidence
from collectrace.align.judging.exchanged import changed_after, exchanged
from collectrace.align.judging.gone_in_round import gone_in_round
from collectrace.align.judging.led_by_rank import led_by_rank
from collectrace.align.judging.odd_end import odd_end
from collectrace.align.judging.odd_line import odd_line
from collectrace.align.judging.odd_message import odd_message
from collectrace.align.judging.odd_tag import odd_tag
from collectrace.align.judging.one_rank_hooks import in_hook
from collectrace.align.judging.owed import owed
from collectrace.align.judging.own_number import by_own_number
from collectrace.align.judging.parted import alone_in_loop, extra_makers, is_kept_out
from collectrace.align.judging.partners import out_of_pair
from collectrace.align.judging.permuted import permuted
from collectrace.align.judging.program import out_of_program
from collectrace.align.judging.rounds import left_round, out_of_round
from collectrace.align.judging.undelivered import senders
from collectrace.align.judging.uneven_round import out_of_balance
from collectrace.align.judging.wrapped_anew import wrapped_anew
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.reading.evidence import GroupConflict
from collectrace.findings import Kind, Side
from collectrace.roles import is_apart_from_ddp, shadows_framework


def suspects_of(case: Case, candidate: Candidate, kind: Kind) -> tuple[int, ...]:
    """Return who is to blame for a candidate, if it is of this kind."""
    source = candidate.source
    if isinstance(source, IncompleteRow):
        known = source.failed or tuple(sorted(source.late))
        return known or suspects_of_stall(case, candidate)
    if (refused := refusals.refused(case, candidate)) is not None:
        return refused.ranks
    suspects = _suspects_by_source(case, candidate, kind)
    if not suspects and (found := caught(case, candidate)) is not None:
        return found.ranks
    return suspects or by_handler(case, candidate)


def _suspects_by_source(case: Case, candidate: Candidate, kind: Kind) -> tuple[int, ...]:
    source = candidate.source
    if isinstance(source, GroupConflict) and kind != "missing_call":
        return () if source.own else minority([ranks for ranks, _ in source.variants])
    if isinstance(source, ChannelIssue):
        return suspects_of_message(case, candidate, source)
    if isinstance(source, Divergence | GroupConflict):
        rule = suspects_of_absence if kind == "missing_call" else suspects_of_mismatch
        return rule(case, candidate)
    return (
        alone_in_hook(case, candidate)
        or out_of_program(case, candidate)
        or out_of_pair(case, candidate)
        or suspects_of_circle(case, candidate)
        or out_of_balance(case, candidate)
    )


def without_the_value(
    case: Case, candidate: Candidate, suspects: tuple[int, ...]
) -> tuple[int, ...]:
    """The suspects; none where they followed what they held, and a root alone had the value."""
    found = at_the_root(case, candidate)
    return suspects if found is None or found.call.root in suspects else ()


def suspects_of_message(case: Case, candidate: Candidate, issue: ChannelIssue) -> tuple[int, ...]:
    """Who left too early; whose message alone is another than its like; or rule 6.

    And who took a message from anybody, and awaited one rank's.
    """
    if issue.attribute == "undelivered":
        return tuple(sorted(begun.rank for begun in senders(case, issue)))
    if issue.attribute == "absent":
        gone, debtor = gone_in_round(case, candidate), owed(case, candidate)
        odd = odd_tag(case, candidate)
        return (
            culprits(case, candidate)
            or named_by_number(issue)
            or ((odd.rank,) if odd is not None else ())
            or ((debtor,) if debtor is not None else ())
            or ((gone.rank,) if gone is not None else ())
            or out_of_program(case, candidate)
            or out_of_pair(case, candidate)
        )
    if issue.before is not None and issue.before.next is not None:
        return (issue.channel.destination,)
    rules = odd_message, odd_end, odd_line
    found = (one.rank for rule in rules if (one := rule(case, candidate)) is not None)
    return tuple(islice(found, 1))


# -- rules 6 and 7: absence ------------------------------------------------------------------


def suspects_of_absence(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Rules 6 and 7: who was waited for in the end, or whoever did what fewer did.

    Who raised, died or is held up did not get there by what it held (:func:`without_the_value`).
    """
    if isinstance(candidate.source, GroupConflict) and candidate.source.seq == IN_INIT:
        return candidate.absent
    found = culprits(case, candidate)
    if found:
        return found
    if candidate.absent and all(case.standings[r].state == "finished" for r in candidate.absent):
        found = (
            smaller_part(candidate)
            or extra_makers(case, candidate)
            or chosen_by_rank(case, candidate)
            or led_by_rank(case, candidate)
        )
    return without_the_value(case, candidate, found or out_of_program(case, candidate))


def smaller_part(candidate: Candidate) -> tuple[int, ...]:
    """Rule 7: all absent ranks finished; the minority of absent and present, if there is one.

    Ranks of which nothing is known might be on either side.
    """
    absent, present, unknown = candidate.absent, candidate.present, len(candidate.unknown)
    if len(absent) + unknown < len(present):
        return tuple(sorted(absent))
    if len(present) + unknown < len(absent):
        return tuple(sorted(present))
    return ()


# -- rules 8, 9 and 10: mismatch -------------------------------------------------------------


def suspects_of_mismatch(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Rules 8 to 10 for one row of a stream; in a tie, who left the program, as far as it shows."""
    source = candidate.source
    if not isinstance(source, Divergence) or source.gap is not None:
        return ()
    if threads.sharing(case, candidate) or by_own_number(case, candidate):
        return ()
    if source.attribute == "split":
        return suspects_of_split(case, candidate, source.bad_pairs)
    called = [side for side in candidate.sides if side.call is not None]
    orders = permuted(case, candidate)
    if orders is not None and len(orders.orders) > len(called):
        return ()  # those who agree in this row are at odds in the next ones
    found = (
        intruders(called)
        or alone_in_hook(case, candidate)
        or outvoted(case, candidate, called)
        or out_of_program(case, candidate)
        or _by_lines(case, candidate, called)
    )
    return without_the_value(case, candidate, found)


def _by_lines(case: Case, candidate: Candidate, called: Sequence[Side]) -> tuple[int, ...]:
    """In a tie who left the program by the lines; nobody where one is at a line shut to it."""
    if any(is_kept_out(case, s, [one for one in called if one is not s]) for s in called):
        return ()
    return (
        extra_makers(case, candidate)
        or chosen_by_rank(case, candidate)
        or led_by_rank(case, candidate)
        or alone_in_loop(case, candidate)
        or left_round(case, candidate)
        or out_of_round(case, candidate)
        or wrapped_anew(case, candidate)
    )


def alone_in_hook(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The rank that alone is in what a framework calls on one; nobody where none is."""
    found = in_hook(case, candidate)
    return (found.rank,) if found is not None else ()


def outvoted(case: Case, candidate: Candidate, called: Sequence[Side]) -> tuple[int, ...]:
    """Rule 8: more than half of the group is right; in a tie sister groups decide, or nobody."""
    size = len(candidate.group.ranks) if candidate.group is not None else 0
    right = next((side for side in called if 2 * len(side.ranks) > size), None)
    if right is None:
        right = sisters.decide(case, candidate, called)
    if right is None:
        return ()
    return tuple(sorted(r for side in called if side is not right for r in side.ranks))


def intruders(called: Sequence[Side]) -> tuple[int, ...]:
    """Rule 9: a call that is none of DDP's met one by which join() shadows another rank's.

    The script's own, or that of an optimizer which join() was not given.
    """
    strange = [s for s in called if s.call is not None and is_apart_from_ddp(s.call.role)]
    shadows = [s for s in called if s.call is not None and shadows_framework(s.call.role)]
    return tuple(sorted(r for s in strange for r in s.ranks)) if shadows else ()


def suspects_of_split(
    case: Case, candidate: Candidate, pairs: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """Whose sizes changed after they were exchanged; else the one rank that is in every pair.

    Of a pair the one with other sizes than its place has in sister groups. Not a receiver, where
    they were exchanged: a capacity makes several senders drop for one.
    """
    changed, common = changed_after(case, candidate), in_every_pair(pairs)
    only_receives = common and all(sender not in common for sender, _ in pairs)
    if changed or (only_receives and exchanged(case, candidate) is not None):
        return changed
    return common or sisters.unlike_in_sizes(case, candidate)


def in_every_pair(pairs: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Rule 10, splits: the one rank that is part of every pair that does not fit."""
    common = set.intersection(*(set(pair) for pair in pairs)) if pairs else set()
    return tuple(common) if len(common) == 1 else ()


def minority(variants: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Rule 10, groups: whoever does not agree with more than half of those concerned."""
    everybody = sorted(r for ranks in variants for r in ranks)
    right = next((set(v) for v in variants if 2 * len(v) > len(everybody)), set(everybody))
    return tuple(r for r in everybody if r not in right)


def suspects_of_stall(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Everyone is there: whoever stopped, without a word, is why nothing completes."""
    standings = [case.standings[rank] for rank in candidate.ranks]
    return tuple(s.rank for s in standings if s.state in ("silent", "died") or s.early)


def by_old_rules(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Return whom the rules blame that have not been made into facts yet."""
    kind: Kind = "missing_call" if came_to_nothing(case, candidate) else candidate.what
    ranks = suspects_of(case, candidate, kind)
    if ranks:
        yield Evidence("old_rules", tuple(sorted(ranks)))
