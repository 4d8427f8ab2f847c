"""One run after another, in one process or at one store, and stores of every kind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.test_online import BEGIN, heads
from tests.support.apart import ROOT, Apart

pytestmark = pytest.mark.slow

PARTS = """
for n in range({calls}):
    dist.all_reduce(torch.zeros(1))
{before}
dist.barrier() if rank else dist.broadcast(torch.zeros(1), 0)
"""


def test_default_groups_one_after_another(tmp_path: Path) -> None:
    script = (
        BEGIN
        + """
import threading
port = int(os.environ["MASTER_PORT"])
for turn in range(3):
    os.environ["MASTER_PORT"] = str(port + turn % 2)  # another one, and the first again
    init()
    for n in range(30):
        dist.all_reduce(torch.zeros(1))
        time.sleep(0.02)
    dist.destroy_process_group()
os.environ["MASTER_PORT"] = str(port)
init()
members = lambda: [t for t in threading.enumerate() if t.name == "collectrace-online"]
while len(members()) != 1:
    time.sleep(0.05)
print("one member", flush=True)
"""
        + PARTS.format(calls=7, before="")
    )
    with Apart(tmp_path, script) as ranks:
        ranks.wait_for_words("one member")
        ranks.wait_for(lambda: heads(ranks))
        [elected] = heads(ranks)
        assert ": call 8, " in ranks.said(elected)
        ranks.wait_for_words("(details: output of rank", 1 - elected)
        last = sorted(path.name for path in ranks.logs(elected).glob("2*"))
        assert len(last) == 4
        assert [p.parent.name for p in ranks.logs(elected).glob("2*/verdict.*.txt")] == [last[-1]]


STORES = {
    "prefixed": (
        'dist.PrefixStore("a", dist.PrefixStore("b", dist.TCPStore('
        '"127.0.0.1", int(os.environ["MASTER_PORT"]), 2, rank == 0)))'
    ),
    "tcp": 'dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, rank == 0)',
    "file": 'dist.FileStore("store", 2)',
}


@pytest.mark.parametrize("store", STORES)
def test_stores_of_every_kind(tmp_path: Path, store: str) -> None:
    script = (
        BEGIN
        + f"""
dist.init_process_group("gloo", store={STORES[store]}, rank=rank, world_size=2)
import threading
print("members", [t.name for t in threading.enumerate()].count("collectrace-online"), flush=True)
"""
        + PARTS.format(calls=5, before="")
    )
    with Apart(tmp_path, script) as ranks:
        if store == "file":
            ranks.wait_for_words("has been in")  # it hangs, and nobody compares notes
            assert all("members 0" in ranks.said(r) for r in range(2))
            return
        ranks.wait_for(lambda: heads(ranks))
        assert ": call 6, " in ranks.said(heads(ranks)[0])


def test_an_elastic_restart(tmp_path: Path) -> None:
    script = (
        BEGIN
        + """
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
# gloo's ranks leave their addresses under the same keys in each attempt (torch 2.13), and now and
# then one is taken for that of the next: a prefix keeps them apart.
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
dist.init_process_group(
    "gloo", store=dist.PrefixStore(attempt, store), rank=rank, world_size=2,
    timeout=datetime.timedelta(seconds=300),
)
attempt = int(attempt)
"""
        + PARTS.format(calls="5 + 4 * attempt", before="if attempt == 0: sys.exit(rank)")
    )
    (tmp_path / "train.py").write_text(script)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COLLECTRACE")} | {
        "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLLECTRACE_ONLINE": "1",
        "COLLECTRACE_HEARTBEAT": "0.5", "COLLECTRACE_STALL_AFTER": "3",
        "COLLECTRACE_LOG_DIR": str(tmp_path / "logs"),
    }  # fmt: skip
    ranks = Apart(tmp_path, script, 1)  # to wait for what they say: one file for both
    with (tmp_path / "rank0.txt").open("wb") as out:
        job = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
             "--max-restarts", "1", "--master-port", str(ranks.port), "train.py"],
            cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        ranks.wait_for_words("(details: output of rank")
        assert ranks.said(0).count("the whole report: ") == 1
        assert ": call 10, " in ranks.said(0)
        runs = sorted(path.name for path in (tmp_path / "logs").glob("2*"))
        assert len(runs) == 2
        (page,) = (tmp_path / "logs").glob("2*/verdict.*.txt")
        assert page.parent.name == runs[-1]
    finally:
        job.send_signal(signal.SIGTERM)  # the agent ends its workers
        try:
            job.wait(30)
        finally:
            job.kill()
