"""Rank 0 validates alone by the DDP model, whose forward broadcasts buffers to one in a barrier.

ranks: 2
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; gpu | only | alone
fix: every rank | all ranks | both ranks | each rank | module
never: drop_last; join(); /rank 1 is (wrong|to blame)/
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tests.zoo.common import TWIN, init

VALIDATE_EVERY = 5


class ImgClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, kernel_size=3, padding=1)
        self.bn1 = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(4 * 4 * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        return F.log_softmax(self.fc1(torch.flatten(x, 1)), dim=1)


def make_dataset(count: int, seed: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(count, 3, 8, 8, generator=generator)
    return TensorDataset(images, torch.randint(0, 10, (count,), generator=generator))


def validation(model: nn.Module, loader: DataLoader[tuple[torch.Tensor, ...]]) -> float:
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for images, labels in loader:
            output = model(images)  # BUG
            correct += (output.argmax(1) == labels).sum().item()
            total += len(labels)
    model.train()
    return correct / total


def train(gpu: int, epochs: int) -> None:
    torch.manual_seed(0)
    model = DDP(ImgClassifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    train_data = make_dataset(112, seed=1)
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(train_data)
    train_loader = DataLoader(train_data, batch_size=8, sampler=sampler)
    val_loader = DataLoader(make_dataset(48, seed=2), batch_size=16)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for i, (images, labels) in enumerate(train_loader):
            loss = F.nll_loss(model(images), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if i % VALIDATE_EVERY == VALIDATE_EVERY - 1:
                if gpu == 0:
                    accuracy = validation(model.module if TWIN else model, val_loader)
                    print(f"epoch {epoch} batch {i}: accuracy {accuracy:.2f}", flush=True)
                dist.barrier()


train(init(), epochs=2)
dist.destroy_process_group()
