"""Only plain data comes out of a pickle, and nothing in it is run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectrace.foreign import plain_pickle
from collectrace.foreign.errors import NotReadable

MARKER = "collectrace-was-here"


class Runs:
    """Makes a folder when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, (MARKER,)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False)
    | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=5)
    | st.dictionaries(st.text(max_size=5) | st.integers(0, 9), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(data=plain, protocol=st.sampled_from([2, 3, 4, 5]))
def test_plain_data_comes_back(data: object, protocol: int) -> None:
    written = {"all": data, "pair": ("a", 1)}
    assert plain_pickle.loads(pickle.dumps(written, protocol)) == written


@given(data=st.binary(max_size=60))
def test_noise_is_refused_in_one_line(data: bytes) -> None:
    told = ""
    try:
        plain_pickle.loads(b"\x80\x02" + data)
    except NotReadable as problem:
        told = str(problem)
    assert "\n" not in told


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_asks_for_a_function_is_refused_by_its_name(
    protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = pickle.dumps({"entries": [Runs()], "version": "2.10"}, protocol)
    with pytest.raises(NotReadable, match=r"posix\.mkdir"):
        plain_pickle.loads(hostile)
    assert not (tmp_path / MARKER).exists()
    pickle.loads(hostile)  # it would have been
    assert (tmp_path / MARKER).exists()


DOUBLING = b"\x80\x02})q\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"Ns."


@pytest.mark.parametrize(
    ("hostile", "why"),
    [
        (b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x00.", "BYTEARRAY8"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "cut short"),
        (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.", "cut short"),
        (b"\x80\x02" + b"]" * 3_000_000 + b".", "containers"),
        (b"\x80\x02}" + b"N" + b"\x85" * 300_000 + b"Ns.", "keys|tuples"),
        (DOUBLING, "keys|tuples"),
        (b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR.", r"os\.system"),
        (b"\x80\x02ios\nsystem\n.", r"os\.system"),
        (b"\x80\x02X\x01\x00\x00\x00aQ.", "BINPERSID"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x02}N\x81.", "NEWOBJ"),
        (b"\x80\x02}}b.", "BUILD"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f1.", "LONG4"),
        (b"\x80\x02}q", "cut short"),
        (b"\x80", "is not a pickle"),
        (b"", "is not a pickle"),
        (b"<!DOCTYPE html>", "is not a pickle"),
    ],
)
def test_hostile_pickles_are_refused(hostile: bytes, why: str) -> None:
    with pytest.raises(NotReadable, match=why):
        plain_pickle.loads(hostile)


def test_deep_lists_are_harmless() -> None:
    found = plain_pickle.loads(b"\x80\x02" + b"]" * 20_000 + b"a" * 19_999 + b".")
    assert isinstance(found, list)
