"""First differences of streams: by digest and by scan, against an oracle that looks at all rows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectrace.align.alignment import compared
from collectrace.align.matching.compare import compare
from collectrace.align.matching.comparison import Comparison, Divergence, Unclear
from collectrace.align.matching.matchers import attribute_of
from collectrace.align.reading.evidence import StreamKey
from collectrace.align.reading.run_reader import read
from collectrace.records import Call, Stack
from tests.support.synthetic import Run, damage

CPU = StreamKey("0", "cpu")
SKIMMED: dict[str, Any] = {"small": 0, "page": 256}


@contextmanager
def written(run: Run) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as where:
        yield run.write(Path(where))


def both(run: Run) -> tuple[Comparison, Comparison]:
    """By digest, and by full scan."""
    with written(run) as folder:
        return compared(read(folder, **SKIMMED)), compared(read(folder, full=True))


def agreeing(run: Run) -> Comparison:
    """The comparison, which is the same both ways but for what only a scan can tell."""
    by_digest, by_scan = both(run)
    assert by_digest.divergences == by_scan.divergences
    assert by_digest.agreed == by_scan.agreed
    return by_scan


def rows(comparison: Comparison) -> list[tuple[int, str, str]]:
    return [(d.seq, d.mark, d.attribute) for d in comparison.divergences]


# -- against an oracle ---------------------------------------------------------------------------

PALETTE: tuple[dict[str, Any], ...] = (
    {"op": "all_reduce", "shape": [8]},
    {"op": "all_reduce", "shape": [8], "dtype": "bfloat16"},
    {"op": "all_reduce", "shape": [9]},
    {"op": "all_reduce", "shape": [1], "reduce_op": "MAX"},
    {"op": "all_reduce", "shape": [1]},
    {"op": "all_reduce", "shape": [1], "role": "join.count_nonjoined"},
    {"op": "all_reduce", "shape": [1], "role": "ddp.forward.notify_join"},
    {"op": "all_reduce", "shape": [1], "role": "ddp.forward.sync_check"},
    {"op": "all_reduce", "shape": [1], "role": "unknown"},
    {"op": "barrier"},
    {"op": "broadcast", "root": 0},
    {"op": "broadcast", "root": 1},
    {"op": "all_reduce", "void": True},
)


@dataclass(frozen=True)
class Edit:
    """Something one rank does otherwise."""

    rank: int
    at: int
    what: str
    item: int


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, list[list[tuple[dict[str, Any], bool]]]]:
    """A backend, and per rank its calls and whether each is lost."""
    world = draw(st.integers(2, 4))
    backend = draw(st.sampled_from(["gloo", "cpu:nccl"]))
    loop = draw(st.lists(st.integers(0, len(PALETTE) - 5), min_size=1, max_size=5))
    common = (loop * 60)[: draw(st.integers(0, 60))]
    programs: list[list[tuple[dict[str, Any], bool]]] = [
        [(PALETTE[n], False) for n in common] for _ in range(world)
    ]
    edits = draw(
        st.lists(
            st.builds(
                Edit,
                rank=st.integers(0, world - 1),
                at=st.integers(0, 60),
                what=st.sampled_from(["replace", "insert", "delete", "lose", "hide", "cut"]),
                item=st.integers(0, len(PALETTE) - 1),
            ),
            max_size=4,
        )
    )
    for edit in edits:
        program = programs[edit.rank]
        if edit.at >= len(program):
            continue
        if edit.what == "insert":
            program.insert(edit.at, (PALETTE[edit.item], False))
        elif edit.what == "delete":
            del program[edit.at]
        elif edit.what == "replace":
            program[edit.at] = (PALETTE[edit.item], False)
        elif edit.what == "lose":
            program[edit.at] = (program[edit.at][0], True)
        elif edit.what == "hide":
            # A lost call that could not be described counts as a failure, which nobody writes here.
            program[edit.at] = (PALETTE[edit.item % (len(PALETTE) - 1)], True)
        else:
            del program[edit.at :]
    return backend, programs


def oracle(issued: Mapping[int, list[Call | None]], backend: str) -> list[tuple[int, str, str]]:
    """Root and fatal row, by looking at every row."""
    ends = [len(calls) for calls in issued.values()]
    found: list[tuple[int, str, str]] = []
    for n in range(max(ends, default=0)):
        present = [calls[n] for calls in issued.values() if n < len(calls)]
        attribute: str | None = attribute_of([c for c in present if c is not None], backend)
        if n >= min(ends) and attribute in (None, "role"):
            attribute = "absent"
        if attribute is None or (found and attribute == "role"):
            continue
        if attribute == "absent" and not any(present):
            continue  # nothing is known of the call
        found.append((n + 1, "fatal" if found else "root", attribute))
        if attribute != "role":
            break
        if n >= min(ends):
            break
    return found


@settings(max_examples=300)
@given(programs())
def test_both_ways_find_what_an_oracle_finds(
    given_: tuple[str, list[list[tuple[dict[str, Any], bool]]]],
) -> None:
    backend, planted = given_
    run = Run(len(planted), backend=backend, checkpoint=700)
    made: dict[int, list[Call | None]] = {}
    issued: dict[int, list[Call | None]] = {}
    for rank, program in zip(run, planted, strict=True):
        calls = [rank.call(lost=lost, **fields) for fields, lost in program]
        made[rank.rank] = list(calls)
        issued[rank.rank] = [
            None if lost else call for call, (_, lost) in zip(calls, program, strict=True)
        ]
    run.finish()
    plain = backend.rpartition(":")[2]
    found = rows(agreeing(run))
    # Of lost calls, only digests behind them tell that they differ, and not which of them does.
    told = [row for row in found if row[2] != "lost"]
    lost = [(seq, mark) for seq, mark, attribute in found if attribute == "lost"]
    if not lost:
        expected = oracle(issued, plain)
        if any(calls and calls[-1] is None for calls in issued.values()):
            # How many calls a rank made is open if the last lines are lost: nobody is missed.
            found, expected = (
                [row for row in rows_ if row[2] != "absent"] for rows_ in (found, expected)
            )
        assert found == expected
        return
    assert len(lost) == 1
    [(first, _)] = lost
    gap = [first]
    while any(gap[-1] <= len(p) and p[gap[-1] - 1][1] for p in planted):
        gap.append(gap[-1] + 1)
    columns = [[calls[n - 1] for calls in made.values() if n <= len(calls)] for n in gap[:-1]]
    attributes = [attribute_of([call for call in one if call], plain) for one in columns]
    assert set(attributes) - {None, "role"} or any(len(one) < len(planted) for one in columns)
    assert told == [row for row in oracle(issued, plain) if row[0] < first]


def test_a_long_stream_is_searched_and_not_read() -> None:
    run = Run(4, checkpoint=4096)
    for step in range(2000):
        run.all("all_reduce", shape=[64])
        if step == 1300:
            run.rank(2).call("barrier", site="eval.py:3")
    run.finish()
    with written(run) as folder:
        evidence = read(folder, small=0, page=1024)
        comparison = compared(evidence)
        sizes = {rank: (folder / f"rank{rank:05d}.jsonl").stat().st_size for rank in range(4)}
        assert not any(log.scanned for log in evidence.logs.values())
        for rank, log in evidence.logs.items():
            assert log.bytes_read < sizes[rank] / 3
    (found,) = comparison.divergences
    assert (found.seq, found.mark, found.attribute) == (1302, "root", "op")
    assert {rank: call and call.op for rank, call in found.calls.items()} == {
        0: "all_reduce", 1: "all_reduce", 2: "barrier", 3: "all_reduce",
    }  # fmt: skip
    assert comparison.agreed == {CPU: 1301}


# -- root and fatal ------------------------------------------------------------------------------


def seed_case(barrier_holds_one: bool) -> Run:
    """The case that started the project, from the row on at which rank 0 has joined."""
    run = Run(2, backend="nccl")
    left, right = run.rank(0), run.rank(1)
    for _ in range(3):
        run.all("all_reduce", role="ddp.forward.notify_join")
        run.all("barrier", site="train.py:43")
    left.call("all_reduce", role="join.count_nonjoined")
    right.call("all_reduce", role="ddp.forward.notify_join")
    left.call("all_reduce", role="join.count_nonjoined")
    right.call("barrier", site="train.py:43")
    if barrier_holds_one:
        left.call("all_reduce", role="join.sync_check")
        right.call("all_reduce", role="join.count_nonjoined")
        left.call("all_reduce", role="join.count_nonjoined")
        right.call("all_reduce", role="join.common_rank", dtype="int64", reduce_op="MAX")
    else:
        left.call("all_reduce", role="join.common_rank", dtype="int64", reduce_op="MAX")
        right.call("all_reduce", role="join.count_nonjoined")
    return run


@pytest.mark.parametrize(("holds_one", "fatal"), [(True, 10), (False, 9)])
def test_same_bytes_of_another_meaning_are_the_root_and_what_follows_is_fatal(
    holds_one: bool, fatal: int
) -> None:
    comparison = agreeing(seed_case(holds_one))
    assert rows(comparison) == [(8, "root", "role"), (fatal, "fatal", "dtype")]
    root = comparison.divergences[0]
    assert {r: c and c.role for r, c in root.calls.items()} == {
        0: "join.count_nonjoined",
        1: "user",
    }


def test_a_barrier_on_nccl_is_an_all_reduce_of_one_float_and_on_gloo_it_is_not() -> None:
    for backend, expected in (("nccl", "role"), ("cpu:gloo,cuda:nccl", "op")):
        run = Run(2, backend=backend)
        run.rank(0).call("all_reduce", shape=[1])
        run.rank(1).call("barrier")
        assert rows(agreeing(run)) == [(1, "root", expected)]


def test_a_stream_that_ends_before_its_peers() -> None:
    run = Run(3)
    run.all("all_reduce")
    run.rank(0).call("barrier")
    run.rank(2).call("barrier")
    comparison = agreeing(run)
    assert rows(comparison) == [(2, "root", "absent")]
    assert comparison.divergences[0].calls[1] is None
    assert comparison.agreed == {CPU: 1}


def test_missing_and_provisional_ranks_are_unknown_and_never_absent() -> None:
    run = Run(4)
    run.all("all_reduce")
    run.rank(1).call("barrier")
    run.omit(2)
    run.rank(3).stuck_in_init()
    with tempfile.TemporaryDirectory() as where:
        run.write(Path(where))
        comparison = compared(read(where))
    (found,) = comparison.divergences
    assert found.unknown == (2, 3)
    assert found.calls == {0: None, 1: found.calls[1]}


def test_a_tracer_that_was_switched_off_proves_no_absence() -> None:
    run = Run(3)
    run.all("all_reduce")
    run.rank(1).exit("disabled")
    run.rank(0).call("barrier")
    run.rank(2).call("barrier")
    assert rows(agreeing(run)) == []
    run.rank(2).call("barrier")
    run.rank(0).call("all_reduce")
    found = agreeing(run).divergences[0]
    assert (found.seq, found.attribute, found.unknown) == (3, "op", (1,))


# -- what is not evidence ------------------------------------------------------------------------


def test_unknown_roles_are_waived_however_many() -> None:
    run = Run(2)
    for step in range(120):
        run.rank(0).call("all_reduce", role="unknown" if step % 2 else "user")
        run.rank(1).call("all_reduce", role="ddp.backward.bucket" if step % 2 else "user")
    run.rank(0).call("barrier")
    run.rank(1).call("all_reduce")
    assert rows(agreeing(run)) == [(121, "root", "op")]


def test_a_void_call_pairs_with_anything_and_hides_nothing_after_it() -> None:
    run = Run(3)
    run.all("all_reduce")
    for rank in run:
        rank.call("all_reduce", void=rank.rank == 1 or None, shape=[3])
    run.all("all_reduce")
    run.rank(0).call("all_reduce", dtype="int64")
    run.rank(1).call("all_reduce")
    run.rank(2).call("all_reduce")
    assert rows(agreeing(run)) == [(4, "root", "dtype")]


def test_rows_are_compared_where_the_middle_is_gone_on_one_rank() -> None:
    run = Run(2, checkpoint=1000, segment=4000)
    for _ in range(200):
        run.all("all_reduce")
    run.rank(0).call("barrier")
    run.rank(1).call("all_reduce")
    with tempfile.TemporaryDirectory() as where:
        folder = run.write(Path(where))
        for n in range(2, 6):
            (folder / f"rank00000.{n:04d}.jsonl").unlink()
        found = [compared(read(folder, **kw)) for kw in (SKIMMED, {"full": True})]
    assert found[0].divergences == found[1].divergences
    assert rows(found[0]) == [(201, "root", "op")]
    assert found[0].divergences[0].gap is None


def rotated(hidden: bool) -> Comparison:
    """Rank 1 lost rows 3 and 4; the ranks differ in row 3, and then visibly or not."""
    run = Run(2)
    for n in range(6):
        run.rank(0).call("all_reduce", shape=[7 if n == 2 else 1])
        run.rank(1).call("all_reduce", lost=n in (2, 3))
    if not hidden:
        run.rank(0).call("barrier")
        run.rank(1).call("all_reduce")
    return agreeing(run)


def test_a_difference_within_lost_rows_is_told_with_the_first_that_can_be_seen() -> None:
    (found,) = rotated(hidden=False).divergences
    assert (found.seq, found.gap) == (7, (3, 4))


def test_a_difference_within_lost_rows_alone_is_proven_by_the_digests() -> None:
    (found,) = rotated(hidden=True).divergences
    assert (found.seq, found.attribute, found.gap) == (3, "lost", (3, 4))
    assert found.calls == {}


def test_tracing_that_begins_late_on_one_rank() -> None:
    run = Run(2, default_group=False)
    run.rank(0).group("0", [0, 1])
    for n in range(9):
        run.rank(0).call("all_reduce", shape=[n])
    run.rank(1).group("0", [0, 1], phase="ready", start_seq=5)
    for n in range(5, 9):
        run.rank(1).call("all_reduce", shape=[n])
    assert rows(agreeing(run)) == []
    run.rank(0).call("barrier")
    run.rank(1).call("all_reduce")
    with written(run) as folder:
        evidence = read(folder)
        (found,) = compared(evidence).divergences
    assert (found.seq, found.attribute) == (10, "op")
    assert [call and call.seq for call in found.calls.values()] == [10, 10]
    assert evidence.logs[1].first_row(CPU) == 6
    assert evidence.logs[1].calls(CPU, 5, 7)[0] is None


def test_a_damaged_row_is_no_evidence_and_the_next_one_is() -> None:
    run = Run(2)
    for n in range(20):
        run.rank(0).call("all_reduce", shape=[2 if n == 10 else 1])
        run.rank(1).call("all_reduce")
    run.rank(0).call("barrier")
    run.rank(1).call("all_reduce")
    with tempfile.TemporaryDirectory() as where:
        folder = run.write(Path(where))
        damage(folder / "rank00000.jsonl", 4 + 10)
        by_scan = compared(read(folder, full=True))
        by_digest = compared(read(folder, **SKIMMED))
    assert rows(by_scan) == rows(by_digest) == [(21, "root", "op")]
    assert by_scan.divergences[0].gap == by_digest.divergences[0].gap == (11, 11)


def test_a_row_behind_lost_ones_that_its_digest_contradicts_is_damaged() -> None:
    run = Run(2)
    for rank in run:
        for _ in range(20):
            rank.call("all_reduce")
        rank.exit()
    with tempfile.TemporaryDirectory() as where:
        file = run.write(Path(where)) / "rank00000.jsonl"
        damage(file, 4 + 10)
        lines = file.read_bytes().splitlines(keepends=True)
        assert b'"seq":12,' in lines[4 + 11]
        lines[4 + 11] = lines[4 + 11].replace(b'"SUM"', b'"MAX"')
        file.write_bytes(b"".join(lines))
        by_scan = compared(read(file.parent, full=True))
        by_digest = compared(read(file.parent, **SKIMMED))
    assert rows(by_scan) == rows(by_digest) == []
    assert not by_scan.unproven


# -- all_to_all ----------------------------------------------------------------------------------


def exchange(run: Run, sent: list[list[int]], expected: list[list[int]] | None = None) -> None:
    """One all_to_all: ``sent[i][j]`` elements from i to j; what is expected fits unless given."""
    for rank in run:
        columns = [row[rank.rank] for row in sent] if expected is None else expected[rank.rank]
        rank.call("all_to_all_single", shape=[sum(sent[rank.rank])],
                  splits=[sent[rank.rank], columns])  # fmt: skip


def test_legal_uneven_splits_fit() -> None:
    run = Run(3)
    for n in range(30):
        run.all("all_reduce")
        exchange(run, [[n, 1, 2], [3, n, 5], [6, 7, n]])
    assert rows(agreeing(run)) == []


def test_splits_that_fit_in_total_and_not_pair_by_pair() -> None:
    run = Run(3, checkpoint=600)
    for n in range(40):
        run.all("all_reduce")
        exchange(
            run,
            [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
            [[1, 4, 7], [2, 5, 8], [3, 6, 9]] if n != 25 else [[1, 4, 7], [5, 2, 8], [3, 6, 9]],
        )
    comparison = agreeing(run)
    assert rows(comparison) == [(52, "root", "split")]
    assert comparison.divergences[0].bad_pairs == ((0, 1), (1, 1))


def test_splits_after_tracing_began_at_different_rows() -> None:
    run = Run(2, default_group=False)
    run.rank(0).group("0", [0, 1])
    fitting = [[1, 2], [3, 4]]
    run.rank(0).call("all_to_all_single", splits=[[9, 9], [9, 9]])
    run.rank(1).group("0", [0, 1], phase="ready", start_seq=1)
    exchange(run, fitting)
    exchange(run, fitting, [[1, 3], [2, 5]])
    comparison = agreeing(run)
    assert rows(comparison) == [(3, "root", "split")]
    assert comparison.divergences[0].bad_pairs == ((1, 1),)


@pytest.mark.parametrize("fits", [True, False])
def test_an_exchange_whose_lines_every_rank_has_lost(fits: bool) -> None:
    run = Run(2)
    run.all("all_reduce")
    splits = [[[1, 2], [1, 3]], [[3 if fits else 4, 1], [2, 1]]]  # sent, expected
    for rank in run:
        rank.call("all_to_all_single", shape=[8], splits=splits[rank.rank], lost=True)
    run.all("all_reduce")
    run.finish()
    comparison = agreeing(run)
    assert bool(comparison.divergences or comparison.unproven) is not fits


def test_splits_of_a_void_or_missing_partner_prove_nothing() -> None:
    run = Run(2)
    run.rank(0).call("all_to_all_single", splits=[[1, 2], [1, 2]])
    run.rank(1).call("all_to_all_single", void=True)
    exchange(run, [[1, 2], [3, 4]])
    assert rows(agreeing(run)) == []
    exchange(run, [[1, 2], [3, 4]], [[1, 3], [4, 4]])
    assert rows(agreeing(run)) == [(3, "root", "split")]
    run.omit(1)
    assert rows(agreeing(run)) == []


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.integers(0, 5), min_size=9, max_size=9), min_size=1, max_size=12),
    st.integers(0, 11), st.integers(0, 2), st.integers(0, 2), st.integers(1, 3),
)  # fmt: skip
def test_a_wrong_pair_is_found_wherever_it_is(
    matrices: list[list[int]], at: int, rank: int, peer: int, by: int
) -> None:
    run = Run(3, checkpoint=500)
    for n, flat in enumerate(matrices):
        sent = [flat[0:3], flat[3:6], flat[6:9]]
        expected = [[row[r] for row in sent] for r in range(3)]
        if n == at:
            expected[rank][peer] += by
        exchange(run, sent, expected)
    comparison = agreeing(run)
    if at < len(matrices):
        assert rows(comparison) == [(at + 1, "root", "split")]
        assert comparison.divergences[0].bad_pairs == ((peer, rank),)
    else:
        assert rows(comparison) == []


# -- warnings ------------------------------------------------------------------------------------


def hints(run: Run) -> list[Divergence]:
    by_digest, by_scan = both(run)
    assert by_digest.divergences == by_scan.divergences == ()
    assert not by_digest.warnings
    return list(by_scan.warnings)


def test_call_sites_in_swapped_order_are_a_warning() -> None:
    run = Run(3)
    for step in range(20):
        for rank in run:
            order = ["train.py:7", "train.py:8"]
            if rank.rank == 2 and step == 12:
                order.reverse()
            for site in order:
                rank.call("all_reduce", site=site)
    (found,) = hints(run)
    assert (found.seq, found.attribute, found.swapped) == (25, "role", True)
    assert {r: c and c.site for r, c in found.calls.items()} == {
        0: "train.py:7", 1: "train.py:7", 2: "train.py:8",
    }  # fmt: skip


@pytest.mark.parametrize("thread", ["reporter", None])
def test_a_call_that_is_seldom_made_is_swapped_only_from_another_thread(thread: str | None) -> None:
    """From the main one it may be the other arm of a condition, which each rank takes by itself."""
    run = Run(3)
    for step in range(40):
        for rank in run:
            if step % 16 == (8 if rank.rank == 2 else 9):
                rank.call("all_reduce", site="report.py:4", thread=thread)
            rank.call("all_reduce", site="train.py:7")
    found = hints(run)
    assert [(one.attribute, one.swapped) for one in found] == ([("role", True)] if thread else [])


def test_a_thread_of_the_one_that_leads_is_no_swap() -> None:
    """Who leads reduces in a thread and waits for it, the other in the main one; the lead moves."""
    run = Run(2)
    for step in range(20):
        for rank in run:
            leads = rank.rank == (step >= 9)
            site, thread = ("lead.py:4", "loader") if leads else ("train.py:7", None)
            rank.call("all_reduce", site=site, thread=thread)
    assert hints(run) == []


def test_ranks_on_different_lines_all_along_are_no_swap() -> None:
    run = Run(2)
    for _ in range(30):
        for rank in run:
            rank.call("all_reduce", site=f"train.py:{rank.rank}")
            rank.call("broadcast", site=f"train.py:{3 + rank.rank}")
            rank.call("broadcast", site=f"train.py:{4 - rank.rank}")
    assert hints(run) == []


def through(run: Run, *callers: Sequence[str]) -> None:
    """Stacks 1, 2, ...: of calls in one function, by the lines that lead to it."""
    for rank in run:
        for n, frames in enumerate(callers, start=1):
            rank.record(Stack(stack=n, frames=["comm.py:3 total", *frames]))


def reduced(run: Run, *orders: list[int]) -> None:
    """Each rank reduces in that function, its stacks in its order, a few times over."""
    for rank in run:
        for stack in orders[rank.rank] * 4:
            rank.call("all_reduce", site="comm.py:3", stack=stack)


def test_calls_through_one_function_in_swapped_order_are_a_warning() -> None:
    run = Run(3)
    through(run, ["train.py:7 loss", "train.py:20 <module>"], ["train.py:8 norm"])
    reduced(run, [1, 2], [1, 2], [2, 1])
    (found,) = hints(run)
    assert (found.seq, found.attribute, found.swapped) == (1, "role", True)


def test_what_lies_further_out_than_the_lines_that_differ_is_no_matter() -> None:
    """As where each rank has its own branch."""
    run = Run(2)
    lines = ["train.py:7 loss", "train.py:8 norm"]
    through(run, *([line, f"train.py:{branch} <module>"] for branch in (20, 30) for line in lines))
    reduced(run, [1, 2], [4, 3])
    (found,) = hints(run)
    assert found.swapped


def test_a_function_called_from_a_line_of_each_rank_s_own_is_no_swap() -> None:
    run = Run(2)
    through(run, *([f"train.py:{n} step"] for n in range(1, 5)))
    reduced(run, [1, 2], [3, 4])
    assert hints(run) == []
    (other,) = both(run)[1].other_lines
    assert [(line.ranks, line.site) for line in other.lines] == [
        ((0,), "train.py:1"), ((1,), "train.py:3"),
    ]  # fmt: skip


def test_how_deep_a_function_has_called_itself_makes_no_other_line() -> None:
    run = Run(2)
    deeper = ["tree.py:5 walk", "tree.py:5 walk", "train.py:7 step"]
    through(run, deeper[1:], deeper)
    reduced(run, [1, 2], [2, 1])
    assert hints(run) == []
    assert both(run)[1].other_lines == ()


def test_calls_that_agree_from_different_lines_are_counted() -> None:
    run = Run(3)
    for _ in range(4):
        for rank in run:
            rank.call("all_reduce", site="train.py:7")
            rank.call("all_reduce", site="train.py:9" if rank.rank == 1 else "train.py:8")
            rank.call("broadcast", site=f"train.py:{20 + rank.rank}")  # only one is the root
    by_digest, by_scan = both(run)
    assert by_digest.other_lines == ()
    (other,) = by_scan.other_lines
    assert (other.group, other.count, other.seq) == ("0", 4, 2)
    assert [(line.ranks, line.site) for line in other.lines] == [
        ((0, 2), "train.py:8"), ((1,), "train.py:9"),
    ]  # fmt: skip


def test_shapes_that_differ_where_counts_agree_are_a_warning() -> None:
    run = Run(2)
    for n in range(5):
        for rank in run:
            rank.call("all_reduce", shape=[2, 3] if rank.rank and n == 3 else [3, 2])
            rank.call("all_gather_single", shape=[4], out_shape=[8] if rank.rank else [2, 4])
    (found,) = hints(run)
    assert (found.seq, found.attribute, found.swapped) == (7, "shape", False)


@pytest.mark.parametrize(
    ("shapes", "mixed"),
    [
        (([1, 1], []), False),
        (([3, 1], [3]), False),
        (([[2, 1], [1]], [[2], []]), False),
        (([2, 6], [6, 2]), True),
        (([1, 12], [3, 4]), True),
        (([[2, 2], [4]], [[4], [2, 2]]), True),
        (([11, 1], [1, 11]), False),
    ],
)
def test_dimensions_of_one_element_mix_nothing_up(shapes: Sequence[Any], mixed: bool) -> None:
    run = Run(2)
    for rank in run:
        rank.call("all_reduce", shape=shapes[rank.rank])
    assert [row.attribute for row in hints(run)] == ["shape"] * mixed


def test_gradients_of_two_models_are_a_divergence_where_both_are_known() -> None:
    """The same bytes and roles: no digest tells."""
    for known in (2, None):
        run = Run(3)
        for n in range(1, 5):
            for rank in run:
                swapped = rank.rank == 2 and n > 2
                for model in (2, 1) if swapped else (1, 2):
                    whose = known if swapped and model == 2 else model
                    rank.call("all_reduce", role="ddp.backward.bucket", model=whose, iteration=n)
        by_digest, by_scan = both(run)
        assert by_digest.divergences == ()
        assert by_scan.warnings == ()
        found = [(d.seq, d.attribute) for d in by_scan.divergences]
        assert found == [(5 if known else 6, "model")]


def test_iterations_that_differ_are_no_hint() -> None:
    """A rank may run forwards that reduce nothing: to evaluate, or inside no_sync()."""
    run = Run(2)
    for n in range(1, 6):
        for rank in run:
            ahead = n + (rank.rank and n > 3)
            rank.call("all_reduce", role="ddp.backward.bucket", iteration=ahead)
    assert hints(run) == []


# -- several streams -----------------------------------------------------------------------------


def test_streams_are_compared_each_by_itself() -> None:
    run = Run(4, checkpoint=900)
    run.group("1", [0, 1])
    run.group("2", [2, 3])
    for n in range(60):
        run.all("all_reduce")
        run.all("all_reduce", "1", shape=[2])
        if n % 10 == 0:
            run.all("broadcast", "2", root=2)
    run.rank(3).call("barrier", "2")
    run.rank(2).call("broadcast", "2", root=3)
    comparison = agreeing(run)
    assert [(d.stream.group, d.seq, d.attribute) for d in comparison.divergences] == [
        ("2", 7, "op")
    ]
    assert comparison.divergences[0].group.ranks == (2, 3)
    assert comparison.agreed == {CPU: 60, StreamKey("1", "cpu"): 60, StreamKey("2", "cpu"): 6}


def test_one_group_has_a_stream_per_device() -> None:
    run = Run(2, backend="cpu:gloo,cuda:nccl")
    for rank in run:
        rank.call("all_reduce", device="cuda")
        rank.call("barrier", device="cuda" if rank.rank else "cpu")
    comparison = agreeing(run)
    assert [(d.stream.device, d.seq, d.attribute) for d in comparison.divergences] == [
        ("cpu", 1, "absent"), ("cuda", 2, "absent"),
    ]  # fmt: skip


def test_every_line_is_read_when_asked_for() -> None:
    run = Run(2)
    for _ in range(50):
        run.all("all_reduce")
    with written(run) as folder:
        assert not all(log.scanned for log in read(folder, **SKIMMED).logs.values())
        evidence = compared(read(folder, full=True, **SKIMMED)).evidence
        assert all(log.scanned for log in evidence.logs.values())


def test_what_a_part_of_the_logs_cannot_tell_is_read_whole() -> None:
    run = Run(2)
    for _ in range(50):
        run.all("all_to_all_single", splits=[[1, 1], [1, 1]], shape=[2])
    run.rank(0).call("all_to_all_single", splits=[[1, 1], [1, 1]], shape=[2])
    run.rank(1).call("all_to_all_single", void=True)
    for _ in range(40):
        run.all("all_reduce")
    with written(run) as folder:
        evidence = read(folder, **SKIMMED)
        before = {rank: log.scanned for rank, log in evidence.logs.items()}
        with pytest.raises(Unclear) as unclear:
            compare(evidence)
        assert unclear.value.ranks == {0, 1}
        assert {rank: log.scanned for rank, log in evidence.logs.items()} == before
        assert all(log.scanned for log in compared(evidence).evidence.logs.values())
