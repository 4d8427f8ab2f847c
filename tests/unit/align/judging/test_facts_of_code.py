"""What the source tells of two ranks that made different calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

USUAL = "dist.all_reduce(x)  # USUAL"
OWN = "dist.broadcast(x, src=0)  # OWN"
OTHER = "dist.all_gather(y, x)  # OTHER"


def facts(
    folder: Path, source: str, *, rounds: int = 1, leaver: int = 0
) -> tuple[tuple[int, ...], set[str]]:
    """Return who is blamed, and by what, of two ranks that were at the marked lines.

    Both were at USUAL some times; then ``leaver`` was at OWN, and the other at OTHER, or at USUAL
    once more.
    """
    script = folder / "train.py"
    folder.mkdir(parents=True, exist_ok=True)
    script.write_text(source)
    marked = {
        mark: number
        for number, line in enumerate(source.splitlines(), 1)
        for mark in ("USUAL", "OWN", "OTHER")
        if line.endswith(f"# {mark}")
    }
    run = Run(2)
    for rank in run:
        for n, line in enumerate(marked.values()):
            rank.record(Stack(stack=n + 1, frames=[f"{script}:{line} <module>"]))
        stacks = dict(zip(marked, range(1, 9), strict=False))
        for _ in range(rounds):
            rank.call("all_reduce", site=f"{script}:{marked['USUAL']}", stack=stacks["USUAL"])
        if rank.rank == leaver:
            call = rank.call("broadcast", site=f"{script}:{marked['OWN']}", stack=stacks["OWN"])
        else:
            mark = "OTHER" if "OTHER" in marked else "USUAL"
            op = "all_gather" if mark == "OTHER" else "all_reduce"
            call = rank.call(op, site=f"{script}:{marked[mark]}", stack=stacks[mark])
        rank.beat(60, rank.inside(call))
    first = errors(aligned(run, folder / "logs"))[0]
    return first.suspects, {one.fact for one in first.evidence or ()}


def loop(*lines: str) -> str:
    """Return a program with a loop of some lines behind the usual call."""
    inside = (f"    {line}\n" for text in lines for line in text.splitlines())
    return f"for step in range(9):\n    {USUAL}\n" + "".join(inside)


@pytest.mark.parametrize(
    ("source", "suspects"),
    [
        pytest.param(loop("if rank == 0:", f"    {OWN}"), (0,), id="by the rank"),
        pytest.param(loop("if step == 3 and rank == 0:", f"    {OWN}"), (0,), id="and more"),
        pytest.param(loop("if rank == 0 or debug:", f"    {OWN}"), (0,), id="or a flag"),
        pytest.param(loop("if rank == 0 or is_late():", f"    {OWN}"), (), id="or by a value"),
        pytest.param(loop("if is_late():", f"    {OWN}"), (), id="by a value"),
        pytest.param(loop("if batches[rank]:", f"    {OWN}"), (), id="by what the rank picks"),
        pytest.param(loop("if rank >= 0:", f"    {OWN}"), (), id="true on all"),
        pytest.param(loop("if rank == 1:", f"    {OWN}"), (), id="for the other rank"),
        pytest.param(loop("if rank == 0:", f"    {OWN}", "else:", "    go()"), (), id="a fork"),
        pytest.param(
            loop("if rank != 0:", "    continue", OWN), (0,), id="behind what sends others past"
        ),
        pytest.param(
            loop("if rank == 0:", f"    {OWN}", "if late:", f"    {OTHER}"), (), id="both new"
        ),
        pytest.param(
            loop("if rank == 0:", f"    {OWN}", OTHER), (0,), id="the other one is past it"
        ),
        pytest.param(loop() + f"if rank == 0:\n    {OWN}\n", (), id="behind the loop of the other"),
        pytest.param("main = rank == 0\n" + loop("if main:", f"    {OWN}"), (0,), id="by a name"),
        pytest.param(
            "def is_main():\n    return get_rank() == 0\n" + loop("if is_main():", f"    {OWN}"),
            (0,),
            id="by a function",
        ),
        pytest.param(
            "log = [] if rank == 0 else None\n" + loop("if log is not None:", f"    {OWN}"),
            (0,),
            id="by what only one rank has",
        ),
    ],
)
def test_a_condition_on_the_rank(source: str, suspects: tuple[int, ...], tmp_path: Path) -> None:
    blamed, found = facts(tmp_path, source)
    assert blamed == suspects
    assert ("rank_condition" in found) is bool(suspects)


@pytest.mark.parametrize(
    ("line", "suspects"),
    [
        pytest.param("if rank != 0 and wanted(step):\n    dist.broadcast(z, src=0)", (), id="rest"),
        pytest.param("if wanted(step):\n    dist.broadcast(z, src=0)", (), id="by a value"),
        pytest.param("dist.broadcast(z, src=0)", (0,), id="for all, further on"),
        pytest.param("if rank == 0:\n    dist.broadcast(z, src=0)", (0,), id="for the same rank"),
        pytest.param("if wanted(step):\n    writer.broadcast(z)", (0,), id="not of torch"),
    ],
)
def test_a_line_that_may_have_been_for_the_others(
    line: str, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    blamed, found = facts(tmp_path, loop("if rank == 0:", f"    {OWN}", line))
    assert blamed == suspects
    assert ("other_line_for_others" in found) is not bool(suspects)


@pytest.mark.parametrize(
    ("way", "suspects"),
    [
        pytest.param("if rank == 0 and loss < enough:", (0,), id="open to the rank alone"),
        pytest.param("if loss < enough:", (), id="open to both"),
        pytest.param("if rank == 0:", (), id="by the rank alone, from the first"),
        pytest.param("if rank == other and loss < enough:", (), id="a rank that is not known"),
    ],
)
def test_a_way_past_what_it_usually_called(
    way: str, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    blamed, found = facts(tmp_path, loop(way, "    break") + OWN + "\n", rounds=6)
    assert blamed == suspects
    assert found >= {"led_past_by_rank", "left_own_rounds"} or not suspects


@pytest.mark.parametrize(("rounds", "suspects"), [(6, (0,)), (1, ())])
def test_a_handler_and_iterations_that_were_alike(
    rounds: int, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    """That a rank caught an exception does not tell alone that the other went the right way."""
    source = loop("try:", "    work()", "except ValueError:", f"    {OWN}")
    blamed, found = facts(tmp_path, source, rounds=rounds)
    assert blamed == suspects
    assert found == ({"left_own_rounds", "in_handler"} if suspects else set())
