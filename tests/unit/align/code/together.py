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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest import mock

import torch
import torch.distributed as dist

import tests.zoo.common
from collectrace.align.code.between import Side
from tests.unit.align.code.standin import Call, Run, described, difference, user_stack

ZOO: Final = Path(tests.zoo.common.__file__).parent

Event = tuple[int, str, int]
"""Depth, function and line."""


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


def stand_ins(job: Job) -> dict[str, Callable[..., Any]]:
    """The functions that take the place of those of torch.distributed."""

    def of(group: Any) -> Group:
        if group is None or group is dist.group.WORLD:
            return job.everyone
        if not isinstance(group, Group):
            raise NotSupported(f"group {group!r}")
        return group

    def work(is_async: bool) -> Done | None:
        return Done() if is_async else None

    def all_reduce(tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        got = job.meet("all_reduce", of(group), tensor.detach(), (described(tensor), str(op)))
        if got:
            with torch.no_grad():
                tensor.copy_(_reduced(got, op))
        return work(async_op)

    def broadcast(tensor: Any, src: Any = None, group: Any = None, async_op: bool = False, group_src: Any = None) -> Any:
        g = of(group)
        root = g.ranks[group_src] if group_src is not None else src
        got = job.meet("broadcast", g, tensor.detach(), (described(tensor), root))
        if got and root in g.ranks:
            with torch.no_grad():
                tensor.copy_(got[g.ranks.index(root)])
        return work(async_op)

    def reduce(tensor: Any, dst: Any = None, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False, group_dst: Any = None) -> Any:
        g = of(group)
        root = g.ranks[group_dst] if group_dst is not None else dst
        got = job.meet("reduce", g, tensor.detach(), (described(tensor), root, str(op)))
        if got and root == me():
            with torch.no_grad():
                tensor.copy_(_reduced(got, op))
        return work(async_op)

    def all_gather(tensors: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        got = job.meet("all_gather", of(group), tensor.detach(), (len(tensors),))
        for out, one in zip(tensors, got, strict=False):
            out.resize_(one.shape).copy_(one)
        return work(async_op)

    def all_gather_into_tensor(out: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        got = job.meet("all_gather_into_tensor", of(group), tensor.detach(), (described(tensor), described(out)))
        if got:
            out.copy_(torch.cat([one.reshape(-1) for one in got]).reshape(out.shape))
        return work(async_op)

    def reduce_scatter(out: Any, tensors: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        g = of(group)
        got = job.meet("reduce_scatter", g, list(tensors), (described(out), str(op)))
        if got:
            out.copy_(_reduced([one[g.rank()] for one in got], op))
        return work(async_op)

    def reduce_scatter_tensor(out: Any, tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        g = of(group)
        got = job.meet("reduce_scatter_tensor", g, tensor.detach(), (described(out), described(tensor)))
        if got:
            out.copy_(_reduced([one.reshape(-1).chunk(g.size())[g.rank()].reshape(out.shape) for one in got], op))
        return work(async_op)

    def gather(tensor: Any, gather_list: Any = None, dst: Any = None, group: Any = None, async_op: bool = False, group_dst: Any = None) -> Any:
        g = of(group)
        root = g.ranks[group_dst] if group_dst is not None else dst or 0
        got = job.meet("gather", g, tensor.detach(), (described(tensor), root))
        for out, one in zip(gather_list or (), got, strict=False):
            out.copy_(one)
        return work(async_op)

    def scatter(tensor: Any, scatter_list: Any = None, src: Any = None, group: Any = None, async_op: bool = False, group_src: Any = None) -> Any:
        g = of(group)
        root = g.ranks[group_src] if group_src is not None else src or 0
        got = job.meet("scatter", g, list(scatter_list or ()), (described(tensor), root))
        if got:
            tensor.copy_(got[g.ranks.index(root)][g.rank()])
        return work(async_op)

    def all_to_all(outs: Any, ins: Any, group: Any = None, async_op: bool = False) -> Any:
        g = of(group)
        got = job.meet("all_to_all", g, list(ins), ())
        for out, one in zip(outs, got, strict=False):
            out.copy_(one[g.rank()])
        return work(async_op)

    def all_to_all_single(out: Any, tensor: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None, async_op: bool = False) -> Any:
        g = of(group)
        parts = list(tensor.split(input_split_sizes) if input_split_sizes else tensor.chunk(g.size()))
        got = job.meet("all_to_all_single", g, parts, ())
        if got:
            out.copy_(torch.cat([one[g.rank()] for one in got]))
        return work(async_op)

    def barrier(group: Any = None, async_op: bool = False, **_: Any) -> Any:
        job.meet("barrier", of(group), None, ())
        return work(async_op)

    def monitored_barrier(group: Any = None, *_: Any, **__: Any) -> None:
        job.meet("monitored_barrier", of(group), None, ())

    def all_gather_object(objects: Any, obj: Any, group: Any = None) -> None:
        got = job.meet("all_gather_object", of(group), obj, ())
        if got:
            objects[:] = got

    def broadcast_object_list(objects: Any, src: Any = None, group: Any = None, device: Any = None, group_src: Any = None) -> None:
        g = of(group)
        root = g.ranks[group_src] if group_src is not None else src or 0
        got = job.meet("broadcast_object_list", g, list(objects), (len(objects), root))
        if got:
            objects[:] = got[g.ranks.index(root)]

    def gather_object(obj: Any, object_gather_list: Any = None, dst: Any = None, group: Any = None, group_dst: Any = None) -> None:
        g = of(group)
        root = g.ranks[group_dst] if group_dst is not None else dst or 0
        got = job.meet("gather_object", g, obj, (root,))
        if object_gather_list is not None and got:
            object_gather_list[:] = got

    def new_group(ranks: Any = None, *_: Any, **__: Any) -> Any:
        with job.condition:
            mine = job.made[me()]
            group = Group(tuple(sorted(ranks)) if ranks is not None else job.everyone.ranks, f"{len(mine)}")
            mine.append(group)
        return group if me() in group.ranks else dist.GroupMember.NON_GROUP_MEMBER

    def no(name: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> None:
            raise NotSupported(name)

        return refuse

    table: dict[str, Callable[..., Any]] = {
        one.__name__: one
        for one in (
            all_reduce, broadcast, reduce, all_gather, all_gather_into_tensor, reduce_scatter,
            reduce_scatter_tensor, gather, scatter, all_to_all, all_to_all_single, barrier,
            monitored_barrier, all_gather_object, broadcast_object_list, gather_object, new_group,
        )
    }  # fmt: skip
    table |= {name: no(name) for name in (
        "send", "recv", "isend", "irecv", "batch_isend_irecv", "new_subgroups", "split_group",
        "send_object_list", "recv_object_list", "new_subgroups_by_enumeration",
    )}  # fmt: skip
    table["get_rank"] = lambda group=None: of(group).rank() if me() in of(group).ranks else -1
    table["get_world_size"] = lambda group=None: of(group).size()
    table["get_process_group_ranks"] = lambda group=None: list(of(group).ranks)
    table["get_group_rank"] = lambda group, rank: of(group).ranks.index(rank)
    table["get_global_rank"] = lambda group, rank: of(group).ranks[rank]
    table["is_initialized"] = lambda: True
    table["destroy_process_group"] = lambda *_: None
    table["get_backend"] = lambda *_: "gloo"
    return table


def run(path: Path, world: int, limit: float = 20) -> Job:
    """Run a script on threads; ``unsupported`` says why that cannot be done."""
    text = path.read_text()
    code = compile(text, str(path), "exec")
    own = {str(path), *(str(one) for one in (ZOO / "comm.py", ZOO / "protocol.py", ZOO / "server.py"))}
    job = Job(world, own.__contains__)

    def traced(rank: int) -> Callable[[FrameType, str, Any], Any]:
        events = job.events[rank]

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            if frame.f_code.co_filename not in own:
                return trace if event == "call" else None
            if event == "line":
                depth, outer = 0, frame.f_back
                while outer is not None:
                    depth += outer.f_code.co_filename in own
                    outer = outer.f_back
                events.append((depth, frame.f_code.co_qualname, frame.f_lineno))
            return trace

        return trace

    def body(rank: int) -> None:
        _local.rank = rank
        one = job.runs[rank]
        try:
            sys.settrace(traced(rank))
            exec(code, {"__name__": "__main__", "__file__": str(path)})
        except Stopped:
            pass
        except SystemExit:
            pass
        except NotSupported as error:
            job.unsupported = f"{error}"
        except BaseException as error:
            sys.settrace(None)
            one.raised = tuple(reversed(list(_frames(error, own))))
            innermost = error.__traceback__
            while innermost is not None and innermost.tb_next is not None:
                innermost = innermost.tb_next
            file = innermost.tb_frame.f_code.co_filename if innermost is not None else ""
            if f"torch{'/'}distributed" in file or file.endswith("together.py"):
                job.unsupported = f"{type(error).__name__}: {error}"
        finally:
            sys.settrace(None)
            with job.condition:
                job.ended.add(rank)
                job.condition.notify_all()

    with contextlib.ExitStack() as stack:
        for name, function in stand_ins(job).items():
            stack.enter_context(mock.patch.object(dist, name, function))
        stack.enter_context(mock.patch.object(tests.zoo.common, "init", lambda *_: me()))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        threads = [threading.Thread(target=body, args=(rank,), daemon=True) for rank in range(world)]
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


def _frames(error: BaseException, own: set[str]) -> Iterator[Any]:
    from collectrace.align.code.files import Frame

    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename in own:
            yield Frame(code.co_filename, traceback.tb_lineno, code.co_qualname, code.co_firstlineno)
        traceback = traceback.tb_next


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
                if len({one.calls[n] if n < len(one.calls) else (one.rank, one.raised) for one in pair}) > 1
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
        i = j = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
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
            before = [event for event in common if event[0] == depth]
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
