"""Query the RAS of a running job: one connection, one report, bounded in time.

Source of the conversation: NVIDIA/nccl v2.30.7-1, ``src/ras/client.cc`` (``connectToNCCL``,
``setOutputFormat``, ``getNCCLStatus``). Every process of a node listens on the same port
(``SO_REUSEPORT``), and the kernel picks one: one that was stopped takes the connection and does not
answer, so the greeting is tried again, as NVIDIA's client does.
"""

from __future__ import annotations

import re
import socket
import time
from dataclasses import dataclass
from typing import Final

from collectrace import ras
from collectrace.ras.report import NotReadable, Report

PORT: Final = 28028
ADDRESS: Final = f"localhost:{PORT}"
"""The default address of RAS, without ``NCCL_RAS_ADDR`` (``ras_internal.h``)."""

GREETING: Final = 1.0
"""Seconds for the greeting of a process, as in NVIDIA's client."""

ANSWER: Final = 8.0
"""Seconds for a report: NCCL is asked to give up on a process that is silent after three."""

_ATTEMPTS: Final = 3
_FOR_A_PROCESS: Final = 3
_LONGEST_LINE: Final = 1024
_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\s]*)):(?P<port>\d{1,5})")


class NoAnswer(Exception):
    """There is no report; the message continues the address: ``refuses the connection``."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address at which RAS listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """Parse ``NCCL_RAS_ADDR``: ``localhost:28028``, ``[::1]:28028``.

    Raises:
        ValueError: it is not an address.

    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return Address(found["v6"] or found["host"] or "localhost", int(found["port"]))


def ask(where: Address, *, greeting: float = GREETING, answer: float = ANSWER) -> Report:
    """Return the report of the job from its RAS: as JSON if possible, or verbose text.

    Args:
        where: its address.
        greeting: seconds for the connection and for each answer of one line.
        answer: seconds for the whole report.

    Raises:
        NoAnswer: nothing listens, it is not RAS, or it did not answer in time.

    """
    for attempt in range(_ATTEMPTS):
        try:
            with _connect(where, greeting) as connection:
                return _conversation(connection, greeting, answer)
        except _Silent:
            if attempt == _ATTEMPTS - 1:
                raise NoAnswer(
                    f"takes connections but does not answer within {greeting:g} s: its process "
                    "may be stopped"
                ) from None
    raise AssertionError("not reached")


class _Silent(Exception):
    """The greeting was not answered in time."""


def _connect(where: Address, seconds: float) -> socket.socket:
    try:
        return socket.create_connection((where.host, where.port), timeout=seconds)
    except TimeoutError:
        raise NoAnswer(f"cannot be reached within {seconds:g} s") from None
    except ConnectionRefusedError:
        raise NoAnswer("refuses the connection: nothing listens there") from None
    except OSError as problem:
        raise NoAnswer(f"cannot be reached: {problem.strerror or problem}") from None


def _conversation(connection: socket.socket, greeting: float, answer: float) -> Report:
    talk = _Talk(connection)
    try:
        talk.say("CLIENT PROTOCOL 2", greeting)
        server = talk.line(greeting)
    except TimeoutError:
        raise _Silent from None
    except OSError as problem:
        raise NoAnswer(f"broke off: {problem.strerror or problem}") from None
    if not server.upper().startswith("SERVER PROTOCOL "):
        raise NoAnswer("is not NCCL RAS: it does not answer as RAS does")
    try:
        talk.say(f"TIMEOUT {_FOR_A_PROCESS}", greeting)
        talk.line(greeting)
        talk.say("SET FORMAT json", greeting)  # an error before NCCL 2.28.7
        has_json = talk.line(greeting).upper() == "OK"
        talk.say("STATUS" if has_json else "VERBOSE STATUS", greeting)
        data = talk.rest(answer)
    except TimeoutError:
        raise NoAnswer("stopped answering in the middle of the conversation") from None
    except OSError as problem:
        raise NoAnswer(f"broke off: {problem.strerror or problem}") from None
    try:
        return ras.read(data)
    except NotReadable as problem:
        raise NoAnswer(f"gave a report that {problem}") from None


class _Talk:
    """Sends and receives lines, each within its time limit."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = bytearray()

    def say(self, line: str, seconds: float) -> None:
        self._connection.settimeout(seconds)
        self._connection.sendall(line.encode("ascii") + b"\n")

    def line(self, seconds: float) -> str:
        """Return the next line, or its beginning if the connection ends."""
        until = time.monotonic() + seconds
        while b"\n" not in self._read and len(self._read) < _LONGEST_LINE and self._more(until):
            pass
        line, _, rest = bytes(self._read[:_LONGEST_LINE]).partition(b"\n")
        self._read = bytearray(rest) + self._read[_LONGEST_LINE:]
        return line.decode("utf-8", "replace").strip()

    def rest(self, seconds: float) -> bytes:
        """Return everything until the other side closes."""
        until = time.monotonic() + seconds
        while len(self._read) <= ras.MOST_BYTES and self._more(until):
            pass
        return bytes(self._read)

    def _more(self, until: float) -> bool:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        data = self._connection.recv(1 << 16)
        self._read += data
        return bool(data)
