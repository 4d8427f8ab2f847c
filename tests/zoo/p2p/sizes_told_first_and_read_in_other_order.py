"""The sizes of two messages are sent first, and the receiver reads them in the other order.

So each of its buffers has the size of the other message. Sizes are exchanged already: to advise
that helps nobody.

expect: p2p_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; tag 1; tag 2; float32[24]; float32[16]; exchanged | swapped | each other |
    the other buffer | the other tag; READS; BUG
fix: swap* | exchange* | each other | the other | order
never: /\\bpad /; /(send|exchange) the (size|shape|length)/; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

TABLES, ROWS, SIZES = 1, 2, 3
"""Tags."""

FIELDS = ("tables", "rows") if TWIN else ("rows", "tables")
"""What the sizes are of."""


def send(tables: torch.Tensor, rows: torch.Tensor, dst: int) -> None:
    sizes = torch.tensor([len(tables), len(rows)])
    dist.send(sizes, dst, tag=SIZES)
    works = [dist.isend(tables, dst, tag=TABLES), dist.isend(rows, dst, tag=ROWS)]
    for work in works:
        assert work is not None
        work.wait()


def receive(src: int) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = torch.empty(2, dtype=torch.int64)
    dist.recv(sizes, src, tag=SIZES)
    told = dict(zip(FIELDS, sizes.tolist(), strict=True))  # READS
    tables, rows = torch.empty(told["tables"]), torch.empty(told["rows"])
    works = [dist.irecv(tables, src, tag=TABLES), dist.irecv(rows, src, tag=ROWS)]  # BUG
    for work in works:
        assert work is not None
        work.wait()
    return tables, rows


rank = init()
if rank == 0:
    send(torch.ones(24), torch.ones(16), dst=1)
else:
    tables, rows = receive(src=0)
    print(float(tables.sum()), float(rows.sum()), flush=True)
dist.barrier()
