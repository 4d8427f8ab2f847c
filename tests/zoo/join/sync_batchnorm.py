"""SyncBatchNorm gathers statistics in forward, which a joined rank does not shadow.

Synthetic: DDP refuses SyncBatchNorm on CPU.

expect: op_mismatch
suspects: 1
status: diverged
synthetic: yes
cause: rank 0; rank 1; out of inputs | ran out | no input left; all_gather*; BUG
fix: same number of batches | throw_on_early_termination
"""

import os
from pathlib import Path

from tests.support.synthetic import Run
from tests.zoo.case import marked_site
from tests.zoo.common import TWIN

run = Run(world=2)
for rank in run:
    for _ in range(3 if TWIN else 3 + rank.rank):
        rank.call("all_reduce", shape=[1], role="ddp.forward.notify_join", site="model.py:1")
        rank.call("all_reduce", shape=[1], role="ddp.forward.sync_check", site="model.py:1")
        rank.call("all_gather_single", shape=[9], out_shape=[18], site=marked_site(__file__))  # BUG
        rank.call("all_reduce", shape=[20], role="ddp.backward.bucket", site="model.py:2")
if not TWIN:
    rank = run.rank(0)
    rank.call("all_reduce", shape=[1], role="join.count_nonjoined", site="model.py:0")
    rank.call("all_reduce", shape=[1], role="join.sync_check", site="model.py:0")
    rank.call("all_reduce", shape=[20], role="join.bucket", site="model.py:0")
else:
    for rank in run:
        rank.exit()
run.write(Path(os.environ["COLLECTRACE_LOG_DIR"]))
