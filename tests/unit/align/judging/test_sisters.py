"""Groups of one dimension: whose word counts, and one error told once."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from collectrace.cli import main
from collectrace.findings import Alignment, Finding
from collectrace.report import markdown, terminal, verbose
from tests.support.judging import aligned, errors, judged
from tests.support.marks import Script
from tests.support.synthetic import Rank, Run


def first(alignment: Alignment) -> Finding:
    return errors(alignment)[0]


def pairs(world: int = 4) -> Run:
    """Groups of two, in one dimension."""
    run = Run(world=world)
    for n in range(0, world, 2):
        run.group(name(n), [n, n + 1], description="mesh_tp")
    return run


def name(n: int) -> str:
    return f"tp{n // 2}"


def reduce(rank: Rank, count: int = 4, site: str = "t.py:9") -> None:
    rank.call("all_reduce", name(rank.rank), shape=[count], site=site)


def test_stages_of_a_pipeline_have_no_say(tmp_path: Path) -> None:
    run = pairs()
    for n in (0, 1):
        run.rank(n).send(n + 2)
        run.rank(n + 2).recv(n)
    for rank in run:
        reduce(rank, count=8 if rank.rank == 1 else 4)
    run.finish()
    (found,) = judged(run, tmp_path)
    assert (found.kind, found.suspects) == ("shape_mismatch", ())


@pytest.mark.parametrize(("rounds", "suspects"), [(3, ()), (0, (1,))])
def test_who_goes_on_with_a_round_of_its_own_is_not_outvoted(
    rounds: int, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    """Group tp0 takes 4 and 8 in turn, the others 4 and 4; rank 0 leaves that and rank 1 does not.

    Without rounds before it nothing speaks for rank 1.
    """
    run = pairs(6)
    for rank in run:
        for _ in range(rounds):
            reduce(rank)
            reduce(rank, count=8 if rank.rank < 2 else 4, site="t.py:10")
        reduce(rank)
        reduce(rank, count=8 if rank.rank == 1 else 4, site="t.py:10")
    run.finish()
    (found,) = judged(run, tmp_path)
    assert (found.kind, found.suspects) == ("shape_mismatch", suspects)


@pytest.mark.parametrize(("width", "decides"), [(4, True), (8, False)])
def test_whose_word_decided_is_told(width: int, *, decides: bool, tmp_path: Path) -> None:
    """``width``: what rank 3 takes; where its group does not agree itself, it decides nothing."""
    run = pairs()
    for rank in run:
        reduce(rank, count={1: 6, 3: width}.get(rank.rank, 4))
    run.finish()
    found = next(
        f for f in errors(aligned(run, tmp_path)) if 1 in {*f.sides[0].ranks, *f.sides[1].ranks}
    )
    facts = {row.fact for row in found.evidence or ()}
    assert (found.suspects == (1,), "unlike_sister_groups" in facts) == (decides, decides)


def test_an_error_that_all_groups_of_a_dimension_repeat_is_one(tmp_path: Path) -> None:
    run = pairs(8)
    for rank in run:
        reduce(rank, count=4 + rank.rank % 2)
    run.finish()
    alignment = aligned(run, tmp_path)
    found = errors(alignment)
    assert [f.caused_by for f in found] == [None, 0, 0, 0]
    assert found[0].suspects == ()
    assert [f.repeats for f in found] == [None, 0, 0, 0]
    assert found[0].headline.endswith(", in 4 of 4 groups of mesh_tp")
    assert any(note.endswith("the groups of ranks 2-3, ranks 4-5 and ranks 6-7.")
               for note in found[0].notes)  # fmt: skip
    assert [f.code for f in found[1:]] == ["CT901"] * 3


def test_on_the_screen_it_is_one_error(tmp_path: Path) -> None:
    run = pairs(8)
    for rank in run:
        reduce(rank, count=4 + rank.rank % 2)
    run.finish()
    out, whole, written = io.StringIO(), io.StringIO(), io.StringIO()
    alignment = aligned(run, tmp_path)
    terminal.render(alignment, Console(file=out, width=200))
    assert "in 4 of 4 groups of mesh_tp" in " ".join(out.getvalue().split("\n\n")[1].split())
    assert "\n  then  " not in out.getvalue()
    assert out.getvalue().count("\nerror[") == 1
    verbose.write(alignment, whole)
    assert "a consequence of" not in whole.getvalue()
    markdown.write(alignment, written)
    assert "**then:**" not in written.getvalue()


def test_on_the_page_the_others_are_named_and_led_to_nothing(tmp_path: Path) -> None:
    run = pairs(8)
    for rank in run:
        reduce(rank, count=4 + rank.rank % 2)
    run.finish()
    run.write(tmp_path / "logs")
    page = tmp_path / "report.html"
    asked = ["align", str(tmp_path / "logs"), "--html", str(page)]
    assert main(asked, io.StringIO(), io.StringIO()) == 1
    written = page.read_text()
    assert "led to</span>" not in written
    assert written.count("the same in</span>") == 3


def test_another_error_in_a_sister_group_is_one_of_its_own(tmp_path: Path) -> None:
    run = pairs()
    for rank in run:
        if rank.rank < 2:
            reduce(rank, count=4 + rank.rank)
        else:
            rank.call("all_gather_single" if rank.rank == 2 else "barrier", "tp1", site="t.py:20")
    run.finish()
    assert [f.caused_by for f in errors(aligned(run, tmp_path))] == [None, None]


# -- threads that share a group -------------------------------------------------------------------


def threads(run: Run, orders: dict[int, str]) -> None:
    """Per rank the threads that issue calls, in their order: ``m`` main, ``s`` a saver."""
    for rank in run:
        for one in orders[rank.rank]:
            if one == "m":
                rank.call("all_reduce", shape=[4], site="t.py:9")
            else:
                thread = f"ThreadPoolExecutor-{rank.rank}_0"
                rank.call("all_gather", shape=[2], site="save.py:5", thread=thread)


def test_threads_that_share_a_group_blame_nobody(tmp_path: Path) -> None:
    run = Run(world=4)
    threads(run, {0: "msmsm", 1: "msmsm", 2: "msmsm", 3: "msmms"})
    found = first(aligned(run, tmp_path))
    assert (found.kind, found.code, found.suspects) == ("op_mismatch", "CT307", ())


def test_a_thread_that_only_one_rank_has_is_no_sharing(tmp_path: Path) -> None:
    run = Run(world=4)
    threads(run, {0: "mmmmm", 1: "mmmmm", 2: "mmmmm", 3: "mmmsm"})
    assert first(aligned(run, tmp_path)).suspects == (3,)


def test_an_error_of_many_groups_has_the_suspects_of_all(tmp_path: Path) -> None:
    run = Run(world=6)
    for n in (0, 3):
        run.group(f"tp{n}", range(n, n + 3), description="mesh_tp")
    for rank in run:
        count = 8 if rank.rank % 3 == 2 else 4
        rank.call("all_reduce", f"tp{rank.rank // 3 * 3}", shape=[count], site="t.py:9")
    run.finish()
    leader, other = judged(run, tmp_path)
    assert (leader.suspects, other.suspects) == ((2, 5), (5,))
    assert other.cause is leader


def test_two_errors_of_many_groups_are_two_where_ranks_ended_otherwise(tmp_path: Path) -> None:
    """Of one group a rank raised, of the other one is busy: the one is not the other."""
    run = Run(world=6)
    for n in (0, 3):
        run.group(f"tp{n}", range(n, n + 3), description="mesh_tp")
    for rank in run:
        name = f"tp{rank.rank // 3 * 3}"
        rank.call("all_reduce", name, site="t.py:9")
        if rank.rank == 2:
            rank.exit("exception", error="ValueError", message="bad", site="t.py:8")
        elif rank.rank == 5:
            rank.beat(60)
        else:
            rank.stuck_in(rank.call("all_reduce", name, site="t.py:9"))
    found = [one for one in judged(run, tmp_path) if one.severity == "error"]
    assert sorted(one.suspects for one in found) == [(2,), (5,)]
    assert all(one.cause is None for one in found)


SCALER = """\
def step():
    check(slack)  # BEFORE
    update(group)  # UPDATE
    check(age)  # BEHIND
    dist.all_reduce(x)  # SUM
