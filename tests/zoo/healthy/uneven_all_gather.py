"""A list all_gather in which every rank has another amount to give.

Synthetic: NCCL takes it, gloo does not.

ranks: 3
expect: nothing
status: aligned
synthetic: yes
"""

import os
from pathlib import Path

from tests.support.synthetic import Run

run = Run(world=3)
for rank in run:
    slots = [[1], [2], [3]]
    rank.call("all_gather", shape=slots[rank.rank], out_shape=slots, site="train.py:7")
    rank.exit()
run.write(Path(os.environ["COLLECTRACE_LOG_DIR"]))
