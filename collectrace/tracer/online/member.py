"""The thread in which a rank compares its streams, answers questions, and starts a diagnosis.

It uses a separate connection to the store. The training never waits for it. Only the end of the
process does so, for a moment: see :meth:`Member.linger`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from collectrace import exchange, records
from collectrace.exchange import LARGEST_LEFT, Announced, Keys, Turn, Verdict
from collectrace.job_store import JobStore, StoreError
from collectrace.printable import clean
from collectrace.tracer.life.aligner_process import LIMIT
from collectrace.tracer.life.telling import say
from collectrace.tracer.life.watchdog import activities
from collectrace.tracer.online.agreement import Agreement
from collectrace.tracer.online.answers import Answers
from collectrace.tracer.online.diagnosis import Diagnosis
from collectrace.tracer.online.listeners import listeners
from collectrace.tracer.online.own_files import OwnFiles
from collectrace.tracer.online.standing import stands
from collectrace.tracer.record.groups import GroupState
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.user_objects import type_name
from collectrace.tracer.user_text import safe_text
from collectrace.tracer.values.value_records import ValueRecords

_LOOKS: Final = 2
"""Looks per heartbeat while no turn is open."""

_TO_CONNECT: Final = 60.0
"""Seconds that the store may take to accept this rank. It resolves the host names of all ranks one
after the other, and a thousand ranks may connect at once."""

_TO_LEAVE: Final = 1.0
"""Seconds for which an ending process waits until the store has its files."""

_TO_ASK: Final = 15.0
"""Seconds for which a process with an exception waits for the diagnosis."""

_MOST_LEFT: Final = 64 << 20
"""Bytes that all ranks together leave with the store, before compression."""

_MOST_AT_LAST: Final = 64
"""Streams that are compared at the end of the record."""

_ANSWER_PAUSE: Final = 0.05
"""Seconds between two looks of a small job while a turn is open."""

_RANKS_AT_ONCE: Final = 100
"""In larger jobs the looks of an open turn are rarer, as the store has one thread."""

_MOST_LOST: Final = 8
"""Connections that may be lost in a row before this rank stops taking part."""

_ABANDONED: Final = LIMIT + 15.0
"""Seconds after which any rank closes a turn that is still open."""

_MOST_MISSED: Final = 8
"""How many turns before the latest have their verdicts read."""

_MOST_TOLD: Final = 100
"""Different verdicts that are printed on standard error."""

_MOST_IN_VAIN: Final = 3
"""Turns without a diagnosis in a row, after which no rank tries again."""

_LONGEST_PROBLEM: Final = 300
"""Characters of an exception that a listener has raised."""

_TO_LISTEN: Final = 30.0
"""Seconds that a listener may take before ``on_divergence`` acts on a verdict."""


def endpoint(store: Any) -> tuple[str, int] | None:
    """Return host and port of a job's store; None: it accepts no second connection."""
    for _ in range(10):
        inner = getattr(store, "underlying_store", None)
        if inner is None:
            break
        store = inner
    if type(store).__name__ != "TCPStore":
        return None
    host, port = getattr(store, "host", None), getattr(store, "port", None)
    return (host, port) if isinstance(host, str) and isinstance(port, int) and port else None


