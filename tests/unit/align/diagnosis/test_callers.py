"""Where a call was made, in words: the line of a helper, and the line that called it."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from collectrace.align.diagnosis import callers, lone_line, mismatch, parted
from collectrace.align.judging.case import Case
from collectrace.align.judging.judge import judge
from collectrace.align.reading import chains
from collectrace.records import Call, Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run

SCRIPT = """\
class Comm:
    def mean(self, value):
        dist.all_reduce(value)
    def total(self, value):
        if self.size > 1:
            dist.all_reduce(value)
    def flat(self, model):
        for parameter in model:
            dist.all_reduce(parameter)
def clip():
    comm.mean(norm)
    comm.flat(model)
def main():
    for step in range(9):
        clip()
        comm.mean(loss)
        comm.total(loss)
def report():
    comm.mean(loss)
def epoch():
    for batch in loader:
        dist.barrier()
for _ in range(3):
    report()
    epoch()
main()
"""


class Traced:
    """Two ranks that make the same calls, each of a stack of the lines of a script.

    A frame may name another file before its line.
    """

    def __init__(self, folder: Path, *stacks: list[str]) -> None:
        script = folder / "train.py"
        script.write_text(SCRIPT)
        run = Run(2)
        calls = list[Call]()
        for rank in run:
            for n, frames in enumerate(stacks):
                named = [f"{folder / (f if '.py:' in f else f'train.py:{f}')}" for f in frames]
                rank.record(Stack(stack=n + 1, frames=named))
                site = named[0].partition(" ")[0]
                calls.append(rank.call("all_reduce", site=site, stack=n + 1))
        self.case: Case = case_of(run, folder / "logs")
        self.calls = calls
        self.first = calls[0]

    def place(self, *, brief: bool = False) -> str:
        return callers.place_of(self.case, 0, self.first, brief=brief)


MEAN = "3 Comm.mean"
CLIP = ["11 clip", "15 main", "26 <module>"]


@pytest.mark.parametrize(
    ("stack", "told"),
    [
        pytest.param(
            [MEAN, *CLIP], " at train.py:3 in Comm.mean(), called at train.py:11 in clip()",
            id="no condition of its own",
        ),
        pytest.param(
            [MEAN, "24 <module>"], " at train.py:3 in Comm.mean(), called at train.py:24",
            id="called in a loop of the script",
        ),
        pytest.param(
            [MEAN, "26 <module>"], " at train.py:3 in Comm.mean()", id="called once by the script"
        ),
        pytest.param(
            ["6 Comm.total", "17 main", "26 <module>"], " at train.py:6 in Comm.total()",
            id="under a condition of its own",
        ),
        pytest.param(
            ["22 epoch", "25 <module>"], " at train.py:22 in epoch()", id="the loop of the program"
        ),
        pytest.param(
            ["9 Comm.flat", "12 clip", "15 main"], " at train.py:9 in Comm.flat()",
            id="a loop, and nothing else through its caller",
        ),
        pytest.param(["24 <module>"], " at train.py:24", id="no function at all"),
    ],
)  # fmt: skip
def test_the_caller_is_named_where_the_function_tells_nothing(
    stack: list[str], told: str, tmp_path: Path
) -> None:
    assert Traced(tmp_path, stack).place() == told


def test_the_caller_is_named_where_there_are_several(tmp_path: Path) -> None:
    traced = Traced(
        tmp_path, ["6 Comm.total", "17 main"], ["6 Comm.total", "19 report", "24 <module>"]
    )
    assert traced.place() == " at train.py:6 in Comm.total(), called at train.py:17 in main()"
    assert traced.place(brief=True) == " at train.py:6, called at train.py:17"
    told = callers.telling(traced.case, 0, traced.first)
    assert (told.site or "").endswith("train.py:17")


def test_a_line_of_one_caller_tells_itself(tmp_path: Path) -> None:
    traced = Traced(tmp_path, [MEAN, *CLIP])
    assert callers.telling(traced.case, 0, traced.first) is traced.first


def test_a_loop_over_parameters_beside_other_calls_of_its_caller(tmp_path: Path) -> None:
    traced = Traced(tmp_path, ["9 Comm.flat", "12 clip", "15 main"], [MEAN, *CLIP])
    assert traced.place(brief=True) == " at train.py:9, called at train.py:12"


def test_a_call_is_named_before_others_of_its_stack_are_read(tmp_path: Path) -> None:
    traced = Traced(tmp_path, ["9 Comm.flat", "12 clip"])
    script = tmp_path / "train.py"
    later = Call(
        t=1, seq=9, group="0", device="cpu", op="recv", role="user", site=f"{script}:9",
    )  # fmt: skip
    frames = [f"{script}:9 Comm.flat", f"{script}:90 unheard_of"]
    with mock.patch.object(Case, "stack", return_value=frames):
        assert callers.place_of(traced.case, 0, later) == " at train.py:9 in Comm.flat()"


def test_a_caller_further_out_is_reached_from(tmp_path: Path) -> None:
    traced = Traced(tmp_path, [MEAN, *CLIP])
    frames = traced.case.stack(0, traced.first)
    told = callers.place_of(traced.case, 0, traced.first, within=frames[2])
    assert told == " at train.py:3 in Comm.mean(), reached from train.py:15 in main()"
    borne = callers.at_depth(traced.first, frames, 2)
    assert callers.place_of(traced.case, 0, borne) == told


SEND = ["6 Comm.total", "3 Comm.mean"]


@pytest.mark.parametrize(
    ("stacks", "told"),
    [
        pytest.param(
            ([*SEND, "19 report"], [*SEND, "16 main"], ["6 Comm.total", "17 main"]),
            " at train.py:6, reached from train.py:19", id="a helper that another serves",
        ),
        pytest.param(
            ([*SEND, "19 report"], ["6 Comm.total", "17 main"]),
            " at train.py:6, called at train.py:3", id="whose caller is of one line",
        ),
        pytest.param(
            (
                [*SEND, "19 report"], [*SEND, "16 main"], ["6 Comm.total", "17 main"],
                ["2 Comm.mean", "16 main"],
            ),
            " at train.py:6, called at train.py:3", id="whose caller calls other things, too",
        ),
        pytest.param(
            (
                ["6 Comm.total", "9 Comm.flat", "12 clip"],
                ["6 Comm.total", "9 Comm.flat", "19 report"], ["6 Comm.total", "17 main"],
            ),
            " at train.py:6, called at train.py:9", id="whose caller has a loop of its own",
        ),
    ],
)  # fmt: skip
def test_out_of_helpers(stacks: tuple[list[str], ...], told: str, tmp_path: Path) -> None:
    traced = Traced(tmp_path, *stacks)
    assert callers.at_its_line(traced.case, 0, traced.first) == told


# -- a module of helpers ---------------------------------------------------------------------------

MODULE = """\
def ship(value):
    dist.send(header)
    dist.send(value)
