"""A process that ends while its rank compares notes, in whatever way, ends as it would without."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.process.test_online import BEGIN
from tests.process.test_online_faults import ended
from tests.support.apart import Apart

pytestmark = pytest.mark.slow

TIMES = 6
"""Jobs, of which each ends at another moment."""

# One process starts them all, so that torch is loaded once. A turn is open, so that they look for
# questions all the time, and are asked.
LOOP = """
import atexit, random, signal
import collectrace.exchange as exchange
import collectrace.tracer.online.member as member
from collectrace.job_store import JobStore

def fails():
    raise ValueError("at exit")

def job(number):
    collectrace.enable()
    store = dist.HashStore()
    theirs = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    import collectrace.tracer.session as session
    session.endpoint = lambda store: ("127.0.0.1", theirs.port)
    members = []
    begin = member.Member.start
    member.Member.start = lambda self: (members.append(self), begin(self))
    session.Session._take_part = take_part
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    dist.all_reduce(torch.zeros(1))
    [mine] = members
    ours = JobStore("127.0.0.1", theirs.port, 20.0)
    exchange.open_turn(ours, mine._keys, "rank 1")
    while mine._answers is None:
        time.sleep(0.001)
    for n in range(1, 4):
        ours.set(mine._keys.ask(1, 0), exchange.encode(exchange.Ask(n, -1)))
        time.sleep(random.Random(number * n).random() / 15)
    dist.destroy_process_group()  # its threads may abort a process that ends, untraced as well
    {end}

import collectrace.tracer.session as session
whole = session.Session._take_part
def take_part(self, store):
    self.world_size = 2  # the other one never comes
    whole(self, store)

children = []
for number in range({times}):
    child = os.fork()
    if child == 0:
        job(number)
        break
    children.append(child)
    if len(children) % 3 == 0:  # some at once
        statuses = [os.waitpid(one, 0)[1] for one in children[-3:]]
        print("ended", [os.waitstatus_to_exitcode(one) for one in statuses], flush=True)
"""

WAYS = {
    "returns": ("pass", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "os._exit": ("os._exit(4)", 4),
    "raises": ("raise ValueError('on purpose')", 1),
    "fails at exit": ("atexit.register(fails)", 0),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -15),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_process_may_end_in_the_midst(tmp_path: Path, way: str) -> None:
    end, status = WAYS[way]
    script = BEGIN.replace("collectrace.enable()", "") + LOOP.format(end=end, times=TIMES)
    with Apart(tmp_path, script, 1) as ranks:
        assert ended(ranks) == [0]
        said = ranks.said(0)
        found = [
            int(one) for line in re.findall(r"ended \[(.*)\]", said) for one in line.split(",")
        ]
        assert found == [status] * TIMES, said
        assert "Fatal Python error" not in said
        assert ("Traceback" in said) == (way in ("raises", "fails at exit"))
