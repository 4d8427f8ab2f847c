"""Calls numbered, chained and laid out: known digests, and what a rank file must fulfil."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectrace.align import align
from collectrace.chain import Chain, RankFile, Step, body, step
from collectrace.records import (
    FORMAT,
    Alive,
    Call,
    Checkpoint,
    Exit,
    Group,
    Header,
    Record,
    decode,
    encode,
)
from collectrace.signature import PRIME
from tests.support.rank_file_checks import check_chain, check_checkpoints, check_whole, read


def call(op: str, group: str = "0", device: str = "cpu", **fields: Any) -> Call:
    return Call(seq=0, group=group, device=device, op=op, **fields)


def group(backend: str = "gloo", ranks: tuple[int, ...] = (0, 1), **fields: Any) -> Group:
    known = {"phase": "ready", "group": "0", "backend": backend, "ranks": list(ranks)}
    return Group(**(known | fields))


def chain_of(rank: int = 0, backend: str = "gloo", ranks: tuple[int, ...] = (0, 1)) -> Chain:
    chain = Chain(rank)
    chain.know(group(backend, ranks))
    return chain


# -- known digests ---------------------------------------------------------------------------


def program() -> list[Call]:
    return [
        call("all_reduce", dtype="float32", shape=[2, 3], reduce_op="SUM",
             role="ddp.backward.bucket"),
        call("broadcast", dtype="int64", shape=[4], root=1),
        call("barrier"),
        call("all_to_all_single", dtype="float32", shape=[3], out_shape=[5],
             splits=[[1, 2], [2, 3]]),
        call("all_gather_into_tensor", dtype="bfloat16", shape=[2], out_shape=[4]),
        call("reduce_scatter", dtype="float32", shape=[[1], [2]], out_shape=[1], reduce_op="AVG"),
        call("all_reduce", dtype="float32", shape=[1], reduce_op="SUM",
             role="join.count_nonjoined", model=2),
        call("monitored_barrier"),
        call("scatter", dtype="float32", out_shape=[2], root=0, role="nobody.knows"),
        call("all_gather", void=True),
    ]  # fmt: skip


PROGRAM: Final = (
    2023626937383070059, 173377629410031577, 1258451481271953083, 1566216518923769073,
    2150238775627171037, 1326680054172289657, 293342172256834058, 2179581071144482811,
    1136975353770794118, 1084533944992150466,
)  # fmt: skip
PAIRS: Final = (
    None, None, None, 114702951267374427, 804321521356783797, 487040294757740814,
    590594515203032471, 1300281569795720950, 848901140438321520, 923775986048196830,
)  # fmt: skip
ON_THE_WIRE: Final = {
    "gloo": (
        2193367026739895587, 2165823027532848033, 1264806427620684087, 1575796795737155801,
        45572991062390834, 1018694758364027865, 2192588450010174098, 1142475702527922329,
        1928747645953687656, 281221014744878701,
    ),
    "nccl": (
        2193367026739895587, 2165823027532848033, 501006499576897367, 1378794774487649459,
        2218472078367075537, 1720272646772720387, 1523472343281585721, 287115725865574915,
        1145361581944100292, 346979607331860513,
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["gloo", "nccl", "cpu:gloo,cuda:nccl"])
def test_digests_of_a_known_program(backend: str) -> None:
    """The format promises them across versions, machines and Pythons: they never change."""
    chain = chain_of(backend=backend)
    numbered = [chain.number(one) for one in program()]
    assert [c.seq for c in numbered] == list(range(1, 11))
    assert tuple(c.program for c in numbered) == PROGRAM
    assert tuple(c.pairs for c in numbered) == PAIRS
    assert tuple(c.digest for c in numbered) == ON_THE_WIRE["nccl" if backend == "nccl" else "gloo"]


def test_steps_of_single_calls() -> None:
    assert step(call("barrier", void=True), "gloo", 0) == Step(*[1716745032235635844] * 2)
    exchange = call("all_to_all", splits=[[1, 2], [1, 2]])
    assert step(exchange, "gloo", None).pair is None, "whose pairs they are is not known"
    assert step(call("barrier"), "gloo", 0).pair is None
    with pytest.raises(ValueError, match="unpack"):
        step(call("all_to_all", splits=[[1, 2]]), "gloo", 0)


# -- numbers ---------------------------------------------------------------------------------


def test_streams_and_channels_are_counted_each_by_itself() -> None:
    chain = chain_of(rank=1)
    issued = [
        call("barrier"),
        call("barrier", device="cuda"),
        call("barrier", "tp"),
        call("send", peer=0),
        call("send", peer=0, tag=0),
        call("send", peer=0, tag=7),
        call("recv", peer=0),
        call("recv", peer=-1),
        call("send", "tp", peer=0),
        call("barrier"),
    ]
    assert [chain.number(one).seq for one in issued] == [1, 1, 1, 1, 2, 1, 1, 1, 1, 2]
    assert [one.digest is None for one in issued] == [one.peer is not None for one in issued]
    found = chain.checkpoint(5, dropped=1, rotated=2)
    assert [row[:3] for row in found.streams] == [
        ["0", "cpu", 2],
        ["0", "cuda", 1],
        ["tp", "cpu", 1],
    ]
    assert found.streams[0][3:] == [issued[-1].digest, issued[-1].program, None]
    assert found.channels == [
        ["0", "cpu", 1, 0, 0, 2], ["0", "cpu", 1, 0, 7, 1], ["0", "cpu", 0, 1, 0, 1],
        ["0", "cpu", -1, 1, 0, 1], ["tp", "cpu", 1, 0, 0, 1],
    ]  # fmt: skip
    assert (found.t, found.dropped, found.rotated) == (5, 1, 2)


def test_a_message_without_a_peer_has_its_place_in_the_stream() -> None:
    chain = chain_of()
    chain.number(call("barrier"))
    assert chain.number(call("send", void=True)).seq == 2
    assert Chain(None).number(call("send", peer=1)).digest is not None, "no rank, no channel"


def test_what_a_call_has_already_it_keeps() -> None:
    chain, other = chain_of(), chain_of()
    late = chain.number(replace(call("barrier"), seq=41))
    assert (late.seq, chain.number(call("barrier")).seq) == (41, 42)
    assert chain.number(replace(call("recv", peer=1), seq=9)).seq == 9
    assert chain.number(call("recv", peer=1)).seq == 10
    # Fed to another chain, numbered calls leave it where the first one stands.
    exchange = call("all_to_all", splits=[[1, 2], [0, 3]])
    for one in (late, chain.number(exchange), chain.number(call("barrier"))):
        before = replace(one)
        assert other.number(one) == before
    assert other.number(call("barrier")) == chain.number(call("barrier"))


def test_the_pairs_of_all_ranks_sum_to_zero() -> None:
    members = (3, 1, 2)
    sent = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    expected = [list(column) for column in zip(*sent, strict=True)]
    ends = []
    for index, rank in enumerate(members):
        chain = chain_of(rank, ranks=members)
        chain.number(call("all_to_all", splits=[sent[index], expected[index]]))
        ends.append(chain.number(call("barrier")).pairs or 0)
    assert all(ends)
    assert sum(ends) % PRIME == 0


@given(
    st.lists(
        st.tuples(st.sampled_from(range(len(program()) + 2)), st.sampled_from([None, 1, 7])),
        max_size=12,
    )
)
def test_a_line_is_that_of_the_call_numbered(issued: list[tuple[int, int | None]]) -> None:
    """Prepared once or numbered each time: the same bytes."""
    lines, calls = chain_of(), chain_of()
    kinds = [*program(), call("send", peer=1, tag=3, async_=True), call("recv", peer=1)]
    forms = [lines.form(kind) for kind in kinds]
    for t, (which, iteration) in enumerate(issued):
        kind = kinds[which]
        numbered = calls.number(replace(kind, t=t, iteration=iteration))
        assert lines.line(forms[which], t, iteration) == encode(numbered)


def test_the_body_of_a_line() -> None:
    one = replace(call("barrier", site='a "b".py:1'), t=12, seq=3)
    assert body(one) == (
        b',"group":"0","device":"cpu","op":"barrier","role":"user","site":"a \\"b\\".py:1"'
    )


# -- files -----------------------------------------------------------------------------------


def header(rank: int = 0) -> Header:
    return Header(
        t=1000, format=FORMAT, run="r", rank=rank, world_size=2, host="h", pid=1, wall=5000
    )


def records(data: bytes) -> list[Record]:
    found = [decode(line) for line in data.splitlines()]
    return [record for record in found if record is not None]


def kinds(data: bytes) -> list[str]:
    return [record.kind for record in records(data)]


def steady(file: RankFile, calls: int, kind: Call | None = None) -> None:
    form = file.chain.form(kind or call("all_reduce", dtype="float32", shape=[1], reduce_op="SUM"))
    for n in range(calls):
        file.call(form, 2000 + n, n // 2 + 1)


def test_a_file_holds_what_every_rank_file_must(tmp_path: Path) -> None:
    for rank in (0, 1):
        file = RankFile(header(rank), checkpoint_every=700)
        file.add(replace(group(), t=1001))
        for n, one in enumerate(program()[:3]):
            file.add(replace(one, t=1010 + n, site="train.py:1"))
        steady(file, 20, call("barrier", site="train.py:2"))
        file.add(Alive(t=3000))
        file.add(Exit(t=3001, reason="finished", calls=23))
        file.write(tmp_path / f"rank{rank:05}.jsonl")
        found = read(tmp_path / f"rank{rank:05}.jsonl")
        check_whole(found, 2)
        assert len(list(found.of(Checkpoint))) > 5
    alignment = align(tmp_path)
    assert (alignment.status, alignment.findings) == ("aligned", ())


def test_checkpoints_come_after_so_many_bytes() -> None:
    file = RankFile(header(), checkpoint_every=1000)
    file.add(group())
    steady(file, 50)
    [(_, data)] = file.segments()
    between = [len(part) for part in data.split(b'{"kind":"checkpoint"')]
    assert len(between) > 5
    # No further apart than that, a line and the checkpoint's own.
    assert all(1000 <= size < 1600 for size in between[2:-1])


def test_each_segment_begins_with_what_a_reader_must_know(tmp_path: Path) -> None:
    file = RankFile(header(), segment_bytes=2000)
    file.add(group())
    file.add(group(group="gone"))
    file.add(group(group="others", member=False))
    file.add(group(group="gone", phase="destroyed"))
    steady(file, 40)
    file.write(tmp_path / "rank00000.jsonl")
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written[:2] == ["rank00000.0001.jsonl", "rank00000.0002.jsonl"]
    assert written[-1] == "rank00000.jsonl"
    for n, data in file.segments():
        first, *_ = records(data)
        assert isinstance(first, Header)
        assert first.segment == n
        assert first.wall - first.t == 4000, "both clocks go on"
        expected = ["header", "group", "checkpoint"] if n else ["header", "checkpoint", "group"]
        assert kinds(data)[:3] == expected
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(b"".join(data for _, data in file.segments()))
    check_checkpoints(read(whole))
    check_chain(read(whole))


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_of_many_segments_the_first_and_the_latest_are_kept(keep: int) -> None:
    file = RankFile(header(), segment_bytes=1500, keep=keep)
    steady(file, 40)
    ordinals = [n for n, _ in file.segments()]
    last = ordinals[-1] if keep > 1 else None
    assert ordinals == [0, *([] if last is None else range(last - keep + 2, last + 1))]
    if last is not None:
        _, data = file.segments()[-1]
        found = next(record for record in records(data) if isinstance(record, Checkpoint))
        assert found.rotated == last + 1 - keep


def test_a_loss_is_told_before_the_next_line() -> None:
    file, whole = RankFile(header()), RankFile(header())
    for each in (file, whole):
        each.add(group())
        each.add(call("barrier"))
    file.lose(call("all_reduce", dtype="float32", shape=[1], reduce_op="SUM"))
    whole.add(call("all_reduce", dtype="float32", shape=[1], reduce_op="SUM"))
    for each in (file, whole):
        each.add(call("barrier"))
    [(_, data)], [(_, unharmed)] = file.segments(), whole.segments()
    assert kinds(data)[-4:] == ["header", "group", "checkpoint", "call"]
    told = records(data)[-2]
    assert isinstance(told, Checkpoint)
    assert (told.dropped, told.streams[0][2]) == (1, 2)
    assert records(data)[-1] == records(unharmed)[-1]


def test_bytes_are_taken_as_they_are() -> None:
    file = RankFile(header())
    file.raw(b"not a record\n")
    [(_, data)] = file.segments()
    assert data.endswith(b"\nnot a record\n")
