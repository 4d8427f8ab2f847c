"""Functions of the script that a framework calls on one rank only, while the others wait."""

from __future__ import annotations

import ast
import itertools
from typing import Final, NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains
from collectrace.findings import Side


class Hook(NamedTuple):
    """A function that a framework calls on one rank only."""

    name: str
    role: str
    """Prefix of the roles of the framework's own calls, which show that it is in use."""
    instead: str
    """A function that the framework calls on every rank."""


HOOKS: Final = (
    # _DataConnector.prepare_data in trainer/connectors/data_connector.py, Lightning 2.6.6.
    Hook("prepare_data", "lightning.", "setup(), which Lightning calls on every rank after it"),
    # Strategy.save_checkpoint in strategies/strategy.py, Lightning 2.6.6.
    Hook(
        "save_checkpoint", "lightning.",
        "on_save_checkpoint() of the module or of a callback, which runs on every rank before it",
    ),
)  # fmt: skip


class Called(NamedTuple):
    """The rank that made a call in such a function."""

    side: Side
    frame: str
    """The frame of the function."""
    hook: Hook


def call_in_hook(case: Case, candidate: Candidate) -> Called | None:
    """Return the one rank that made a call in such a function, or None."""
    sides = candidate.sides
    found = [one for side in sides if (one := _of_side(case, side)) is not None]
    if len(found) != 1 or len(sides) < 2 or len(found[0].side.ranks) != 1:
        return None
    return found[0]


def _of_side(case: Case, side: Side) -> Called | None:
    stack = side.stack or ()
    for frame, caller in itertools.pairwise(stack):
        hook = next((one for one in HOOKS if one.name == chains.method(frame)), None)
        if hook is None or side.call is None or not _is_at_work(case, side.ranks[0], hook):
            continue
        if not _names(case, caller, hook.name):
            return Called(side, frame, hook)
    return None


def _is_at_work(case: Case, rank: int, hook: Hook) -> bool:
    log = case.log(rank)
    seen = log.vocabulary.appearances if log is not None else ()
    return any(one.role.startswith(hook.role) for one in seen)


def _names(case: Case, caller: str, name: str) -> bool:
    """Whether the script's own line calls the function by its name, or is not known."""
    tree, number = case.code.parsed(chains.file(caller)), chains.line(caller)
    if tree is None or not tree.body:
        return True
    return any(
        isinstance(node, ast.Attribute | ast.Name)
        and node.lineno <= number <= (node.end_lineno or 0)
        and name == (node.attr if isinstance(node, ast.Attribute) else node.id)
        for node in ast.walk(tree)
    )