def update(group):
    dist.broadcast(scale, 0)  # SEND
step()  # STEP
"""


@pytest.mark.parametrize(
    ("mark", "suspects"),
    [
        pytest.param("BEHIND", (1, 3), id="it skipped the call, and raised behind it"),
        pytest.param("BEFORE", (1,), id="it raised before the call"),
    ],
)
def test_one_error_of_which_one_sister_raised(
    mark: str, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    """The second ranks of two pairs skip a call; rank 1 goes on, and rank 3 raises."""
    script, run = Script(tmp_path, SCALER), pairs()
    for rank in run:
        group = name(rank.rank)
        rank.call("all_reduce", group, **script.at(rank, "SUM", "STEP"))
        if rank.rank == 3:
            site, through = (script.at(rank, one)["site"] for one in (mark, "STEP"))
            rank.exit(
                "exception", error="ValueError", message="stale", site=site, through=[through]
            )
        elif rank.rank == 1:
            rank.stuck_in(rank.call("all_reduce", group, **script.at(rank, "SUM", "STEP")))
        else:
            place = script.at(rank, "SEND", "UPDATE", "STEP")
            rank.stuck_in(rank.call("broadcast", group, root=rank.rank, **place))
    found = [one for one in judged(run, tmp_path / "logs") if one.cause is None]
    assert found[0].suspects == suspects
    assert len(found) == 3 - len(suspects)
