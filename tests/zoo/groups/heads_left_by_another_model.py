"""Rank 2 splits its heads by the KV count that its judge model left behind for the whole process.

ranks: 3
expect: split_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; kv_heads | remembered | JUDGED
fix: every rank | all ranks | split* | sizes
never: drop_last; join(); /ranks? (0,1|0-1|0 and 1) (is|are) (wrong|to blame|guilty)/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

HEADS, TOKENS, WIDTH = 12, 6, 4
_remembered: dict[str, int | None] = {"kv_heads": None}


def kv_heads() -> int | None:
    return _remembered["kv_heads"]


def remember_kv_heads(count: int | None) -> None:
    _remembered["kv_heads"] = count


def shares(heads: int, ranks: int) -> list[int]:
    """Whole KV groups for each rank, one more for the first ones."""
    groups = kv_heads() or heads
    return [(groups // ranks + (r < groups % ranks)) * (heads // groups) for r in range(ranks)]


def heads_to_ranks(x: torch.Tensor) -> torch.Tensor:
    """[my tokens, all heads] -> [all tokens, my heads], as Ulysses has it."""
    tokens, heads, width = x.shape
    ranks = dist.get_world_size()
    by_head = x.transpose(0, 1).contiguous()
    if kv_heads() is not None or heads % ranks:
        mine = shares(heads, ranks)[dist.get_rank()]
        out = x.new_empty(mine * ranks, tokens, width)
        dist.all_to_all_single(out, by_head, [mine] * ranks, shares(heads, ranks))  # BUG
    else:
        mine = heads // ranks
        out = torch.empty_like(by_head)
        dist.all_to_all_single(out, by_head, [mine] * ranks, [mine] * ranks)
    return out.view(ranks, mine, tokens, width).transpose(1, 2).reshape(ranks * tokens, mine, width)


class Judge:
    """Scores samples on one host, and notes its head count where the exchange looks for it."""

    def __init__(self, heads: int) -> None:
        self.heads = heads

    def score(self, text: list[int]) -> int:
        before = kv_heads()
        remember_kv_heads(self.heads)
        grade = sum(text) % (kv_heads() + 1)  # type: ignore[operator]
        remember_kv_heads(before if TWIN else self.heads)
        return grade


rank = init()
torch.manual_seed(rank)
judge = Judge(heads=4)
for epoch in range(2):
    for _ in range(3):
        hidden = torch.randn(TOKENS, HEADS, WIDTH)
        attended = heads_to_ranks(hidden).softmax(0)
        loss = attended.square().mean()
        dist.all_reduce(loss)
    if rank == 2:
        print("judge:", judge.score([3, 1, 4, epoch]))  # JUDGED
dist.destroy_process_group()
