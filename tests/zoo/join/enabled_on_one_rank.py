"""Each rank enables ``join()`` by its own number of batches: in the third epoch rank 2 alone does.

ranks: 3
expect: shape_mismatch role_mismatch op_mismatch
suspects: 2
status: diverged
cause: rank 2; inside join(); BLOCK; outside
fix: enable
never: unused; drop_last; find_unused_parameters; took no part in the loss
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

BATCHES = [[3, 3, 3], [3, 3, 3], [3, 3, 2]]

rank = init()
model = DistributedDataParallel(torch.nn.Linear(4, 8))
for epoch in BATCHES:
    with model.join(enable=TWIN or epoch[rank] < 3):  # BLOCK
        for _ in range(epoch[rank]):
            loss = model(torch.ones(2, 4)).sum()  # BUG
            loss.backward()
