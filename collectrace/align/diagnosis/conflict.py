"""Process groups that the ranks do not agree about, or that not all came to create."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import left_out, rank_words
from collectrace.align.diagnosis.callers import inside, of_group, telling_depth
from collectrace.align.diagnosis.wording import Reason, Wording
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import IN_INIT
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import GroupConflict
from collectrace.align.reading.groups import is_local
from collectrace.records import Group

_MOST_VARIANTS: Final = 3
"""Different things that ranks did, in a headline."""


def explain(case: Case, candidate: Candidate) -> Wording:
    """One conflict in words."""
    source = candidate.source
    assert isinstance(source, GroupConflict)
    creation = _creation(case, source)
    if candidate.severity == "info":
        return Wording(
            f"{words.ranks(creation.absent)} had not come to {creation.place} when the logs end"
            if creation.absent
            else f"{words.ranks(creation.present)} asked for other groups{creation.site}, and had "
            "not all got them when the logs end",
            "They had not been waited for long enough to call it a hang.",
            "",
        )
    if candidate.kind == "missing_call":
        return _never_came(case, source, creation)
    if source.harmless:
        return _harmless(creation)
    return _disagreement(case, candidate, source, creation)


@dataclass(frozen=True, slots=True)
class _Creation:
    """The creation of a group: who asked for it, by what, and where."""

    asked: Sequence[tuple[tuple[int, ...], Group]]
    absent: tuple[int, ...]
    api: str
    site: str
    """`` at train.py:43``, or nothing."""
    instead: Sequence[tuple[tuple[int, ...], Group]]
    """What absent ranks asked for in its place."""
    is_local: bool
    """Whether its members alone make it."""

    @property
    def present(self) -> list[int]:
        return [rank for ranks, _ in self.asked for rank in ranks]

    @property
    def place(self) -> str:
        return self.api + self.site


def _creation(case: Case, source: GroupConflict) -> _Creation:
    asked = [(ranks, group) for ranks, group in source.variants if group is not None]
    is_default = any(group.description == "default_pg" for _, group in asked)
    return _Creation(
        asked=asked,
        absent=tuple(r for ranks, group in source.variants if group is None for r in ranks),
        api="init_process_group" if is_default else "new_group",
        site=next((of_group(case, ranks[0], group) for ranks, group in asked if group.site), ""),
        instead=source.instead,
        is_local=is_local(source.name),
    )


def _never_came(case: Case, source: GroupConflict, creation: _Creation) -> Wording:
    """Ranks that did not come to this creation, nor to any call after it."""
    api, present = creation.api, creation.present
    details = " ".join(
        f"Rank {rank}: {detail}."
        for rank in creation.absent
        if (detail := rank_words.detail(case.standings[rank]))
    )
    details += "".join(
        f" Rank {rank} was at {rank_words.frame(top)}{rank_words.reached(case.standings[rank])}."
        for rank in creation.absent[: left_out.MOST_MEMBERS]
        if case.standings[rank].state in ("busy", "silent", "running")
        and (top := rank_words.top_frame(case.standings[rank]))
    )
    if creation.instead:
        details = f"{words.upper('; '.join(_called(creation.instead)))} instead. {details}"
    if source.seq == IN_INIT:
        details += " They never started, have not come so far, or their files were lost."
    return Wording(
        f"{words.ranks(creation.absent)} never came to {creation.place}; {words.ranks(present)} "
        f"{words.verb(present, 'waits', 'wait')} there",
        f"{api} returns when every rank that takes part has called it. {details}".strip(),
        _LOCAL_FIX
        if creation.is_local and creation.instead
        else f"Let every rank call {api} at the same point, before work that takes long on "
        "some ranks only; or give it a longer timeout.",
    )


def _harmless(creation: _Creation) -> Wording:
    """Ranks left the call out that are no members: the group was made without them."""
    return Wording(
        f"{words.ranks(creation.absent)} never called {creation.api}, as "
        f"{words.ranks(creation.present)} did{creation.site}",
        "torch counts groups: every rank must create the same groups in the same order, "
        "members or not. It went well this time, for no rank waits for those that are no "
        "members; the next group that all create will have two names, and hang.",
        _LOCAL_FIX
        if creation.is_local
        else "Call new_group on every rank, also on ranks that are no members; or pass "
        "use_local_synchronization=True, and call it on members only.",
    )


def _disagreement(
    case: Case, candidate: Candidate, source: GroupConflict, creation: _Creation
) -> Wording:
    """Ranks that asked for different groups at the same place, or some for none."""
    if creation.is_local:
        apart = _under_two_names(case, creation)
        if apart is not None:
            return apart
        return Wording(
            _variants(candidate, creation),
            "With use_local_synchronization=True the members of a group make it among themselves: "
            "each of them waits until all have asked for it, with the same ranks. "
            f"{words.upper(words.ranks(creation.absent))} did not.",
            _LOCAL_FIX,
        )
    through = _through_one_line(case, source)
    if source.own:
        return Wording(
            _variants(candidate, creation),
            "torch counts groups: every rank must create the same groups in the same order, "
            "members or not. Here each rank made the group that it is in, and left out the others. "
            f"So all of these have one name, {source.name}, under which their members look for "
            "each other in the store, and some find those of another group, or wait for ever."
            f"{through.cause}",
            "Let every rank call new_group for each of these groups, in the same order, and keep "
            "the one that it is in; new_subgroups() and init_device_mesh do it right.\n"
            "Or pass use_local_synchronization=True, and call it on members only.",
        )
    # Of ranks that asked for another group in its place that is told.
    absent = () if creation.instead else creation.absent
    past = (
        left_out.ways(case, absent, creation.asked[0])
        if absent
        else left_out.ways_between(case, source)
    )
    shifted = f"{left_out.sentence(case, candidate, source)}{left_out.one_more(case, source)}"
    is_otherwise = not (absent or creation.instead or shifted or through.fix)
    return Wording(
        _variants(candidate, creation),
        "torch counts groups: every rank must create the same groups in the same order, members "
        f"or not. The {words.ordinal(source.seq)} group after the default one is not the same on "
        f"all ranks, so what they issue in it, and in every later group, does not meet."
        f"{through.cause}{shifted}{past.cause}{rank_words.chain(case, creation.absent)}",
        (_of_mesh(case, source) or _of_members(case, source) if is_otherwise else "")
        or "Call new_group on every rank, in the same order and with the same ranks, also on ranks "
        "that are no members; init_device_mesh does it right."
        f"{through.fix}{past.fix}\n"
        "Or pass use_local_synchronization=True, and call it on members only.",
    )


def _of_members(case: Case, source: GroupConflict) -> str:
    """What to change where one line asks for other members on each side; or nothing."""
    asked = [(ranks, group) for ranks, group in source.variants if group is not None]
    if len({case.stack(ranks[0], group) or (group.site,) for ranks, group in asked}) != 1:
        return ""
    site = asked[0][1].site
    return (
        f"Pass new_group{words.at_site(site)} the same ranks on every rank, in the same order: "
        f"{_ALIKE}"
    )


def _of_mesh(case: Case, source: GroupConflict) -> str:
    """What to change where one line of the script makes a mesh, and with it groups; or nothing."""
    sites = {group.site for _, group in source.variants if group is not None}
    lines = case.statements(sites.pop()) if len(sites) == 1 else []
    found = _MESHES.search(statements.code_of(lines[-1])) if lines else None
    if found is None:
        return ""
    return f"Give {found[1]}() the same shape and names on every rank, in the same order: {_ALIKE}"


_ALIKE: Final = (
    "what they are worked out from must be alike everywhere (so neither how many devices a process "
    "is shown, nor a variable of its environment)."
)

_MESHES: Final = re.compile(r"\b(init_device_mesh|DeviceMesh|init_mesh)\(")


def _through_one_line(case: Case, source: GroupConflict) -> Reason:
    """Who called a function that makes groups, where it was called from different lines.

    A sentence each for cause and fix, after a space; empty where nothing tells the ranks apart.
    """
    outer = callers_apart(case, source)
    if not outer:
        return Reason(_one_caller(case, source), "")
    came = [
        f"{words.ranks(ranks)}{words.at_site(chains.site(frame))}{inside(frame)}"
        for ranks, frame in outer
    ]
    site = next(group.site for _, group in source.variants if group is not None)
    return Reason(
        f" All asked{words.at_site(site)}, but that was called from different lines: "
        f"{words.listed(came)}.",
        " Where groups are made when they are first asked for, as a cache does: make them all in "
        "one place that every rank comes to, before any of these lines.",
    )


def _one_caller(case: Case, source: GroupConflict) -> str:
    """Who called the function that asked, where that is one line for all: after a space."""
    asked = [(ranks[0], group) for ranks, group in source.variants if group is not None]
    stacks = {case.stack(rank, group)[:2] for rank, group in asked}
    if len(asked) < _SOME or len(stacks) != 1 or len(frames := stacks.pop()) < _SOME:
        return ""
    here, caller = (words.at_site(chains.site(frame)) + inside(frame) for frame in frames)
    return f" All asked{here}, called{caller}."


_SOME: Final = 2


def callers_apart(case: Case, source: GroupConflict) -> list[tuple[tuple[int, ...], str]]:
    """Per variant of what was asked for at one line the ranks, and their frame that is no other's.

    That is the innermost by which any of them differ; nothing where they asked at different lines.
    """
    found = [*source.variants, *source.instead]
    asked = [(ranks, group) for ranks, group in found if group is not None]
    stacks = [case.stack(ranks[0], group) for ranks, group in asked]
    depth = telling_depth(stacks)
    return [(r, stack[depth]) for (r, _), stack in zip(asked, stacks, strict=True)] if depth else []


def _under_two_names(case: Case, creation: _Creation) -> Wording | None:
    """Ranks that asked for one group and do not meet, as each calls it by another name.

    With use_local_synchronization torch names a group by its members and by how many groups the
    rank is in (distributed_c10d.py, _hash_ranks_to_str, torch 2.13).
    """
    (ranks, group), *_ = creation.asked
    found = next((one for one in creation.instead if one[1].ranks == group.ranks), None)
    if found is None:
        return None
    one, other = ranks[0], found[0][0]
    before = {
        rank: _others_before(case, rank, peer, asked)
        for rank, peer, asked in ((one, other, group), (other, one, found[1]))
    }
    told = [
        f"rank {rank} had made "
        + words.listed([f"{left_out.call(made)}{words.at_site(made.site)}" for made in groups])
        + f" before, rank {other if rank == one else one} had not"
        for rank, groups in sorted(before.items())
        if groups
    ]
    extra = [left_out.call(made) for groups in before.values() for made in groups]
    return Wording(
        f"{words.ranks((one, other))} wait for each other in {left_out.call(group)}"
        f"{words.at_site(group.site)}: each calls the group by another name",
        "With use_local_synchronization=True torch names a group by its members and by how many "
        "groups the rank is in so far, and here that differs"
        + (f": {'; '.join(told)}." if told else ".")
        + " So both asked for the same group, and neither came to the one of the other's name.",
        "Leave use_local_synchronization out, and let every rank call new_group for every group in "
        "the same order, members or not.\nOr make first the groups of which every rank is in as "
        f"many, such as {left_out.call(group)}"
        + (f", and after them those of some ranks only, {words.listed(extra)}." if extra else "."),
    )


def _others_before(case: Case, rank: int, peer: int, asked: Group) -> list[Group]:
    """The groups that a rank was in when it asked for one, and of which its peer was in none."""
    mine, theirs = case.log(rank), case.log(peer)
    if mine is None or theirs is None:
        return []
    known = {group.group for group in theirs.groups}
    made: dict[str, Group] = {}
    for group in mine.groups:
        if group.t >= asked.t:
            break
        if group.phase == "destroyed":
            made.pop(group.group, None)
        elif group.phase == "ready" and group.member and group.group not in known:
            made[group.group] = group
    return list(made.values())


def _variants(candidate: Candidate, creation: _Creation) -> str:
    """The headline: which ranks asked for what, the suspects first."""
    asked = [*creation.asked, *creation.instead]
    did = [(ranks, told) for (ranks, _), told in zip(asked, _called(asked), strict=True)]
    others = {rank for ranks, _ in creation.instead for rank in ranks}
    none = tuple(rank for rank in creation.absent if rank not in others)
    if none:
        did.append((none, f"{words.ranks(none)} called none"))
    suspects = set(candidate.suspects)
    did.sort(key=lambda one: not set(one[0]) <= suspects)
    first, *rest = [text for _, text in did]
    link = " where " if suspects else " while "
    more = len(did) - _MOST_VARIANTS
    text = first + link + words.listed(rest[: _MOST_VARIANTS - 1])
    return f"{text}, and {more} more variants" if more > 0 else text


def _called(asked: Sequence[tuple[tuple[int, ...], Group]]) -> list[str]:
    """``ranks 0-1 called new_group([0, 1]) at train.py:9``."""
    return [
        f"{words.ranks(ranks)} called {left_out.call(group)}{words.at_site(group.site)}"
        for ranks, group in asked
    ]


_LOCAL_FIX: Final = (
    "Call new_group with the same ranks on every member of the group, and let each rank make the "
    "groups that it shares with others in the same order as they do."
)
