"""A running job that is watched from outside, through nothing but its store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.process.test_online import BEGIN
from tests.support.apart import PATIENCE, ROOT, Apart
from tests.support.commands import UNDECIDED

LOOP = (
    BEGIN
    + """
init()
total = torch.ones(1)
while total:
    total.fill_(float(not os.path.exists({end!r})))
    dist.broadcast(total, 0)
    time.sleep(0.01)
print("over", flush=True)
"""
)


@contextmanager
def follow(ranks: Apart, *options: str) -> Iterator[subprocess.Popen[str]]:
    """``align --store --follow`` beside a job; killed where it is left before its end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "collectrace", "align", "--store", f"127.0.0.1:{ranks.port}",
         "--follow", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    assert any(words in line for line in process.stdout), process.communicate()


def test_a_job_is_watched_until_it_has_gone(tmp_path: Path) -> None:
    end, metrics = tmp_path / "end", tmp_path / "job.prom"
    # Nobody stalls, and nobody differs: nobody but the reader asks.
    with Apart(tmp_path, LOOP.format(end=str(end)), stall_after=600) as ranks:
        ranks.wait_for(lambda: all(list(ranks.logs(r).glob("2*/rank*.jsonl")) for r in range(2)))
        with follow(ranks, "--prometheus", str(metrics)) as watcher:
            wait_for(watcher, "ranks 0-1 running, last call broadcast")
            ranks.wait_for(metrics.exists)
            seen = metrics.read_text()
            ranks.wait_for(lambda: metrics.read_text() != seen)  # it is looked at again
            end.touch()
            out, err = watcher.communicate(timeout=PATIENCE)
        gone = f"collectrace: 127.0.0.1:{ranks.port} stopped answering: "
        assert [line.startswith(gone) for line in err.splitlines()] in ([], [True])
        if watcher.returncode == 0:  # it has read the records that the ranks have left
            assert out.splitlines()[-1].partition(":")[0] == "aligned"
        else:  # the store had gone before
            assert watcher.returncode == 3
            assert err
            assert UNDECIDED.search(out)
        assert [rank.wait(PATIENCE) for rank in ranks.ranks] == [0, 0]


def test_ctrl_c_gives_the_report_and_leaves_the_job_alone(tmp_path: Path) -> None:
    end = tmp_path / "end"
    with Apart(tmp_path, LOOP.format(end=str(end)), stall_after=600) as ranks:
        ranks.wait_for(lambda: all(list(ranks.logs(r).glob("2*/rank*.jsonl")) for r in range(2)))
        with follow(ranks) as watcher:
            wait_for(watcher, "ranks 0-1 running, last call broadcast")
            watcher.send_signal(signal.SIGINT)
            out, err = watcher.communicate(timeout=PATIENCE)
        assert (watcher.returncode, err) == (3, "")
        assert UNDECIDED.search(out)
        assert [rank.poll() for rank in ranks.ranks] == [None, None]
        end.touch()
        assert [rank.wait(PATIENCE) for rank in ranks.ranks] == [0, 0]


def test_an_error_is_told_as_soon_as_it_is_proven(tmp_path: Path) -> None:
    script = (
        BEGIN
        + """
init()
dist.all_reduce(torch.zeros(1))
print("under way", flush=True)
if rank == 0:
    dist.barrier()
else:
    dist.broadcast(torch.zeros(1), 0)
time.sleep(600)
"""
    )
    with Apart(tmp_path, script, stall_after=600) as ranks:
        ranks.wait_for_words("under way")
        with follow(ranks, "--json", "-") as watcher:
            out, _ = watcher.communicate(timeout=PATIENCE)
        found = json.loads(out)
        assert watcher.returncode == 1
        assert found["findings"][0]["kind"] == "op_mismatch"
        assert [rank.poll() for rank in ranks.ranks] == [None, None]
