"""Messages between ranks: what is sent is read again, and what a stranger sends does no harm."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectrace import exchange
from collectrace.exchange import (
    LARGEST_ANSWER,
    LARGEST_LEFT,
    Announced,
    Ask,
    Left,
    Listing,
    Turn,
    Verdict,
)

MESSAGES = [
    Announced("20260101-000000-abcdef", 8, 5.0),
    Turn(3, "rank 1", is_open=True),
    Ask(2, 0, 10, 20),
    Listing(("rank00000.jsonl",), (100,)),
    Left("20260101-000000-abcdef", ("rank00000.jsonl",), (100,), (0, 0), (0, 90), (10, 10)),
    Verdict(1, "rank 0", "hung", "rank 1 never came", "missing_call", is_proven=False),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_what_is_sent_is_read_again(message: Any) -> None:
    assert exchange.decode(type(message), exchange.encode(message)) == message


@pytest.mark.parametrize("kind", [type(m) for m in MESSAGES])
@given(
    data=st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
    .map(json.dumps)
    .map(str.encode)
)
def test_anything_else_is_refused_by_one_error(kind: type, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        exchange.decode(kind, data)


@pytest.mark.parametrize(
    "changed",
    [
        {"number": "1"}, {"number": True}, {"number": 1 << 70}, {"number": 1.0}, {"more": 1},
        {"by": "x" * 5000}, {"by": None}, {"is_open": 1}, {"by": ["rank"]},
    ],
    ids=str,
)  # fmt: skip
def test_a_field_of_another_kind_is_refused(changed: dict[str, Any]) -> None:
    fields = {"number": 1, "by": "rank 1", "is_open": True}
    assert exchange.decode(Turn, json.dumps(fields).encode()).number == 1
    with pytest.raises(ValueError, match=r"field|number"):
        exchange.decode(Turn, json.dumps(fields | changed).encode())


def test_nesting_and_length_do_not_matter() -> None:
    for data in (b"[" * 60_000, b'"' + b"x" * 100_000 + b'"'):
        with pytest.raises(ValueError, match="message"):
            exchange.decode(Turn, data)
    many = {"names": ["a"] * 1000, "sizes": [1] * 1000}
    with pytest.raises(ValueError, match="list"):
        exchange.decode(Listing, json.dumps(many).encode())


@given(data=st.binary(max_size=2000), number=st.integers(1, 10**6))
def test_an_answer_is_that_to_its_ask(data: bytes, number: int) -> None:
    answer = exchange.pack(number, data)
    assert exchange.unpack(answer, number) == data
    assert exchange.unpack(answer, number + 1) is None


def test_an_answer_cannot_fill_the_memory() -> None:
    bomb = b"1\n" + zlib.compress(bytes(100 * LARGEST_ANSWER), 9)
    with pytest.raises(ValueError, match="more bytes"):
        exchange.unpack(bomb, 1)
    assert exchange.unpack(exchange.pack(1, bytes(LARGEST_ANSWER)), 1) == bytes(LARGEST_ANSWER)
    with pytest.raises(ValueError, match="incorrect header"):
        exchange.unpack(b"1\nnot packed at all", 1)


@given(parts=st.lists(st.binary(max_size=200), max_size=8))
def test_what_a_rank_leaves_is_found_again(parts: list[bytes]) -> None:
    count = len(parts)
    left = Left(
        "r", ("a",), (9999,), (0,) * count, tuple(range(count)), tuple(map(len, parts))
    )  # fmt: skip
    assert exchange.unpack_left(exchange.pack_left(left, parts)) == (left, parts)


@pytest.mark.parametrize(
    ("left", "data"),
    [
        (Left("r", ("a",), (5,), (0,), (0,), (4,)), b"12345"),  # other bytes than it says
        (Left("r", ("a",), (5,), (1,), (0,), (5,)), b"12345"),  # of a file that is none
        (Left("r", ("a",), (5,), (-1,), (0,), (5,)), b"12345"),
        (Left("r", ("a", "b"), (5,), (0,), (0,), (5,)), b"12345"),
        (Left("r", ("a",), (5,), (0, 0), (0,), (5,)), b"12345"),
        (Left("r", ("a",), (5,), (0, 0), (0, 0), (7, -2)), b"12345"),
        (Left("r", ("a",), (5,), (0,), (-3,), (5,)), b"12345"),
        (Left("r", ("a",), (5,), (0,), (0,), (LARGEST_LEFT * 9,)), bytes(LARGEST_LEFT * 9)),
    ],
)
def test_what_does_not_fit_is_not_taken(left: Left, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"part|argument|more bytes"):
        exchange.unpack_left(exchange.pack_left(left, [data]))
