"""Who alone is under a condition that asks for the rank: when that proves it, in a tie too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.by_rank import ByRank, by_rank
from collectrace.align.judging.judge import judge
from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Run

SOURCE = """\
def save():
    wait_for_all()
def report():
    if rank == 0:
        barrier()
def fit():
    for epoch in range(9):
        for batch in data:
            model(batch).backward()
        if rank == 0:
            save()
        report()
        if is_main_process():
            save()
        else:
            work()
        if args.local_rank != -1:
            save()
        if rank != 0:
            keep()
        if full:
            work()
    if rank == 0:
        save()
    finish()
fit()
def several():
    for size in sizes:
        fit()
def choose():
    for n in range(9):
        if odd:
            gather()
        elif rank == 0:
            save()
        if rank < 4:
            gather()
            if rank == 0:
                save()
if rank == 0:
    save()
def serve():
    if rank == 0:
        save()
        return
    if rank == 0:
        save()
        sys.exit(0)
    if rank == 0:
        save()
        work()
    gather()
def export():
    if rank != 0:
        return
    one()
def published():
    for n in range(9):
        if rank != 0 and not everywhere:
            print("not here")
            continue
        two()
def by_data():
    if rank != 0 and not len(batches):
        return
    three()
def with_a_part_of_their_own():
    if rank != 0:
        receive()
        return
    four()
def within_a_condition():
    if debug:
        if rank != 0:
            return
    five()
def out_of_the_loop():
    for n in range(9):
        if rank != 0:
            break
        six()
def wait():
    if rank == 0:
        return
    seven()
def let_in():
    if rank != 0:
        return
    seven()
for epoch in epochs:
    train()
    export()
def of_each_host():
    for n in range(9):
        train()
        if local_rank == 0:
            save()
of_each_host()
"""

Call = dict[str, Any]


def bucket(*lines: int) -> Call:
    return {"op": "all_reduce", "shape": [42], "role": "ddp.backward.bucket", "at": lines}


def barrier(*lines: int, **more: Any) -> Call:
    return {"op": "barrier", "at": lines} | more


TRAIN = bucket(9, 26)
SAVE = barrier(2, 11, 26)
FUNCTIONS = (
    {2: "save", 5: "report", 26: "<module>", 29: "several", 41: "<module>"}
    | dict.fromkeys(range(31, 40), "choose")
    | dict.fromkeys(range(43, 53), "serve")
    | dict.fromkeys(range(53, 90), "export")
    | dict.fromkeys(range(90, 93), "<module>")
    | dict.fromkeys(range(93, 98), "of_each_host")
    | {98: "<module>"}
)


def told(folder: Path, *programs: Sequence[Call], **how: Any) -> Finding:
    """The first finding about such a run."""
    return errors(aligned(made(folder, *programs, **how), folder / "logs"))[0]


def made(
    folder: Path,
    *programs: Sequence[Call],
    ends: Mapping[int, str] | None = None,
    stacks: bool = True,
    dropped: int = 0,
    pairs: bool = False,
) -> Run:
    """Ranks that made these calls, and wait in the last of them; or ended behind it.

    ``pairs``: each two ranks are a group of one dimension.
    """
    train = folder / "train.py"
    train.parent.mkdir(exist_ok=True)
    train.write_text(SOURCE)
    run = Run(len(programs))
    for n in range(0, len(programs) if pairs else 0, 2):
        run.group(f"tp{n // 2}", [n, n + 1], description="mesh_tp")
    for rank, program in zip(run, programs, strict=True):
        group = f"tp{rank.rank // 2}" if pairs else "0"
        known: dict[tuple[str, ...], int] = {}
        for one in program:
            fields = dict(one)
            batch = fields.pop("batch", None)
            if batch is not None:
                rank.batch(**batch)
            frames = tuple(f"{train}:{n} {FUNCTIONS.get(n, 'fit')}" for n in fields.pop("at"))
            if stacks:
                if frames not in known:
                    known[frames] = len(known) + 1
                    rank.record(Stack(stack=known[frames], frames=list(frames)))
                fields["stack"] = known[frames]
            site = fields.pop("site", frames[0].partition(" ")[0])
            call = rank.call(fields.pop("op"), group, site=site, **fields)
        end = (ends or {}).get(rank.rank)
        if end is None:
            rank.beat(60, rank.inside(call))
        if end or dropped:
            rank.exit(end or "exception", dropped=dropped)
    return run


def of_run(folder: Path, run: Run) -> ByRank | None:
    """What is found of the first candidate."""
    case = case_of(run, folder / "logs")
    return by_rank(case, judge(case)[0])


def test_a_call_of_one_rank_against_a_framework(tmp_path: Path) -> None:
    found = told(tmp_path, [TRAIN, TRAIN, SAVE], [TRAIN, TRAIN, TRAIN])
    assert found.suspects == (0,)
    assert "Only rank 0 was under `if rank == 0:` (train.py:10), which asks for the rank" in (
        found.cause
    )
    assert "Take the barrier at train.py:2" in found.fix
    assert "batches" not in found.cause + found.fix
    assert "ambiguous" not in found.cause


def test_the_call_of_a_framework_under_the_condition(tmp_path: Path) -> None:
    shard = {"op": "all_gather_single", "role": "fsdp.state_dict", "at": (2, 11, 26)}
    found = told(tmp_path, [TRAIN, TRAIN, shard], [TRAIN, TRAIN, TRAIN])
    assert found.suspects == (0,)
    assert "ambiguous" not in found.cause


def test_a_callback_of_a_framework_that_the_others_are_in(tmp_path: Path) -> None:
    """Which calls it from its own loop: no line of the user's tells who is further on."""
    train = bucket(26)
    found = told(tmp_path, [train, train, barrier(5, 26)], [train, train, train])
    assert found.suspects == (0,)


