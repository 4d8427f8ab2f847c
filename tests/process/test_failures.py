"""The tracer fails on purpose: one warning, a count in the file, and training notices nothing."""

from __future__ import annotations

import pkgutil
import re
import signal
import threading
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
import torch
import torch.distributed as dist

import collectrace
from collectrace.records import Exit
from collectrace.tracer.switch import current
from tests.support.real_ranks import Ranks, read_log
from tests.support.sweep import work

IN_PYTHON: Final = {"COLLECTRACE_NATIVE": "0"}
"""What is made to fail are functions in Python, which the code in C does without."""


class Injected(Exception):
    """Of the test."""


# -- whatever fails -------------------------------------------------------------------------

PLACES: Final = (
    "tracer.record.sites:find", "tracer.record.sites:resolve",
    "tracer.record.sites:Place.user_lines", "tracer.record.sites:Place.path",
    "tracer.record.stacks:Stacks.number", "tracer.record.stacks:Stack",
    "tracer.record.sources:Sources.ask",
    "tracer.record.repeated:Repeated.add",
    "tracer.record.scopes:ThreadState.lent", "tracer.patches.threads:_Submitted",
    "tracer.record.scopes:Scope.inside_role", "tracer.record.scopes:Scope.inside_what",
    "tracer.record.scopes:Scope.inside_group", "tracer.record.scopes:Backward.enter",
    "tracer.record.scopes:Backward.leave", "tracer.tap.arguments:ArgumentReader.key",
    "tracer.tap.arguments:ArgumentReader.fields",
    "tracer.patches.python_groups:MethodReader.fields",
    "tracer.patches.python_groups:_positional", "tracer.record.groups:GroupBook.name_of",
    "tracer.record.groups:GroupBook.adopt", "tracer.record.groups:GroupState.stream",
    "tracer.record.groups:backend_of", "tracer.record.groups:Ordinals.of",
    "tracer.record.recorder:Recorder._number", "tracer.record.recorder:make_template",
    "tracer.record.run_record:RunRecord.write", "tracer.record.run_record:RunRecord.checkpoint",
    "tracer.record.recorder:Recorder.completed", "tracer.record.streams:CallCounter.complete",
    "tracer.record.streams:CallCounter.watermark", "tracer.record.works:Works.waited_for",
    "tracer.record.works:Works.call_of", "tracer.record.works:Works.track",
    "tracer.session:Session.write_progress", "tracer.patches.lifecycle:_arguments",
    "tracer.patches.lifecycle:Group", "tracer.patches.data:_length",
    "tracer.record.writer:Writer.write", "records:encode", "records:Batch", "records:Epoch",
    "records:Join", "records:NoSync", "records:Sync", "records:Done",
)  # fmt: skip
"""Of what lies between a user's call and the line in the file."""

SILENT: Final = (
    "tracer.record.run_record:RunRecord.write",
    "tracer.record.writer:Writer.write",
    "records:encode",
)
"""Where nothing can be written any more."""


def failing(place: str) -> Any:
    """Patches a function of the tracer with one that raises."""
    module, _, name = f"collectrace.{place}".partition(":")
    *outer, attribute = name.split(".")
    holder = pkgutil.resolve_name(f"{module}:{'.'.join(outer)}" if outer else module)
    assert attribute in vars(holder), place
    return mock.patch.object(holder, attribute, side_effect=Injected(place))


def each(folder: str, apart: int) -> list[str]:
    """Where work() came to something else than it does without the tracer.

    ``apart``: of so many places one is tried.
    """
    with collectrace.trace(Path(folder) / "none"):
        expected = work()
    different = [] if work() == expected else ["none"]
    for place in PLACES[::apart]:
        collectrace.enable(Path(folder) / place)
        with failing(place):
            print(f"--- {place}", flush=True)
            if work() != expected:
                different.append(place)
            print("---", flush=True)
        collectrace.disable()
    return different


def ends(folder: Path) -> list[Exit]:
    [path] = folder.glob("*/rank00000.jsonl")
    return read_log(path).of(Exit)


