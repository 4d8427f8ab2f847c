"""A collective stands in a function that a framework calls on one rank alone.

What it means
    Frameworks call some hooks on one rank, and let the others wait in a barrier until it has
    returned: Lightning's ``prepare_data()`` and ``save_checkpoint()`` of a ``CheckpointIO``. No
    other rank makes the collective.

Example
    ::

        def prepare_data(self):
            self.rows = broadcast(download())   # on rank 0 only

Not to be confused with
    CT102, if a condition of the script's own is on the rank.

How to fix it
    Move the collective to a hook that every rank runs.
"""

from __future__ import annotations

import ast
from typing import Final, NamedTuple

from collectrace.align.causes import apart, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import StreamKey


class Hook(NamedTuple):
    """What a framework calls on one rank."""

    name: str
    role: str
    """How the roles of the framework's own calls begin: by them it is known to be at work."""
    calls: str
    """That it does."""
    instead: str
    """Where every rank comes."""


HOOKS: Final = (
    # _DataConnector.prepare_data in trainer/connectors/data_connector.py, Lightning 2.6.6.
    Hook(
        "prepare_data", "lightning.",
        "Lightning calls prepare_data() on one rank of each node, or of all, and the others wait "
        "in a barrier until it has returned.",
        "setup(), which Lightning calls on every rank behind it",
    ),
    # Strategy.save_checkpoint in strategies/strategy.py, Lightning 2.6.6.
    Hook(
        "save_checkpoint", "lightning.",
        "Lightning calls save_checkpoint() of a CheckpointIO on rank 0 alone, and the others wait "
        "in a barrier until it has returned.",
        "on_save_checkpoint() of the module or of a callback, which runs on every rank before it",
    ),
)  # fmt: skip


class InHook(NamedTuple):
    """A rank that alone is in such a function."""

    step: Step
    hook: Hook
    frame: str


def find(situation: Situation) -> InHook | None:
    """Return the one side that is in a function which a framework calls on one rank."""
    sides = apart.at_finding(situation)
    found = [one for step in sides if (one := _of_step(situation, step)) is not None]
    if len(found) != 1 or len(sides) < 2 or len(found[0].step.ranks) != 1:
        return None
    return found[0]


def _of_step(situation: Situation, step: Step) -> InHook | None:
    for frame, caller in zip(step.stack, step.stack[1:], strict=False):
        hook = next((one for one in HOOKS if one.name == chains.method(frame)), None)
        if hook is None or step.call is None or not _is_at_work(situation, step, hook):
            continue
        if not _names(situation, caller, hook.name):
            return InHook(step, hook, frame)
    return None


def _is_at_work(situation: Situation, step: Step, hook: Hook) -> bool:
    log = situation.case.log(step.rank)
    if log is None or step.call is None:
        return False
    rows, _ = log.rows(StreamKey(step.call.group, step.call.device))
    return any(one.role.startswith(hook.role) for one in rows.vocabulary.examples)


def _names(situation: Situation, caller: str, name: str) -> bool:
    """Whether the script's own line calls the function by its name, or that is not known."""
    tree, number = situation.case.code.parsed(chains.file(caller)), chains.line(caller)
    if tree is None or not tree.body:
        return True
    return any(
        isinstance(node, ast.Attribute | ast.Name)
        and node.lineno <= number <= (node.end_lineno or 0)
        and name == (node.attr if isinstance(node, ast.Attribute) else node.id)
        for node in ast.walk(tree)
    )


def words(_: Situation, found: InHook) -> Words:
    """Return the words for a collective in such a function."""
    call = phrases.call(found.step.call) if found.step.call is not None else "the call"
    function = chains.function(found.frame)
    return Words(
        f"only {found.step.who} called {call} in {function}()",
        (found.hook.calls, "So no other rank makes that call."),
        (f"Make no collective in {function}(): move it to {found.hook.instead}.",),
    )
