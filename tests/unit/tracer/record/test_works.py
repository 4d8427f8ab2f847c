"""Works of asynchronous calls: what is asked, what is told, and that no tensor is kept alive.

The works are gloo's, of two ranks that are threads of this process: an all_reduce of one rank is
under way until the other one comes, which it does when a test says so.
"""

from __future__ import annotations

import datetime
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed import ProcessGroupGloo, Work

from collectrace.records import Call, Unwaited
from collectrace.tracer.record.scopes import now
from collectrace.tracer.record.streams import Stream
from collectrace.tracer.record.template import Template
from collectrace.tracer.record.works import Works
from collectrace.tracer.tap.arguments import CallFields

MIB: Final = 1 << 20
FOR_EVER: Final = 10**18
"""Nanoseconds of patience that no test outlasts."""


class Pair:
    """Two gloo ranks; the works are of rank 0."""

    def __init__(self) -> None:
        # torch's stubs leave out what a backend can do.
        store, ranks = HashStore(), dict[int, Any]()

        def join(rank: int) -> None:
            ranks[rank] = ProcessGroupGloo(store, rank, 2, datetime.timedelta(seconds=30))

        crew = [threading.Thread(target=join, args=(rank,)) for rank in (0, 1)]
        for member in crew:
            member.start()
        for member in crew:
            member.join()
        self._zero, self._one = ranks[0], ranks[1]
        self._sizes: list[int] = []

    def issue(self, tensor: torch.Tensor | None = None) -> Work:
        """An all_reduce of rank 0, in which it waits for rank 1."""
        tensor = torch.ones(1) if tensor is None else tensor
        self._sizes.append(tensor.numel())
        work: Work = self._zero.allreduce([tensor])
        return work

    def boxed(self) -> Any:
        """One more, as the dispatcher hands it out: who has that has the Work and its tensors."""
        return Work.boxed(self.issue())

    def complete(self, count: int = 1) -> None:
        """Rank 1 comes to so many of them, from the oldest on."""
        for _ in range(count):
            self._one.allreduce([torch.ones(self._sizes.pop(0))]).wait()

    def complete_all(self) -> None:
        self.complete(len(self._sizes))


@pytest.fixture(scope="module")
def both() -> Pair:
    return Pair()


@pytest.fixture
def pair(both: Pair) -> Iterator[Pair]:
    yield both
    both.complete_all()


def wait_until_complete(work: Work) -> None:
    """Rank 0's thread of gloo may be a moment behind rank 1's."""
    while not work.is_completed():
        time.sleep(0.001)


def template(
    op: str = "all_reduce", *, role: str = "user", site: str = "train.py:7", nbytes: int = 4,
    device: str = "cpu", counter: Stream | None = None,
) -> Template:  # fmt: skip
    counter = counter or Stream("0", device, "gloo" if device == "cpu" else "nccl")
    call = Call(seq=0, group="0", device=device, op=op, role=role, site=site)
    return Template(call, counter, CallFields(op, device, nbytes=nbytes, is_async=True))


def is_gone(reference: weakref.ref[Any]) -> bool:
    gc.collect()
    return reference() is None


def told(works: Works) -> list[tuple[int, str, str | None, int, bool | None]]:
    return [(r.seq, r.op, r.site, r.count, r.touched) for r in works.unwaited_records()]


def hold(works: Works, kind: Template, seq: int, boxed: Any) -> weakref.ref[Any]:
    works.hold(kind, seq, boxed, now())
    return weakref.ref(boxed)


# -- held to be asked -----------------------------------------------------------------------


def test_a_work_is_asked_until_it_is_complete_and_then_let_go(pair: Pair) -> None:
    works, kind = Works(), template()
    kind.counter.open[1] = now()
    tensor = torch.ones(5)
    work = pair.issue(tensor)
    works.hold(kind, 1, Work.boxed(work), now())
    works.poll(FOR_EVER)
    assert (kind.counter.done, list(kind.counter.open)) == (0, [1])
    pair.complete()
    wait_until_complete(work)
    works.poll(FOR_EVER)
    assert (kind.counter.done, list(kind.counter.open)) == (1, [])
    gone = weakref.ref(tensor)
    del work, tensor
    assert is_gone(gone)