def saved(value):
    for attempt in range(2):
        try:
            return ship(value)
        except OSError:
            pass
def fit(loader):
    for batch in loader:
        ship(batch)
class Room:
    def __del__(self):
        dist.barrier()
    def forward(self, value):
        dist.all_reduce(value)
"""
LOOP = ["t 16 main", "t 26 <module>"]


def through_module(folder: Path, *stacks: list[str]) -> Traced:
    """Calls of stacks of frames ``h 2 ship``, of a module of helpers, and ``t 16 main``."""
    (folder / "helper.py").write_text(MODULE)
    files = {"h": "helper.py", "t": "train.py"}
    return Traced(folder, *([f"{files[f[0]]}:{f[2:]}" for f in frames] for frames in stacks))


@pytest.mark.parametrize(
    ("stack", "told"),
    [
        pytest.param(
            ["h 2 ship", *LOOP], " at helper.py:2, called at train.py:16", id="one line in a loop"
        ),
        pytest.param(
            ["h 2 ship", "h 7 saved", *LOOP], " at helper.py:2, reached from train.py:16",
            id="a retry returns from its loop",
        ),
        pytest.param(
            ["h 2 ship", "t 11 clip", *LOOP], " at helper.py:2, called at train.py:11",
            id="a line of a function called in a loop",
        ),
        pytest.param(
            ["h 2 ship", "h 12 fit", *LOOP], " at helper.py:2", id="the loop is the module's own"
        ),
        pytest.param(["h 2 ship", "t 26 <module>"], " at helper.py:2", id="used once, in no loop"),
        pytest.param(
            ["h 2 ship", "t 16 main", "h 7 saved", "t 16 main"], " at helper.py:2",
            id="the program handed its function to the other file",
        ),
        pytest.param(["h 15 Room.__del__", *LOOP], " at helper.py:15", id="a finalizer"),
        pytest.param(["h 17 Room.forward", *LOOP], " at helper.py:17", id="a model that is run"),
        pytest.param(["t 3 Comm.mean", *LOOP], " at train.py:3", id="no other file"),
    ],
)  # fmt: skip
def test_the_use_of_a_helper_module_is_named(stack: list[str], told: str, tmp_path: Path) -> None:
    traced = through_module(tmp_path, stack)
    assert callers.at_its_line(traced.case, 0, traced.first) == told
    assert callers.telling(traced.case, 0, traced.first) is traced.first


def test_a_module_of_several_uses_is_told_by_the_line_that_used_it(tmp_path: Path) -> None:
    traced = through_module(tmp_path, ["h 2 ship", *LOOP], ["h 7 saved", "t 17 main", LOOP[1]])
    told = callers.telling(traced.case, 0, traced.first)
    assert (told.site or "").endswith("train.py:16")


def test_the_chain_goes_on_out_of_the_module(tmp_path: Path) -> None:
    traced = through_module(tmp_path, ["h 2 ship", "h 7 saved", *LOOP])
    told = " at helper.py:2, called at helper.py:7, reached from train.py:16"
    assert traced.place(brief=True) == told


# -- lines of one kind -----------------------------------------------------------------------------


END = "26 <module>"


@pytest.mark.parametrize(
    ("other", "line"),
    [
        pytest.param(["3 Comm.mean", "11 clip", "15 main", END], 15, id="in a helper of a helper"),
        pytest.param(["6 Comm.total", "15 main", END], 6, id="under a condition of its own"),
        pytest.param(["22 forward", "15 main", END], 22, id="of a model"),
        pytest.param(["3 Comm.mean", "15 epoch", END], 3, id="from another function"),
        pytest.param(["3 Comm.mean", "17 main", END], 3, id="from the same line"),
        pytest.param(["3 Comm.mean", "19 report", "24 <module>"], 3, id="parted further out"),
        pytest.param(["15 main", END], 15, id="in no helper"),
    ],
)  # fmt: skip
def test_calls_that_met_are_told_by_lines_of_one_function(
    other: list[str], line: int, tmp_path: Path
) -> None:
    led = ["9 Comm.flat", "17 main", END]
    traced = Traced(tmp_path, other, led, ["9 Comm.flat", "19 report", "24 <module>"])
    told = callers.telling_each(traced.case, [(0, call) for call in traced.calls[:2]])
    assert [chains.line(call.site or "") for call in told] == [line, 17]


def test_calls_that_all_tell_themselves_stay_as_they_are(tmp_path: Path) -> None:
    traced = Traced(tmp_path, [MEAN, *CLIP], ["22 epoch", "25 <module>"])
    both = traced.calls[:2]
    assert callers.telling_each(traced.case, [(0, call) for call in both]) == both


def test_what_names_a_caller_is_closed_by_a_comma() -> None:
    assert callers.closed("a barrier at a.py:1") == "a barrier at a.py:1"
    assert callers.closed("a.py:1, called at b.py:2") == "a.py:1, called at b.py:2,"


def test_a_callers_line_that_others_came_to_before_is_not_one_ranks_own(tmp_path: Path) -> None:
    """All calls come from one helper: its line says nothing about who was where."""
    apart, known = ("11 clip", "17 main"), ("16 main", "26 <module>")
    for outer, alone in (known, ""), (apart, " Only rank 0 ever came to train.py:11."):
        folder = tmp_path / outer[0][:2]
        folder.mkdir()
        (folder / "train.py").write_text(SCRIPT)
        run = Run(3)
        for rank in run:
            for n, frames in enumerate(((MEAN, "19 report"), (MEAN, *known), (MEAN, *outer))):
                named = [f"{folder / 'train.py'}:{frame}" for frame in frames]
                rank.record(Stack(stack=n + 1, frames=named))
            numbers = (1, 2, 1, 2, 3) if rank.rank == 0 else (1, 2, 1, 2, 1)
            for row, n in enumerate(numbers):
                size = 9 if (row, rank.rank) == (4, 0) else 4
                site = f"{folder / 'train.py'}:3"
                last = rank.call("all_reduce", site=site, stack=n, shape=[size])
            rank.beat(60, rank.inside(last))
        case = case_of(run, folder / "logs")
        candidate = judge(case)[0]
        assert candidate.suspects == (0,)
        assert lone_line.told(case, candidate) == alone


# -- one line of a model, reached from two lines ---------------------------------------------------


def unsharded(folder: Path, *rounds: tuple[tuple[int, int], tuple[int, int]]) -> tuple[Case, str]:
    """Per row the lines and the sizes of two ranks' unshards from line 3; the words at the end."""
    run = Run(2)
    for rank in run:
        for line in (11, 16, 19):
            frames = ["/job/train.py:3 forward", f"/job/train.py:{line} step"]
            rank.record(Stack(stack=line, frames=frames))
    for row in rounds:
        for rank, (line, size) in zip(run, row, strict=True):
            last = rank.call(
                "all_gather_single", site="/job/train.py:3", stack=line, shape=[size],
                out_shape=[2 * size], role="fsdp.unshard", part="layers.0",
            )  # fmt: skip
            if row is rounds[-1]:
                rank.beat(60, rank.inside(last))
    case = case_of(run, folder)
    candidate = judge(case)[0]
    assert candidate.kind == "shape_mismatch"
    return case, mismatch.explain(case, candidate).cause


