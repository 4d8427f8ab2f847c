"""The one line that stands alone: who did what, where the others did what."""

from __future__ import annotations

from typing import Final

from collectrace import roles, words
from collectrace.align.diagnosis import ddp_backward, object_lists, order
from collectrace.align.diagnosis.callers import telling, telling_each
from collectrace.align.diagnosis.wording import called, models_of
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import Divergence
from collectrace.findings import Side
from collectrace.ops import canonical_op
from collectrace.records import Call
from collectrace.signature import fits_itself, is_user, other_counts

_MOST_SIDES: Final = 2


def headline(case: Case, candidate: Candidate) -> str:
    """Who did what, where the others did what: one line that stands alone."""
    made = called(candidate)
    told = telling_each(case, [(s.ranks[0], c) for s, c in made])
    sides = [(s, call) for (s, _), call in zip(made, told, strict=True)]
    met = met_a_shadow(candidate)
    if met is not None:
        (mine, call), (joined, _) = met
        call = telling(case, mine.ranks[0], call)
        was = words.verb(joined.ranks, "was", "were")
        return (
            f"{words.ranks(mine.ranks)} called {words.name(call)}{words.at(call)} where "
            f"{words.ranks(joined.ranks)}, out of inputs, {was} in join()"
        )
    if isinstance(candidate.source, Divergence) and candidate.source.bad_pairs:
        return _first_pair(candidate.source)
    suspects = set(candidate.suspects)
    wrong = [(s, c) for s, c in sides if set(s.ranks) <= suspects]
    right = [(s, c) for s, c in sides if not set(s.ranks) <= suspects]
    if not wrong or not right:
        wrong, right = sides[:1], sides[1:]
    shown = [*wrong[:_MOST_SIDES], *right[:_MOST_SIDES]]
    more = len(sides) - len(shown)
    text = _alike(shown, candidate) or _unlike(case, shown, len(wrong[:_MOST_SIDES]), candidate)
    text += f", and {words.counted(more, 'more variant')}" if more else ""
    # Who is in a backward() that others did in no_sync() has left out nothing: it is early.
    is_early = ddp_backward.no_sync(case, candidate) is not None
    edit = "" if is_early else order.headline(case, candidate)
    return f"{text}: {edit}" if edit else text


def met_a_shadow(candidate: Candidate) -> tuple[tuple[Side, Call], tuple[Side, Call]] | None:
    """A user's call, and the shadow of join() that it met."""
    users = [(s, c) for s, c in called(candidate) if is_user(c)]
    shadows = [(s, c) for s, c in called(candidate) if roles.shadows_framework(c.role)]
    return (users[0], shadows[0]) if users and shadows else None


def _alike(sides: list[tuple[Side, Call]], candidate: Candidate) -> str:
    """Sides with the same call from the same line that differ in one thing; else empty."""
    calls = [c for _, c in sides]
    if len({(canonical_op(c.op), c.role, c.site) for c in calls}) > 1:
        return ""
    told = [_detail(c, candidate) for c in calls]
    if not all(told):
        return ""
    (side, call), *others = sides
    rest = ", ".join(
        f"{words.ranks(s.ranks)} with {what}" for (s, _), what in zip(others, told[1:], strict=True)
    )
    text = f"{words.did(side.ranks, call)} with {told[0]}{words.at(call)}"
    return f"{text}, {rest}" if rest else text