def test_a_work_that_is_never_heard_of_is_let_go_in_time(pair: Pair) -> None:
    works, kind = Works(), template()
    gone = hold(works, kind, 1, pair.boxed())
    works.hold(kind, 2, pair.boxed(), now() + FOR_EVER)
    assert not is_gone(gone)
    works.poll(1)
    assert is_gone(gone)
    assert kind.counter.done == 0, "that it was let go says nothing"
    pair.complete_all()
    while not kind.counter.done:
        works.poll(FOR_EVER)
    assert kind.counter.done == 2, "the younger one was still asked"


def test_on_a_device_a_work_is_held_until_it_is_complete(pair: Pair) -> None:
    works, kind = Works(), template(device="cuda")
    works.hold(kind, 1, pair.boxed(), now() - FOR_EVER)
    works.poll(1)
    pair.complete()
    while not kind.counter.done:
        works.poll(1)
    assert kind.counter.done == 1


def test_a_work_written_in_python_is_not_asked_on_a_thread_its_author_never_thought_of() -> None:
    class Theirs(Work):
        def __init__(self) -> None:
            super().__init__()
            self.asked = 0

        def is_completed(self) -> bool:
            self.asked += 1
            return True

    works, kind, work = Works(), template(), Theirs()
    works.hold(kind, 1, Work.boxed(work), now())
    works.poll(FOR_EVER)
    assert (work.asked, kind.counter.done) == (0, 0)


def test_who_was_waited_for_is_asked_no_more(pair: Pair) -> None:
    works, one, other = Works(), template(), template(site="train.py:8")
    calls = [(other, 2), (one, 1), (one, 2), (one, 3)]
    references = [hold(works, *call, pair.boxed()) for call in calls]
    works.release((one, 2))
    works.release((one, 4))  # never held
    assert [is_gone(reference) for reference in references] == [False, False, True, False]


# -- how many are held, and how large -------------------------------------------------------


def hold_many(works: Works, pair: Pair, kind: Template, count: int) -> list[weakref.ref[Any]]:
    return [hold(works, kind, seq, pair.boxed()) for seq in range(1, count + 1)]


def held(references: list[weakref.ref[Any]]) -> list[int]:
    """The sequence numbers of the works that live."""
    gc.collect()
    return [seq for seq, reference in enumerate(references, 1) if reference() is not None]


def test_few_works_are_held_the_first_and_the_latest_among_them(pair: Pair) -> None:
    works = Works()
    left = held(hold_many(works, pair, template(), 200))
    assert 10 <= len(left) <= 32
    assert left[0] == 1, "the first that is incomplete is the one that matters"
    assert left[-1] == 200
    assert max(left[-1] - seq for seq in left[1:]) > 40, "not only what was issued just now"


def test_a_work_of_large_tensors_is_not_held_at_all(pair: Pair) -> None:
    works = Works()
    for nbytes, is_held in ((64 * MIB + 1, False), (64 * MIB, True)):
        left = held(hold_many(works, pair, template(nbytes=nbytes), 1))
        assert left == [1] * is_held


def test_works_are_held_up_to_so_many_bytes_in_all(pair: Pair) -> None:
    works = Works()
    left = held(hold_many(works, pair, template(nbytes=10 * MIB), 20))
    assert 1 <= len(left) <= 6
    assert (left[0], left[-1]) == (1, 20)


@pytest.mark.parametrize("go", ["release", "poll", "forget_all"])
def test_what_was_let_go_counts_no_more(go: str, pair: Pair) -> None:
    works, kind = Works(), template(nbytes=10 * MIB)
    for _ in range(3):
        assert len(held(hold_many(works, pair, kind, 6))) == 6
        if go == "forget_all":
            works.forget_all()
        elif go == "poll":
            works.poll(0)
        else:
            for seq in range(1, 7):
                works.release((kind, seq))


def test_before_its_group_goes_every_work_does(pair: Pair) -> None:
    works = Works()
    references = hold_many(works, pair, template(device="cuda"), 3)
    works.forget_all()
    assert held(references) == []
    assert list(works.oldest_incomplete()) == []


def test_what_a_device_is_in_is_its_oldest_incomplete_call(pair: Pair) -> None:
    works, host = Works(), template()
    streams = [template(device="cuda"), template(device="cuda")]
    works.hold(host, 1, pair.boxed(), now())
    issued = []
    for seq, kind in ((1, streams[0]), (1, streams[1]), (2, streams[0])):
        issued.append(pair.issue())
        works.hold(kind, seq, Work.boxed(issued[-1]), now())
    fronts = [(front.template, front.seq) for front in works.oldest_incomplete()]
    assert fronts == [(streams[0], 1), (streams[1], 1)]
    pair.complete(2)
    for work in issued[:1]:
        wait_until_complete(work)
    works.poll(FOR_EVER)
    fronts = [(front.template, front.seq) for front in works.oldest_incomplete()]
    assert fronts == [(streams[1], 1), (streams[0], 2)]


