"""Ray Train: rank 0 alone reports, and waits there for the other worker's report.

expect: missing_call stall
suspects: 0
status: hung
cause: rank 0; BUG; report
fix: ray.train.report(); every worker
never: find_unused_parameters; endless loop
"""

import on_ray
import ray.train
import ray.train.torch
import torch


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


on_ray.fit(train, timeout_s=120)
