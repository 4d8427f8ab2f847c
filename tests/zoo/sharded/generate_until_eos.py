"""Each rank decodes its prompt with a sharded model until the end token, then scores it by that.

Rank 1 meets the end token one forward earlier in the second step: its forwards pair with the
others' earlier ones, and the drift shows only at the loss.

ranks: 3
expect: op_mismatch missing_call role_mismatch shape_mismatch uneven_inputs
suspects: 1
status: diverged hung
cause: rank 1; BUG | generat* | decod* | loop; fewer | earl* | one less | one more | extra | skip* |
  different number | left | behind | ahead | not the same number
fix: same number | every rank | all ranks | synced_gpus | agree* | all_reduce | until all |
  together; loop | step* | token* | generat* | decod* | forward
never: drop_last; sampler; join
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init

rank = init()
END_AT = [3, 4] if rank == 1 else [3, 5]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(torch.relu(self.up(x)))
        return out


def finished_everywhere(done: bool) -> bool:
    flag = torch.tensor([float(not done)])
    dist.all_reduce(flag)
    return flag.item() == 0


@torch.no_grad()
def generate(state: torch.Tensor, end_at: int, limit: int = 8) -> int:
    tokens = 0
    for position in range(limit):
        done = position >= end_at
        if finished_everywhere(done) if TWIN else done:
            break
        student(state)  # BUG
        if not done:
            tokens += 1
            state = state + 0.1
    return tokens


mesh = init_device_mesh("cpu", (dist.get_world_size(),))
student = nn.Sequential(Block(6), Block(6), nn.Linear(6, 12))
for module in (*student, student):
    fully_shard(module, mesh=mesh)
optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
for end_at in END_AT:
    prompt = torch.randn(2, 6)
    scores = student(prompt + 0.1 * generate(prompt, end_at))
    loss = -scores.log_softmax(-1)[:, 0].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
