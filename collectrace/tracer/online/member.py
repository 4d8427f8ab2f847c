"""The thread in which a rank takes part: compares, answers, and has a diagnosis made.

All of it goes over a connection of its own, and nothing of the training's ever waits for it: not
its threads, not its locks, not the end of the process.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from collectrace import exchange
from collectrace.exchange import Announced, Keys, Turn, Verdict
from collectrace.job_store import JobStore, StoreError
from collectrace.tracer.life.telling import say
from collectrace.tracer.online.agreement import Agreement
from collectrace.tracer.online.answers import Answers
from collectrace.tracer.online.diagnosis import LIMIT, Diagnosis
from collectrace.tracer.online.listeners import listeners
from collectrace.tracer.online.own_files import OwnFiles
from collectrace.tracer.record.recorder import Recorder

_LOOKS: Final = 2
"""Looks per heartbeat while no turn is open."""

_TIMEOUT: Final = 5.0
"""Seconds that a request to the store may take."""

_TO_CONNECT: Final = 60.0
"""Seconds that the store may take to let this rank in: it looks up the name of each that comes,
one after the other, and a thousand ranks come at once."""

_ANSWER_PAUSE: Final = 0.05
"""Seconds between two looks while a turn is open, of a small job."""

_RANKS_AT_ONCE: Final = 100
"""Ranks from which on the looks of an open turn are rarer: the store has one thread."""

_MOST_LOST: Final = 8
"""Connections that may be lost one after the other until this rank does without."""

_ABANDONED: Final = LIMIT + 15.0
"""Seconds after which a turn is closed by whoever sees that it is still open."""

_MOST_TOLD: Final = 100
"""Different verdicts that are told on standard error."""

_MOST_IN_VAIN: Final = 3
"""Ranks that try, one after the other, where none can be diagnosed."""

_LONGEST_PROBLEM: Final = 300
"""Characters of what a listener has raised."""

_TO_LISTEN: Final = 30.0
"""Seconds that a listener has before what is to be done about a verdict is done."""


def endpoint(store: Any) -> tuple[str, int] | None:
    """Host and port of a job's store; None: it is none that a second connection can be made to."""
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
    """One rank of a run that compares notes with the others, from :meth:`start` to :meth:`stop`.

    ``at`` is the store's host and port, ``stalls`` tells how often this rank has stalled so far,
    ``act`` is told every verdict that names an error.
    """

    def __init__(
        self, recorder: Recorder, announced: Announced, rank: int, at: tuple[str, int],
        stalls: Callable[[], int], act: Callable[[Verdict], object],
    ) -> None:  # fmt: skip
        self._recorder, self._announced, self._rank = recorder, announced, rank
        self._at, self._stalls, self._act = at, stalls, act
        self._keys = Keys(announced.run)
        self._files = OwnFiles(recorder.writer.path)
        self._agreement = Agreement(self._keys.position, self._files.digests)
        self._store: JobStore | None = None
        self._lost = 0
        self._seen_stalls = 0
        self._wants_turn = False
        """Something is wrong here that no turn has looked at."""
        self._answers: Answers | None = None
        """Of the turn that is open."""
        self._turn = 0
        """Number of the latest turn that this rank has taken part in, or heard of."""
        self._open_since = 0.0
        self._heard = 0
        """Number of the latest turn whose verdict this rank has heard."""
        self._diagnosis: Diagnosis | None = None
        self._told: set[str] = set()
        self._calls = 0
        """Calls that this rank had recorded when it came to the latest turn."""
        self._explained_at = -1
        """Those of the latest turn that found an error; -1: none so far."""
        self._in_vain = 0
        """Turns one after the other that nobody came to look in."""
        self._can_diagnose = True
        self._telling: threading.Thread | None = None
        """Tells the listeners."""
        self._told_since = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._take_part, name="collectrace-online", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Have it end soon; waits for nothing."""
        self._stop.set()

    def _take_part(self) -> None:
        while not self._stop.wait(self._pause()):
            try:
                self._look(self._connection())
                self._lost = 0
            except StoreError:
                self._store = None
                self._lost += 1
                if self._lost >= _MOST_LOST:
                    return
            except Exception as problem:
                self._recorder.count_failure(problem, "comparing notes with the other ranks")
                if not self._recorder.active:
                    return
        if self._store is not None:
            with contextlib.suppress(StoreError):
                self._agreement.forget(self._store)
            self._store.close()

    def _pause(self) -> float:
        """Seconds until the next look."""
        usual = self._announced.heartbeat / _LOOKS
        if self._answers is None and self._diagnosis is None:
            return usual * (1 + self._lost * random.uniform(1, 2))  # not all at once again
        return min(usual, _ANSWER_PAUSE * max(1.0, self._announced.world_size / _RANKS_AT_ONCE))

    def _connection(self) -> JobStore:
        if self._store is None:
            self._store = JobStore(*self._at, _TIMEOUT, _TO_CONNECT)
            if self._rank == 0:
                self._store.set(exchange.ANNOUNCED, exchange.encode(self._announced))
        return self._store

    def _look(self, store: JobStore) -> None:
        if self._diagnosis is not None:
            self._follow(store, self._diagnosis)
        turn = exchange.turn_of(store.read(self._keys.turn))
        if turn is not None and turn.is_open:
            self._answer(store, turn)
            return
        self._answers = None
        if turn is not None and turn.number != self._heard:
            self._hear(store, turn)
        if self._agreement.look(store, list(self._recorder.book.states.values())):
            self._wants_turn = True
        stalls = self._stalls()
        if stalls != self._seen_stalls:
            self._seen_stalls, self._wants_turn = stalls, True
        if self._recorder.calls == self._explained_at:
            self._wants_turn = False  # it is where it was when the error was found
        if self._wants_turn and self._can_diagnose and self._diagnosis is None:
            self._diagnose(store)

    def _answer(self, store: JobStore, turn: Turn) -> None:
        if self._answers is None or turn.number != self._turn:
            self._turn, self._open_since = turn.number, time.monotonic()
            self._calls = self._recorder.calls
            self._answers = Answers(self._keys, turn.number, self._rank, self._files)
            self._answers.begin(store)
        self._answers.look(store)
        if time.monotonic() - self._open_since > _ABANDONED:
            exchange.close_turn(store, self._keys, turn)  # who has opened it is gone

    def _diagnose(self, store: JobStore) -> None:
        """Have a diagnosis made, unless another rank was faster, whose verdict counts for all."""
        turn = exchange.open_turn(store, self._keys, f"rank {self._rank}")
        if turn is None:
            return
        try:
            folder = self._recorder.writer.path.parent
            self._diagnosis = Diagnosis(
                *self._at, self._announced, turn.number, folder, sorted(self._told)
            )
        except Exception as problem:  # no process can be started here
            self._can_diagnose = False
            self._recorder.count_failure(problem, "starting a diagnosis")
            exchange.close_turn(store, self._keys, turn, in_vain=True)

    def _hear(self, store: JobStore, turn: Turn) -> None:
        """A turn is over: know what it has found."""
        number = turn.number
        if (self._diagnosis is not None and self._diagnosis.turn == number) or self._is_telling():
            return  # the listeners come first, for what is done now may end this process
        self._heard = number
        self._in_vain = self._in_vain + 1 if turn.by == exchange.NOBODY else 0
        was_there = self._turn == number
        if 0 < self._in_vain < _MOST_IN_VAIN:
            self._wants_turn = True  # who noticed something could not look
        elif was_there or self._in_vain:
            # This rank was looked at; a reader outside tells nobody.
            self._wants_turn &= not (self._in_vain or turn.by.startswith("rank "))
        verdict = self._verdict(store, number)
        if verdict is None or not verdict.headline:
            return
        if was_there:
            self._explained_at = self._calls
        for headline in (verdict.headline, *verdict.also):
            if verdict.by != f"rank {self._rank}" and self._is_news(headline):
                say(f"{headline} (found by {verdict.by}, which tells more)")
        self._act(verdict)

    def _verdict(self, store: JobStore, number: int) -> Verdict | None:
        value = store.read(self._keys.verdict(number))
        try:
            found = None if value is None else exchange.decode(Verdict, value)
        except ValueError:
            return None
        if found is None:
            return None
        # Anybody may have written it, and what comes of it goes to terminals.
        return replace(
            found, headline=_plain(found.headline), by=_plain(found.by),
            also=tuple(map(_plain, found.also)),
        )  # fmt: skip

    def _follow(self, store: JobStore, diagnosis: Diagnosis) -> None:
        """Tell the listeners what the diagnosis has found, once it is over."""
        if not diagnosis.is_over():
            return
        self._diagnosis = None
        verdict, report = self._verdict(store, diagnosis.turn), diagnosis.report()
        turn = exchange.turn_of(store.read(self._keys.turn))
        if turn is not None and turn.is_open and turn.number == diagnosis.turn:
            self._can_diagnose = False  # it was killed, and so another may be
            exchange.close_turn(store, self._keys, turn, in_vain=True)
        if verdict is None:
            return
        news = [self._is_news(headline) for headline in (verdict.headline, *verdict.also)]
        if report is None or not any(news) or not listeners:
            return
        self._told_since = time.monotonic()
        self._telling = threading.Thread(
            target=self._tell, args=(report,), name="collectrace-listeners", daemon=True
        )
        self._telling.start()

    def _tell(self, report: dict[str, Any]) -> None:
        for listener in list(listeners):
            try:
                listener(report)
            except BaseException as problem:  # it may call sys.exit(), too
                what = _plain(f"{type(problem).__name__}: {problem}"[:_LONGEST_PROBLEM])
                say(f"a function that on_finding() was given has raised {what}")

    def _is_telling(self) -> bool:
        """Whether the listeners are being told, and have not taken too long for it."""
        telling = self._telling
        if telling is None or not telling.is_alive():
            return False
        return time.monotonic() - self._told_since < _TO_LISTEN

    def _is_news(self, headline: str) -> bool:
        """Whether this has not been told here, from now on it has."""
        name = exchange.told(headline)
        if name in self._told or len(self._told) >= _MOST_TOLD:
            return False
        self._told.add(name)
        return True


def _plain(text: str) -> str:
    """What comes from another process, without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in text)
