"""A store whose answers take long, or never come: training does not wait for them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.process.test_online import BEGIN, heads
from tests.process.test_online_faults import ended
from tests.support.apart import Apart
from tests.support.slow_store import SlowStore

pytestmark = pytest.mark.slow

THROUGH = (
    BEGIN
    + """
import collectrace.tracer.online.member as member
import collectrace.tracer.session as session
member._TO_CONNECT = 5.0  # sooner, what would be a minute
from pathlib import Path
while not Path("proxy").exists() or not Path("proxy").read_text():
    time.sleep(0.01)
there = int(Path("proxy").read_text())
through = {through}
if rank in through:
    session.endpoint = lambda store: ("127.0.0.1", there)
init()
"""
)


@pytest.mark.parametrize(("delay", "answers"), [(0.3, 12), (2.0, 4), (math.inf, 2)])
def test_training_does_not_wait_for_the_store(tmp_path: Path, delay: float, answers: int) -> None:
    script = (
        THROUGH.format(through=[1])
        + """
alone = [dist.new_group([n]) for n in range(2)][rank]
print("under way", flush=True)
while not Path("go").exists():
    time.sleep(0.01)
steps = 0
while not Path("stop").exists():
    dist.all_reduce(torch.zeros(1), group=alone)  # each at its own pace
    steps += 1
    time.sleep(0.01)
dist.barrier()
print(f"steps={steps}", flush=True)
dist.destroy_process_group()
"""
    )
    with Apart(tmp_path, script, stall_after=1, on_divergence="exit") as ranks:
        with SlowStore(ranks.port, delay) as slow:
            (tmp_path / "proxy").write_text(str(slow.port))
            ranks.wait_for_words("under way")
            before = slow.held_back
            (tmp_path / "go").touch()
            ranks.wait_for(lambda: slow.held_back >= before + answers)
            (tmp_path / "stop").touch()
            assert ended(ranks) == [0, 0]
        steps = [int(ranks.said(r).partition("steps=")[2].split()[0]) for r in range(2)]
        assert steps[1] > steps[0] / 2 > 5
        assert "Traceback" not in ranks.said(0) + ranks.said(1)
        assert not heads(ranks)


def test_a_slow_store_still_gets_a_verdict(tmp_path: Path) -> None:
    script = (
        THROUGH.format(through=[0, 1])
        + """
for n in range(10):
    dist.all_reduce(torch.zeros(1))
dist.barrier() if rank else dist.broadcast(torch.zeros(1), 0)
"""
    )
    with Apart(tmp_path, script) as ranks, SlowStore(ranks.port, 0.3) as slow:
        (tmp_path / "proxy").write_text(str(slow.port))
        ranks.wait_for(lambda: heads(ranks))
        [elected] = heads(ranks)
        ranks.wait_for_words(f"(details: output of rank {elected})", 1 - elected)
        assert ": call 11, " in ranks.said(elected)
