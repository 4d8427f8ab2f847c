"""Counters of several sizes are summed in the only round there is; rank 0 has another order.

No round before tells what should have come. But the line has brought a tensor of another size just
before, on every rank: sizes differ from turn to turn of its loop.

ranks: 3
expect: shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG | SUMS; items; order; for counter in
fix: sorted | one order | same order; size*
never: pad; ragged; drop_last; equal rounds
"""

import torch

from tests.zoo import comm
from tests.zoo.common import TWIN, init


class Counters(dict[str, torch.Tensor]):
    def add(self, name: str, size: int) -> None:
        self.setdefault(name, torch.zeros(size)).add_(1)

    def sums(self) -> None:
        names = sorted(self) if TWIN else list(self)
        for counter in names:
            comm.total(self[counter])  # BUG


rank = init()
counters = Counters()
counters.add("documents", 1)
for language in ("fr", "de") if rank == 0 else ("de", "fr"):
    counters.add(language, {"de": 4, "fr": 9}[language])
counters.sums()
