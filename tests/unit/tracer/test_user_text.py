"""Texts of the program's objects are taken whatever these do, and no signal is lost meanwhile."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from collectrace.exceptions import both_ends
from collectrace.tracer import guard, user_objects, user_text
from collectrace.tracer.user_text import plain_text, safe_attribute, safe_name, safe_text
from tests.support import hostile


@pytest.mark.parametrize("kind", hostile.KINDS)
def test_every_exception_has_a_text_and_a_type(kind: str) -> None:
    problem = hostile.KINDS[kind]()
    long = both_ends("x" * hostile.LONG, user_text.LONGEST)
    expected = {"Subclass": "a subclass", "Long": long, "NoAttributes": ""}
    # Not in the assertions: pytest asks what stands there for more than a text.
    text, name, plain = safe_text(problem), user_objects.type_name(problem), plain_text(problem)
    assert text == expected.get(kind, f"<{kind} without a text>")
    assert type(text) is str
    assert name == kind
    assert plain == ""


@pytest.mark.parametrize(
    ("thing", "text"),
    [("text", "text"), (None, "None"), (3, "3"), (KeyError("x"), "'x'"), (b"", "b''"),
     (hostile.Text("odd"), "odd"), (hostile.Odd(), "<Odd without a text>"),
     (10**5000, "<int without a text>")],
    ids=range(8),
)  # fmt: skip
def test_any_object_has_a_text(thing: object, text: str) -> None:
    assert safe_text(thing) == text
    assert type(safe_text(thing)) is str


def test_no_text_is_longer_than_it_may_be() -> None:
    assert len(safe_text("x" * 5000, 100)) == 100
    assert len(safe_name("x" * 5000) or "") == user_text.LONGEST_NAME
    odd = type("N" * 5000, (), {"__str__": None})()
    assert len(user_objects.type_name(odd)) == 1000


def test_an_attribute_that_cannot_be_had_is_none() -> None:
    thread = hostile.Worker()
    assert safe_attribute(thread, "name") is None
    assert safe_attribute(thread, "daemon") is False
    assert safe_attribute(hostile.NoName, "__name__", "unknown") == "unknown"
    assert user_text.thread_name(thread) == "Worker"
    assert user_text.thread_name(threading.main_thread()) == "MainThread"


class Speaks(ValueError):
    """Has a text of its own making."""

    def __str__(self) -> str:
        pytest.fail("it was asked")


class Shows:
    def __repr__(self) -> str:
        pytest.fail("it was asked")


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (ValueError("bad sample 7"), "bad sample 7"),
        (KeyError("x"), "'x'"),
        (FileNotFoundError(2, "No such file or directory", "a.pt"),
         "[Errno 2] No such file or directory: 'a.pt'"),
        (ValueError(), ""),
        (RuntimeError("loss", 0.5), "('loss', 0.5)"),
        (Speaks("no"), ""),
        (ValueError("bad loss", Shows()), ""),
        (AssertionError(Shows()), ""),
    ],
)  # fmt: skip
def test_a_text_that_takes_no_code_of_others(problem: BaseException, text: str) -> None:
    assert plain_text(problem) == text


def test_an_exceptions_parts_are_told_by_python_itself() -> None:
    first = hostile.NoAttributes("why")
    second, traceback = hostile.chained(first)
    assert user_objects.cause_of(second) is first
    assert user_objects.context_of(second) is first
    assert user_objects.traceback_of(second) is traceback
    assert user_objects.traceback_of(first) is not None
    assert user_objects.arguments_of(first) == ("why",)
    assert user_objects.cause_of(first) is None
    assert user_objects.is_a(first, Exception)
    assert not user_objects.is_a(first, OSError)


# -- signals --------------------------------------------------------------------------------


class Waits(Exception):
    """A signal arrives while its text is made."""

    def __init__(self, arrive: Callable[[], object]) -> None:
        self.arrive = arrive

    def __str__(self) -> str:
        self.arrive()
        return "a text"


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as in a terminal: whatever a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_a_text_is_made_arrives() -> None:
    def sleeps() -> None:
        to = threading.main_thread().ident
        threading.Timer(0.05, signal.pthread_kill, [to, signal.SIGINT]).start()
        time.sleep(60)

    for arrive in (sleeps, lambda: signal.raise_signal(signal.SIGINT)):
        with pytest.raises(KeyboardInterrupt):
            safe_text(Waits(arrive))


class Handler:
    """Of the program: it raises, and it cannot be asked anything."""

    def __call__(self, *_: object) -> NoReturn:
        raise TimeoutError("time is up")

    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError(name)


@pytest.mark.parametrize(
    "handler", [Handler().__call__, lambda *_: Handler()()], ids=["method", "function"]
)
def test_what_a_handler_of_the_program_raises_arrives(handler: Any) -> None:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(TimeoutError):
            safe_text(Waits(lambda: signal.raise_signal(signal.SIGUSR1)))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_handler_that_cannot_be_asked_is_no_matter() -> None:
    before = signal.signal(signal.SIGUSR1, Handler())
    try:
        assert not guard.is_users(ValueError())
        assert not guard.is_users(hostile.NoAttributes())
    finally:
        signal.signal(signal.SIGUSR1, before)
