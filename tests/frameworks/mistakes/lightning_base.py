import datetime

import common  # noqa: F401, which switches tracing on
import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 3)

    def loss(self, batch):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def training_step(self, batch, i):
        return self.loss(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(model, callbacks=(), *, enable_progress_bar=False):
    lightning.seed_everything(0)
    data = TensorDataset(torch.randn(80, 8), torch.randint(0, 3, (80,)))
    lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(timeout=datetime.timedelta(seconds=60)),
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=enable_progress_bar,
        enable_model_summary=False,
        callbacks=list(callbacks),
    ).fit(model, DataLoader(data, 4))
