"""The program's text in the run's folder: who writes it, when, and what is left out."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from collectrace.records import Source, SourceFile, Stack
from tests.support.real_ranks import Log, Ran, Ranks

THIS = Path(__file__)


def folder() -> Path:
    """The run's folder."""
    return next(Path(os.environ["COLLECTRACE_LOG_DIR"]).glob("20*"))


def texts(ran: Ran) -> dict[str, bytes]:
    """What lies in the run's folder, by name."""
    found = {file.name: file.read_bytes() for file in ran.logs.glob("20*/sources/*")}
    for name, data in found.items():
        assert hashlib.sha256(data).hexdigest() + ".py" == name
    return found


def hashes(log: Log) -> dict[str, str]:
    return {record.path: record.sha256 for record in log.of(SourceFile)}


def until(there: Callable[[], Any]) -> None:
    """Wait for a condition; the test's limit ends what never comes."""
    while not there():
        time.sleep(0.01)


def compiled(name: str, text: str) -> None:
    """Issue a call from a program of its own."""
    Path(name).write_text(text)
    exec(compile(text, name, "exec"), {"dist": dist, "torch": torch})


CALL = "dist.all_reduce(torch.ones(1))\n"


def calls() -> None:
    dist.all_reduce(torch.ones(1))


def test_every_file_on_a_stack_is_there_once(ranks: Ranks) -> None:
    ran = ranks.run(calls)
    found = texts(ran)
    assert THIS.read_bytes() in found.values()
    for rank in range(2):
        log = ran.log(rank)
        known = hashes(log)
        assert known[str(THIS)] == hashlib.sha256(THIS.read_bytes()).hexdigest()
        assert {f"{sha}.py" for sha in known.values()} == found.keys()
        # Every frame has the first line of its function, and a file that is known.
        for stack in log.of(Stack):
            assert stack.first_lines is not None
            assert len(stack.first_lines) == len(stack.frames)
            assert {frame.rpartition(":")[0] for frame in stack.frames} <= known.keys()
        [innermost] = {s.first_lines[0] for s in log.of(Stack) if s.first_lines}
        assert innermost == calls.__code__.co_firstlineno
    paths = [*ran.logs.glob("20*/*"), *ran.logs.glob("20*/sources/*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}


def dies_at_once() -> None:
    """Nothing but a new stack can have woken the watchdog: the heart beats once in ten minutes."""
    calls()
    until(lambda: len(list(folder().glob("sources/*.py"))) > 1)
    os.kill(os.getpid(), signal.SIGKILL)


def test_who_dies_at_once_has_left_its_sources(ranks: Ranks) -> None:
    ran = ranks.run(
        dies_at_once, 1, env={"COLLECTRACE_HEARTBEAT": "600"}, limit=100,
        exits=(-signal.SIGKILL,),
    )  # fmt: skip
    assert THIS.read_bytes() in texts(ran).values()
    assert str(THIS) in hashes(ran.log())


SKEWED = "/proc/self/cwd/skewed.py"


def of_its_own(where: str, *, waits: bool) -> None:
    """Each rank has a file of its own, and one that differs under the same name."""
    rank = dist.get_rank()
    (mine := Path(where) / str(rank)).mkdir()
    os.chdir(mine)
    compiled(f"{where}/rank{rank}.py", f"# {rank}\n{CALL}")
    compiled(SKEWED, f"# {'first' if rank == 0 else 'second'}\n{CALL}")
    if waits:
        until(lambda: len(list(folder().glob("sources/*.py"))) == 5)  # with that of the start
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("waits", [True, False])
def test_a_rank_writes_what_no_other_has(waits: bool, ranks: Ranks, tmp_path: Path) -> None:
    """A heartbeat later, or when it ends before that."""
    (tmp_path / "code").mkdir()
    exits = (-signal.SIGKILL,) * 2 if waits else None
    env = {} if waits else {"COLLECTRACE_HEARTBEAT": "600"}
    function = of_its_own_and_waits if waits else of_its_own_and_ends
    ran = ranks.run(function, 2, str(tmp_path / "code"), env=env, limit=100, exits=exits)
    found = set(texts(ran).values())
    for text in ("# 0", "# 1", "# first", "# second"):
        assert f"{text}\n{CALL}".encode() in found
    first, second = (hashes(ran.log(rank)) for rank in range(2))
    assert first[SKEWED] != second[SKEWED]


def of_its_own_and_waits(where: str) -> None:
    of_its_own(where, waits=True)


def of_its_own_and_ends(where: str) -> None:
    of_its_own(where, waits=False)


@pytest.mark.parametrize("level", ["lines", "off"])
def test_texts_can_be_left_out(level: str, ranks: Ranks) -> None:
    ran = ranks.run(calls, env={"COLLECTRACE_SOURCES": level})
    assert texts(ran) == {}
    log = ran.log()
    number = calls.__code__.co_firstlineno + 1
    lines = [source.lines for source in log.of(Source) if source.site == f"{THIS}:{number}"]
    if level == "off":
        assert (hashes(log), lines) == ({}, [])
    else:
        assert lines == [[f"{number}     dist.all_reduce(torch.ones(1))"]]
        assert str(THIS) in hashes(log)
    assert b"def calls" not in log.path.read_bytes()


@pytest.mark.parametrize(
    ("option", "left"),
    [
        (("--no-sources",), 0),
        pytest.param(("--sources", "lines"), 0, marks=pytest.mark.slow),
        pytest.param((), 1, marks=pytest.mark.slow),
    ],
)
def test_a_script_can_be_run_without(ranks: Ranks, option: tuple[str, ...], left: int) -> None:
    script = (
        "import os, torch, torch.distributed as dist\n"
        'dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)\n'
        f"{CALL}"
        "dist.destroy_process_group()\n"
    )
    ran = ranks.script(script, launch=("-m", "collectrace", "run", *option))
    assert list(texts(ran).values()) == [script.encode()] * left
    assert len(hashes(ran.log())) == ("--no-sources" not in option)
