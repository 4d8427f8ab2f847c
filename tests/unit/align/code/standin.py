"""Run programs on stand-ins for torch.distributed, and note where each call comes from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest import mock

import torch
import torch.distributed as dist

import tests.zoo.common
from collectrace.align.code.between import Finished, Raised, Side
from collectrace.align.code.decide import Answer, decide
from collectrace.align.code.files import Files, Frame
from collectrace.align.code.program import Program, Stack

MOST_FRAMES: Final = 8
"""Of a stack in a record."""

OPS: Final = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter",
    "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier",
    "all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list",
    "monitored_barrier", "send", "recv",
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A call of a collective."""

    op: str
    stack: Stack
    arguments: tuple[object, ...]


@dataclass
class Run:
    """What one rank did."""

    rank: int
    calls: list[Call] = field(default_factory=list)
    raised: Stack | None = None


def user_stack(frame: FrameType | None, is_user: Callable[[str], bool]) -> Stack:
    """The frames of the program, innermost first, as the tracer records them."""
    found = []
    while frame is not None and len(found) < MOST_FRAMES:
        code = frame.f_code
        if is_user(code.co_filename):
            found.append(
                Frame(code.co_filename, frame.f_lineno, code.co_qualname, code.co_firstlineno)
            )
        frame = frame.f_back
    return tuple(found)


def described(value: object) -> object:
    """What ranks must agree in of an argument."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape)
    if isinstance(value, list | tuple):
        return tuple(described(one) for one in value)
    return str(value) if isinstance(value, int | str | dist.ReduceOp.RedOpType) else None


@contextmanager
def recording(run: Run, world: int, is_user: Callable[[str], bool]) -> Iterator[None]:
    """Collectives only note their calls; nothing is exchanged."""

    def stand_in(op: str) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            arguments = tuple(map(described, (*args, *kwargs.values())))
            run.calls.append(Call(op, user_stack(sys._getframe(1), is_user), arguments))

        return call

    with ExitStack() as stack:
        for op in OPS:
            stack.enter_context(mock.patch.object(dist, op, stand_in(op)))
        stack.enter_context(mock.patch.object(dist, "get_rank", lambda *_: run.rank))
        stack.enter_context(mock.patch.object(dist, "get_world_size", lambda *_: world))
        stack.enter_context(mock.patch.object(tests.zoo.common, "init", lambda *_: run.rank))
        yield


def alone(path: str, text: str, rank: int, world: int) -> Run:
    """What a rank of a program does if no collective has a result."""
    run = Run(rank)

    def is_user(file: str) -> bool:
        return file == path

    with recording(run, world, is_user):
        try:
            exec(compile(text, path, "exec"), {"__name__": "__main__", "__file__": path})
        except Exception as error:
            frames = []
            traceback = error.__traceback__
            while traceback is not None:
                code = traceback.tb_frame.f_code
                if is_user(code.co_filename):
                    frames.append(
                        Frame(path, traceback.tb_lineno, code.co_qualname, code.co_firstlineno)
                    )
                traceback = traceback.tb_next
            run.raised = tuple(reversed(frames))
    return run


def difference(runs: Sequence[Run]) -> tuple[Side, Side, bool] | None:
    """The sides of the first call in which two ranks differ, and whether only its arguments do."""
    one, two = runs
    longest = max(len(one.calls), len(two.calls))
    for n in range(longest + 1):
        here = [run.calls[n] if n < len(run.calls) else None for run in runs]
        if here[0] == here[1] and n < longest:
            continue
        if n == longest and one.raised == two.raised:
            return None
        sides = [
            Side(
                run.rank,
                run.calls[n - 1].stack if n else (),
                call.stack if call else Finished() if run.raised is None else Raised(run.raised),
            )
            for run, call in zip(runs, here, strict=True)
        ]
        same = here[0] is not None and here[1] is not None and here[0].stack == here[1].stack
        return sides[0], sides[1], same
    return None


class Texts:
    """The sources of a run, one text for all ranks."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def text(self, rank: int, path: str) -> str | None:
        return self.texts.get(path)


def answer(path: str, text: str, sides: tuple[Side, Side]) -> Answer:
    return decide(Program(Files(Texts(**{path: text}))), *sides)


def marked(text: str, mark: str = "# WAY") -> set[int]:
    return {n for n, line in enumerate(text.split("\n"), 1) if line.endswith(mark) or f"{mark} " in line}
