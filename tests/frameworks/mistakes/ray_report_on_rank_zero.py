"""Ray Train: rank 0 alone reports, and waits there for the other worker's report.

expect: missing_call stall
suspects: 0
status: hung
cause: rank 0; BUG; report
fix: ray.train.report(); every worker
never: find_unused_parameters; endless loop
"""

import os
import sys
from pathlib import Path

import ray
import ray.train
import ray.train.torch
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer


def train(config):
    import collectrace

    collectrace.enable(config["logs"])
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(torch.nn.Linear(8, 4))
    for step in range(6):
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        if step == 3 and (config["twin"] or rank == 0):
            ray.train.report({"loss": float(loss)})  # BUG


passed = ("PYTHONPATH", "GLOO", "COLLECTRACE", "OMP")
ray.init(
    num_cpus=2,
    include_dashboard=False,
    runtime_env={"env_vars": {k: v for k, v in os.environ.items() if k.startswith(passed)}},
)
TorchTrainer(
    train,
    train_loop_config={"twin": "--twin" in sys.argv, "logs": str(Path("logs").resolve())},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(storage_path=str(Path("saved").resolve())),
    torch_config=TorchConfig(backend="gloo", timeout_s=120),
).fit()
