"""A worker refuses a prompt that is too long, and its server takes the next request.

The layers are in a loop that was never come to on rank 2: that is no shorter loop.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; EXCEPT; no call
fix: EXCEPT; all ranks
never: fewer turns; same length
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
LONGEST = 16


def execute(length: int) -> None:
    if length > LONGEST:
        raise ValueError(f"a prompt of {length} tokens")
    for _ in range(3):
        dist.all_reduce(torch.ones(8))  # BUG
    dist.all_gather_single(torch.empty(6), torch.ones(2))


for request in range(12):
    prompt = torch.tensor([request])
    dist.broadcast(prompt, src=0)
    try:
        execute(40 if (rank, request) == (2, 7) and not TWIN else 10)
    except ValueError as error:  # EXCEPT
        print("refused:", error)
