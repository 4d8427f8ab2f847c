"""The watchdog and the program's text: when it looks, and where it writes."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectrace.config import FULL, Config
from collectrace.log_folder import PENDING
from collectrace.tracer.life.watchdog import Watchdog
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import now
from collectrace.tracer.record.sources import Sources
from collectrace.tracer.record.writer import Writer
from collectrace.tracer.values.value_records import ValueRecords

HOUR = 3600.0


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """Of a run that has no id yet."""
    writer = Writer(
        tmp_path / PENDING / "host-7-1.jsonl", 1 << 20, lambda _: b'{"kind":"header"}\n'
    )
    return Recorder(writer, 20, sources=Sources(FULL, int(HOUR * 1e9)))


@pytest.fixture
def watchdog(recorder: Recorder) -> Iterator[Watchdog]:
    """Its heart beats once an hour."""
    yield from watching(recorder, Config(heartbeat=HOUR, stall_after=HOUR))


def watching(recorder: Recorder, config: Config) -> Iterator[Watchdog]:
    made = Watchdog(recorder, config, ValueRecords(recorder, "off", lambda: None))
    made.start()
    yield made
    made.stop()


def ask(recorder: Recorder, path: Path) -> None:
    path.write_text(f"# {path.name}\n")
    assert recorder.sources is not None
    recorder.sources.ask([f"{path}:1"])


def until(there: Any) -> None:
    while not there():
        time.sleep(0.01)


def files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.py"))


@pytest.mark.timeout(60)
def test_a_new_line_wakes_it(recorder: Recorder, watchdog: Watchdog, tmp_path: Path) -> None:
    recorder.writer.move(tmp_path / "run" / "rank00000.jsonl")
    recorder.writes_texts = True
    for name in ("a.py", "b.py"):
        before = len(files(tmp_path / "run"))
        ask(recorder, tmp_path / name)
        until(lambda before=before: len(files(tmp_path / "run")) > before)
    assert b'"kind":"alive"' not in (tmp_path / "run" / "rank00000.jsonl").read_bytes()


@pytest.mark.timeout(60)
def test_a_stall_is_noticed_however_seldom_the_heart_should_beat(
    recorder: Recorder, tmp_path: Path
) -> None:
    path = tmp_path / "run" / "rank00000.jsonl"
    recorder.writer.move(path)
    recorder.book.joined = now()
    for _ in watching(recorder, Config(heartbeat=HOUR, stall_after=0.2)):
        until(lambda: b'"kind":"stall"' in path.read_bytes())


@pytest.mark.timeout(60)
def test_texts_are_held_until_the_run_has_a_folder(
    recorder: Recorder, watchdog: Watchdog, tmp_path: Path
) -> None:
    ask(recorder, mine := tmp_path / "a.py")
    provisional = recorder.writer.path
    until(lambda: provisional.exists() and b'"kind":"source_file"' in provisional.read_bytes())
    recorder.write_sources(at_last=True)
    assert files(tmp_path / PENDING) == []
    mine.unlink()
    recorder.writer.move(tmp_path / "run" / "rank00000.jsonl")
    recorder.write_sources(at_last=True)
    [text] = files(tmp_path / "run")
    assert text.read_text() == "# a.py\n"
    assert b'"kind":"source_file"' in recorder.writer.path.read_bytes()


@pytest.mark.timeout(60)
def test_a_signal_handler_may_wake_it_in_the_midst_of_being_woken(watchdog: Watchdog) -> None:
    """A handler of the program may issue a call from a new line at any moment."""
    before = signal.signal(signal.SIGALRM, lambda *_: watchdog.wake())
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for _ in range(100_000):
            watchdog.wake()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
