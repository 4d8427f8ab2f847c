"""Behind training rank 0 evaluates through DDP's wrapper, which broadcasts the causal mask.

The others are at the barrier of the clean-up. While they trained, all of them had evaluated so.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; FORWARD; MAIN; broadcast* | buffer*; CLEANUP
fix: MAIN | BUG | FORWARD; every rank | all ranks | each rank | module | unwrap* |
    underlying model | without DDP | broadcast_buffers
never: /ranks? (1,2|1-2) (is|are) (wrong|to blame|guilty)/; drop_last; join();
    find_unused_parameters; same number of batches
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

VOCAB, BLOCK, DIM = 24, 8, 16


@dataclass
class DistContext:
    rank: int
    world: int

    @property
    def is_main(self) -> bool:
        return self.rank == 0


class TinyGPT(nn.Module):
    tril: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.lm_head = nn.Linear(DIM, VOCAB)
        self.register_buffer("tril", torch.tril(torch.ones(BLOCK, BLOCK)))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q @ k.transpose(-2, -1) / DIM**0.5).masked_fill(self.tril == 0, float("-inf"))
        logits = self.lm_head(x + scores.softmax(-1) @ v)
        return cross_entropy(logits.flatten(0, 1), targets.flatten())


def get_batch(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    text = torch.randint(VOCAB, (4, BLOCK + 1), generator=generator)
    return text[:, :-1], text[:, 1:]


@torch.no_grad()
def estimate_loss(model: nn.Module, generator: torch.Generator, batches: int = 3) -> torch.Tensor:
    model.eval()
    losses = torch.zeros(batches)
    for k in range(batches):
        losses[k] = model(*get_batch(generator))  # FORWARD
    model.train()
    return losses.mean()


def cleanup() -> None:
    dist.barrier()  # CLEANUP
    dist.destroy_process_group()


def train(ctx: DistContext, steps: int = 9, eval_every: int = 3) -> None:
    torch.manual_seed(11)
    model = DistributedDataParallel(TinyGPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(20 + ctx.rank)
    for step in range(steps):
        if step % eval_every == 0:
            val = estimate_loss(model, data)
            dist.all_reduce(val)
            if ctx.is_main:
                print(f"step {step}: val loss {val.item() / ctx.world:.3f}")
        loss = model(*get_batch(data))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    if ctx.is_main:  # MAIN
        target = model.module if TWIN else model
        final = estimate_loss(target, data)  # BUG
        print(f"final val loss {final.item():.3f}")


def main() -> None:
    rank = init()
    train(DistContext(rank, dist.get_world_size()))


main()
cleanup()
