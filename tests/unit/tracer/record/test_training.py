"""Whose gradients a backward reduces: the one DDP module that has run a forward, if it is one."""

from __future__ import annotations

import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.writer import Writer


class Module:
    """Stands for a DDP module."""


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(Writer(tmp_path / "here.jsonl", 1 << 20, lambda _: b""), 1)


def reduce(recorder: Recorder) -> None:
    """A backward that issued one bucket, and returned."""
    bucket: Any = (SimpleNamespace(counter=SimpleNamespace(complete=lambda _: None)), 1)
    recorder.buckets.append(bucket)
    recorder.backward_over()


def test_before_any_forward_it_is_not_known(recorder: Recorder) -> None:
    assert recorder.module_in_training() is None


def test_the_only_one_that_ran_a_forward(recorder: Recorder) -> None:
    module = Module()
    recorder.trains(module)
    recorder.trains(module)
    assert recorder.module_in_training() is module


def test_of_two_that_ran_one_it_is_not_known(recorder: Recorder) -> None:
    first, second = Module(), Module()
    recorder.trains(first)
    recorder.trains(second)
    assert recorder.module_in_training() is None


def test_a_backward_of_one_of_two_does_not_tell_which_is_left(recorder: Recorder) -> None:
    first, second = Module(), Module()
    recorder.trains(first)
    recorder.trains(second)
    reduce(recorder)
    recorder.trains(first)
    assert recorder.module_in_training() is None


def test_a_backward_that_reduced_ends_it(recorder: Recorder) -> None:
    first, second = Module(), Module()
    recorder.trains(first)
    reduce(recorder)
    assert recorder.module_in_training() is None
    recorder.trains(second)
    assert recorder.module_in_training() is second


def test_a_backward_without_buckets_was_of_something_else(recorder: Recorder) -> None:
    module = Module()
    recorder.trains(module)
    recorder.backward_over()
    assert recorder.module_in_training() is module


def test_a_module_that_is_gone_is_not_in_training(recorder: Recorder) -> None:
    first, second = Module(), Module()
    recorder.trains(first)
    recorder.trains(second)
    del first
    gc.collect()
    assert recorder.module_in_training() is second
