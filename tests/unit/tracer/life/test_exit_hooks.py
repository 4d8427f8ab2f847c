"""How a process ends, as it tells it itself: its status, its exception, and the line of that."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from collectrace.records import Exit, decode, encode
from collectrace.tracer import user_objects
from collectrace.tracer.life.exit_hooks import ExitHooks
from collectrace.tracer.record.models import Models
from collectrace.tracer.values.value_records import ValueRecords
from tests.support import hostile

HERE = f"{__file__}:"


class Told:
    """A run that is told how it ends."""

    def __init__(self) -> None:
        self.live = True
        self.values: ValueRecords | None = None
        self.rank: int | None = 3
        self.ends: list[Exit] = []
        writer = SimpleNamespace(folder=None)
        self.recorder: Any = SimpleNamespace(
            last_t=0, left_by=lambda *_: None, models=Models(), writer=writer
        )
        self.asks = self.explained = False
        self.lingered = 0

    def finish(self, last: Exit) -> None:
        self.ends.append(last)

    def explain(self, last: Exit) -> bool:
        assert last in self.ends
        return self.asks

    def linger(self) -> bool:
        assert self.ends  # it has been told before
        self.lingered += 1
        return self.explained


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def exits(told: Told) -> ExitHooks:
    return ExitHooks(told)


def end(exits: ExitHooks, told: Told) -> Exit:
    """What is written when the process gets to its end."""
    exits.at_end()
    (last,) = told.ends
    return last


def status(last: Exit) -> tuple[str, int | None, str | None]:
    return last.reason, last.code, last.message


def caught(fail: Callable[[], Any]) -> BaseException:
    try:
        fail()
    except BaseException as problem:  # noqa: BLE001 - SystemExit too
        return problem
    raise AssertionError


# -- a normal end ---------------------------------------------------------------------------


def test_without_a_word_it_finished(exits: ExitHooks, told: Told) -> None:
    last = end(exits, told)
    assert status(last) == ("finished", None, None)
    assert last.error is None


@pytest.mark.parametrize(
    ("code", "number", "words"),
    [(None, 0, None), (0, 0, None), (3, 3, None), (True, 1, None), ("no data", 1, "no data"),
     (["odd"], 1, "['odd']"), ([], 1, "[]"), (10**30, -1, None),
     (hostile.Odd(), 1, "<Odd without a text>")],
)  # fmt: skip
def test_the_status_that_sys_exit_was_given(
    code: object, number: int, words: str | None, exits: ExitHooks, told: Told
) -> None:
    """As the interpreter does: None is 0, and what is no number goes to stderr and is 1."""
    exits.note_sys_exit(code)
    last = end(exits, told)
    assert status(last) == ("finished", number, words)
    assert type(last.code) is int
    decode(encode(last))


def test_the_line_that_called_sys_exit(exits: ExitHooks, told: Told) -> None:
    def handler() -> None:
        exits.note_sys_exit(0, sys._getframe())

    handler()
    last = end(exits, told)
    assert last.site is not None
    assert last.site.startswith(HERE)
    assert last.through[0].startswith(HERE)
    assert last.through[0] != last.site


def test_calls_before_sys_exit_do_not_make_it_undone(exits: ExitHooks, told: Told) -> None:
    told.recorder.last_t = time.monotonic_ns()
    exits.note_sys_exit(3)
    assert status(end(exits, told)) == ("finished", 3, None)


def test_no_words_are_endless(exits: ExitHooks, told: Told) -> None:
    exits.note_sys_exit("x" * 1_000_000)
    assert len(end(exits, told).message or "") == 2000


# -- exceptions -----------------------------------------------------------------------------


def _fails(message: str = "loss is nan") -> NoReturn:
    raise ValueError(message)


LINE = _fails.__code__.co_firstlineno + 1


def test_an_exception_counts_even_if_calls_came_after_it(exits: ExitHooks, told: Told) -> None:
    problem = caught(_fails)
    exits.note_exception(problem, problem.__traceback__)
    told.recorder.last_t = time.monotonic_ns() + 1
    assert end(exits, told).reason == "exception"


def test_an_exceptions_text_is_cut_in_its_middle(exits: ExitHooks, told: Told) -> None:
    problem = caught(lambda: _fails("a" + "x" * 1_000_000 + "z"))
    exits.note_exception(problem, problem.__traceback__)
    message = end(exits, told).message
    assert message is not None
    assert (message[:2], message[-2:]) == ("ax", "xz")
    assert len(message) <= 2000


def _as_torch_multiprocessing_does(code: object) -> None:
    try:
        _fails()
    except ValueError:
        sys.exit(code)  # type: ignore[arg-type]


def test_an_exception_that_was_turned_into_sys_exit_is_told(exits: ExitHooks, told: Told) -> None:
    problem = caught(lambda: _as_torch_multiprocessing_does(1))
    exits.note_exception(problem, problem.__traceback__)
    last = end(exits, told)
    assert (last.reason, last.error, last.site) == ("exception", "ValueError", f"{HERE}{LINE}")


def test_a_sys_exit_after_nothing_but_ctrl_c_is_a_status(exits: ExitHooks, told: Told) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    def stop() -> None:
        try:
            interrupted()
        except KeyboardInterrupt:
            sys.exit(130)

    problem = caught(stop)
    exits.note_exception(problem, problem.__traceback__)
    assert status(end(exits, told)) == ("finished", 130, None)


# -- installed ------------------------------------------------------------------------------


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch, told: Told) -> list[Any]:
    """What reached the hook that was there before, and how much the run had been told by then."""
    heard: list[Any] = []

    def theirs(*given: Any) -> None:
        heard.append((given, len(told.ends)))

    monkeypatch.setattr(sys, "excepthook", theirs)
    return heard


def test_an_uncaught_exception_is_told_before_anybody_hears_of_it(
    exits: ExitHooks, told: Told, hooks: list[Any]
) -> None:
    """torch's own shutdown may hang on what just went wrong."""
    undo = exits.install()
    problem = caught(_fails)
    given = (ValueError, problem, problem.__traceback__)
    try:
        sys.excepthook(*given)
    finally:
        undo()
    assert hooks == [(given, 1)]
    assert (told.ends[0].error, told.ends[0].site) == ("ValueError", f"{HERE}{LINE}")


