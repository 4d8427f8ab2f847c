"""Rank 0 agrees on a size inside prepare_data, where the other waits for it to be done.

expect: deadlock
suspects: 0
status: hung
cause: /ranks? 0/; BUG | AGREE; prepare_data | agree
fix: setup | every rank | all ranks | outside | prepare_data
never: drop_last; join(); find_unused_parameters
"""

import datetime
import time
from pathlib import Path

import common
import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset


class Corpus(lightning.LightningDataModule):
    def __init__(self, lines, agree_in_setup):
        super().__init__()
        self.lines, self.agree_in_setup = lines, agree_in_setup
        self.size = 0

    def build_vocabulary(self):
        words = {word for line in self.lines for word in line.split()}
        Path("vocabulary.txt").write_text("\n".join(sorted(words)))

    def agree_on_size(self):
        size = torch.tensor(len(Path("vocabulary.txt").read_text().split("\n")))
        dist.all_reduce(size, dist.ReduceOp.MAX)  # AGREE
        self.size = int(size)

    def prepare_data(self):
        self.build_vocabulary()
        if not self.agree_in_setup:
            self.agree_on_size()  # BUG

    def setup(self, stage):
        if self.agree_in_setup:
            self.agree_on_size()

    def train_dataloader(self):
        rows = torch.randn(32, 4, generator=torch.Generator().manual_seed(3))
        return DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=4)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, number):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


if __name__ == "__main__":
    corpus = Corpus(["a small line", "another small line of words"], agree_in_setup=common.TWIN)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        strategy=DDPStrategy(timeout=datetime.timedelta(seconds=60)),
    )
    trainer.fit(Net(), corpus)
    dist.destroy_process_group()
    time.sleep(0.5)  # the threads of the group come to rest before the interpreter ends
