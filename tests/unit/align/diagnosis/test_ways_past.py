"""How ranks went past a call: the guards and handlers before it, and when nothing is said."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.findings import Finding
from collectrace.records import Call, Source, Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run


class Script:
    """A program on disk, with marks in it."""

    def __init__(self, folder: Path, text: str) -> None:
        self.path = folder / "train.py"
        self.path.write_text(textwrap.dedent(text))

    def number(self, mark: str) -> int:
        lines = self.path.read_text().splitlines()
        return next(n for n, line in enumerate(lines, 1) if f"# {mark}" in line)

    def frame(self, place: str) -> str:
        """``path:line function`` of a ``mark function``."""
        mark, _, function = place.partition(" ")
        return f"{self.path}:{self.number(mark)} {function or '<module>'}"


Stacks = Sequence[str]
"""Frames as ``mark function``, innermost first."""


def parted(
    folder: Path,
    text: str,
    right: Stacks,
    wrong: Stacks,
    before: Sequence[Stacks] = (),
    *,
    recorded: Sequence[Source] = (),
) -> Finding:
    """Rank 0 of three at one place of a program, the others at another.

    ``recorded``: what an older tracer has written of its lines, in place of its text.
    """
    script = Script(folder, text)
    run = Run(3, texts=not recorded)
    for rank in run:
        for source in recorded:
            rank.record(source)
        for n, frames in enumerate([*before, wrong if rank.rank == 0 else right], 1):
            call = made(rank, script, frames, n)
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


def made(rank: Rank, script: Script, places: Stacks, number: int) -> Call:
    frames = [script.frame(place) for place in places]
    rank.record(Stack(stack=number, frames=frames))
    site = frames[0].partition(" ")[0]
    op = "all_reduce" if "reduce" in places[0] else "all_gather_single"
    return rank.call(op, shape=[3], site=site, stack=number)


GUARDED = """
    def load(path):
        if not path.exists():
            return None
        dist.all_reduce(found)  # reduce
    def main():
        state = load(path)  # load
        dist.broadcast(weights, 0)  # next
    main()  # main
