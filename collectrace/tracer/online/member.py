"""The thread in which a rank takes part: compares, answers, and has a diagnosis made.

All of it goes over a connection of its own, and nothing of the training's ever waits for it: not
its threads, not its locks, not the end of the process.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from collectrace import exchange
from collectrace.exchange import Announced, Keys, Turn, Verdict
from collectrace.job_store import JobStore, StoreError
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

_MOST_MISSED: Final = 8
"""Turns before the latest that are asked for what they have found."""

_MOST_TOLD: Final = 100
"""Different verdicts that are told on standard error."""


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
        self._explained_at = -1
        """Calls that this rank had recorded when it heard of an error last; -1: of none so far."""
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
        if turn is not None:
            self._hear(store, turn)
        if turn is not None and turn.is_open:
            self._answer(store, turn)
            return
        self._answers = None
        if self._agreement.look(store, list(self._recorder.book.states.values())):
            self._wants_turn = True
        stalls = self._stalls()
        if stalls != self._seen_stalls:
            self._seen_stalls, self._wants_turn = stalls, True
        if self._recorder.calls == self._explained_at:
            self._wants_turn = False  # it is where it was when the error was found
        if self._wants_turn and self._diagnosis is None:
            self._diagnose(store)

    def _answer(self, store: JobStore, turn: Turn) -> None:
        if self._answers is None or turn.number != self._turn:
            self._turn, self._open_since = turn.number, time.monotonic()
            self._answers = Answers(self._keys, turn.number, self._rank, self._files)
            self._answers.begin(store)
        self._answers.look(store)
        if time.monotonic() - self._open_since > _ABANDONED:
            self._close(store, turn)  # who has opened it is gone

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
        except OSError:
            exchange.close_turn(store, self._keys, turn)
            raise

    def _hear(self, store: JobStore, turn: Turn) -> None:
        """Know what the turns have found that are over.

        A reader outside may have opened another one already, before this rank has looked.
        """
        last = turn.number - turn.is_open
        for number in range(max(self._heard, last - _MOST_MISSED) + 1, last + 1):
            if self._diagnosis is not None and self._diagnosis.turn == number:
                return  # the listeners come first, for what is done now may end this process
            self._heard = number
            verdict = self._verdict(store, number)
            if verdict is not None or (number == turn.number and turn.by.startswith("rank ")):
                self._wants_turn = False  # this rank was looked at; a reader outside tells nobody
            self._heed(verdict)

    def _heed(self, verdict: Verdict | None) -> None:
        if verdict is None or not verdict.headline:
            return
        headline = _plain(verdict.headline)
        self._explained_at = self._recorder.calls
        if verdict.by != f"rank {self._rank}" and self._is_news(headline):
            _say(f"collectrace: {headline} (found by {_plain(verdict.by)}, which tells more)\n")
        self._act(verdict)

    def _verdict(self, store: JobStore, number: int) -> Verdict | None:
        value = store.read(self._keys.verdict(number))
        try:
            return None if value is None else exchange.decode(Verdict, value)
        except ValueError:
            return None

    def _follow(self, store: JobStore, diagnosis: Diagnosis) -> None:
        """Tell the listeners what the diagnosis has found, once it is over."""
        if not diagnosis.is_over():
            return
        self._diagnosis = None
        verdict, report = self._verdict(store, diagnosis.turn), diagnosis.report()
        turn = exchange.turn_of(store.read(self._keys.turn))
        if turn is not None and turn.is_open and turn.number == diagnosis.turn:
            self._close(store, turn)  # it was killed
        if verdict is None or report is None or not self._is_news(_plain(verdict.headline)):
            return
        for listener in list(listeners):
            try:
                listener(report)
            except Exception as problem:
                self._recorder.count_failure(problem, "telling a listener of a finding")

    def _close(self, store: JobStore, turn: Turn) -> None:
        exchange.close_turn(store, self._keys, turn)
        exchange.clean_up(store, self._keys, turn.number, self._announced.world_size)

    def _is_news(self, headline: str) -> bool:
        """Whether this has not been told here, from now on it has."""
        if headline in self._told or len(self._told) >= _MOST_TOLD:
            return False
        self._told.add(headline)
        return True


def _plain(text: str) -> str:
    """What comes from another process, without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in text)


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # there may be none
        sys.stderr.write(text)
        sys.stderr.flush()
