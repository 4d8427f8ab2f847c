"""Exceptions and names that cannot be read: the program notices nothing, and the record has them.

What a rank does here it does untraced as well: its output and its status must not differ.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from collectrace.align.alignment import align
from collectrace.records import OTHER_THREAD, THREAD, Done, Exit, Raised
from collectrace.tracer.user_objects import type_name
from tests.process.test_python_groups import Through
from tests.support import hostile
from tests.support.real_ranks import Ran, Ranks


def same(ranks: Ranks, function: Callable[..., Any], *args: Any, code: int) -> Ran:
    """What a rank left that was traced, and ended as it does untraced."""
    untraced = ranks.run(function, 1, *args, trace=False, exits=(code,))
    traced = ranks.run(function, 1, *args, exits=(code,))
    assert said(traced) == said(untraced)
    if code == 0:
        assert traced.result() == untraced.result()
    return traced


def said(ran: Ran) -> list[str]:
    """What a rank printed, but for the tracer's own lines and the frames of its wrappers."""
    lines = ran.output().splitlines()
    return [line for line in lines if "collectrace" not in line and "Error" in line]


# -- in the main thread ----------------------------------------------------------------------


def raises(kind: str) -> NoReturn:
    dist.all_reduce(torch.ones(1))
    raise hostile.of(kind)


@pytest.mark.parametrize(
    "kind",
    [
        # test_exceptions_that_end_threads has all of them, in one process.
        pytest.param(kind, marks=() if kind in ("Raises", "NoName") else pytest.mark.slow)
        for kind in hostile.KINDS
    ],
)
def test_an_exception_that_ends_the_process(kind: str, ranks: Ranks) -> None:
    ran = same(ranks, raises, kind, code=1)
    last = ran.log().exit
    assert last is not None
    assert (last.reason, last.error, last.failures) == ("exception", kind, 0)
    assert (last.site or "").startswith(f"{__file__}:")
    assert len(last.message or "") <= 2000
    rank = align(ran.logs).ranks[0]
    assert rank.state == "raised"
    assert rank.detail.startswith(kind)


# -- in threads ------------------------------------------------------------------------------


def raises_in_threads(*kinds: str) -> None:
    def work(kind: str, *, calls: bool) -> None:
        if calls:
            dist.all_reduce(torch.ones(1))
        raise hostile.of(kind)

    for calls in (True, False):
        for kind in kinds:
            thread = hostile.Worker(target=work, args=(kind,), kwargs={"calls": calls})
            thread.start()
            thread.join()


def test_exceptions_that_end_threads(ranks: Ranks) -> None:
    kinds = list(hostile.KINDS)
    ran = same(ranks, raises_in_threads, *kinds, code=0)
    log = ran.log()
    found = [(raised.what, raised.error) for raised in log.of(Raised)]
    assert found == [(what, kind) for what in (THREAD, OTHER_THREAD) for kind in kinds]
    assert {raised.thread for raised in log.of(Raised)} == {"Worker"}
    assert {call.thread for call in log.calls} == {"Worker"}
    # Of a thread that issued calls the process is known by.
    assert [(e.reason, e.error, e.failures) for e in log.of(Exit)] == [("exception", kinds[-1], 0)]


# -- around collectives ----------------------------------------------------------------------


class Failing(Through):
    """A group written in Python that fails, and has no name."""

    kind = ""

    def allreduce(self, *_: Any, **__: Any) -> NoReturn:
        raise hostile.of(self.kind)

    @property
    def group_desc(self) -> NoReturn:
        raise ValueError("no description")

    @property
    def group_name(self) -> NoReturn:
        raise ValueError("no name")


class Unpicklable:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __reduce__(self) -> NoReturn:
        raise hostile.of(self.kind)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.kind = ""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind:
            raise hostile.of(self.kind)
        out: torch.Tensor = self.layer(x)
        return out


def left(act: Callable[[], object]) -> str:
    """The type of what leaves a collective: torch takes the text itself, and may raise another."""
    try:
        act()
    except BaseException as problem:  # noqa: BLE001 - SystemExit too
        kept.append(problem)  # what is raised next must not be taken for it
        return type_name(problem)
    return ""


