"""Scopes: what wins where they nest, what each thread is in, and that nothing is kept alive."""

from __future__ import annotations

import _thread
import gc
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

import pytest

from collectrace.records import NATIVE
from collectrace.tracer.record import scopes
from collectrace.tracer.record.scopes import ROOT, Backward, Scope, ThreadState
from collectrace.tracer.record.sites import NOWHERE, Place


class Owner:
    """Stands for a DDP module."""


def _line() -> None:
    """Stands for a function of the user's."""


LINE: Final = Place(((_line.__code__, 0),), is_open=False)


# -- public functions -----------------------------------------------------------------------


def test_the_outermost_public_function_counts() -> None:
    inside = ROOT.inside_api("batch_isend_irecv").inside_api("send")
    assert inside.api == "batch_isend_irecv"


def test_the_same_nesting_is_the_same_scope() -> None:
    """A record's fixed part is found by it: a new one each time would never be."""
    owner = Owner()

    def nest() -> Scope:
        scope = ROOT.inside_what("backward").inside_role("ddp.backward.bucket", owner)
        return scope.inside_group("1").inside_api("all_reduce")

    assert nest() is nest()
    assert nest() is not ROOT.inside_api("all_reduce")


def test_what_a_framework_calls_is_not_the_users_call() -> None:
    inside = ROOT.inside_api("all_reduce").inside_role("join.bucket", None)
    assert (inside.api, inside.role) == (None, "join.bucket")
    assert inside.inside_api("broadcast").api == "broadcast"


# -- roles ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outer", "inner", "role"),
    [
        # The more precise one, whichever is inside.
        ("ddp.forward", "ddp.forward.notify_join", "ddp.forward.notify_join"),
        ("ddp.forward", "ddp.forward.sync_buffers", "ddp.forward.sync_buffers"),
        ("ddp.construct", "ddp.forward.sync_buffers", "ddp.forward.sync_buffers"),
        ("join", "join.bucket", "join.bucket"),
        ("join", "join.final_sync", "join.final_sync"),
        ("join.final_sync", "join.common_rank", "join.common_rank"),
        ("join.common_rank", "ddp.forward.sync_buffers", "join.common_rank"),
        ("ddp.forward.notify_join", "ddp.forward", "ddp.forward.notify_join"),
        ("zero.step", "ddp.forward", "zero.step"),
        ("zero.step", "ddp.forward.notify_join", "ddp.forward.notify_join"),
        ("ddp.forward.sync_buffers", "ddp.forward.sync_check", "ddp.forward.sync_check"),
        # Of two that are as precise, the outer one: a hook is run by the reducer, or by join().
        ("join.bucket", "ddp.backward.bucket", "join.bucket"),
        ("join.bucket", "ddp.forward.notify_join", "join.bucket"),
        ("ddp.backward.bucket", "zero.step", "ddp.backward.bucket"),
        # One helper, three masters.
        ("ddp.forward.sync_buffers", "join.common_rank", "ddp.forward.buffers_rank"),
        ("join.sync_buffers", "join.common_rank", "join.buffers_rank"),
        ("join.sync_buffers", "ddp.forward.sync_buffers", "join.sync_buffers"),
    ],
)
def test_which_role_counts_where_two_nest(outer: str, inner: str, role: str) -> None:
    assert ROOT.inside_role(outer, None).inside_role(inner, None).role == role


def test_a_buffers_broadcast_on_a_joined_rank_is_joins_all_the_way_down() -> None:
    inside = ROOT
    for role in ("join", "join.sync_buffers", "ddp.forward.sync_buffers", "join.common_rank"):
        inside = inside.inside_role(role, None)
    assert inside.role == "join.buffers_rank"


def test_what_a_thread_is_in_and_where_stays_with_a_role() -> None:
    inside = ROOT.inside_what("backward").inside_group("2").inside_role("zero.step", None)
    assert (inside.what, inside.within) == ("backward", frozenset("2"))
    inside = inside.inside_group("5").inside_what("sync")
    assert (inside.what, inside.within, inside.role) == ("sync", frozenset("25"), "zero.step")


# -- owners ---------------------------------------------------------------------------------


def test_the_model_that_a_role_belongs_to_and_a_helper_of_it() -> None:
    model, other = Owner(), Owner()
    inside = ROOT.inside_role("ddp.forward", model)
    assert inside.owner is not None
    assert inside.owner() is model
    helper = inside.inside_role("join.common_rank", None)
    assert helper.owner is not None
    assert helper.owner() is model
    assert ROOT.inside_role("ddp.forward", other) is not inside


def test_no_owner_is_kept_alive() -> None:
    model = Owner()
    gone = weakref.ref(model)
    ROOT.inside_role("ddp.forward", model).inside_api("all_reduce")
    del model
    gc.collect()
    assert gone() is None


