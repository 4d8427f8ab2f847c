import sys

import common
import deepspeed
import torch
import torch.distributed as dist
from torch import nn

# Else it builds a C++ extension for minutes.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
stage = int(sys.argv[1])
deepspeed.init_distributed("gloo", verbose=False)
torch.manual_seed(0)
config = {
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "gradient_clipping": 1.0,
    "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
    "steps_per_print": 1000,
}


def network():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


if stage == 3:
    with deepspeed.zero.Init(config_dict_or_path=config):
        model = network()
else:
    model = network()
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
generator = torch.Generator().manual_seed(dist.get_rank())
for step in range(3):
    loss = engine(torch.randn(4, 8, generator=generator)).square().mean()
    engine.backward(loss)
    engine.step()
    common.told(step, loss)
engine.save_checkpoint("saved", tag="t")
dist.destroy_process_group()
