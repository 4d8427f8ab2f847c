"""Gradients are reduced by hooks as they get ready, and each rank's batch used other heads.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: BUG; gradient hook; BACKWARD; different parameters
fix: behind backward() | zeros
never: same size on every rank; network; a sum of
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

HEADS = {0: [0, 2], 1: [1, 0]}
"""The tasks of which a rank's batch has samples."""


class Reducer:
    """Averages each gradient while backward() goes on."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.pending: list[dist.Work | None] = []
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self.launch)  # type: ignore[no-untyped-call]

    def launch(self, parameter: torch.Tensor) -> None:
        self.pending.append(dist.all_reduce(parameter.grad, async_op=True))  # BUG

    def finish(self) -> None:
        for work in self.pending:
            if work is not None:
                work.wait()
        self.pending.clear()


def main() -> None:
    rank = init()
    trunk = torch.nn.Linear(4, 8)
    heads = torch.nn.ModuleList(torch.nn.Linear(8, size, bias=False) for size in (2, 3, 5))
    model = torch.nn.ModuleList([trunk, heads])
    reducer, optimizer = Reducer(model), torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        hidden = torch.relu(trunk(torch.ones(6, 4)))
        used = range(len(heads)) if TWIN else HEADS[rank]
        loss = sum((heads[task](hidden).square().mean() for task in used), torch.zeros(()))
        loss.backward()  # BACKWARD
        reducer.finish()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


main()
