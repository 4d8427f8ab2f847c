import common
import lightning
import torch
import torchmetrics
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 3)
        self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3)

    def training_step(self, batch, i):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, sync_dist=True)
        common.told(f"{self.current_epoch}.{i}", loss)
        return loss

    def validation_step(self, batch, i):
        answer = self.net(batch[0])
        self.accuracy(answer, batch[1])
        self.log("val_accuracy", self.accuracy)
        self.log("val_loss", nn.functional.cross_entropy(answer, batch[1]), sync_dist=True)

    def on_validation_epoch_end(self):
        self.all_gather(torch.tensor(float(self.global_rank)))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


lightning.seed_everything(0)
data = TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,)))
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=2,
    strategy="ddp",
    max_epochs=2,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[
        ModelCheckpoint(dirpath="saved", monitor="val_loss"),
        EarlyStopping(monitor="val_loss", patience=5),
    ],
)
trainer.fit(Model(), DataLoader(data, 4), DataLoader(data, 4))
trainer.save_checkpoint("saved/last.ckpt")
