"""Causes in frameworks, caches and hooks of which the corpus has no script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.findings import Finding
from collectrace.records import SourceFile, Stack
from tests.support.judging import errors
from tests.unit.align.deciding.program import Program


def finding(program: Program) -> Finding:
    alignment = program.align()
    assert alignment.internal_errors is None
    return errors(alignment)[0]


# -- a library decided -------------------------------------------------------------------------

COMPUTE = """\
metric.compute()  # COMPUTE
dist.barrier()  # END
"""

SYNC = """\
def sync(states):
    for state in states:
        gather(state)
"""


def states(folder: Path, counts: tuple[int, int]) -> Finding:
    """Each rank gathers as many states of a metric as it has."""
    library = folder / "site-packages" / "torchmetrics" / "metric.py"
    library.parent.mkdir(parents=True)
    library.write_text(SYNC)
    program = Program(folder, COMPUTE)
    for rank, count in enumerate(counts):
        fields: dict[str, Any] = {"role": "torchmetrics.sync", "part": "Boxes", "shape": [4]}
        for _ in range(count):
            call = program.call(rank, "all_gather", ("COMPUTE", "<module>"), **fields)
        if count == min(counts):
            call = program.call(rank, "barrier", ("END", "<module>"))
        program.run.rank(rank).stuck_in(call)
    for one in program.run:
        [stack] = [
            r
            for r in one.items
            if isinstance(r, Stack) and r.frames == [program.frame("COMPUTE", "<module>")]
        ]
        stack.libraries = [f"0 {library}:3 sync"]
        text = SourceFile(t=1, path=str(library), sha256=program.recorded(library))
        one.items.insert(0, text)
    return finding(program)


def test_a_list_of_states_of_another_length(tmp_path: Path) -> None:
    found = states(tmp_path, (4, 2))
    assert found.code == "CT804"
    assert "for state in states:" in found.cause
    assert "torchmetrics" in found.cause
    assert 'dist_reduce_fx="cat"' in found.fix
    assert "Call compute()" not in found.fix


FIT = """\
class Counts(Model):
    def on_train_epoch_end(self):
        confusion.compute()  # COMPUTE

trainer.fit(Counts())  # FIT
"""
"""Ranks go different ways within ``fit()``, whose own text was not recorded."""


def parted(folder: Path, paths: tuple[str, str], *, called_back: bool | None = None) -> Finding:
    """Each rank calls in another function of Lightning, or by way of it (if ``called_back``)."""
    program = Program(folder, FIT)
    for rank, path in enumerate(paths):
        inner = [("COMPUTE", "Counts.on_train_epoch_end")]
        frames = [*inner[: rank if called_back is not None else 0], ("FIT", "<module>")]
        role, op = (("lightning.log", "all_reduce"), ("lightning.sigterm", "broadcast"))[rank]
        call = program.call(rank, op, *frames, role=role)
        program.run.rank(rank).stuck_in(call)
        [stack] = [one for one in program.run.rank(rank).items if isinstance(one, Stack)]
        stack.path = ["Trainer.fit", *path.split()]
        stack.libraries = ["1 /site-packages/lightning/call.py:9 hook"] if called_back else []
    return finding(program)


def test_a_library_decided_whose_text_is_not_known(tmp_path: Path) -> None:
    found = parted(tmp_path, ("_FitLoop.on_advance_end save", "_FitLoop.advance step"))
    assert found.code == "CT804"
    assert "The epoch was over on rank 0, and not on rank 1" in found.cause


def test_functions_of_a_library_that_no_row_knows(tmp_path: Path) -> None:
    found = parted(tmp_path, ("Loop.save write", "Loop.step forward"))
    assert found.code == "CT804"
    assert "rank 0 in Loop.save() and rank 1 in Loop.step()" in found.cause


@pytest.mark.parametrize("called_back", [True, False])
def test_a_library_called_the_script_back_on_one_rank(called_back: bool, tmp_path: Path) -> None:
    found = parted(tmp_path, ("ProgressBar.get_metrics", "sync"), called_back=called_back)
    assert (found.code == "CT804") == called_back
    assert ("rank 1 in Counts.on_train_epoch_end()" in found.cause) == called_back
    assert ("Trainer(enable_progress_bar=False)" in found.fix) == called_back


# -- a function that keeps its result -----------------------------------------------------------

CACHED = """\
from functools import cached_property

class Data:
    {decorator}
    def rows(self):
        return reduced(len(self))  # REDUCES

def run(data):
    dist.barrier()  # FIRST
    if rank == 0:
        print(data.rows)  # PRINTS
    dist.all_reduce(loss)  # LOSS
"""


@pytest.mark.parametrize(("decorator", "keeps"), [
    ("@cached_property", True), ("@functools.lru_cache(maxsize=None)", True), ("@property", False),
])  # fmt: skip
def test_a_collective_in_a_cached_property(decorator: str, keeps: bool, tmp_path: Path) -> None:
    program = Program(tmp_path, CACHED.format(decorator=decorator), 3)
    ways = [("REDUCES", "Data.rows"), ("PRINTS", "run")], [("LOSS", "run")]
    for rank in range(3):
        program.call(rank, "barrier", ("FIRST", "run"))
        call = program.call(rank, "all_reduce", *ways[rank > 0], shape=[1 if rank else 2])
        program.run.rank(rank).stuck_in(call)
    found = finding(program)
    assert (found.code == "CT801") == keeps
    assert ("Use Data.rows() once on every rank" in found.fix) == keeps


# -- a hook that a framework calls on one rank --------------------------------------------------

HOOK = """\
class Data(LightningDataModule):
    def prepare_data(self):
        self.rows = agreed(count())  # AGREES

trainer.fit(model, Data())  # FIT
"""


@pytest.mark.parametrize("role", ["lightning.barrier", "user"])
def test_a_collective_in_a_hook_of_one_rank(role: str, tmp_path: Path) -> None:
    program = Program(tmp_path, HOOK)
    for rank in range(2):
        program.call(rank, "barrier", ("FIT", "<module>"), role=role)
    hook = program.call(0, "all_reduce", ("AGREES", "Data.prepare_data"), ("FIT", "<module>"))
    program.run.rank(0).stuck_in(hook)
    program.run.rank(1).stuck_in(program.call(1, "barrier", ("FIT", "<module>"), role=role))
    found = finding(program)
    assert (found.code == "CT801") == (role != "user")
    assert ("setup()" in found.fix) == (role != "user")
