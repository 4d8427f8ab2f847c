"""A host of the store or a rank that dies or stops in an exchange: the others train as ever."""

from __future__ import annotations

import os
import re
import signal
from contextlib import closing
from pathlib import Path

import pytest

from collectrace import exchange
from collectrace.exchange import Keys
from collectrace.job_store import JobStore
from tests.process.test_online import BEGIN
from tests.support.apart import Apart

TRAINS = (
    BEGIN
    + """
init()
group = dist.new_group([1, 2])
print("under way", flush=True)
if rank not in (1, 2):
    time.sleep(600)
torch.manual_seed(0)
weights = torch.ones(5)
step = 0
while not os.path.exists("struck") or step % 100:
    grads = torch.randn(5) + rank
    dist.all_reduce(grads, group=group)
    weights -= 0.01 * grads
    step += 1
    if step == 100:
        print("trained", flush=True)
        while not os.path.exists("struck"):
            time.sleep(0.01)
for _ in range(200):
    grads = torch.randn(5) + rank
    dist.all_reduce(grads, group=group)
    weights -= 0.01 * grads
    time.sleep(0.01)
print("weights", weights.numpy().tobytes().hex(), flush=True)
os._exit(0)
"""
)


def weights(folder: Path, victim: int, signal_: signal.Signals, *, traced: bool) -> list[str]:
    """What ranks 1 and 2 have trained, though another rank was killed or stopped meanwhile."""
    folder.mkdir()
    script = TRAINS if traced else TRAINS.replace("collectrace.enable()", "")
    with Apart(folder, script, 4, heartbeat=0.2, stall_after=600) as ranks:
        ranks.wait_for_words("trained", 1, 2)
        if traced:
            run = next(ranks.logs(1).glob("2*")).name
            keys = Keys(run)
            with closing(JobStore("127.0.0.1", ranks.port, 20.0)) as store:
                turn = exchange.open_turn(store, keys, "a reader")
                assert turn is not None
                ranks.wait_for(lambda: store.read(keys.card(turn.number, 3)) is not None)
                os.kill(ranks.ranks[victim].pid, signal_)
        else:
            os.kill(ranks.ranks[victim].pid, signal_)
        (folder / "struck").touch()
        assert [ranks.ranks[rank].wait(120) for rank in (1, 2)] == [0, 0]
        said = [ranks.said(rank) for rank in (1, 2)]
        assert [line for text in said for line in text.splitlines() if "collectrace" in line] == []
        return [re.findall("weights (.*)", text)[0] for text in said]


@pytest.mark.parametrize(
    ("victim", "signal_"),
    [
        (0, signal.SIGKILL),
        pytest.param(0, signal.SIGSTOP, marks=pytest.mark.slow),
        pytest.param(3, signal.SIGSTOP, marks=pytest.mark.slow),
        pytest.param(3, signal.SIGKILL, marks=pytest.mark.slow),
    ],
    ids=["the host dies", "the host stops", "a rank stops", "a rank dies"],
)
def test_the_others_train_as_untraced(victim: int, signal_: signal.Signals, tmp_path: Path) -> None:
    untraced = weights(tmp_path / "untraced", victim, signal_, traced=False)
    assert weights(tmp_path / "traced", victim, signal_, traced=True) == untraced