def test_models_that_are_gone_leave_no_scopes() -> None:
    scope, living = Scope(), Owner()
    role, backward = scope.inside_role("ddp.forward", living), scope.inside_backward(living)
    for owner in [Owner() for _ in range(100)]:
        scope.inside_role("ddp.forward", owner)
        scope.inside_backward(owner)
    del owner
    another = Owner()
    left = [role, scope.inside_role("ddp.forward", another)]
    assert [s for s in scope.children.values() if s.owner is not None] == left
    left = [backward, scope.inside_backward(another)]
    assert list(scope.inside_what("backward").children.values()) == left


def test_a_model_at_the_address_of_a_dead_one_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one_address = 4711
    monkeypatch.setattr(scopes, "id", lambda _: one_address, raising=False)
    model = Owner()
    first = ROOT.inside_role("ddp.forward", model)
    assert ROOT.inside_role("ddp.forward", model) is first
    del model
    gc.collect()
    model = Owner()
    second = ROOT.inside_role("ddp.forward", model)
    assert second is not first
    assert second.owner is not None
    assert second.owner() is model


def test_an_owner_that_takes_no_weak_reference_is_none() -> None:
    assert ROOT.inside_role("zero.step", 3).owner is None


# -- the calling thread ---------------------------------------------------------------------


def test_a_scope_lasts_as_long_as_the_call_even_if_that_raises() -> None:
    mine, outer = scopes.local.state, ROOT.inside_what("sync")

    def fail(*args: Any, **kwargs: Any) -> None:
        seen.append((mine.scope, args, kwargs))
        raise ZeroDivisionError

    seen: list[Any] = []
    assert mine.scope is ROOT
    with pytest.raises(ZeroDivisionError):
        scopes.within(outer, scopes.within, (ROOT.inside_api("x"), fail, (1,), {"a": 2}), {})
    assert seen == [(ROOT.inside_api("x"), (1,), {"a": 2})]
    assert mine.scope is ROOT
    assert scopes.within(outer, lambda: scopes.local.state.scope, (), {}) is outer


def known() -> ThreadState:
    """The calling thread's state, which there is from now on."""
    return scopes.local.state


def on_a_thread(function: Callable[[], Any], start: Callable[..., Any] | None = None) -> Any:
    """What a function returns on a thread of its own, whoever starts that."""
    results: list[Any] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(function())
        finally:
            ended.set()

    if start is None:
        thread = threading.Thread(target=run, name="saver")
        thread.start()
        thread.join()
    else:
        start(run, ())
        assert ended.wait(30)
    return results[0]


def test_the_main_thread_has_a_name_and_no_label() -> None:
    mine = ThreadState()
    assert (mine.name, mine.label) == ("MainThread", "")


def test_another_thread_is_labelled_by_its_name_and_starts_anew() -> None:
    def look() -> tuple[Any, ...]:
        mine = scopes.local.state
        return mine.name, mine.label, mine.scope, mine

    with_scope = ROOT.inside_what("batch")
    found = scopes.within(with_scope, on_a_thread, (look,), {})
    assert found[:3] == ("saver", "saver", ROOT)
    assert found[3] is not scopes.local.state


def test_a_thread_that_python_did_not_start_is_told_by_its_number_and_stays_unknown() -> None:
    """Like autograd's: ``current_thread()`` would register it for ever."""
    before = threading.enumerate()

    def look() -> tuple[str, str, int]:
        mine = scopes.local.state
        return mine.name, mine.label, threading.get_native_id()

    name, label, number = on_a_thread(look, _thread.start_new_thread)
    assert name == label == f"native-{number}"
    assert threading.enumerate() == before


def test_all_threads_are_seen_from_outside_while_they_live() -> None:
    entered, leave = threading.Event(), threading.Event()
    mine = scopes.local.state

    def stay() -> None:
        scopes.local.state.scope = ROOT.inside_what("batch")
        entered.set()
        leave.wait(30)

    def seen() -> dict[str, str | None]:
        return {state.name: state.scope.what for state in scopes.all_states()}

    thread = threading.Thread(target=stay, name="loader")
    thread.start()
    assert entered.wait(30)
    assert mine in scopes.all_states()
    assert seen()["loader"] == "batch"
    leave.set()
    thread.join()
    gc.collect()
    assert "loader" not in seen()
    assert mine in scopes.all_states()


