"""Run a script of the zoo on threads that exchange values, and see by tracing what decided."""

from __future__ import annotations

import ast
import contextlib
import copy
import difflib
import io
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest import mock

import torch
import torch.distributed as dist

import tests.zoo.common
from collectrace.align.code.between import Side
from tests.unit.align.code.alone import described
from tests.unit.align.code.standin import Call, Run, difference, traced, user_stack

ZOO: Final = Path(tests.zoo.common.__file__).parent

Event = tuple[int, str, int]
"""Depth, function and line. Of a call the depth of the caller, and a line below zero."""


class Stopped(BaseException):
    """The ranks wait for each other, or took too long."""


class NotSupported(Exception):
    """The script uses something that has no stand-in."""


@dataclass(eq=False)
class Group:
    """A process group."""

    ranks: tuple[int, ...]
    name: str

    def size(self) -> int:
        return len(self.ranks)

    def rank(self) -> int:
        return self.ranks.index(me())


class Done:
    """A Work that has completed."""

    def wait(self, *_: object) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


_local = threading.local()


def me() -> int:
    rank = getattr(_local, "rank", None)
    if rank is None:
        raise NotSupported("no rank on this thread")
    return int(rank)


@dataclass
class Job:
    """Ranks that meet in collectives."""

    world: int
    is_user: Callable[[str], bool]
    runs: list[Run] = field(default_factory=list)
    events: list[list[Event]] = field(default_factory=list)
    marks: list[list[int]] = field(default_factory=list)
    """By rank and call, how many lines had been executed."""
    rows: dict[tuple[str, int], dict[int, tuple[object, Any]]] = field(default_factory=dict)
    counts: dict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))
    waiting: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    groups: int = 0
    is_stopped: bool = False
    unsupported: str = ""

    def __post_init__(self) -> None:
        self.condition = threading.Condition()
        self.runs = [Run(rank) for rank in range(self.world)]
        self.events = [[] for _ in range(self.world)]
        self.marks = [[] for _ in range(self.world)]
        self.everyone = Group(tuple(range(self.world)), "world")
        self.made: dict[int, list[Group]] = defaultdict(list)

    def wait_for(self, is_there: Callable[[], bool]) -> None:
        """Block a rank; all of them blocked is the end."""
        while not is_there():
            self.waiting.add(me())
            if self.is_stopped or len(self.waiting | self.ended) == self.world:
                self.is_stopped = True
                self.condition.notify_all()
                raise Stopped
            self.condition.wait(0.5)
        self.waiting.discard(me())

    def meet(self, op: str, group: Group, payload: Any, arguments: tuple[object, ...]) -> list[Any]:
        """Record a call, and return what the ranks of the group gave to it."""
        rank = me()
        stack = user_stack(sys._getframe(2), self.is_user)
        signature = group.ranks, *arguments
        with self.condition:
            self.runs[rank].calls.append(Call(op, stack, signature))
            self.marks[rank].append(len(self.events[rank]))
            if rank not in group.ranks:
                return []
            n = self.counts[rank, group.name]
            self.counts[rank, group.name] += 1
            row = self.rows.setdefault((group.name, n), {})
            row[rank] = (op, *arguments), copy.deepcopy(payload)
            self.waiting = set()  # whoever waits looks again
            self.condition.notify_all()
            self.wait_for(lambda: len(row) == len(group.ranks))
            if len({one[0] for one in row.values()}) > 1:
                self.is_stopped = True
                self.condition.notify_all()
                raise Stopped
            return [row[one][1] for one in group.ranks]


REDUCE: Final = {
    "SUM": lambda ts: torch.stack(ts).sum(0),
    "AVG": lambda ts: torch.stack(ts).float().mean(0),
    "MAX": lambda ts: torch.stack(ts).amax(0),
    "MIN": lambda ts: torch.stack(ts).amin(0),
    "PRODUCT": lambda ts: torch.stack(ts).prod(0),
}


def _reduced(values: Sequence[torch.Tensor], op: object) -> torch.Tensor:
    name = str(op).rpartition(".")[2]
    result: torch.Tensor = REDUCE[name](list(values))
    return result