"""
REDUCE = ("reduce load", "load main", "main")
NEXT = ("next main", "main")


def test_the_one_guard_before_a_call(tmp_path: Path) -> None:
    found = parted(tmp_path, GUARDED, REDUCE, NEXT)
    assert (
        "In the source only `if not path.exists():` (train.py:3), with a return, leads past "
        "all_reduce at train.py:5." in found.cause
    )
    assert "do not show what decided" not in found.cause
    assert "Let all ranks decide together at train.py:3" in found.fix


@pytest.mark.parametrize(
    "call", ["PARTS[kind](path)", "getattr(self, kind)(path)", "list(map(load, paths))"]
)
def test_a_line_that_may_call_another_function_has_no_only_way(call: str, tmp_path: Path) -> None:
    text = GUARDED.replace("load(path)  # load", f"{call}  # load")
    found = parted(tmp_path, text, REDUCE, NEXT)
    assert "only" not in found.cause
    assert (
        "`if not path.exists():` (train.py:3), with a return, may have led rank 0 past"
        in found.cause
    )


def test_it_is_not_said_of_who_came(tmp_path: Path) -> None:
    """The majority went past it: the guard is named all the same, and with it the other call."""
    found = parted(tmp_path, GUARDED, NEXT, REDUCE)
    assert "leads past all_reduce at train.py:5" in found.cause


@pytest.mark.parametrize(
    "guard",
    [
        "if not dist.is_initialized():",
        "if not dist.is_available() or not dist.is_initialized():",
        "if dist.get_world_size() <= 1:",
        "if self.world_size == 1:",
    ],
)
def test_a_guard_that_is_the_same_on_every_rank_leads_nobody_past(
    tmp_path: Path, guard: str
) -> None:
    found = parted(tmp_path, GUARDED.replace("if not path.exists():", guard), REDUCE, NEXT)
    assert "do not show what decided" in found.cause
    assert "past" not in found.cause


@pytest.mark.parametrize(
    "guard",
    ["if not dist.is_initialized() or path is None:", "if shard % world_size != rank:"],
)
def test_a_guard_that_asks_for_something_else_too_may(tmp_path: Path, guard: str) -> None:
    found = parted(tmp_path, GUARDED.replace("if not path.exists():", guard), REDUCE, NEXT)
    assert guard in found.cause


def test_the_rank_in_the_guard(tmp_path: Path) -> None:
    found = parted(tmp_path, GUARDED.replace("not path.exists()", "rank != 1"), REDUCE, NEXT)
    assert "leads past all_reduce at train.py:5; it asks for the rank." in found.cause
    assert (
        "Make the all_reduce at train.py:5 on every rank, before `if rank != 1:` (train.py:3), or "
        "on none." in found.fix
    )


def test_several_guards_may_have_led_past(tmp_path: Path) -> None:
    text = GUARDED.replace("dist.all_reduce", "if stale: return\n        dist.all_reduce")
    found = parted(tmp_path, text, REDUCE, NEXT)
    assert (
        "`if not path.exists():` (train.py:3), with a return, or `if stale: return` (train.py:5), "
        "with a return, may have led rank 0 past all_reduce at train.py:6." in found.cause
    )


def test_of_too_many_guards_none_is_named(tmp_path: Path) -> None:
    more = "".join(f"if a{n}: return\n        " for n in range(3))
    text = GUARDED.replace("dist.all_reduce", f"{more}dist.all_reduce")
    assert "do not show what decided" in parted(tmp_path, text, REDUCE, NEXT).cause


@pytest.mark.parametrize(
    "call", ["flag and dist.all_reduce(found)", "[dist.all_reduce(x) for x in found]"]
)
def test_a_call_in_an_expression_that_decides_has_no_only_way(tmp_path: Path, call: str) -> None:
    text = GUARDED.replace("dist.all_reduce(found)", call)
    assert "may have led rank 0 past" in parted(tmp_path, text, REDUCE, NEXT).cause


def test_a_handler_around_the_caller(tmp_path: Path) -> None:
    found = parted(
        tmp_path,
        """
        def load(path):
            read(path)
            dist.all_reduce(found)  # reduce
        try:
            load(path)  # load
        except OSError:
            pass
        dist.broadcast(weights, 0)  # next
        """,
        ("reduce load", "load"),
        ("next",),
    )
    assert (
        "In the source only `except OSError:` (train.py:7) leads past all_reduce at train.py:4, "
        "called at train.py:6; so an exception was caught there." in found.cause
    )
    assert "error flag" in found.fix


def test_a_handler_around_both_leads_past_neither(tmp_path: Path) -> None:
    found = parted(
        tmp_path,
        """
        def load(path):
            dist.all_reduce(found)  # reduce
        try:
            load(path)  # load
            dist.broadcast(weights, 0)  # next
        except OSError:
            pass
        """,
        ("reduce load", "load"),
        ("next",),
    )
    assert "OSError" not in found.cause


def test_a_return_of_the_function_that_both_are_in_leads_past_neither(tmp_path: Path) -> None:
    found = parted(
        tmp_path,
        """
        def main():
            if empty:
                return
            dist.all_reduce(found)  # reduce
            dist.broadcast(weights, 0)  # next
        main()  # main
        """,
        ("reduce main", "main"),
        ("next main", "main"),
    )
    assert "empty" not in found.cause


ROUNDS = """
    def step(queue):
        dist.broadcast(message, 0)  # first
        if rejected:
            return
        dist.all_reduce(found)  # reduce
    while work:
        step(queue)  # step
