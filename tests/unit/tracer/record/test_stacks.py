"""Stacks: which frames are in one, which are told apart, and what becomes of them in the file."""

from __future__ import annotations

import functools
import sys
import sysconfig
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
import torch

from collectrace.records import Checkpoint, SourceFile, Stack, encode
from collectrace.tracer.record import sites, stacks
from collectrace.tracer.record.repeated import Repeated
from collectrace.tracer.record.sites import NOWHERE, Place
from collectrace.tracer.record.sources import Sources
from collectrace.tracer.record.stacks import Stacks

PACKAGES: Final = Path(sysconfig.get_path("purelib"))
TORCH: Final = Path(torch.__file__).parent
STDLIB: Final = Path(sysconfig.get_path("stdlib"))

Function = Callable[..., Any]


def define(path: str | Path, source: str) -> dict[str, Any]:
    """What a file at this path defines, whether or not it is there."""
    names: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), names)
    return names


def step(path: str | Path, name: str = "step") -> Function:
    """A function of a file that calls what it is given, on line 2."""
    *outer, function = name.split(".")
    source = f"def {function}(call):\n    return call()\n"
    if outer:
        source = f"class {outer[0]}:\n" + "".join(f" {line}\n" for line in source.splitlines())
        found = getattr(define(path, source)[outer[0]], function)
        return functools.partial(found, *()) if found else found
    return define(path, source)[name]  # type: ignore[no-any-return]


def through(*functions: Function) -> Place:
    """The place below these, each calling the next, on a thread that has nothing above them."""
    call: Function = _find
    for function in reversed(functions):
        call = functools.partial(function, call)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()  # type: ignore[no-any-return]


def _find() -> Place:
    return sites.find(sys._getframe(1))


def frames(place: Place) -> list[str]:
    return [f"{Path(line.site).name} {line.function}" for line in place.user_lines()]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


# -- which frames ---------------------------------------------------------------------------


def test_the_users_functions_from_the_line_outwards(mine: Path) -> None:
    place = through(step(mine, "main"), step(mine, "clip"), step(mine.with_name("comm.py")))
    assert frames(place) == ["comm.py:2 step", "train.py:2 clip", "train.py:2 main"]


def test_two_callers_of_one_helper_are_two_stacks_and_one_site(mine: Path) -> None:
    helper = step(mine.with_name("comm.py"))
    first, second = (through(step(mine, name), helper) for name in ("clip", "log"))
    assert first is not second
    assert sites.resolve(first) == sites.resolve(second)
    assert frames(second) == ["comm.py:2 step", "train.py:2 log"]
    # Whichever was seen first, and however often.
    again = through(step(mine, "clip"), helper)
    assert frames(again) == frames(first)


def test_the_same_functions_again_are_the_same_place(mine: Path) -> None:
    outer, inner = step(mine, "main"), step(mine, "clip")
    assert through(outer, inner) is through(outer, inner)


def test_libraries_and_torch_above_the_line_are_walked_past(mine: Path) -> None:
    below = [step(PACKAGES / "lightning" / f"loop{n}.py") for n in range(35)]
    place = through(
        step(mine, "main"), *below, step(TORCH / "nn" / "module.py"), step(mine, "on_batch_end")
    )
    assert frames(place) == ["train.py:2 on_batch_end", "train.py:2 main"]
    assert sites.resolve(place) == (f"{mine}:2", None)
    assert place.path() == []


def test_there_are_eight_at_most(mine: Path) -> None:
    place = through(*(step(mine, f"level{n}") for n in range(12)))
    assert frames(place) == [f"train.py:2 level{n}" for n in range(11, 3, -1)]


def test_a_walk_ends_somewhere(mine: Path) -> None:
    endless = [step(PACKAGES / "x.py")] * 300
    assert frames(through(step(mine, "main"), *endless, step(mine, "hook"))) == ["train.py:2 hook"]


def test_what_runs_a_module_did_not_call_it(mine: Path) -> None:
    found: list[Place] = []

    def run(call: Function) -> Any:
        exec(compile("found.append(call())", str(mine), "exec"), {"call": call, "found": found})

    through(step(mine, "main"), run)
    assert frames(found[0]) == ["train.py:1 <module>"]


def test_a_stack_ends_where_its_thread_began(mine: Path) -> None:
    """In a forked child the frames of its parent lie above those of multiprocessing."""
    for file, is_open in ("threading.py", True), ("multiprocessing/process.py", False):
        place = through(step(mine, "parent"), step(STDLIB / file), step(mine, "child"))
        assert frames(place) == ["train.py:2 child"]
        assert place.is_open is is_open