class Collectives:
    """The functions that take the place of those of torch.distributed."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def _of(self, group: Any) -> Group:
        if group is None or group is dist.group.WORLD:
            return self.job.everyone
        if not isinstance(group, Group):
            raise NotSupported(f"group {group!r}")
        return group

    def all_reduce(
        self, tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        got = self.job.meet(
            "all_reduce", self._of(group), tensor.detach(), (described(tensor), str(op))
        )
        if got:
            with torch.no_grad():
                tensor.copy_(_reduced(got, op))
        return Done() if async_op else None

    def broadcast(
        self,
        tensor: Any,
        src: Any = None,
        group: Any = None,
        async_op: bool = False,
        group_src: Any = None,
    ) -> Any:
        g = self._of(group)
        root = g.ranks[group_src] if group_src is not None else src
        got = self.job.meet("broadcast", g, tensor.detach(), (described(tensor), root))
        if got and root in g.ranks:
            with torch.no_grad():
                tensor.copy_(got[g.ranks.index(root)])
        return Done() if async_op else None

    def reduce(
        self,
        tensor: Any,
        dst: Any = None,
        op: Any = dist.ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
        group_dst: Any = None,
    ) -> Any:
        g = self._of(group)
        root = g.ranks[group_dst] if group_dst is not None else dst
        got = self.job.meet("reduce", g, tensor.detach(), (described(tensor), root, str(op)))
        if got and root == me():
            with torch.no_grad():
                tensor.copy_(_reduced(got, op))
        return Done() if async_op else None

    def all_gather(
        self, tensors: Any, tensor: Any, group: Any = None, async_op: bool = False
    ) -> Any:
        got = self.job.meet("all_gather", self._of(group), tensor.detach(), (len(tensors),))
        for out, one in zip(tensors, got, strict=False):
            out.resize_(one.shape).copy_(one)
        return Done() if async_op else None

    def all_gather_into_tensor(
        self, out: Any, tensor: Any, group: Any = None, async_op: bool = False
    ) -> Any:
        got = self.job.meet(
            "all_gather_into_tensor",
            self._of(group),
            tensor.detach(),
            (described(tensor), described(out)),
        )
        if got:
            out.copy_(torch.cat([one.reshape(-1) for one in got]).reshape(out.shape))
        return Done() if async_op else None

    def reduce_scatter(
        self,
        out: Any,
        tensors: Any,
        op: Any = dist.ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        g = self._of(group)
        got = self.job.meet("reduce_scatter", g, list(tensors), (described(out), str(op)))
        if got:
            out.copy_(_reduced([one[g.rank()] for one in got], op))
        return Done() if async_op else None

    def reduce_scatter_tensor(
        self,
        out: Any,
        tensor: Any,
        op: Any = dist.ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        g = self._of(group)
        got = self.job.meet(
            "reduce_scatter_tensor", g, tensor.detach(), (described(out), described(tensor))
        )
        if got:
            out.copy_(
                _reduced(
                    [one.reshape(-1).chunk(g.size())[g.rank()].reshape(out.shape) for one in got],
                    op,
                )
            )
        return Done() if async_op else None

    def gather(
        self,
        tensor: Any,
        gather_list: Any = None,
        dst: Any = None,
        group: Any = None,
        async_op: bool = False,
        group_dst: Any = None,
    ) -> Any:
        g = self._of(group)
        root = g.ranks[group_dst] if group_dst is not None else dst or 0
        got = self.job.meet("gather", g, tensor.detach(), (described(tensor), root))
        for out, one in zip(gather_list or (), got, strict=False):
            out.copy_(one)
        return Done() if async_op else None

    def scatter(
        self,
        tensor: Any,
        scatter_list: Any = None,
        src: Any = None,
        group: Any = None,
        async_op: bool = False,
        group_src: Any = None,
    ) -> Any:
        g = self._of(group)
        root = g.ranks[group_src] if group_src is not None else src or 0
        got = self.job.meet("scatter", g, list(scatter_list or ()), (described(tensor), root))
        if got:
            tensor.copy_(got[g.ranks.index(root)][g.rank()])
        return Done() if async_op else None

    def all_to_all(self, outs: Any, ins: Any, group: Any = None, async_op: bool = False) -> Any:
        g = self._of(group)
        got = self.job.meet("all_to_all", g, list(ins), ())
        for out, one in zip(outs, got, strict=False):
            out.copy_(one[g.rank()])
        return Done() if async_op else None

    def all_to_all_single(
        self,
        out: Any,
        tensor: Any,
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        g = self._of(group)
        parts = list(
            tensor.split(input_split_sizes) if input_split_sizes else tensor.chunk(g.size())
        )
        got = self.job.meet("all_to_all_single", g, parts, ())
        if got:
            out.copy_(torch.cat([one[g.rank()] for one in got]))
        return Done() if async_op else None

    def barrier(self, group: Any = None, async_op: bool = False, **_: Any) -> Any:
        self.job.meet("barrier", self._of(group), None, ())
        return Done() if async_op else None

    def monitored_barrier(self, group: Any = None, *_: Any, **__: Any) -> None:
        self.job.meet("monitored_barrier", self._of(group), None, ())

    def all_gather_object(self, objects: Any, obj: Any, group: Any = None) -> None:
        got = self.job.meet("all_gather_object", self._of(group), obj, ())
        if got:
            objects[:] = got

    def broadcast_object_list(
        self,
        objects: Any,
        src: Any = None,
        group: Any = None,
        device: Any = None,
        group_src: Any = None,
    ) -> None:
        g = self._of(group)
        root = g.ranks[group_src] if group_src is not None else src or 0
        got = self.job.meet("broadcast_object_list", g, list(objects), (len(objects), root))
        if got:
            objects[:] = got[g.ranks.index(root)]

    def gather_object(
        self,
        obj: Any,
        object_gather_list: Any = None,
        dst: Any = None,
        group: Any = None,
        group_dst: Any = None,
    ) -> None:
        g = self._of(group)
        root = g.ranks[group_dst] if group_dst is not None else dst or 0
        got = self.job.meet("gather_object", g, obj, (root,))
        if object_gather_list is not None and got:
            object_gather_list[:] = got

    def new_group(self, ranks: Any = None, *_: Any, **__: Any) -> Any:
        with self.job.condition:
            mine = self.job.made[me()]
            group = Group(
                tuple(sorted(ranks)) if ranks is not None else self.job.everyone.ranks,
                f"{len(mine)}",
            )
            mine.append(group)
        return group if me() in group.ranks else dist.GroupMember.NON_GROUP_MEMBER

    def get_rank(self, group: Any = None) -> int:
        return self._of(group).rank() if me() in self._of(group).ranks else -1

    def get_world_size(self, group: Any = None) -> int:
        return self._of(group).size()

    def get_process_group_ranks(self, group: Any = None) -> list[int]:
        return list(self._of(group).ranks)

    def get_group_rank(self, group: Any, rank: int) -> int:
        return self._of(group).ranks.index(rank)

    def get_global_rank(self, group: Any, rank: int) -> int:
        return self._of(group).ranks[rank]

    def is_initialized(self) -> bool:
        return True

    def destroy_process_group(self, group: Any = None) -> None:
        pass

    def get_backend(self, group: Any = None) -> str:
        return "gloo"


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> None:
        raise NotSupported(name)

    return refuse


REFUSED: Final = (
    "send", "recv", "isend", "irecv", "batch_isend_irecv", "new_subgroups", "split_group",
    "send_object_list", "recv_object_list", "new_subgroups_by_enumeration",
)  # fmt: skip


@dataclass
class Rank:
    """One rank of a script on a thread."""

    job: Job
    number: int
    path: Path
    own: frozenset[str]

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        """Note the executed lines of the script."""
        code = frame.f_code
        if code.co_filename not in self.own:
            return self.trace if event == "call" else None
        events = self.job.events[self.number]
        depth, outer = 0, frame.f_back
        while outer is not None:
            depth += outer.f_code.co_filename in self.own
            outer = outer.f_back
        if event == "line":
            events.append((depth, code.co_qualname, frame.f_lineno))
        elif event == "call":  # its caller decided it
            events.append((depth - 1, code.co_qualname, -code.co_firstlineno))
        return self.trace

    def body(self) -> None:
        """Run the script to its end, or until the ranks wait for each other."""
        _local.rank = self.number
        try:
            code = compile(self.path.read_text(), str(self.path), "exec")
            sys.settrace(self.trace)
            exec(code, {"__name__": "__main__", "__file__": str(self.path)})
        except (Stopped, SystemExit):
            pass
        except NotSupported as error:
            self.job.unsupported = f"{error}"
        except Exception as error:  # noqa: BLE001  the script's own
            sys.settrace(None)
            self.raised(error)
        finally:
            sys.settrace(None)
            with self.job.condition:
                self.job.ended.add(self.number)
                self.job.condition.notify_all()

    def raised(self, error: Exception) -> None:
        self.job.runs[self.number].raised = traced(error, self.own.__contains__)
        innermost = error.__traceback__
        while innermost is not None and innermost.tb_next is not None:
            innermost = innermost.tb_next
        file = innermost.tb_frame.f_code.co_filename if innermost is not None else ""
        if "/torch/" in file or file.endswith("together.py"):
            self.job.unsupported = f"{type(error).__name__}: {error}"


def run(path: Path, world: int, limit: float = 20) -> Job:
    """Run a script on threads; ``unsupported`` says why that cannot be done."""
    own = frozenset({str(path), str(ZOO / "comm.py"), str(ZOO / "protocol.py")})
    job = Job(world, own.__contains__)
    collectives = Collectives(job)
    with contextlib.ExitStack() as stack:
        for name in dir(collectives):
            if not name.startswith("_") and name != "job":
                stand_in = getattr(collectives, name)
                stack.enter_context(mock.patch.object(dist, name, stand_in))
        for name in REFUSED:
            stack.enter_context(mock.patch.object(dist, name, _refusing(name)))
        stack.enter_context(mock.patch.object(tests.zoo.common, "init", _init))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        ranks = [Rank(job, number, path, own) for number in range(world)]
        threads = [threading.Thread(target=one.body, daemon=True) for one in ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(limit)
        if any(thread.is_alive() for thread in threads):
            job.is_stopped, job.unsupported = True, "too slow"
            with job.condition:
                job.condition.notify_all()
            for thread in threads:
                thread.join(5)
    return job


def _init(*_: object) -> int:
    return me()


@dataclass
class Difference:
    """The first call in which two ranks differ, and which lines decided."""

    sides: tuple[Side, Side]
    arguments_only: bool
    truth: set[int]


def first_difference(job: Job, text: str) -> Difference | None:
    """The first call in which rank 0 and another one differ."""
    best: tuple[int, int] | None = None
    for other in range(1, job.world):
        pair = [job.runs[0], job.runs[other]]
        place = next(
            (
                n
                for n in range(max(len(one.calls) for one in pair) + 1)
                if len(
                    {one.calls[n] if n < len(one.calls) else (one.rank, one.raised) for one in pair}
                )
                > 1
            ),
            0,
        )
        if best is None or place < best[0]:
            best = place, other
    assert best is not None
    n, other = best
    found = difference([job.runs[0], job.runs[other]])
    if found is None:
        return None
    one, two, same = found
    tails = []
    ends = []
    for side in (one, two):
        begin = job.marks[side.rank][n - 1] if n else 0
        called = n < len(job.marks[side.rank])
        end = job.marks[side.rank][n] if called else len(job.events[side.rank])
        tails.append(job.events[side.rank][begin:end])
        ends.append(len(side.stack) - 1 if called else -1)
    names = {frame.function for side in (one, two) for frame in (*side.last, *side.stack)}
    last = [frame.line for frame in reversed(one.last)]
    truth = Divergence(tails, ends, last, names, handlers_of(text)).lines()
    return Difference((one, two), same and tails[0] == tails[1], truth)


def handlers_of(text: str) -> set[int]:
    """The lines that are executed when an exception is caught."""
    return {
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ExceptHandler)
        or (isinstance(node, ast.With) and "suppress" in ast.unparse(node.items[0]))
    }


@dataclass
class Divergence:
    """Where the executed lines of two ranks differ for good."""

    tails: Sequence[Sequence[Event]]
    """The lines since the last call."""
    ends: Sequence[int]
    """Depth of the next call; -1: there is none."""
    last: Sequence[int]
    """Lines of the last call, outermost first."""
    names: set[str]
    """Functions on the stacks."""
    handlers: set[int]

    def lines(self) -> set[int]:
        """The line that both executed last in the frame in which they then differ, or a handler."""
        a, b = self.tails
        i = j = next(
            (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
        )
        depth = self._depth(i, j)
        matcher = difflib.SequenceMatcher(None, a[i:], b[i:], autojunk=False)
        for block in matcher.get_matching_blocks():
            again = a[i + block.a : i + block.a + block.size]
            ends = i + block.a + block.size, i + block.b + block.size
            if any(event[0] <= depth for event in again) and ends != (len(a), len(b)):
                # They come together again: the first difference decided nothing about the calls.
                return Divergence(
                    (a[ends[0] - block.size :], b[ends[1] - block.size :]),
                    self.ends, self.last, self.names, self.handlers,
                ).lines()  # fmt: skip
        common = a[:i]
        following = [(a, i), (b, j)]
        while True:
            before = [event for event in common if event[0] == depth and event[2] > 0]
            if not before or before[-1][1] in self.names or depth <= 0:
                break
            depth -= 1  # a function that none of the calls came from: who called it
        for tail, n in following:
            behind = next((event for event in tail[n:] if event[0] <= depth), None)
            if behind is not None and behind[2] in self.handlers:
                return {behind[2]}
        if before:
            return {before[-1][2]}
        return {self.last[depth]} if 0 <= depth < len(self.last) else set()

    def _depth(self, i: int, j: int) -> int:
        """The depth of the frame in which they differ."""
        a, b = self.tails
        following = [(a, i, self.ends[0]), (b, j, self.ends[1])]
        depths = [tail[n][0] if n < len(tail) else end for tail, n, end in following]
        return min(a[i - 1][0] if i else len(self.last) - 1, max(depths))
