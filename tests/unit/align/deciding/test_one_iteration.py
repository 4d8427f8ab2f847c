"""What can have decided between two ranks that are in the same iteration of a loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.records import STALLED, FrameValues, Values
from tests.unit.align.deciding.program import Program

TRAIN = """\
import torch.distributed as dist

def gradients(loss):
    if loss.numel():  # EMPTY
        dist.all_to_all_single(loss, loss)  # BACK

def run(steps):
    dist.barrier()  # FIRST
    for step in range(steps):
        gradients(forward())  # BACKWARD
        for parameter in parameters():  # PARAMETERS
            dist.all_reduce(parameter)  # REDUCE

run(2)  # MAIN
"""


def decisions(folder: Path, steps: tuple[object, object]) -> list[str]:
    """The marks of what can have led rank 0 into ``gradients``, and rank 1 behind it."""
    program = Program(folder, TRAIN)
    run, main = program.line("FIRST") - 1, ("MAIN", "<module>")
    for rank in 0, 1:
        program.call(rank, "barrier", ("FIRST", "run"), main)
    calls = [("all_to_all", [("BACK", "gradients"), ("BACKWARD", "run")])]
    calls.append(("all_reduce", [("REDUCE", "run")]))
    for rank, (op, frames) in enumerate(calls):
        one = program.run.rank(rank)
        call = program.call(rank, op, *frames, main)
        one.stall(one.inside(call))
        inner = [FrameValues(frame=program.frame(*at), first_line=3) for at in frames[:-1]]
        own = FrameValues(
            frame=program.frame(*frames[-1]), first_line=run, values={"step": steps[rank]}
        )
        functions = [*inner, own, FrameValues(frame=program.frame(*main), first_line=1)]
        one.record(Values(reason=STALLED, thread="MainThread", functions=functions))
        one.stuck_in(call)
    return [one.text.rpartition("# ")[2] for one in program.decisions()]


def test_what_a_rank_has_not_reached_in_the_iteration_of_both_did_not_decide(
    tmp_path: Path,
) -> None:
    assert "PARAMETERS" not in decisions(tmp_path, (0, 0))


@pytest.mark.parametrize("steps", [(1, 0), (None, 0), ({"type": "Step"}, {"type": "Step"})])
def test_of_different_or_unknown_iterations_it_may_have(
    steps: tuple[object, object], tmp_path: Path
) -> None:
    assert "PARAMETERS" in decisions(tmp_path, steps)


EPOCHS = """\
import torch.distributed as dist

def train(parts):
    for part in range(parts):  # PARTS
        dist.all_reduce(part)  # PART

def note(epoch):
    try:
        pages[epoch] = 1
    except IndexError:  # HANDLER
        return
    dist.broadcast(epoch, 0)  # NOTE

for epoch in range(4):
    train(parts)  # TRAIN
    note(epoch)  # NOTES
"""


def led_on(folder: Path, epochs: tuple[int, int]) -> list[str]:
    """The marks of what led rank 0 to a second call of ``train``, and rank 1 into ``note``."""
    program = Program(folder, EPOCHS)
    train = [("PART", "train"), ("TRAIN", "<module>")]
    for rank in 0, 1:
        program.call(rank, "all_reduce", *train)
    calls = [("all_reduce", train), ("broadcast", [("NOTE", "note"), ("NOTES", "<module>")])]
    for rank, (op, frames) in enumerate(calls):
        one = program.run.rank(rank)
        call = program.call(rank, op, *frames)
        one.stall(one.inside(call))
        functions = [
            FrameValues(frame=program.frame(*frames[0]), first_line=program.line("PARTS") - 1),
            FrameValues(
                frame=program.frame(*frames[1]), first_line=1, values={"epoch": epochs[rank]}
            ),
        ]
        one.record(Values(reason=STALLED, thread="MainThread", functions=functions))
        one.stuck_in(call)
    return [one.text.rpartition("# ")[2] for one in program.decisions()]


def test_a_handler_that_leads_to_the_next_iteration_was_not_entered(tmp_path: Path) -> None:
    assert led_on(tmp_path, (2, 2)) == ["PARTS"]


def test_of_different_iterations_it_may_have_been(tmp_path: Path) -> None:
    assert led_on(tmp_path, (3, 2)) == ["PARTS", "HANDLER"]
