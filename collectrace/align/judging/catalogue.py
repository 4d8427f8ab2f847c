"""Print the table of facts as Markdown."""

from __future__ import annotations

from typing import Final

from collectrace.align.judging import finders
from collectrace.align.judging.evidence import ENOUGH, FACTS, Speaks
from collectrace.align.judging.weighing import Finder

_ABOUT: Final = {
    "Calls of a group": finders.ROWS,
    "Making a group": finders.GROUPS,
    "Calls that all ranks reached, and that did not complete": finders.STALLS,
    "Messages": finders.MESSAGES,
    "Wait cycles": finders.CIRCLES,
}
"""Finders by what findings are about."""

_INTRODUCTION: Final = f"""\
# Evidence

collectrace decides by facts which ranks are to blame. In `--json`, `evidence` lists the facts that
decided a finding.

- A fact *for* blame has a weight. With {ENOUGH} or more, it decides alone. Smaller weights are
  added up, and decide together if they reach {ENOUGH}.
- If facts are about different ranks, the larger weight wins. If the weights are equal, nobody is
  blamed.
- A fact *against* blame is a veto. It cancels the facts with its name under "vetoed by", for
  the ranks that it protects.
"""


def chapter() -> str:
    """Return the chapter of the documentation that lists all facts."""
    lines = [_INTRODUCTION]
    for title, asked in _ABOUT.items():
        lines += [
            f"## {title}",
            "",
            "| fact | weight | what it says | vetoed by |",
            "|---|---|---|---|",
        ]
        for name in _names(asked, "for"):
            fact = FACTS[name]
            vetoes = ", ".join(f"`{veto}`" for veto in fact.vetoed_by)
            lines.append(f"| `{name}` | {fact.weight} | {fact.summary} | {vetoes} |")
        lines.append("")
    lines += ["## Vetoes", "", "| fact | what it says |", "|---|---|"]
    everything = [finder for asked in _ABOUT.values() for finder in asked]
    lines += [f"| `{name}` | {FACTS[name].summary} |" for name in _names(everything, "against")]
    return "\n".join(lines) + "\n"


def _names(asked: list[Finder] | tuple[Finder, ...], speaks: Speaks) -> list[str]:
    """Return the facts that some finders can yield, heaviest first."""
    names = dict.fromkeys(name for one in asked for name in one.facts if one.speaks == speaks)
    return sorted(names, key=lambda name: -FACTS[name].weight)
