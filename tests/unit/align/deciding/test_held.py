"""Which recorded values count for a decision, and what they say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.code.files import Files, Frame, Function
from collectrace.align.code.lasting import Lasting
from collectrace.align.code.places import Site
from collectrace.align.code.program import Program as Code
from collectrace.align.deciding.held import Held
from collectrace.findings import Decision
from collectrace.records import STALLED, FrameValues, Values
from tests.unit.align.code.standin import Texts
from tests.unit.align.deciding.program import Program

LINES = """\
class Trainer:
    def __init__(self):
        self.fixed = 1
        self.loss = 0

    def refresh(self):
        self.loss = 2

    def step(self, loss, batches):
        finite = loss.isfinite()
        for batch in batches:
            if finite and self.fixed and self.loss and limit:  # DECIDES
                reduce(batch)  # INSIDE
            batch = None
            loss = 1  # BOUND
        log(loss)  # LOGS
        self.refresh()
        last()  # LAST

limit = 3
"""


def lasting() -> Lasting:
    program = Code(Files(Texts(train=LINES)))
    number = line("DECIDES")
    function = program.files.function(0, Frame("train", number, "Trainer.step"))
    assert isinstance(function, Function)
    return Lasting(program, function, Site("train", number))


def line(mark: str) -> int:
    [found] = [n for n, one in enumerate(LINES.splitlines(), 1) if one.endswith(f"# {mark}")]
    return found


def test_the_names_of_a_statement_and_of_what_they_were_computed_from() -> None:
    assert lasting().names() == ["finite", "self.fixed", "self", "self.loss", "limit", "loss"]


@pytest.mark.parametrize(
    ("name", "mark", "expected"),
    [
        ("finite", "INSIDE", True),
        ("loss", "INSIDE", True),
        ("loss", "LOGS", False),  # it was bound in between
        ("finite", "LAST", True),
        ("self.fixed", "LAST", True),  # only __init__ sets it
        ("self.loss", "INSIDE", True),
        ("self.loss", "LAST", False),  # refresh() sets it, and was called
        ("limit", "LAST", True),
        ("batch", "BOUND", False),
    ],
)
def test_how_long_a_name_lasts(name: str, mark: str, *, expected: bool) -> None:
    assert lasting().lasts(name, line(mark), None) is expected


def tensor(**more: Any) -> dict[str, Any]:
    return {"type": "Tensor", "dtype": "float32", "shape": [2]} | more


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (1, 1, "equal"),
        (1, 2, "confirmed"),
        (None, 1, "confirmed"),
        (True, False, "confirmed"),
        (tensor(value=1.0), tensor(value="nan"), "confirmed"),
        (tensor(), tensor(shape=[3]), "confirmed"),
        (tensor(), tensor(), None),  # what is in them is not known
        ({"type": "list", "len": 3}, {"type": "list", "len": 4}, "confirmed"),
        ({"type": "list", "len": 3}, {"type": "list", "len": 3}, None),
        ({"type": "str", "len": 3, "hash": 7}, {"type": "str", "len": 3, "hash": 7}, "equal"),
        ({"type": "str", "len": 3, "hash": 7}, {"type": "str", "len": 3, "hash": 8}, "confirmed"),
        ({"type": "Trainer"}, {"type": "Trainer"}, None),
        ({"type": "Trainer"}, {"type": "Other"}, "confirmed"),
    ],
)
def test_what_two_values_say(one: object, two: object, expected: str | None) -> None:
    assert Held(({"name": one}, {"name": two})).strength == expected


def test_equal_names_say_nothing_of_what_a_call_returns() -> None:
    assert Held(({"name": 1}, {"name": 1}), is_of_names=False).strength is None
    assert Held(({"name": 1}, {"name": 2}), is_of_names=False).strength == "confirmed"
    assert lasting().is_of_names()
    program = Code(Files(Texts(train="if get_rank() == 0 or everywhere:\n    reduce()\n")))
    function = program.files.function(0, Frame("train", 1, "<module>"))
    assert isinstance(function, Function)
    assert not Lasting(program, function, Site("train", 1)).is_of_names()


def test_what_is_known_of_one_rank_alone_says_nothing() -> None:
    assert Held(({"name": 1}, {})).strength is None
    assert Held(({"name": 1, "other": 2}, {"name": 1})).strength is None
    assert Held(({"name": 1}, {"name": 1}), later=("other",)).strength is None


TRAIN = """\
import torch.distributed as dist