def test_methods_and_closures_by_their_qualified_names(mine: Path) -> None:
    source = """\
class Trainer:
    def fit(self, call):
        def closure():
            return call()
        return closure()
"""
    place = through(define(mine, source)["Trainer"]().fit)
    assert frames(place) == ["train.py:4 Trainer.fit.<locals>.closure", "train.py:5 Trainer.fit"]


# -- the way through a library --------------------------------------------------------------

LIBRARY: Final = """\
def decorated(function):
    def wrapper(self, call):
        return function(self, call)
    return wrapper

class Trainer:
    def fit(self, call):
        return self._run(lambda: self(call))
    def _run(self, call):
        return call()
    def __call__(self, call):
        return self.strategy(call, 2)
    def strategy(self, call, depth):
        return self.strategy(call, depth - 1) if depth else Strategy().barrier(call)

class Strategy:
    @decorated
    def barrier(self, call):
        return call()
"""


LOOP: Final = "def run(call):\n    return call()\n"


def test_the_way_through_a_library_is_told_by_its_functions(mine: Path) -> None:
    fit = define(PACKAGES / "lightning" / "trainer.py", LIBRARY)["Trainer"]().fit
    place = through(step(mine, "main"), fit, step(TORCH / "distributed" / "c10d.py"))
    assert place.path() == [
        "Trainer.fit", "Trainer._run", "Trainer.strategy", "Strategy.barrier",
    ]  # fmt: skip
    assert frames(place) == ["train.py:2 main"]


def test_the_lines_of_libraries_stand_between_and_above_the_users(mine: Path) -> None:
    loop = step(PACKAGES / "lightning" / "loop.py", "Loop.run")
    hook, run = step(mine, "hook"), step(PACKAGES / "lightning" / "run.py", "run")
    numbered, written = book()
    place = through(run, step(mine, "main"), loop, hook, loop, step(TORCH / "c10d.py"))
    numbered.number(place)
    [stack] = written
    assert [frame.rpartition("/")[2] for frame in stack.frames] == [
        "train.py:2 hook", "train.py:2 main",
    ]  # fmt: skip
    assert [line.replace(f"{PACKAGES}/", "") for line in stack.libraries or ()] == [
        "0 lightning/loop.py:3 Loop.run", "1 lightning/loop.py:3 Loop.run",
        "2 lightning/run.py:2 run",
    ]  # fmt: skip


def test_stacks_that_differ_in_a_line_of_a_library_are_two(mine: Path) -> None:
    loops = [define(PACKAGES / "loop.py", "\n" * n + LOOP)["run"] for n in (0, 1)]
    numbered, _ = book()
    found = [through(step(mine, "main"), loop, step(mine, "hook")) for loop in loops]
    assert [*map(numbered.number, found)] == [1, 2]


def test_no_more_frames_of_libraries_than_two_dozen_are_recorded(mine: Path) -> None:
    deep = [step(PACKAGES / f"x{n}.py") for n in range(60)]
    numbered, written = book()
    numbered.number(through(step(mine, "main"), *deep, step(mine, "hook")))
    [stack] = written
    assert len(stack.libraries or ()) == 24
    assert stack.libraries is not None
    assert stack.libraries[0].endswith("/x59.py:2 step")
    assert len(stack.frames) == 2


def test_two_ways_through_a_library_are_two_stacks(mine: Path) -> None:
    barrier = step(PACKAGES / "lightning" / "strategy.py", "barrier")
    main = step(mine, "main")
    ways = [through(main, step(PACKAGES / "x.py", name), barrier) for name in ("fit", "save")]
    assert [place.path() for place in ways] == [["fit", "barrier"], ["save", "barrier"]]
    assert sites.resolve(ways[0]) == sites.resolve(ways[1])


# -- threads that were given their work -------------------------------------------------------


