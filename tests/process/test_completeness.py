"""Every collective that torch has is called for real, and must be in the files of its ranks.

What torch has is asked of torch: a function that is new in it fails here until it has a row.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.distributed.nn.functional as nf
from torch.distributed import distributed_c10d as c10d

from collectrace.ops import POINT_TO_POINT, canonical_op
from collectrace.records import Call, Done
from collectrace.signature import EMPTY, PRIME, stretch
from collectrace.tracer.tap import wire
from collectrace.tracer.tap.arguments import OPERATORS
from tests.support import (
    op_rows_c10d,
    op_rows_functional,
    op_rows_group,
    rank_file_checks,
)  # fmt: skip
from tests.support.op_table import (
    IS_OLDER,
    IS_OTHER,
    TURNED,
    WORLD,
    Row,
    View,
    between_marks,
    mismatch,
    walk,
    walk_untold,
)
from tests.support.real_ranks import Ran, Ranks
from tests.zoo.runner import Server

GROUPS: Final = (WORLD, TURNED)
TABLES: Final[dict[str, Any]] = {
    "c10d": op_rows_c10d,
    "functional": op_rows_functional,
    "group": op_rows_group,
}
CASES: Final = [
    pytest.param(name, number, id=f"{name}-{number}-{row.name}")
    for name, module in TABLES.items()
    for number, row in enumerate(module.ROWS)
]


@dataclass(frozen=True)
class Walk:
    """One walk of all ranks through one table."""

    ran: Ran
    raised: list[dict[str, str]]
    calls: list[list[list[Call]]]
    """Per rank, row and group."""


Walked = Callable[..., Walk]


@pytest.fixture(scope="module")
def walked(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Walked:
    @cache
    def run(name: str, trace: bool) -> Walk | BaseException:
        try:
            ran = Ranks(server, tmp_path_factory.mktemp(name)).run(
                walk, len(WORLD), TABLES[name].__name__, limit=100, trace=trace
            )
            calls = [between_marks(ran.calls(rank)) for rank in WORLD] if trace else []
            return Walk(ran, [ran.result(rank) for rank in WORLD], calls)
        except BaseException as problem:  # noqa: BLE001 - once, not once per row
            return problem

    def get(name: str, *, trace: bool = True) -> Walk:
        found = run(name, trace)
        if isinstance(found, BaseException):
            raise found
        return found

    return get


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_call_is_recorded_as_it_was_made(walked: Walked, name: str, number: int) -> None:
    row: Row = TABLES[name].ROWS[number]
    done = walked(name)
    for ordinal, members in enumerate(GROUPS):
        for rank in members if row.on(members) else ():
            raised = done.raised[rank].get(f"{number}/{ordinal}")
            calls = done.calls[rank][number * len(GROUPS) + ordinal]
            expected = row.expect(View(members, rank))
            ops = [canonical_op(c.op) for c in calls]
            assert ops == [canonical_op(e["op"]) for e in expected], calls
            for call, wanted in zip(calls, expected, strict=True):
                assert mismatch(call, wanted) == {}
                assert call.site in row.site
            if raised is not None and IS_OTHER:
                bare = walked(name, trace=False).raised[rank]
                assert bare.get(f"{number}/{ordinal}") == raised, "raised only where it is traced"
                pytest.skip(f"recorded, but this torch cannot do it: {raised}")
            assert raised is None


@pytest.mark.parametrize("name", TABLES)
def test_streams_are_numbered_without_gaps_and_ranks_agree(walked: Walked, name: str) -> None:
    ran = walked(name).ran
    ends: dict[str, set[Any]] = defaultdict(set)
    for rank in WORLD:
        streams: dict[Any, list[Call]] = defaultdict(list)
        refused = [(d.group, d.seq) for d in ran.log(rank).of(Done) if d.refused]
        assert IS_OTHER or not refused
        for call in ran.calls(rank):
            if (call.group, call.seq) in refused:
                refused.remove((call.group, call.seq))  # its number is the next call's
                continue
            is_message = call.op in POINT_TO_POINT
            key = (call.op, call.peer, call.tag) if is_message else ()
            streams[call.group, call.device, key].append(call)
        for (group, _, key), calls in streams.items():
            assert [c.seq for c in calls] == list(range(1, len(calls) + 1))
            if not key:
                ends[group].add((calls[-1].seq, calls[-1].digest, calls[-1].program))
                assert calls[0].digest != EMPTY
                # Each link of the chain is a residue, never the absence of a signature.
                assert all(
                    0 < stretch(a.digest or 0, b.digest or 0, 1) < PRIME for a, b in pairwise(calls)
                )
    assert {group: len(found) for group, found in ends.items()} == dict.fromkeys(ends, 1)
    assert len(ends) == len(GROUPS)


@pytest.mark.parametrize("name", TABLES)
def test_every_call_has_the_stack_of_its_line(walked: Walked, name: str) -> None:
    for log in walked(name).ran.files:
        file = rank_file_checks.read(log.path)
        assert all(call.stack for call in file.calls)
        rank_file_checks.check_stacks(file)


@pytest.mark.parametrize("name", TABLES)
def test_pairs_of_an_all_to_all_sum_to_zero(walked: Walked, name: str) -> None:
    ran = walked(name).ran
    last: dict[tuple[str, int], list[int]] = defaultdict(list)
    for rank in WORLD:
        for call in ran.calls(rank):
            if call.pairs is not None:
                last[call.group, call.seq].append(call.pairs)
    assert last
    assert {sum(pairs) % PRIME for pairs in last.values()} == {0}


@pytest.mark.skipif(IS_OLDER, reason="there it is what the tests above show")
@pytest.mark.parametrize("name", TABLES)
def test_what_operators_do_not_tell_is_learnt_from_who_calls_them(
    walked: Walked, server: Server, tmp_path: Path, name: str
) -> None:
    """As an older torch needs it, on this one: line by line the same."""
    told = walked(name).ran
    untold = Ranks(server, tmp_path).run(
        walk_untold, len(WORLD), TABLES[name].__name__, limit=100, trace=False, init=False
    )
    for rank in WORLD:
        pairs = zip(told.calls(rank), untold.calls(rank), strict=True)
        assert [(a, b) for a, b in pairs if replace(a, t=0) != replace(b, t=0)] == []


# -- what torch has --------------------------------------------------------------------------

TENSORS_OR_GROUP: Final = re.compile(r"tensor|input|output|self|obj|group|op_list|pg|ranks")

NO_COLLECTIVE: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("get_backend", "get_backend_config", "get_rank", "get_world_size", "get_global_rank",
         "get_group_rank", "get_process_group_ranks"),
        "asks what this process knows",
    ),
    **dict.fromkeys(
        ("init_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration",
         "destroy_process_group", "split_group", "shrink_group"),
        "makes or destroys a group, which has records of its own",
    ),
    "fc.wait_tensor": "waits for what another function issued",
}  # fmt: skip
"""Functions with tensors or a group among their parameters that issue nothing."""

NEWER: Final = {"get_backend_impl", "set_timeout", "fc.wait_tensors"}
"""The same, of torch 2.15."""


def functions_of(module: ModuleType, prefix: str) -> Iterator[str]:
    """Public functions of a module that could be collectives, by their parameters."""
    home = c10d.__name__ if prefix == "" else module.__name__
    for name, value in vars(module).items():
        # By type: asking isinstance() of the deprecated `reduce_op` warns.
        if type(value) is not FunctionType or name.startswith("_") or value.__module__ != home:
            continue
        parameters = list(inspect.signature(value).parameters)
        # The halves of an autograd function; what they issue is a row's backward.
        if parameters[:1] != ["ctx"] and any(TENSORS_OR_GROUP.search(p) for p in parameters):
            yield prefix + name


def test_every_function_of_torch_has_a_row() -> None:
    torch_has = {
        *functions_of(dist, ""), *functions_of(c10d, ""),
        *functions_of(fc, "fc."), *functions_of(nf, "nf."),
    }  # fmt: skip
    called = {row.name for row in (*op_rows_c10d.ROWS, *op_rows_functional.ROWS)}
    assert torch_has - called - set(NO_COLLECTIVE) - NEWER == set()
    assert IS_OLDER or set(NO_COLLECTIVE) <= torch_has, "an exclusion that torch no longer has"
    assert set(NO_COLLECTIVE) & called == set()


def test_no_public_collective_of_torch_escapes_the_test_above() -> None:
    known = {*functions_of(dist, ""), *functions_of(c10d, "")}
    elsewhere = {
        name
        for name, value in vars(dist).items()
        if type(value) in (FunctionType, BuiltinFunctionType)
        and not name.startswith("_")
        and name not in known
        and "tensor" in (value.__doc__ or "").lower()
    }
    assert elsewhere - {"record_comm"} == set(), "that one names what a profiler sees"


def test_every_method_of_a_group_has_a_row() -> None:
    has = {
        name
        for name, method in vars(dist.ProcessGroup).items()
        if callable(method) and re.search(r"torch\.Tensor|Blocks until", method.__doc__ or "")
    }
    # torch 2.15: a window is made by messages through its store.
    assert has - {"new_window"} == {row.name for row in op_rows_group.ROWS}


def test_every_operator_of_the_dispatcher_is_described() -> None:
    names = Counter(
        schema.name.removeprefix("c10d::")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("c10d::")
    )
    known = OPERATORS.keys() | wire._IGNORED
    # Of other torches than the one that the table was written for it has rows besides.
    assert set(names) == {name for name in known if hasattr(torch.ops.c10d, name)}
    assert set(names.values()) == {1}, "an overload, which the tap leaves out"