"""


def test_a_function_that_was_begun_again(tmp_path: Path) -> None:
    first = ("first step", "step")
    found = parted(tmp_path, ROUNDS, ("reduce step", "step"), first, [first])
    assert (
        "Rank 0 began step() again: `if rejected:` (train.py:4), with a return, may have led past "
        "all_reduce at train.py:6." in found.cause
    )


def test_a_line_that_the_ranks_called_in_another_group_was_not_left_out(tmp_path: Path) -> None:
    script = Script(tmp_path, GUARDED)
    run = Run(3)
    for rank in run:
        rank.group("7", [0])
        if rank.rank == 0:
            rank.record(Stack(stack=9, frames=[script.frame(place) for place in REDUCE]))
            site = f"{script.path}:{script.number('reduce')}"
            rank.call("all_reduce", "7", shape=[5], site=site, stack=9)
        call = made(rank, script, NEXT if rank.rank == 0 else REDUCE, 1)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert "exists" not in found.cause


@pytest.mark.parametrize("again", [False, True])
def test_in_another_group_it_was_called_a_round_before(again: bool, tmp_path: Path) -> None:
    """By every rank, as in hybrid sharding: that does not tell where it went this time."""
    script = Script(
        tmp_path,
        """
        def main():
            for batch in batches:
                dist.all_gather_single(whole, batch)  # first
                if is_bad(batch):
                    continue
                dist.all_reduce(batch)  # reduce
        main()  # main
        """,
    )
    first, reduce = ("first main", "main"), ("reduce main", "main")
    run = Run(3)
    for rank in run:
        rank.group("7", [rank.rank])
        rank.record(Stack(stack=9, frames=[script.frame(place) for place in reduce]))
        site = f"{script.path}:{script.number('reduce')}"
        rank.call("all_reduce", "7", shape=[5], site=site, stack=9)
        made(rank, script, first, 1)
        if again and rank.rank == 0:
            rank.call("all_reduce", "7", shape=[5], site=site, stack=9)
        call = made(rank, script, first if rank.rank == 0 else reduce, 2)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert ("`if is_bad(batch):`" in found.cause) is not again


def source(path: Path, text: str, ways: list[str] | None) -> Source:
    return Source(site=f"{path}:5", lines=["2 def load(path):", f"5     {text}"], ways=ways)


def test_what_an_older_tracer_has_recorded_of_a_line(tmp_path: Path) -> None:
    told = source(tmp_path / "train.py", "as it was", ["3 return if gone:"])
    found = parted(tmp_path, GUARDED, REDUCE, NEXT, recorded=[told])
    assert "`if gone:` (train.py:3)" in found.cause
    assert "exists" not in found.cause


def test_a_file_of_this_machine_adds_nothing_to_an_older_record(tmp_path: Path) -> None:
    told = source(tmp_path / "train.py", "dist.all_reduce(found)  # reduce", None)
    found = parted(tmp_path, GUARDED, REDUCE, NEXT, recorded=[told])
    assert "exists" not in found.cause


@pytest.mark.parametrize("ways", [["x"], ["3 fly if gone:"], ["three return if gone:"], [""]])
def test_a_record_that_is_not_understood_tells_nothing(tmp_path: Path, ways: list[str]) -> None:
    told = source(tmp_path / "train.py", "as it was", ways)
    found = parted(tmp_path, GUARDED, REDUCE, NEXT, recorded=[told])
    assert "do not show what decided" in found.cause


# -- out of loops ----------------------------------------------------------------------------------

LOOP = """
    def main():
        for batch in loader:
            loss(batch).backward()  # backward
            if loss < target:
                break
        dist.all_reduce(seen)  # behind
    main()  # main