def _unlike(case: Case, sides: list[tuple[Side, Call]], wrong: int, candidate: Candidate) -> str:
    """Different calls, or the same from different lines."""
    names = [words.name(c) for _, c in sides]
    if len(set(names)) < len(names):
        names = [
            roles.short(c.role) if name == roles.of(c.role).issuer else name
            for name, (_, c) in zip(names, sides, strict=True)
        ]
    if len({c.op for _, c in sides}) > len(set(names)):
        names = [f"{name} ({c.op})" for name, (_, c) in zip(names, sides, strict=True)]
    source = candidate.source
    by_model = isinstance(source, Divergence) and source.attribute == "model"
    if len(models_of(sides)) > 1 and not by_model:
        names = [name + words.of_model(c) for name, (_, c) in zip(names, sides, strict=True)]
    one_line = len({c.site for _, c in sides}) == 1
    parts = []
    for (side, call), name in zip(sides, names, strict=True):
        detail = _detail(call, candidate)
        what = f"{name} with {detail}" if detail else name
        at = "" if one_line else _at(case, candidate, side, call)
        parts.append(words.did(side.ranks, call, what) + at)
    link = " where " if candidate.suspects else " while "
    text = link.join(words.listed(group) for group in (parts[:wrong], parts[wrong:]) if group)
    return f"{text} ({words.site(sides[0][1].site or '?')})" if one_line else text


def _at(case: Case, candidate: Candidate, side: Side, call: Call) -> str:
    """`` at train.py:9``; with the other lines that ranks of the side came from."""
    stream, seq = candidate.stream, candidate.seq
    if stream is None or seq is None or side.call is None or side.call.site != call.site:
        return words.at(call)
    those = (case.call(rank, stream, seq) for rank in side.ranks[1:])
    sites = dict.fromkeys(one.site for one in those if one is not None and one.site != call.site)
    return words.at(call) + "".join(f" and {words.site(site)}" for site in [*sites][:1] if site)


def _detail(call: Call, candidate: Candidate) -> str:
    """What differs of a call that is the same otherwise, by the row's kind; empty: the call."""
    if candidate.kind == "shape_mismatch" and (objects := object_lists.entries(call)):
        return objects
    if candidate.kind in ("dtype_mismatch", "shape_mismatch"):
        size = len(candidate.group.ranks) if candidate.group is not None else 0
        return words.tensors(call) + ("" if fits_itself(call, size) else misfit(call))
    if candidate.kind == "reduce_op_mismatch":
        return call.reduce_op or ""
    if candidate.kind == "root_mismatch" and call.root is not None:
        return f"{words.root(call)} {call.root}"
    source = candidate.source
    if isinstance(source, Divergence) and source.attribute == "model":
        return f"model {call.model}" if call.model else "a model not known"
    return ""


def misfit(call: Call) -> str:
    """`` for an output of 17 elements``: what does not fit the tensors of a call."""
    n = other_counts(call)[0]
    side = "output" if canonical_op(call.op) == "all_gather_single" else "input"
    return f" for an {side} of {elements(str(n))}"


def _first_pair(source: Divergence) -> str:
    """The headline of an all_to_all: the first pair of ranks whose sizes do not fit."""
    sender, receiver = source.bad_pairs[0]
    sent, wanted = pair(source, sender, receiver)
    call = source.calls.get(sender)
    of = f", in {words.name(call)}{words.at(call)}" if call is not None else ""
    if sender == receiver:
        return f"rank {sender} sends itself {elements(sent)} and expects {wanted}{of}"
    return (
        f"rank {sender} sends rank {receiver} {elements(sent)} where rank {receiver} expects "
        f"{wanted}{of}"
    )


def pair(source: Divergence, sender: int, receiver: int) -> tuple[str, str]:
    """What one rank sends another, and what that one awaits, as far as it is known."""
    members = list(source.group.ranks)
    return (
        _split_at(source.calls.get(sender), 0, members, receiver),
        _split_at(source.calls.get(receiver), 1, members, sender),
    )


def elements(n: str) -> str:
    """``1 element``, ``? elements``."""
    return f"{n} element{'s' * (n != '1')}"


def _split_at(call: Call | None, which: int, members: list[int], rank: int) -> str:
    if call is None or call.splits is None or len(call.splits) <= which or rank not in members:
        return "?"
    sizes, index = call.splits[which], members.index(rank)
    return str(sizes[index]) if index < len(sizes) else "?"
