"""Long documents pass blocks around a ring per context group; the second group names its peers by
their place in the group.

Short documents come first and pass nothing. Ranks 0 to 2 are right by luck: place and rank agree.

ranks: 6
expect: p2p_unmatched p2p_mismatch missing_call deadlock
suspects: 3 4 5
status: diverged hung
cause: rank 3 | ranks 3 | rank 4 | rank 5; BUG; send | isend | recv | irecv | batch_isend_irecv
fix: peer | global rank | destination | source | dst | src | matching | match*
never: left the loop; rank 0 is to blame
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

WIDTH = 4


@dataclass(frozen=True)
class Document:
    length: int

    def blocks(self, size: int) -> torch.Tensor:
        return torch.linspace(0, 1, self.length * WIDTH).view(size, -1, WIDTH)


class ContextGroup:
    def __init__(self, size: int) -> None:
        self.size = size
        for start in range(0, dist.get_world_size(), size):
            members = list(range(start, start + size))
            group = dist.new_group(members, timeout=TIMEOUT)
            if dist.get_rank() in members:
                self.group = group
        self.place = dist.get_rank(self.group)

    def neighbour(self, offset: int) -> int:
        place = (self.place + offset) % self.size
        if TWIN:
            return dist.get_global_rank(self.group, place)
        return place  # BUG

    def rotate(self, *blocks: torch.Tensor) -> list[torch.Tensor]:
        following, previous = self.neighbour(1), self.neighbour(-1)
        arrived = [torch.empty_like(block) for block in blocks]
        ops = []
        for block, space in zip(blocks, arrived, strict=True):
            ops.append(dist.P2POp(dist.isend, block.contiguous(), following))
            ops.append(dist.P2POp(dist.irecv, space, previous))
        for work in dist.batch_isend_irecv(ops):  # BUG
            work.wait()
        return arrived


class Attention:
    def __init__(self, context: ContextGroup, threshold: int) -> None:
        self.context, self.threshold = context, threshold
        self.weight = torch.eye(WIDTH)

    def __call__(self, document: Document) -> torch.Tensor:
        if document.length < self.threshold:
            queries = document.blocks(1)[0] @ self.weight
            return queries.softmax(-1).mean()
        blocks = document.blocks(self.context.size)
        query = blocks[self.context.place] @ self.weight
        key = value = blocks[self.context.place]
        out, norm = torch.zeros_like(query), torch.zeros(query.shape[0], 1)
        for turn in range(self.context.size):
            scores = (query @ key.T).exp()
            out, norm = out + scores @ value, norm + scores.sum(-1, keepdim=True)
            if turn < self.context.size - 1:
                key, value = self.context.rotate(key, value)
        total = (out / norm).mean()
        dist.all_reduce(total, group=self.context.group)
        return total / self.context.size


def train(layers: list[Attention], lengths: list[int]) -> None:
    for length in lengths:
        loss = torch.stack([layer(Document(length)) for layer in layers]).sum()
        gradient = torch.full((WIDTH, WIDTH), float(loss))
        dist.all_reduce(gradient)
        for layer in layers:
            layer.weight -= 1e-3 * gradient


init()
context = ContextGroup(3)
train([Attention(context, threshold=12) for _ in range(2)], [6, 9, 6, 12, 6])
dist.destroy_process_group()
