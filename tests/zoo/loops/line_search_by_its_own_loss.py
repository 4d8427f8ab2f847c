"""L-BFGS calls a closure until the loss is low enough, and each rank returns its own loss.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: BUG; SEARCH; rank 1 did not | rank 0 did not
fix: closure() returns; same on every rank; all_reduce
never: which function; network; a sum of
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Fitter:
    """Fits a line to the samples of all ranks."""

    def __init__(self, rank: int) -> None:
        self.model = torch.nn.Linear(2, 1)
        torch.nn.init.zeros_(self.model.weight)
        torch.nn.init.zeros_(self.model.bias)
        self.x = torch.linspace(-1.0, 1.0 + rank, 12).reshape(6, 2)
        self.y = (self.x.sum(1, keepdim=True) * (3 + 40 * rank)).tanh()
        self.optimizer = torch.optim.LBFGS(
            self.model.parameters(), max_iter=6, line_search_fn="strong_wolfe"
        )

    def closure(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(self.x), self.y)
        loss.backward()  # type: ignore[no-untyped-call]
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)  # BUG
        if TWIN:
            dist.all_reduce(loss.detach())
        return loss

    def fit(self) -> None:
        for _ in range(3):
            self.optimizer.step(self.closure)  # type: ignore[no-untyped-call]  # SEARCH


rank = init()
fitter = Fitter(rank)
fitter.fit()
dist.all_reduce(torch.zeros(5))
dist.destroy_process_group()