class Member:
    """A rank that compares its streams with others, from :meth:`start` to :meth:`leave`.

    ``at`` is the store's host and port. ``stalls`` returns how often this rank has stalled so far.
    ``act`` is called with every verdict that names an error, until the rank has ended. ``values``
    records the values of variables for the readers of the rank's files.
    """

    def __init__(
        self, recorder: Recorder, announced: Announced, rank: int, at: tuple[str, int],
        stalls: Callable[[], int], act: Callable[[Verdict], object],
        values: ValueRecords | None = None,
    ) -> None:  # fmt: skip
        self._recorder, self._announced, self._rank = recorder, announced, rank
        self._at, self._stalls, self._act, self._values = at, stalls, act, values
        self._keys = Keys(announced.run)
        sources = recorder.sources
        texts = () if sources is None else sources.texts.known
        self._files = OwnFiles(recorder.writer.path, lambda: list(texts))
        self._agreement = Agreement(announced.run, self._files.digests)
        self._store: JobStore | None = None
        self._lost = 0
        self._seen_stalls = 0
        self._wants_turn = False
        """Whether something is wrong here that no turn has examined."""
        self._answers: Answers | None = None
        """The answers in the open turn."""
        self._turn = 0
        """Number of the latest turn in which this rank has answered."""
        self._open_since = 0.0
        self._heard = 0
        """Number of the latest turn with a verdict that this rank has read."""
        self._diagnosis: Diagnosis | None = None
        self._told: set[str] = set()
        self._calls = 0
        """Calls that this rank had recorded when it began to answer in the latest turn."""
        self._explained_at = -1
        """The same number for the latest turn that found an error; -1: none so far."""
        self._in_vain = 0
        """Turns in a row in which no diagnosis was made."""
        self._can_diagnose = True
        self._telling: threading.Thread | None = None
        """Calls the listeners."""
        self._told_since = 0.0
        self._asks = False
        """Whether this rank waits for a diagnosis before it ends."""
        self._groups: list[GroupState] = []
        """The groups at the end of the record."""
        self._leaving = threading.Event()
        """Set when the record has ended."""
        self._gone = threading.Event()
        self._heard_of = 0
        """Number of the latest turn when the record was left with the store."""
        self._has_ended = False
        """Whether it is too late to act on a verdict."""
        self._thread = threading.Thread(
            target=self._take_part, name="collectrace-online", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """Note that the record is about to end, and keep its groups for a last comparison."""
        self._groups = list(self._recorder.book.states.values())

    def leave(self, *, failed: bool) -> None:
        """Start to leave the finished record with the store, without waiting.

        ``failed``: an exception ends this rank. Then it asks for a diagnosis before it ends, as it
        does if its streams differ from another rank's at the end.
        """
        self._asks = failed
        self._leaving.set()

    def linger(self) -> None:
        """Wait until :meth:`leave` is done: some seconds if this rank waits for a diagnosis."""
        if self._thread.is_alive() and self._leaving.is_set() and not self._gone.wait(_TO_LEAVE):
            self._gone.wait(_TO_ASK if self._asks else 0)

    def _take_part(self) -> None:
        try:
            while not self._leaving.wait(self._pause()):
                if not self._try(self._look):
                    return
            self._leave()
        except Exception as problem:
            self._recorder.count_beside(problem, "comparing notes with the other ranks")
        finally:
            self._gone.set()
            if self._store is not None:
                self._store.close()

    def _try(self, step: Callable[[JobStore], object]) -> bool:
        """Run a step with the store; return False if this rank must stop taking part."""
        try:
            step(self._connection())
            self._lost = 0
        except StoreError:
            self._store = None
            self._lost += 1
            return self._lost < _MOST_LOST
        except Exception as problem:
            self._recorder.count_beside(problem, "comparing notes with the other ranks")
            return self._recorder.active
        return True

    def _leave(self) -> None:
        """Leave the record with the store; if this rank failed or differs, get a diagnosis."""
        until = time.monotonic() + _TO_ASK
        self._try(self._leave_record)
        if not self._asks or self._is_explained:
            return
        before, self._has_ended = self._heard_of, True
        while self._lost == 0 and time.monotonic() < until:
            self._wants_turn = True  # earlier turns have read less of this rank's record
            self._try(self._look)
            if self._diagnosis is None and (self._is_explained or self._heard > before):
                break
            time.sleep(_ANSWER_PAUSE)

    def _leave_record(self, store: JobStore) -> None:
        most = min(LARGEST_LEFT // 2, _MOST_LEFT // self._announced.world_size)
        store.set(Keys.left(self._rank), self._files.left(self._keys.run, most))
        # Only now: the last rank that finds a difference can then read the records of all.
        if self._differs(store, _MOST_AT_LAST):
            self._asks = True
        turn = exchange.turn_of(store.read(self._keys.turn))
        self._heard_of = 0 if turn is None else turn.number

    def _differs(self, store: JobStore, *most: int) -> bool:
        groups = (
            self._groups if self._leaving.is_set() else list(self._recorder.book.states.values())
        )
        return self._agreement.look(store, groups, *most)

    @property
    def _is_explained(self) -> bool:
        """Return whether this rank has issued no call since an error was found."""
        return self._recorder.calls == self._explained_at

    def _pause(self) -> float:
        """Return the seconds until the next look."""
        usual = self._announced.heartbeat / _LOOKS
        if self._answers is None and self._diagnosis is None:
            return usual * (1 + self._lost * random.uniform(1, 2))  # not all at once again
        return min(usual, _ANSWER_PAUSE * max(1.0, self._announced.world_size / _RANKS_AT_ONCE))

    def _connection(self) -> JobStore:
        if self._store is None:
            self._store = JobStore(*self._at, to_connect=_TO_CONNECT)
            # Every rank does this, as the others may end before they connect.
            self._store.set(exchange.ANNOUNCED, exchange.encode(self._announced))
        return self._store

    def _look(self, store: JobStore) -> None:
        if self._diagnosis is not None:
            self._follow(store, self._diagnosis)
        turn = exchange.turn_of(store.read(self._keys.turn))
        if turn is not None:
            self._hear(store, turn)
        if turn is not None and turn.is_open:
            self._answer(store, turn)
            return
        self._answers = None
        if self._differs(store):
            self._wants_turn = True
        stalls = self._stalls()
        if stalls != self._seen_stalls:
            self._seen_stalls, self._wants_turn = stalls, True
        if self._is_explained:
            self._wants_turn = False
        if self._wants_turn and self._can_diagnose and self._diagnosis is None:
            self._diagnose(store)

    def _answer(self, store: JobStore, turn: Turn) -> None:
        if self._answers is None or turn.number != self._turn:
            self._turn, self._open_since = turn.number, time.monotonic()
            self._calls = self._recorder.calls
            if self._values is not None:
                self._values.of_threads(records.ASKED)
            self._answers = Answers(self._keys, turn.number, self._rank, self._files)
            groups = list(self._recorder.book.states.values())
            self._answers.begin(store, stands(groups, activities(self._recorder)))
        self._answers.look(store)
        if time.monotonic() - self._open_since > _ABANDONED:
            self._close(store, turn)  # the process that opened it has ended

    def _diagnose(self, store: JobStore) -> None:
        """Start a diagnosis, unless another rank was faster: its verdict counts for all."""
        turn = exchange.open_turn(store, self._keys, f"rank {self._rank}")
        if turn is None:
            return
        try:
            folder = self._recorder.writer.home
            self._diagnosis = Diagnosis(
                *self._at, self._announced, turn.number, folder, sorted(self._told)
            )
        except Exception as problem:  # no process can be started here
            self._can_diagnose = False
            self._recorder.count_beside(problem, "starting a diagnosis")
            exchange.close_turn(store, self._keys, turn, in_vain=True)

    def _hear(self, store: JobStore, turn: Turn) -> None:
        """Read the verdicts of the turns that are over.

        A reader outside the job may have opened another turn before this rank has looked.
        """
        last = turn.number - turn.is_open
        if last < self._heard:
            self._heard = last - 1  # a foreign process had written a wrong number
        for number in range(max(self._heard, last - _MOST_MISSED) + 1, last + 1):
            if self._is_telling() or (
                self._diagnosis is not None and self._diagnosis.turn == number
            ):
                return  # listeners run first, as acting on a verdict may end this process
            self._heard = number
            verdict = self._verdict(store, number)
            if number == turn.number:
                self._in_vain = self._in_vain + 1 if turn.by == exchange.NOBODY else 0
                self._reconsider(turn.by)
            elif verdict is not None:
                self._reconsider(verdict.by)
            self._heed(verdict)

    def _reconsider(self, by: str) -> None:
        """Decide after a turn that ``by`` opened whether this rank still wants one."""
        if 0 < self._in_vain < _MOST_IN_VAIN:
            self._wants_turn = True  # the rank that noticed something could not diagnose it
        elif self._in_vain or (self._turn == self._heard and by.startswith("rank ")):
            self._wants_turn = False  # this rank was read; an outside reader would inform nobody

    def _heed(self, verdict: Verdict | None) -> None:
        if verdict is None or not verdict.headline:
            return
        if self._turn == self._heard:
            self._explained_at = self._calls
        for headline in (verdict.headline, *verdict.also):
            if verdict.by != f"rank {self._rank}" and self._is_news(headline):
                say(f"{headline} (details: output of {verdict.by})")
        if not self._has_ended:
            self._act(verdict)

    def _verdict(self, store: JobStore, number: int) -> Verdict | None:
        value = store.read(self._keys.verdict(number))
        try:
            found = None if value is None else exchange.decode(Verdict, value)
        except ValueError:
            return None
        if found is None:
            return None
        # Any process may have written it, and it is printed on terminals.
        return replace(
            found, headline=clean(found.headline), by=clean(found.by),
            also=tuple(map(clean, found.also)),
        )  # fmt: skip

    def _follow(self, store: JobStore, diagnosis: Diagnosis) -> None:
        """Call the listeners with the findings of the diagnosis, if it is over."""
        if not diagnosis.is_over():
            return
        self._diagnosis = None
        verdict, report = self._verdict(store, diagnosis.turn), diagnosis.report()
        turn = exchange.turn_of(store.read(self._keys.turn))
        if turn is not None and turn.is_open and turn.number == diagnosis.turn:
            self._can_diagnose = False  # it was killed, and the next may be, too
            self._close(store, turn, in_vain=True)
        if verdict is None:
            return
        news = [self._is_news(headline) for headline in (verdict.headline, *verdict.also)]
        if report is None or not any(news) or not listeners:
            return
        self._told_since = time.monotonic()
        self._telling = threading.Thread(
            target=self._call_listeners, args=(report,), name="collectrace-listeners", daemon=True
        )
        self._telling.start()

    def _call_listeners(self, report: dict[str, Any]) -> None:
        for listener in list(listeners):
            try:
                listener(report)
            except BaseException as problem:  # a listener may call sys.exit(), too
                what = clean(f"{type_name(problem)}: {safe_text(problem, _LONGEST_PROBLEM)}")
                say(f"a callback of on_finding() raised {what}")

    def _is_telling(self) -> bool:
        """Return whether the listeners are running, and have not exceeded their time."""
        telling = self._telling
        if telling is None or not telling.is_alive():
            return False
        return time.monotonic() - self._told_since < _TO_LISTEN

    def _close(self, store: JobStore, turn: Turn, *, in_vain: bool = False) -> None:
        exchange.close_turn(store, self._keys, turn, in_vain=in_vain)
        exchange.clean_up(store, self._keys, turn.number, self._announced.world_size)

    def _is_news(self, headline: str) -> bool:
        """Return whether this headline is new in this process, and remember it."""
        name = exchange.headline_hash(headline)
        if name in self._told or len(self._told) >= _MOST_TOLD:
            return False
        self._told.add(name)
        return True
