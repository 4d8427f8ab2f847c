"""Show what every rank of a running job is doing: in place on a terminal, otherwise as lines."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from collectrace import words
from collectrace.findings import Alignment, RankState, State
from collectrace.printable import masked
from collectrace.report import layout, text

_MOVING: Final = 2.0
_MOVING_IN_LINES: Final = 10.0
"""For so many seconds after its last call a rank counts as running: on a terminal, and in lines.
Every step waits a little, and a line for each wait would be too much to read."""

_MOST_ROWS: Final = 12
_LABEL: Final = 12

_DURATION: Final = re.compile(r"\b\d+(\.\d+)? (s|min)\b")

_STYLE: Final[dict[State, str]] = {
    "finished": "green", "running": "green", "blocked": "yellow", "busy": "cyan",
    "raised": "red", "died": "red", "silent": "red", "missing": "magenta",
    "unknown": "magenta",
}  # fmt: skip


class Row(NamedTuple):
    """Ranks that are doing the same."""

    ranks: str
    state: State
    words: str
    """Details, printed after the state."""
    key: str
    """A new line is printed only if this changes."""


class LiveView:
    """A view on a stream, as a context manager: :meth:`show` updates it.

    ``path`` is the folder in which logs are expected.
    """

    def __init__(self, stream: TextIO, path: str) -> None:
        self._console = layout.seen(Console(file=stream))
        self._path = text.clean(path)
        self._live = (
            Live(console=self._console, auto_refresh=False, transient=True)
            if self._console.is_terminal
            else None
        )
        self._began = time.monotonic()
        self._printed: set[str] = set()
        self._run: str | None = None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, alignment: Alignment | None) -> None:
        """Show the current state; None: there are no logs yet."""
        if self._live is not None:
            self._live.update(Group(*self._lines(alignment)), refresh=True)
        else:
            self._print_news(alignment)

    def _title(self, alignment: Alignment | None) -> str:
        if alignment is None:
            return f"waiting for logs in {self._path}"
        return f"run {text.clean(alignment.run)}, {words.counted(alignment.world_size, 'rank')}"

    def _lines(self, alignment: Alignment | None) -> list[Text]:
        title = self._title(alignment)
        elapsed = time.monotonic() - self._began
        if alignment is None:
            return [_line(f"{title} ({elapsed:.0f} s; Ctrl-C ends)")]
        agreed = words.compared(alignment.evidence) or words.counted(0, "collective")
        lines = [_line(Text.assemble((title, "bold"), f": {agreed} agree, after {elapsed:.0f} s"))]
        shown = rows(alignment.ranks, _MOVING)
        for row in shown[:_MOST_ROWS]:
            who = f"  {row.ranks.ljust(_LABEL)}  "
            lines.append(
                _line(Text.assemble(who, (text.STATES[row.state], _STYLE[row.state]), row.words))
            )
        if len(shown) > _MOST_ROWS:
            lines.append(_line(f"  and {len(shown) - _MOST_ROWS} more kinds of state"))
        lines += [_line(Text(f"  {warning}", "yellow")) for warning in _warnings(alignment)]
        return [*lines, _line(Text("  Ctrl-C ends with a report", "dim"))]

    def _print_news(self, alignment: Alignment | None) -> None:
        """Print a line for each state and warning that was not printed last time."""
        run = alignment.run if alignment is not None else ""
        if run != self._run:
            self._run = run
            self._printed = set()
            self._print(self._title(alignment))
        if alignment is None:
            return
        found = rows(alignment.ranks, _MOVING_IN_LINES)
        for row in found:
            if row.key not in self._printed:
                self._print(f"{row.ranks} {text.STATES[row.state]}{row.words}")
        for warning in _warnings(alignment):
            if warning not in self._printed:
                self._print(warning)
        self._printed = {*(row.key for row in found), *_warnings(alignment)}

    def _print(self, line: str) -> None:
        elapsed = time.monotonic() - self._began
        self._console.print(
            f"[{elapsed:5.0f} s] {masked(line)}", soft_wrap=True, highlight=False, markup=False
        )
        self._console.file.flush()


def rows(ranks: Sequence[RankState], moving: float) -> list[Row]:
    """Group ranks that do the same; one with a call in the last ``moving`` seconds is running."""
    alike: dict[tuple[State, str], list[RankState]] = {}
    for rank in ranks:
        alike.setdefault(_kind(rank, moving), []).append(rank)
    return [
        Row(
            who := words.ranks([rank.rank for rank in those]),
            state,
            _words(state, those),
            f"{who} {state} {detail}",
        )
        for (state, detail), those in alike.items()
    ]


def _kind(rank: RankState, moving: float) -> tuple[State, str]:
    is_moving = rank.held is not None and rank.held < moving
    if rank.state == "running" or (rank.state in ("blocked", "busy") and is_moving):
        return "running", ""
    detail = _DURATION.sub("", text.clean(rank.detail))
    # Busy ranks are grouped by their last call.
    after = _last(rank) if rank.state == "busy" else ""
    return rank.state, f"{detail} {after}".strip()


def _words(state: State, ranks: Sequence[RankState]) -> str:
    longest = max(ranks, key=lambda rank: rank.held or 0.0)
    last = _last(longest)
    if state in ("running", "busy"):
        detail = f", {text.clean(longest.detail)}" if state == "busy" and longest.detail else ""
        return f"{detail}, last call {last}" if last else detail
    detail = " ".join(text.clean(longest.detail).split())
    return f" {detail}" if detail.startswith("in ") else f", {detail}" if detail else ""


def _last(rank: RankState) -> str:
    call = rank.last_call
    if call is None:
        return ""
    return f"{text.clean(call.op)} {call.seq}{text.at(call)}"


def _warnings(alignment: Alignment) -> list[str]:
    return [
        f"warning: {text.clean(finding.headline)}"
        for finding in alignment.findings
        if finding.severity == "warning"
    ]


def _line(words: Text | str) -> Text:
    line = words if isinstance(words, Text) else Text(words)
    line.plain = masked(line.plain)
    line.no_wrap = True
    line.overflow = "ellipsis"
    return line
