"""Rank 2, its adapter frozen, leaves the norm before its all_reduce; the next takes its place.

ranks: 3
expect: deadlock role_mismatch
suspects: 2
status: hung diverged
cause: rank 2; BUG; return | RETURN | grads_for_norm
fix: every rank | all ranks | zero* | regardless | unconditional* | before the return | same
never: drop_last; join(); /ranks? (0,1|0-1|0 and 1) (left|skipped|is wrong|are wrong)/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def get_grad_norm_fp32(
    parameters: list[torch.nn.Parameter],
    group: dist.ProcessGroup | None,
    empty_contributes: bool,
) -> float:
    """The 2-norm of all gradients of all ranks (each holds other adapters)."""
    grads_for_norm = [p.grad.detach() for p in parameters if p.requires_grad and p.grad is not None]
    if not grads_for_norm and not empty_contributes:
        return 0.0  # RETURN
    total = torch.zeros(1)
    for grad in grads_for_norm:
        total += grad.square().sum()
    dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group)  # BUG
    return total.item() ** 0.5  # type: ignore[no-any-return]


def clip_by_norm_(parameters: list[torch.nn.Parameter], total_norm: float, max_norm: float) -> None:
    scale = max_norm / (total_norm + 1e-6)
    if scale < 1.0:
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(scale)


class LoRAEngine:
    def __init__(self, rank: int, group: dist.ProcessGroup | None) -> None:
        torch.manual_seed(rank)
        self.rank, self.group = rank, group
        self.base = torch.nn.Linear(8, 8).requires_grad_(False)
        self.adapter = torch.nn.Sequential(
            torch.nn.Linear(8, 2, bias=False), torch.nn.Linear(2, 8, bias=False)
        )
        self.optimizer = torch.optim.AdamW(self.adapter.parameters(), lr=1e-3)

    def maybe_freeze(self, loss: float) -> None:
        if loss < 0.6:
            self.adapter.requires_grad_(False)
            self.optimizer.zero_grad(set_to_none=True)

    def train_batch(self, batch: torch.Tensor) -> tuple[torch.Tensor, float]:
        out = self.base(batch)
        out = out + self.adapter(batch)
        loss = out.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        if loss.requires_grad:
            loss.backward()
        params = list(self.adapter.parameters())
        norm = get_grad_norm_fp32(params, self.group, empty_contributes=TWIN)
        clip_by_norm_(params, norm, max_norm=1.0)
        self.optimizer.step()
        return loss.detach().reshape(1), norm

    def log_stats(self, step: int, loss: torch.Tensor, norm: float) -> None:
        mean = loss.clone()
        dist.all_reduce(mean, group=self.group)  # STATS
        if self.rank == 0:
            print(f"step {step}: loss {mean.item() / 3:.4f} grad_norm {norm:.4f}")


rank = init()
engine = LoRAEngine(rank, dist.new_group([0, 1, 2]))
for step in range(8):
    scale = 0.1 if rank == 2 and step == 3 else 2.0
    batch = torch.randn(16, 8, generator=torch.Generator().manual_seed(10 * step + rank)) * scale
    loss, norm = engine.train_batch(batch)
    engine.log_stats(step, loss, norm)
    engine.maybe_freeze(loss.item())
dist.barrier()
dist.destroy_process_group()
