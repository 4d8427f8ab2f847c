"""The facts on a rank at its last stall: frames, kernel state of the thread, and source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from collectrace import dumps, words
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import RankLog, RunEvidence
from collectrace.dumps import MAIN
from collectrace.records import KernelWait, Stall

_SAME_CLOCK: Final = 1_000_000_000
"""ns between the starts of the monotonic clock that processes of one machine record."""

_LONGEST: Final = 60
"""Characters of an expression, or of a name."""


@dataclass(frozen=True)
class LastStall:
    """The facts on a rank at its last stall."""

    log: RankLog
    stall: Stall
    evidence: RunEvidence
    thread: str
    """The working thread, by its name in the stacks."""
    kernel: KernelWait
    """The kernel's state of that thread."""

    @property
    def frames(self) -> Sequence[str]:
        """The frames of the thread, innermost last."""
        return self.stall.stacks.get(self.thread, ())

    @cached_property
    def inner(self) -> Sequence[str]:
        """The frames of libraries below the user's innermost line, without the tracer's."""
        own = dumps.own(self.frames)
        first = len(self.frames) - self.frames[::-1].index(own[-1]) if own else 0
        return [frame for frame in self.frames[first:] if dumps.TRACER not in frame]

    @cached_property
    def line(self) -> str:
        """The innermost line if it is the user's, and so calls into C; otherwise empty."""
        own = dumps.own(self.frames)
        return site(own[-1]) if own and not self.inner else ""

    @property
    def has_all_threads(self) -> bool:
        """Whether the stacks of all threads are known: an exception shows only its own."""
        return self.stall is self.log.stall

    @property
    def has_source(self) -> bool:
        """Whether the text of the user's innermost line is known."""
        own = dumps.own(self.frames)
        return bool(own) and bool(self.evidence.source_files.line(site(own[-1])))

    @cached_property
    def statements(self) -> Sequence[ast.Call]:
        """The calls at that line, the innermost first."""
        return [one for one in self._nodes(self.line) if isinstance(one, ast.Call)][::-1]

    @cached_property
    def called(self) -> frozenset[str]:
        """The names of the functions that are called there: ``get`` for ``store.get(key)``."""
        return frozenset(name(one.func) for one in self.statements)

    @cached_property
    def entered(self) -> str:
        """What a ``with`` at that line enters without a call, such as a lock; otherwise empty."""
        for one in self._nodes(self.line):
            if isinstance(one, ast.With) and not isinstance(one.items[0].context_expr, ast.Call):
                return text(one.items[0].context_expr)
        return ""

    @cached_property
    def polled(self) -> str:
        """The condition of the innermost ``while`` around that line; empty if it is constant."""
        file, number = chains.split(self.line)
        loops = [
            one
            for one in (self._walk(file) if number else ())
            if isinstance(one, ast.While) and one.lineno < number <= (one.end_lineno or 0)
        ]
        tests = [one.test for one in loops[-1:] if not isinstance(one.test, ast.Constant)]
        return text(tests[0]) if tests else ""

    def _nodes(self, line: str) -> Iterator[ast.AST]:
        """Yield the calls and ``with`` statements that begin at a line."""
        file, number = chains.split(line)
        for node in self._walk(file) if number else ():
            if isinstance(node, ast.Call | ast.With) and node.lineno == number:
                yield node

    @property
    def children(self) -> Mapping[int | None, KernelWait]:
        """The child processes of the rank, by number."""
        return {one.pid: one for one in self.stall.children or ()}

    def others(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the other threads with frames of the user's code, and these frames."""
        for thread, frames in self.stall.stacks.items():
            own = dumps.own(frames)
            if own and thread != self.thread:
                yield thread.rpartition(" (")[0] or thread, own

    def is_within(self, frames: Sequence[str], entered: str) -> bool:
        """Return whether one of these lines is inside a ``with`` that enters this expression."""
        places = (chains.split(site(frame)) for frame in frames)
        return any(
            isinstance(node, ast.With)
            and node.body[0].lineno <= number <= (node.end_lineno or 0)
            and any(text(item.context_expr) == entered for item in node.items)
            for file, number in places
            for node in self._walk(file)
        )

    def _walk(self, file: str) -> Iterator[ast.AST]:
        tree = self.evidence.source_files.parsed(file)
        return ast.walk(tree) if tree is not None else iter(())

    def rank_of(self, pid: int) -> int | None:
        """Return the rank that had this process, on this machine and at that time."""
        here = self.log.header
        for rank, log in self.evidence.logs.items():
            there = log.header
            if there.pid != pid or there.host != here.host:
                continue
            is_same = abs((there.wall - there.t) - (here.wall - here.t)) < _SAME_CLOCK
            if is_same and (log.exit is None or log.exit.t > self.stall.t):
                return rank
        return None

    def process(self, pid: int) -> str:
        """Return ``process 4711 (rank 0)``."""
        if pid == self.log.header.pid:
            return f"process {pid} (this rank itself)"
        rank = self.rank_of(pid)
        return f"process {pid}" + (f" (rank {rank})" if rank is not None else "")

    def child(self, one: KernelWait) -> str:
        """Return ``process 4712 (python), which sleeps``."""
        named = f"process {one.pid}" + (f" ({one.name})" if one.name else "")
        return f"{named}, which {_doing(self, one)}"


def thread_at_work(stacks: Mapping[str, Sequence[str]]) -> str:
    """Return the name of the working thread among stacks by thread.

    It is the main thread, unless that waits for another thread, or runs no code of the user, as in
    workers that train in another thread.
    """
    main = next((name for name in stacks if name.startswith(MAIN)), "")
    if not main:
        return ""
    beside = (name for name in stacks if not name.startswith(MAIN))
    others = [name for name in beside if dumps.own(stacks[name])]
    if others and (dumps.is_joining(stacks[main]) or not dumps.own(stacks[main])):
        return others[0]
    return main


def site(frame: str) -> str:
    """Return ``path:line`` of a frame; a path may contain spaces."""
    return frame.rpartition(" ")[0]


def name(of: ast.expr) -> str:
    """Return the last name of an expression: ``get`` for ``self.store.get``."""
    return of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""


def text(of: ast.expr) -> str:
    """Return the text of an expression, shortened if it is long."""
    return words.brief(ast.unparse(of), _LONGEST)


def _doing(seen: LastStall, one: KernelWait) -> str:
    """Return what a child process does: ``waits for file lock /a, held by process 7``."""
    if one.state == "Z":
        return "has ended, and nobody has asked for its status"
    if one.state == "T":
        return "is stopped"
    if one.holder is not None:
        return f"waits for file lock {one.file}, held by {seen.process(one.holder)}"
    told = _DOES.get(one.call or "")
    if told is None:
        return "runs" if one.state == "R" else f"is in {one.call}" if one.call else "is alive"
    return f"{told} {one.file}" if one.file and told.endswith((" from", " to")) else told


_DOES: Final = {
    "running": "runs", "futex": "waits for a lock inside it", "clock_nanosleep": "sleeps",
    "nanosleep": "sleeps", "read": "reads from", "pread64": "reads from", "write": "writes to",
    "poll": "waits for work", "select": "waits for work", "wait4": "waits for a child of its own",
    "waitid": "waits for a child of its own", "recvfrom": "waits for a connection",
    "page fault": "waits for a page of memory", "flock": "waits for a file lock",
    "openat": "opens a file", "open": "opens a file",
}  # fmt: skip
"""What a process does, by its system call."""