@pytest.mark.parametrize("apart", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_training_notices_nothing_wherever_the_tracer_fails(
    apart: int, ranks: Ranks, tmp_path: Path
) -> None:
    ran = ranks.run(
        each, 2, str(tmp_path), apart, trace=False, fails=True, limit=120, env=IN_PYTHON
    )
    assert ran.result() == ran.result(1) == []
    [healthy] = ends(tmp_path / "none")
    assert (healthy.reason, healthy.failures) == ("disabled", 0)
    told = re.findall(r"^--- (\S+)\n(.*?)^---\n", ran.output(), re.MULTILINE | re.DOTALL)
    assert [place for place, _ in told] == list(PLACES[::apart])
    for place, said in told:
        warnings = [line for line in said.splitlines() if "internal failure" in line]
        assert len(warnings) == 1, (place, said)
        assert warnings[0].endswith(f"Injected: {place}. Training goes on untouched.")
        if place not in SILENT:
            assert ends(tmp_path / place)[-1].failures >= 1, place


# -- beside the calls -----------------------------------------------------------------------

SOURCES: Final = (
    "tracer.record.sources:Sources.take", "tracer.record.sources:SourceFile",
    "tracer.record.sources:read", "tracer.record.source_files:Texts.write",
)  # fmt: skip
"""What the watchdog's thread does, or else the end of the record."""


def without_sources(folder: str) -> None:
    for place in SOURCES:
        collectrace.enable(Path(folder) / place)
        with failing(place):
            for _ in range(3):
                dist.all_reduce(torch.ones(1))
            collectrace.disable()


def test_sources_that_fail_are_left_out(ranks: Ranks, tmp_path: Path) -> None:
    ran = ranks.run(without_sources, 1, str(tmp_path), trace=False, fails=True)
    assert ran.output().count("internal failure while reading source lines") == len(SOURCES)
    for place in SOURCES:
        [path] = (tmp_path / place).glob("*/rank00000.jsonl")
        log = read_log(path)
        assert [call.void for call in log.calls] == [None] * 3
        assert list(path.parent.glob("sources/*")) == []
        assert log.exit is not None
        assert (log.exit.reason, log.exit.failures) == ("disabled", 1)


# -- and too often --------------------------------------------------------------------------


def too_often() -> list[float]:
    results = []
    with mock.patch("collectrace.tracer.tap.arguments.ArgumentReader.key", side_effect=Injected):
        for n in range(10):
            x = torch.full((2,), float(n))
            dist.all_reduce(x)
            results.append(x[0].item())
    dist.all_reduce(torch.ones(1))  # nothing fails any more, and the tracer is off
    return results


def test_too_many_failures_switch_it_off(ranks: Ranks) -> None:
    ran = ranks.run(too_often, fails=True, env=IN_PYTHON | {"COLLECTRACE_MAX_FAILURES": "4"})
    for rank in range(2):
        assert ran.result(rank) == [2.0 * n for n in range(10)]
        assert ran.output(rank).count("internal failure") == 1
        log = ran.log(rank)
        assert [c.void for c in log.calls] == [True] * 4, "the last of them too, or none after it"
        assert [c.seq for c in log.calls] == [1, 2, 3, 4]
        [last] = log.of(Exit)
        assert (last.reason, last.error, last.failures) == ("disabled", "Injected", 4)
        assert log.records[-1] is last, "nothing more is written"


def unnumbered() -> float:
    dist.all_reduce(torch.ones(1))
    with failing("tracer.record.recorder:Recorder._number"):
        dist.all_reduce(torch.ones(2))
    x = torch.ones(3)
    dist.all_reduce(x)
    return x[0].item()


def test_a_call_without_even_a_place_ends_the_record(ranks: Ranks) -> None:
    ran = ranks.run(unnumbered, fails=True, env=IN_PYTHON)
    for rank in range(2):
        assert ran.result(rank) == 2
        log = ran.log(rank)
        assert [c.shape for c in log.calls] == [[1]], "a later one would have a number too low"
        assert [e.reason for e in log.of(Exit)] == ["disabled"]


# -- a handler of the program's ---------------------------------------------------------------


class TimeIsUp:
    """As one awaits a hang: it raises, wherever the program is."""

    def __call__(self, *_: object) -> None:
        raise TimeoutError("time is up")


def interrupted(*places: str) -> list[Any]:
    """What a handler raised inside the tracer, and what the calls after it are taken for."""
    signal.signal(signal.SIGUSR1, TimeIsUp())
    told: list[Any] = []
    for place in places:
        target = pkgutil.resolve_name(f"collectrace.tracer.{place}")

        def strike(*args: Any, target: Any = target, **kwargs: Any) -> Any:
            signal.raise_signal(signal.SIGUSR1)
            return target(*args, **kwargs)

        module, _, name = place.partition(":")
        holder, _, name = name.rpartition(".")
        where = pkgutil.resolve_name(f"collectrace.tracer.{module}:{holder}")
        try:
            with mock.patch.object(where, name, strike):
                dist.all_reduce(torch.ones(1))
        except TimeoutError as problem:
            told.append(str(problem))
        dist.broadcast(torch.ones(1), 0)
    session = current()
    assert session is not None
    assert session.recorder is not None
    return [*told, session.recorder.failures, session.recorder.writer.dropped]


def test_what_a_signal_handler_raises_arrives(ranks: Ranks) -> None:
    places = (
        "record.recorder:sites.find", "record.recorder:Recorder._number", "record.writer:os.write",
        "patches.scoping:_getframe",
    )  # fmt: skip
    ran = ranks.run(interrupted, 1, *places, env=IN_PYTHON)
    assert ran.result() == ["time is up"] * 4 + [0, 0]
    assert [(c.op, c.api) for c in ran.calls()] == [("broadcast", None)] * 4


def interrupted_often() -> bool:
    """Whether another thread can still issue calls after a few thousand interruptions."""
    signal.signal(signal.SIGALRM, TimeIsUp())
    count = 0
    while count < 3000:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0002)
            while True:
                dist.all_reduce(torch.ones(1))
        except TimeoutError:
            count += 1
    other = threading.Thread(target=dist.all_reduce, args=(torch.ones(1),), daemon=True)
    other.start()
    other.join(20)
    return not other.is_alive()


def test_no_lock_stays_behind(ranks: Ranks) -> None:
    assert ranks.run(interrupted_often, 1).result()
