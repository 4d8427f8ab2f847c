"""How the report begins: how the job ended, what it was, where, when, and what its ranks did."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from collectrace import words
from collectrace.findings import Alignment, Job, RankState, State
from collectrace.report import text
from collectrace.report.layout import INDENT, Page

STATUS_STYLE: Final = {
    "aligned": "green", "diverged": "red", "hung": "red", "crashed": "red", "unknown": "yellow",
}  # fmt: skip
"""By the outcome of an alignment."""

_MOST_HOSTS: Final = 3
_LONGEST_SCRIPT: Final = 160

TELLING: Final[tuple[State, ...]] = (
    "died", "raised", "silent", "missing", "busy", "blocked", "running", "finished",
)  # fmt: skip
"""The states, what tells most of an end first."""

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")


def show(page: Page, alignment: Alignment) -> None:
    """Write it."""
    outcome = alignment.outcome
    job = alignment.job or Job()
    script = text.clean(job.script)
    if len(script) > _LONGEST_SCRIPT:
        script = script[: _LONGEST_SCRIPT - 2] + ".."
    style = f"bold {STATUS_STYLE[outcome]}"
    who = words.counted(alignment.world_size, "rank") + hosts(job)
    said = f"{script}, {who}" if script else who
    page.prose(Text.assemble((f"{outcome}: ", style), said), hang=INDENT)
    moment = when(job, is_alive=any(rank.ended == "alive" for rank in alignment.ranks))
    if moment:
        page.prose(moment, indent=INDENT, hang=INDENT)
    if job.attempt > 1:
        earlier = [text.clean(one) for one in job.earlier]
        page.prose("; ".join([f"attempt {job.attempt}", *earlier]), indent=INDENT, hang=INDENT)
    if alignment.ranks:
        page.prose(states(alignment.ranks), indent=INDENT, hang=INDENT)
    page.line()


def hosts(job: Job) -> str:
    """`` on node0``: the machines, as far as there is room."""
    if not job.hosts:
        return ""
    named = [text.clean(host) for host in job.hosts[:_MOST_HOSTS]]
    if len(job.hosts) == 1:
        return f" on {named[0]}"
    more = ", .." if len(job.hosts) > _MOST_HOSTS else ""
    return f" on {len(job.hosts)} hosts ({', '.join(named)}{more})"


def when(job: Job, *, is_alive: bool) -> str:
    """From when to when, and how long that is."""
    began, ended = moment(job.began), moment(job.ended)
    if began is None or ended is None or job.began is None or job.ended is None:
        return ""
    same_day = began.date() == ended.date()
    until = ended.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S")
    lasted = words.seconds(job.ended - job.began)
    last = "on, last line" if is_alive else "to"
    return f"{began:%Y-%m-%d %H:%M:%S} {last} {until} UTC ({lasted})"


def moment(wall: int | None) -> datetime | None:
    """A time in ns since 1970; None where there is none, or no calendar has it."""
    try:
        return None if wall is None else datetime.fromtimestamp(wall / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def states(ranks: tuple[RankState, ...]) -> str:
    """``ranks 3,6 raised an exception; ranks 0-2,4-5,7 blocked, still alive``."""
    alike: dict[State, list[RankState]] = {}
    for rank in ranks:
        alike.setdefault(rank.state, []).append(rank)
    parts = []
    for state in TELLING:
        those = alike.get(state, [])
        if those:
            alive = ", still alive" if all(rank.ended == "alive" for rank in those) else ""
            who = words.ranks(rank.rank for rank in those)
            parts.append(f"{who} {_PREDICATE.get(state) or text.STATES[state]}{alive}")
    return "; ".join(parts)


_PREDICATE: Final[dict[State, str]] = {"silent": "gave no sign of life"}


def split(prose: str) -> tuple[str, str]:
    """The first sentence of a text, which stands above the evidence, and the rest below it.

    What leads on to lines of code is not taken from them.
    """
    head, newline, tail = prose.partition("\n")
    if head.rstrip().endswith(":"):
        return prose, ""
    first, *rest = _SENTENCE.split(head, maxsplit=1)
    left = (rest[0] if rest else "") + (newline + tail if rest else tail)
    return first, left.strip("\n")
