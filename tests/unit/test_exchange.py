"""Messages between ranks: what is sent is read again, and what a stranger sends does no harm."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectrace import exchange
from collectrace.exchange import LARGEST_ANSWER, Announced, Ask, Listing, Turn, Verdict

MESSAGES = [
    Announced("20260101-000000-abcdef", 8, 5.0),
    Turn(3, "rank 1", is_open=True),
    Ask(2, 0, 10, 20),
    Listing(("rank00000.jsonl",), (100,)),
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
    with pytest.raises(ValueError, match="too long"):
        exchange.unpack(bomb, 1)
    assert exchange.unpack(exchange.pack(1, bytes(LARGEST_ANSWER)), 1) == bytes(LARGEST_ANSWER)
    with pytest.raises(ValueError, match="incorrect header"):
        exchange.unpack(b"1\nnot packed at all", 1)
