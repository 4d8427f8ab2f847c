"""One rank gathers into [W * n], the other into [W, n]: NCCL takes both.

Synthetic: gloo takes the first only.

expect: nothing
status: aligned
synthetic: yes
"""

import os
from pathlib import Path

from tests.support.synthetic import Run

run = Run(world=2)
for rank in run:
    out_shape = [8] if rank.rank == 0 else [2, 4]
    rank.call("all_gather_single", shape=[4], out_shape=out_shape, site="train.py:7")
    rank.exit()
run.write(Path(os.environ["COLLECTRACE_LOG_DIR"]))
