"""One rank gathers texts: the length from whoever comes, then from that rank as many bytes.

ranks: 4
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

TEXTS, WRITER = 6, 3
rank = init()
pipe = dist.new_group([1, 2, 3])
if rank == WRITER:
    for _ in range(2 * TEXTS):
        length = torch.empty(1, dtype=torch.int64)
        sender = dist.recv(length, group=pipe)
        text = torch.empty(int(length.item()), dtype=torch.uint8)
        dist.recv(text, src=sender, group=pipe)
        assert bytes(text.tolist()).decode().startswith(f"rank {sender} ")
elif rank:
    for number in range(TEXTS):
        said = f"rank {rank} {'.' * (number * rank)}"
        text = torch.tensor(list(said.encode()), dtype=torch.uint8)
        dist.send(torch.tensor([text.numel()]), dst=WRITER, group=pipe)
        dist.send(text, dst=WRITER, group=pipe)
dist.barrier()
