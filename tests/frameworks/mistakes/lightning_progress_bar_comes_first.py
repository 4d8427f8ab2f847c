"""Lightning: rank 0's progress bar reduces what was logged before a metric is computed by hand.

expect: op_mismatch role_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; progress bar; on_train_epoch_end*; BUG
fix: enable_progress_bar=False; on_train_epoch_end
never: find_unused_parameters; join(); drop_last; logs do not show; rank_zero_only
"""

import common
from lightning_base import Model, fit
from torchmetrics.classification import MulticlassConfusionMatrix


class Counts(Model):
    def __init__(self):
        super().__init__()
        self.confusion = MulticlassConfusionMatrix(3)

    def training_step(self, batch, i):
        self.confusion.update(self.net(batch[0]).argmax(1), batch[1])
        loss = self.loss(batch)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_epoch_end(self):
        self.confusion.compute()  # BUG


fit(Counts(), enable_progress_bar=not common.TWIN)
