"""The program across groups: who left what most ranks of its kind went on with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from collectrace.align.alignment import compared
from collectrace.align.diagnosis import program
from collectrace.align.judging.case import Case, build
from collectrace.align.matching.deviations import Deviation
from collectrace.align.reading import run_reader
from collectrace.align.reading.rank_log import FileLog
from collectrace.findings import Alignment, Finding
from collectrace.records import Call, Stack
from tests.support.judging import LATER, aligned, case_of, errors
from tests.support.synthetic import Rank, Run

ROUNDS = 4

Step = Callable[[Rank], None]


def mesh(world: int = 4, tp: int = 2) -> Run:
    """A mesh of dp x tp; rank n is place n % tp of its tp group."""
    run = Run(world=world)
    for start in range(0, world, tp):
        run.group(f"tp{start}", range(start, start + tp), description="mesh_tp")
    for place in range(tp):
        run.group(f"dp{place}", range(place, world, tp), description="mesh_dp")
    return run


def tp_of(rank: Rank, tp: int = 2) -> str:
    return f"tp{rank.rank // tp * tp}"


def dp_of(rank: Rank, tp: int = 2) -> str:
    return f"dp{rank.rank % tp}"


def forward(rank: Rank) -> None:
    rank.call("all_gather_single", tp_of(rank), shape=[8], site="model.py:12")


def experts(rank: Rank) -> None:
    rank.call("all_to_all_single", tp_of(rank), shape=[4], site="moe.py:22")


def gradients(rank: Rank) -> None:
    rank.call("all_reduce", dp_of(rank), shape=[64], site="train.py:30")


ROUND: tuple[Step, ...] = (forward, experts, gradients)


def rounds(run: Run, count: int = ROUNDS, steps: tuple[Step, ...] = ROUND) -> None:
    for _ in range(count):
        for rank in run:
            for step in steps:
                step(rank)


def play(run: Run, scripts: Sequence[Sequence[Step]], *, ends: bool = False) -> Run:
    """Every rank runs its script; a collective returns when every member has come to it.

    Who is done goes on to another thing, or ends.
    """
    left = [list(script) for script in scripts]
    inside: dict[int, Call] = {}

    def counts(rank: Rank, group: str) -> int:
        return sum(isinstance(i, Call) and i.group == group for i in rank.items)

    def is_back(call: Call) -> bool:
        return all(counts(run.rank(n), call.group) >= call.seq for n in members(run, call.group))

    moved = True
    while moved:
        moved = False
        for rank in run:
            n = rank.rank
            if n in inside and is_back(inside[n]):
                del inside[n]
                moved = True
            if n not in inside and left[n]:
                left[n].pop(0)(rank)
                inside[n] = next(i for i in reversed(rank.items) if isinstance(i, Call))
                moved = True
                if ends and not left[n] and is_back(inside[n]):
                    del inside[n]
    now = max(rank.now - rank.header.t for rank in run)
    for rank in run:
        if rank.rank in inside:
            rank.now = rank.header.t + now
            rank.beat(60, rank.inside(inside[rank.rank]))
        elif ends:
            rank.exit()
    return run


def members(run: Run, group: str) -> list[int]:
    return list(run.rank(0)._groups[group].ranks)


def scripts(run: Run, odd: dict[int, Sequence[Step]], more: int = 2) -> list[list[Step]]:
    """Whole rounds; in the fifth, some ranks do other things."""
    whole, end = list(ROUND) * ROUNDS, list(ROUND) * more
    return [[*whole, *odd.get(rank.rank, ROUND), *end] for rank in run]


def program_finding(alignment: Alignment) -> Finding:
    return next(f for f in errors(alignment) if f.caused_by is None)


def silent(case: Case) -> bool:
    return not case.deviations


# -- a rank that left a call out ------------------------------------------------------------------


def left_out(run: Run) -> Run:
    """Rank 2 has no tokens: it goes on to the gradients, rank 3 waits in the exchange."""
    return play(run, scripts(run, {2: (forward, gradients)}))


def test_a_rank_that_left_out_a_call_is_told_by_the_others_of_its_kind(tmp_path: Path) -> None:
    alignment = aligned(left_out(mesh()), tmp_path)
    found = program_finding(alignment)
    assert (found.kind, found.suspects) == ("op_mismatch", (2,))
    assert "Rank 2 left out all_to_all_single at moe.py:22; ranks 0-1,3 made it." in found.cause


def test_a_circle_of_groups_has_a_suspect_where_the_program_tells(tmp_path: Path) -> None:
    """The experts of a replica are all its ranks: they wait there, rank 2 for the gradients."""
    run = Run(world=4)
    run.group("ep", range(4), description="mesh_ep")
    for name, pair in (("a", [0, 2]), ("b", [1, 3])):
        run.group(name, pair, description="mesh_dp")

    def exchange(rank: Rank) -> None:
        rank.call("all_to_all_single", "ep", shape=[4], site="moe.py:22")

    def reduce(rank: Rank) -> None:
        rank.call("all_reduce", "ab"[rank.rank % 2], shape=[64], site="train.py:30")

    whole = [exchange, reduce] * ROUNDS
    play(run, [[*whole, *((reduce,) if n == 2 else (exchange, reduce))] for n in range(4)])
    found = program_finding(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("deadlock", (2,))
    assert found.headline == "rank 2 left out all_to_all_single at moe.py:22; ranks 0-1,3 made it"
    assert "gone on to all_reduce at train.py:30, and waits there" in found.cause


def test_one_finding_tells_all_that_came_of_it(tmp_path: Path) -> None:
    alignment = aligned(left_out(mesh()), tmp_path)
    assert sum(f.caused_by is None for f in errors(alignment)) == 1


def test_two_ranks_alone_are_ambiguous(tmp_path: Path) -> None:
    run = Run(world=2)
    for name in ("a", "b"):
        run.group(name, [0, 1], description=name)
    for _ in range(ROUNDS):
        run.all("all_reduce", "a", site="t.py:1")
        run.all("all_reduce", "b", site="t.py:2")
    for rank, group in zip(run, "ab", strict=True):
        call = rank.call("all_reduce", group, site=f"t.py:{'ab'.index(group) + 1}")
        rank.beat(60, rank.inside(call))
    found = program_finding(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("deadlock", ())


def test_nothing_is_said_before_a_round_has_been_repeated(tmp_path: Path) -> None:
    run = mesh()
    play(run, [(forward, gradients) if n == 2 else ROUND for n in range(4)])
    assert silent(case_of(run, tmp_path))


def test_half_of_the_ranks_of_a_kind_prove_nothing(tmp_path: Path) -> None:
    run = mesh()
    play(run, scripts(run, {1: (forward, gradients), 2: (forward, gradients)}))
    assert silent(case_of(run, tmp_path))


def test_ranks_of_which_nothing_is_known_might_be_on_either_side(tmp_path: Path) -> None:
    run = left_out(mesh())
    run.omit(3)
    assert silent(case_of(run, tmp_path))


def test_a_log_that_lost_calls_has_no_program(tmp_path: Path) -> None:
    run = mesh()
    run.rank(1).call("barrier", lost=True)
    assert silent(case_of(left_out(run), tmp_path))


def test_logs_read_in_part_say_nothing(tmp_path: Path) -> None:
    run = left_out(mesh())
    run.write(tmp_path)
    case = build(compared(run_reader.read(tmp_path)), now=LATER)
    assert case.deviations
    for log in case.evidence.logs.values():
        cast(FileLog, log).scanned = False
    assert silent(build(case.comparison, now=LATER))


# -- a call too many, calls that are swapped, another group ---------------------------------------


def extra(rank: Rank) -> None:
    rank.call("all_reduce", dp_of(rank), shape=[1], site="log.py:7")


def test_a_rank_that_made_a_call_too_many(tmp_path: Path) -> None:
    run = mesh()
    play(run, scripts(run, {2: (forward, experts, extra, gradients)}))
    found = program_finding(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("shape_mismatch", (2,))
    assert "Rank 2 made all_reduce at log.py:7, and ranks 0-1,3 did not" in found.cause


@pytest.mark.parametrize(("more", "told"), [(0, ["swapped"]), (1, [])])
def test_a_rank_that_swapped_two_calls(more: int, told: list[str], tmp_path: Path) -> None:
    """It matters where it is held up in them; who got past them did no harm."""
    run = mesh()
    rounds(run)
    for rank in run:
        forward(rank)
        for step in (gradients, experts) if rank.rank == 2 else (experts, gradients):
            step(rank)
    rounds(run, more)
    case = case_of(run, tmp_path)
    assert [one.what for one in case.deviations] == told
    assert all(one.ranks == (2,) for one in case.deviations)


def wrong_group(rank: Rank) -> None:
    rank.call("all_to_all_single", dp_of(rank), shape=[4], site="moe.py:22")


def test_a_rank_that_passed_another_group(tmp_path: Path) -> None:
    run = mesh()
    play(run, scripts(run, {2: (forward, wrong_group, gradients)}))
    found = program_finding(aligned(run, tmp_path))
    assert found.suspects == (2,)
    assert (
        "Rank 2 called all_to_all_single at moe.py:22 on group mesh_dp, ranks 0-1,3 on group "
        "mesh_tp"
    ) in found.cause


def test_a_rank_that_ended_earlier(tmp_path: Path) -> None:
    run = mesh()
    play(run, [ROUND * (3 if n == 2 else 5) for n in range(4)], ends=True)
    found = program_finding(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("missing_call", (2,))


# -- where ranks legally differ -------------------------------------------------------------------


def test_a_replica_that_evaluates_alone_is_no_suspect(tmp_path: Path) -> None:
    """Ranks 2 and 3 make calls of their own among themselves; nobody waits for them there."""

    def evaluate(rank: Rank) -> None:
        rank.call("all_reduce", "tp2", site="eval.py:3")

    run = mesh(world=8)
    whole = list(ROUND) * ROUNDS
    own = {2: [evaluate], 3: [evaluate]}
    bad = (forward, gradients)
    play(
        run,
        [[*whole, *own.get(n, ()), *ROUND, *(bad if n == 6 else ROUND)] for n in range(8)],
    )
    case = case_of(run, tmp_path)
    assert [one.ranks for one in case.deviations] == [(6,)]


def test_a_replica_that_evaluates_with_one_rank_behind_is_no_suspect(tmp_path: Path) -> None:
    run = mesh(world=8)
    rounds(run)
    for n, count in ((2, 5), (3, 4)):
        run.rank(n).calls(count, "all_reduce", "tp2", site="eval.py:3")
    for n in (0, 1, 4, 5, 6, 7):
        forward(run.rank(n))
    case = case_of(run, tmp_path)
    assert silent(case)


def test_a_rank_with_a_group_of_its_own_is_of_another_kind(tmp_path: Path) -> None:
    """Ranks 0 and 3 are two of a kind, and so are 1 and 2."""

    def log(rank: Rank) -> None:
        rank.call("gather", "log", site="log.py:3")

    run = mesh()
    run.group("log", [0, 3], description="logging")
    own: dict[int, list[Step]] = {0: [log], 3: [log]}
    play(
        run,
        [
            [*[*ROUND, *own.get(n, ())] * ROUNDS, *((gradients,) if n == 3 else ROUND)]
            for n in range(4)
        ],
    )
    assert silent(case_of(run, tmp_path))


def test_stages_of_a_pipeline_are_of_different_kinds(tmp_path: Path) -> None:
    """Ranks 0, 1, 2 are the first stages of three pipelines, 3, 4, 5 the last ones."""
    run = Run(world=6)
    run.group("first", [0, 1, 2], description="mesh_dp")
    run.group("last", [3, 4, 5], description="mesh_dp")
    for n in range(3):
        run.group(f"pp{n}", [n, n + 3], description="mesh_pp")
    for _ in range(ROUNDS):
        for n in range(3):
            a, b = run.rank(n), run.rank(n + 3)
            a.send(n + 3, group=f"pp{n}", site="stage.py:5")
            b.recv(n, group=f"pp{n}", site="stage.py:5")
        for n in range(6):
            run.rank(n).call("all_reduce", "first" if n < 3 else "last", site="t.py:9")
    for n in (0, 1, 2):
        run.rank(n).call("barrier", "first", site="t.py:11")
    run.rank(5).call("all_reduce", "last", site="t.py:9")
    assert silent(case_of(run, tmp_path))


def test_a_queue_of_work_has_no_program(tmp_path: Path) -> None:
    """Rank 0 hands out work; how many pieces a worker gets is chance."""
    run = Run(world=4)
    run.group("g", [0, 1, 2, 3], description="results")
    for n, pieces in ((1, 5), (2, 5), (3, 9)):
        for _ in range(pieces):
            run.rank(0).send(n, site="queue.py:3")
            run.rank(n).recv(0, site="queue.py:9")
            run.rank(n).send(0, site="queue.py:10")
            run.rank(0).recv(n, site="queue.py:4")
    run.all("barrier", "g", site="queue.py:20")
    run.finish()
    assert silent(case_of(run, tmp_path))


@pytest.mark.parametrize("thread", ["Thread-1", None])
def test_calls_of_several_threads_have_no_order(thread: str | None, tmp_path: Path) -> None:
    def save(rank: Rank) -> None:
        rank.call("all_reduce", dp_of(rank), site="save.py:4", thread=thread)

    run = mesh()
    rounds(run, ROUNDS, (forward, save, experts))
    for n, rank in enumerate(run):
        forward(rank)
        (experts if n == 2 else save)(rank)
    assert silent(case_of(run, tmp_path)) == (thread is not None)


# -- threads that the main one waits for, and calls that no round before had -----------------------

JOINING = ["/job/train.py:30 main", "/usr/lib/python3.11/concurrent/futures/_base.py:451 result",
           "/usr/lib/python3.11/threading.py:327 wait"]  # fmt: skip
WORKING = ["/job/train.py:30 main", "/job/train.py:44 load"]


def savers(saved: int, *, stack: list[str], rank_two_saves: bool = False) -> Run:
    """Three ranks train on one group and save on another, in a thread; rank 2 does not, once.

    ``saved``: rounds before in which all of them saved.
    """
    run = Run(world=3)
    run.group("1", range(3), description="savers")

    def train(rank: Rank) -> Call:
        return rank.call("all_reduce", site="train.py:28")

    def save(rank: Rank) -> Call:
        return rank.call("barrier", "1", site="train.py:30", thread="saver")

    for n in range(3):
        for rank in run:
            train(rank)
            if n < saved:
                save(rank)
    for rank in run:
        train(rank)
        if rank.rank == 2 and not rank_two_saves:
            rank.beat(60, rank.inside(train(rank)))
            continue
        inside = rank.inside(save(rank), thread="saver")
        rank.beat(50, inside)
        rank.stall(inside, stacks={"MainThread (17)": stack, "saver (18)": []})
        rank.beat(10, inside)
    return run


@pytest.mark.parametrize("saved", [3, 0])
def test_a_thread_that_the_main_one_waits_for_has_its_turn(saved: int, tmp_path: Path) -> None:
    found = program_finding(aligned(savers(saved, stack=JOINING), tmp_path))
    assert found.suspects == (2,)
    assert "Rank 2 left out barrier at train.py:30 in thread saver; ranks 0-1 made it" in (
        found.cause
    )


@pytest.mark.parametrize("saved", [3, 0])
def test_a_thread_beside_a_main_one_that_works_has_none(saved: int, tmp_path: Path) -> None:
    assert silent(case_of(savers(saved, stack=WORKING), tmp_path))


def test_nothing_is_said_where_all_made_it(tmp_path: Path) -> None:
    assert silent(case_of(savers(0, stack=JOINING, rank_two_saves=True), tmp_path))


def test_nothing_is_said_where_one_of_the_others_has_gone_on(tmp_path: Path) -> None:
    """Rank 0 did not wait for rank 2 in that call: what it is to the others is not known."""
    run = Run(world=3)
    run.group("1", range(3), description="savers")
    for _ in range(3):
        for rank in run:
            rank.call("all_reduce", site="train.py:28")
    for rank in run:
        group, line = ("1", 40) if rank.rank < 2 else ("0", 28)
        call = rank.call("all_reduce", group, site=f"train.py:{line}")
        if rank.rank == 0:
            call = rank.call("all_reduce", "1", site="train.py:41")
        rank.beat(60, rank.inside(call))
    assert silent(case_of(run, tmp_path))


def test_a_call_too_many_is_told_by_its_caller(tmp_path: Path) -> None:
    run = Run(world=4)
    rank = run.rank(0)
    rank.record(Stack(stack=1, frames=["comm.py:16 average", "train.py:24 <module>"]))
    call = rank.call("all_reduce", site="comm.py:16", stack=1)
    found = Deviation("extra", (0,), (1, 2, 3), (call,), {})
    made = "rank 0 made all_reduce at comm.py:16, called at train.py:24, and ranks 1-3 did not"
    assert program.told(case_of(run, tmp_path), found) == made
