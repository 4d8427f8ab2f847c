"""The first lines of the report: outcome, script, ranks, hosts, times and earlier attempts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from collectrace import words
from collectrace.findings import Alignment, Job
from collectrace.report import text
from collectrace.report.layout import INDENT, SEPARATOR, Page, unbroken

STATUS_STYLE: Final = {
    "aligned": "green", "diverged": "red", "hung": "red", "crashed": "red", "unknown": "yellow",
}  # fmt: skip
"""By the outcome of an alignment."""

_MOST_HOSTS: Final = 3
_LONGEST_SCRIPT: Final = 160


def show(page: Page, alignment: Alignment) -> None:
    """Write the first lines."""
    outcome, *parts = told(alignment)
    style = f"bold {STATUS_STYLE[alignment.outcome]}"
    page.prose(
        Text.assemble((outcome, style), *(f"{SEPARATOR}{unbroken(one)}" for one in parts)),
        hang=INDENT,
    )
    job = alignment.job or Job()
    if job.attempt > 1:
        earlier = [text.clean(one) for one in job.earlier]
        page.prose(SEPARATOR.join([f"attempt {job.attempt}", *earlier]), hang=INDENT)
    page.line()


def told(alignment: Alignment) -> list[str]:
    """Return the outcome (``diverged``), the script, the ranks, and the duration and end."""
    job = alignment.job or Job()
    script = text.clean(job.script)
    if len(script) > _LONGEST_SCRIPT:
        script = script[: _LONGEST_SCRIPT - 2] + ".."
    who = words.counted(alignment.world_size, "rank") + hosts(job)
    ended = when(job, is_alive=any(rank.ended == "alive" for rank in alignment.ranks))
    return [part for part in (alignment.outcome, script, who, ended) if part]


def hosts(job: Job) -> str:
    """Return `` on node0``: the first few hosts; empty if none is known."""
    if not job.hosts:
        return ""
    named = [text.clean(host) for host in job.hosts[:_MOST_HOSTS]]
    if len(job.hosts) == 1:
        return f" on {named[0]}"
    more = ", .." if len(job.hosts) > _MOST_HOSTS else ""
    return f" on {len(job.hosts)} hosts ({', '.join(named)}{more})"


def when(job: Job, *, is_alive: bool) -> str:
    """Return how long the job ran, and when it ended or wrote its last line; or empty."""
    ended = moment(job.ended)
    if ended is None or job.began is None or job.ended is None:
        return ""
    last = "so far, last line" if is_alive else "ended"
    lasted = words.seconds(job.ended - job.began)
    return f"{lasted}{' ' if is_alive else ', '}{last} {ended:%Y-%m-%d %H:%M:%S} UTC"


def moment(wall: int | None) -> datetime | None:
    """Convert a time in ns since 1970; None if there is none, or it is out of range."""
    try:
        return None if wall is None else datetime.fromtimestamp(wall / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return None