class Thread:
    """Stands for the state of a thread."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def lent(self) -> Place:
        return self._place


def lent(place: Place, *functions: Function) -> Place:
    def find() -> Place:
        return sites.find(sys._getframe(1), Thread(place))

    call: Function = find
    for function in reversed(functions):
        call = functools.partial(function, call)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()  # type: ignore[no-any-return]


def test_a_thread_without_a_line_of_the_users_goes_on_where_it_was_given_its_work(
    mine: Path,
) -> None:
    given = through(step(mine, "main"), step(mine, "save"), step(PACKAGES / "x.py", "submit"))
    place = lent(given, step(PACKAGES / "x.py", "write"))
    assert frames(place) == ["train.py:2 save", "train.py:2 main"]
    assert place.path() == ["submit", "write"]
    assert sites.resolve(place) == (f"{mine}:2", f"{PACKAGES / 'x.py'}:2")
    nothing_of_its_own = step(TORCH / "checkpoint.py")
    assert lent(given, nothing_of_its_own) is given
    assert lent(NOWHERE, step(PACKAGES / "x.py")).user_lines() == []
    assert sites.find(None, Thread(given)) is given


def test_behind_the_users_lines_in_a_thread_is_where_it_was_given_its_work(mine: Path) -> None:
    given = through(step(mine, "main"))
    source = "def work(call):\n    return call()\n"
    work = define(mine, source)["work"]
    with ThreadPoolExecutor(1) as pool:
        find = functools.partial(sites.find, thread=Thread(given))
        place = pool.submit(work, lambda: find(sys._getframe(1))).result()
        again = pool.submit(work, lambda: find(sys._getframe(1))).result()
    assert frames(place) == ["train.py:2 work", "train.py:2 main"]
    assert place is again
    assert sites.resolve(place) == (f"{mine}:2", None)
    assert place.is_direct


# -- numbers ---------------------------------------------------------------------------------


def book(sources: Sources | None = None) -> tuple[Stacks, list[Stack]]:
    written: list[Stack] = []
    return Stacks(written.append, threading.RLock(), sources), written


def test_each_stack_is_written_once_with_a_number(mine: Path) -> None:
    numbered, written = book()
    places = [through(step(mine, name), step(mine, "reduce")) for name in ("a", "b", "a")]
    assert places[0] is not places[2], "functions that were made again"
    assert [numbered.number(place) for place in places] == [1, 2, 1]
    assert [stack.stack for stack in written] == [1, 2]
    assert written[1].frames == [f"{mine}:2 reduce", f"{mine}:2 b"]
    assert written[1].path == []
    assert numbered.known == 2


def test_nothing_but_torch_is_no_stack() -> None:
    numbered, written = book()
    assert numbered.number(NOWHERE) is None
    assert written == []


def test_a_library_alone_is_a_stack_without_frames() -> None:
    numbered, written = book()
    assert numbered.number(through(step(PACKAGES / "x.py", "serve"))) == 1
    assert (written[0].frames, written[0].path) == ([], ["serve"])


def test_new_stacks_without_end_fill_no_memory(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_MOST", 3)
    numbered, written = book()
    for n in range(9):
        assert numbered.number(through(step(mine, f"made{n}"))) == n + 1
    assert len(numbered._numbers) <= 3
    assert len(written) == 9


def test_a_stack_that_could_not_be_written_is_written_when_it_comes_again(mine: Path) -> None:
    tries: list[Stack] = []

    def write(stack: Stack) -> None:
        tries.append(stack)
        if len(tries) == 1:
            raise OSError

    numbered = Stacks(write, threading.RLock(), None)
    place = through(step(mine))
    with pytest.raises(OSError):
        numbered.number(place)
    assert numbered.number(place) == 2
    assert [stack.stack for stack in tries] == [1, 2]


def test_new_files_are_asked_for(mine: Path) -> None:
    mine.write_text("def step(call):\n    return call()\n")
    sources = Sources()
    numbered, _ = book(sources)
    numbered.number(through(step(mine)))
    [file] = sources.take(60)
    assert isinstance(file, SourceFile)
    assert file.path == str(mine)
    numbered.number(through(step(mine), step(mine)))
    assert list(sources.take(60)) == []


# -- later segments --------------------------------------------------------------------------


def head(lines: list[bytes], most_bytes: int) -> list[str]:
    repeated = Repeated()
    for n, line in enumerate(lines, 1):
        repeated.add(line, n)
    found = repeated.head(most_bytes, lambda known: encode(Checkpoint(t=0, known_stacks=known)))
    return [line.decode() for line in found]


def test_a_segment_repeats_the_latest_that_have_room() -> None:
    lines = [b"%d\n" % n for n in range(10, 20)]
    assert head(lines, 1000) == [f"{n}\n" for n in range(10, 20)]
    assert head(lines, 9) == ["17\n", "18\n", "19\n"]
    assert head(lines, 2) == head([], 1000) == []
    assert len(head([b"1\n"] * 5000, 1 << 20)) == 2000


def test_a_reader_finds_a_checkpoint_in_every_stretch_of_them() -> None:
    line = b"x" * 999 + b"\n"
    found = head([line] * 200, 1 << 20)
    marks = [n for n, text in enumerate(found) if "checkpoint" in text]
    assert [n - marks.index(n) for n in marks] == [66, 132, 198]
    assert ['"known_stacks":66,' in found[marks[0]], '"known_stacks":198,' in found[marks[2]]]
