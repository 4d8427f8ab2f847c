"""Two forwards before one backward, under join(): a rank out of inputs answers one of each.

expect: shape_mismatch
suspects: none
status: diverged
cause: uneven; rank 0; rank 1; out of inputs | ran out; two forwards | second forward | 2 forward*;
    BUG
fix: one forward | same number of batches
never: 6 batches; 7 batches; 8 batches; 7th; 8th; or train inside; out of the `with
"""

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
loader = DataLoader(TensorDataset(torch.ones(3 + rank, 1)), batch_size=1)
with model.join():
    for (batch,) in loader:
        if TWIN:
            model(torch.cat([batch, -batch])).sum().backward()
            continue
        loss = model(batch).sum()
        loss += model(-batch).sum()  # BUG
        loss.backward()