"""


def left(folder: Path, *, ended: bool | None, text: str = LOOP) -> Finding:
    """Rank 0 is behind the loop; ``ended``: what its DataLoader tells, if there is one."""
    script = Script(folder, text)
    run = Run(3)
    site = f"{script.path}:{script.number('backward')}"
    for rank in run:
        rank.record(Stack(stack=1, frames=[script.frame("backward main"), script.frame("main")]))
        rank.record(Stack(stack=2, frames=[script.frame("behind main"), script.frame("main")]))
        for n in range(1, 5):
            if n == 4 and rank.rank == 0:
                if ended:
                    rank.batch(3, end=True)
                call = rank.call(
                    "all_reduce", shape=[2], stack=2, iteration=3,
                    site=f"{script.path}:{script.number('behind')}",
                )  # fmt: skip
                break
            if ended is not None:
                rank.batch(n)
            call = rank.call(
                "all_reduce", role="ddp.backward.bucket", shape=[9], site=site, stack=1, iteration=n
            )
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


def test_a_break_where_the_loader_had_more(tmp_path: Path) -> None:
    found = left(tmp_path, ended=False)
    assert "left the loop `for batch in loader:` (train.py:3)" in found.cause
    assert (
        "`if loss < target:` (train.py:5), with a break, leads out of it; the DataLoader of rank 0 "
        "had not come to its end, after 3 batches of this pass." in found.cause
    )
    assert "decide together at train.py:5" in found.fix
    assert "drop_last" not in found.fix
    assert "Uneven" not in found.cause


def test_a_loader_that_ended_says_it_all(tmp_path: Path) -> None:
    found = left(tmp_path, ended=True)
    assert "Uneven inputs: rank 0 had 3 batches" in found.cause
    assert "target" not in found.cause


def test_without_a_loader_the_loop_may_have_ended_by_itself(tmp_path: Path) -> None:
    found = left(tmp_path, ended=None)
    assert "`if loss < target:` (train.py:5), with a break, may have led rank 0 out of it." in (
        found.cause
    )
    assert "If the loop itself ended earlier: give the loop the same length" in found.fix


def test_a_loop_without_a_way_out(tmp_path: Path) -> None:
    text = LOOP.replace("            if loss < target:\n                break\n", "")
    found = left(tmp_path, ended=None, text=text.replace("dist.all", "\n        dist.all"))
    assert "past" not in found.cause


def test_that_calls_of_different_lines_differ_in_size_is_no_reason(tmp_path: Path) -> None:
    script = Script(tmp_path, GUARDED)
    run = Run(3)
    for rank in run:
        first = rank.rank == 0
        frames = [script.frame(place) for place in (NEXT if first else REDUCE)]
        rank.record(Stack(stack=1, frames=frames))
        site = frames[0].partition(" ")[0]
        call = rank.call("all_reduce", shape=[5 if first else 3], site=site, stack=1)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert "leads past all_reduce at train.py:5" in found.cause
    assert "one size" not in found.fix


def test_another_loader_in_the_midst_proves_nothing(tmp_path: Path) -> None:
    """Rank 0 has begun a pass over validation data behind the loop; the others have not."""
    script = Script(tmp_path, LOOP)
    run = Run(3)
    for rank in run:
        for number, mark in ((1, "backward"), (2, "behind")):
            frames = [script.frame(f"{mark} main"), script.frame("main")]
            rank.record(Stack(stack=number, frames=frames))
        for n in range(1, 4):
            rank.batch(n)
            call = rank.call(
                "all_reduce", role="ddp.backward.bucket", shape=[9], stack=1, iteration=n,
                site=f"{script.path}:{script.number('backward')}",
            )  # fmt: skip
        first = rank.rank == 0
        rank.batch(1 if first else 4, loader=int(first))
        call = rank.call(
            "all_reduce", role="user" if first else "ddp.backward.bucket",
            shape=[2 if first else 9], stack=2 if first else 1, iteration=3 if first else 4,
            site=f"{script.path}:{script.number('behind' if first else 'backward')}",
        )  # fmt: skip
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert "may have led rank 0 out of it" in found.cause
    assert "had not come to its end" not in found.cause


@pytest.mark.parametrize(("guard", "told"), [("if quiet:", True), ("if world_size == 1:", False)])
def test_a_rank_that_finished_without_a_call(tmp_path: Path, guard: str, told: bool) -> None:
    script = Script(
        tmp_path,
        f"""
        def report():
            {guard}
                return
            dist.all_reduce(found)  # reduce
        report()  # main
        """,
    )
    run = Run(3)
    for rank in run:
        rank.calls(1, "barrier", site="/job/begin.py:1")
        if rank.rank == 0:
            rank.exit()
            continue
        call = made(rank, script, ("reduce report", "main"), 1)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    way = "`if quiet:` (train.py:3), with a return, may have led rank 0 past all_reduce"
    assert (way in found.cause) == told
    assert ("decide together at train.py:3" in found.fix) == told


# -- where nothing is known, or less ---------------------------------------------------------------


def test_another_function_at_the_same_call_was_not_passed_through(tmp_path: Path) -> None:
    """One line calls what each rank has been given: who has the other never came to the guard."""
    found = parted(
        tmp_path,
        """
        def share():
            if stale:
                return
            dist.all_reduce(found)  # reduce
        def one():
            share()  # share
        def two():
            dist.broadcast(weights, 0)  # next
        handler()  # main
        """,
        ("reduce share", "share one", "main"),
        ("next two", "main"),
    )
    assert "stale" not in found.cause


def test_lines_before_in_another_function_tell_nothing(tmp_path: Path) -> None:
    script = Script(tmp_path, "left()  # here\nright()  # there\n" + textwrap.dedent(GUARDED))
    run = Run(3)
    for rank in run:
        first = rank.rank == 0
        site = script.frame("here" if first else "there")
        rank.record(Stack(stack=1, frames=[site]))
        rank.call("barrier", site=site.partition(" ")[0], stack=1)
        call = made(rank, script, NEXT if first else REDUCE, 2)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert "exists" in found.cause


def test_lines_before_in_the_same_function_that_differ(tmp_path: Path) -> None:
    text = GUARDED.replace("state =", "one()  # here\n        two()  # there\n        state =")
    script = Script(tmp_path, text)
    run = Run(3)
    for rank in run:
        first = rank.rank == 0
        frames = [script.frame(f"{'here' if first else 'there'} main"), script.frame("main")]
        rank.record(Stack(stack=1, frames=frames))
        rank.call("barrier", site=frames[0].partition(" ")[0], stack=1)
        call = made(rank, script, NEXT if first else REDUCE, 2)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert "exists" not in found.cause


def test_in_a_recursion_there_is_no_only_way(tmp_path: Path) -> None:
    found = parted(
        tmp_path,
        """
        def walk(node):
            if not node:
                return
            dist.all_reduce(node)  # reduce
            walk(node.child)  # deeper
            dist.broadcast(node, 0)  # next
        walk(root)  # main
        """,
        ("reduce walk", "deeper walk", "main"),
        ("next walk", "main"),
    )
    assert "`if not node:` (train.py:3), with a return, may have led rank 0 past" in found.cause


def test_a_guard_that_raises_leads_nobody_on(tmp_path: Path) -> None:
    found = parted(tmp_path, GUARDED.replace("return None", "raise OSError"), REDUCE, NEXT)
    assert "do not show what decided" in found.cause


def test_where_a_condition_around_the_call_tells_the_guard_is_not_told_too(tmp_path: Path) -> None:
    text = GUARDED.replace("dist.all_reduce(found)", "if flag: dist.all_reduce(found)")
    text = text.replace("if flag: ", "if flag:\n            ")
    found = parted(tmp_path, text, REDUCE, NEXT)
    assert "under `if flag:`" in found.cause
    assert "exists" not in found.cause


@pytest.mark.parametrize("is_under", [False, True])
def test_on_to_the_constructor_of_ddp(tmp_path: Path, *, is_under: bool) -> None:
    under = "if flag:\n            " if is_under else ""
    text = GUARDED.replace("dist.all_reduce(found)", f"{under}dist.all_reduce(found)")
    script = Script(tmp_path, text)
    run = Run(4)
    for rank in run:
        first = rank.rank < 2
        frames = [script.frame(place) for place in (NEXT if first else REDUCE)]
        rank.record(Stack(stack=1, frames=frames))
        role = "ddp.construct" if first else "user"
        op = "all_gather" if first else "broadcast"
        site = frames[0].partition(" ")[0]
        call = rank.call(op, shape=[1], role=role, site=site, stack=1)
        rank.beat(60, rank.inside(call))
    found = errors(aligned(run, tmp_path / "logs"))[0]
    assert "Ranks 0-1 went on to DDP's constructor at train.py:" in found.cause
    assert "where ranks 2-3 issued broadcast at train.py:" in found.cause
    only = "In the source only `if not path.exists():` (train.py:3), with a return, leads past"
    assert (only in found.cause) != is_under
    assert "decide together at train.py:3" in found.fix
