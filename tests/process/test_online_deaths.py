"""Ranks, and the process that explains, that die or stop in the middle of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.test_online import BEGIN, heads
from tests.support.apart import ROOT, Apart

pytestmark = pytest.mark.slow

BESIDE = """
import ctypes, signal, threading
import collectrace.tracer.online.answers as answers
import collectrace.tracer.life.aligner_process as aligner_process
import collectrace.tracer.online.member as member

def end():
    {end}

asked = []
answer = answers.Answers._answer
def dying(self, ask):
    asked.append(ask)
    if len(asked) == 2:
        print("going", flush=True)
        end()
    return answer(self, ask)
"""

# Two ranks part, and hang; one has nothing to do with it. Rank 0 serves the store.
PART = """
init()
pair = dist.new_group([r for r in range(3) if r != {beside}])
if rank == {beside}:
    time.sleep(600)
for n in range(10):
    dist.all_reduce(torch.zeros(1), group=pair)
dist.barrier(group=pair) if rank != 1 else dist.broadcast(torch.zeros(1), 1, group=pair)
"""

ENDS = {
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "holds the GIL": "ctypes.PyDLL(None).sleep(600)",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_rank_may_go_while_it_answers(tmp_path: Path, end: str) -> None:
    script = BEGIN + BESIDE.format(end=end) + "if rank == 2:\n    answers.Answers._answer = dying\n"
    with Apart(tmp_path, script + PART.format(beside=2), 3) as ranks:
        ranks.wait_for(lambda: heads(ranks))
        [elected] = heads(ranks)
        assert elected in (0, 1)
        ranks.wait_for_words(f"(details: output of rank {elected})", 1 - elected)
        assert ": call 11 of group 1, " in ranks.said(elected)
        assert "going" in ranks.said(2)
        assert "suspect: rank 2" not in ranks.said(elected)


# One that is killed ends the hang, and its peer with it: see what another rank does then.
@pytest.mark.parametrize("end", ["stopped", "holds the GIL"])
def test_who_has_asked_may_go(tmp_path: Path, end: str) -> None:
    # What it has started tells all the same: on its standard error, and to the other ones.
    script = (
        BEGIN
        + BESIDE.format(end=ENDS[end])
        + """
begin = member.Member._diagnose
def diagnose(self, store):
    begin(self, store)
    if self._diagnosis is not None:
        print("going", flush=True)
        end()
member.Member._diagnose = diagnose
"""
        + PART.format(beside=0)
    )
    with Apart(tmp_path, script, 3) as ranks:
        ranks.wait_for(lambda: heads(ranks))
        [elected] = heads(ranks)
        assert "going" in ranks.said(elected)
        told = f"(details: output of rank {elected})"
        ranks.wait_for_words(told, *({0, 1, 2} - {elected}))


@pytest.mark.parametrize(
    "fault",
    [
        "aligner_process.subprocess.Popen = lambda *_, **__: 1 / 0",
        "aligner_process.sys.executable = ''",
        "aligner_process._START = 'import os; os.kill(os.getpid(), 9)'",
        "aligner_process._START = 'raise SystemExit(1)'",
    ],
    ids=["raises", "no interpreter", "killed", "fails"],
)
def test_another_rank_asks_where_one_cannot(tmp_path: Path, fault: str) -> None:
    script = (
        BEGIN
        + BESIDE.format(end="pass")
        + f"""
begin = member.Member._diagnose
def diagnose(self, store):
    try:  # whoever comes first makes the folder, and cannot
        os.mkdir("first")
        {fault}
        print("cannot", flush=True)
    except FileExistsError:
        pass
    begin(self, store)
member.Member._diagnose = diagnose
"""
        + PART.format(beside=0)
    )
    with Apart(tmp_path, script, 3, max_failures=2) as ranks:
        ranks.wait_for(lambda: heads(ranks))
        [elected] = heads(ranks)
        assert "cannot" not in ranks.said(elected)
        ranks.wait_for_words("(details: output of rank", *({0, 1, 2} - {elected}))
        for rank in range(3):
            assert "Traceback" not in ranks.said(rank)
        files = [file.read_text() for file in tmp_path.glob("rank*/2*/rank*.jsonl")]
        assert not any('"reason":"disabled"' in text for text in files)


def test_nobody_asks_for_ever_where_nobody_can(tmp_path: Path) -> None:
    script = (
        BEGIN
        + BESIDE.format(end="pass")
        + """
aligner_process._START = "print()"
begin = member.Member._diagnose
def diagnose(self, store):
    begin(self, store)
    if self._diagnosis is not None:
        print("tried", flush=True)
member.Member._diagnose = diagnose
hear = member.Member._hear
def hearing(self, store, turn):
    hear(self, store, turn)
    print("heard", turn.number, turn.by, flush=True)
member.Member._hear = hearing
"""
        + PART.format(beside=0)
    )
    with Apart(tmp_path, script, 3) as ranks:
        ranks.wait_for_words("heard 3 nobody")
        assert sum(ranks.said(r).count("tried") for r in range(3)) == 3


def test_a_listener_may_take_for_ever_or_end_itself(tmp_path: Path) -> None:
    script = (
        BEGIN
        + """
def ends(report):
    sys.exit(3)
def raises(report):
    raise RuntimeError("\\033[2J no such host")
def never(report):
    print("HEARD", flush=True)
    time.sleep(600)
for listener in (ends, raises, never):
    collectrace.on_finding(listener)
init()
dist.all_reduce(torch.zeros(1), op=dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)
time.sleep(600)
"""
    )
    with Apart(tmp_path, script) as ranks:
        ranks.wait_for(lambda: "HEARD" in said(ranks))
        done = subprocess.run(
            [sys.executable, "-m", "collectrace", "align", "--store", f"127.0.0.1:{ranks.port}",
             "--json", "-"],
            capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
        )  # fmt: skip
        # Its rank still answers.
        assert [rank["last_call"]["seq"] for rank in json.loads(done.stdout)["ranks"]] == [1, 1]
        assert "a callback of on_finding() raised RuntimeError: [2J no such host" in said(ranks)
        assert "\033" not in said(ranks)


def said(ranks: Apart) -> str:
    return "".join(map(ranks.said, range(ranks.world)))
