"""What a stranger may write for a message: either it is one, or one error says that it is none."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectrace import exchange
from collectrace.exchange import LARGEST_ANSWER, MOST_FILES, Announced, Ask, Listing, Turn, Verdict
from collectrace.tracer.online import agreement

NUMBERS = st.integers() | st.sampled_from([0, -1, 1 << 63, -(1 << 63), 10**400])
TEXTS = st.text() | st.sampled_from(["../../etc/passwd", "\x1b[2J", "\ud800", "x" * 4001, "\u202e"])
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    NUMBERS | TEXTS | st.floats() | st.booleans() | st.none(), lambda inner: st.lists(inner)
)
WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)
FIELDS: dict[type, dict[str, st.SearchStrategy[Any]]] = {
    Announced: {"run": TEXTS, "world_size": NUMBERS, "heartbeat": st.floats(allow_nan=False)},
    Turn: {"number": NUMBERS, "by": TEXTS, "is_open": st.booleans()},
    Ask: {"number": NUMBERS, "file": WHOLE, "start": WHOLE, "stop": WHOLE},
    Listing: {"names": st.lists(TEXTS), "sizes": st.lists(WHOLE)},
    Verdict: {
        "turn": NUMBERS, "by": st.just("rank 0"), "status": st.just("hung"), "headline": TEXTS,
        "kind": st.just("stall"), "is_proven": st.booleans(), "also": st.lists(TEXTS, max_size=2),
    },
}  # fmt: skip
"""Values of the right type mostly."""


@pytest.mark.parametrize("kind", FIELDS)
@given(data=st.data())
def test_the_right_names_with_any_values_are_a_message_or_one_error(
    kind: type, data: st.DataObject
) -> None:
    odd = data.draw(st.none() | st.sampled_from(sorted(FIELDS[kind])))
    fields = {
        name: data.draw(ANYTHING if name == odd else values, name)
        for name, values in FIELDS[kind].items()
    }
    try:
        message: Any = exchange.decode(kind, json.dumps(fields).encode())
    except ValueError:
        return
    # Whatever is taken can be sent, named in a key, and written to a file.
    assert exchange.decode(kind, exchange.encode(message)) == message
    for value in (getattr(message, name) for name in FIELDS[kind]):
        for one in value if isinstance(value, tuple) else [value]:
            assert len(str(one).encode()) <= 4 * 4000
        assert not isinstance(value, tuple) or len(value) <= MOST_FILES


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Announced, {"run": "r", "world_size": 2, "heartbeat": 10**400}),
        (Announced, {"run": "\ud800", "world_size": 2, "heartbeat": 1.0}),
        (Turn, {"number": 1, "by": "\udfff", "is_open": True}),
        (Listing, {"names": ["\ud800"], "sizes": [1]}),
    ],
)
def test_what_no_file_or_key_can_hold_is_refused(kind: type, fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"field|number"):
        exchange.decode(kind, json.dumps(fields).encode())


@given(number=NUMBERS, by=TEXTS, is_open=st.booleans())
def test_a_turn_that_is_taken_can_be_followed_and_closed(
    number: int, by: str, is_open: bool
) -> None:
    value = json.dumps({"number": number, "by": by, "is_open": is_open}).encode()
    for written in (value, value.replace(b", ", b",").replace(b": ", b":"), value + b" "):
        turn = exchange.turn_of(written)
        if turn is not None:
            assert 0 < turn.number < exchange.MOST_TURNS
            assert exchange.encode(turn) == written  # or nobody could close it


def test_turns_go_on_after_the_last_number() -> None:
    last = Turn(exchange.MOST_TURNS - 1, "a stranger", is_open=False)
    assert exchange.turn_of(exchange.encode(last)) == last
    following = exchange.following(last)
    assert exchange.turn_of(exchange.encode(Turn(following, "rank 0", is_open=True))) is not None


@given(data=st.binary() | st.binary().map(lambda data: b"1\n" + data))
def test_any_answer_is_bytes_none_or_one_error(data: bytes) -> None:
    try:
        found = exchange.unpack(data, 1)
    except ValueError:
        return
    assert found is None or len(found) <= LARGEST_ANSWER


@given(size=st.integers(LARGEST_ANSWER + 1, 8 * LARGEST_ANSWER), level=st.sampled_from([0, 1, 9]))
def test_a_bomb_is_refused_however_it_is_packed(size: int, level: int) -> None:
    with pytest.raises(ValueError, match=r"too long|more bytes"):
        exchange.unpack(b"7\n" + zlib.compress(bytes(size), level), 7)


PLACES = st.from_regex(rb"(run)? ?-?\d{0,22} ?\d{0,22} \d{0,22}\s?", fullmatch=True)


@given(value=st.binary() | PLACES)
def test_a_place_is_as_it_was_written_or_none(value: bytes) -> None:
    place = agreement._decode(value, b"run")
    if place is not None:
        assert 0 <= place.seq < 10**18
        assert agreement._decode(place.encode(), b"run") == place
        assert agreement._decode(place.encode(), b"another") is None
