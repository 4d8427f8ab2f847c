"""Decisions in the code of libraries, whose frames stand between and above the user's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from collectrace.align.deciding import frames
from collectrace.align.deciding.libraries import package_name
from collectrace.findings import Decision
from collectrace.records import SourceFile, Stack
from tests.unit.align.deciding.program import Program

MAIN = """\
import framework
import torch.distributed as dist

def hook(state):
    dist.all_reduce(state)  # HOOK

framework.run(hook, states)  # MAIN
dist.barrier()  # END
"""

LOOP = """\
def run(hook, states):
    for state in states:
        hook(state)
"""


def ran(folder: Path, *, varied: bool = False) -> list[Decision]:
    """Rank 0 has three states, rank 1 two: the loop over them is the library's.

    ``varied``: the same frames of the user were reached from another line of it, too.
    """
    library = folder / "site-packages" / "framework" / "loop.py"
    library.parent.mkdir(parents=True)
    library.write_text(LOOP)
    program = Program(folder, MAIN)
    for rank, states in (0, 3), (1, 2):
        for _ in range(states):
            call = program.call(rank, "all_reduce", ("HOOK", "hook"), ("MAIN", "<module>"))
        if rank:
            call = program.call(rank, "barrier", ("END", "<module>"))
        program.run.rank(rank).stuck_in(call)
    for one in program.run:
        [stack] = [r for r in one.items if isinstance(r, Stack) and len(r.frames) == 2]
        stack.libraries = [f"1 {library}:3 run"]
        if varied:
            one.items.append(replace(stack, stack=99, libraries=[f"1 {library}:2 run"]))
        text = SourceFile(t=1, path=str(library), sha256=program.recorded(library))
        one.items.insert(0, text)
    return program.decisions()


def test_the_loop_of_a_library_is_named(tmp_path: Path) -> None:
    found = {one.text: one for one in ran(tmp_path)}
    loop = found["for state in states:"]
    assert loop.library == "framework"
    assert loop.site.endswith("/framework/loop.py:2")
    assert loop.sides[0].did == "iterates"


def test_frames_of_a_library_that_are_not_known_for_sure_are_left_out(tmp_path: Path) -> None:
    assert not [one for one in ran(tmp_path, varied=True) if one.library]


def test_frames_stand_where_they_were() -> None:
    own = frames.parse_stack(["/m.py:5 hook", "/m.py:7 <module>"])
    lines = ["0 /a.py:1 a", "1 /b.py:2 b", "1 /b.py:3 c", "2 /d.py:4 d"]
    whole = frames.insert_libraries(own, lines)
    assert [f"{one.path}:{one.line} {one.function}" for one in whole] == [
        "/a.py:1 a", "/m.py:5 hook", "/b.py:2 b", "/b.py:3 c", "/m.py:7 <module>", "/d.py:4 d",
    ]  # fmt: skip


def test_damaged_frames_are_left_out() -> None:
    own = frames.parse_stack(["/m.py:5 hook"])
    assert frames.insert_libraries(own, ["", "x", "-1 /a.py:1 a", "999999 /a.py:1 a"]) == own


def test_libraries_have_names() -> None:
    assert package_name("/usr/lib/python3/dist-packages/torchmetrics/metric.py") == "torchmetrics"
    assert package_name("/venv/site-packages/single.py") == "single"
    assert package_name("/src/trl/trainer.py") == "trl"
