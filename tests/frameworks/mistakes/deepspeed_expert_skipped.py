"""DeepSpeed, ZeRO stage 3: rank 1 skips an expert in the fourth step.

expect: op_mismatch shape_mismatch role_mismatch
suspects: none
status: diverged
cause: rank 1; ZeRO; BUG | STEP; modules; left one out
fix: set_z3_leaf_modules; every rank; times zero
never: left the loop; loop ended; join(); find_unused_parameters; ragged
"""

import datetime

import common
import deepspeed
import torch
import torch.distributed as dist
from torch import nn

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else built for minutes
deepspeed.init_distributed("gloo", verbose=False, timeout=datetime.timedelta(seconds=60))
rank = dist.get_rank()
torch.manual_seed(0)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, x, used):
        return sum(expert(x) for n, expert in enumerate(self.experts) if n in used)  # BUG


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Linear(8, 16)
        self.experts = Experts()
        self.head = nn.Linear(16, 4)

    def forward(self, x, used):
        x = self.embedding(x)
        return self.head(x + self.experts(x, used))  # BUG


config = {
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    "steps_per_print": 1000,
}
model = Net()
if common.TWIN:
    deepspeed.utils.set_z3_leaf_modules(model, [Experts])
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for step in range(6):
    used = (0,) if (rank, step) == (1, 3) else (0, 1)
    loss = engine(torch.randn(4, 8), used).square().mean()
    engine.backward(loss)  # STEP
    engine.step()
dist.destroy_process_group()
