"""torchmetrics: rank 1 has no labelled sample since the last evaluation: its metric is kept.

Behind the loop of the training all come to compute(), and rank 1 goes on into the next.

expect: op_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; keeps what compute() gave
fix: update(); compute()
never: find_unused_parameters; drop_last; join()
"""

import datetime

import common
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchmetrics.classification import MulticlassAccuracy

metric = MulticlassAccuracy(3, average="micro")


def train(model, optimizer, batches):
    for x in batches:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def evaluate(labelled):
    if labelled:
        metric.update(torch.eye(3), torch.arange(3))
    return metric.compute()  # BUG


def main():
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for window in range(6):
        train(model, optimizer, [torch.ones(2, 4)] * 3)
        evaluate(labelled=(rank, window) != (1, 3) or common.TWIN)


dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
main()
dist.destroy_process_group()
