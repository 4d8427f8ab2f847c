"""Functions of the user's that a framework calls on one rank alone, and others wait meanwhile."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import StreamKey
from collectrace.records import Call


class Hook(NamedTuple):
    """What a framework calls on one rank."""

    name: str
    """Of the method."""
    role: str
    """How the roles of the framework's own calls begin: by them it is known to be at work."""
    calls: str
    """That it does, and on which rank."""
    instead: str
    """Where every rank comes."""


HOOKS: Final = (
    # _DataConnector.prepare_data in trainer/connectors/data_connector.py, Lightning 2.6.6.
    Hook(
        "prepare_data", "lightning.",
        "Lightning calls prepare_data() on one rank of each node, or of all, and the others wait "
        "in a barrier until it has returned",
        "setup(), which Lightning calls on every rank behind it",
    ),
    # Strategy.save_checkpoint in strategies/strategy.py, Lightning 2.6.6.
    Hook(
        "save_checkpoint", "lightning.",
        "Lightning calls save_checkpoint() of a CheckpointIO on rank 0 alone, and the others wait "
        "in a barrier until it has returned",
        "on_save_checkpoint() of the module or of a callback, which runs on every rank before it",
    ),
)  # fmt: skip


class InHook(NamedTuple):
    """A rank that alone is in such a function."""

    rank: int
    call: Call
    hook: Hook
    frame: str
    """That of the function."""


@once
def in_hook(case: Case, candidate: Candidate) -> InHook | None:
    """The one rank of a candidate that is in a function which a framework calls on one; or None."""
    calls = [(edge.waiting.rank, waited_for(case, edge.waiting)) for edge in candidate.cycle]
    if not calls:
        calls = [(rank, side.call) for side in candidate.sides for rank in side.ranks]
    found = [
        one for rank, call in calls if call is not None and (one := _of_call(case, rank, call))
    ]
    return found[0] if len(found) == 1 and len(calls) > 1 else None


def _of_call(case: Case, rank: int, call: Call) -> InHook | None:
    for frame, caller in pairwise(case.stack(rank, call)):
        name = chains.scope(frame)[1].rpartition(".")[2]
        hook = next((one for one in HOOKS if one.name == name), None)
        if hook is None or not _is_at_work(case, rank, call, hook):
            continue
        line = statements.code_of(next(reversed(case.statements(chains.site(caller))), ""))
        is_asked = re.search(rf"\b{name}\(", line)
        if line and not is_asked:
            return InHook(rank, call, hook, frame)
    return None


def _is_at_work(case: Case, rank: int, call: Call, hook: Hook) -> bool:
    """Whether a call of the framework's is known in the run: all ranks share one vocabulary."""
    log = case.log(rank)
    if log is None:
        return False
    rows, _ = log.rows(StreamKey(call.group, call.device))
    return any(one.role.startswith(hook.role) for one in rows.vocabulary.examples)
