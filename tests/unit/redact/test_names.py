"""Placeholders: the same for the same, and nothing of the user's beside them."""

from __future__ import annotations

import pytest

from collectrace.redact.names import Names


@pytest.mark.parametrize(
    ("method", "text", "expected"),
    [
        ("place", "/home/zq/train.py:12", "file1.py:12"),
        ("frame", "/home/zq/train.py:12 Zq.zq_step", "file1.py:12 name1.name2"),
        ("frame", "/home/zq/a b.py:12 <module>", "file1.py:12 <module>"),
        ("frame", "/v/lib/python3.11/threading.py:5 _bootstrap_inner",
         "/lib/python3.11/threading.py:5 _bootstrap_inner"),
        ("frame", "/v/site-packages/torch/nn/zq.py:5 Zq.forward",
         "/site-packages/torch/nn/zq.py:5 Zq.forward"),
        ("frame", "/v/site-packages/zqlib/a.py:5 Zq.run",
         "/site-packages/package1/file1.py:5 name1.run"),
        ("frame", "<frozen runpy>:88 _run_code", "<frozen runpy>:88 _run_code"),
        ("library_frame", "2 /home/zq/lib.py:5 zq", "2 file1.py:5 name1"),
        ("address", "10.0.0.1:29500", "host1:90001"),
        ("path", "pipe:[512]", "pipe:[512]"),
        ("path", "", ""),
        ("names", "layers.2.zq_proj", "layers.2.name1"),
        ("names", "ThreadPoolExecutor-1_0", "ThreadPoolExecutor-1_0"),
        ("run", "20260101-000000-abcdef", "20260101-000000-abcdef"),
        ("run", "zq-tuning", "run1"),
        ("version", "2.13.0+cpu", "2.13.0+cpu"),
        ("version", "2.13.0+zqcorp", "2.13.0+name1"),
        ("masked", "[/__w/third_party/gloo/pair.cc:5] Connection closed by peer [10.0.1.1]:12345",
         "[/third_party/gloo/pair.cc:5] Connection closed by peer [host1]:90001"),
        ("masked", "Timed out waiting 5415ms for zq@zq.example",
         "Timed out waiting 5415ms for name1@name1.example"),
        ("masked", "no such file: '/home/zq/a.csv', account 12345678",
         "no such file: 'file1', account 90001"),
    ],
)  # fmt: skip
def test_a_placeholder_stands_for_what_is_the_users(method: str, text: str, expected: str) -> None:
    assert getattr(Names(), method)(text) == expected


def test_equal_texts_have_one_placeholder_and_others_have_others() -> None:
    names = Names()
    first = [names.place("/a/x.py:1"), names.place("/b/x.py:1"), names.place("/a/x.py:2")]
    assert first == ["file1.py:1", "file2.py:1", "file1.py:2"]
    assert names.map() == {"file1": "/a/x.py", "file2": "/b/x.py"}


def test_a_name_like_a_placeholder_becomes_another_one() -> None:
    names = Names()
    assert names.names("zq name1 file7") == "name1 name2 name3"
