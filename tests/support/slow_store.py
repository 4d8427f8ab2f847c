"""A store that takes its time: a proxy before a real one, which holds every answer back."""

from __future__ import annotations

import contextlib
import math
import queue
import socket
import threading
import time
from typing import Final

_PIECE: Final = 1 << 16


class SlowStore:
    """A port that leads to another one, from entering to leaving a ``with`` block.

    What comes back from there is handed on ``delay`` seconds later; ``math.inf``: never.
    """

    def __init__(self, port: int, delay: float) -> None:
        self._to, self._delay = port, delay
        self.held_back = 0
        """Answers so far."""
        self._over = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])

    def __enter__(self) -> SlowStore:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.close()

    def _start(self, target: object, *args: object) -> None:
        threading.Thread(target=target, args=args, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), self._connected() as store:
            answers = queue.SimpleQueue[tuple[float, bytes]]()
            self._start(self._hand_on, answers, client)
            self._start(self._take, store, answers)
            while piece := client.recv(_PIECE):
                store.sendall(piece)

    def _connected(self) -> socket.socket:
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self._to), 5)
            except ConnectionRefusedError:  # rank 0 serves it, and has not come so far
                if self._over.wait(0.1):
                    raise

    def _take(self, store: socket.socket, answers: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        store.settimeout(None)
        with contextlib.suppress(OSError):
            while piece := store.recv(_PIECE):
                self.held_back += 1
                answers.put((time.monotonic() + self._delay, piece))
        answers.put((0.0, b""))

    def _hand_on(
        self, answers: queue.SimpleQueue[tuple[float, bytes]], client: socket.socket
    ) -> None:
        with contextlib.suppress(OSError):
            while not self._over.is_set():
                due, piece = answers.get()
                if due == math.inf:
                    continue
                if not piece:
                    client.shutdown(socket.SHUT_WR)
                    return
                time.sleep(max(0.0, due - time.monotonic()))
                client.sendall(piece)
