"""Answer questions about this rank's files while a turn is open: names, sizes and bytes."""

from __future__ import annotations

import contextlib

from collectrace import exchange
from collectrace.exchange import (
    LARGEST_ANSWER,
    MOST_FILES,
    MOST_TEXT,
    TEXTS,
    Ask,
    Keys,
    Listing,
)
from collectrace.job_store import JobStore
from collectrace.log_folder import SOURCES
from collectrace.tracer.online.own_files import OwnFiles


class Answers:
    """The answers of one rank in one turn."""

    def __init__(self, keys: Keys, turn: int, rank: int, files: OwnFiles) -> None:
        self._keys, self._turn, self._rank, self._files = keys, turn, rank, files
        self._answered = 0
        """Number of the latest question that was answered."""
        self._names: tuple[str, ...] = ()
        self._texts: tuple[tuple[str, int], ...] = ()
        """Hashes and sizes of the program's source files, as listed for the reader."""
        self._text_left = MOST_TEXT

    def begin(self, store: JobStore, stands: bytes) -> None:
        """Announce that this rank will answer, with its card, see :meth:`exchange.Keys.card`.

        Raises:
            StoreError: the store does not answer.

        """
        store.set(self._keys.card(self._turn, self._rank), stands)

    def look(self, store: JobStore) -> None:
        """Answer the reader's latest question, if it is new.

        Raises:
            StoreError: the store does not answer.

        """
        value = store.read(self._keys.ask(self._turn, self._rank))
        if value is None:
            return
        with contextlib.suppress(ValueError):  # an invalid question gets no answer
            ask = exchange.decode(Ask, value)
            if ask.number > self._answered:
                self._answered = ask.number
                answer = exchange.pack(ask.number, self._answer(ask))
                store.set(self._keys.answer(self._turn, self._rank), answer)

    def _answer(self, ask: Ask) -> bytes:
        if ask.file <= TEXTS:
            return self._answer_text(ask)
        if ask.file < 0:
            files = self._files.list()[-MOST_FILES:]
            self._names = tuple(name for name, _ in files)
            return exchange.encode(Listing(self._names, tuple(size for _, size in files)))
        if ask.file >= len(self._names) or ask.start < 0:
            raise ValueError("no such file")
        stop = min(ask.stop, ask.start + LARGEST_ANSWER)
        return self._files.read(self._names[ask.file], ask.start, stop)

    def _answer_text(self, ask: Ask) -> bytes:
        if ask.file == TEXTS:
            if ask.start == 0:
                self._texts = self._files.texts()
            page = self._texts[max(0, ask.start) :][:MOST_FILES]
            return exchange.encode(
                Listing(tuple(sha256 for sha256, _ in page), tuple(size for _, size in page))
            )
        number = TEXTS - 1 - ask.file
        stop = min(ask.stop, ask.start + LARGEST_ANSWER)
        if number >= len(self._texts) or not 0 <= stop - ask.start <= self._text_left:
            raise ValueError("no such text")
        self._text_left -= stop - ask.start
        return self._files.read(f"{SOURCES}/{self._texts[number][0]}.py", ask.start, stop)
