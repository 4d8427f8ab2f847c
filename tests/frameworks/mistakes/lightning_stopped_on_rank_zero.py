"""Lightning: a callback stops training on rank 0 alone, in the midst of an epoch.

expect: op_mismatch role_mismatch
suspects: none
status: diverged
cause: should_stop; The epoch was over on rank 0, and not on rank 1
fix: every rank; reduce_boolean_decision; should_stop
never: find_unused_parameters; join(); drop_last; logs do not show
"""

import datetime
import tempfile

import common
import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from lightning_base import Model
from torch.utils.data import DataLoader, TensorDataset


class Stop(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, i):
        trainer.strategy.barrier()
        if i == 5 and (common.TWIN or trainer.is_global_zero):
            trainer.should_stop = True


lightning.seed_everything(0)
data = TensorDataset(torch.randn(80, 8), torch.randint(0, 3, (80,)))
folder = [tempfile.mkdtemp()]
lightning.Trainer(
    accelerator="cpu",
    devices=2,
    strategy=DDPStrategy(timeout=datetime.timedelta(seconds=60)),
    max_epochs=2,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[Stop(), ModelCheckpoint(folder[0])],
).fit(Model(), DataLoader(data, 4))  # BUG
