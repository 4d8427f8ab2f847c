"""The counters: what a watermark may say, and what is heard of no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectrace.signature import EMPTY
from collectrace.tracer.record.streams import CallCounter, Channel, Stream

LONG_AGO, LATELY, NOW = 1, 2, 3


def stream(backend: str = "gloo", *, opened: int = 0, t: int = LATELY) -> Stream:
    """One that has issued so many asynchronous calls."""
    made = Stream("0", "cpu", backend)
    made.seq = opened
    made.open.update(dict.fromkeys(range(1, opened + 1), t))
    return made


# -- watermarks -----------------------------------------------------------------------------


def test_nothing_is_complete_at_first() -> None:
    counter = CallCounter("0", "cpu")
    assert (counter.seq, counter.reported, counter.watermark(None)) == (0, 0, 0)
    assert stream(opened=3).watermark(None) == 0


def test_synchronous_calls_are_complete_one_by_one() -> None:
    counter = stream()
    for seq in (1, 2, 3):
        counter.complete(seq)
        assert counter.watermark(None) == seq


def test_a_watermark_stays_below_the_first_call_that_is_open() -> None:
    counter = stream(opened=4)
    counter.complete(3)
    assert counter.watermark(None) == 0
    counter.complete(1)
    assert counter.watermark(None) == 1
    counter.complete(2)
    assert counter.watermark(None) == 3, "of 4 nothing is known"


def test_a_watermark_stays_below_the_call_that_a_thread_is_in() -> None:
    counter = stream()
    counter.complete(7)
    assert counter.watermark(5) == 4
    assert counter.watermark(8) == 7
    counter.open[3] = LATELY
    assert counter.watermark(5) == 2


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.data())
def test_a_watermark_never_passes_a_call_that_may_be_under_way(
    asynchronous: list[bool], data: st.DataObject
) -> None:
    """Whatever completes in whichever order: each mark is true, and none is below the last."""
    counter = stream()
    open_: list[int] = []
    complete: set[int] = set()
    last = 0
    for seq, is_async in enumerate(asynchronous, 1):
        counter.seq = seq
        if is_async:
            counter.open[seq] = LATELY
            open_.append(seq)
        else:
            counter.complete(seq)
            complete.add(seq)
        while data.draw(st.booleans()) and open_:
            done = open_.pop(data.draw(st.integers(0, len(open_) - 1)))
            counter.complete(done)
            complete.add(done)
        mark = counter.watermark(None)
        assert complete.issuperset(range(1, mark + 1))
        assert mark >= last
        last = mark
    for seq in open_:
        counter.complete(seq)
    assert counter.watermark(None) == len(asynchronous)


# -- in order, or not -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["nccl", "nccl2", "nccl-legacy"])
def test_on_nccl_a_completed_call_speaks_for_all_before_it(backend: str) -> None:
    counter = stream(backend, opened=5)
    counter.complete(3)
    assert (counter.watermark(None), list(counter.open)) == (3, [4, 5])


@pytest.mark.parametrize("backend", ["gloo", "mpi", ""])
def test_elsewhere_it_speaks_for_itself_alone(backend: str) -> None:
    counter = stream(backend, opened=5)
    counter.complete(3)
    assert (counter.watermark(None), list(counter.open)) == (0, [1, 2, 4, 5])


# -- works that are never heard of again ----------------------------------------------------


def test_a_dropped_work_that_was_overtaken_is_waited_for_no_longer() -> None:
    counter = stream(opened=2, t=LONG_AGO)
    counter.complete(3)
    assert counter.watermark(None) == 0
    counter.forget_overtaken(before=NOW)
    assert counter.watermark(None) == 3


def test_a_call_that_nothing_has_overtaken_may_hang_and_stays() -> None:
    counter = stream(opened=3, t=LONG_AGO)
    counter.complete(1)
    counter.forget_overtaken(before=NOW)
    assert list(counter.open) == [2, 3]
    assert counter.watermark(None) == 1


def test_a_call_is_given_its_time() -> None:
    counter = stream(opened=2, t=LATELY)
    counter.complete(3)
    counter.forget_overtaken(before=LATELY)
    assert (counter.watermark(None), list(counter.open)) == (0, [1, 2])


def test_works_that_nobody_ever_asks_fill_no_memory() -> None:
    counter = stream(opened=25_000)
    counter.forget_overtaken(before=LONG_AGO)
    assert list(counter.open) == list(range(15_001, 25_001)), "the latest ten thousand"


# -- what a checkpoint says -----------------------------------------------------------------


def test_a_streams_row() -> None:
    counter = Stream("0", "cpu", "gloo")
    assert counter.backend == "gloo", "which decides how its calls are told in digests"
    assert counter.row() == ["0", "cpu", 0, EMPTY, EMPTY, None]
    counter.seq, counter.digest, counter.program, counter.pairs = 7, 11, 12, 13
    assert counter.row() == ["0", "cpu", 7, 11, 12, 13]


def test_a_channels_row_and_its_watermark() -> None:
    counter = Channel("1", "cuda", source=2, destination=0, tag=9)
    counter.seq = 3
    assert counter.row() == ["1", "cuda", 2, 0, 9, 3]
    counter.open.update({2: LATELY, 3: LATELY})
    counter.complete(1)
    counter.complete(3)
    assert counter.watermark(None) == 1, "messages may complete in any order"
