import os
import sys
from pathlib import Path

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer


def fit(train, **torch_options):
    """Run ``train`` on two workers; its ``config``: what was asked for, and where the logs go."""
    passed = ("PYTHONPATH", "GLOO", "COLLECTRACE", "OMP")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        runtime_env={"env_vars": {k: v for k, v in os.environ.items() if k.startswith(passed)}},
    )
    TorchTrainer(
        train,
        train_loop_config={
            "traced": "--traced" in sys.argv,
            "twin": "--twin" in sys.argv,
            "logs": str(Path("logs").resolve()),
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(Path("saved").resolve())),
        torch_config=TorchConfig(backend="gloo", **torch_options),
    ).fit()