@pytest.mark.parametrize("undone", [False, True])
def test_a_process_that_leaves_says_so_once_while_it_is_installed(
    undone: bool, exits: ExitHooks, told: Told
) -> None:
    child = os.fork()
    if child == 0:
        atexit._clear()
        undo = exits.install()
        if undone:
            undo()
        atexit._run_exitfuncs()
        os._exit(len(told.ends))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (0 if undone else 1)


def test_a_hook_that_was_put_over_ours_stays_and_ours_goes_quiet(
    exits: ExitHooks, told: Told, hooks: list[Any]
) -> None:
    undo = exits.install()
    ours = sys.excepthook

    def over(*given: Any) -> None:
        ours(*given)

    sys.excepthook = over
    undo()
    told.live = False
    assert sys.excepthook is over
    problem = caught(_fails)
    sys.excepthook(ValueError, problem, None)
    assert hooks == [((ValueError, problem, None), 0)]
    assert told.ends == []


@pytest.mark.parametrize(
    ("problem", "rank", "said"),
    [
        (ValueError("bad"), 3, "rank 3 ended with ValueError"),
        (ValueError("bad"), None, "this process ended with ValueError"),
        (KeyboardInterrupt(), 3, "rank 3 was interrupted"),
    ],
)
def test_a_crash_says_how_to_ask_once_its_traceback_is_there(
    problem: BaseException, rank: int | None, said: str, exits: ExitHooks, told: Told,
    hooks: list[Any], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    exits.install()
    told.recorder.writer.folder, told.rank = Path("logs/run"), rank
    sys.excepthook(type(problem), problem, None)
    assert len(hooks) == 1
    assert capsys.readouterr().err == (
        f"collectrace: {said}. To see why, run: python -m collectrace align logs/run\n"
    )


@pytest.mark.parametrize("explained", [False, True])
def test_a_crash_that_others_look_into_is_waited_for_once_its_traceback_is_there(
    explained: bool, exits: ExitHooks, told: Told, hooks: list[Any],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    exits.install()
    told.recorder.writer.folder, told.asks, told.explained = Path("logs/run"), True, explained
    sys.excepthook(ValueError, ValueError("bad"), None)
    # torch's own hook holds back what is printed until all hooks are through.
    assert (len(hooks), told.lingered, capsys.readouterr().err) == (1, 0, "")
    exits._at_exit()
    assert told.lingered == 1
    assert (
        "rank 3 ended with ValueError. To see why, run: " in capsys.readouterr().err
    ) is not explained


def test_without_a_record_there_is_nothing_to_ask(
    exits: ExitHooks, hooks: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    exits.install()
    sys.excepthook(ValueError, ValueError("bad"), None)
    assert (len(hooks), capsys.readouterr().err) == (1, "")


@pytest.mark.parametrize("kind", hostile.KINDS)
def test_an_exception_is_told_whatever_it_does(
    kind: str, exits: ExitHooks, told: Told, hooks: list[Any]
) -> None:
    undo = exits.install()
    first = hostile.KINDS[kind]()
    second, traceback = hostile.chained(first)
    try:
        sys.excepthook(LookupError, second, traceback)
        sys.excepthook(type(first), first, user_objects.traceback_of(first))
    finally:
        undo()
    assert len(hooks) == 2
    by_second, by_first = told.ends
    assert (by_second.reason, by_second.error) == ("exception", "LookupError")
    assert [cause.partition(":")[0] for cause in by_second.causes] == [kind]
    assert (by_first.reason, by_first.error) == ("exception", kind)
    assert all(len(line) <= 510 for line in by_second.causes)
    decode(encode(by_first))


class Status(SystemExit):
    """Has no status to be read; the interpreter makes it 1."""

    @property
    def code(self) -> NoReturn:  # type: ignore[override]
        raise ValueError("no status")


def test_a_sys_exit_whose_status_cannot_be_read(exits: ExitHooks, told: Told) -> None:
    exits.note_exception(Status("no data"), None)
    assert status(end(exits, told)) == ("finished", 1, "no data")


def test_ctrl_c_while_the_end_is_told_does_not_hide_it(
    exits: ExitHooks, told: Told, hooks: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> NoReturn:
        monkeypatch.undo()
        raise KeyboardInterrupt

    undo = exits.install()
    hook = sys.excepthook
    monkeypatch.setattr(exits, "note_exception", interrupted)
    hook(ValueError, ValueError("bad"), None)
    undo()
    (last,) = told.ends
    assert (last.reason, last.error) == ("exception", "ValueError")


# -- children of multiprocessing ------------------------------------------------------------


class Wire(Told):
    """Sends what it is told to the parent."""

    def __init__(self, wire: Connection) -> None:
        super().__init__()
        self.wire = wire

    def finish(self, last: Exit) -> None:
        self.wire.send((last.reason, last.code, last.error, last.site))


def _child(wire: Connection, leave: Callable[[], Any]) -> None:
    exits = ExitHooks(Wire(wire))
    exits.watch_child()
    leave()


@pytest.mark.parametrize(
    ("leave", "last"),
    [
        (int, ("finished", None, None, None)),
        (_fails, ("exception", None, "ValueError", f"{HERE}{LINE}")),
        (lambda: sys.exit(5), ("finished", 5, None, None)),
    ],
    ids=["well", "raises", "exits"],
)
def test_a_child_tells_its_end_though_it_runs_no_atexit(
    leave: Callable[[], Any], last: tuple[Any, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, leave))
    child.start()
    theirs.close()
    assert mine.poll(60)
    assert mine.recv() == last
    child.join()
    with pytest.raises(EOFError):
        mine.recv()  # once
    assert (child.exitcode == 0) == (leave is int)


def test_a_parent_has_no_such_end(exits: ExitHooks) -> None:
    registered: dict[Any, Any] = vars(multiprocessing.util)["_finalizer_registry"]
    before = dict(registered)
    exits.watch_child()
    assert registered == before