def test_half_of_four_ranks(tmp_path: Path) -> None:
    train = bucket(95, 98)
    mine, others = [train, barrier(2, 97, 98)], [train, train]
    assert told(tmp_path, mine, others, mine, others).suspects == (0, 2)


def test_a_rank_that_the_condition_keeps_out(tmp_path: Path) -> None:
    """The name has been given something else: which of the two is wrong is not known."""
    assert told(tmp_path, [TRAIN, TRAIN], [TRAIN, SAVE]).suspects == ()


def test_the_condition_is_in_the_function_that_only_one_is_in(tmp_path: Path) -> None:
    found = told(tmp_path, [TRAIN, barrier(5, 12, 26)], [TRAIN, TRAIN])
    assert found.suspects == (0,)
    assert "(train.py:4)" in found.cause


def test_without_stacks_by_the_lines_of_one_function(tmp_path: Path) -> None:
    assert told(tmp_path, [TRAIN, barrier(11)], [TRAIN, TRAIN], stacks=False).suspects == (0,)
    assert told(tmp_path, [TRAIN, barrier(5)], [TRAIN, TRAIN], stacks=False).suspects == ()


def test_a_branch_for_the_others(tmp_path: Path) -> None:
    """They may have come through it, and have missed their call there."""
    assert told(tmp_path, [TRAIN, barrier(2, 14, 26)], [TRAIN, TRAIN]).suspects == ()