STUDENT, TEACHER = (11, 4), (16, 9)


def test_two_models_at_one_line_are_no_shards_of_two_sizes(tmp_path: Path) -> None:
    both, other = (STUDENT, STUDENT), (TEACHER, TEACHER)
    _, cause = unsharded(tmp_path, both, other, both, other, both, (STUDENT, TEACHER))
    assert cause.startswith(
        "At call 6 rank 0 is at train.py:11 (FSDP unshard of layers.0 at train.py:3), rank 1 at "
        "train.py:16 (FSDP unshard of layers.0 at train.py:3), where before each line met the "
        "same line of the others."
    )
    assert "sizes" not in cause


def test_one_model_whose_sizes_differ(tmp_path: Path) -> None:
    both = (STUDENT, STUDENT)
    case, cause = unsharded(tmp_path, both, both, (STUDENT, (11, 9)))
    assert "got tensors of different sizes" in cause
    assert parted.modules_here(case, judge(case)[0]) is None


def test_ranks_that_always_came_from_lines_of_their_own_have_not_parted(tmp_path: Path) -> None:
    apart = (STUDENT, (19, 4))
    _, cause = unsharded(tmp_path, apart, apart, (STUDENT, (19, 9)))
    assert "got tensors of different sizes" in cause


def sized(folder: Path, *frames: str, role: str) -> str:
    """The words about a call of these frames, of another size on rank 1."""
    run = Run(2)
    for rank in run:
        rank.record(Stack(stack=1, frames=list(frames)))
        for n in range(4):
            size = 5 if (n, rank.rank) == (3, 1) else 4
            last = rank.call("all_reduce", site="/job/net.py:40", stack=1, shape=[size], role=role)
        rank.beat(60, rank.inside(last))
    case = case_of(run, folder)
    return mismatch.explain(case, judge(case)[0]).cause


