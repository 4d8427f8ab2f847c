"""A loader's worker is forked on rank 1 while a thread holds a lock, and waits for it for ever.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; BUG; worker; DataLoader
fix: py-spy | spawn
never: /ranks? (0,2|0 and 2|0|2) (is|are|was|were) (busy|wrong|guilty|to blame|the suspects?)/;
    /ranks? (0,2|0 and 2|0|2) (never (came|reached)|skipped|left out)/; /rank 1 (finished|raised)/
"""

import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from tests.zoo.common import TWIN, init


class ValidSet(Dataset[torch.Tensor]):
    def __init__(self, rank: int) -> None:
        self.lock, self.disk = threading.Lock(), torch.Generator().manual_seed(1000 + rank)
        self.shards: list[torch.Tensor] = []

    def _read(self, megabytes: int) -> None:
        with self.lock:
            time.sleep(megabytes / 100)  # the disk
            self.shards.append(torch.randn(6, 8, generator=self.disk))

    def read_ahead(self, shard: int, megabytes: int) -> None:
        threading.Thread(target=self._read, args=(megabytes,), daemon=True).start()
        while len(self.shards) <= shard and not self.lock.locked():
            time.sleep(0.001)

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> torch.Tensor:
        if not self.lock.acquire(timeout=30):  # by then nobody is left who would need it
            raise TimeoutError("cache")
        sample = self.shards[-1][i]
        self.lock.release()
        return sample


def train_epoch(weight: torch.Tensor, batches: torch.Tensor) -> None:
    for x in batches:
        grad = 2 * x.t() @ (x @ weight - x.sum(1, keepdim=True)) / len(x)
        dist.all_reduce(grad)
        weight -= 0.05 * grad / dist.get_world_size()


def evaluate(weight: torch.Tensor, loader: DataLoader[torch.Tensor]) -> float:
    total = 0.0
    for x in loader:  # BUG
        loss = (x @ weight - x.sum(1, keepdim=True)).pow(2).mean()
        dist.all_reduce(loss)
        total += loss.item() / dist.get_world_size()
    return total / len(loader)


def main(rank: int, epochs: int, workers: int) -> None:
    valid, weight, made = ValidSet(rank), torch.zeros(8, 1), torch.Generator().manual_seed(rank)
    start = "fork" if workers else None
    for epoch in range(epochs):
        train_epoch(weight, torch.randn(4, 5, 8, generator=made))
        valid.read_ahead(epoch, megabytes=200 if (rank, epoch) == (1, 1) else 1)
        time.sleep(0.3)  # the weights are written meanwhile
        loader = DataLoader(valid, 3, num_workers=workers, multiprocessing_context=start)
        loss = evaluate(weight, loader)
        if rank == 0:
            print(f"epoch {epoch} validation loss {loss:.4f}", flush=True)


main(init(), epochs=3, workers=0 if TWIN else 1)
dist.destroy_process_group()
