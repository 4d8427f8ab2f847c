import common
import torch
import torch.distributed as dist
import torchmetrics

dist.init_process_group("gloo")
rank = dist.get_rank()
accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3)
mean, every = torchmetrics.MeanMetric(), torchmetrics.CatMetric()
on_each_step = torchmetrics.MeanMetric(dist_sync_on_step=True)
generator = torch.Generator().manual_seed(rank)
for _ in range(3):
    chances = torch.rand(6 + rank, 3, generator=generator).softmax(-1)
    accuracy.update(chances, torch.randint(0, 3, (6 + rank,), generator=generator))
    mean.update(chances.mean())
    every.update(chances.mean(1))
    on_each_step(chances.mean())
common.told("accuracy", accuracy.compute())
common.told("mean", mean.compute())
common.told("every", every.compute().sum())
dist.destroy_process_group()