kept: list[BaseException] = []


def calls_while_handling(kind: str) -> NoReturn:
    try:
        raise hostile.of(kind)
    finally:
        dist.barrier()


def fails_in_collectives(*kinds: str) -> list[tuple[str, str]]:
    """What each kind comes to that leaves a collective, or is handled while one is issued."""
    world = dist.group.WORLD
    assert world is not None
    group = Failing(world)
    found = []
    for kind in kinds:
        Failing.kind = kind
        found.append(("allreduce", left(lambda: group.allreduce([torch.ones(1)]))))
        thing = Unpicklable(kind)
        outcome = left(lambda thing=thing: dist.all_gather_object([None], thing))  # type: ignore[misc]
        found.append(("all_gather_object", outcome))
        found.append(("handled", left(lambda kind=kind: calls_while_handling(kind))))  # type: ignore[misc]
    return found


def test_exceptions_that_leave_collectives(ranks: Ranks) -> None:
    kinds = [kind for kind in hostile.KINDS if kind != "Long"]
    ran = same(ranks, fails_in_collectives, *kinds, code=0)
    log = ran.log()
    found = [tuple(one) for one in ran.result()]
    failed = [done for done in log.of(Done) if done.failed]
    assert [(done.error or "").partition(":")[0] for done in failed] == kinds
    raised = [(one.what, one.error) for one in log.of(Raised)]
    assert raised == [one for one in found if one[0] != "allreduce"]
    assert [(e.reason, e.failures) for e in log.of(Exit)] == [("finished", 0)]


def fails_in_join(kind: str) -> None:
    model = DistributedDataParallel(inner := Model())
    with model.join():
        model(torch.ones(1, 1)).sum().backward()
        inner.kind = kind
        model(torch.ones(1, 1))


@pytest.mark.parametrize("kind", ["Raises", "Exits", "NoName"])
def test_an_exception_that_leaves_join(kind: str, ranks: Ranks) -> None:
    log = same(ranks, fails_in_join, kind, code=1).log()
    assert [(raised.what, raised.error) for raised in log.of(Raised)] == [("forward", kind)]
    assert [(e.reason, e.error, e.failures) for e in log.of(Exit)] == [("exception", kind, 0)]


# -- elsewhere -------------------------------------------------------------------------------


class Deleted:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __del__(self) -> None:
        raise hostile.of(self.kind)


def raises_unraisably(*kinds: str) -> None:
    """Exceptions that nobody can catch change nothing, and are no end of the rank."""
    sys.unraisablehook = lambda args: print(f"Error of type {type_name(args.exc_value)}")
    for kind in kinds:
        Deleted(kind)
        dist.all_reduce(torch.ones(1))
    sys.argv = ["train.py", hostile.Odd(), "x" * 100_000, "--lr"] * 100  # type: ignore[list-item]


def test_exceptions_that_nobody_can_catch(ranks: Ranks) -> None:
    ran = same(ranks, raises_unraisably, *hostile.KINDS, code=0)
    log = ran.log()
    assert [call.op for call in log.calls] == ["all_reduce"] * len(hostile.KINDS)
    last = log.exit
    assert last is not None
    assert (last.reason, last.error, last.failures) == ("finished", None, 0)


ODD_COMMAND_LINE = """
import sys, torch, torch.distributed as dist
import collectrace
from tests.support import hostile
sys.argv += [hostile.Odd(), "x" * 10_000, hostile.Text("odd"), *["y" * 1000] * 100]
collectrace.enable()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
sys.argv = None
sys.exit(hostile.Odd())
"""


def test_a_command_line_of_other_things_than_strings(ranks: Ranks) -> None:
    ran = ranks.script(ODD_COMMAND_LINE, exits=1)
    [log] = ran.files
    argv = log.header.argv
    assert argv[:2] == ["script.py", "<Odd without a text>"]
    assert argv[3] == "odd"
    assert argv[-1] == "..."
    assert sum(map(len, argv)) < 70_000
    assert log.exit is not None
    assert (log.exit.code, log.exit.message) == (1, "<Odd without a text>")