def step(loss, count):
    if loss.isfinite():  # DECIDES
        dist.all_reduce(loss)  # SECOND
    dist.barrier()  # THIRD

step(loss, count)  # MAIN
"""


def decided(folder: Path, values: tuple[dict[str, Any], dict[str, Any]], **fields: Any) -> Decision:
    """The decision of a run whose ranks hang in ``step``, with what it held there."""
    program = Program(folder, TRAIN)
    for rank, (op, mark) in enumerate([("all_reduce", "SECOND"), ("barrier", "THIRD")]):
        one = program.run.rank(rank)
        call = program.call(rank, op, (mark, "step"), ("MAIN", "<module>"))
        one.stall(one.inside(call))
        functions = [
            FrameValues(frame=program.frame(*at), first_line=first, values=held, **fields)
            for at, first, held in (
                ((mark, "step"), 3, values[rank]),
                (("MAIN", "<module>"), 1, {}),
            )
        ]
        one.record(Values(reason=STALLED, thread="MainThread", functions=functions))
        one.stuck_in(call)
    [found] = program.decisions()
    return found


AGAIN = """\
import torch.distributed as dist

def step(loss):
    dist.all_reduce(loss)  # FIRST
    if loss.isfinite():  # DECIDES
        dist.broadcast(x, 0)  # SECOND

for loss in losses:
    step(loss)  # MAIN
"""


FORWARD = """\
import torch.distributed as dist

def step(rank, loss):
    dist.all_reduce(loss)  # FIRST
    if rank == 0:  # DECIDES
        model(loss)  # SECOND
    dist.barrier()  # THIRD