# -- handed to the user ---------------------------------------------------------------------


def test_a_work_is_known_by_its_call_while_the_user_has_it(pair: Pair) -> None:
    works, call = Works(), (template(), 3)
    mine, other, boxed = pair.issue(), pair.issue(), pair.issue()
    works.track(mine, call, torch.ones(1))
    works.hold(call[0], 4, Work.boxed(boxed), now())
    assert works.call_of(mine) == call
    assert works.call_of(boxed) == (call[0], 4), "from a future's wait, or DDP's"
    assert works.call_of(other) is None


def test_what_is_handed_over_is_not_kept_alive(pair: Pair) -> None:
    works, tensor = Works(), torch.ones(3)
    work = pair.issue(tensor)
    works.track(work, (template(), 1), tensor)
    pair.complete()
    wait_until_complete(work)
    mine, buffer = weakref.ref(work), weakref.ref(tensor)
    del work, tensor
    assert is_gone(mine)
    assert is_gone(buffer)
    assert works._tracked == {}


def test_who_waits_in_time_is_not_told_of(pair: Pair) -> None:
    works, tensor = Works(), torch.ones(3)
    work = pair.issue(tensor)
    works.track(work, (template(), 1), tensor)
    works.waited_for(work)
    pair.complete()
    work.wait()
    tensor.add_(1)
    del work
    gc.collect()
    assert told(works) == []


def test_a_work_that_nobody_waited_for_is_told_with_its_line(pair: Pair) -> None:
    works = Works()
    works.track(pair.issue(), (template("broadcast", site="sync.py:9"), 5), torch.ones(1))
    gc.collect()
    assert told(works) == [(5, "broadcast", "sync.py:9", 1, None)]
    assert told(works) == [], "once"


def test_a_line_is_told_once_with_how_many(pair: Pair) -> None:
    works, loop, other = Works(), template(), template(site="train.py:8")
    for seq, kind in ((1, loop), (2, other), (3, loop), (4, loop)):
        works.track(pair.issue(), (kind, seq), None)
    gc.collect()
    assert told(works) == [
        (1, "all_reduce", "train.py:7", 3, None), (2, "all_reduce", "train.py:8", 1, None),
    ]  # fmt: skip


def test_it_is_told_of_which_stream(pair: Pair) -> None:
    works = Works()
    works.track(pair.issue(), (template(counter=Stream("3", "xpu", "xccl")), 1), None)
    gc.collect()
    (record,) = works.unwaited_records()
    assert isinstance(record, Unwaited)
    assert (record.group, record.device) == ("3", "xpu")


@pytest.mark.parametrize("role", ["ddp.backward.bucket", "zero.step", "unknown"])
def test_what_a_framework_drops_is_its_own_affair(role: str, pair: Pair) -> None:
    works = Works()
    works.track(pair.issue(), (template(role=role), 1), None)
    gc.collect()
    assert told(works) == []


def test_a_buffer_that_is_written_to_before_the_wait_is_told(pair: Pair) -> None:
    works, tensor = Works(), torch.ones(3)
    work = pair.issue(tensor)
    works.track(work, (template(), 2), tensor)
    tensor.add_(1)
    works.waited_for(work)
    works.waited_for(work)  # a second wait finds nothing new
    assert told(works) == [(2, "all_reduce", "train.py:7", 1, True)]
    del work
    gc.collect()
    assert told(works) == [], "and it was waited for"


def test_what_the_backend_writes_is_no_touch(pair: Pair) -> None:
    works, tensor = Works(), torch.ones(3)
    work = pair.issue(tensor)
    works.track(work, (template(), 2), tensor)
    pair.complete()
    work.wait()
    assert tensor.tolist() == [2, 2, 2]
    works.waited_for(work)
    assert told(works) == []


def test_a_read_is_no_touch_and_neither_is_a_write_elsewhere(pair: Pair) -> None:
    works, tensor = Works(), torch.ones(3)
    work = pair.issue(tensor)
    works.track(work, (template(), 2), tensor)
    other = tensor + tensor.sum()
    other.add_(1)
    works.waited_for(work)
    assert told(works) == []


