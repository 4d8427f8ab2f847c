"""The conversation with RAS, with what a server on that port may do instead."""

from __future__ import annotations

import socket
import threading

import pytest

from collectrace.ras import live
from collectrace.ras.live import Address, NoAnswer
from tests.support.ras_server import SAMPLES, ras, serving

BRIEF = 0.2
"""Seconds that a test waits for an answer that does not come."""


def silent(connection: socket.socket) -> None:
    """A process that was stopped: the kernel takes the connection, and nobody reads from it."""
    connection.recv(1)
    threading.Event().wait(30)


def test_json_is_asked_for_first() -> None:
    said: list[str] = []
    with serving(ras("behind.ras.json", said=said)) as where:
        report = live.ask(where)
    assert report.communicators[0].counts is None
    assert said == ["CLIENT PROTOCOL 2", "TIMEOUT 3", "SET FORMAT JSON", "STATUS"]


def test_an_older_nccl_is_asked_for_text() -> None:
    said: list[str] = []
    with serving(ras("several-2.26.ras.txt", has_json=False, said=said)) as where:
        assert live.ask(where).version == "2.26.2"
    assert said[-1] == "VERBOSE STATUS"


def test_a_stopped_process_on_the_shared_port_is_passed_over() -> None:
    with serving(silent, ras("healthy.ras.json")) as where:
        assert live.ask(where, greeting=BRIEF).version == "2.30.7"


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = Address("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(NoAnswer, match=r"^refuses the connection"):
        live.ask(where)


def test_a_name_that_leads_nowhere() -> None:
    with pytest.raises(NoAnswer, match=r"^cannot be reached"):
        live.ask(Address("no.such.host.invalid", 28028))


def test_all_are_silent() -> None:
    with serving(silent) as where, pytest.raises(NoAnswer, match=r"does not answer within 0.2 s"):
        live.ask(where, greeting=BRIEF)


@pytest.mark.parametrize(
    "greeting", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\0\xff" * 4000, b"HTTP/1.1 400\n"]
)
def test_something_else_listens(greeting: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(greeting)
        silent(connection)

    with serving(answer) as where, pytest.raises(NoAnswer, match=r"^is not NCCL RAS"):
        live.ask(where, greeting=BRIEF)


def endless(connection: socket.socket) -> None:
    """Greets as RAS does, then sends for ever."""
    connection.sendall(b"SERVER PROTOCOL 2\nOK\nOK\n")
    while True:
        connection.sendall(b'{"nccl_version": "2.30.7", "communicators": [' + b" " * 4000)


def trickle(connection: socket.socket) -> None:
    """A byte now and then, and never a line."""
    while not threading.Event().wait(0.02):
        connection.sendall(b"S")


def test_a_report_that_never_ends_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(endless) as where, pytest.raises(NoAnswer, match=r"stopped answering|larger than"):
        live.ask(where, greeting=1.0, answer=0.5)
    monkeypatch.setattr("collectrace.ras.MOST_BYTES", 1 << 16)
    with serving(endless) as where, pytest.raises(NoAnswer, match="larger than any"):
        live.ask(where)


def test_a_trickle_is_no_greeting() -> None:
    with serving(trickle) as where, pytest.raises(NoAnswer, match="does not answer within"):
        live.ask(where, greeting=BRIEF)


def test_it_hangs_up_in_the_middle() -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"SERVER PROTOCOL 2\nOK\nOK\n")
        connection.sendall((SAMPLES / "dead.ras.json").read_bytes()[:700])

    with serving(answer) as where, pytest.raises(NoAnswer, match=r"cut short|broke off"):
        live.ask(where)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("localhost:28028", Address("localhost", 28028)),
        (":1234", Address("localhost", 1234)),
        ("[::1]:28028", Address("::1", 28028)),
        (" 10.0.0.1:5 ", Address("10.0.0.1", 5)),
    ],
)
def test_addresses(text: str, where: Address) -> None:
    assert live.address(text) == where


@pytest.mark.parametrize("text", ["", "localhost", "localhost:0", "h:70000", "a b:1", "::1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="not HOST:PORT"):
        live.address(text)
