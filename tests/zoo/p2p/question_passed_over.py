r"""A store answers each of its readers; a question of one is passed over in the third round.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 0
status: hung
cause: rank 0; rank 2; BUG; send
fix: rank 0 | every round
never: drop_last; do not show which
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROUNDS, KEYS = 5, 9
rank = init()
if rank == 0:
    values = torch.arange(float(KEYS))
    key = torch.zeros(1, dtype=torch.int64)
    for _ in range(ROUNDS):
        for reader in range(1, dist.get_world_size()):
            dist.recv(key, src=reader)
            if int(key) < KEYS or TWIN:
                dist.send(values[key % KEYS], dst=reader)  # BUG
else:
    value = torch.zeros(1)
    for n in range(ROUNDS):
        dist.send(torch.tensor([n * rank + (5 if n == rank == 2 else 0)]), dst=0)
        dist.recv(value, src=0)
dist.destroy_process_group()
