"""What a row of the completeness tables is, and how ranks walk through all of them.

A row calls one function of torch, on one line of its own, and says which records that must leave
on each member. Every row runs twice: on all three ranks, and in a group of two whose group ranks
are not the global ones.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final
from unittest.mock import ANY

import torch
import torch.distributed as dist

import collectrace
from collectrace.ops import canonical_op
from collectrace.records import Call, json_name, to_dict
from collectrace.tracer import torch_api

WORLD: Final = (0, 1, 2)
IS_OLDER: Final = not hasattr(dist, "all_gather_single")
IS_OTHER: Final = IS_OLDER or hasattr(dist, "gather_single")
"""This torch is older than that for which the rows were written, or newer: gloo cannot do all."""

UNSORTED: Final[dict[str, Any]] = (
    {"sort_ranks": False} if "sort_ranks" in inspect.signature(dist.new_group).parameters else {}
)
"""Argument of ``new_group`` that keeps the ranks in their order; an older torch sorts them."""

TURNED: Final = (2, 1) if UNSORTED else (1, 2)
"""Group rank 0 is global rank 2, or 1."""

Expected = dict[str, Any]


@dataclass(frozen=True)
class View:
    """A group as one of its members sees it; ranks are global ones."""

    ranks: tuple[int, ...]
    me: int
    group: Any = None

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def index(self) -> int:
        return self.ranks.index(self.me)

    @property
    def first(self) -> int:
        return self.ranks[0]

    @property
    def last(self) -> int:
        return self.ranks[-1]


@dataclass(frozen=True)
class Row:
    """One way to call one function, and the records of it."""

    name: str
    call: Callable[[View], Any]
    expect: Callable[[View], list[Expected]]
    world_only: bool = False
    """Torch itself cannot do it where group ranks are not global ones."""

    def on(self, members: tuple[int, ...]) -> bool:
        return members == WORLD or not self.world_only

    @property
    def site(self) -> set[str]:
        """The lines of its code, as sites."""
        return lines(self.call.__code__)


def in_this_torch(rows: Iterable[Row], *homes: Any) -> tuple[Row, ...]:
    """The rows whose function one of these modules or classes has: others are of a newer torch."""
    names = [row.name.rpartition(".")[2] for row in rows]
    return tuple(
        row for row, name in zip(rows, names, strict=True) if any(hasattr(h, name) for h in homes)
    )


def lines(code: CodeType) -> set[str]:
    return {f"{code.co_filename}:{line}" for _, _, line in code.co_lines() if line is not None}


def one(op: str, **fields: Any) -> Callable[[View], list[Expected]]:
    """A single record; a function among the fields is given the member's view."""
    return lambda v: [fill(v, op, **fields)]


def fill(view: View, op: str, **fields: Any) -> Expected:
    known = {k: f(view) if callable(f) else f for k, f in fields.items()}
    return {"op": op, "dtype": "float32"} | known


def pair(sends: Expected, receives: Expected) -> Callable[[View], list[Expected]]:
    """The first member sends to the second, one message; others do nothing."""

    def expect(v: View) -> list[Expected]:
        if v.index > 1:
            return []
        to = {"op": "send", "peer": v.ranks[1], "dtype": "float32", "shape": [3], "tag": 0}
        back = {"op": "recv", "peer": v.ranks[0], "dtype": "float32", "shape": [3], "tag": 0}
        return [to | sends] if v.index == 0 else [back | receives]

    return expect


def f32(*shape: int) -> torch.Tensor:
    return torch.ones(shape)


def several(count: int, *shape: int) -> list[torch.Tensor]:
    return [torch.ones(shape) for _ in range(count)]


_IDENTITY: Final = frozenset(
    {"kind", "t", "seq", "group", "device", "site", "stack", "digest", "program", "pairs"}
)
"""Fields that are compared across rows, not by them."""


def mismatch(call: Call, expected: Expected) -> dict[str, tuple[Any, Any]]:
    """Field to (recorded, expected), where they differ; what a row does not name must be absent."""
    found = {k: v for k, v in to_dict(call).items() if k not in _IDENTITY}
    wanted = {json_name(k): v for k, v in ({"role": "user"} | expected).items() if v is not None}
    if wanted.get("api") == call.op:
        del wanted["api"]  # the name of today is that of another torch
    for one in (found, wanted):
        one["op"] = canonical_op(one["op"])
    return {
        key: (found.get(key), wanted.get(key))
        for key in found.keys() | wanted.keys()
        if wanted.get(key) is not ANY and found.get(key) != wanted.get(key)
    }


def views(me: int, groups: Mapping[tuple[int, ...], Any]) -> Iterable[tuple[int, View]]:
    """The groups this rank is in, each with its ordinal."""
    for ordinal, (members, group) in enumerate(groups.items()):
        if me in members:
            yield ordinal, View(members, me, group)


def walk(module: str) -> dict[str, str]:
    """Call every row of a module on every group; what was raised, by ``row/group``."""
    rows: list[Row] = importlib.import_module(module).ROWS
    groups = {
        WORLD: dist.group.WORLD,
        TURNED: dist.new_group(list(TURNED), group_desc="turned", **UNSORTED),
    }
    raised: dict[str, str] = {}
    for number, row in enumerate(rows):
        for ordinal in range(len(groups)):
            mark()
            for mine, view in views(dist.get_rank(), groups):
                if mine != ordinal or not row.on(view.ranks):
                    continue
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", FutureWarning)  # the deprecated names
                        row.call(view)
                except Exception as problem:  # noqa: BLE001 - a row of the report
                    raised[f"{number}/{ordinal}"] = f"{type(problem).__name__}: {problem}"
    mark()
    return raised


def walk_untold(module: str) -> dict[str, str]:
    """The same where operators tell neither their ReduceOp nor whether they are asynchronous.

    That is torch 2.6.
    """
    api: Any = torch_api
    api.tells_reduce_op = lambda: False
    api.tells_async = lambda arguments: "wait_all_ranks" in {a.name for a in arguments}
    collectrace.enable()
    dist.init_process_group("gloo")
    raised = walk(module)
    dist.destroy_process_group()
    return raised


def mark() -> None:
    """Ends one row and begins the next, on every rank."""
    dist.barrier()


def between_marks(calls: list[Call]) -> list[list[Call]]:
    """The calls of each row and group, in the order of ``walk``."""
    marks = lines(mark.__code__)
    found: list[list[Call]] = []
    for call in calls:
        if call.site in marks:
            found.append([])
        elif found:
            found[-1].append(call)
    return found[:-1]