step(dist.get_rank(), loss)  # MAIN
"""


def test_values_of_a_later_iteration_do_not_count(tmp_path: Path) -> None:
    program = Program(tmp_path, AGAIN)
    main = ("MAIN", "<module>")
    for rank in 0, 1:
        program.call(rank, "all_reduce", ("FIRST", "step"), main)
    for rank in 0, 1:
        one = program.run.rank(rank)
        if rank == 0:
            call = program.call(rank, "broadcast", ("SECOND", "step"), main)
        # Rank 1 has gone on, and is at the line of its next call once more.
        for _ in range(3 * rank):
            call = program.call(rank, "all_reduce", ("FIRST", "step"), main)
        mark = "FIRST" if rank else "SECOND"
        functions = [
            FrameValues(frame=program.frame(mark, "step"), first_line=3, values={"loss": rank}),
            FrameValues(frame=program.frame(*main), first_line=1),
        ]
        one.stall(one.inside(call))
        one.record(Values(reason=STALLED, thread="MainThread", functions=functions))
        one.stuck_in(call)
    [found] = program.decisions()
    assert found.text == "if loss.isfinite():  # DECIDES"
    assert {side.rank: side.values for side in found.sides} == {0: {"loss": 0}, 1: None}
    assert found.read_later is None


@pytest.mark.parametrize(("iterations", "known"), [((2, 2), {"rank": 0}), ((2, 3), None)])
def test_values_read_after_several_calls_of_one_forward_count(
    iterations: tuple[int, int], known: dict[str, int] | None, tmp_path: Path
) -> None:
    program = Program(tmp_path, FORWARD)
    main = ("MAIN", "<module>")
    for rank in 0, 1:
        program.call(rank, "all_reduce", ("FIRST", "step"), main, iteration=1)
    for iteration in iterations:
        role = "ddp.forward.sync_buffers"
        call = program.call(0, "broadcast", ("SECOND", "step"), main, iteration=iteration,
                            role=role, root=0)  # fmt: skip
    calls = call, program.call(1, "barrier", ("THIRD", "step"), main, iteration=1)
    for one, call, mark in zip(program.run, calls, ("SECOND", "THIRD"), strict=True):
        functions = [
            FrameValues(frame=program.frame(mark, "step"), first_line=3, values={"rank": one.rank}),
            FrameValues(frame=program.frame(*main), first_line=1),
        ]
        one.stall(one.inside(call))
        one.record(Values(reason=STALLED, thread="MainThread", functions=functions))
        one.stuck_in(call)
    found = next(one for one in program.decisions() if one.text.endswith("DECIDES"))
    assert {side.rank: side.values for side in found.sides}[0] == known


def test_values_of_both_ranks_confirm_it(tmp_path: Path) -> None:
    found = decided(tmp_path, ({"loss": 1.0}, {"loss": {"type": "float", "value": "nan"}}))
    assert found.strength == "confirmed"
    assert [side.values for side in found.sides] == [
        {"loss": 1.0},
        {"loss": {"type": "float", "value": "nan"}},
    ]
    assert found.read_later is None


def test_equal_values_drop_nothing(tmp_path: Path) -> None:
    found = decided(tmp_path, ({"loss": 1.0}, {"loss": 1.0}))
    assert found.strength == "only"
    assert [side.values for side in found.sides] == [{"loss": 1.0}] * 2


def test_what_a_pending_call_writes_is_read_later(tmp_path: Path) -> None:
    values = tensor(value=1.0, unsettled=True), tensor(value=1.0)
    found = decided(tmp_path, ({"loss": values[0]}, {"loss": values[1]}))
    assert found.strength == "only"
    assert [side.values for side in found.sides] == [
        {"loss": tensor(unsettled=True)},  # what the call leaves as it is
        {"loss": tensor(value=1.0)},
    ]


def test_a_function_that_ran_on_while_it_was_read_tells_nothing(tmp_path: Path) -> None:
    found = decided(tmp_path, ({"loss": 1.0}, {"loss": 2.0}), moved=True)
    assert found.strength == "only"
    assert [side.values for side in found.sides] == [None, None]


def test_values_of_a_module_count(tmp_path: Path) -> None:
    text = "if ready:\n    dist.all_reduce(x)  # SECOND\ndist.barrier()  # LAST\n"
    program = Program(tmp_path, text)
    for rank, (op, mark) in enumerate([("all_reduce", "SECOND"), ("barrier", "LAST")]):
        one = program.run.rank(rank)
        call = program.call(rank, op, (mark, "<module>"))
        one.stall(one.inside(call))
        function = FrameValues(
            frame=program.frame(mark, "<module>"), first_line=1, values={"ready": not rank}
        )
        one.record(Values(reason=STALLED, thread="MainThread", functions=[function]))
        one.stuck_in(call)
    [found] = program.decisions()
    assert found.strength == "confirmed"
    assert [side.values for side in found.sides] == [{"ready": True}, {"ready": False}]


LOOP = """\
import torch.distributed as dist

records = load()
for text in records:
    try:
        count = parse(text)
        dist.all_reduce(count)  # REDUCE
    except ValueError:  # HANDLER
        continue
dist.barrier()  # LAST
"""


@pytest.mark.parametrize(("lengths", "expected"), [((9, 9), "equal"), ((8, 9), "confirmed")])
def test_of_a_loop_the_number_of_iterations_counts(
    lengths: tuple[int, int], expected: str, tmp_path: Path
) -> None:
    program = Program(tmp_path, LOOP)
    for rank in 0, 1:
        program.call(rank, "all_reduce", ("REDUCE", "<module>"))
    for rank, (op, mark) in enumerate([("barrier", "LAST"), ("all_reduce", "REDUCE")]):
        one = program.run.rank(rank)
        call = program.call(rank, op, (mark, "<module>"))
        one.stall(one.inside(call))
        values = {"records": {"type": "list", "len": lengths[rank]}, "text": {"type": "str"}}
        function = FrameValues(frame=program.frame(mark, "<module>"), first_line=1, values=values)
        one.record(Values(reason=STALLED, thread="MainThread", functions=[function]))
        one.stuck_in(call)
    loop, handler = program.decisions()
    assert (loop.text, loop.strength) == ("for text in records:", expected)
    assert handler.text == "except ValueError:  # HANDLER"


def test_names_that_do_not_matter_are_left_out(tmp_path: Path) -> None:
    found = decided(tmp_path, ({"loss": 1.0, "count": 1}, {"loss": 1.0, "count": 2}))
    assert [side.values for side in found.sides] == [{"loss": 1.0}] * 2