def test_threads_that_have_ended_are_forgotten() -> None:
    """At once, for of those that come one by one the next gets the number of the last."""
    scopes.all_states()
    before = set(scopes._states)
    met = threading.Barrier(21)

    def meet() -> None:
        known()
        met.wait(30)

    crew = [threading.Thread(target=meet) for _ in range(20)]
    for member in crew:
        member.start()
    met.wait(30)
    assert len(scopes._states) >= 20
    for member in crew:
        member.join()
    gc.collect()
    scopes.all_states()
    assert set(scopes._states) <= before


def test_a_forked_child_has_the_thread_that_forked_and_no_other() -> None:
    leave, entered = threading.Event(), threading.Event()

    def stay() -> None:
        known()
        entered.set()
        leave.wait(30)

    other = threading.Thread(target=stay)
    other.start()
    assert entered.wait(30)

    def fork() -> int:
        """On a thread that is not the main one; in the child it is."""
        mine = scopes.local.state
        mine.wait, mine.call = (None, 3, 4), (None, 3)  # type: ignore[assignment]
        mine.given_at = LINE
        scopes.backward.enter(LINE)
        try:
            child = os.fork()
            if child == 0:
                scopes.after_fork()
                alone = scopes.all_states() == [mine] and scopes.local.state is mine
                idle = mine.wait is None and mine.call is None and not scopes.backward
                alone = alone and mine.label == "" and mine.given_at is NOWHERE
                os._exit(0 if alone and idle else 1)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        finally:
            scopes.backward.leave()

    try:
        assert on_a_thread(fork) == 0
        assert len(scopes.all_states()) >= 2
    finally:
        leave.set()
        other.join()


# -- backward -------------------------------------------------------------------------------


def test_a_backward_of_a_known_module() -> None:
    module = Owner()
    inside = ROOT.inside_api("backward").inside_backward(module)
    assert (inside.what, inside.role, inside.api) == ("backward", None, "backward")
    assert inside.owner is not None
    assert inside.owner() is module
    assert inside is ROOT.inside_api("backward").inside_backward(module)
    assert inside is not ROOT.inside_api("backward").inside_backward(Owner())


def test_a_backward_of_a_module_that_is_not_known() -> None:
    inside = ROOT.inside_backward(None)
    assert inside is ROOT.inside_what("backward")
    assert inside.owner is None


def test_a_backward_inside_of_a_role_is_whose_the_role_is() -> None:
    owner = Owner()
    inside = ROOT.inside_role("join.bucket", owner).inside_backward(Owner())
    assert (inside.what, inside.role) == ("backward", "join.bucket")
    assert inside.owner is not None
    assert inside.owner() is owner


def test_a_backward_of_a_module_in_the_place_of_one_that_is_gone() -> None:
    """The id of an object that is gone may be given to another one."""
    module, gone = Owner(), Owner()
    scope = ROOT.inside_what("backward")
    stale = scope.children["backward", id(module)] = Scope(owner=weakref.ref(gone))
    del gone
    gc.collect()
    inside = ROOT.inside_backward(module)
    assert inside is not stale
    assert inside.owner is not None
    assert inside.owner() is module


def test_of_backwards_in_flight_the_latest_supplies_the_line() -> None:
    flight = Backward()
    outer, inner = Place(LINE.frames, is_open=False), LINE
    assert (bool(flight), flight.place) == (False, NOWHERE)
    flight.enter(outer)
    flight.enter(inner)
    assert (bool(flight), flight.place) == (True, inner)
    flight.leave()
    assert (bool(flight), flight.place) == (True, outer)
    flight.leave()
    flight.leave()  # of one that began before tracing did
    assert (bool(flight), flight.place) == (False, NOWHERE)


def test_a_backward_is_lent_to_threads_of_c_alone() -> None:
    mine = scopes.local.state
    threads: list[ThreadState] = []
    thread = threading.Thread(target=lambda: threads.append(scopes.local.state))
    scopes.started_at[thread] = started = Place(LINE.frames, is_open=False)
    thread.start()
    thread.join()
    ended = threading.Event()

    def native_work() -> None:
        threads.append(scopes.local.state)
        ended.set()

    _thread.start_new_thread(native_work, ())
    assert ended.wait(30)
    python, native = threads
    scopes.backward.enter(LINE)
    try:
        assert (mine.lent(), python.lent(), native.lent()) == (NOWHERE, started, LINE)
    finally:
        scopes.backward.leave()
    assert native.lent() == NOWHERE


def test_a_thread_of_c_stays_one_when_somebody_asks_for_its_name() -> None:
    """``logging`` does so, and threading makes up a thread for it."""
    names: list[str] = []
    ended = threading.Event()

    def asked() -> None:
        names.extend((threading.current_thread().name, ThreadState().name))
        ended.set()

    _thread.start_new_thread(asked, ())
    assert ended.wait(30)
    assert names[0].startswith("Dummy-")
    assert names[1].startswith(NATIVE)