def test_only_where_the_result_is_written_in_place_a_touch_counts(pair: Pair) -> None:
    """The input of an all_gather may change as soon as the call returns, as far as anyone sees."""
    works, tensor = Works(), torch.ones(3)
    work = pair.issue(tensor)
    works.track(work, (template("all_gather_single"), 2), tensor)
    tensor.add_(1)
    works.waited_for(work)
    assert told(works) == []


def test_a_tensor_that_counts_no_versions_is_no_failure(pair: Pair) -> None:
    works = Works()
    with torch.inference_mode():
        tensor = torch.ones(3)
    work = pair.issue()
    works.track(work, (template(), 2), tensor)
    with torch.inference_mode():
        tensor.add_(1)
    works.waited_for(work)
    assert told(works) == []


def test_a_tensor_that_is_gone_was_touched_by_nobody(pair: Pair) -> None:
    works, work = Works(), pair.issue()
    works.track(work, (template(), 2), torch.ones(3))
    works.waited_for(work)
    assert told(works) == []


def test_a_write_to_another_part_of_a_storage_is_no_touch(pair: Pair) -> None:
    """Views of one storage share a version, so nothing is known of a part."""
    works, whole = Works(), torch.ones(2, 3)
    for part in (whole[0], whole[0].detach()):
        work = pair.issue(part)
        works.track(work, (template(), 2), part)
        whole[1].add_(1)
        works.waited_for(work)
    assert told(works) == []


def test_a_view_of_all_of_a_storage_is_watched(pair: Pair) -> None:
    works, whole = Works(), torch.ones(2, 3)
    flat = whole.view(6)
    work = pair.issue(flat)
    works.track(work, (template(), 2), flat)
    whole[1].add_(1)
    works.waited_for(work)
    assert [fault[-1] for fault in told(works)] == [True]


class Watchful(torch.Tensor):
    """A tensor of the user's, whose every use runs the user's code."""

    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the tracer has run it")


def test_a_tensor_of_the_users_own_class_is_not_asked(pair: Pair) -> None:
    works, tensor = Works(), torch.ones(3).as_subclass(Watchful)
    work = pair.issue()
    works.track(work, (template(), 2), tensor)
    works.waited_for(work)
    assert told(works) == []


@pytest.mark.parametrize("op", ["send", "recv"])
@pytest.mark.parametrize("is_touched", [True, False])
def test_a_message_that_was_written_to_before_the_wait(
    op: str, is_touched: bool, pair: Pair
) -> None:
    works, tensor, other = Works(), torch.ones(3), torch.ones(3)
    work, unrelated = pair.issue(tensor), pair.issue(other)
    works.hold(template(op), 7, Work.boxed(unrelated), now(), other)
    works.hold(template(op), 8, Work.boxed(work), now(), tensor)
    (tensor if is_touched else tensor + 1).mul_(0.5)
    works.waited_for(work)
    works.waited_for(work)
    assert told(works) == ([(8, op, "train.py:7", 1, True)] if is_touched else [])
    tensor.mul_(0.5)
    works.waited_for(work)
    works.waited_for(unrelated)
    assert told(works) == [], "a write after the wait is no touch"


def test_a_message_is_not_kept_alive(pair: Pair) -> None:
    works, tensor = Works(), torch.ones(3)
    work = pair.issue()
    works.hold(template("send"), 1, Work.boxed(work), now(), tensor)
    buffer = weakref.ref(tensor)
    del tensor
    assert is_gone(buffer)
    works.waited_for(work)
    assert told(works) == []


def test_at_a_good_end_what_was_not_waited_for_never_will_be(pair: Pair) -> None:
    works = Works()
    waited, kept, bucket = (pair.issue() for _ in range(3))
    works.track(waited, (template(), 1), None)
    works.track(kept, (template(site="train.py:8"), 2), None)
    works.track(bucket, (template(role="ddp.backward.bucket"), 3), None)
    works.waited_for(waited)
    works.mark_rest_unwaited()
    assert told(works) == [(2, "all_reduce", "train.py:8", 1, None)]
    del waited, kept, bucket
    gc.collect()
    assert told(works) == [], "not again when they die"


def test_a_work_of_someone_else_is_no_failure(pair: Pair) -> None:
    works = Works()
    works.waited_for(pair.issue())
    assert told(works) == []


# -- the real thing -------------------------------------------------------------------------


@pytest.fixture
def alone() -> Iterator[None]:
    """A default group of this process alone."""
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_torch_itself_touches_no_buffer_after_the_call_has_returned() -> None:
    works, tensor = Works(), torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    works.track(work, (template(), 1), tensor)
    work.wait()
    works.waited_for(work)
    assert told(works) == []
