"""The store's own protocol, against torch's own stores: what each side writes, the other reads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from torch._C._distributed_c10d import FileStore, HashStore, PrefixStore, Store, TCPStore

from collectrace import exchange
from collectrace.exchange import Keys
from collectrace.job_store import LARGEST, JobStore, StoreError
from collectrace.tracer.online.member import endpoint

TIMEOUT = 20.0


@pytest.fixture(params=[True, False], ids=["libuv", "legacy"], scope="module")
def theirs(request: pytest.FixtureRequest) -> TCPStore:
    return TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=request.param,
        timeout=timedelta(seconds=TIMEOUT),
    )  # fmt: skip


@pytest.fixture
def ours(theirs: TCPStore) -> Iterator[JobStore]:
    store = JobStore("127.0.0.1", theirs.port, TIMEOUT)
    yield store
    store.close()


def test_both_sides_understand_each_other(ours: JobStore, theirs: TCPStore) -> None:
    assert ours.compare_set("a", b"", b"one") == b"one"
    assert theirs.get("a") == b"one"
    assert ours.compare_set("a", b"", b"two") == b"one"
    assert ours.compare_set("a", b"one", b"two") == b"two"
    theirs.set("b", "from torch")
    assert theirs.get("b") == b"from torch"  # nobody answers to set(): it may still be on its way
    ours.set("c", b"\0binary\xff")
    assert ours.read_all(["b", "nothing", "c"]) == [b"from torch", None, b"\0binary\xff"]
    assert theirs.get("c") == b"\0binary\xff"
    assert not theirs.check(["nothing"])  # to read a key does not make it
    ours.delete("b")
    ours.delete("nothing")
    assert ours.read("b") is None
    assert not theirs.check(["b"])


def test_many_keys_and_long_values(ours: JobStore) -> None:
    keys = [f"many/{n}" for n in range(500)]
    for n, key in enumerate(keys):
        ours.set(key, b"%d" % n)
    assert ours.read_all(keys) == [b"%d" % n for n in range(500)]
    ours.set("long", bytes(LARGEST))
    assert ours.read("long") == bytes(LARGEST)
    ours.set("too long", bytes(LARGEST + 1))
    with pytest.raises(StoreError, match="value of"):
        ours.read("too long")


def test_one_turn_at_a_time(ours: JobStore, theirs: TCPStore) -> None:
    other, keys = JobStore("127.0.0.1", theirs.port, TIMEOUT), Keys("turns")
    first = exchange.open_turn(ours, keys, "rank 0")
    assert first is not None
    assert first.number == 1
    assert exchange.open_turn(other, keys, "rank 1") is None
    exchange.close_turn(ours, keys, first)
    second = exchange.open_turn(other, keys, "rank 1")
    assert second is not None
    assert second.number == 2
    exchange.close_turn(ours, keys, first)  # late: it is another's by now
    assert exchange.turn_of(ours.read(keys.turn)) == second
    other.set(keys.turn, b"damaged")
    other.read(keys.turn)  # nothing answers a set: it is over when what comes after it is
    assert exchange.open_turn(ours, keys, "rank 0") is not None
    other.close()


@contextmanager
def _answering(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """A port where somebody answers in this way, once."""
    over = threading.Event()

    def serve() -> None:
        one, _ = server.accept()
        with one:
            answer(one)
            over.wait(TIMEOUT)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield int(server.getsockname()[1])
        over.set()
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        lambda one: one.recv(1),  # and then nothing, for ever
        lambda one: one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        lambda one: one.close(),
    ],
    ids=["silent", "another server", "closes"],
)
def test_what_is_no_store_is_one_error(answer: Callable[[socket.socket], object]) -> None:
    with _answering(answer) as port, pytest.raises(StoreError, match=r"store|TCPStore"):
        JobStore("127.0.0.1", port, 0.5)


def test_nobody_there_is_one_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(StoreError, match="cannot connect"):
            JobStore("127.0.0.1", free.getsockname()[1], 0.5)


def test_only_a_tcp_store_can_be_spoken_to(theirs: TCPStore, tmp_path: object) -> None:
    assert endpoint(PrefixStore("a", PrefixStore("b", theirs))) == ("127.0.0.1", theirs.port)
    others: list[Store | None] = [HashStore(), FileStore(f"{tmp_path}/store", 1), None]
    assert [endpoint(one) for one in others] == [None, None, None]
