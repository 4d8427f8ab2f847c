"""Which of several statements that can have decided a report names first."""

from __future__ import annotations

from pathlib import Path

from collectrace.findings import Finding
from tests.support.mutations import Sample, aligned
from tests.support.synthetic import Run
from tests.unit.align.deciding.program import Program

GUARDED = """\
import torch.distributed as dist

def update(labels):
    if not labels.any():
        return
    for parameter in model.parameters():
        dist.all_reduce(parameter)  # REDUCE

for document in range(25):
    update(load(document))  # UPDATE
"""


def test_a_loop_over_what_is_not_known_comes_after_a_condition_on_data(tmp_path: Path) -> None:
    program = Program(tmp_path, GUARDED, world=3)
    at = ("REDUCE", "update"), ("UPDATE", "<module>")
    for rank in range(3):
        for _ in range(4):
            program.call(rank, "all_reduce", *at)
    program.run.rank(1).exit()
    for rank in 0, 2:
        program.run.rank(rank).stuck_in(program.call(rank, "all_reduce", *at))
    found = program.align().findings[0]
    assert found.code == "CT102"
    assert found.cause.startswith("`if not labels.any():`")


def test_sizes_that_differ_where_no_source_is_known_are_explained_without_one() -> None:
    run = Run(2)
    for rank, shape in zip(run, ([3, 12], [12, 8]), strict=True):
        rank.call("all_reduce", shape=shape, site="/job/train.py:30")
    run.finish()
    found = aligned(Sample("", run).files())
    assert [one.code for one in found.findings] == ["CT403"]
    assert not found.internal_errors


LED = """\
import torch.distributed as dist

def exchange():
    dist.recv(x, before)  # TAKE
    dist.send(x, after)  # GIVE

for step in range(9):
    exchange()  # STEP
    if rank == 2:
        if is_whole(x):
            exchange()  # AGAIN
    dist.barrier()  # MEETS
"""


def led(folder: Path) -> Finding:
    """A pipeline of three, which the last stage runs once more, by its rank, and alone."""
    program = Program(folder, LED, world=3)
    take, give = ("TAKE", "exchange"), ("GIVE", "exchange")
    step, again = ("STEP", "<module>"), ("AGAIN", "<module>")
    for _ in range(4):
        for rank in range(3):
            one = program.run.rank(rank)
            if rank:
                one.recv(rank - 1, **program.at(one, take, step))
            if rank < 2:
                one.send(rank + 1, **program.at(one, give, step))
    for rank in 0, 1:
        program.run.rank(rank).stuck_in(program.call(rank, "barrier", ("MEETS", "<module>")))
    last = program.run.rank(2)
    last.stuck_in(last.recv(1, **program.at(last, take, again)))
    return program.align().findings[0]


def test_a_condition_on_the_rank_comes_first_if_it_is_the_evidence(tmp_path: Path) -> None:
    found = led(tmp_path)
    assert [row.fact for row in found.evidence or ()] == ["led_by_its_rank"]
    assert "inside `if rank == 2:`" in found.cause


STREAMED = """\
import torch.distributed as dist

class Trainer:
    def run(self):
        for step in range(9):
            dist.send(x, 1)  # GIVE

class Consumer:
    def __init__(self, rank):
        self.rank, self.count = rank, 0

    def needs_more(self):
        if self.rank == 1:
            return self.count < 4
        return self.count < 9

    def run(self):
        while self.needs_more():
            dist.recv(x, 0)  # TAKE

(Trainer() if rank == 0 else Consumer(rank)).run()  # RUN
dist.all_reduce(x)  # DONE
"""


def test_a_loop_comes_before_the_line_that_gives_each_rank_its_part(tmp_path: Path) -> None:
    program = Program(tmp_path, STREAMED, world=2)
    first, second = program.run.rank(0), program.run.rank(1)
    give = program.at(first, ("GIVE", "Trainer.run"), ("RUN", "<module>"))
    take = program.at(second, ("TAKE", "Consumer.run"), ("RUN", "<module>"))
    for _ in range(4):
        first.send(1, **give)
        second.recv(0, **take)
    first.stuck_in(first.send(1, **give))
    second.stuck_in(program.call(1, "all_reduce", ("DONE", "<module>")))
    found = program.align().findings[0]
    assert found.code == "CT703"
    assert "`while self.needs_more():`" in found.cause
    assert "same number of iterations" in (found.fix or "")