@pytest.mark.parametrize(("line", "suspects"), [(44, ()), (47, ()), (50, (0,))])
def test_a_branch_that_ends_in_leaving(
    line: int, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    """What stands behind it is for the others: either may be the wrong one."""
    other = {"op": "all_gather", "at": (52, 41)}
    assert told(tmp_path, [barrier(2, line, 41)], [other]).suspects == suspects


@pytest.mark.parametrize(
    ("line", "guard"),
    [
        pytest.param(56, 54, id="return"),
        pytest.param(62, 59, id="continue, and a flag"),
        pytest.param(66, None, id="by what a rank holds, too"),
        pytest.param(71, None, id="the others have a part of their own"),
        pytest.param(76, None, id="only under another condition"),
        pytest.param(81, None, id="out of a loop that others go on in"),
        pytest.param(85, None, id="the others meet it from a line of their own"),
    ],
)
def test_behind_a_guard_that_sends_the_others_past(
    line: int, guard: int | None, tmp_path: Path
) -> None:
    train = bucket(91)
    mine, others = [train, {"op": "all_gather", "at": (line, 92)}], [train, train]
    found = told(tmp_path, mine, others)
    assert found.suspects == (() if guard is None else (0,))
    assert ("behind the guard" in found.cause) is (guard is not None)
    if guard is not None:
        assert f"(train.py:{guard}), which asks for the rank" in found.cause
        assert "on every rank, before `if rank != 0" in found.fix


def test_the_others_were_behind_the_guard_before(tmp_path: Path) -> None:
    train, call = bucket(91), {"op": "all_gather", "at": (56, 92)}
    found = told(tmp_path, [train, call, train, call], [train, call, train, train])
    assert found.suspects == ()


def test_the_others_are_in_the_other_branch(tmp_path: Path) -> None:
    other = {"op": "all_gather", "at": (16, 26)}
    assert told(tmp_path, [TRAIN, barrier(2, 14, 26)], [TRAIN, other]).suspects == ()


def test_the_others_are_under_a_condition_of_their_own(tmp_path: Path) -> None:
    other = {"op": "all_gather", "at": (2, 20, 26)}
    assert told(tmp_path, [TRAIN, SAVE], [TRAIN, other]).suspects == ()


def test_the_others_are_in_a_branch_that_is_new_to_them(tmp_path: Path) -> None:
    other = {"op": "all_gather", "at": (22, 26)}
    assert told(tmp_path, [TRAIN, SAVE], [TRAIN, other]).suspects == ()
    both = [[TRAIN, other, TRAIN], [TRAIN, other, TRAIN]]
    assert told(tmp_path, [*both[0], SAVE], [*both[1], other]).suspects == (0,)


def test_a_condition_that_every_rank_answers_alike(tmp_path: Path) -> None:
    assert told(tmp_path, [TRAIN, barrier(2, 18, 26)], [TRAIN, TRAIN]).suspects == ()


@pytest.mark.parametrize("who", [0, 1])
def test_who_was_there_before_has_met_the_others_there(who: int, tmp_path: Path) -> None:
    """They have come to it from a line of their own, and have missed that now."""
    partner = barrier(2, 20, 26)
    calls = [SAVE, partner] if who == 0 else [partner, SAVE]
    one, two = [TRAIN, calls[0], TRAIN, SAVE], [TRAIN, calls[1], TRAIN, TRAIN]
    assert told(tmp_path, one, two).suspects == ()


def test_behind_the_loop_that_the_others_are_in(tmp_path: Path) -> None:
    """It was shorter for the one that has left it, or is longer for the others."""
    found = told(tmp_path, [TRAIN, barrier(2, 24, 26)], [TRAIN, TRAIN])
    assert found.suspects == ()
    assert "asks for the rank" not in found.cause


def test_the_others_are_past_it(tmp_path: Path) -> None:
    other = {"op": "all_gather", "at": (25, 26)}
    assert told(tmp_path, [TRAIN, barrier(2, 24, 26)], [TRAIN, other]).suspects == (0,)


def test_a_loader_that_ended_earlier_explains_it(tmp_path: Path) -> None:
    over = {"batch": {"loader": 0, "batch": 2, "end": True}}
    more = {"batch": {"loader": 0, "batch": 3}}
    again = {"batch": {"loader": 0, "batch": 1}}
    found = told(tmp_path, [TRAIN, TRAIN, SAVE | over], [TRAIN, TRAIN, TRAIN | more])
    assert found.suspects == ()
    assert told(tmp_path, [TRAIN, TRAIN, SAVE | over], [TRAIN, TRAIN, TRAIN | again]).suspects == (
        0,
    )


def test_the_others_are_done(tmp_path: Path) -> None:
    found = told(tmp_path, [TRAIN, barrier(2, 24, 26)], [TRAIN], ends={1: "finished"})
    assert found.suspects == (0,)
    assert "(train.py:23), which asks for the rank" in found.cause


def test_the_others_are_done_and_no_condition_is_there(tmp_path: Path) -> None:
    assert told(tmp_path, [TRAIN, barrier(25, 26)], [TRAIN], ends={1: "finished"}).suspects == ()


def test_what_was_not_recorded_may_have_been_there(tmp_path: Path) -> None:
    one, two = [TRAIN, TRAIN, SAVE], [TRAIN, TRAIN, TRAIN]
    assert told(tmp_path / "whole", one, two, dropped=0).suspects == (0,)
    assert told(tmp_path / "dropped", one, two, dropped=1).suspects == ()


def test_both_have_a_condition_of_their_own(tmp_path: Path) -> None:
    """That the others have been under theirs before does not make it right now."""
    theirs = {"op": "all_gather", "at": (2, 20, 26)}
    paired = {"op": "all_gather", "at": (22, 26)}
    one, two = [TRAIN, paired, TRAIN, SAVE], [TRAIN, theirs, TRAIN, theirs]
    assert told(tmp_path, one, two).suspects == ()


def test_a_condition_within_one_that_lets_both_through(tmp_path: Path) -> None:
    both = {"op": "all_gather", "at": (37, 41)}
    found = told(tmp_path, [both, barrier(2, 39, 41)], [both, both])
    assert found.suspects == (0,)
    assert "(train.py:38)" in found.cause


def test_the_others_are_in_the_branch_before_it(tmp_path: Path) -> None:
    other = {"op": "all_gather", "at": (33, 41)}
    assert told(tmp_path, [other, barrier(2, 35, 41)], [other, other]).suspects == ()


def test_a_loop_of_the_callers_brings_the_others_past_it(tmp_path: Path) -> None:
    again = bucket(9, 29, 41)
    assert told(tmp_path, [again, barrier(2, 24, 29, 41)], [again, again]).suspects == (0,)


def test_lines_of_another_file_do_not_tell_who_is_past(tmp_path: Path) -> None:
    other = {"op": "all_reduce", "at": (9,), "site": "/gone/train.py:99"}
    assert told(tmp_path, [other, barrier(41)], [other, other], stacks=False).suspects == ()


def test_ranks_that_may_be_on_their_way(tmp_path: Path) -> None:
    ended = made(tmp_path, [TRAIN, SAVE], [TRAIN], ends={1: "finished"})
    assert of_run(tmp_path, ended) is not None
    died = made(tmp_path, [TRAIN, SAVE], [TRAIN], ends={1: "exception"})
    assert of_run(tmp_path, died) is None


def test_since_the_lines_parted_and_not_since_the_bytes_did(tmp_path: Path) -> None:
    gather = {"op": "all_gather", "at": (9, 26)}
    scatter = {"op": "reduce_scatter", "at": (9, 26)}
    more = gather | {"at": (2, 11, 26)}
    rounds = [gather, scatter] * 2
    run = made(tmp_path, [*rounds, more, gather], [*rounds, gather, scatter])
    found = of_run(tmp_path, run)
    assert found is not None
    assert (found.ranks, found.seq) == ((0,), 5)


def test_ranks_of_other_groups_made_that_call_in_its_turn(tmp_path: Path) -> None:
    """And the other rank goes on with rounds of its own: nothing is known."""
    odd = TRAIN | {"shape": [43]}
    mine, others = [TRAIN, odd] * 3 + [TRAIN, SAVE], [TRAIN, odd] * 4
    sisters = [[TRAIN, TRAIN] * 3 + [TRAIN, barrier(25, 26)]] * 2
    assert told(tmp_path / "alone", mine, others).suspects == (0,)
    assert told(tmp_path / "sisters", mine, others, *sisters, pairs=True).suspects == ()


METRIC, LOSS = bucket(2, 11, 26), bucket(9, 26)


@pytest.mark.parametrize(
    ("loss", "suspects"),
    [
        pytest.param(LOSS, (0,), id="a step of all ranks"),
        pytest.param(bucket(22, 26), (), id="under a condition: it may be their part"),
        pytest.param(bucket(62, 92), (), id="behind a guard: likewise"),
    ],
)
def test_what_met_another_line_long_before_the_bytes_differ(
    loss: Call, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    """The ranks were at the same lines again, one a turn of the loop behind the other."""
    usual = [loss] * 6
    mine = [loss, loss, METRIC, *usual]
    end = {"op": "all_gather", "at": (25, 26)}
    run = made(tmp_path, mine, [*[loss] * 8, end])
    found = of_run(tmp_path, run)
    assert (found.ranks if found is not None else ()) == suspects
    if found is not None:
        assert found.seq == 3
        finding = told(tmp_path, mine, [*[loss] * 8, end])
        assert finding.suspects == (0,)
        assert "At call 3 rank 0 issued" in finding.cause
        assert "which before met the same line of rank 0" in finding.cause
        assert "loop ended" not in finding.cause


END: Call = {"op": "all_gather", "at": (25, 26)}


@pytest.mark.parametrize(
    ("mine", "others", "suspects"),
    [
        pytest.param([LOSS, END], [LOSS, END | {"shape": [3]}], (), id="left in one row"),
        pytest.param([LOSS, END, LOSS], [LOSS, END, END], (), id="and apart much later"),
        pytest.param([LOSS, LOSS], [LOSS, END], (0,), id="left earlier by the others"),
        pytest.param([END, LOSS], [END, END], (0,), id="never at it again"),
    ],
)
def test_a_step_more_of_both_is_no_parting(
    mine: Sequence[Call], others: Sequence[Call], suspects: tuple[int, ...], tmp_path: Path
) -> None:
    """Who listens in a loop takes a turn more of it, where a leader says that a word comes."""
    before = [LOSS, END, LOSS, END]
    run = made(tmp_path, [*before, METRIC, *mine], [*before, LOSS, *others])
    found = of_run(tmp_path, run)
    assert (found.ranks if found is not None else ()) == suspects


def test_what_met_a_line_for_the_others_alone(tmp_path: Path) -> None:
    """A follower's: rank 0 was never there, and the two lines may be two halves of one step."""
    theirs = bucket(25, 26)
    mine = [LOSS, bucket(10, 26), METRIC, LOSS, LOSS, LOSS, LOSS, LOSS, LOSS]
    others = [LOSS, theirs, theirs, LOSS, LOSS, LOSS, LOSS, LOSS, {"op": "all_gather", "at": (25,)}]
    assert of_run(tmp_path, made(tmp_path, mine, others)) is None
