"""A connection to the store of a job, a ``TCPStore``, without torch.

The protocol is torch's (torch/csrc/distributed/c10d/TCPStoreBackend.hpp and TCPStore.cpp, the same
in torch 2.6 to 2.13). A request is a byte for its kind, and its arguments. The length of a text is
sent before the text. torch's own client is not used, for four reasons:

- A request may wait forever if the store's host has stopped.
- It writes its errors to standard error, with a stack.
- A process that ends while a daemon thread is in a request is aborted.
- A reader outside the job does not need torch.

Whoever can reach the store can read and write everything in it, so its content is not trusted.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import Final

_VALIDATE: Final = b"\x00" + struct.pack("<I", 0x3C85F7CE)
"""What a connection begins with; nothing answers."""

_SET: Final = b"\x01"
_COMPARE_SET: Final = b"\x02"
_DELETE: Final = b"\x08"
_PING: Final = b"\x0d"

_NOTHING: Final = b"\x00collectrace"
"""A value that no key holds. Comparing a key with it changes nothing, and never waits: if there is
no such key, ``compare_set`` returns the expected value, while ``get`` waits for the key."""

LARGEST: Final = 1 << 20
"""Bytes of a value that are taken; stores from torch 2.3 on take eight times as much."""

TIMEOUT: Final = 5.0
"""Seconds that a request may take by default."""

_AT_ONCE: Final = 64
"""Requests that are sent before their answers are read."""


class StoreError(Exception):
    """The store does not answer, not in time, or not as a ``TCPStore`` does."""


class JobStore:
    """A connection to a store, for one thread at a time.

    ``host`` and ``port`` are the store's. No request lasts longer than ``timeout`` seconds, and
    connecting takes no longer than ``to_connect`` if that is given. After a :class:`StoreError`
    the connection cannot be used any more.

    Raises:
        StoreError: nobody answers there, or not as a ``TCPStore`` does.

    """

    def __init__(
        self, host: str, port: int, timeout: float = TIMEOUT, to_connect: float | None = None
    ) -> None:
        self._timeout = timeout
        patience = timeout if to_connect is None else to_connect
        self.requests = 0
        """Requests so far."""
        self.bytes = 0
        """Bytes sent and received so far."""
        try:
            self._socket = socket.create_connection((host, port), patience)
        except (OSError, UnicodeError, OverflowError) as problem:
            why = getattr(problem, "strerror", None) or problem
            raise StoreError(
                f"cannot connect to the store {host}:{port}: {why}. Give "
                "MASTER_ADDR:MASTER_PORT of a job that runs, or read its files instead."
            ) from None
        nonce = os.urandom(4)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._deadline = time.monotonic() + patience
            self._send(_VALIDATE + _PING + nonce)
            is_store = self._receive(4) == nonce
        except BaseException:
            self.close()
            raise
        if not is_store:
            self.close()
            raise StoreError(
                f"{host}:{port} is not a TCPStore. Give MASTER_ADDR:MASTER_PORT of the job."
            )

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def read(self, key: str) -> bytes | None:
        """Return the value of a key; None: there is no such key. Never waits for it."""
        return self.read_all([key])[0]

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the values of many keys, requested together."""
        found: list[bytes | None] = []
        for first in range(0, len(keys), _AT_ONCE):
            some = keys[first : first + _AT_ONCE]
            self._begin(len(some))
            rest = _text(_NOTHING) + _text(_NOTHING)
            self._send(b"".join(_COMPARE_SET + _text(_name(key)) + rest for key in some))
            values = [self._value() for _ in some]
            found += [None if value == _NOTHING else value for value in values]
        return found

    def compare_set(self, key: str, expected: bytes, wanted: bytes) -> bytes:
        """Set a key if it has the expected value; ``b""``: if there is no such key.

        Return its value afterwards; ``expected`` if there is no such key and one was expected.
        """
        self._begin()
        self._send(_COMPARE_SET + _text(_name(key)) + _text(expected) + _text(wanted))
        return self._value()

    def set(self, key: str, value: bytes) -> None:
        """Set a key. The store confirms it only by the answer to the next request."""
        self._begin()
        self._send(_SET + _text(_name(key)) + _text(value))

    def delete(self, key: str) -> None:
        """Remove a key, if it is there."""
        self._begin()
        self._send(_DELETE + _text(_name(key)))
        self._receive(8)

    def _begin(self, count: int = 1) -> None:
        self.requests += count
        self._deadline = time.monotonic() + self._timeout

    def _send(self, data: bytes) -> None:
        self.bytes += len(data)
        try:
            self._socket.settimeout(self._left())
            self._socket.sendall(data)
        except OSError as problem:
            raise self._failed(problem) from None

    def _receive(self, size: int) -> bytes:
        self.bytes += size
        parts = []
        while size:
            try:
                self._socket.settimeout(self._left())
                part = self._socket.recv(min(size, 1 << 16))
            except OSError as problem:
                raise self._failed(problem) from None
            if not part:
                raise self._failed("it has closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _value(self) -> bytes:
        (size,) = struct.unpack("<Q", self._receive(8))
        if size > LARGEST:
            raise self._failed(f"it sends a value of {size} bytes")
        return self._receive(size)

    def _left(self) -> float:
        """Seconds until the request has lasted too long."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def _failed(self, problem: object) -> StoreError:
        self.close()
        return StoreError(
            f"the job's store does not answer: {problem}. Try again, or read the rank files."
        )


def _name(key: str) -> bytes:
    return b"/" + key.encode()  # as torch's own client writes keys


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value
