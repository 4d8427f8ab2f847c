"""Fewer rounds of a loop: where that can only be its length, and where a round may be left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.diagnosis import fewer_rounds
from collectrace.align.diagnosis.loop_lines import LoopLine
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Run

PLAIN = """\
def share():
    for text in texts: # LOOP
        dist.all_reduce(text) # CALL
    dist.barrier() # END
"""


def ended(folder: Path, script: str, *, behind: bool = False, known: bool = True) -> Finding:
    """Three ranks, nine rounds; rank 1 has one less, and finishes or goes on to what is behind."""
    train = folder / "train.py"
    if known:
        train.write_text(script)
    line = {
        mark: next(n for n, text in enumerate(script.splitlines(), 1) if f"# {mark}" in text)
        for mark in ("CALL", "END", "SHARE")
        if f"# {mark}" in script
    }
    inner = [f"{train}:{line['CALL']} {'share' if 'SHARE' not in line else 'inner'}"]
    outer = [f"{train}:{line['SHARE']} share"] if "SHARE" in line else []
    run = Run(3)
    for rank in run:
        rank.record(Stack(stack=1, frames=[*inner, *outer]))
        rank.record(Stack(stack=2, frames=[f"{train}:{line['END']} share"]))
        for _ in range(8 if rank.rank == 1 else 9):
            call = rank.call("all_reduce", site=inner[0].partition(" ")[0], stack=1)
        if rank.rank == 1 and not behind:
            rank.exit()
        elif rank.rank == 1:
            barrier = rank.call("barrier", site=f"{train}:{line['END']}", stack=2)
            rank.beat(60, rank.inside(barrier))
        else:
            rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


LOOP = "the loop `for text in texts:` (train.py:2) ran longer there"
LONGER = f"began another round with all_reduce at train.py:3: {LOOP}."
LEFT_OUT = " ran longer there, or rank 1 left out a round of it."
EITHER = f"either {LOOP}, or rank 1 left out a round of it."


def test_where_nothing_leaves_out_a_round_the_loop_was_shorter(tmp_path: Path) -> None:
    found = ended(tmp_path, PLAIN)
    assert found.suspects == (1,)
    assert LONGER in found.cause
    assert found.fix.startswith("Give the loop the same length")


def test_of_a_program_that_cannot_be_read_either_may_be(tmp_path: Path) -> None:
    found = ended(tmp_path, PLAIN, known=False)
    assert f"either the loop{LEFT_OUT}" in found.cause


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("if not text: continue", "`if not text: continue` (train.py:3), with a continue,"),
        ("if text.is_late(): return", None),
        ("if enough: break", None),
    ],
)
def test_a_way_past_the_call(way: str, told: str | None, tmp_path: Path) -> None:
    """One that ends the loop leaves out no round of it."""
    found = ended(tmp_path, PLAIN.replace("# LOOP\n", f"# LOOP\n        {way}\n"))
    if told is not None:
        assert f"{EITHER} {told} may have led rank 1 past all_reduce" in found.cause
    else:
        assert EITHER not in found.cause
        assert f"{LOOP}. `{way}` (train.py:3)" in found.cause
        assert "may have led rank 1 out of it." in found.cause
    assert found.fix.startswith("Let all ranks decide together at train.py:3")
    assert "If the loop itself ended earlier: give the loop" in found.fix


HELPED = """\
def inner(text):
    GUARD
    for part in text:
        dist.all_reduce(part) # CALL
def share():
    if not texts: return
    for text in texts: # LOOP
        inner(text) # SHARE
    dist.barrier() # END
"""


def test_a_return_in_a_function_leaves_out_a_round_of_its_callers_loop(tmp_path: Path) -> None:
    found = ended(tmp_path, HELPED.replace("GUARD", "if not text.any(): return"))
    loops = "`for part in text:` (train.py:3) or `for text in texts:` (train.py:7)"
    way = "`if not text.any(): return` (train.py:2), with a return, may"
    assert f"either the loop {loops}{LEFT_OUT} {way}" in found.cause


def test_what_stands_before_the_loop_led_nobody_past_a_round_of_it(tmp_path: Path) -> None:
    found = ended(tmp_path, HELPED.replace("GUARD", "pass"))
    assert "`for text in texts:` (train.py:7) ran longer there." in found.cause
    assert "either" not in found.cause
    assert "if not texts" not in found.cause


def test_a_handler_that_goes_on(tmp_path: Path) -> None:
    script = """\
def share():
    for text in texts: # LOOP
        try:
            dist.all_reduce(parse(text)) # CALL
        except ValueError:
            print(text)
    dist.barrier() # END
"""
    found = ended(tmp_path, script)
    assert EITHER in found.cause
    assert "`except ValueError:` (train.py:5) may have led rank 1 past all_reduce" in found.cause


def test_a_handler_around_the_loop_leaves_out_no_round_of_it(tmp_path: Path) -> None:
    script = """\
def share():
    try:
        for text in texts: # LOOP
            dist.all_reduce(parse(text)) # CALL
    except ValueError:
        print(text)
    dist.barrier() # END
"""
    found = ended(tmp_path, script)
    assert "either" not in found.cause
    assert "`except ValueError:` (train.py:5) may have led rank 1 out of it." in found.cause


@pytest.mark.parametrize(("condition", "left_out"), [("", False), (" if text", True)])
def test_a_comprehension_is_a_loop(condition: str, left_out: bool, tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    text = f"    all = [dist.all_reduce(text) for text in texts{condition}]"
    train.write_text(f"def share():\n{text}\n")
    run = Run(1)
    call = run.rank(0).call("all_reduce", site=f"{train}:2")
    stack = (f"{train}:2 <listcomp>", f"{train}:2 share")
    case = case_of(run, tmp_path / "logs")
    point, loop = Standpoint((0,), call, stack), LoopLine(stack[0], f"2 {text}", case.code)
    seen = fewer_rounds.seen(case, point, (1,), loop)
    assert seen.left_out is left_out


@pytest.mark.parametrize("behind", [False, True])
def test_a_condition_around_the_call(behind: bool, tmp_path: Path) -> None:
    script = PLAIN.replace(
        "        dist.all",
        "        for part in text:\n            if part:\n                dist.all",
    )
    found = ended(tmp_path, script, behind=behind)
    if behind:
        assert "Or `if part:` (train.py:4), in it, led rank 1 past the call." in found.cause
    else:
        assert f"{LEFT_OUT} The all_reduce of ranks 0,2 stands under `if part:`" in found.cause
    assert not found.fix.startswith("Give the loop")


def test_who_has_left_the_loop_may_have_left_out_a_round_before(tmp_path: Path) -> None:
    script = PLAIN.replace("# LOOP\n", "# LOOP\n        if not text: continue\n")
    found = ended(tmp_path, script, behind=True)
    assert "rank 1 is out of the loop `for text in texts:` (train.py:2) after 8 times" in (
        found.cause
    )
    assert (
        "either the loop ended earlier on rank 1, or a round of it was left out there. `if not "
        "text: continue` (train.py:3), with a continue, may have led rank 1" in found.cause
    )
    assert found.fix.startswith("Let all ranks decide together at train.py:3")


def test_who_has_left_a_plain_loop_had_fewer_turns_of_it(tmp_path: Path) -> None:
    found = ended(tmp_path, PLAIN, behind=True)
    assert "the loop ended earlier on rank 1." in found.cause
    assert "left out" not in found.cause
    assert found.fix.startswith("Give the loop the same length")