BLOCK, NET = "/job/net.py:40 Block.forward", "/job/net.py:62 Net.forward"


def test_who_ran_the_model_is_named_for_what_a_forward_issues(tmp_path: Path) -> None:
    told = sized(tmp_path, BLOCK, NET, "/job/train.py:78 train", role="dtensor.redistribute")
    assert (
        "(all_reduce) at net.py:40 in Block.forward(), reached from train.py:78 in train(), got"
    ) in told


def test_nobody_who_ran_the_model_is_known(tmp_path: Path) -> None:
    for n, frames in enumerate([(BLOCK,), (BLOCK, NET), ("/job/net.py:40 Block.step", NET)]):
        told = sized(tmp_path / str(n), *frames, role="dtensor.redistribute")
        assert told.startswith("The DTensor redistribute (all_reduce) got tensors")


def test_who_went_backwards_is_named_for_what_a_function_of_autograds_issues(
    tmp_path: Path,
) -> None:
    helper, backward = "/job/net.py:40 swapped", "/job/net.py:52 Swap.backward"
    own = "/job/train.py:78 Trainer.backward"
    told = sized(tmp_path / "one", helper, backward, own, "/job/train.py:90 main", role="user")
    assert "at net.py:40 in swapped(), reached from train.py:78 in Trainer.backward(), got" in told
    further = "/job/train.py:60 step", "/job/train.py:70 epoch", own
    told = sized(tmp_path / "other", helper, *further, role="user")
    assert "Trainer.backward" not in told
